"""The lists of worlds, agents and events, for commands and pages."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from typing import Any, cast

import msgspec

from artelier.artifacts.queries import count_kinds
from artelier.errors import CorruptStore, InvalidRequest, NotFound
from artelier.ledger.queries import balances_of
from artelier.log import Event, blob_name, registered
from artelier.money import SCRIP
from artelier.world.events import Ancestor, world_space, world_stream
from artelier.world.kernel_adapter import Host, Unbound, host_of
from artelier.world.queries.market import OfferRow, count_open_offers, count_sold, offer_rows
from artelier.world.queries.worlds import (
    AgentStanding,
    ListedWorld,
    agent_standings,
    count_agents,
    has_joined,
    listed_worlds,
    unfinished_forks,
)
from artelier.world.world import World

TEXTS = ("reasoning", "result", "reason", "text")
"""Fields of events whose text is shown with them."""

TEXT_CHARS_MAX = 2_000

WINDOW = 200
"""Events that are read at once (guess: 5 ms): then everybody else has a turn."""


class WorldEventRow(msgspec.Struct, frozen=True):
    """An event of a world with what was said in it."""

    seq: int
    tick: int
    kind: str
    actor: str
    data: dict[str, Any]
    """Its fields, references to texts replaced by the texts."""


class WorldEventPage(msgspec.Struct, frozen=True):
    """Events in order, and the `after` of the next page; None at the end."""

    items: list[WorldEventRow]
    next: int | None


class WorldOverview(msgspec.Struct, frozen=True):
    """The figures of a world. Scrip in holds is not counted as scrip."""

    agents: int
    artifacts: int
    scrip: int
    held: int
    open_offers: int
    sold: int


async def worlds(kernel: Host | Unbound) -> list[ListedWorld]:
    """Return the worlds of a tenant, by id."""
    host = host_of(kernel)
    return await listed_worlds(host.services.store, host.id)


async def interrupted_forks(kernel: Host | Unbound) -> list[tuple[str, Ancestor]]:
    """Return forks that are being copied, or that nobody goes on with: their names, and what they are of."""
    host = host_of(kernel)
    return await unfinished_forks(host.services.store, host.id)


async def agents(world: World) -> list[AgentStanding]:
    """Return the agents that act, the richest first."""
    await world.row()
    return await agent_standings(world.host.services.store, world.host.id, world_space(world.id))


async def log(
    world: World,
    *,
    after: int = 0,
    limit: int = 100,
    last: int | None = None,
    actor: str | None = None,
    tick: int | None = None,
    kinds: Sequence[str] = (),
) -> WorldEventPage:
    """Return events of a world with what was said in them.

    `after` is a seq; `next` is what to give there for more, None at the end. `last` asks for the newest
    instead, that many, the oldest of them first.

    Errors: `InvalidRequest` for a kind that no event has; `NotFound` for an actor that this world never saw.
    """
    await world.row()
    check_kinds(kinds)

    def is_wanted(one: Event) -> bool:
        return (
            (actor is None or one.actor == actor)
            and (not kinds or one.kind in kinds)
            and (tick is None or one.at_us == tick)
        )

    if last is not None:
        found, following = await _newest(world, is_wanted, last), None
    else:
        found, following = await _oldest(world, is_wanted, after, limit)
    if actor is not None and not found:
        await _check_actor(world, actor)
    return WorldEventPage([await _item(world.host, one) for one in found], following)


def check_kinds(kinds: Sequence[str]) -> None:
    """Errors: `InvalidRequest` for a kind that no event has, with those that are like it."""
    known = {kind for kind, _ in registered()}
    for kind in kinds:
        if kind not in known:
            near = get_close_matches(kind, known, n=3) or sorted(
                one for one in known if one.split(".")[0] == kind.split(".")[0]
            )
            raise InvalidRequest(
                "no event has this kind",
                got=kind,
                expected=", ".join(near) or None,
                hint="docs/events.md lists them all.",
            )


async def _oldest(
    world: World, wanted: Callable[[Event], bool], after: int, limit: int
) -> tuple[list[Event], int | None]:
    """A page, and where the next one begins."""
    store, stream = world.host.services.store, world_stream(world.host.id, world.id)
    found: list[Event] = []
    while page := await store.read(stream, after=after, limit=WINDOW):
        await asyncio.sleep(0)  # reading gives nobody a turn, and there may be nothing to find
        for one in page:
            after = one.seq
            if wanted(one):
                found.append(one)
                if len(found) == limit:
                    head, _hash = await store.head(stream)
                    return found, after if after < head else None
    return found, None


async def _newest(world: World, wanted: Callable[[Event], bool], count: int) -> list[Event]:
    """Read backwards, a window at a time, until there are enough."""
    store, stream = world.host.services.store, world_stream(world.host.id, world.id)
    end, _hash = await store.head(stream)
    found: list[Event] = []
    while end > 0 and len(found) < count:
        start = max(0, end - WINDOW)
        found = [*filter(wanted, await store.read(stream, after=start, limit=end - start)), *found]
        end = start
        await asyncio.sleep(0)
    return found[-count:]


async def _check_actor(world: World, actor: str) -> None:
    """Errors: `NotFound` for one who never joined and of whom there is no event."""
    store, tenant = world.host.services.store, world.host.id
    is_known = await has_joined(store, tenant, world_space(world.id), actor)
    if not is_known and not await _newest(world, lambda one: one.actor == actor, 1):
        raise NotFound(
            f"nobody called {actor} was ever in world {world.id}",
            hint=f"Who is there: artelier world agents {world.id}",
        )


async def _item(host: Host, one: Event) -> WorldEventRow:
    await asyncio.sleep(0)  # its texts are read in one turn
    data = one.plain()
    await _say(host, data)
    await _say_settings(host, data)
    return WorldEventRow(one.seq, one.at_us, one.kind, one.actor, data)


async def _say_settings(host: Host, data: dict[str, Any]) -> None:
    """Add what a `configure` set, by name, as `configured`; None for a removed setting."""
    act = data.get("act")
    if not isinstance(act, dict) or cast("dict[str, Any]", act).get("action") != "configure":
        return
    ref, names = data.get("content"), str(cast("dict[str, Any]", act).get("ref", "")).split(", ")
    if not isinstance(ref, str):
        return
    try:
        content = msgspec.json.decode(await host.services.store.blob(host.id, blob_name(ref)))
    except (NotFound, CorruptStore, msgspec.DecodeError):
        return
    if isinstance(content, dict):
        data["configured"] = {name: cast("dict[str, Any]", content).get(name) for name in names}


async def _say(host: Host, data: dict[str, Any]) -> None:
    """Replace references by the text behind them, in the event and its act."""
    holders: list[dict[str, Any]] = [data]
    if isinstance(act := data.get("act"), dict):
        holders.append(cast("dict[str, Any]", act))
    for holder in holders:
        for name in TEXTS:
            ref = holder.get(name)
            if isinstance(ref, str) and ref.startswith("b:") and len(ref) == 45:
                holder[name] = await _text(host, ref)


async def _text(host: Host, ref: str) -> str:
    try:
        content = await host.services.store.blob(host.id, blob_name(ref))
    except (NotFound, CorruptStore):
        return "[not there any more]"
    return content.decode(errors="replace")[:TEXT_CHARS_MAX]


async def overview(world: World) -> WorldOverview:
    """Return the figures of a world as they stand now."""
    store, tenant, space = world.host.services.store, world.host.id, world_space(world.id)
    money = await balances_of(store, tenant, space=space, asset=SCRIP)
    return WorldOverview(
        agents=await count_agents(store, tenant, space, active=True),
        artifacts=sum(one.artifacts for one in await count_kinds(store, tenant, space)),
        scrip=sum(balance for name, balance in money.items() if name.startswith("principal:")),
        held=sum(balance for name, balance in money.items() if name.startswith("hold:")),
        open_offers=await count_open_offers(store, tenant, space),
        sold=await count_sold(store, tenant, space),
    )


async def offers(world: World, *, closed: bool = False, limit: int = 100) -> list[OfferRow]:
    """Return offers, newest first: open ones; or those that are not any more, or have sold something."""
    await world.row()
    store, tenant = world.host.services.store, world.host.id
    return await offer_rows(store, tenant, world_space(world.id), closed=closed, limit=limit)
