"""JSON Patch, RFC 6902, over data of its own: the document that is given is changed.

By hand, because the packages at hand compare true with 1 as equal or read pointers more freely than
the standard.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping, Sequence
from typing import Any, cast

from artelier.operations.transforms.steps import TransformFailure

_INDEX = re.compile(r"0|[1-9][0-9]{0,15}")


def apply_patch(document: Any, patch: Sequence[Mapping[str, Any]]) -> Any:
    """The document after all operations. Errors: `Failure` that says which can't be done."""
    for at, operation in enumerate(patch):
        try:
            document = _apply(document, operation)
        except TransformFailure as failure:
            raise TransformFailure(failure.code, f"operation {at} of the patch: {failure}") from None
    return document


def _apply(document: Any, operation: Mapping[str, Any]) -> Any:
    name, path = operation["op"], _tokens(operation["path"])
    match name:
        case "add":
            return _add(document, path, operation["value"])
        case "replace":
            _find(document, path)
            return _replace(document, path, operation["value"])
        case "remove":
            _remove(document, path)
            return document
        case "test":
            if not _same(_find(document, path), operation["value"]):
                raise TransformFailure("error", "the test failed")
            return document
        case "copy":
            source = _find(document, _tokens(operation["from"]))
            return _add(document, path, copy.deepcopy(source))
        case _:
            return _move(document, _tokens(operation["from"]), path)


def _move(document: Any, source: list[str], path: list[str]) -> Any:
    if path[: len(source)] == source and len(path) > len(source):
        raise TransformFailure("error", "a value can't move into itself")
    value = _find(document, source)
    if source == path:
        return document
    _remove(document, source)
    return _add(document, path, value)


def _tokens(pointer: str) -> list[str]:
    return [part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:]]


def _missing() -> TransformFailure:
    return TransformFailure("error", "there is nothing at this place")


def _at(items: list[Any], token: str, *, end: int) -> int:
    if not _INDEX.fullmatch(token) or int(token) >= end:
        raise _missing()
    return int(token)


def _find(document: Any, path: list[str]) -> Any:
    for token in path:
        if isinstance(document, dict) and token in document:
            document = cast("dict[str, Any]", document)[token]
        elif isinstance(document, list):
            items = cast("list[Any]", document)
            document = items[_at(items, token, end=len(items))]
        else:
            raise _missing()
    return document


def _add(document: Any, path: list[str], value: Any) -> Any:
    if not path:
        return value
    parent, last = _find(document, path[:-1]), path[-1]
    if isinstance(parent, dict):
        parent[last] = value
    elif isinstance(parent, list):
        items = cast("list[Any]", parent)
        items.insert(len(items) if last == "-" else _at(items, last, end=len(items) + 1), value)
    else:
        raise _missing()
    return document


def _replace(document: Any, path: list[str], value: Any) -> Any:
    if not path:
        return value
    parent = _find(document, path[:-1])
    parent[path[-1] if isinstance(parent, dict) else int(path[-1])] = value
    return document


def _remove(document: Any, path: list[str]) -> None:
    if not path:
        raise TransformFailure("error", "the whole can't be removed")
    _find(document, path)
    parent = _find(document, path[:-1])
    del parent[path[-1] if isinstance(parent, dict) else int(path[-1])]


def _same(left: Any, right: Any) -> bool:
    """Equality of JSON: true is not 1."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, list) and isinstance(right, list):
        first, second = cast("list[Any]", left), cast("list[Any]", right)
        return len(first) == len(second) and all(map(_same, first, second))
    if isinstance(left, dict) and isinstance(right, dict):
        one, other = cast("dict[str, Any]", left), cast("dict[str, Any]", right)
        return one.keys() == other.keys() and all(_same(one[key], other[key]) for key in one)
    return left == right
