"""The score of an entry: a weighted sum of parts, each between 0 and 1 or nearly so.

Parts that grow with the question (BM25, similarity of vectors) are scaled by their best or from their
lowest to their highest value among the entries that are searched. Ranks are never fused: the distance
between two scores says something, and fusing ranks throws it away.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from artelier.memory.index.query_parser import ParsedQuery
from artelier.memory.index.term_index import Match

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float32]
    Parts = dict[str, Floats]

REACH = 2
"""How many neighbours on each side share their matches with an entry."""
SHARED = (1.0, 0.7, 0.5)
"""What a neighbour's match counts, by distance. Measured on conversations."""
ANSWER = 0.9
"""What a match in a question counts for the entry after it."""
CONTEXT_BEST = 3
"""Entries of a session that say how much all of it is about the question."""
AFTER_DAYS = 10
"""What happened on a day is told within so many days."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """The weight of each part of a score. The defaults are measured without any model (decision 0009)."""

    words: float = 2.2
    """The share of the question's terms that the entry holds, by rarity."""
    near: float = 4.8
    """The same with matches of neighbouring entries shared; the best entry has 1."""
    reply: float = 5.0
    """What the entry gains from the matches of the question that it follows."""
    bm25: float = 0.4
    """BM25 over text and caption; the best entry has 1."""
    context: float = 3.9
    """The three best entries of the same session."""
    speaker: float = 1.1
    """The question names this entry's speaker, and nobody else."""
    date: float = 3.4
    """The entry is of the days that the question names."""
    after: float = 4.2
    """The entry is of the days right after the day that the question names."""
    length: float = 1.0
    """Logarithm of the number of words: an entry that says little answers little."""
    asks: float = -0.8
    """The entry holds a question."""
    time: float = 2.0
    """The question asks when, and the entry has words of time."""
    number: float = 2.0
    """The question asks how many, and the entry has a number."""
    vector: float = 0.2
    """Similarity of the vectors, from the lowest to the highest."""
    vector_context: float = 0.0
    """The three most similar entries of the same session."""
    recency: float = 0.0
    """From 0 for the oldest entry to 1 for the newest."""
    importance: float = 0.0


DEFAULT = Weights()
"""With the embedder `hashing`, or without vectors."""

SEMANTIC = Weights(
    words=1.6,
    near=4.5,
    reply=4.9,
    bm25=0.2,
    context=1.8,
    speaker=1.1,
    date=3.3,
    after=4.8,
    length=1.6,
    asks=-0.85,
    time=2.1,
    number=1.9,
    vector=2.7,
    vector_context=3.6,
)
"""With an embedder that knows meanings."""

VECTOR_MIN = 0.2
"""Similarity from which a vector alone makes an entry a hit."""

EVIDENCE = ("words", "near", "reply", "bm25", "date", "after")
"""Parts of which one must be above zero, or the vectors be similar, for an entry to be a hit."""


def weights_for(embedder: str) -> Weights:
    """The measured default for an embedder."""
    return DEFAULT if embedder == "hashing" else SEMANTIC


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreFacts:
    """The facts about the entries that are searched: one value for each, in their order."""

    place: NDArray[np.int64]
    """Where the entry stands in the order of adding; ascending. Neighbours are 1 apart."""
    session: NDArray[np.int32]
    """Entries of one session share a number and stand together."""
    speaker: NDArray[np.int32]
    day: NDArray[np.int32]
    month: NDArray[np.int8]
    length: Floats
    asks: NDArray[np.bool_]
    time: NDArray[np.bool_]
    number: NDArray[np.bool_]
    importance: Floats
    tick: NDArray[np.int64]


def parts_of(
    question: ParsedQuery, match: Match, facts: ScoreFacts, similarity: Floats | None, weights: Weights
) -> Parts:
    """All parts that count, as arrays over the entries. Pure. Cost: O(entries x terms)."""
    nearness = _Nearness(facts)
    parts = _lexical(match, facts, nearness)
    parts["context"] = nearness.best_of_session(parts["bm25"])
    if question.speaker is not None:
        parts["speaker"] = _float(facts.speaker == question.speaker)
    if question.asked:
        parts |= _date_parts(question, facts)
    parts |= {"length": facts.length, "asks": _float(facts.asks)}
    if question.wants_time:
        parts["time"] = _float(facts.time)
    if question.wants_number:
        parts["number"] = _float(facts.number)
    if similarity is not None:
        parts["vector"] = _from_lowest(similarity)
        if weights.vector_context:
            parts["vector_context"] = nearness.best_of_session(parts["vector"])
    if weights.recency:
        parts["recency"] = _from_lowest(facts.tick.astype(np.float64)).astype(np.float32)
    if weights.importance:
        parts["importance"] = facts.importance
    return parts


def total(parts: Parts, shares: Mapping[str, float], count: int) -> Floats:
    """The weighted sum."""
    score = np.zeros(count, dtype=np.float32)
    for name, weight in shares.items():
        if name in parts:
            score += np.float32(weight) * parts[name]
    return score


def shares(weights: Weights) -> dict[str, float]:
    """The weights that are not zero, by the names of the parts."""
    named = {field.name: getattr(weights, field.name) for field in dataclasses.fields(weights)}
    return {name: weight for name, weight in named.items() if weight}


def is_evident(parts: Parts, similarity: Floats | None, count: int) -> NDArray[np.bool_]:
    """Return which entries have anything to do with the question."""
    evident = np.zeros(count, dtype=np.bool_)
    for name in EVIDENCE:
        if name in parts:
            evident |= parts[name] > 0
    if similarity is not None:
        evident |= similarity >= VECTOR_MIN
    return evident


class _Nearness:
    """The neighbourhood of entries: those of one session, at most `REACH` apart."""

    def __init__(self, facts: ScoreFacts) -> None:
        self._factors: list[Floats] = []
        for distance in range(1, REACH + 1):
            gaps = facts.place[distance:] - facts.place[:-distance]
            same = facts.session[distance:] == facts.session[:-distance]
            # Beyond the reach the factor is 0; where a filter left gaps, the true distance counts.
            by_gap = np.array([*SHARED, 0.0], dtype=np.float32)
            self._factors.append(by_gap[np.minimum(gaps, REACH + 1)] * same)
        self._begins = np.flatnonzero(np.diff(facts.session, prepend=-1))
        self._session = np.repeat(
            np.arange(len(self._begins)), np.diff(self._begins, append=len(facts.place))
        )

    def spread(self, values: Floats) -> Floats:
        """Each entry's value, or a neighbour's share if that is higher. Over the last axis."""
        out = values.copy()
        for distance, factor in enumerate(self._factors, 1):
            if values.shape[-1] > distance:
                later, earlier = out[..., distance:], out[..., :-distance]
                np.maximum(later, values[..., :-distance] * factor, out=later)
                np.maximum(earlier, values[..., distance:] * factor, out=earlier)
        return out

    def adjacent(self) -> NDArray[np.bool_]:
        """Return, for each entry but the last, whether the next one follows it in the same session."""
        return self._factors[0] >= np.float32(SHARED[1])

    def best_of_session(self, values: Floats) -> Floats:
        """The mean of the best values of each entry's session."""
        if not len(values):
            return values
        left, summed = values.copy(), np.zeros(len(self._begins), dtype=np.float32)
        for _ in range(CONTEXT_BEST):
            best = np.maximum.reduceat(left, self._begins)
            summed += best
            left[left == best[self._session]] = 0.0
        return (summed / np.float32(CONTEXT_BEST))[self._session]


def _lexical(match: Match, facts: ScoreFacts, nearness: _Nearness) -> Parts:
    count = len(facts.place)
    answering = nearness.adjacent() * facts.asks[:-1] * np.float32(ANSWER)
    words, near, reply = (np.zeros(count, dtype=np.float32) for _ in range(3))
    # Few entries: all terms at once. Many: one term after another, so that each fits the cache.
    whole = match.strength.size <= 1 << 15
    for rows in [slice(None)] if whole else [slice(n, n + 1) for n in range(len(match.weight))]:
        strength, weight = match.strength[rows], match.weight[rows]
        if not strength.size:
            continue
        words += weight @ strength
        near += weight @ nearness.spread(strength)
        gain = strength[:, :-1] * answering
        gain -= strength[:, 1:]
        reply[1:] += weight @ np.maximum(gain, 0, out=gain)
    return {"words": words, "near": _of_best(near), "reply": reply, "bm25": _of_best(match.bm25)}


def _date_parts(question: ParsedQuery, facts: ScoreFacts) -> Parts:
    asked = question.asked
    if asked.month and asked.last < asked.first:
        return {"date": _float(facts.month == asked.month)}
    if not asked.exact:
        return {"date": _float((facts.day >= asked.first) & (facts.day <= asked.last))}
    late = facts.day - asked.last
    after = np.where((late >= 0) & (late < AFTER_DAYS), 1 - late / AFTER_DAYS, 0.0)
    month = (facts.month == asked.month) & (np.abs(late) <= 31)
    return {"date": _float(month), "after": after.astype(np.float32)}


def _float(mask: NDArray[np.bool_]) -> Floats:
    return mask.astype(np.float32)


def _of_best(values: Floats) -> Floats:
    best = values.max(initial=0.0)
    return values / best if best > 0 else values


def _from_lowest(values: NDArray[np.floating]) -> Floats:
    if not len(values):
        return values
    lowest, highest = values.min(), values.max()
    return (values - lowest) / (highest - lowest) if highest > lowest else values * 0
