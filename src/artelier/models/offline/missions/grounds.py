"""The check that the numbers of a line are in what the task was shown, or follow from two beside them."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import replace
from decimal import Decimal

from artelier.models.offline.parts import Part

SMALL_MAX = 12
"""Whole numbers up to here count things."""

NUMBERS_MAX = 50_000
DIGITS_MAX = 30

_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_LINE = re.compile(r", line \d+(?=:)")
"""Where in a file a passage stands is counted by this model, and shown to nobody else."""


class Grounds:
    """The numbers of some texts."""

    def __init__(self, texts: Iterable[str]) -> None:
        found = {one for text in texts for one in _NUMBER.findall(text) if len(one) <= DIGITS_MAX}
        self._texts = found
        self._values = sorted(Decimal(one) for one in sorted(found)[:NUMBERS_MAX])

    def has_all(self, text: str) -> bool:
        """Return True if each number of a text is there as it is written."""
        return set(_NUMBER.findall(text)) <= self._texts

    def hold(self, line: str) -> bool:
        """Return True if each number is small, is there to the places it shows, or follows from two
        others.
        """
        numbers = [one for one in _NUMBER.findall(line) if len(one) <= DIGITS_MAX]
        known = [Decimal(one) for one in numbers if self._has(one)]
        return all(self._is_small(one) or self._has(one) or _follows(Decimal(one), known) for one in numbers)

    def _is_small(self, number: str) -> bool:
        return "." not in number and Decimal(number) <= SMALL_MAX

    def _has(self, number: str) -> bool:
        value, places = Decimal(number), len(number.partition(".")[2])
        half = Decimal(1).scaleb(-places) / 2
        at = bisect_left(self._values, value - half)
        return at < len(self._values) and self._values[at] <= value + half

    def cleaned(self, part: Part) -> Part:
        """A part without notes and queries whose numbers nobody was shown."""
        return replace(
            part,
            notes=tuple(note for note in part.notes if self.hold(note)),
            queries=tuple(query for query in part.queries if self.has_all(query)),
            quotes=tuple(_LINE.sub("", quote, count=1) for quote in part.quotes),
        )


def _follows(number: Decimal, known: list[Decimal]) -> bool:
    return any(number in (abs(first - second), first + second) for first in known for second in known)
