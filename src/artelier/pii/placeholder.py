r"""Placeholders: `<EMAIL_7Q2FKX>` stands for one value of a tenant; a typed look-alike is escaped.

The code behind the kind is a keyed hash of the value, so that nobody guesses one who was not shown it.
`<\EMAIL_7Q2FKX>` is text that only looks like one; each escape adds a backslash, each reading takes one.
"""

from __future__ import annotations

import re
from base64 import b32encode
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, cast

import msgspec

__all__ = ["loses_fields", "map_json"]


# --------------------------------------------------------------------------- json walk
# One walk over JSON data of any depth: whoever sends data chooses how deep it is.


PRIMES_MAX = 3
"""Of keys that became equal; more of them are numbered."""


def map_json(value: Any, change: Callable[[Any, str], Any]) -> Any:
    """JSON data with `change(leaf, name of its field)` for each leaf, `change(key, "")` for each text key.

    Keys that become equal are told apart by primes, many of them by numbers, so that no field is lost.
    Tuples become lists. Cost: O(size), however many keys become equal.
    """
    whole: list[Any] = [None]
    waiting: list[tuple[Any, str, Any, Any]] = [(value, "", whole, 0)]
    while waiting:
        one, label, into, at = waiting.pop()
        if isinstance(one, dict):
            made: dict[Any, Any] = {}
            into[at] = made
            times: dict[Any, int] = {}
            for key, item in cast("dict[Any, Any]", one).items():
                named = change(key, "") if isinstance(key, str) else key
                if named in made:
                    named = _apart(named, made, times)
                made[named] = None
                if _is_nested(item):
                    waiting.append((item, str(key), made, named))
                else:
                    made[named] = change(item, str(key))
        elif isinstance(one, list | tuple):
            items = cast("Sequence[Any]", one)
            into[at] = filled = [None] * len(items)
            for n, item in enumerate(items):
                if _is_nested(item):
                    waiting.append((item, label, filled, n))
                else:  # no tuple for each leaf: a collection of garbage looks at all of them
                    filled[n] = change(item, label)
        else:
            into[at] = change(one, label)
    return whole[0]


def _is_nested(item: Any) -> bool:
    return isinstance(item, dict | list | tuple)


def _apart(named: Any, taken: dict[Any, Any], times: dict[Any, int]) -> str:
    """A name beside one that is taken. `times` holds the last mark of each, so that no search begins anew."""
    while True:
        times[named] = count = times.get(named, 0) + 1
        marked = named + "'" * count if count <= PRIMES_MAX else f"{named}'{count}"
        if marked not in taken:
            return marked


def fields_in(value: Any) -> int:
    """Return how many fields the objects of JSON data have together."""
    count, waiting = 0, [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict):
            given = cast("dict[str, Any]", one)
            count += len(given)
            waiting.extend(given.values())
        elif isinstance(one, list):
            waiting.extend(cast("list[Any]", one))
    return count


def loses_fields(before: bytes | str, after: bytes | str) -> bool:
    """Return True if keys of JSON text that differed are equal after a change. Both must be JSON."""
    return fields_in(msgspec.json.decode(after)) < fields_in(msgspec.json.decode(before))


# --------------------------------------------------------------------------- placeholder


KIND = r"[A-Z][A-Z0-9_]{1,23}"
CODE_CHARS = 6
CODE_CHARS_MAX = 26

PLACEHOLDER = re.compile(rf"<({KIND})_[A-Z2-7]{{{CODE_CHARS},{CODE_CHARS_MAX}}}>")
_ANY = re.compile(rf"<(\\*)({KIND}_[A-Z2-7]{{{CODE_CHARS},{CODE_CHARS_MAX}}})>")
_WRITTEN = re.compile(rf"(?:\\?<|&lt;)({KIND}_[A-Z2-7]{{{CODE_CHARS},{CODE_CHARS_MAX}}})(?:\\?>|&gt;)")
"""As it stands in Markdown or HTML, too, whose writers escape the brackets."""

_ESCAPED = re.compile(rf"<\\(\\*{KIND}_[A-Z2-7]{{{CODE_CHARS},{CODE_CHARS_MAX}}})>")
_ESCAPED_JSON = re.compile(rf"<\\\\(\\*{KIND}_[A-Z2-7]{{{CODE_CHARS},{CODE_CHARS_MAX}}})>")


def placeholder(kind: str, digest: bytes, *, chars: int = CODE_CHARS) -> str:
    """The placeholder of a value with this keyed hash."""
    return f"<{kind}_{b32encode(digest).decode()[:chars]}>"


PIECE_CHARS = 1024 * 1024
"""Of a text that is searched at once: no other thread runs meanwhile."""


def _pieces(text: str) -> Iterator[str]:
    """Part a large text before signs that a placeholder has at its start alone."""
    at = 0
    while len(text) - at > PIECE_CHARS:
        end = text.find("<", at + PIECE_CHARS)
        if end < 0:
            break
        yield text[at:end]
        at = end
    yield text[at:] if at else text


def placeholders_in(text: str) -> list[str]:
    """Every placeholder of a text, as often as it stands there."""
    if "<" not in text:
        return []
    return [found[0] for piece in _pieces(text) for found in PLACEHOLDER.finditer(piece)]


def count_placeholders(text: str) -> Counter[str]:
    """Return how many placeholders of which kind a text has."""
    if "<" not in text:
        return Counter()
    return Counter(found[1] for found in PLACEHOLDER.finditer(text))


def escape_lookalikes(text: str, keep: Callable[[str], bool]) -> str:
    """Text in which look-alikes are no placeholders any more, but for those that `keep` knows."""
    if "<" not in text:
        return text

    mark: str | None = None

    def escape_match(found: re.Match[str]) -> str:
        nonlocal mark
        if not found[1] and keep(found[0]):
            return found[0]
        if mark is None:
            mark = "\\\\" if is_json(text) else "\\"  # a text that is JSON stays JSON
        return f"<{mark}{found[1]}{found[2]}>"

    return "".join(_ANY.sub(escape_match, piece) for piece in _pieces(text))


def escape_json(value: Any, keep: Callable[[str], bool] = lambda _: False) -> Any:
    """JSON data that somebody typed, in which nothing is a placeholder but for those that `keep` knows.

    What is escaped stays as it is.
    """

    def text(leaf: str) -> str:
        if "<" not in leaf:
            return leaf
        return "".join(
            PLACEHOLDER.sub(lambda found: found[0] if keep(found[0]) else f"<\\{found[0][1:]}", piece)
            for piece in _pieces(leaf)
        )

    return map_json(value, lambda leaf, _: text(leaf) if isinstance(leaf, str) else leaf)


def is_json(text: str) -> bool:
    """Return True if a text is an object or array of JSON, such as the reply of a model."""
    if text.lstrip()[:1] not in ("{", "["):
        return False
    try:
        # A large one is checked and not made into objects, which take twenty times its memory.
        msgspec.json.decode(text, type=msgspec.Raw if len(text) > PIECE_CHARS else Any)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return False
    return True


def restore_values(text: str, value_of: Callable[[str], str | None]) -> str:
    """Text with values in place of placeholders that have one, and with look-alikes as they were typed."""
    if "<" not in text and "&lt;" not in text:
        return text
    if _ESCAPED.search(text) is None:
        return _WRITTEN.sub(lambda found: value_of(f"<{found[1]}>") or found[0], text)
    escape = _ESCAPED_JSON if is_json(text) else _ESCAPED
    text = _WRITTEN.sub(lambda found: value_of(f"<{found[1]}>") or found[0], text)
    return escape.sub(r"<\1>", text)
