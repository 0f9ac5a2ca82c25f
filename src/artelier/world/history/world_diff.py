"""The hash of a world's history, and the difference between two worlds."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import zip_longest
from typing import Any, Generic, NamedTuple, TypeVar, cast

import msgspec

from artelier.artifacts import account_of
from artelier.artifacts.queries import heads
from artelier.errors import CorruptStore, Erased, Locked, NotFound
from artelier.ledger.queries import balances_of
from artelier.log import Event, Store, Stream, blob_name
from artelier.money import SCRIP
from artelier.world.events import ActionRejected, TickPassed, world_space, world_stream
from artelier.world.history.history_fold import StreamReach, events_of, reaches, tick_of
from artelier.world.kernel_adapter import Host
from artelier.world.queries.worlds import joined_agents

T = TypeVar("T")

# --------------------------------------------------------------------------- world hash
# The hash of a world: equal for equal histories, whatever the world is called and wherever it is kept.
# It covers every event of the world's space, stream by stream in the order of their names, each by seq.
# Left out is what belongs to the store: positions, commits, chains of hashes, and the runs in which
# agents asked models. Replaced is what differs between equal worlds: content is named by its plain
# SHA-256 instead of a tenant's key, the world's stream is called `world`, holds are numbered as they
# come, and whoever steers the world from outside is `host`.


FORM = b"artelier.world 1\n"
"""Stands before everything that is hashed; another form of the hash has another one."""

DIGESTS_MAX = 100_000
"""Contents whose hash is remembered; beyond it all are forgotten."""

_REF = re.compile(rb'(?<=[{\[:,])"(b:[A-Za-z0-9_-]{43})"(?!:)')
"""A reference in canonical JSON: a whole string, and no key. Within a string a quote follows a backslash."""

_encode = msgspec.json.Encoder(order="sorted").encode


class WorldHash(NamedTuple):
    """The hash of a world in hex, and the part of its history that it covers."""

    world: str
    tick: int
    """The last one that is covered, with what the host did until the next."""
    events: int
    sha256: str


async def hash_world(host: Host, world: str, *, at: int | None = None) -> WorldHash:
    """The hash of a world up to and including a tick, by default the newest.

    Cost: every event and content is read once; memory does not grow with the history.
    Errors: `NotFound`; `InvalidRequest` for a tick that has not passed; `Erased`; `CorruptStore` for content
    that is gone.
    """
    tick = await tick_of(host, world, at)
    store = host.services.store
    found = await reaches(store, host.id, world, tick=tick)
    own = world_space(world)
    digest, count = sha256(FORM), 0
    contents = Contents(store, host.id)
    for reach in sorted(found, key=lambda one: local_name(one.stream.local, own)):
        async for _event, normal in normal_events(store, reach, contents):
            digest.update(_encode(normal))
            digest.update(b"\n")
            count += 1
    return WorldHash(world, tick, count, digest.hexdigest())


class Normal(msgspec.Struct, frozen=True):
    """The parts of an event that are the same for equal events."""

    # Field order is the sorted order: it is the canonical form.
    actor: str
    at: int
    cause: str | None
    data: msgspec.Raw
    kind: str
    seq: int
    stream: str
    version: int


async def normal_events(
    store: Store, reach: StreamReach, contents: Contents
) -> AsyncIterator[tuple[Event, Normal]]:
    """Every event of a stream, as it stands and in its normal form."""
    form = NormalForm(reach.stream, contents)
    async for event in events_of(store, reach):
        yield event, await form.of(event)


class Contents:
    """SHA-256 of content, by reference."""

    def __init__(self, store: Store, tenant: str) -> None:
        self.store = store
        self.tenant = tenant
        self._known: dict[str, str] = {}

    async def digest(self, ref: str, *, event: Event | None = None) -> str:
        """Hex. Errors: `Erased`, or `CorruptStore` if the content is gone, naming the event that needs it."""
        known = self._known.get(ref)
        if known is None:
            known = sha256(await self.of(ref, event=event)).hexdigest()
            if len(self._known) >= DIGESTS_MAX:
                self._known.clear()
            self._known[ref] = known
        return known

    async def of(self, ref: str, *, event: Event | None = None) -> bytes:
        """The content. Errors: `Erased`; `CorruptStore` if it is gone otherwise."""
        where = f"event {event.seq} of {event.stream.local}" if event else "this world"
        try:
            return await self.store.blob(self.tenant, blob_name(ref))
        except Locked:
            raise
        except Erased:
            raise Erased(
                f"content that {where} needs was erased",
                got=ref,
                hint="A world of which something was erased has no hash, and cannot be carried.",
            ) from None
        except NotFound:
            raise CorruptStore(f"content that {where} needs is gone", got=ref) from None


class NormalForm:
    """Gives the events of one stream, in order, their normal form."""

    def __init__(self, stream: Stream, contents: Contents) -> None:
        self._own = stream.space
        self._local = local_name(stream.local, stream.space)
        self._contents = contents
        self._holds: dict[str, str] = {}
        self._held = 0

    async def of(self, event: Event) -> Normal:
        """The normal form of the next event."""
        names = {
            ref: b'"sha256:%s"' % (await self._contents.digest(ref.decode(), event=event)).encode()
            for ref in set(_REF.findall(event.data))
        }
        data = _REF.sub(lambda found: names[found[1]], event.data) if names else event.data
        if b'"hold":"' in data:
            plain: dict[str, Any] = msgspec.json.decode(data)
            if isinstance(plain.get("hold"), str):
                plain["hold"] = self._hold(plain["hold"], event.kind)
            data = _encode(plain)
        return Normal(
            actor="host" if is_host(event.actor) else event.actor,
            at=event.at_us,
            cause=local_name(event.cause, self._own) if event.cause else None,
            data=msgspec.Raw(data),
            kind=event.kind,
            seq=event.seq,
            stream=self._local,
            version=event.version,
        )

    def _hold(self, name: str, kind: str) -> str:
        """Holds have random names, each from the event that makes it to the one that ends it."""
        if name not in self._holds:
            self._held += 1
            self._holds[name] = f"hold {self._held}"
        return self._holds[name] if kind == "artifact.held" else self._holds.pop(name)


def local_name(local: str, space: str) -> str:
    """A stream of a world, or an event's cause, without the world's own name."""
    return local.replace(space, "world", 1) if local.startswith(space) else local


def is_host(actor: str) -> bool:
    """Return True if somebody steers the world from outside: the name of a person is no part of its
    history.
    """
    return actor == "operator" or actor.startswith("user:")


# --------------------------------------------------------------------------- agent diff
# The differences between the agents of two worlds: what each has, owns and did.


AGENTS_AT_ONCE = 200
"""Agents that are compared before others have their turn."""

Place = tuple[Store, str, str]
"""A store, a tenant, a world."""


class Sides(msgspec.Struct, Generic[T], frozen=True):
    """A value of both worlds."""

    a: T
    b: T


class AgentDifference(msgspec.Struct, omit_defaults=True):
    """The current differences of an agent between two worlds; what is the same is left out."""

    balance: Sides[int | None] | None = None
    state: Sides[str | None] | None = None
    active: Sides[bool | None] | None = None
    actions: dict[str, Sides[int]] = {}
    """By name, how often the agent did it."""
    owned: Sides[list[str]] | None = None
    """Ids that only one side has."""
    versions: dict[str, Sides[int]] = {}


async def differing(
    a: Place, b: Place, contents: list[Contents], actions: list[dict[tuple[str, str], int]]
) -> dict[str, AgentDifference]:
    """Return the current differences by agent; an agent without any is left out."""
    sides = [await _agents(one) for one in (a, b)]
    artifacts = [await _artifacts(one) for one in (a, b)]
    belongings = [_by_owner(one) for one in artifacts]
    did = [_by_agent(one) for one in actions]
    found: dict[str, AgentDifference] = {}
    for count, agent in enumerate(sorted(sides[0].keys() | sides[1].keys())):
        if count % AGENTS_AT_ONCE == 0:
            await asyncio.sleep(0)
        one, other = (side.get(agent) or (None, None, None) for side in sides)
        owned = [by_owner.get(agent, set()) for by_owner in belongings]
        facts = AgentDifference(
            balance=_unequal(one[0], other[0]),
            state=_unequal(one[1], other[1]),
            active=_unequal(one[2], other[2]),
            actions=_pairs([counted.get(agent, {}) for counted in did]),
            owned=_unequal(sorted(owned[0] - owned[1]), sorted(owned[1] - owned[0])),
            versions=await _versions(owned[0] | owned[1], artifacts, contents),
        )
        if facts != AgentDifference():
            found[agent] = facts
    return found


def _unequal(a: T, b: T) -> Sides[T] | None:
    return None if a == b else Sides(a, b)


def _pairs(counted: list[dict[str, int]]) -> dict[str, Sides[int]]:
    first, second = counted
    return {
        name: Sides(first.get(name, 0), second.get(name, 0))
        for name in sorted(first.keys() | second.keys())
        if first.get(name, 0) != second.get(name, 0)
    }


def _by_agent(actions: dict[tuple[str, str], int]) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for (agent, action), count in actions.items():
        found.setdefault(agent, {})[action] = count
    return found


async def _agents(place: Place) -> dict[str, tuple[int, str | None, bool]]:
    """Balance, state and whether it acts, by agent."""
    store, tenant, world = place
    space = world_space(world)
    rows = await joined_agents(store, tenant, space)
    money = await balances_of(store, tenant, space=space, asset=SCRIP)
    return {agent: (money.get(account_of(agent), 0), state, active) for agent, state, active in rows}


async def _artifacts(place: Place) -> dict[str, tuple[str, int, str, bool]]:
    """Owner, version, content and whether it is deleted, by id."""
    store, tenant, world = place
    found = await heads(store, tenant, world_space(world))
    return {one.id: (one.owner, one.version, one.content, one.deleted) for one in found}


def _by_owner(artifacts: dict[str, tuple[str, int, str, bool]]) -> dict[str, set[str]]:
    """Return the ids of what each has."""
    found: dict[str, set[str]] = {}
    for id_, (owner, _version, _content, is_deleted) in artifacts.items():
        if not is_deleted:
            found.setdefault(owner, set()).add(id_)
    return found


async def _versions(
    ids: set[str], artifacts: list[dict[str, tuple[str, int, str, bool]]], contents: list[Contents]
) -> dict[str, Sides[int]]:
    """Return the artifacts of both sides whose newest version differs, in number or in content."""
    found: dict[str, Sides[int]] = {}
    for id_ in sorted(ids):
        rows = [side.get(id_) for side in artifacts]
        a, b = rows
        if a is None or b is None:
            continue
        if a[1] == b[1]:
            names = [await one.digest(row[2]) for one, row in zip(contents, (a, b), strict=True)]
            if names[0] == names[1]:
                continue
        found[id_] = Sides(a[1], b[1])
    return found


# --------------------------------------------------------------------------- world diff


FIELDS_MAX = 20
"""Fields of one event that are named as different."""

TEXT_CHARS_MAX = 300
"""Of content that is shown."""


class WorldSide(NamedTuple):
    """One of the two worlds."""

    host: Host
    world: str

    @property
    def store(self) -> Store:
        return self.host.services.store


class ShownEvent(msgspec.Struct, frozen=True):
    """An event with its texts in place of references to them."""

    seq: int
    kind: str
    actor: str
    data: dict[str, Any]


class FieldDifference(msgspec.Struct, frozen=True):
    """A field that differs; `act.action` is one within another."""

    field: str
    a: Any
    b: Any


class EventDifference(msgspec.Struct, frozen=True):
    """The first event in which two worlds part, with the content that it is about."""

    tick: int
    between_ticks: bool
    kind: str
    actor: str
    a: ShownEvent | None
    b: ShownEvent | None
    differs: list[FieldDifference]


class WorldDiff(msgspec.Struct, frozen=True):
    """The difference between two worlds."""

    a: str
    b: str
    tick_a: int
    tick_b: int
    compared_to: int
    """The tick that both have passed."""
    equal: bool
    first: EventDifference | None
    first_tick: EventDifference | None
    """The first one that is no deed of the host between ticks."""
    agents: dict[str, AgentDifference]


async def diff_worlds(a: WorldSide, b: WorldSide) -> WorldDiff:
    """Return what `World.diff` gives. Cost: both histories are read once, a tick at a time."""
    ticks = [await tick_of(side.host, side.world, None) for side in (a, b)]
    upto = min(ticks)
    found = [await reaches(side.store, side.host.id, side.world, tick=upto) for side in (a, b)]
    contents = [Contents(side.store, side.host.id) for side in (a, b)]
    if a.store is b.store and a.host.id == b.host.id:
        contents[1] = contents[0]  # what they share is read once
    streams = _Comparison(contents)
    own = [_own(side, part) for side, part in zip((a, b), found, strict=True)]
    await streams.compare(own[0], own[1])
    charges = [
        {one.stream.local: one for one in part if one.stream.local.startswith("agent:")} for part in found
    ]
    for local in sorted(charges[0].keys() | charges[1].keys()):
        await streams.compare_charges(charges[0].get(local), charges[1].get(local))
    actions = [dict(one) for one in streams.actions]
    return WorldDiff(
        a=a.world,
        b=b.world,
        tick_a=ticks[0],
        tick_b=ticks[1],
        compared_to=upto,
        equal=streams.first is None and ticks[0] == ticks[1],
        first=await streams.describe(streams.first),
        first_tick=await streams.describe(streams.first_tick),
        agents=await differing(
            (a.store, a.host.id, a.world), (b.store, b.host.id, b.world), contents, actions
        ),
    )


def _own(side: WorldSide, found: list[StreamReach]) -> StreamReach:
    stream = world_stream(side.host.id, side.world)
    return next((one for one in found if one.stream == stream), StreamReach(stream, 0, 0))


class _FoldedEvent(NamedTuple):
    """An event in its recorded form and in the form that is compared."""

    event: Event
    normal: Normal


class _TickGroup(NamedTuple):
    """The events of one tick, or of the time between it and the next."""

    tick: int
    is_between: bool
    events: list[_FoldedEvent]

    @property
    def place(self) -> tuple[int, bool]:
        return self.tick, self.is_between


@dataclass(slots=True)
class _Difference:
    tick: int
    is_between: bool
    a: _FoldedEvent | None
    b: _FoldedEvent | None


@dataclass(slots=True)
class _Comparison:
    """Takes two worlds stream by stream and remembers where they part."""

    contents: list[Contents]
    first: _Difference | None = None
    first_tick: _Difference | None = None
    actions: list[Counter[tuple[str, str]]] = field(
        default_factory=lambda: [Counter[tuple[str, str]](), Counter[tuple[str, str]]()]
    )
    """How often each agent did what, by `(agent, action)`."""

    async def compare(self, a: StreamReach, b: StreamReach) -> None:
        """The streams of both worlds."""
        sides = [
            _groups(normal_events(one.store, reach, one))
            for one, reach in zip(self.contents, (a, b), strict=True)
        ]
        groups = [await anext(side, None) for side in sides]
        while groups[0] is not None or groups[1] is not None:
            place = min(group.place for group in groups if group is not None)
            now = [group if group is not None and group.place == place else None for group in groups]
            self._take(place, now)
            for n in (0, 1):
                if now[n] is not None:
                    groups[n] = await anext(sides[n], None)

    def _take(self, place: tuple[int, bool], groups: list[_TickGroup | None]) -> None:
        events = [group.events if group is not None else [] for group in groups]
        for counted, found in zip(self.actions, events, strict=True):
            counted.update(_acts(found))
        if self.first is not None and self.first_tick is not None:
            return
        for one, other in zip_longest(*events):
            if not _same(one, other):
                self._note(_Difference(*place, one, other))
                return

    async def compare_charges(self, a: StreamReach | None, b: StreamReach | None) -> None:
        """Compare what the prompts of one agent have cost: charges come before the actions of their tick."""
        sides = [
            aiter(normal_events(one.store, reach, one)) if reach is not None else None
            for one, reach in zip(self.contents, (a, b), strict=True)
        ]
        while True:
            found = [await anext(side, None) if side is not None else None for side in sides]
            if found == [None, None]:
                return
            pair = [_FoldedEvent(*one) if one is not None else None for one in found]
            if not _same(pair[0], pair[1]):
                tick = min(one.event.at_us for one in pair if one is not None)
                self._note(_Difference(tick, False, pair[0], pair[1]))
                return

    def _note(self, found: _Difference) -> None:
        place = (found.tick, found.is_between)
        if self.first is None or place < (self.first.tick, self.first.is_between):
            self.first = found
        if not found.is_between and (self.first_tick is None or found.tick < self.first_tick.tick):
            self.first_tick = found

    async def describe(self, found: _Difference | None) -> EventDifference | None:
        """Return a difference with the content that it is about."""
        if found is None:
            return None
        sides = (found.a, found.b)
        shown = [
            await _describe_event(one, contents) if one is not None else None
            for one, contents in zip(sides, self.contents, strict=True)
        ]
        named = found.a or found.b
        assert named is not None
        return EventDifference(
            tick=found.tick,
            between_ticks=found.is_between,
            kind=named.event.kind,
            actor=named.event.actor,
            a=shown[0],
            b=shown[1],
            differs=_fields(shown[0], shown[1]),
        )


async def _groups(events: AsyncIterator[tuple[Event, Normal]]) -> AsyncIterator[_TickGroup]:
    """Events of a world's stream by tick; those that the host wrote after a tick apart."""
    passed = 0
    group = _TickGroup(0, True, [])
    async for one in events:
        event = one[0]
        is_between = event.at_us <= passed
        tick = passed if is_between else event.at_us
        if (tick, is_between) != group.place:
            if group.events:
                yield group
            group = _TickGroup(tick, is_between, [])
        group.events.append(_FoldedEvent(*one))
        if event.kind == TickPassed.KIND:
            passed = event.at_us
    if group.events:
        yield group


def _same(a: _FoldedEvent | None, b: _FoldedEvent | None) -> bool:
    if a is None or b is None:
        return False
    one, other = a.normal, b.normal
    return bytes(one.data) == bytes(other.data) and (one.kind, one.actor, one.at, one.version, one.cause) == (
        other.kind,
        other.actor,
        other.at,
        other.version,
        other.cause,
    )


def _acts(events: list[_FoldedEvent]) -> Iterator[tuple[str, str]]:
    for one in events:
        act = one.event.plain().get("act") if b'"act":{' in one.event.data else None
        if isinstance(act, dict):
            name: object = cast("dict[str, object]", act).get("action") or "invalid"
            rejected = one.event.kind == ActionRejected.KIND
            yield one.event.actor, f"{name}, rejected" if rejected else str(name)


async def _describe_event(one: _FoldedEvent, contents: Contents) -> ShownEvent:
    event = one.event
    return ShownEvent(
        event.seq, event.kind, event.actor, cast("dict[str, Any]", await _load_texts(event.plain(), contents))
    )


async def _load_texts(value: object, contents: Contents) -> object:
    if isinstance(value, dict):
        found = cast("dict[str, Any]", value)
        return {key: await _load_texts(item, contents) for key, item in found.items()}
    if isinstance(value, list):
        return [await _load_texts(item, contents) for item in cast("list[Any]", value)]
    if isinstance(value, str) and len(value) == 45 and value.startswith("b:"):
        try:
            text = (await contents.of(value)).decode(errors="replace")
        except (CorruptStore, Erased):
            return value
        return text if len(text) <= TEXT_CHARS_MAX else text[: TEXT_CHARS_MAX - 1] + "…"
    return value


def _fields(a: ShownEvent | None, b: ShownEvent | None) -> list[FieldDifference]:
    """Return the fields that differ, with both values."""
    if a is None or b is None:
        return []
    found = [
        FieldDifference(name, one, other)
        for name, one, other in (("kind", a.kind, b.kind), ("actor", a.actor, b.actor))
        if one != other
    ]
    _compare(a.data, b.data, "", found)
    return found[:FIELDS_MAX]


def _compare(a: object, b: object, at: str, found: list[FieldDifference]) -> None:
    if isinstance(a, dict) and isinstance(b, dict):
        left, right = cast("dict[str, Any]", a), cast("dict[str, Any]", b)
        for key in sorted(left.keys() | right.keys()):
            _compare(left.get(key), right.get(key), f"{at}.{key}" if at else key, found)
    elif a != b:
        found.append(FieldDifference(at, a, b))
