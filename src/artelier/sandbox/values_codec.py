"""The data that may cross the sandbox wall, in either direction: JSON of bounded size, nothing else."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple, cast

import msgspec

from artelier.sandbox.dialect_check import parse

DEPTH_MAX = 64
"""Nesting of a value that crosses. A guess, well below the interpreter's smallest useful depth."""

_INT_MIN, _INT_MAX = -(2**63), 2**64 - 1
# The interpreter cuts what is nested deeper than its remaining stack and puts this text in its
# place, without an error. Passing it on would hand over changed data.
_CUT = "<deeply nested>"


class NotData(ValueError):
    """A value may not cross: the text says where and why."""


def data(value: object, *, bytes_max: int) -> Any:
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

    def _list(self, value: Sequence[object], depth: int) -> list[object]:
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


# --------------------------------------------------------------------------- result channel
# The exit of values from the sandbox: only through calls that this file has put around the code.
#
# Turning a value of the interpreter into one of Python happens in this process, holding its lock, and hashes
# the keys of mappings. A few shared tuples as a key would take years. So the interpreter first writes each
# value as JSON inside, under the limits of the run: what that refuses (such a key) or cannot finish (lists
# that unfold without end) never crosses. A value is looked at here only if it was handed over by a call at a
# place in the text that stands right behind that check, which the code cannot forge.

HOST = "__artelier_host"
"""The only function of the host that the interpreter knows."""
PRELUDE_FILE = "<python-input-0>"
"""Of what `prelude` gives, in a run that has one; the code is then the next input."""

_LINE_ENDS = re.compile(rb"\r\n|\r|\n")

# Says why a value was refused, in the words of `values_codec.data`. It may be led astray by code that has
# given builtins other meanings; its answer is checked like any value.
_WHY = f"""\
def __artelier_why(value, way, depth):
    if value is None or value is True or value is False:
        return ''
    if depth > {DEPTH_MAX}:
        return 'the value is nested deeper than {DEPTH_MAX} levels'
    kind = type(value).__name__
    if kind == 'str' or kind == 'int' or kind == 'float':
        return ''
    if kind == 'list' or kind == 'tuple':
        number = 0
        for item in value:
            found = __artelier_why(item, way + '[' + str(number) + ']', depth + 1)
            if found:
                return found
            number += 1
        return ''
    if kind == 'dict':
        for key, item in value.items():
            if type(key).__name__ != 'str':
                return way + ' has a key of type ' + type(key).__name__ + '; keys are text'
            found = __artelier_why(item, way + '.' + key[:40], depth + 1)
            if found:
                return found
        return ''
    return (way + ' is of type ' + kind +
        '; only JSON data crosses (dict, list, str, int, float, bool, None)')
"""

_TOO_DEEP = "the value was nested too deeply to cross"

_VALUE_CALL = f"{HOST}('value', __artelier_value)"
_WHY_CALL = f"{HOST}('why', __artelier_said)"
# Two line ends: a backslash at the end of the code must not join it to this.
# `_WHY` is text until it is needed: most of the cost of this would be to compile it. It may run functions of
# the code, so the check of its answer is imported anew: nothing of the code runs between that and the call.
_ENDING = f"""

from json import dumps as __artelier_dumps
try:
    __artelier_dumps(__artelier_value)
except:
    try:
        exec({_WHY!r})
        __artelier_said = __artelier_why(__artelier_value, 'the value', 0)
    except:
        __artelier_said = '{_TOO_DEEP}'
    from json import dumps as __artelier_dumps
    __artelier_dumps(__artelier_said)
    {_WHY_CALL}
else:
    {_VALUE_CALL}
"""

_CALL = "host(name, args, kwargs)"
_PRELUDE = f"""\
def __artelier_wrap():
    from json import dumps
    host = {HOST}
    def wrap(name):
        def call(*args, **kwargs):
            try:
                dumps((name, args, kwargs))
            except RecursionError:
                raise TypeError(name + '(): {_TOO_DEEP}')
            except (TypeError, ValueError) as error:
                raise TypeError(name + '(): only JSON data crosses: ' + str(error)[:200])
            return {_CALL}
        return call
    return wrap
__artelier_wrap = __artelier_wrap()
"""


class Leaving(NamedTuple):
    """A program whose value leaves by a call."""

    text: str
    value_at: int
    """Where the call with its value stands, in bytes; -1: it has no value."""
    why_at: int
    """Where the call stands that says why its value may not leave."""
    problem: str
    """Why its last expression could not be found; then it has no value that can be had."""


@lru_cache(maxsize=64)
def leaving(code: str) -> Leaving:
    """The program with its last expression handed over. Lines keep their numbers.

    That the expression is found where the interpreter sees it is not what makes this safe: found elsewhere,
    the program has another value, or none.
    """
    try:
        body = parse(code).body
    except SyntaxError as error:
        return Leaving(code, -1, -1, f"not Python: {error.msg}"[:300])
    last = body[-1] if body else None
    if not isinstance(last, ast.Expr):
        return Leaving(code, -1, -1, "")
    raw = code.encode()
    starts = [0, *(match.end() for match in _LINE_ENDS.finditer(raw))]
    first = starts[last.lineno - 1] + last.col_offset
    end = starts[(last.end_lineno or 1) - 1] + (last.end_col_offset or 0)
    parts = (raw[:first], b"__artelier_value = (", raw[first:end], b")", raw[end:])
    head = b"".join(parts)
    ending = _ENDING.encode()
    return Leaving(
        text=(head + ending).decode(),
        value_at=len(head) + ending.index(_VALUE_CALL.encode()),
        why_at=len(head) + ending.index(_WHY_CALL.encode()),
        problem="",
    )


def prelude(names: Iterable[str]) -> str:
    """Return what stands in for functions of the host: each checks what it is called with, then calls
    `HOST`.
    """
    wrapped = (f"{name} = __artelier_wrap({name!r})\n" for name in names)
    return f"{_PRELUDE}{''.join(wrapped)}__artelier_wrap = None\n"


CALL_AT = _PRELUDE.encode().index(_CALL.encode())
"""Where in the prelude the host is called, in bytes."""
