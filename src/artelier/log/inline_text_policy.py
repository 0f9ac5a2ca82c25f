"""The texts that stand inline in events: keys, ids, labels, codes. Content is behind references.

Inline text can never be removed, so whatever replaces personal data examines all of it (`Names` in
`contract.py`). Cost: one walk over the fields of an event that can hold text.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, cast, get_args

import msgspec

from artelier.log.contract import StreamAppend
from artelier.log.event import BlobRef, EventData, RawDraft

_SILENT: tuple[object, ...] = (int, bool, float, type(None), bytes, BlobRef, Ellipsis)
_FORM = re.compile(r"[bh]:[A-Za-z0-9_-]{43}|[0-9a-f]{64}|[0-9]{1,6}")
"""References, hashes, and the numbers that steps have without a key: made by us, of nobody's words."""

_fields: dict[type, tuple[str, ...]] = {}
"""Fields of a class of event data that can hold text."""


def is_made(name: str) -> bool:
    """Return True if a name is one that no person, model or tool can have chosen."""
    return _FORM.fullmatch(name) is not None


def names_in(append: StreamAppend) -> list[str]:
    """Every text that an append would store inline, actors apart, as often as it stands there."""
    found = [append.stream.space, append.stream.local]
    for draft in append.events:
        if isinstance(draft, RawDraft):
            gather(_plain(draft), found)
        elif not draft.data.IS_RULE:
            gather(draft.data, found)
    return found


def names_of(data: Sequence[EventData]) -> list[str]:
    """The same for events that are about to be noted."""
    found: list[str] = []
    for one in data:
        if not one.IS_RULE:
            gather(one, found)
    return found


def gather(value: object, found: list[str]) -> None:
    """Collect the texts of a value of event data, keys of mappings included."""
    kind = type(value)
    if (fields := _fields.get(kind)) is not None:
        for name in fields:
            item = getattr(value, name)
            if type(item) is str:
                found.append(item)
            elif item:
                gather(item, found)
    elif isinstance(value, str):
        found.append(value)
    elif isinstance(value, dict):
        for key, item in cast("dict[object, object]", value).items():
            gather(key, found)
            gather(item, found)
    elif isinstance(value, tuple | list | set | frozenset):
        for item in cast("Sequence[object]", value):
            gather(item, found)
    elif isinstance(value, msgspec.Struct):
        _learn(kind)
        gather(value, found)


def _learn(kind: type) -> None:
    every = msgspec.structs.fields(kind)
    _fields[kind] = tuple(one.name for one in every if not _is_silent(one.type))


def _is_silent(kind: object) -> bool:
    """Return True if a field of this type can hold no text that somebody chose."""
    if kind in _SILENT:
        return True
    inner = get_args(kind)
    return bool(inner) and all(_is_silent(one) for one in inner)


def _plain(draft: RawDraft) -> Any:
    try:
        return msgspec.json.decode(draft.data)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None  # the writer refuses it
