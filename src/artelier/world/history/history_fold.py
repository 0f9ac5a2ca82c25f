"""The history of a world: its streams, how far a tick reaches in each, and its fold in the order of ticks.

A tick is passed when its `tick.passed` is durable. What the host does between two ticks is dated with the one
that passed last and belongs to it. What prompts of an unfinished tick have cost is dated with that tick, and
belongs to no history yet.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heapreplace
from typing import Any, NamedTuple, TypeVar, cast

from artelier.artifacts import (
    Act,
    ArtifactDeleted,
    ArtifactInvoked,
    ArtifactTransferred,
    ArtifactWritten,
    account_of,
)
from artelier.errors import Conflict, InvalidRequest, NotFound
from artelier.kernel.events import BILLING
from artelier.kernel.queries.runs import find_run, is_imported
from artelier.ledger import Moving
from artelier.log import Event, EventData, Store, Stream, decode_stored
from artelier.log.queries import position_of
from artelier.money import SCRIP
from artelier.world import events as ev
from artelier.world.events import Ancestor, world_space, world_stream
from artelier.world.kernel_adapter import Host, continuation_of, run_id_of
from artelier.world.queries.worlds import (
    START,
    Checkpoint,
    StreamReach,
    agent_runs,
    ancestors,
    begins_by,
    find_world,
    joined_agents,
    model_calls_after,
    newest_seq_before,
    stream_reaches,
)

PAGE = 1000
"""Events in memory of a stream that is read through."""


async def tick_of(host: Host, world: str, at: int | None) -> int:
    """A tick that has passed: `at`, or the newest. Errors: `NotFound`, `InvalidRequest`."""
    found = await find_world(host.services.store, host.id, world)
    if found is None:
        raise NotFound(f"there is no world {world}", hint="`artelier world list` shows the worlds there are.")
    newest = found.tick
    if at is None:
        return newest
    if isinstance(at, bool) or not isinstance(cast(object, at), int) or not 0 <= at <= newest:
        raise InvalidRequest(
            f"world {world} has not passed this tick",
            expected=f"a tick from 0 to {newest}",
            got=repr(at)[:80],
        )
    return at


async def reaches(store: Store, tenant: str, world: str, *, tick: int) -> list[StreamReach]:
    """Every stream of the world that begins by the end of `tick`, by name, and how far it counts.

    Cost: O(streams * log events): ticks never go back within a stream, so that they are halved.
    """
    return await stream_reaches(store, tenant, world_space(world), tick=tick)


async def events_of(
    store: Store, reach: StreamReach, *, after: int = 0, page_events: int = PAGE
) -> AsyncIterator[Event]:
    """The events of a stream beyond `after` and up to its reach, page by page."""
    while after < reach.seq:
        page = await store.read(reach.stream, after=after, limit=min(page_events, reach.seq - after))
        if not page:
            return
        for event in page:
            yield event
        after = page[-1].seq
        await asyncio.sleep(0)


async def run_reaches(host: Host, world: str, *, position: int) -> dict[str, int]:
    """Every run with prompts of the world's agents, and the position up to which it counts."""
    store = host.services.store
    agents = [one.agent for one in await joined_agents(store, host.id, world_space(world))]
    upto = {world: position}
    for one in await ancestors(store, host.id, world):
        upto.setdefault(one.world, await _position(store, host.id, one) or position)
    found: dict[str, int] = {}
    for name, last in upto.items():
        for agent in agents:
            for run in await _own_runs(host, name, agent):
                if await begins_by(store, host.id, run, position=last):
                    found[run] = max(last, found.get(run, 0))
        await asyncio.sleep(0)
    return found


async def _position(store: Store, tenant: str, ancestor: Ancestor) -> int:
    """Return the position of the last event of an ancestor's tick; 0 if that world is not here."""
    found = await reaches(store, tenant, ancestor.world, tick=ancestor.tick)
    own = world_stream(tenant, ancestor.world)
    return max((one.position for one in found if one.stream == own), default=0)


async def _own_runs(host: Host, world: str, agent: str) -> list[str]:
    """The run of an agent, then those in which it goes on where the one before is a record."""
    found: list[str] = []
    run = run_id_of(world, agent)
    while await find_run(host.services.store, host.id, run) is not None:
        found.append(run)
        if not await is_imported(host.services.store, host.id, run):
            break
        run = continuation_of(run)
    return found


# --------------------------------------------------------------------------- session check
# Sessions of agents with a profile: what operations keep stands beside the world, and does not travel.


NAMED_MAX = 5
"""Agents that an error names."""

_TICK_US = 1_000_000


async def check_no_sessions(host: Host, world: str, *, tick: int, what: str) -> None:
    """Errors: `Conflict` that names agents whose operations have kept artifacts by the end of a tick.

    Cost: one query over the names of chats that begin like the runs of the world.
    """
    from artelier.chat.queries.chats import opened_chats  # loads pydantic, and few worlds are forked

    chats = await opened_chats(
        host.services.store,
        host.id,
        after=f"{world}/",
        before=f"{world}0",
        upto_us=tick * _TICK_US,
        limit=NAMED_MAX,
    )
    if chats:
        agents = ", ".join(chat.removeprefix(f"{world}/") for chat in chats)
        raise Conflict(
            f"world {world} cannot be {what} after tick {tick}: operations of agents keep artifacts in"
            " sessions of their own, which do not go with it",
            got=f"agents with a profile: {agents}"[:1_000],
            hint="Fork at a tick before their first one with operations, or use agents without a profile.",
        )


# --------------------------------------------------------------------------- fold
# A world's history in the order of its ticks, and the state that it leaves after each.
#
# The events of a world stand in several streams: its own, and one for what the prompts of each agent cost.
# Here they are merged by tick, a page of each in memory. This is the fold on demand behind metrics, plots
# and tables; what ticks read stands in `view.py` and `tick/world_state.py`.


# --------------------------------------------------------------------------- checkpoints
# Checkpoints of a world's money and agents, so that figures of some ticks cost those ticks.
# The view writes one each `CHECKPOINT_TICKS` ticks, in the transaction of the tick; `history_fold.py`
# goes on from there. What the host did after that tick stands behind `seq` and is folded again.


async def behind(
    store: Store, tenant: str, world: str, found: list[StreamReach], checkpoint: Checkpoint
) -> dict[Stream, int]:
    """Return the last event of each stream that the checkpoint covers."""
    if checkpoint.tick == 0:
        return {}
    covered = {one.stream: one.seq for one in await reaches(store, tenant, world, tick=checkpoint.tick)}
    own = world_space(world)
    return {
        one.stream: checkpoint.seq if one.stream.local == own else covered.get(one.stream, 0) for one in found
    }


# --------------------------------------------------------------------------- history fold


HELD_EVENTS_MAX = 20_000
"""Events in memory over all streams: each has a page of its share."""
PAGE_EVENTS_MAX = 500
"""Events of one stream that are read and folded before others have their turn."""

_ASKING = tuple(kind for kind in BILLING if kind.startswith(("model.", "step.")))
"""Kinds that say what asking a model has cost."""
_OF_TICK = re.compile(r"t(\d+)/")
"""How the keys of an agent's steps begin."""


class Span(NamedTuple):
    """Ticks of a world, both inclusive; none if `last` is before `first`."""

    first: int
    last: int


async def span_of(host: Host, world: str, *, from_tick: int, to_tick: int | None) -> Span:
    """The ticks that are asked for. Errors: `NotFound`, `InvalidRequest` for ticks that have not passed."""
    last = await tick_of(host, world, to_tick)
    # Also the tick after the last one: a world that has passed none yet has no figures, and no error.
    if type(cast(object, from_tick)) is not int or not 0 <= from_tick <= last + 1:
        raise InvalidRequest(
            "the first tick is not before the last one",
            expected=f"a tick from 0 to {last}",
            got=repr(from_tick)[:80],
        )
    return Span(from_tick, last)


async def history_of(
    host: Host, world: str, *, to_tick: int, since: Checkpoint = START
) -> AsyncIterator[Event]:
    """Return the events of a world up to the end of a tick, by tick; those of one stream by seq.

    What prompts cost in a tick comes before what was done in it. Cost: every event behind `since` is read
    once, at most `HELD_EVENTS_MAX` (or one of each stream) are in memory.
    """
    store = host.services.store
    found = await reaches(store, host.id, world, tick=to_tick)
    covered = await behind(store, host.id, world, found, since)
    own = world_space(world)
    found.sort(key=lambda one: one.stream.local == own)
    share = _page_size(len(found))
    feeds = [
        events_of(store, reach, after=covered.get(reach.stream, 0), page_events=share) for reach in found
    ]
    async for event in _merge(feeds, lambda one: one.at_us):
        yield event


def _page_size(feeds: int) -> int:
    return max(1, min(PAGE_EVENTS_MAX, HELD_EVENTS_MAX // max(1, feeds)))


Item = TypeVar("Item")


async def _merge(feeds: Sequence[AsyncIterator[Item]], time_of: Callable[[Item], int]) -> AsyncIterator[Item]:
    """Yield what feeds hold by time; at one time the earlier feed comes first."""
    heads: list[tuple[int, int, Item]] = []
    for n, feed in enumerate(feeds):
        async for head in feed:
            heads.append((time_of(head), n, head))
            break
    heapify(heads)
    while heads:
        _, n, item = heads[0]
        yield item
        async for after in feeds[n]:
            heapreplace(heads, (time_of(after), n, after))
            break
        else:
            heappop(heads)


# What models cost


class AskedModel(NamedTuple):
    """A model was asked for an agent; a call that failed may have cost something too."""

    tick: int
    agent: str
    input_tokens: int
    output_tokens: int
    cost_microusd: int


async def asked_of(
    host: Host, world: str, span: Span, *, since: Checkpoint = START
) -> AsyncIterator[AskedModel]:
    """Return what models were asked for the agents of a world in some ticks, by tick.

    Of a world with ancestors (a fork, one out of a file) each tick counts in the world that passed it. What
    this world has asked before `since` is not read.
    """
    store = host.services.store
    spans = {world: Span(0, span.last)}
    newest = world
    for one in await ancestors(store, host.id, world):
        spans[newest] = Span(one.tick + 1, spans[newest].last)
        spans.setdefault(one.world, Span(0, one.tick))
        newest = one.world
    runs = [
        (run, agent, Span(max(span.first, within.first), within.last), begun)
        for name, within in spans.items()
        if max(span.first, within.first) <= within.last
        for run, agent in await _runs(store, host.id, name)
        for begun in [await _asked_by(store, host.id, run, since, world) if name == world else 0]
    ]
    share = _page_size(len(runs))
    feeds = [_read_asked(store, *one, share=share) for one in runs]
    async for asked in _merge(feeds, lambda one: one.tick):
        yield asked


async def _runs(store: Store, tenant: str, world: str) -> list[tuple[int, str]]:
    """The runs of a world's agents, and whose they are. A run that goes on another names the same agent."""
    first = run_id_of(world, "")
    behind = first[:-1] + chr(ord(first[-1]) + 1)
    found = await agent_runs(store, tenant, first=first, before=behind)
    return [(run, agent.removeprefix(first)) for run, agent in found if agent.startswith(first)]


async def _asked_by(store: Store, tenant: str, run: int, since: Checkpoint, world: str) -> int:
    """Return the last event of an agent's run before a checkpoint. Cost: the events behind it."""
    if since.tick == 0:
        return 0
    position = await position_of(store, world_stream(tenant, world), since.seq)
    return await newest_seq_before(store, run, position=position)


async def _read_asked(
    store: Store, run: int, agent: str, within: Span, after: int, *, share: int
) -> AsyncIterator[AskedModel]:
    while True:
        rows = await model_calls_after(store, run, _ASKING, after=after, limit=share)
        for _seq, data in rows:
            fields = decode_stored(data, type=dict[str, Any])
            named = _OF_TICK.match(fields["key"])
            if named is None or not within.first <= int(named[1]) <= within.last:
                continue
            yield AskedModel(
                int(named[1]),
                agent,
                fields.get("input_tokens", 0),
                fields.get("output_tokens", 0),
                fields.get("cost", 0),
            )
        if len(rows) < share:
            return
        after = rows[-1].seq
        await asyncio.sleep(0)


# The state


@dataclass(slots=True)
class AgentNow:
    """The current state of an agent, as the view of worlds has it."""

    id: str
    is_active: bool = True
    state: str | None = None
    ticks_in_state: int = 0
    failures: int = 0
    last_action: str | None = None
    last_ok: bool | None = None


@dataclass(slots=True)
class SocietyState:
    """Money, artifacts and agents after the events so far. Memory: O(agents + artifacts)."""

    money: dict[str, int] = field(default_factory=dict[str, int])
    """Scrip by account."""
    kinds: dict[str, str] = field(default_factory=dict[str, str])
    """Of artifacts."""
    owners: dict[str, str] = field(default_factory=dict[str, str])
    """Of artifacts that are not deleted."""
    owned: dict[str, int] = field(default_factory=dict[str, int])
    """How many somebody owns."""
    everyone: dict[str, AgentNow] = field(default_factory=dict[str, AgentNow])
    """All who ever joined, in the order in which they first did."""

    @classmethod
    def from_checkpoint(cls, since: Checkpoint, *, kinds: Mapping[str, str]) -> SocietyState:
        """Return money and agents as a checkpoint has them. Owners and what agents did last are not in it."""
        everyone = {name: AgentNow(name, is_active) for name, is_active in since.agents.items()}
        return cls(money=dict(since.money), kinds=dict(kinds), everyone=everyone)

    @property
    def agents(self) -> list[AgentNow]:
        """The active agents, in the order in which they joined."""
        return [one for one in self.everyone.values() if one.is_active]

    def balance(self, principal: str) -> int:
        return self.money.get(account_of(principal), 0)

    def take(self, event: Event) -> EventData:
        """One more event; its data, typed. Errors: `UnknownEvent` for what another version wrote."""
        data = event.decode()
        if isinstance(data, Moving):
            for posting in data.postings:
                if posting.asset == SCRIP:
                    self._add(posting.source, -posting.amount)
                    self._add(posting.target, posting.amount)
        if isinstance(data, ArtifactWritten):
            self.kinds[data.id] = data.kind
            self._own(data.id, data.owner)
        elif isinstance(data, ArtifactTransferred):
            self._own(data.id, data.to)
        elif isinstance(data, ArtifactDeleted):
            self._own(data.id, None)
        elif isinstance(data, ev.AgentJoined):
            self.everyone.setdefault(data.agent, AgentNow(data.agent)).is_active = True
        elif isinstance(data, ev.AgentLeft):
            self.everyone[data.agent].is_active = False
        elif isinstance(data, ev.AgentMoved):
            self._move(data)
        if (act := act_of(data)) is not None:
            self._step(event.actor, act, succeeded=did_succeed(data))
        return data

    def _add(self, account: str, amount: int) -> None:
        self.money[account] = self.money.get(account, 0) + amount

    def _own(self, artifact: str, owner: str | None) -> None:
        before = self.owners.pop(artifact, None)
        if before is not None:
            self.owned[before] -= 1
        if owner is not None:
            self.owners[artifact] = owner
            self.owned[owner] = self.owned.get(owner, 0) + 1

    def _move(self, data: ev.AgentMoved) -> None:
        agent = self.everyone.get(data.agent)
        if agent is not None and data.origin != data.to:
            agent.state, agent.ticks_in_state = data.to, 0

    def _step(self, actor: str, act: Act, *, succeeded: bool) -> None:
        agent = self.everyone.get(actor)
        if agent is None:
            return
        agent.last_action, agent.last_ok = act.action, succeeded
        agent.failures = 0 if succeeded else agent.failures + 1
        agent.ticks_in_state += agent.state is not None


def act_of(data: EventData) -> Act | None:
    """The step of an agent that ended in an event."""
    return getattr(data, "act", None)


def did_succeed(data: EventData) -> bool:
    """Return True if an event with an act is that of something done."""
    if isinstance(data, ArtifactInvoked):
        return data.outcome == "done"
    return not isinstance(data, ev.ActionRejected)
