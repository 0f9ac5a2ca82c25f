"""Charts as SVG: panels above each other over one axis of ticks. Plain shapes and text, nothing is loaded.

All text is escaped; an SVG of this file holds no script, no style sheet and no reference.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal
from xml.sax.saxutils import escape

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
class _Scale:
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
    scale = _Scale(top, ticks[0] - 0.5, ticks[1] + 0.5, steps[-1])
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


def _series(one: Series, scale: _Scale) -> list[str]:
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


def _path(points: Sequence[Point], scale: _Scale) -> str:
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
