"""The index of one memory: hybrid search over its entries.

It lives in memory and can be rebuilt from what the store keeps. It is not safe against threads that add
while others search; its owner sees to that.
"""

from __future__ import annotations

import array
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from artelier.errors import InvalidRequest
from artelier.memory.index.index_entry import DIMS_MAX, Record, as_vector
from artelier.memory.index.query_parser import (
    NUMBER_WORDS,
    TIME_WORDS,
    ParsedQuery,
    day_of,
    month_of,
    read_question,
    without_names,
)
from artelier.memory.index.score import ScoreFacts, Weights, is_evident, parts_of, shares, total, weights_for
from artelier.memory.index.term_index import FEW, GrowableArray, TermIndex, VectorColumn
from artelier.memory.index.tokenizer import terms, words

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from artelier.memory.index.score import Parts
    from artelier.memory.index.term_index import AnyVector
    from artelier.ports.memory import Vector

    Slots = NDArray[np.int64]
    from numpy.typing import NDArray

    Slots = NDArray[np.int64]

# The fields of all entries as columns, and the entries that pass a filter.

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


LIMIT_MAX = 1_000
DEAD_SHARE = 4
"""One removed entry in so many makes the index close its gaps."""
DEAD_MIN = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """One entry that was found."""

    id: str
    score: float
    """Comparable within one search only."""
    parts: Mapping[str, float]
    """What the score is made of, by the names of `Weights`; sums up to the score."""


class MemoryIndex:
    """Entries in the order of adding, searched by words, fields and vectors.

    Neighbours are entries that were added one after the other, on the same day if they have dates.
    """

    def __init__(self, *, embedder: str = "hashing", dims: int = 0, weights: Weights | None = None) -> None:
        """`dims`: length of the vectors, else that of the first. `weights`: else measured ones."""
        if not 0 <= dims <= DIMS_MAX:
            raise InvalidRequest("dims", expected=f"0 to {DIMS_MAX}", got=dims)
        self.embedder = embedder
        self.weights = weights or weights_for(embedder)
        self._shares = shares(self.weights)
        self._terms = TermIndex()
        self._facts = FactTable()
        self._ids: list[str] = []
        self._slots: dict[str, int] = {}
        self._alive = GrowableArray(np.bool_)
        self._vectors = VectorColumn(dims)

    def __len__(self) -> int:
        return len(self._slots)

    def __contains__(self, id: str) -> bool:
        return id in self._slots

    @property
    def dims(self) -> int:
        """Length of the vectors; 0 before the first one."""
        return self._vectors.dims

    def add(self, record: Record, vector: AnyVector | None = None, *, embedder: str | None = None) -> None:
        """Add an entry at the end.

        `vector`: numbers, or float16 as stored. `embedder`: who made it, where that is known.
        Errors: `InvalidRequest` for an id that is there already, for what is no vector, and for a vector
        of another embedder or length; then nothing is added.
        Cost:   O(length of the text), amortised.
        """
        if record.id in self._slots:
            raise InvalidRequest("this entry is in the index already", got=record.id)
        if vector is not None:
            self._check_source(vector, embedder)
        self._vectors.append(vector)
        self._terms.add(terms(record.text), terms(record.caption))
        self._facts.add(record)
        self._slots[record.id] = len(self._ids)
        self._ids.append(record.id)
        self._alive.append(True)

    def remove(self, id: str) -> None:
        """Take an entry out. Unknown ids are ignored. Cost: O(its length), amortised."""
        slot = self._slots.pop(id, None)
        if slot is None:
            return
        self._alive.values[slot] = False
        self._terms.forget(slot)
        dead = len(self._ids) - len(self._slots)
        if dead >= DEAD_MIN and dead * DEAD_SHARE >= len(self._ids):
            self._close_gaps()

    def query_text(self, query: str) -> str:
        """Return what of a query should be embedded: without the names of speakers, which are a field."""
        return without_names(query, self._facts.names)

    def search(
        self,
        query: str,
        *,
        vector: AnyVector | None = None,
        limit: int = 10,
        tags: Sequence[str] = (),
        min_importance: float | None = None,
        since: int | None = None,
        until: int | None = None,
        trust: str | Sequence[str] | None = None,
        now: int | None = None,
    ) -> list[Hit]:
        """The entries that answer best, best first. Entries without any tie to the query are left out.

        `vector`: of `query_text(query)`, by the index's embedder. `tags`: entries that carry all of them.
        `since`, `until`: ticks, both included. `trust`: entries with one of these labels. `now`: a tick,
        which gives "last week" a meaning where ticks are microseconds.
        Errors: `InvalidRequest` for a limit beyond 1 to 1,000 or a vector that cannot be compared.
        Cost:   O(entries that pass the filters) in numpy.
        """
        if not 1 <= limit <= LIMIT_MAX:
            raise InvalidRequest("limit", expected=f"1 to {LIMIT_MAX}", got=limit)
        near = None if vector is None else self._normalise(vector)
        passing = self._facts.passing(
            tags=(tags,) if isinstance(tags, str) else tags,
            min_importance=min_importance,
            since=since,
            until=until,
            trust=(trust,) if isinstance(trust, str) else trust,
        )
        question = read_question(query, self._facts.names, newest=self._facts.newest_day, now=now)
        slots = self._living(passing)
        count = len(self._ids) if slots is None else len(slots)
        if not count:
            return []
        parts, similarity = self._parts(question, near, slots)
        score = total(parts, self._shares, count)
        score[~is_evident(parts, similarity, count)] = -np.inf
        return self._hits(_best(score, limit), slots, score, parts)

    def _parts(
        self, question: ParsedQuery, near: Vector | None, slots: Slots | None
    ) -> tuple[Parts, NDArray[np.float32] | None]:
        """All parts of the score, and the plain similarity, of the entries that are searched."""
        match = self._terms.match(question, slots)
        similarity = None
        if near is not None:
            similarity = self._similarity(near, slots)
        places = None
        if slots is not None and len(self._slots) < len(self._ids):
            # A removed entry leaves no gap: those before and after it are neighbours now.
            places = (np.cumsum(self._alive.values) - 1)[slots]
        facts = self._facts.facts(slots, places=places)
        return parts_of(question, match, facts, similarity, self.weights), similarity

    def _similarity(self, near: Vector, slots: Slots | None) -> NDArray[np.float32]:
        matrix, there = self._vectors.matrix, self._vectors.there
        if slots is None:
            similarity = matrix @ near
        elif len(slots) * FEW > len(matrix):
            similarity, there = (matrix @ near)[slots], there[slots]
        else:
            similarity, there = matrix[slots] @ near, there[slots]
        if not there.all():
            similarity[~there] = 0.0
        return similarity

    def _living(self, passing: Slots | None) -> Slots | None:
        """Return the slots of the entries that were not removed; None if that is every slot."""
        if len(self._slots) == len(self._ids):
            return passing
        alive = self._alive.values
        return np.flatnonzero(alive) if passing is None else passing[alive[passing]]

    def _hits(
        self, places: Slots, slots: Slots | None, score: NDArray[np.float32], parts: Parts
    ) -> list[Hit]:
        found: list[int] = (places if slots is None else slots[places]).tolist()
        scores: list[float] = score[places].tolist()
        made_of: dict[str, list[float]] = {
            name: (weight * parts[name][places]).tolist()
            for name, weight in self._shares.items()
            if name in parts
        }
        return [
            Hit(
                id=self._ids[slot],
                score=scores[rank],
                parts={name: values[rank] for name, values in made_of.items() if values[rank]},
            )
            for rank, slot in enumerate(found)
        ]

    def _normalise(self, vector: AnyVector) -> Vector:
        self._check_source(vector, None)
        array = as_vector(vector)
        return array / np.float32(np.sqrt(np.dot(array, array)))

    def _check_source(self, vector: AnyVector, embedder: str | None) -> None:
        """Errors: `InvalidRequest` for a vector that another embedder made."""
        size = len(vector) // 2 if isinstance(vector, bytes) else len(vector)
        if not self.dims and 0 < size <= DIMS_MAX and embedder in (None, self.embedder):
            # The length of the first vector is the index's; rows before it have none.
            before = len(self._vectors)
            self._vectors = VectorColumn(size)
            for _ in range(before):
                self._vectors.append(None)
        if size != self.dims or embedder not in (None, self.embedder):
            raise InvalidRequest(
                "vectors of different embedders cannot be compared",
                expected=f"{self.dims} numbers by {self.embedder}",
                got=f"{size} numbers by {embedder or 'an embedder that is not named'}",
                hint="Embed the entries again with one embedder.",
            )

    def _close_gaps(self) -> None:
        mask = np.array(self._alive.values, dtype=np.bool_)
        self._terms.keep(mask)
        self._facts.keep(mask)
        self._vectors.keep(mask)
        self._alive.keep(mask)
        self._ids = [id_ for id_, alive in zip(self._ids, mask, strict=True) if alive]
        self._slots = {id_: slot for slot, id_ in enumerate(self._ids)}


def _best(score: NDArray[np.float32], limit: int) -> Slots:
    """The places of the highest scores, best first; of equal ones the earlier. Minus infinity is none."""
    if limit < len(score):
        bound = np.partition(score, -limit)[-limit]
        places = np.flatnonzero(score >= bound)
    else:
        places = np.arange(len(score))
    places = places[np.argsort(-score[places], kind="stable")][:limit]
    return places[score[places] > -np.inf]
