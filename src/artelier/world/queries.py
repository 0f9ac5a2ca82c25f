"""The lists of worlds, agents and events, for commands and pages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from difflib import get_close_matches
from typing import Any, cast

import msgspec

from artelier.errors import CorruptStore, InvalidRequest, NotFound
from artelier.log import Event, blob_name, registered
from artelier.world.events import world_space, world_stream
from artelier.world.kernel_adapter import Host, host_of
from artelier.world.world import World

TEXTS = ("reasoning", "result", "reason", "text")
"""Fields of events whose text is shown with them."""

TEXT_CHARS_MAX = 2_000

WINDOW = 1_000
"""Events that are read at once when the newest are looked for."""


async def worlds(kernel: Any) -> list[dict[str, Any]]:
    """`{id, tick, seed, paused, parent, forked_at, agents}` of each world of a tenant, by id."""
    host = host_of(kernel)
    rows = await host.services.store.query(
        "SELECT w.id, w.tick, w.seed, w.paused, w.parent, w.forked_at,"
        " (SELECT COUNT(*) FROM world_agents a WHERE a.tenant = w.tenant"
        " AND a.space = 'world:' || w.id AND a.active = 1)"
        " FROM worlds w WHERE w.tenant = ? ORDER BY w.id",
        (host.id,),
    )
    names = ("id", "tick", "seed", "paused", "parent", "forked_at", "agents")
    return [{**dict(zip(names, row, strict=True)), "paused": bool(row[3])} for row in rows]


async def agents(world: World) -> list[dict[str, Any]]:
    """Return where each agent stands, the richest first: `{id, balance, owns, state, last_action, ...}`."""
    await world.row()
    rows = await world.host.services.store.query(
        "SELECT g.agent, COALESCE(c.balance, 0) AS money,"
        " (SELECT COUNT(*) FROM artifacts a WHERE a.tenant = g.tenant AND a.space = g.space"
        " AND a.owner = g.agent AND a.deleted = 0),"
        " g.state, g.ticks_in_state, g.failures, g.last_tick, g.last_action, g.last_ok,"
        " g.last_source"
        " FROM world_agents g LEFT JOIN accounts c ON c.tenant = g.tenant AND c.space = g.space"
        " AND c.account = 'principal:' || g.agent AND c.asset = 'scrip'"
        " WHERE g.tenant = ? AND g.space = ? AND g.active = 1 ORDER BY money DESC, g.n",
        (world.host.id, world_space(world.id)),
    )
    names = (
        "id",
        "balance",
        "owns",
        "state",
        "ticks_in_state",
        "failures",
        "last_tick",
        "last_action",
        "last_ok",
        "last_source",
    )
    found = [dict(zip(names, row, strict=True)) for row in rows]
    return [{**one, "last_ok": None if one["last_ok"] is None else bool(one["last_ok"])} for one in found]


async def log(
    world: World,
    *,
    after: int = 0,
    limit: int = 100,
    last: int | None = None,
    actor: str | None = None,
    tick: int | None = None,
    kinds: Sequence[str] = (),
) -> dict[str, Any]:
    """Events of a world with what was said in them: `{items: [{seq, tick, kind, actor, data}], next}`.

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
    return {"items": [await _item(world.host, one) for one in found], "next": following}


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
    while page := await store.read(stream, after=after):
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
    return found[-count:]


async def _check_actor(world: World, actor: str) -> None:
    """Errors: `NotFound` for one who never joined and of whom there is no event."""
    rows = await world.host.services.store.query(
        "SELECT 1 FROM world_agents WHERE tenant = ? AND space = ? AND agent = ?",
        (world.host.id, world_space(world.id), actor),
    )
    if not rows and not await _newest(world, lambda one: one.actor == actor, 1):
        raise NotFound(
            f"nobody called {actor} was ever in world {world.id}",
            hint=f"Who is there: artelier world agents {world.id}",
        )


async def _item(host: Host, one: Event) -> dict[str, Any]:
    data = one.plain()
    await _say(host, data)
    await _say_settings(host, data)
    return {"seq": one.seq, "tick": one.at_us, "kind": one.kind, "actor": one.actor, "data": data}


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


async def overview(world: World) -> dict[str, Any]:
    """`{agents, artifacts, scrip, held, open_offers, sold}`. Scrip in holds is not counted as scrip."""
    store, scope = world.host.services.store, (world.host.id, world_space(world.id))

    async def one(sql: str) -> int:
        rows = await store.query(sql, scope)
        return int(rows[0][0] or 0)

    where = "WHERE tenant = ? AND space = ?"
    return {
        "agents": await one(f"SELECT COUNT(*) FROM world_agents {where} AND active = 1"),
        "artifacts": await one(f"SELECT COUNT(*) FROM artifacts {where} AND deleted = 0"),
        "scrip": await one(
            f"SELECT SUM(balance) FROM accounts {where} AND asset = 'scrip' AND account LIKE 'principal:%'"
        ),
        "held": await one(
            f"SELECT SUM(balance) FROM accounts {where} AND asset = 'scrip' AND account LIKE 'hold:%'"
        ),
        "open_offers": await one(f"SELECT COUNT(*) FROM world_offers {where} AND status = 'open'"),
        "sold": await one(f"SELECT SUM(sold) FROM world_offers {where}"),
    }


async def offers(world: World, *, closed: bool = False, limit: int = 100) -> list[dict[str, Any]]:
    """Offers, newest first: open ones; or those that are not any more, or have sold something."""
    await world.row()
    wanted = "(status != 'open' OR sold > 0)" if closed else "status = 'open'"
    rows = await world.host.services.store.query(
        "SELECT offer, artifact, version, kind, seller, price, sells, buyer_only, uses, ticks,"
        " royalty_percent, made, status, buyer, closed, sold FROM world_offers"
        f" WHERE tenant = ? AND space = ? AND {wanted}"
        " ORDER BY n DESC LIMIT ?",
        (world.host.id, world_space(world.id), limit),
    )
    names = (
        "offer",
        "artifact",
        "version",
        "kind",
        "seller",
        "price",
        "sells",
        "to",
        "uses",
        "ticks",
        "royalty_percent",
        "made",
        "status",
        "buyer",
        "closed",
        "sold",
    )
    return [dict(zip(names, row, strict=True)) for row in rows]
