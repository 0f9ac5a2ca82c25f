"""A large text in windows: each is searched alone, with enough around it that nothing is seen otherwise.

A window owns the values that begin in it. What a detector looks at around a value (the words before it, the
lines of a private key) lies in its margins.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from artelier.pii.decoded_view import RULES, ValuePlace, view_of
from artelier.pii.detectors import find_all
from artelier.pii.hidden_values import find_hidden
from artelier.ports.pii import Detector

WINDOW_CHARS = 256 * 1024
MARGIN_CHARS = 40 * 1024
"""More than the longest value of a shipped detector: a token of three parts has 26,000."""


class TextWindow(NamedTuple):
    """The window to read, from `low` to `high`; values that begin between `start` and `end` count."""

    low: int
    start: int
    end: int
    high: int


def places(detectors: Sequence[Detector], text: str, *, rules: int = RULES) -> list[ValuePlace]:
    """Return what the detectors find, ascending by place, under some `RULES`. Errors: those of `find_all`."""
    view = view_of(text)
    found: list[ValuePlace] = []
    for one in find_all(detectors, view.text):
        start, end = view.span(one.start, one.end)
        found.append(ValuePlace(start, end, one.kind, one.normal, view.text[one.start : one.end]))
    if rules >= 2 and (more := find_hidden(detectors, text, view, found)):
        return sorted((*found, *more))
    return found


def windows(text: str, *, size: int = WINDOW_CHARS, margin: int = MARGIN_CHARS) -> Iterator[TextWindow]:
    """Part a text where lines end, or else words."""
    start, length = 0, len(text)
    while start < length:
        end = length if length - start <= size else _cut(text, start + size // 2, start + size)
        low = _cut(text, max(0, start - 2 * margin), start - margin) if start > margin else 0
        yield TextWindow(low, start, end, min(length, end + margin))
        start = end


def _cut(text: str, floor: int, at: int) -> int:
    for sign in "\n ,":
        found = text.rfind(sign, floor, at)
        if found >= 0:
            return found + 1
    return at


def join_places(text: str, found: Sequence[ValuePlace], kinds_of_tenants: frozenset[str]) -> list[ValuePlace]:
    """Return the places of all windows in order, none over another.

    A match of somebody's pattern may be longer than the margins: its parts are made one.
    """
    done: list[ValuePlace] = []
    for one in sorted(found):
        last = done[-1] if done else None
        if last is None or one.start >= last.end:
            done.append(one)
        elif one.end > last.end and one.kind == last.kind and one.kind in kinds_of_tenants:
            whole: Any = text[last.start : one.end]
            done[-1] = ValuePlace(last.start, one.end, one.kind, whole, whole)
    return done
