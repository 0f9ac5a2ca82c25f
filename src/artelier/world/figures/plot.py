"""`artelier world plot`: what a world went through, as one picture.

The figures come tick by tick and are gathered in at most `BINS` places, so that a long history needs neither
more memory nor a wider picture.
"""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal
from xml.sax.saxutils import escape

from artelier.errors import InvalidRequest, StoreUnavailable
from artelier.world.figures.metrics import TickMetrics, tick_metrics
from artelier.world.history.history_fold import span_of
from artelier.world.world import World

# --------------------------------------------------------------------------- svg charts
# Charts as SVG: panels above each other over one axis of ticks. Plain shapes and text, nothing is loaded.
# All text is escaped; an SVG of this file holds no script, no style sheet and no reference.


WIDTH = 1000
LEFT, RIGHT = 80, 190
"""Margins in pixels: numbers of the axis, and the legend."""
TOP, PANEL, GAP = 64, 150, 54
TEXT_CHARS_MAX = 26
"""Of one entry of a legend."""

PALETTE = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#6b4c9a", "#555555")
"""Colours that people with colour blindness tell apart (Okabe and Ito, 2008), and two more."""

Point = tuple[float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """Values of one thing over ticks, and how they are shown."""

    name: str
    shape: Literal["line", "band", "bars", "dots"]
    points: Sequence[Point]
    """Tick and value; of a band the upper edge."""
    lower: Sequence[Point] = ()
    """Of a band."""
    colour: str = PALETTE[0]
    bar_ticks: float = 1
    """How many ticks a bar stands for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChartPanel:
    """One chart."""

    title: str
    unit: str
    series: Sequence[Series]
    y_max: float | None = None
    """The upper end of the axis, if it has a natural one."""
    is_whole: bool = True
    """Whether the axis has whole numbers only."""
    empty: str = ""
    """What stands there instead if there is nothing to show."""

    @property
    def is_empty(self) -> bool:
        return not any(one.points for one in self.series)


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    title: str
    subtitle: str
    ticks: tuple[int, int]
    panels: Sequence[ChartPanel]


def svg(chart: Chart) -> str:
    """The chart as a document. Cost: O(points)."""
    height = TOP + len(chart.panels) * (PANEL + GAP) + 16
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}"'
        f' viewBox="0 0 {WIDTH} {height}" role="img" font-family="Helvetica, Arial, DejaVu Sans, sans-serif"'
        ' font-size="12" fill="#222222">',
        f"<title>{_safe(chart.title)}</title>",
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
        _text(LEFT, 26, chart.title, size=18, bold=True),
        _text(LEFT, 46, chart.subtitle, colour="#666666"),
    ]
    for n, panel in enumerate(chart.panels):
        parts += _panel(panel, TOP + n * (PANEL + GAP) + 24, chart.ticks)
    return "\n".join([*parts, "</svg>", ""])


@dataclass(frozen=True, slots=True)
class _AxisScale:
    """The scale of one panel, which turns values into pixels."""

    top: float
    first: float
    last: float
    y_max: float

    def x(self, tick: float) -> float:
        return LEFT + (tick - self.first) / (self.last - self.first) * (WIDTH - LEFT - RIGHT)

    def y(self, value: float) -> float:
        return self.top + PANEL * (1 - value / self.y_max)


def _panel(panel: ChartPanel, top: float, ticks: tuple[int, int]) -> list[str]:
    values = [value for one in panel.series for _, value in (*one.points, *one.lower)]
    steps = nice_steps(panel.y_max or max(values, default=0) or 1, is_whole=panel.is_whole)
    # Half a tick of room on both sides: a bar stands in the middle of its tick.
    scale = _AxisScale(top, ticks[0] - 0.5, ticks[1] + 0.5, steps[-1])
    bottom, right = top + PANEL, WIDTH - RIGHT
    parts = [_text(LEFT, top - 9, panel.title, bold=True)]
    if panel.unit:
        parts.append(_text(right, top - 9, panel.unit, anchor="end", colour="#666666"))
    if panel.is_empty:
        parts.append(
            f'<rect x="{LEFT}" y="{_n(top)}" width="{right - LEFT}" height="{PANEL}" fill="#f7f7f7"/>'
        )
        middle = (LEFT + right) / 2
        parts.append(_text(middle, top + PANEL / 2 + 4, panel.empty, anchor="middle", colour="#666666"))
        return parts
    for value in steps:
        y = scale.y(value)
        parts.append(_line(LEFT, y, right, y, "#e4e4e4"))
        parts.append(_text(LEFT - 8, y + 4, number(value), anchor="end", colour="#555555"))
    for one in panel.series:
        parts += _series(one, scale)
    parts.append(_line(LEFT, bottom, right, bottom, "#888888"))
    for tick in _tick_labels(*ticks):
        parts.append(_line(scale.x(tick), bottom, scale.x(tick), bottom + 4, "#888888"))
        parts.append(_text(scale.x(tick), bottom + 17, number(tick), anchor="middle", colour="#555555"))
    parts.append(_text(right + 14, bottom + 17, "tick", colour="#555555"))
    return [*parts, *_legend(panel.series, top)]


def _series(one: Series, scale: _AxisScale) -> list[str]:
    if one.shape == "band":
        edge = [*one.points, *reversed(one.lower)]
        return [f'<polygon points="{_path(edge, scale)}" fill="{one.colour}" fill-opacity="0.2"/>']
    if one.shape == "line" and len(one.points) > 1:
        return [
            f'<polyline points="{_path(one.points, scale)}" fill="none" stroke="{one.colour}"'
            ' stroke-width="1.8" stroke-linejoin="round"/>'
        ]
    if one.shape == "bars":
        width = max(0.6, (scale.x(one.bar_ticks) - scale.x(0)) * 0.8)
        return [
            f'<rect x="{_n(scale.x(tick) - width / 2)}" y="{_n(scale.y(value))}"'
            f' width="{_n(width)}" height="{_n(scale.y(0) - scale.y(value))}"'
            f' fill="{one.colour}"/>'
            for tick, value in one.points
            if value
        ]
    return [
        f'<circle cx="{_n(scale.x(tick))}" cy="{_n(scale.y(value))}" r="3" fill="{one.colour}"'
        ' fill-opacity="0.75"/>'
        for tick, value in one.points
    ]


def _legend(series: Sequence[Series], top: float) -> list[str]:
    parts: list[str] = []
    left = WIDTH - RIGHT + 14
    for n, one in enumerate(series):
        y = top + 8 + n * 17
        if one.shape == "line":
            parts.append(_line(left, y, left + 16, y, one.colour, width=2.2))
        elif one.shape == "dots":
            parts.append(f'<circle cx="{left + 8}" cy="{_n(y)}" r="4" fill="{one.colour}"/>')
        else:
            opacity = ' fill-opacity="0.25"' if one.shape == "band" else ""
            parts.append(
                f'<rect x="{left}" y="{_n(y - 5)}" width="16" height="10" fill="{one.colour}"{opacity}/>'
            )
        parts.append(_text(left + 23, y + 4, one.name))
    return parts


# Numbers


def nice_steps(top: float, *, count: int = 4, is_whole: bool = False) -> list[float]:
    """About `count` round steps from 0 to the first one that is not below `top`, which is above 0."""
    rough = top / count
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough * (1 - 1e-9))
    step = max(1.0, step) if is_whole else step
    return [n * step for n in range(math.ceil(top / step - 1e-9) + 1)]


def _tick_labels(first: int, last: int) -> list[int]:
    """Round ticks within the axis; its ends if it is too short for any."""
    step = max(1, round(nice_steps(max(1, last - first), count=10)[1]))
    found = list(range(-(-first // step) * step, last + 1, step))
    return found or [first]


def number(value: float) -> str:
    """A number as it stands at an axis: short, with as many digits as it needs."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if abs(value) >= size:
            return f"{value / (1e3 if letter == 'k' else size):.4g}{letter}"
    return f"{value:.4g}"


def _n(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


# Text


def _path(points: Sequence[Point], scale: _AxisScale) -> str:
    return " ".join(f"{_n(scale.x(tick))},{_n(scale.y(value))}" for tick, value in points)


def _line(x1: float, y1: float, x2: float, y2: float, colour: str, *, width: float = 1) -> str:
    return (
        f'<line x1="{_n(x1)}" y1="{_n(y1)}" x2="{_n(x2)}" y2="{_n(y2)}" stroke="{colour}"'
        f' stroke-width="{_n(width)}"/>'
    )


def _text(
    x: float,
    y: float,
    text: str,
    *,
    anchor: str = "start",
    size: int = 12,
    bold: bool = False,
    colour: str = "",
) -> str:
    more = f' text-anchor="{anchor}"' if anchor != "start" else ""
    more += f' font-size="{size}"' if size != 12 else ""
    more += ' font-weight="bold"' if bold else ""
    more += f' fill="{colour}"' if colour else ""
    return f'<text x="{_n(x)}" y="{_n(y)}"{more}>{_safe(text)}</text>'


def clip_label(text: str) -> str:
    """A name for a legend, which has little room."""
    return text if len(text) <= TEXT_CHARS_MAX else f"{text[: TEXT_CHARS_MAX - 1]}…"


def _safe(text: str) -> str:
    """Text in XML, which cannot hold control characters at all."""
    return escape("".join(sign if sign.isprintable() else "�" for sign in text))


# --------------------------------------------------------------------------- plot


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


def _quartiles(balances: Iterable[int]) -> tuple[float, float, float]:
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
