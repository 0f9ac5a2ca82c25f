"""Looking into a world: show, agents, log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from artelier.cli import display
from artelier.cli.call import CliCall
from artelier.cli.command import command
from artelier.cli.world.creation import Name, app, world_of
from artelier.errors import InvalidRequest

if TYPE_CHECKING:
    from artelier.world.queries.reports import WorldEventRow
    from artelier.world.queries.worlds import AgentStanding

Limit = Annotated[int, typer.Option("--limit", metavar="N", help="Rows at most.")]


@command(app, name="show", example="artelier world show market")
async def show(call: CliCall, name: Name) -> None:
    """Show how a world stands.

    Tick, money, agents, market, and the settings that differ from the defaults.
    """
    import msgspec

    from artelier.world import WorldConfig
    from artelier.world.queries.reports import agents, overview

    async with call.kernel() as kernel:
        world = world_of(call, kernel, name)
        row, config = await world.row(), await world.config()
        found = await overview(world)
        rich = (await agents(world))[:5]
    told: dict[str, Any] = msgspec.to_builtins(config)
    usual: dict[str, Any] = msgspec.to_builtins(WorldConfig())
    settings = {key: value for key, value in told.items() if value != usual[key] and key != "seed"}
    if call.print_json(
        {
            "id": row.id,
            "tick": row.tick,
            "seed": row.seed,
            "parent": row.parent,
            "forked_at": row.forked_at,
            "paused": row.paused,
            **msgspec.to_builtins(found),
            "settings": told,
        }
    ):
        return
    call.screen.facts(
        [
            ("world", row.id),
            ("tick", f"{row.tick:,}"),
            ("seed", str(row.seed)),
            ("state", "paused" if row.paused else None),
            ("forked from", f"{row.parent}, tick {row.forked_at:,}" if row.parent else None),
            ("agents", f"{found.agents:,}"),
            ("artifacts", f"{found.artifacts:,}"),
            ("scrip", f"{found.scrip:,} with agents and services, {found.held:,} held"),
            ("open offers", f"{found.open_offers:,}"),
            ("sold so far", f"{found.sold:,}"),
            ("richest", ", ".join(f"{one.id} {one.balance:,}" for one in rich)),
            ("settings", display.compact(settings, chars_max=1_000) if settings else None),
        ]
    )


@command(app, name="agents", example="artelier world agents market")
async def agents_of(call: CliCall, name: Name, limit: Limit = 50) -> None:
    """List the agents of a world, the richest first."""
    from artelier.world.queries.reports import agents

    async with call.kernel() as kernel:
        found = await agents(world_of(call, kernel, name))
    if call.print_json({"items": found[: check_limit(limit)], "next": None}):
        return
    rows = [
        (one.id, f"{one.balance:,}", f"{one.owns:,}", one.state or "", _last(one))
        for one in found[: check_limit(limit)]
    ]
    columns = ("agent", ">scrip", ">owns", "state", "last action")
    call.screen.table(columns, rows, empty=f"no agents in world {name}")
    if len(found) > limit:
        call.screen.note(f"{len(found) - limit:,} more; --limit shows them")


@command(app, name="log", example="artelier world log market --agent alice --tick 12")
async def log_of(
    call: CliCall,
    name: Name,
    agent: Annotated[
        str | None, typer.Option("--agent", metavar="ID", help="Only what this one did.")
    ] = None,
    tick: Annotated[int | None, typer.Option("--tick", metavar="N", help="Only what happened in it.")] = None,
    kind: Annotated[
        list[str] | None, typer.Option("--kind", metavar="KIND", help="Such as offer.accepted; repeatable.")
    ] = None,
    last: Annotated[
        int | None, typer.Option("--last", metavar="N", help="The N newest, oldest first.")
    ] = None,
    after: Annotated[int, typer.Option("--after", metavar="SEQ", help="Begin behind it.")] = 0,
    limit: Limit = 100,
) -> None:
    """Print the events of a world, with the reasons that were given.

    From the first on; `--last` has the newest.
    """
    from artelier.world.queries.reports import log

    if last is not None and after:
        raise InvalidRequest("events are counted from one end", expected="--last or --after")
    if last is not None:
        check_limit(last, "--last")
    async with call.kernel() as kernel:
        world = world_of(call, kernel, name)
        if tick is not None and not 0 <= tick <= (now := await world.tick_now()):
            raise InvalidRequest(
                f"world {name} has not passed this tick", expected=f"a tick from 0 to {now}", got=tick
            )
        found = await log(
            world,
            actor=agent,
            tick=tick,
            kinds=tuple(kind or ()),
            after=after,
            limit=check_limit(limit),
            last=last,
        )
    if call.print_json(found):
        return
    show_events(call, found.items)
    if found.next is not None:
        call.screen.note(f"there is more: --after {found.next}; the newest: --last {limit}")


def show_events(call: CliCall, items: Sequence[WorldEventRow]) -> None:
    """One line an event: tick, who, what, and why."""
    rows = [(f"{one.tick:,}", one.actor, one.kind, _about(one.data, one.actor)) for one in items]
    call.screen.table((">tick", "who", "what", "about"), rows, empty="nothing happened")


_NAMES = {"minted": "paid out"}
"""Fields whose name says less than they hold: what a winner is paid may be fees, and no new scrip."""


def _about(data: Mapping[str, Any], actor: str) -> str:
    act: Mapping[str, Any] = data.get("act") or {}
    parts: list[str] = []
    if act:
        about = "" if data.get("configured") else act.get("ref", "")  # it is told with the values
        parts.append(f"{act.get('action') or 'nothing'} {about}".strip())
    parts += [
        f"{_NAMES.get(name, name)} {display.number(data[name])}"
        for name in (
            "id",
            "agent",
            "offer",
            "artifact",
            "to",
            "price",
            "amount",
            "entry",
            "why",
            "code",
            "tick",
            "acted",
            "name",
            "score",
            "minted",
            "sells",
        )
        if data.get(name) not in (None, "") and str(data[name]) not in " ".join(parts)
    ]
    if bounds := bounds_of(data.get("uses"), data.get("ticks"), data.get("until_tick")):
        parts.append(bounds)
    if royalty := data.get("royalty_percent"):
        parts.append(f"royalty {royalty}%")
    configured: Mapping[str, Any] = data.get("configured") or {}
    for name, value in configured.items():
        parts.append(f"{name} = {_value(value)}")
    if names := data.get("names"):
        parts.append(f"unknown: {', '.join(map(str, names))}")
    if paid := _sum_paid(data, actor):
        parts.append(f"{paid:,} scrip moved")
    for holder, name in ((data, "reason"), (data, "text"), (act, "reasoning")):
        if said := holder.get(name):
            parts.append(f'"{display.line(str(said), chars_max=120)}"')
    return display.line(", ".join(parts), chars_max=200)


def bounds_of(uses: int | None, ticks: int | None, until: int | None = None) -> str:
    """Return the bounds of a licence: `10 uses`, `5 ticks`, both; empty for no bound."""
    parts = [display.count(bound, name) for name, bound in (("use", uses), ("tick", ticks)) if bound]
    return ", ".join([*parts, f"until tick {until}"] if until else parts)


def _value(value: object) -> str:
    if value is None:
        return "nothing"
    return str(value) if isinstance(value, str) else display.compact(value, chars_max=60)


def _sum_paid(data: Mapping[str, Any], actor: str) -> int:
    """Return what the one who pays has paid: what the one who is paid passes on is not counted again. Of what
    nobody pays, such as a gift of the host to many, return all.
    """
    if "round" in data:
        return 0  # an auction has its price and what was minted
    postings: Sequence[Sequence[Any]] = data.get("postings", ())
    payers = {f"principal:{one}" for one in (actor, data.get("buyer"), data.get("payer")) if one}
    own = [one[3] for one in postings if one[0] in payers]
    return sum(own) if own else sum(one[3] for one in postings)


def _last(one: AgentStanding) -> str:
    if one.last_tick is None:
        return ""
    ended = "" if one.last_ok else " (rejected)"
    return f"tick {one.last_tick:,}: {one.last_action or 'nothing readable'}{ended}"


def check_limit(limit: int, option: str = "--limit") -> int:
    if not 1 <= limit <= 10_000:
        raise InvalidRequest(option, expected="1 to 10,000", got=limit)
    return limit
