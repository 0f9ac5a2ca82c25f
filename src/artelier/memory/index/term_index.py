"""The words of all entries, as flat arrays in the order of the entries, and how they match a question.

Every entry's terms stand one after another in one array; a query marks its terms in a table over the
vocabulary and looks each stored term up. That is one pass over memory for all terms of a question and
their associations, and the same code serves a filtered search, which gathers the terms of the few.

Numpy arrays that grow at the end: doubling, so that adding one value is O(1) amortised.
"""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

import numpy as np

from artelier.errors import InvalidRequest
from artelier.memory.index.query_parser import ParsedQuery
from artelier.memory.index.tokenizer import associations_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    AnyVector = NDArray[np.generic] | Sequence[float] | bytes
    Floats = NDArray[np.float32]
    Slots = NDArray[np.int64]


START = 64
AT_ONCE = 64
"""Vectors that are converted together: 200 KB of 768 numbers."""


Kind = TypeVar("Kind", bound=np.generic)


class GrowableArray(Generic[Kind]):
    """One value per row, of one type."""

    def __init__(self, kind: type[Kind]) -> None:
        self._rows: NDArray[Kind] = np.zeros(START, dtype=kind)
        self._count = 0

    def __len__(self) -> int:
        return self._count

    @property
    def values(self) -> NDArray[Kind]:
        """A view of all rows; not to be kept over an append."""
        return self._rows[: self._count]

    def append(self, value: float) -> None:
        if self._count == len(self._rows):
            self._grow(1)
        self._rows[self._count] = value
        self._count += 1

    def extend(self, values: Sequence[float] | NDArray[np.generic]) -> None:
        end = self._count + len(values)
        if end > len(self._rows):
            self._grow(len(values))
        self._rows[self._count : end] = values
        self._count = end

    def keep(self, mask: NDArray[np.bool_]) -> None:
        """Drop the rows where the mask is False."""
        rows = self.values[mask]
        self._count = len(rows)
        self._rows = np.concatenate((rows, np.zeros(START, dtype=rows.dtype)))

    def _grow(self, by: int) -> None:
        rows = np.zeros(max(2 * len(self._rows), self._count + by), dtype=self._rows.dtype)
        rows[: self._count] = self.values
        self._rows = rows


class VectorColumn:
    """Vectors of length 1, one per row or none, as one float32 matrix."""

    def __init__(self, dims: int) -> None:
        self.dims = dims
        self._matrix: NDArray[np.float32] = np.zeros((START, dims), dtype=np.float32)
        self._has = GrowableArray(np.bool_)

    def __len__(self) -> int:
        return len(self._has)

    @property
    def matrix(self) -> NDArray[np.float32]:
        """All rows; those without a vector are zero. Not to be kept over an append."""
        return self._matrix[: len(self)]

    @property
    def there(self) -> NDArray[np.bool_]:
        """A mask of the rows that hold a vector."""
        return np.asarray(self._has.values, dtype=np.bool_)

    def append(self, vector: AnyVector | None) -> None:
        """Errors: `InvalidRequest` for another length, all zeros, or what is no number."""
        row = len(self)
        self._make_room(1)
        if vector is None:
            self._matrix[row] = 0.0
        else:
            numbers = np.frombuffer(vector, dtype="<f2") if isinstance(vector, bytes) else vector
            self._put(row, np.asarray(numbers, dtype=np.float32).reshape(1, -1))
        self._has.append(vector is not None)

    def extend(self, blobs: Sequence[bytes]) -> None:
        """Many stored vectors at once. Errors: as `append`; then none is added.

        Cost: about 3 us for one of 768 numbers.
        """
        row = len(self)
        self._make_room(len(blobs))
        # Slices that fit the cache: a vector is converted and measured while it is there.
        for start in range(0, len(blobs), AT_ONCE):
            several = blobs[start : start + AT_ONCE]
            if any(len(blob) != 2 * self.dims for blob in several):
                raise _other_length(self.dims, "another")
            numbers = np.frombuffer(b"".join(several), dtype="<f2")
            self._put(row + start, numbers.reshape(len(several), self.dims))
        self._has.extend(np.ones(len(blobs), dtype=np.bool_))

    def keep(self, mask: NDArray[np.bool_]) -> None:
        """Drop the rows where the mask is False."""
        self._matrix = self.matrix[mask]
        self._has.keep(mask)

    def _put(self, row: int, numbers: NDArray[np.floating]) -> None:
        if numbers.shape[1] != self.dims:
            raise _other_length(self.dims, numbers.shape[1])
        rows = self._matrix[row : row + len(numbers)]
        rows[:] = numbers
        lengths = np.sqrt(np.einsum("ij,ij->i", rows, rows))
        if not (np.isfinite(lengths) & (lengths > 0)).all():
            raise InvalidRequest("a vector must have a direction", expected="finite numbers, not all zero")
        # Float16 keeps a length of 1 to three digits; only vectors that never had it are scaled.
        if np.abs(lengths - 1.0).max() > 2e-3:
            rows /= lengths[:, None]

    def _make_room(self, by: int) -> None:
        if len(self) + by > len(self._matrix):
            size = max(len(self) + by, len(self._matrix) * 3 // 2, START)
            grown = np.empty((size, self.dims), dtype=np.float32)
            grown[: len(self)] = self.matrix
            self._matrix = grown


def _other_length(expected: int, got: object) -> InvalidRequest:
    return InvalidRequest("vectors of one index have one length", expected=f"{expected} numbers", got=got)


K1, B = 0.9, 0.4
"""Of BM25, for short texts: measured on conversations, see decision 0009."""
CAPTION = 0.8
"""What a match in a caption counts, against one in the text."""
EXPANSION = 0.5
"""What an associated term counts in BM25."""
COUNT_MAX = 255
FEW = 8
"""Less than one entry in so many: their terms are gathered; else all are looked at, which is faster."""
EXPANSIONS_MAX = 64
BUCKET_MAX = 400
"""Terms of the vocabulary that one misspelt term is compared with."""
SIMILAR_MIN = 0.55
PREFIX = 4
"""Letters that a misspelt term must share with the right one at its start."""
KNOWN_MAX = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """The match of entries with each term of a question."""

    strength: Floats
    """Terms x entries, from 0 to 1."""
    weight: Floats
    """Of each term: its rarity times what it is worth; sums up to 1."""
    bm25: Floats
    """Per entry, all fields and associated terms together."""


class TermIndex:
    """The terms of entries by slot."""

    def __init__(self) -> None:
        self._vocabulary: dict[str, int] = {}
        self._buckets: dict[str, list[str]] = {}
        self._resolved: dict[str, tuple[int, list[tuple[str, int, float]]]] = {}
        self._alike: dict[str, tuple[int, dict[str, float]]] = {}
        self._entries_with = array("q")
        """By term: plain numbers, since they are read and changed one by one."""
        self._terms = GrowableArray(np.int64)
        """As wide as an index is: narrower ones are widened at each look-up, which costs more."""
        self._counts = GrowableArray(np.uint8)
        self._shown = GrowableArray(np.bool_)
        self._owners = GrowableArray(np.int64)
        self._starts = GrowableArray(np.int64)
        self._starts.append(0)
        self._lengths = GrowableArray(np.float32)
        self._alive = 0
        self._total = 0.0

    def add(self, terms: Sequence[str], caption: Sequence[str]) -> None:
        """The next entry's terms, of its text and of its caption."""
        slot = len(self._lengths)
        rows = [(term, count, False) for term, count in Counter(terms).items()]
        rows += [(term, count, True) for term, count in Counter(caption).items()]
        ids = [self._id(term) for term, _, _ in rows]
        self._terms.extend(ids)
        self._counts.extend([min(count, COUNT_MAX) for _, count, _ in rows])
        self._shown.extend([shown for _, _, shown in rows])
        self._owners.extend([slot] * len(rows))
        self._starts.append(len(self._terms))
        self._lengths.append(len(terms) + len(caption))
        for id_ in set(ids):
            self._entries_with[id_] += 1
        self._alive += 1
        self._total += len(terms) + len(caption)

    def forget(self, slot: int) -> None:
        """The entry counts no longer; its rows stay until `keep`."""
        start, end = self._starts.values[slot : slot + 2]
        for id_ in set(self._terms.values[start:end].tolist()):
            self._entries_with[id_] -= 1
        self._alive -= 1
        self._total -= float(self._lengths.values[slot])

    def keep(self, mask: NDArray[np.bool_]) -> None:
        """Drop the entries where the mask is False; slots move up."""
        sizes = np.diff(self._starts.values)[mask]
        rows = mask[self._owners.values]
        for column in (self._terms, self._counts, self._shown):
            column.keep(rows)
        self._lengths.keep(mask)
        self._starts, self._owners = GrowableArray(np.int64), GrowableArray(np.int64)
        self._starts.extend(np.concatenate(([0], np.cumsum(sizes))))
        self._owners.extend(np.repeat(np.arange(len(sizes)), sizes))

    def match(self, question: ParsedQuery, slots: Slots | None) -> Match:
        """Match the entries of `slots` (ascending), or all.

        Cost: O(their terms) if they are few, else O(all terms); nothing here is a loop over entries.
        """
        if slots is not None and len(slots) * FEW > len(self._lengths):
            whole = self.match(question, None)
            return Match(strength=whole.strength[:, slots], weight=whole.weight, bm25=whole.bm25[slots])
        terms = list(question.terms)
        weight = np.array(
            [self.rarity(term) * worth for term, worth in question.terms.items()], dtype=np.float32
        )
        plan, boost, table = self._plan(terms, question)
        rows, owners, count = self._rows(table, slots)
        found = table[self._terms.values[rows]].astype(np.int64)
        share = np.where(self._shown.values[rows], np.float32(CAPTION), np.float32(1.0))
        strength = np.zeros((len(terms), count), dtype=np.float32)
        for number in range(len(terms)):
            there = plan[number].take(found)
            hit = np.flatnonzero(there != 0)
            np.maximum.at(strength[number], owners[hit], there[hit] * share[hit])
        counts = self._counts.values[rows].astype(np.float32)
        lengths = self._lengths.values if slots is None else self._lengths.values[slots]
        average = max(self._total / max(self._alive, 1), 1.0)
        norm = (K1 * (1 - B) + (K1 * B / average) * lengths).astype(np.float32)
        gain = boost[found] * counts * (1 + K1) / (counts + norm[owners])
        bm25 = np.bincount(owners, weights=gain, minlength=count).astype(np.float32)
        total = float(weight.sum())
        return Match(strength=strength, weight=weight / total if total else weight, bm25=bm25)

    def rarity(self, term: str) -> float:
        """The inverse document frequency of BM25; of a term nobody used nearly the highest there is."""
        id_ = self._vocabulary.get(term)
        with_it = 0 if id_ is None else self._entries_with[id_]
        if with_it == 0:
            return 0.9 * math.log(max(self._alive, 2))
        return self._rarity(with_it)

    def _rarity(self, with_it: int) -> float:
        return math.log1p((self._alive - with_it + 0.5) / (with_it + 0.5))

    def _plan(self, terms: list[str], question: ParsedQuery) -> tuple[Floats, Floats, NDArray[np.integer]]:
        """Strengths (place 0 is no match) and BM25 factors of all terms that count, and where they stand."""
        rows: dict[int, dict[int, float]] = {}
        factors: dict[int, float] = {}
        for number, term in enumerate(terms):
            worth = question.terms[term]
            for other, id_, strength in self._resolve(term):
                if not self._entries_with[id_]:
                    continue
                row = rows.setdefault(id_, {})
                row[number] = max(row.get(number, 0.0), strength)
                factor = worth * (1.0 if other == term else EXPANSION * strength)
                factors[id_] = max(factors.get(id_, 0.0), factor)
        plan = np.zeros((len(terms), len(rows) + 1), dtype=np.float32)
        boost = np.zeros(len(rows) + 1, dtype=np.float32)
        # A narrow table stays in the nearest cache.
        kind = np.uint8 if len(rows) < 255 else np.int16
        table = np.zeros(max(len(self._vocabulary), 1), dtype=kind)
        for place, (id_, row) in enumerate(rows.items(), 1):
            table[id_] = place
            for number, strength in row.items():
                plan[number, place] = strength
            boost[place] = factors[id_] * self._rarity(self._entries_with[id_])
        return plan, boost, table

    def _rows(self, table: NDArray[np.integer], slots: Slots | None) -> tuple[Slots, Slots, int]:
        """The stored terms that count, to whom each belongs, and how many entries there are."""
        if slots is None:
            rows = np.flatnonzero(table.take(self._terms.values) != 0)
            owners = self._owners.values[rows]
            return rows, owners, len(self._lengths)
        starts = self._starts.values[slots]
        sizes = self._starts.values[slots + 1] - starts
        ends = np.cumsum(sizes)
        owners = np.repeat(np.arange(len(slots)), sizes)
        rows = np.arange(int(ends[-1]) if len(ends) else 0) + (starts - ends + sizes)[owners]
        counting = np.flatnonzero(table[self._terms.values[rows]] != 0)
        return rows[counting], owners[counting], len(slots)

    def _resolve(self, term: str) -> list[tuple[str, int, float]]:
        """Return which terms of the vocabulary speak for this one; worked out again when it has grown."""
        size, found = self._resolved.get(term, (-1, []))
        if size != len(self._vocabulary):
            found = [
                (other, self._vocabulary[other], strength)
                for other, strength in self._expand(term).items()
                if other in self._vocabulary
            ]
            if len(self._resolved) >= KNOWN_MAX:
                self._resolved.clear()
            self._resolved[term] = (len(self._vocabulary), found)
        return found

    def _expand(self, term: str) -> dict[str, float]:
        """The term, those spelt much like it, and associated ones, with strengths."""
        meant = {term: 1.0}
        for other, strength in associations_of(term).items():
            meant.setdefault(other, strength)
            if len(meant) >= EXPANSIONS_MAX:
                break
        for other, likeness in self._spelt_like(term).items():
            meant[other] = max(meant.get(other, 0.0), 0.8 * likeness)
        return meant

    def _spelt_like(self, term: str) -> dict[str, float]:
        """Terms of the vocabulary that look much the same; only those that are new are compared."""
        bucket = self._buckets.get(term[:PREFIX], ())
        if len(term) <= PREFIX or not bucket:
            return {}
        if len(self._alike) >= KNOWN_MAX:
            self._alike.clear()
        seen, alike = self._alike.get(term, (0, {}))
        for other in bucket[seen:BUCKET_MAX]:
            if other != term and (likeness := _likeness(term, other)) >= SIMILAR_MIN:
                alike[other] = likeness
        self._alike[term] = (len(bucket), alike)
        return alike

    def _id(self, term: str) -> int:
        id_ = self._vocabulary.get(term)
        if id_ is None:
            id_ = self._vocabulary[term] = len(self._vocabulary)
            self._entries_with.append(0)
            if len(term) > PREFIX:
                self._buckets.setdefault(term[:PREFIX], []).append(term)
        return id_


def _likeness(term: str, other: str) -> float:
    """Shared groups of three letters (Dice)."""
    if abs(len(term) - len(other)) > max(len(term), len(other)) // 2:
        return 0.0
    mine, theirs = _trigrams(term), _trigrams(other)
    return 2 * len(mine & theirs) / (len(mine) + len(theirs))


def _trigrams(term: str) -> set[str]:
    edged = f"#{term}#"
    return {edged[place : place + 3] for place in range(len(edged) - 2)}
