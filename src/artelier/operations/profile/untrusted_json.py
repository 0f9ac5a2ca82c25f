"""Data of strangers as plain JSON data; whatever cannot be that is noted as a mistake, and raises nothing."""

from __future__ import annotations

import math
from typing import Any, cast

import msgspec

from artelier.operations.profile.validation_errors import Mistakes, Step

BYTES_MAX = 8 * 1024 * 1024
"""Of a profile: text, or all texts inside data."""
VALUES_MAX = 200_000
DEPTH_MAX = 48
_INT_MAX = 2**63 - 1


def read_object(data: object, mistakes: Mistakes) -> dict[str, Any] | None:
    """An object, from itself or from JSON text; a copy that nobody else holds. None: a mistake says why.

    Values that JSON cannot hold are null in it and each a mistake; only numbers that are not finite stay,
    where `order` is asked for: there the rule about it speaks.
    """
    if isinstance(data, str | bytes):
        data = _parse(data, mistakes)
        if data is None:
            return None
    if not isinstance(data, dict):
        got = "null" if data is None else type(data).__name__
        mistakes.add((), "not_an_object", f"a profile is a JSON object, got {got}")
        return None
    copied = _Copy(mistakes).of(cast("dict[object, object]", data), (), 1)
    return cast("dict[str, Any]", copied) if isinstance(copied, dict) else None


def _parse(text: str | bytes, mistakes: Mistakes) -> object:
    if len(text) > BYTES_MAX:
        mistakes.add((), "too_large", f"a profile has at most {BYTES_MAX} bytes of JSON")
        return None
    try:
        found: object = msgspec.json.decode(text)
    except (msgspec.MsgspecError, UnicodeError) as error:
        mistakes.add((), "not_json", f"the text is not JSON: {error}")
        return None
    except RecursionError:
        mistakes.add((), "too_deep", f"a profile nests at most {DEPTH_MAX} levels")
        return None
    if found is None:
        mistakes.add((), "not_an_object", "a profile is a JSON object, got null")
    return found


class _Copy:
    """One pass over the data, bounded in values, characters and depth."""

    def __init__(self, mistakes: Mistakes) -> None:
        self._mistakes = mistakes
        self._values = 0
        self._chars = 0

    def of(self, value: object, at: tuple[Step, ...], depth: int) -> object:
        if self._is_full(value, at):
            return None
        if value is None or value is True or value is False:
            return value
        if isinstance(value, str):
            return self._text(value, at)
        if isinstance(value, int | float):
            return self._number(value, at)
        if not isinstance(value, dict | list | tuple):
            return self._refuse(at, "not_json", f"{type(value).__name__} is nothing JSON can hold")
        if depth > DEPTH_MAX:
            return self._refuse(at, "too_deep", f"a profile nests at most {DEPTH_MAX} levels")
        if isinstance(value, dict):
            return self._object(cast("dict[object, object]", value), at, depth)
        items = cast("list[object] | tuple[object, ...]", value)
        return [self.of(item, (*at, index), depth + 1) for index, item in enumerate(items)]

    def _is_full(self, value: object, at: tuple[Step, ...]) -> bool:
        """Counts a value in; once there are too many, nothing more is copied and one mistake says so."""
        self._values += 1
        self._chars += len(value) if isinstance(value, str) else 0
        full = self._values > VALUES_MAX or self._chars > BYTES_MAX
        if full:
            limits = f"{VALUES_MAX} values and {BYTES_MAX} characters"
            self._mistakes.add((), "too_large", f"a profile has at most {limits}")
        return full

    def _object(self, value: dict[object, object], at: tuple[Step, ...], depth: int) -> object:
        found: dict[str, object] = {}
        for key, item in value.items():
            if self._values > VALUES_MAX or self._chars > BYTES_MAX:
                break
            if not isinstance(key, str):
                self._refuse(at, "not_json", f"a key is no text but {type(key).__name__}")
                continue
            name = self._text(key, at)
            self._chars += len(key)
            if name is not None:
                found[name] = self.of(item, (*at, name), depth + 1)
        return found

    def _text(self, value: str, at: tuple[Step, ...]) -> str | None:
        try:
            value.encode()
        except UnicodeEncodeError:
            self._refuse(at, "not_unicode", "a text with lone surrogates is no Unicode")
            return None
        return str(value)

    def _number(self, value: float, at: tuple[Step, ...]) -> object:
        if isinstance(value, int):
            if abs(value) <= _INT_MAX:
                return int(value)
            return self._refuse(at, "not_json", "an integer of more than 64 bits")
        if math.isfinite(value) or at[-1:] == ("order",):
            return float(value)
        return self._refuse(at, "not_json", "a number that is not finite")

    def _refuse(self, at: tuple[Step, ...], code: str, message: str) -> None:
        self._mistakes.add(at, code, message)
