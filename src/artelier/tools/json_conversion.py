"""Python values as JSON data, so that what a tool returns can be stored and replayed.

Nothing is guessed: bytes, NaN and objects without an obvious JSON form are refused by name, with
the path at which they sit. Reading goes the other way in `parameters.py`.
"""

from __future__ import annotations

import dataclasses
import datetime
import math
import uuid
from collections.abc import Callable, Mapping
from decimal import Decimal
from enum import Enum
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, cast

import msgspec

if TYPE_CHECKING:
    from pydantic import BaseModel

DEPTH_MAX = 100
"""Deeper nesting is refused, which also ends cycles. A guess: JSON readers often stop at 128."""

NODES_MAX = 2_000_000
"""Values in one result, so that shared references can't unfold without end. A guess."""

_INT_MIN, _INT_MAX = -(2**63), 2**64 - 1
"""Integers that every JSON codec in use here reads back unchanged."""


class NotJson(ValueError):
    """A value has no JSON form: `where` is its path, such as `rows[3].price`."""

    def __init__(self, where: str, problem: str) -> None:
        super().__init__(f"{where or 'the value'} {problem}")
        self.where = where
        self.problem = problem


def plain_json(value: object) -> object:
    """The same value of dict, list, str, int, float, bool and None only.

    Shapes: pydantic models, dataclasses and structs become objects; Decimal, UUID and paths text;
    dates ISO 8601 text; sets lists in the order of their JSON.
    Errors: `NotJson` for bytes, NaN and infinities, text that is no UTF-8, integers beyond 64 bits,
    keys that are not text or integers, nesting beyond `DEPTH_MAX` and everything unknown.
    """
    return _JsonConverter().convert(value, "", 0)


class _JsonConverter:
    def __init__(self) -> None:
        self.nodes = 0

    def _count(self) -> None:
        self.nodes += 1
        if self.nodes > NODES_MAX:
            raise NotJson("", f"holds more than {NODES_MAX} values")

    def convert(self, value: object, where: str, depth: int) -> object:
        self._count()
        if depth > DEPTH_MAX:
            raise NotJson(where[:120], f"is nested deeper than {DEPTH_MAX} levels")
        if value is None or value is True or value is False:
            return value
        kind = cast("type[Any]", type(value))
        if kind is str:
            return _text(cast(str, value), where)
        if kind is int:
            return _integer(cast(int, value), where)
        if kind is float:
            return _finite(cast(float, value), where)
        if kind is dict or isinstance(value, Mapping):
            return self._object(cast("Mapping[Any, Any]", value), where, depth)
        if isinstance(value, list | tuple):
            return self._list(cast("list[Any]", value), where, depth)
        return self._other(value, where, depth)

    def _object(self, value: Mapping[Any, Any], where: str, depth: int) -> dict[str, Any]:
        result: dict[str, Any] = {}
        for key, item in value.items():
            name = _key(key, where)
            if name in result:
                raise NotJson(where, f"has the key {name[:80]!r} twice once keys are text")
            if depth < DEPTH_MAX and _is_plain(item):
                self._count()
                result[name] = item
            else:
                inner = f"{where}.{name[:80]}" if where else name[:80]
                result[name] = self.convert(item, inner, depth + 1)
        return result

    def _list(self, value: list[Any], where: str, depth: int) -> list[object]:
        result: list[Any] = []
        for i, item in enumerate(value):
            if depth < DEPTH_MAX and _is_plain(item):
                self._count()
                result.append(item)
            else:
                result.append(self.convert(item, f"{where}[{i}]", depth + 1))
        return result

    def _other(self, value: object, where: str, depth: int) -> object:
        if isinstance(value, Enum):
            return self.convert(value.value, where, depth + 1)
        if isinstance(value, set | frozenset):
            items = self._list(list(cast("set[Any]", value)), where, depth)
            return sorted(items, key=msgspec.json.encode)
        fields = _fields(value)
        if fields is not None:
            return self._object(fields, where, depth)
        for kind, convert in _SCALARS:
            if isinstance(value, kind):
                return convert(value, where)
        if isinstance(value, bytes | bytearray | memoryview):
            raise NotJson(where, "is bytes; return text, or write a file and return its path")
        raise NotJson(where, f"is of type {type(value).__name__}, which is not JSON data")


def _is_plain(item: object) -> bool:
    """Return True for what most of a large result is made of, and what stays as it is."""
    if type(item) is int:
        return _INT_MIN <= item <= _INT_MAX
    return item is None or (type(item) is str and item.isascii())


def _fields(value: object) -> Mapping[str, Any] | None:
    """The named fields of a record, None if it is no record."""
    if isinstance(value, type):
        return None
    if isinstance(value, msgspec.Struct):
        return {name: getattr(value, name) for name in value.__struct_fields__}
    if dataclasses.is_dataclass(value):
        return {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
    # pydantic is known by its protocol: importing it here would cost every reader its start-up
    # time.
    if hasattr(value, "__pydantic_serializer__"):
        return cast("BaseModel", value).model_dump(mode="python", warnings=False)
    return None


def _key(key: object, where: str) -> str:
    if isinstance(key, str):
        return _text(str(key), where)
    if isinstance(key, int) and not isinstance(key, bool):
        return str(_integer(key, where))
    raise NotJson(where, f"has a key of type {type(key).__name__}; keys are text")


def _text(value: str, where: str) -> str:
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise NotJson(where, "is text that is not valid UTF-8 (a lone surrogate)") from None
    return value


def _integer(value: int, where: str) -> int:
    if not _INT_MIN <= value <= _INT_MAX:
        raise NotJson(where, "is an integer beyond 64 bits; return it as text")
    return value


def _finite(value: float, where: str) -> float:
    if not math.isfinite(value):
        raise NotJson(where, f"is {value}, which JSON does not have")
    return value


def _decimal(value: Decimal, where: str) -> str:
    if not value.is_finite():
        raise NotJson(where, f"is {value}, which JSON does not have")
    return str(value)


_SCALARS: tuple[tuple[Any, Callable[[Any, str], Any]], ...] = (
    (str, lambda value, where: _text(str.__str__(value), where)),
    (int, lambda value, where: _integer(int(value), where)),
    (float, lambda value, where: _finite(float(value), where)),
    (Decimal, _decimal),
    ((datetime.datetime, datetime.date, datetime.time), lambda value, _: value.isoformat()),
    ((uuid.UUID, PurePath), lambda value, where: _text(str(value), where)),
)
