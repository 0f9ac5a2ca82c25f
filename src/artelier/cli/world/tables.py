"""Figures, pictures and tables of a world: metrics, plot, collect."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from artelier.cli import display
from artelier.cli.call import CliCall
from artelier.cli.command import command
from artelier.cli.world.creation import Name, app, world_of

if TYPE_CHECKING:
    from artelier.world.figures.metrics import Metrics, TickMetrics

From = Annotated[int, typer.Option("--from", metavar="TICK", help="The first tick; 0: the start.")]
To = Annotated[int | None, typer.Option("--to", metavar="TICK", help="The last tick: else the newest.")]


@command(app, name="metrics", example="artelier world metrics market --from 90")
async def metrics_(call: CliCall, name: Name, first: From = 1, last: To = None) -> None:
    """Print the figures of each tick.

    Money, trades, prices, actions, and what models cost. What happened between two ticks belongs to the one
    before. The JSON form has every balance, and prices, actions, rejections and use of models by tick.
    """

    from artelier.world.figures.metrics import metrics

    async with call.kernel() as kernel:
        with call.screen.working(f"reading {name}"):
            found = await metrics(world_of(call, kernel, name), from_tick=first, to_tick=last)
    if call.print_json(found):
        return
    columns = (
        ">tick",
        ">agents",
        ">gini",
        ">median",
        ">richest",
        ">scrip",
        ">held",
        ">minted",
        ">trades",
        ">volume",
        ">actions",
        ">rejected",
        ">tokens",
        ">USD",
    )
    call.screen.table(columns, [_row(one) for one in found.ticks], empty="no tick has passed")
    if found.ticks:
        call.screen.line()
        call.screen.facts(_sums(found))


def _row(one: TickMetrics) -> tuple[object, ...]:
    from statistics import median

    from artelier.money import format_usd

    balances = one.balances.values()
    row = (
        one.tick,
        len(one.balances),
        f"{one.gini:.3f}",
        _mean(median(balances)) if balances else "",
        max(balances, default=""),
        one.circulating,
        one.held,
        one.minted,
        one.trades,
        one.volume,
        one.acted,
        one.rejected,
        one.tokens,
        format_usd(one.cost_microusd),
    )
    return tuple(display.number(cell) for cell in row)


def _mean(value: float) -> str:
    """`12`, `12.5`, `10,000`."""
    return f"{value:,.2f}".rstrip("0").rstrip(".")


def _sums(found: Metrics) -> list[tuple[str, object]]:
    """Return what happened in all ticks together, a line for each thing."""
    actions: Counter[str] = Counter()
    sources: Counter[str] = Counter()
    rejections: Counter[str] = Counter()
    paid: dict[str, tuple[int, int]] = {}
    cost: Counter[str] = Counter()
    for one in found.ticks:
        for action, by in one.actions.items():
            actions[action or "nothing readable"] += sum(by.values())
            sources.update(by)
        rejections.update(one.rejections)
        for price in one.prices:
            key = f"{price.kind or 'unknown'} ({price.sells})"
            trades, volume = paid.get(key, (0, 0))
            paid[key] = (trades + price.trades, volume + price.volume)
        for agent, used in one.usage.items():
            cost[agent] += used.cost_microusd
    prices = [
        f"{key} {display.count(trades, 'trade')} at {_mean(volume / trades)}"
        for key, (trades, volume) in sorted(paid.items())
    ]
    return [
        ("actions", _format_counts(actions)),
        ("decided by", _format_counts(sources)),
        ("rejections", _format_counts(rejections)),
        ("mean prices", ", ".join(prices)),
        ("minted", display.number(sum(one.minted for one in found.ticks))),
        ("models, micro-USD", _format_counts(+cost)),
    ]


def _format_counts(counter: Counter[str]) -> str:
    shown = [f"{name} {count:,}" for name, count in counter.most_common(12)]
    more = [f"{len(counter) - 12} more"] if len(counter) > 12 else []
    return ", ".join(shown + more)


@command(app, name="plot", example="artelier world plot market --out market.svg")
async def plot_(
    call: CliCall,
    name: Name,
    out: Annotated[Path, typer.Option("--out", metavar="FILE.svg", help="Where to draw; it is replaced.")],
    first: From = 1,
    last: To = None,
) -> None:
    """Draw what happened to a world over its ticks.

    Balances, inequality, trades, prices, and cost of models. A name that ends in .png gives a PNG where
    matplotlib is installed.
    """
    from artelier.world.figures.plot import check_picture, plot

    check_picture(out)
    async with call.kernel() as kernel:
        with call.screen.working(f"drawing {name}"):
            chart = await plot(world_of(call, kernel, name), out, from_tick=first, to_tick=last)
    if call.as_json:
        first, last = chart.ticks
        call.screen.json({"world": name, "file": str(out), "from_tick": first, "to_tick": last})
        return
    call.screen.line(f"{out}: {name}, {chart.subtitle}")


@command(
    app, name="collect", example="artelier world collect market --set 'rich=balance > 100' --out facts.csv"
)
async def collect_(
    call: CliCall,
    name: Name,
    out: Annotated[
        Path, typer.Option("--out", metavar="FILE", help="FILE.csv or FILE.parquet; it is replaced.")
    ],
    columns: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="COLUMN=EXPRESSION", help="One more column; repeatable."),
    ] = None,
    first: From = 1,
    last: To = None,
) -> None:
    """Write a table with a row for each tick and agent.

    Its columns are those of the world's setting `collect` and of --set; without any, all facts: balance,
    owns, current_state, ticks_in_state, failure_count, last_action.type, last_action.success. Expressions
    are those of conditions: comparisons, and, or, not, in, + - * / %. Facts are those at the end of the tick.
    """
    from artelier.world.figures.metrics import collect
    from artelier.world.figures.tables import check_table, columns_of, read_columns, write_rows

    check_table(out)
    asked = read_columns(columns or [])
    async with call.kernel() as kernel:
        world = world_of(call, kernel, name)
        chosen = columns_of({**(await world.config()).collect, **asked})
        with call.screen.working(f"reading {name}"):
            rows = await write_rows(out, chosen.names, collect(world, chosen, from_tick=first, to_tick=last))
    failed: dict[str, Any] = {
        column: {"cells": one.cells, "why": one.why} for column, one in chosen.failed.items()
    }
    if call.print_json(
        {"world": name, "file": str(out), "rows": rows, "columns": list(chosen.names), "failed": failed}
    ):
        return
    call.screen.line(f"{out}: {display.count(rows, 'row')} of {', '.join(chosen.names)}")
    for column, one in failed.items():
        call.screen.note(f"{column} has no value in {display.count(one['cells'], 'row')}: {one['why']}")
