"""The report: an answer in words, its table, and how it was computed. All figures come from results."""

from __future__ import annotations

from collections.abc import Sequence

from artelier.models.offline import figures
from artelier.models.offline.figures import code
from artelier.models.offline.parts import Grid, Part
from artelier.models.offline.phrases import listed

LABEL = "*Written by Artelier's offline model: fixed rules, no language model.*"

ROWS_SHOWN = (50, 20, 10)
"""Rows of a table, from the roomiest form of a report to the tightest."""


def document(
    parts: Sequence[Part], *, rows_shown: int = ROWS_SHOWN[0], queries_shown: int | None = None
) -> str:
    """The whole report in Markdown, with so many queries of each part, or all."""
    lines: list[str] = []
    single = len(parts) == 1
    heading = parts[0].title if single else " · ".join(part.title for part in parts)
    lines += [f"# {figures.escaped(heading)}", ""]
    for number, part in enumerate(parts, start=1):
        if not single:
            lines += [f"## {number}. {figures.escaped(part.title)}", ""]
        lines += [" ".join(part.sentences), ""]
        for quote in part.quotes:
            lines += [quote, ""]
        for grid in part.grids:
            lines += [*_grid_lines(grid, rows_shown), ""]
        lines += [*(f"- {note}" for note in part.notes), *([""] if part.notes else [])]
    lines += _computed(parts, queries_shown)
    lines += [LABEL, ""]
    return "\n".join(lines)


def _grid_lines(grid: Grid, rows_shown: int) -> list[str]:
    lines = [figures.table(grid.headings, grid.rows[:rows_shown])]
    if grid.cut:
        lines += ["", f"The first {min(rows_shown, len(grid.rows))} rows; there are more."]
    elif len(grid.rows) > rows_shown:
        lines += ["", f"The first {rows_shown} of {len(grid.rows)} rows."]
    return lines


def _computed(parts: Sequence[Part], queries_shown: int | None) -> list[str]:
    sources = list(dict.fromkeys(source for part in parts for source in part.sources))
    lines = [f"Sources: {listed([code(source) for source in sources])}.", ""] if sources else []
    asked = dict.fromkeys(query for part in parts for query in part.queries)
    shown = dict.fromkeys(query for part in parts for query in part.queries[:queries_shown])
    for query in shown:
        lines += [figures.block(query, "sql"), ""]
    if left := len(asked) - len(shown):
        noun, verb = ("query", "is") if left == 1 else ("queries", "are")
        what = " for rows and totals" if shown else ""
        lines += [f"{left} {noun}{what} {verb} left out here for length.", ""]
    return ["## How this was computed", "", *lines] if lines else []
