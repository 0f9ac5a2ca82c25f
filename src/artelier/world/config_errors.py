"""The mistakes in a world's settings or its file: where, what was expected, what was found.

Read next: `config.py` and `genesis/file.py`, whose tables these are.
"""

from __future__ import annotations

import re
from difflib import get_close_matches
from typing import Any, cast

import msgspec

from artelier.errors import InvalidConfig

Path = tuple[str | int, ...]
"""Of a value in a file, such as `("agents", 0, "scrip")`."""

_WRONG_TYPE = re.compile(r"Expected `(.+)`, got `(.+)`")
_UNKNOWN = re.compile(r"unknown field `(.+)`")
_PART = re.compile(r"\.(\w+)|\[(\d+)\]")
_TYPES = {
    "object": "table (an object)",
    "array": "list",
    "str": "text",
    "int": "whole number",
    "null": "nothing",
}

_KEY = r"""(?:[A-Za-z0-9_-]+|"[^"]*"|'[^']*')"""
_DOTTED = rf"{_KEY}(?:\s*\.\s*{_KEY})*"
_TABLE = re.compile(rf"\s*(\[\[?)\s*({_DOTTED})\s*\]\]?\s*(?:#.*)?$")
_PAIR = re.compile(rf"\s*({_DOTTED})\s*=")


def mistake(error: Exception, root: type[msgspec.Struct], *, what: str) -> InvalidConfig:
    """An error of reading `root` in words of the file. Its fact `path` is a `Path`."""
    message, _, at = str(error).partition(" - at `")
    at = at.rstrip("`")
    path: Path = tuple(
        int(number) if number else name for name, number in _PART.findall(at.removeprefix("key "))
    )
    where = f" at {at}" if at not in ("", "$") else ""
    if unknown := _UNKNOWN.search(message):
        keys = _keys(root, path)
        near = get_close_matches(unknown[1], keys, n=1)
        return InvalidConfig(
            f"{what}: unknown key `{unknown[1]}`{where}",
            expected=", ".join(keys) or None,
            hint=f"Did you mean `{near[0]}`?" if near else None,
            path=(*path, unknown[1]),
        )
    if wrong := _WRONG_TYPE.fullmatch(message):
        return InvalidConfig(
            f"{what}: wrong type{where}", expected=_type(wrong[1]), got=_type(wrong[2]), path=path
        )
    message = message.replace("Object missing required field", "missing key")
    return InvalidConfig(f"{what}: {message}{where}", path=path)


def _type(names: str) -> str:
    """`int | null` as `whole number or nothing`."""
    return " or ".join(_TYPES.get(name, name) for name in names.split(" | "))


def _keys(root: type[msgspec.Struct], path: Path) -> list[str]:
    """The keys of the table at a place, as far as they are fixed."""
    table = msgspec.inspect.type_info(root)
    for part in path:
        table = _table(table)
        if isinstance(table, msgspec.inspect.StructType):
            table = next((one.type for one in table.fields if one.encode_name == part), table)
        elif isinstance(table, msgspec.inspect.ListType):
            table = table.item_type
    table = _table(table)
    if not isinstance(table, msgspec.inspect.StructType):
        return []
    return [one.encode_name for one in table.fields]


def _table(given: Any) -> Any:
    """Return `X` for `X | None`, and any other type unchanged."""
    if isinstance(given, msgspec.inspect.UnionType):
        kept = [one for one in given.types if not isinstance(one, msgspec.inspect.NoneType)]
        return kept[0]
    return given


def shown_path(path: Path) -> str:
    """`world.shocks[0].to`."""
    shown = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return shown.removeprefix(".")


def line_of(text: str, path: Path) -> int:
    """The line of a TOML text, from 1, at which a key stands, or the nearest table around it; 0 if none does.

    A simple scan of a text that parses: keys within inline tables are not looked for.
    """
    lines = _lines(text)
    while path:
        if path in lines:
            return lines[path]
        path = path[:-1]
    return 0


def _lines(text: str) -> dict[Path, int]:
    found: dict[Path, int] = {}
    counts: dict[Path, int] = {}
    table: Path = ()
    inside = ""
    for number, line in enumerate(text.splitlines(), start=1):
        if not inside:
            if heading := _TABLE.match(line):
                table = _index_path(_parts(heading[2]), counts, is_list=heading[1] == "[[")
                found.setdefault(table, number)
            elif pair := _PAIR.match(line):
                parts = _parts(pair[1])
                for end in range(1, len(parts) + 1):
                    found.setdefault((*table, *parts[:end]), number)
        for mark in re.findall(r'"""|\'\'\'', line):
            if not inside:
                inside = mark
            elif inside == mark:
                inside = ""
    return found


def _index_path(parts: Path, counts: dict[Path, int], *, is_list: bool) -> Path:
    """A heading with the numbers of the lists it is in: `[agents.workflow]` is of the last `[[agents]]`."""
    place: Path = ()
    for part in parts[:-1]:
        place = (*place, part)
        if place in counts:
            place = (*place, counts[place] - 1)
    place = (*place, parts[-1])
    if not is_list:
        return place
    counts[place] = counts.get(place, 0) + 1
    return (*place, counts[place] - 1)


def _parts(dotted: str) -> Path:
    return tuple(cast("str", part).strip("\"'") for part in re.findall(_KEY, dotted))
