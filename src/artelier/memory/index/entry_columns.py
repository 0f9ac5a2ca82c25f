"""The fields of all entries as columns, and the entries that pass a filter."""

from __future__ import annotations

import array
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from artelier.memory.index.index_entry import Record
from artelier.memory.index.query_parser import NUMBER_WORDS, TIME_WORDS, day_of, month_of
from artelier.memory.index.score import ScoreFacts
from artelier.memory.index.term_index import GrowableArray
from artelier.memory.index.tokenizer import words

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Slots = NDArray[np.int64]


_TYPES: dict[str, type[np.generic]] = {
    "session": np.int32,
    "speaker": np.int32,
    "day": np.int32,
    "month": np.int8,
    "length": np.float32,
    "asks": np.bool_,
    "time": np.bool_,
    "number": np.bool_,
    "importance": np.float32,
    "tick": np.int64,
    "trust": np.int32,
}
NOBODY = -1


class FactTable:
    """One row of facts per entry, by slot."""

    def __init__(self) -> None:
        self._columns: dict[str, GrowableArray[Any]] = {
            name: GrowableArray(kind) for name, kind in _TYPES.items()
        }
        self._tags: dict[str, array.array[int]] = {}
        self._trusts: dict[str, int] = {}
        self._speakers: dict[str, int] = {}
        self.names: dict[str, int] = {}
        """Each word of a speaker's name, lower case, to the speaker's number."""
        self.newest_day = 0
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, record: Record) -> None:
        """The next entry's row."""
        said = words(record.text)
        day = day_of(record.date) if record.date else 0
        self.newest_day = max(self.newest_day, day)
        row = {
            "session": self._session(day),
            "speaker": self._speaker(record.speaker),
            "day": day,
            "month": month_of(day),
            "length": math.log1p(len(said)) / 4,
            "asks": "?" in record.text,
            "time": not TIME_WORDS.isdisjoint(said),
            "number": not NUMBER_WORDS.isdisjoint(said) or any(map(str.isdigit, record.text)),
            "importance": record.importance,
            "tick": record.tick,
            "trust": self._trusts.setdefault(record.trust, len(self._trusts)),
        }
        for name, value in row.items():
            self._columns[name].append(value)
        for tag in set(record.tags):
            self._tags.setdefault(tag, array.array("q")).append(self._count)
        self._count += 1

    def keep(self, mask: NDArray[np.bool_]) -> None:
        """Drop the rows where the mask is False; slots move up."""
        for column in self._columns.values():
            column.keep(mask)
        moved = np.cumsum(mask) - 1
        for tag, slots in list(self._tags.items()):
            old = np.array(slots, dtype=np.int64)
            kept = moved[old[mask[old]]]
            if len(kept):
                self._tags[tag] = array.array("q", kept.tolist())
            else:
                del self._tags[tag]
        self._count = int(mask.sum())

    def facts(self, slots: Slots | None, *, places: Slots | None = None) -> ScoreFacts:
        """The facts of some entries, or of all. `places`: where they stand among the living, else slots."""
        take = {
            name: column.values if slots is None else column.values[slots]
            for name, column in self._columns.items()
            if name != "trust"
        }
        if places is None:
            places = np.arange(self._count) if slots is None else slots
        return ScoreFacts(place=places, **take)

    def passing(
        self,
        *,
        tags: Sequence[str],
        min_importance: float | None,
        since: int | None,
        until: int | None,
        trust: Sequence[str] | None,
    ) -> Slots | None:
        """The entries that pass, ascending; None if nothing is filtered.

        Cost: that of the rarest tag, else O(entries) in numpy.
        """
        slots = self._slots_of_tags(tags) if tags else None
        bounds = (
            ("importance", min_importance, np.greater_equal),
            ("tick", since, np.greater_equal),
            ("tick", until, np.less_equal),
        )
        for name, bound, compare in bounds:
            if bound is not None:
                # Importance is stored as float32; the bound must be rounded as it was.
                kind = np.float32 if name == "importance" else np.int64
                slots = self._narrow(slots, compare(self._of(name, slots), kind(bound)))
        if trust is not None:
            known = [self._trusts[label] for label in trust if label in self._trusts]
            slots = self._narrow(slots, np.isin(self._of("trust", slots), known))
        return slots

    def _of(self, name: str, slots: Slots | None) -> NDArray[Any]:
        values = self._columns[name].values
        return values if slots is None else values[slots]

    @staticmethod
    def _narrow(slots: Slots | None, passed: NDArray[np.bool_]) -> Slots:
        return np.flatnonzero(passed) if slots is None else slots[passed]

    def _slots_of_tags(self, tags: Sequence[str]) -> Slots:
        lists = sorted((self._tags.get(tag, array.array("q")) for tag in tags), key=len)
        slots = np.array(lists[0], dtype=np.int64)
        for other in lists[1:]:
            slots = np.intersect1d(slots, np.array(other, dtype=np.int64), assume_unique=True)
        return slots

    def _session(self, day: int) -> int:
        """Entries of one day in a row are one session; so are those without a date."""
        if not self._count:
            return 0
        last = int(self._columns["session"].values[-1])
        return last if int(self._columns["day"].values[-1]) == day else last + 1

    def _speaker(self, name: str) -> int:
        if not name:
            return NOBODY
        number = self._speakers.get(name)
        if number is None:
            number = self._speakers[name] = len(self._speakers)
            for word in words(name):
                self.names.setdefault(word, number)
        return number
