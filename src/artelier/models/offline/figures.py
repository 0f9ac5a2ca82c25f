"""Figures and cells as text: numbers without noise, data that cannot become markup."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

CELL_CHARS_MAX = 120
MISSING = "(missing)"
_SPECIAL = re.compile(r"([\\`*\[\]<>|]|(?<!\w)_|_(?!\w)|~(?=~))")


def number_from(value: Any) -> Decimal | None:
    """A finite number of a result; None for anything else, text that looks like a number included."""
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        return None
    found = Decimal(str(value))
    return found if found.is_finite() else None


def exact(value: Any) -> str:
    """A number for a table: at most six decimals, at least two if it is not whole."""
    return _plain(value, decimals=6)


def rounded(value: Any) -> str:
    """A number for a sentence: two decimals, more for small ones."""
    number = number_from(value)
    if number is None:
        return cell(value)
    decimals = 2
    while decimals < 6 and 0 < abs(number) < Decimal(10) ** (1 - decimals):
        decimals += 1
    return _plain(value, decimals=decimals)


def _plain(value: Any, *, decimals: int) -> str:
    number = number_from(value)
    if number is None:
        return cell(value)
    if isinstance(value, int):
        return str(value)
    text = format(round(number, decimals), "f")
    whole, _, rest = text.partition(".")
    rest = rest.rstrip("0").ljust(2, "0")
    return f"{'0' if whole == '-0' and not rest.strip('0') else whole}.{rest}"


def percent(value: Any, *, decimals: int = 1) -> str:
    """A percentage with its sign, or a word if there is none."""
    number = number_from(value)
    if number is None:
        return "no percentage"
    shown = round(number, decimals)
    return f"{'+' if shown > 0 else ''}{shown if shown else abs(shown)} %"


def signed(value: Any) -> str:
    number = number_from(value)
    text = rounded(value)
    return f"+{text}" if number is not None and number > 0 else text


def cell(value: Any) -> str:
    """Any value on one line with markup escaped and control characters shown as spaces."""
    if value is None:
        return MISSING
    if isinstance(value, bool):
        return "true" if value else "false"
    return escaped(str(value))


def escaped(text: str) -> str:
    flat = "".join(one if one.isprintable() else " " for one in text)
    flat = " ".join(flat.split())
    if len(flat) > CELL_CHARS_MAX:
        flat = flat[: CELL_CHARS_MAX - 1] + "…"
    return _SPECIAL.sub(r"\\\1", flat)


def code(name: str) -> str:
    """A name as inline code, with a fence that its own backticks cannot close."""
    flat = "".join(one if one.isprintable() else " " for one in name)[:CELL_CHARS_MAX]
    fence = "`" * (max((len(run) for run in re.findall("`+", flat)), default=0) + 1)
    pad = " " if flat[:1] == "`" or flat[-1:] == "`" else ""
    return f"{fence}{pad}{flat}{pad}{fence}"


def compact(value: Any) -> str:
    """A JSON value as text."""
    return json.dumps(value, ensure_ascii=False)


def block(text: str, language: str = "") -> str:
    """Text in a fence longer than any run of backticks in it."""
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text}\n{fence}"


def table(headings: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """A Markdown table; numbers are set right."""
    texts = [[exact(value) for value in row] for row in rows]
    right = [
        bool(rows) and all(value is None or number_from(value) is not None for value in column)
        for column in (list(zip(*rows, strict=True)) if rows else [()] * len(headings))
    ]
    lines = ["| " + " | ".join(escaped(heading) for heading in headings) + " |"]
    lines.append("| " + " | ".join("---:" if one else "---" for one in right) + " |")
    lines += ["| " + " | ".join(row) + " |" for row in texts]
    return "\n".join(lines)
