"""The lines of keys in a TOML file. `tomllib` gives values without places, and an error needs its line."""

from __future__ import annotations

import re
from collections.abc import Sequence

Path = tuple[str, ...]

_KEY = r"""(?:[A-Za-z0-9_-]+|"(?:[^"\\]|\\.)*"|'[^']*')"""
_DOTTED = rf"{_KEY}(?:\s*\.\s*{_KEY})*"
_TABLE = re.compile(rf"\s*\[\[?\s*({_DOTTED})\s*\]\]?\s*(?:#.*)?$")
_PAIR = re.compile(rf"\s*({_DOTTED})\s*=")
_PART = re.compile(_KEY)
_MULTILINE = re.compile(r'"""|\'\'\'')


def key_lines(text: str) -> dict[Path, int]:
    """Line (from 1) of every table and key of a file that parses, but for those inside inline tables."""
    found: dict[Path, int] = {}
    table: Path = ()
    inside: str | None = None
    for number, line in enumerate(text.splitlines(), start=1):
        if inside is None:
            if (heading := _TABLE.match(line)) is not None:
                table = _parts(heading[1])
                found.setdefault(table, number)
            elif (pair := _PAIR.match(line)) is not None:
                found.setdefault((*table, *_parts(pair[1])), number)
        for mark in _MULTILINE.findall(line):
            if inside is None:
                inside = mark
            elif inside == mark:
                inside = None
    return found


def line_of(lines: dict[Path, int], path: Sequence[str]) -> int:
    """Line of a key, or of the nearest table around it; 1 if nothing is known."""
    at = tuple(path)
    while at:
        if at in lines:
            return lines[at]
        deeper = [line for key, line in lines.items() if key[: len(at)] == at]
        if deeper:
            return min(deeper)
        at = at[:-1]
    return 1


def _parts(dotted: str) -> Path:
    return tuple(_unquote(part) for part in _PART.findall(dotted))


def _unquote(part: str) -> str:
    if part.startswith("'"):
        return part[1:-1]
    if part.startswith('"'):
        return part[1:-1].encode().decode("unicode_escape")
    return part
