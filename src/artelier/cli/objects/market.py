"""`artelier market`: what is for sale in a world, what was sold, and at which prices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from artelier.cli.call import CliCall
from artelier.cli.command import command, group
from artelier.cli.world.creation import Name, world_of
from artelier.cli.world.inspection import Limit, bounds_of, check_limit

if TYPE_CHECKING:
    from artelier.world.queries.market import OfferRow

app = group("market", help="See what is for sale in a world, and what was paid.")

Closed = Annotated[
    bool, typer.Option("--closed", help="Those that are closed or have sold something instead.")
]

OFFERS_SHOWN = 10
"""By `show`, of those for sale and of those that sold."""


@command(app, name="list", example="artelier market list village")
async def list_(call: CliCall, name: Name, closed: Closed = False, limit: Limit = 50) -> None:
    """List offers, newest first."""
    from artelier.world.queries.reports import offers

    async with call.kernel() as kernel:
        world = world_of(call, kernel, name)
        found = await offers(world, closed=closed, limit=check_limit(limit) + 1)
    more = len(found) > limit
    if call.print_json({"items": found[:limit], "next": limit if more else None}):
        return
    _table(call, found[:limit])
    if more:
        call.screen.note("there are more; --limit shows them")


@command(app, name="show", example="artelier market show village")
async def show(call: CliCall, name: Name, limit: Limit = OFFERS_SHOWN) -> None:
    """Show prices by kind, and the newest offers and sales.

    Prices are those of the last 200 ticks.
    """

    from artelier.world.figures.metrics import market

    async with call.kernel() as kernel:
        with call.screen.working(f"reading {name}"):
            found = await market(world_of(call, kernel, name), limit=check_limit(limit))
    if call.print_json(found):
        return
    call.screen.facts(
        [("world", found.world), ("tick", f"{found.tick:,}"), ("prices since", f"tick {found.from_tick:,}")]
    )
    rows = [
        (
            one.kind,
            one.sells,
            f"{one.trades:,}",
            f"{one.volume:,}",
            f"{one.low:,}",
            f"{one.median:,.10g}",
            f"{one.high:,}",
        )
        for one in found.prices
    ]
    columns = ("kind", "sells", ">trades", ">scrip", ">lowest", ">median", ">highest")
    call.screen.table(columns, rows, empty="nothing was sold in these ticks")
    for title, offers in (("For sale", found.open), ("Sold or closed", found.closed)):
        call.screen.line()
        call.screen.line(title, "bold")
        _table(call, offers)


def _table(call: CliCall, offers: Sequence[OfferRow]) -> None:
    rows = [
        (
            one.offer,
            one.artifact,
            one.kind,
            one.sells,
            bounds_of(one.uses, one.ticks),
            f"{one.royalty_percent}%" if one.royalty_percent else "",
            f"{one.price:,}",
            one.seller,
            one.to or "",
            one.buyer or "",
            one.sold,
            one.status,
        )
        for one in offers
    ]
    columns = (
        "offer",
        "artifact",
        "kind",
        "sells",
        "for",
        ">royalty",
        ">price",
        "seller",
        "only to",
        "buyer",
        ">sold",
        "status",
    )
    call.screen.table(columns, rows, empty="no such offers")
