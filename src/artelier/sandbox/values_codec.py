"""The data that may cross the sandbox wall, in either direction: JSON of bounded size, nothing else."""

from __future__ import annotations

import math
from collections.abc import Sequence
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
    try:
        result = crossing.copy(value, 0)
    except _CannotCross as refused:
        raise NotData(refused.sentence()) from None
    size = len(msgspec.json.encode(result))
    if size > bytes_max:
        raise NotData(f"the value has {size} bytes of JSON, more than {bytes_max}")
    return result


class _CannotCross(Exception):
    """Something may not cross. The way to it is put together while it is raised: it is rarely needed."""

    def __init__(self, says: str, *, named: bool = True) -> None:
        super().__init__(says)
        self.says = says
        self.named = named
        """Whether the sentence begins with where it is."""
        self.way: list[str] = []

    def sentence(self) -> str:
        where = ("the value" + "".join(reversed(self.way)))[:200]
        return f"{where} {self.says}" if self.named else self.says


class _Crossing:
    """Counts while it copies: a few shared lists can unfold into billions of values."""

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self.bytes_left = bytes_max

    def copy(self, value: Any, depth: int) -> Any:
        self.bytes_left -= 1
        if self.bytes_left < 0:
            raise self._too_long()
        if value is None or value is True or value is False:
            return value
        if depth > DEPTH_MAX:
            raise _CannotCross(f"the value is nested deeper than {DEPTH_MAX} levels", named=False)
        # Exact types only: a subclass could carry behaviour from one side to the other.
        kind = cast("type[Any]", type(value))
        if kind is str:
            return self._text(value)
        if kind is int:
            if not _INT_MIN <= value <= _INT_MAX:
                raise _CannotCross("is an integer beyond 64 bits; use str()")
            return value
        if kind is float:
            if not math.isfinite(value):
                raise _CannotCross(f"is {value}, which JSON does not have")
            return value
        if kind is list or kind is tuple:
            return self._list(value, depth + 1)
        if kind is dict:
            return self._dict(value, depth + 1)
        raise _CannotCross(
            f"is of type {_kind_name(value)}; only JSON data crosses "
            "(dict, list, str, int, float, bool, None)"
        )

    def _list(self, value: Sequence[Any], depth: int) -> list[Any]:
        result: list[Any] = []
        try:
            for item in value:
                result.append(self.copy(item, depth))
        except _CannotCross as refused:
            refused.way.append(f"[{len(result)}]")
            raise
        return result

    def _dict(self, value: dict[Any, Any], depth: int) -> dict[str, Any]:
        result: dict[str, Any] = {}
        name = None
        try:
            for key, item in value.items():
                name = None
                if type(key) is not str:
                    raise _CannotCross(f"has a key of type {_kind_name(key)}; keys are text")
                name = self._text(key)
                result[name] = self.copy(item, depth)
        except _CannotCross as refused:
            if name is not None:
                refused.way.append(f".{name[:40]}")
            raise
        return result

    def _text(self, value: str) -> str:
        self.bytes_left -= len(value)
        if self.bytes_left < 0:
            raise self._too_long()
        if value == _CUT:
            raise _CannotCross("was nested too deeply to cross")
        if not value.isascii():
            try:
                value.encode()
            except UnicodeEncodeError:
                raise _CannotCross("is text with a lone surrogate") from None
        return value

    def _too_long(self) -> _CannotCross:
        return _CannotCross(f"the value has more than {self.bytes_max} bytes of JSON", named=False)


def _kind_name(value: Any) -> str:
    # Instances of classes made in the sandbox arrive as stand-ins that know the name.
    kind: str = type(value).__name__
    if kind == "MontyClassProxy":
        return str(value.name)[:40]
    return kind.removeprefix("Monty")
