"""`artelier world plot`: what a world went through, as one picture.

The figures come tick by tick and are gathered in at most `BINS` places, so that a long history needs neither
more memory nor a wider picture.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from artelier.errors import InvalidRequest, StoreUnavailable
from artelier.world.figures.metrics import TickMetrics, tick_metrics
from artelier.world.figures.svg_charts import PALETTE, Chart, ChartPanel, Point, Series, clip_label, svg
from artelier.world.history.history_fold import span_of
from artelier.world.world import World

BINS = 400
KINDS_SHOWN = 7
"""Kinds with prices of their own; the rest is one more."""

BLUE, ORANGE, GREEN = PALETTE[:3]


def check_picture(out: Path) -> Path:
    """Errors: `InvalidRequest` for a file of another format, or one that needs what is not installed."""
    if out.suffix not in (".svg", ".png"):
        raise InvalidRequest("--out", expected="FILE.svg or FILE.png", got=str(out))
    if out.suffix == ".png" and importlib.util.find_spec("matplotlib") is None:
        raise InvalidRequest(
            "a PNG is drawn by matplotlib, which is not installed",
            expected="FILE.svg",
            got=str(out),
            hint="Write an SVG, or install matplotlib next to artelier.",
        )
    return out


async def plot(world: World, out: Path, *, from_tick: int = 1, to_tick: int | None = None) -> Chart:
    """Draw a world into a file, SVG or PNG by its name.

    Errors: `NotFound`; `InvalidRequest` for ticks that have not passed, a world without any, another format;
    `StoreUnavailable` if the file cannot be written.
    """
    check_picture(out)
    chart = await chart_of(world, from_tick=from_tick, to_tick=to_tick)
    try:
        if out.suffix == ".png":
            _png(chart, out)
        else:
            out.write_text(svg(chart), encoding="utf-8")
    except OSError as error:
        raise StoreUnavailable(
            f"the file cannot be written: {error.strerror or error}", got=str(out)
        ) from None
    return chart


async def chart_of(world: World, *, from_tick: int = 1, to_tick: int | None = None) -> Chart:
    """Return what there is to draw of some ticks. Errors: `NotFound`, `InvalidRequest`."""
    span = await span_of(world.host, world.id, from_tick=from_tick, to_tick=to_tick)
    if span.last < span.first:
        raise InvalidRequest(
            f"world {world.id} has passed no tick in which to look",
            expected="a tick from 1",
            got=span.last,
            hint="artelier world run passes some.",
        )
    gathered = _Gathered(span.first, max(1, -(-(span.last - span.first + 1) // BINS)))
    async for one in tick_metrics(world, from_tick=span.first, to_tick=span.last):
        gathered.take(one)
    end = gathered.bins[-1]
    first, last = span
    ticks = f"tick {first}" if first == last else f"ticks {first} to {last}"
    agents = "1 agent" if end.agents == 1 else f"{end.agents} agents"
    return Chart(
        title=f"World {clip_label(world.id)}",
        subtitle=f"{ticks}; at the end {agents} and {end.money} scrip, of which {end.held} held",
        ticks=(span.first, span.last),
        panels=gathered.panels(),
    )


@dataclass(slots=True)
class _Bin:
    """Some ticks next to each other: what stood at their end, and what happened in them."""

    middle: float
    quartiles: tuple[float, float, float] = (0, 0, 0)
    top: int = 0
    gini: float = 0
    agents: int = 0
    money: int = 0
    held: int = 0
    trades: int = 0
    volume: int = 0
    cost_microusd: int = 0
    paid: dict[str, tuple[int, int]] = field(default_factory=dict[str, tuple[int, int]])
    """By kind of artifact, trades and what was paid for them."""


class _Gathered:
    def __init__(self, first: int, size: int) -> None:
        self.first, self.size = first, size
        self.bins: list[_Bin] = []
        self.asked = False

    def take(self, one: TickMetrics) -> None:
        place, rest = divmod(one.tick - self.first, self.size)
        if place == len(self.bins):
            self.bins.append(_Bin(float(one.tick)))
        now = self.bins[place]
        now.middle = one.tick - rest / 2
        now.quartiles, now.top = (_quartiles(one.balances.values()), max(one.balances.values(), default=0))
        now.gini, now.agents, now.money, now.held = (one.gini, len(one.balances), one.circulating, one.held)
        now.trades += one.trades
        now.volume += one.volume
        now.cost_microusd += one.cost_microusd
        self.asked = self.asked or bool(one.usage)
        for price in one.prices:
            trades, volume = now.paid.get(price.kind, (0, 0))
            now.paid[price.kind] = (trades + price.trades, volume + price.volume)

    def panels(self) -> list[ChartPanel]:
        each = "per tick" if self.size == 1 else f"per {self.size} ticks"
        return [
            ChartPanel(
                title="Balances of agents",
                unit="scrip",
                empty="no agents",
                series=self._balances() if any(one.agents for one in self.bins) else (),
            ),
            ChartPanel(
                title="Inequality",
                unit="0: all have the same",
                y_max=1,
                is_whole=False,
                series=[self._line("Gini coefficient", [one.gini for one in self.bins], BLUE)],
            ),
            self._bars(
                "Trades", f"sales and paid uses {each}", "no trades", [one.trades for one in self.bins], GREEN
            ),
            self._bars(
                "Volume of trade",
                f"scrip {each}",
                "nothing was paid for in trades",
                [one.volume for one in self.bins],
                ORANGE,
            ),
            ChartPanel(
                title="Prices by kind of artifact",
                unit="scrip, mean of the trades " + each,
                series=self._prices(),
                empty="no trades",
            ),
            self._cost(each),
        ]

    def _balances(self) -> list[Series]:
        low, middle, high = ([(one.middle, one.quartiles[n]) for one in self.bins] for n in range(3))
        return [
            self._line("richest", [one.top for one in self.bins], ORANGE),
            Series(name="middle half", shape="band", points=high, lower=low, colour=BLUE),
            Series(name="median", shape="line", points=middle, colour=BLUE),
        ]

    def _line(self, name: str, values: Sequence[float], colour: str) -> Series:
        return Series(name=name, shape="line", points=self._points(values), colour=colour)

    def _bars(self, title: str, unit: str, empty: str, values: Sequence[float], colour: str) -> ChartPanel:
        series = Series(
            name=title.lower(),
            shape="bars",
            colour=colour,
            bar_ticks=self.size,
            points=self._points(values) if any(values) else (),
        )
        return ChartPanel(title=title, unit=unit, series=(series,), empty=empty)

    def _cost(self, each: str) -> ChartPanel:
        usd = [one.cost_microusd / 1_000_000 for one in self.bins]
        empty = "models cost nothing" if self.asked else "no model was asked"
        panel = self._bars("Cost of models", f"USD {each}", empty, usd, PALETTE[3])
        return replace(panel, is_whole=False)

    def _prices(self) -> list[Series]:
        sold: dict[str, int] = {}
        for one in self.bins:
            for kind, (trades, _) in one.paid.items():
                sold[kind] = sold.get(kind, 0) + trades
        ranked = sorted(sold, key=lambda kind: (-sold[kind], kind))
        groups = [(clip_label(kind or "unknown"), [kind]) for kind in ranked[:KINDS_SHOWN]]
        if rest := ranked[KINDS_SHOWN:]:
            groups.append((f"{len(rest)} other kinds", rest))
        return [
            Series(name=name, shape="dots", points=self._means(kinds), colour=colour)
            for (name, kinds), colour in zip(groups, PALETTE, strict=False)
        ]

    def _means(self, kinds: Sequence[str]) -> list[Point]:
        found: list[Point] = []
        for one in self.bins:
            paid = [one.paid[kind] for kind in kinds if kind in one.paid]
            if trades := sum(count for count, _ in paid):
                found.append((one.middle, sum(volume for _, volume in paid) / trades))
        return found

    def _points(self, values: Sequence[float]) -> list[Point]:
        return [(one.middle, value) for one, value in zip(self.bins, values, strict=True)]


def _quartiles(balances: Any) -> tuple[float, float, float]:
    """Lower quartile, median, upper quartile, between the two values next to each."""
    ordered = sorted(balances)
    if not ordered:
        return (0, 0, 0)

    def at(share: float) -> float:
        place = share * (len(ordered) - 1)
        below = int(place)
        above = min(below + 1, len(ordered) - 1)
        return ordered[below] + (ordered[above] - ordered[below]) * (place - below)

    return (at(0.25), at(0.5), at(0.75))


def _png(chart: Chart, out: Path) -> None:
    """The same chart by matplotlib, for papers that take no SVG."""
    backend: Any = importlib.import_module("matplotlib.backends.backend_agg")
    figures: Any = importlib.import_module("matplotlib.figure")
    figure = figures.Figure(figsize=(10, 2.1 * len(chart.panels)), layout="constrained")
    backend.FigureCanvasAgg(figure)
    figure.suptitle(_plain(f"{chart.title}: {chart.subtitle}"), fontsize=11)
    for axes, panel in zip(figure.subplots(len(chart.panels), sharex=True), chart.panels, strict=True):
        axes.set_title(panel.title, loc="left", fontsize=10)
        axes.set_ylabel(panel.unit, fontsize=7)
        if panel.is_empty:
            axes.text(0.5, 0.5, panel.empty, ha="center", transform=axes.transAxes)
            continue
        for one in panel.series:
            _draw(axes, one)
        axes.set_xlim(chart.ticks[0] - 0.5, chart.ticks[1] + 0.5)
        axes.set_ylim(0, panel.y_max)
        axes.set_xlabel("tick" if panel is chart.panels[-1] else "")
        axes.legend(loc="center left", bbox_to_anchor=(1, 0.5), fontsize=8, frameon=False)
    figure.savefig(out, dpi=150)


def _draw(axes: Any, one: Series) -> None:
    x, y = zip(*one.points, strict=True)
    how = {"color": one.colour, "label": _plain(one.name)}
    if one.shape == "band":
        axes.fill_between(x, y, [value for _, value in one.lower], alpha=0.2, **how)
    elif one.shape == "bars":
        axes.bar(x, y, width=one.bar_ticks * 0.8, **how)
    elif one.shape == "dots":
        axes.scatter(x, y, s=12, alpha=0.75, **how)
    else:
        axes.plot(x, y, **how)


def _plain(text: str) -> str:
    """Text in which matplotlib sees no formula."""
    return text.replace("$", r"\$")
