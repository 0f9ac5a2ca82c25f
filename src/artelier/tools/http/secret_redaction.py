"""Takes secrets of ours out of what a tool says: a server may send them back, anywhere, in many spellings."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from typing import Any, cast
from urllib.parse import quote, unquote

import msgspec

from artelier.errors import ArtelierError

SECRET = "[secret]"
TEXT_CHARS_MAX = 1_000
"""Of each text of an error; cut after the secrets are out, or half of one would stay."""

_ROUNDS_MAX = 3
"""So often may a secret be encoded over and over and still be found."""
_CODED_CHARS_MIN = 8
"""Shorter pieces of base64 and hexadecimal are in many an innocent text."""
_JSON_ESCAPE = re.compile(r"\\(?:u00([0-9a-f]{2})|(.))", re.DOTALL)
_NAMED = {"amp": "&", "lt": "<", "gt": ">", "quot": '"', "apos": "'"}
_ENTITY = re.compile(rf"&(?:#0*([0-9]{{1,3}})|#x0*([0-9a-f]{{1,2}})|({'|'.join(_NAMED)}));")
"""Of ASCII alone, as secrets are; the table of the standard library is slow on a text of many `&`."""


class Veil:
    """Hides `secrets`: as they are, in another case, escaped or percent-encoded (as often as three times), in
    base64 and in hexadecimal."""

    def __init__(self, secrets: Iterable[str]) -> None:
        found = {form.lower() for secret in secrets if secret for form in _forms(secret)}
        self._forms = sorted(found, key=lambda form: (-len(form), form))

    def text(self, text: str) -> str:
        """The text without secrets; nothing of it where one is hidden too deep to be cut out."""
        if not self._shows(text):
            return text
        text = self._pattern.sub(SECRET, text)
        return SECRET if self._shows(text.replace(SECRET, "")) else text

    def value(self, value: object) -> object:
        """JSON without secrets, in texts, keys and numbers. Lists and dicts are changed in place."""
        if not self._forms or not self._may_show(value):
            return value
        holder: list[Any] = [value]
        open_ones: list[list[Any] | dict[str, Any]] = [holder]
        while open_ones:  # no recursion: a server decides how deep it is
            one = open_ones.pop()
            if isinstance(one, list):
                one[:] = [self._leaf(item) for item in one]
                inner: Iterable[Any] = one
            else:
                pairs = [(self.text(key), self._leaf(item)) for key, item in one.items()]
                one.clear()
                one.update(pairs)
                inner = one.values()
            open_ones += [
                cast("list[Any] | dict[str, Any]", item) for item in inner if isinstance(item, list | dict)
            ]
        return holder[0]

    def error(self, error: ArtelierError) -> None:
        """Take the secrets out of an error, and bound its texts."""
        error.message = self.text(error.message)[:TEXT_CHARS_MAX]
        error.args = (error.message,)
        error.expected = self._fact(error.expected)
        error.got = self._fact(error.got)
        error.hint = cast("str | None", self._fact(error.hint))
        error.facts = {name: self._fact(fact) for name, fact in error.facts.items()}

    def _fact(self, fact: object) -> object:
        if fact is None or isinstance(fact, int | float):  # sizes, statuses, seconds: ours
            return fact
        return self.text(str(fact))[:TEXT_CHARS_MAX]

    def _leaf(self, item: object) -> object:
        if isinstance(item, str):
            return self.text(item)
        if isinstance(item, int | float) and not isinstance(item, bool):
            return SECRET if self._shows(str(item)) else item
        return item

    def _may_show(self, value: object) -> bool:
        """One look at the whole, which is mostly the last."""
        try:
            return self._shows(msgspec.json.encode(value).decode())
        except RecursionError:
            return True

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        """The longest form first; only made when there is something to hide."""
        return re.compile("|".join(map(re.escape, self._forms)), re.IGNORECASE)

    def _shows(self, text: str) -> bool:
        return bool(self._forms) and any(
            form in reading for reading in _readings(text) for form in self._forms
        )


def _forms(secret: str) -> Iterator[str]:
    """Spellings that are cut out of a text; `_readings` undoes others."""
    yield secret
    yield quote(secret, safe="")
    yield msgspec.json.encode(secret).decode()[1:-1]
    raw = secret.encode()
    coded = [raw.hex()]
    for shift in range(3):  # whatever stands before it, such as a user name
        whole = base64.b64encode(bytes(shift) + raw).decode()
        core = whole[-(-shift * 8 // 6) : (shift + len(raw)) * 8 // 6]
        coded += [core, core.replace("+", "-").replace("/", "_")]
    yield from (form for form in coded if len(form) >= _CODED_CHARS_MIN)


def _readings(text: str) -> Iterator[str]:
    """A text as it is, and what it says to those who decode it; lower case."""
    reading = text.lower()
    yield reading
    for _ in range(_ROUNDS_MAX):
        before = reading
        for mark, plain in _PLAIN:
            if mark in reading and (other := plain(reading).lower()) != reading:
                reading = other
                yield reading
        if reading == before:
            return


def _unescape(text: str) -> str:
    return _JSON_ESCAPE.sub(lambda found: chr(int(found[1], 16)) if found[1] else found[2], text)


def _decode_entities(text: str) -> str:
    return _ENTITY.sub(_sign, text)


def _sign(found: re.Match[str]) -> str:
    decimal, hexadecimal, name = found.groups()
    if name:
        return _NAMED[name]
    return chr(int(decimal) if decimal else int(hexadecimal, 16))


_PLAIN: tuple[tuple[str, Callable[[str], str]], ...] = (
    ("\\", _unescape),
    ("%", unquote),
    ("&", _decode_entities),
)
