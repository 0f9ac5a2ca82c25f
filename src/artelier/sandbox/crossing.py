"""What may cross the wall of the sandbox, in either direction: JSON data of bounded size, nothing else."""

from __future__ import annotations

import math
from typing import Any, cast

import msgspec

DEPTH_MAX = 64
"""Nesting of a value that crosses. A guess, well below the interpreter's smallest useful depth."""

_INT_MIN, _INT_MAX = -(2**63), 2**64 - 1
# The interpreter cuts what is nested deeper than its remaining stack and puts this text in its
# place, without an error. Passing it on would hand over changed data.
_CUT = "<deeply nested>"


class NotData(ValueError):
    """A value may not cross: the text says where and why."""


def data(value: Any, *, bytes_max: int) -> Any:
    """The value as fresh dicts, lists and scalars (a tuple becomes a list).

    Errors: `NotData` for any other type, NaN, integers beyond 64 bits, keys that are not text,
    nesting beyond `DEPTH_MAX` and JSON longer than `bytes_max`.
    """
    crossing = _Crossing(bytes_max)
    result = crossing.copy(value, where="the value", depth=0)
    size = len(msgspec.json.encode(result))
    if size > bytes_max:
        raise NotData(f"the value has {size} bytes of JSON, more than {bytes_max}")
    return result


class _Crossing:
    """Counts while it copies: a few shared lists can unfold into billions of values."""

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self.bytes_left = bytes_max

    def copy(self, value: Any, *, where: str, depth: int) -> Any:
        self._spend(1)
        if value is None or value is True or value is False:
            return value
        if depth > DEPTH_MAX:
            raise NotData(f"the value is nested deeper than {DEPTH_MAX} levels")
        # Exact types only: a subclass could carry behaviour from one side to the other.
        kind = cast("type[Any]", type(value))
        if kind is str:
            return self._text(value, where)
        if kind is int:
            return _integer(value, where)
        if kind is float:
            return _finite(value, where)
        if kind is list or kind is tuple:
            return [
                self.copy(item, where=f"{where}[{i}]", depth=depth + 1)
                for i, item in enumerate(value)
            ]
        if kind is dict:
            return self._dict(value, where=where, depth=depth)
        raise NotData(
            f"{where[:200]} is of type {_kind_name(value)}; only JSON data crosses "
            "(dict, list, str, int, float, bool, None)"
        )

    def _dict(self, value: dict[Any, Any], *, where: str, depth: int) -> dict[str, Any]:
        result: dict[str, Any] = {}
        for key, item in value.items():
            if type(key) is not str:
                raise NotData(f"{where[:200]} has a key of type {_kind_name(key)}; keys are text")
            name = self._text(key, where)
            result[name] = self.copy(item, where=f"{where}.{name[:40]}", depth=depth + 1)
        return result

    def _text(self, value: str, where: str) -> str:
        self._spend(len(value))
        return _text(value, where)

    def _spend(self, size_bytes: int) -> None:
        self.bytes_left -= size_bytes
        if self.bytes_left < 0:
            raise NotData(f"the value has more than {self.bytes_max} bytes of JSON")


def _integer(value: int, where: str) -> int:
    if not _INT_MIN <= value <= _INT_MAX:
        raise NotData(f"{where[:200]} is an integer beyond 64 bits; use str()")
    return value


def _finite(value: float, where: str) -> float:
    if not math.isfinite(value):
        raise NotData(f"{where[:200]} is {value}, which JSON does not have")
    return value


def _text(value: str, where: str) -> str:
    if value == _CUT:
        raise NotData(f"{where[:200]} was nested too deeply to cross")
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise NotData(f"{where[:200]} is text with a lone surrogate") from None
    return value


def _kind_name(value: Any) -> str:
    # Instances of classes made in the sandbox arrive as stand-ins that know the name.
    kind: str = type(value).__name__
    if kind == "MontyClassProxy":
        return str(value.name)[:40]
    return kind.removeprefix("Monty")
