"""Lorebooks of NovelAI and Agnai in the shape of a `character_book`, which `world_info` reads.

What has no field there goes into an extension of the program's name and is named once, so that it is kept on
the way back out. Sources: files of NovelAI with `lorebookVersion` 5, of Agnai with `kind: memory`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from artelier.operations.lore.untrusted_files import FileProblems

NOVELAI, AGNAI = "novelai", "agnai"
"""Extensions that hold what these programs say and nothing here follows."""

_NOVELAI_ENTRY = {
    "id": "id",
    "displayName": "name",
    "text": "content",
    "keys": "keys",
    "enabled": "enabled",
    "forceActivation": "constant",
}
_AGNAI_BOOK = {
    "name": "name",
    "description": "description",
    "scanDepth": "scan_depth",
    "tokenBudget": "token_budget",
    "recursiveScanning": "recursive_scanning",
    "extensions": "extensions",
}
_AGNAI_ENTRY = {
    "id": "id",
    "name": "name",
    "comment": "comment",
    "entry": "content",
    "keywords": "keys",
    "secondaryKeys": "secondary_keys",
    "selective": "selective",
    "enabled": "enabled",
    "constant": "constant",
    "weight": "insertion_order",
    "priority": "priority",
    "position": "position",
}
_SILENT = ("lastUpdatedAt", "_id", "userId", "kind", "createdAt", "updatedAt")
"""Fields of a program's own housekeeping: kept, and not worth a note."""


def as_book(value: dict[str, Any], notes: FileProblems) -> dict[str, Any]:
    """Return a lorebook's object as a `character_book`; one that is in another form already stays as it is.

    What is not followed goes to `notes`, each field once.
    """
    if "lorebookVersion" in value:
        return _novelai_book(value, notes)
    if value.get("kind") == "memory" or _has_agnai_entries(value.get("entries")):
        return _agnai_book(value, notes)
    return value


def _has_agnai_entries(entries: object) -> bool:
    if not isinstance(entries, list) or not entries or not isinstance(entries[0], dict):
        return False
    first = cast("dict[str, Any]", entries[0])
    return "entry" in first and "keywords" in first


def _novelai_book(value: dict[str, Any], notes: FileProblems) -> dict[str, Any]:
    version = value["lorebookVersion"]
    if not isinstance(version, int) or version > 6:
        notes.warn(f"lorebookVersion: {str(version)[:40]} is unknown; read like 5")
    unfollowed: dict[str, None] = {}
    entries = value.get("entries")
    if isinstance(entries, list):
        entries = [_novelai_entry(entry, unfollowed) for entry in cast("list[object]", entries)]
    rest = {name: item for name, item in value.items() if name != "entries"}
    _note(notes, "a NovelAI lorebook", [*unfollowed, *(name for name in rest if name != "lorebookVersion")])
    return {"entries": entries, "extensions": {NOVELAI: rest}}


def _novelai_entry(entry: object, unfollowed: dict[str, None]) -> object:
    if not isinstance(entry, dict):
        return entry
    fields, rest = _split(cast("dict[str, Any]", entry), _NOVELAI_ENTRY)
    config = rest.get("contextConfig")
    if isinstance(config, dict):
        # The higher, the sooner it gets room; programs that read these files take it for the order, too.
        first = cast("dict[str, Any]", config).get("budgetPriority")
        if isinstance(first, int | float):
            fields["insertion_order"] = fields["priority"] = first
    if any("&" in key for key in _texts(fields.get("keys")) if not key.startswith("/")):
        unfollowed["`&` in keys"] = None
    unfollowed.update(dict.fromkeys(name for name, item in rest.items() if item not in (None, "", [], False)))
    return {**fields, "extensions": {NOVELAI: rest}}


def _agnai_book(value: dict[str, Any], notes: FileProblems) -> dict[str, Any]:
    book, rest = _split(value, _AGNAI_BOOK)
    rest.pop("entries", None)
    unfollowed: dict[str, None] = dict.fromkeys(rest)
    entries = value.get("entries")
    if isinstance(entries, list):
        entries = [_agnai_entry(entry, unfollowed) for entry in cast("list[object]", entries)]
    _note(notes, "an Agnai memory book", [*unfollowed])
    extensions = book.get("extensions")
    if rest and (extensions is None or isinstance(extensions, dict)):
        book["extensions"] = {**cast("dict[str, Any]", extensions or {}), AGNAI: rest}
    return {**book, "entries": entries}


def _agnai_entry(entry: object, unfollowed: dict[str, None]) -> object:
    if not isinstance(entry, dict):
        return entry
    fields, rest = _split(cast("dict[str, Any]", entry), _AGNAI_ENTRY)
    fields.setdefault("selective", bool(fields.get("secondary_keys")))
    unfollowed.update(dict.fromkeys(rest))
    return {**fields, "extensions": {AGNAI: rest}} if rest else fields


def _split(value: Mapping[str, Any], names: Mapping[str, str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the fields that have another name here, and all others as they are."""
    known = {names[name]: item for name, item in value.items() if name in names}
    return known, {name: item for name, item in value.items() if name not in names}


def _texts(value: object) -> list[str]:
    items = cast("list[object]", value) if isinstance(value, list) else []
    return [item for item in items if isinstance(item, str)]


def _note(notes: FileProblems, what: str, unfollowed: list[str]) -> None:
    named = sorted({name for name in unfollowed if name not in _SILENT})
    if named:
        notes.warn(f"{what}: kept, but not followed: {', '.join(named[:20])[:300]}")
