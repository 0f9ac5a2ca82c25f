"""Plain Python answers to compare with: sums and means over rows, and how figures look in a report."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

Row = dict[str, Any]
Keep = Callable[[Row], bool]


def values(rows: Iterable[Row], column: str, keep: Keep = lambda row: True) -> list[Any]:
    return [row[column] for row in rows if keep(row) and row.get(column) is not None]


def count(rows: Iterable[Row], keep: Keep = lambda row: True) -> int:
    return sum(1 for row in rows if keep(row))


def total(rows: Iterable[Row], column: str, keep: Keep = lambda row: True) -> float:
    return sum(values(rows, column, keep))


def mean(rows: Iterable[Row], column: str, keep: Keep = lambda row: True) -> float:
    found = values(rows, column, keep)
    return sum(found) / len(found)


def by(rows: Iterable[Row], group: str | Callable[[Row], Any]) -> dict[Any, list[Row]]:
    groups: dict[Any, list[Row]] = {}
    for row in rows:
        key = group(row) if callable(group) else row.get(group)
        if key is not None:
            groups.setdefault(key, []).append(row)
    return groups


def best(figures: dict[Any, float], number: int = 1, *, descending: bool = True) -> list[Any]:
    """The first keys in the order of their figures; the worlds are made so that none tie."""
    return sorted(figures, key=lambda key: figures[key], reverse=descending)[:number]


def month(row: Row, column: str) -> str | None:
    return f"{row[column]:%Y-%m}" if row[column] is not None else None


def shown(value: Any) -> str:
    """A figure as a sentence of the report shows it."""
    if isinstance(value, float):
        return f"{value:.2f}"
    return str(value)


def answer(report: str) -> str:
    """The words of a report before its tables and notes."""
    kept = []
    for line in report.splitlines():
        if line.startswith("## How this was computed"):
            break
        if line and not line.startswith(("#", "|", "-", "`")):
            kept.append(line)
    return "\n".join(kept)


def bold(report: str) -> list[str]:
    return re.findall(r"\*\*(.+?)\*\*", answer(report))


def grid(report: str, number: int = 0) -> dict[str, list[str]]:
    """A table of the report by the text of its first column."""
    tables: list[list[str]] = [[]]
    for line in report.splitlines():
        if line.startswith("|"):
            tables[-1].append(line)
        elif tables[-1]:
            tables.append([])
    lines = [table for table in tables if table][number]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return {row[0]: row[1:] for row in cells[2:]}
