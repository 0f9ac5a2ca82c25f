"""Lines such as `@@depth 4` that stand before the content of an entry of a V3 lorebook.

Those that say what a field of ours says become that field; the others are kept aside, so that they reach no
prompt and stand in the file again when it is written. A line with three `@` is a fallback of the line before.
"""

from __future__ import annotations

from typing import Any, get_args

import msgspec

from artelier.operations.lore.schemas import SCAN_DEPTH_MAX, TURNS_MAX, LorebookEntry, Role

KEPT = "artelier/decorators"
"""The extension that holds the lines nobody here follows."""

_LINES_MAX = 64


def without_decorators(entry: LorebookEntry) -> LorebookEntry:
    """The entry with its decorators turned into fields, or kept in `extensions`."""
    lines, content = _split(entry.content)
    if not lines:
        return entry
    changes: dict[str, Any] = {}
    kept: list[str] = []
    for group in _groups(lines):
        for line in group:
            meant = _meaning(line, entry)
            if meant is not None:
                # Of several with one name the first counts.
                changes = {**meant, **changes}
                break
        else:
            kept += group
    if kept:
        changes["extensions"] = {**entry.extensions, KEPT: kept}
    return msgspec.structs.replace(entry, content=content, **changes)


def with_decorators(entry: LorebookEntry) -> str:
    """The content as it stands in a file."""
    kept: object = entry.extensions.get(KEPT)
    if not isinstance(kept, list):
        return entry.content
    lines = [line for line in kept if isinstance(line, str) and line.startswith("@@")]  # pyright: ignore[reportUnknownVariableType] - JSON
    return "\n".join([*lines, entry.content])


def _split(content: str) -> tuple[list[str], str]:
    """The lines that begin with `@@` at the very top, and the content after them."""
    lines: list[str] = []
    rest = content
    while rest.lstrip().startswith("@@") and len(lines) < _LINES_MAX:
        line, _, rest = rest.lstrip().partition("\n")
        lines.append(line.strip())
    return lines, rest.lstrip("\r\n") if lines else content


def _groups(lines: list[str]) -> list[list[str]]:
    """Each decorator with its fallbacks."""
    groups: list[list[str]] = []
    for line in lines:
        if line.startswith("@@@") and groups:
            groups[-1].append(line)
        else:
            groups.append([line])
    return groups


def _meaning(line: str, entry: LorebookEntry) -> dict[str, Any] | None:
    """Return what it says in fields of an entry; None if there is no field for it, or the value is none."""
    name, _, value = line.lstrip("@").partition(" ")
    value = value.strip()
    match name:
        case "activate":
            return {"constant": True}
        case "dont_activate":
            return {"enabled": False}
        case "keep_activate_after_match":
            return {"sticky": TURNS_MAX}
        case "dont_activate_after_match":
            return {"cooldown": TURNS_MAX}
        case "role" if value in get_args(Role):
            return {"role": value}
        case "position" if value in ("before_desc", "after_desc"):
            return {"place": value.removesuffix("_desc")}
        case "depth" if value.isdecimal() and len(value) < 5:
            return {"place": "depth", "depth": min(int(value), SCAN_DEPTH_MAX)}
        case "scan_depth" if value.isdecimal() and len(value) < 5:
            return {"scan_depth": min(int(value), SCAN_DEPTH_MAX)}
        case "additional_keys" | "exclude_keys" if value and not entry.secondary_keys:
            keys = tuple(key for item in value.split(",") if (key := item.strip()))
            logic = "and_any" if name == "additional_keys" else "not_any"
            return {"secondary_keys": keys, "selective_logic": logic}
        case _:
            return None
