"""The changes of a consolidation, decided from the entries alone: duplicates, boot text, faded entries.

Nothing here reads or writes. Two facts that may differ are kept rather than merged.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from artelier.memory.index.index_cache import EntryCard
from artelier.memory.index.near_duplicates import Gist, Passages, framing_terms, gist_of, say_the_same

CANDIDATES_MAX = 200
"""Entries that one is compared with."""
RAREST = 4
"""Words of an entry that a duplicate must share one of."""
REPEATED_BONUS = 0.02
"""Importance that each merged repetition adds to what is kept."""
FRESH_MIN = 100
"""Fewer fresh entries than this wait for the next time."""
IDLE_IMPORTANCE = 0.5
"""Up to here an entry may be idle: what nobody weighed."""


@dataclass(slots=True)
class Sifted:
    """The outcome: ids by why they go, and what changes in those that stay."""

    merged: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    """Kept id to those that say the same."""
    aged: list[str] = field(default_factory=list[str])
    boot: list[str] = field(default_factory=list[str])
    raised: dict[str, tuple[float, float]] = field(default_factory=dict[str, tuple[float, float]])

    @property
    def gone(self) -> int:
        return len(self.boot) + len(self.aged) + sum(map(len, self.merged.values()))


class _PlannedEntry(NamedTuple):
    card: EntryCard
    gist: Gist
    is_named: bool
    """Whether it speaks of somebody or something by name."""


def sift(
    cards: Sequence[EntryCard], passages: Passages, *, target: int, fresh_after: int | None, changes_max: int
) -> Sifted:
    """Sift entries, given in the order of adding.

    At most `target` remain. Of those added after the position `fresh_after` at most half do, as far as they
    are idle: no number, name, tag or weight. None spares the fresh ones.
    Cost: O(entries), each compared with at most 200 others.
    """
    found = Sifted()
    items: list[_PlannedEntry] = []
    names = _names(cards)
    for card in cards:
        gist = gist_of(card.text)
        item = _PlannedEntry(card, gist, not names.isdisjoint(gist.terms))
        if passages.hold(item.gist) and found.gone < changes_max:
            found.boot.append(card.id)
        else:
            items.append(item)
    kept = _merge(items, found, changes_max)
    fading = _by_worth(kept)
    if fresh_after is not None:
        fresh = sum(card.position > fresh_after for card in cards)
        fresh_kept = sum(item.card.position > fresh_after for item in kept)
        idle = [item for item in fading if item.card.position > fresh_after and _is_idle(item)]
        if fresh >= FRESH_MIN:
            excess = min(fresh_kept - fresh // 2, changes_max - found.gone)
            found.aged.extend(item.card.id for item in idle[: max(0, excess)])
    aged = set(found.aged)
    excess = min(len(kept) - len(aged) - target, changes_max - found.gone)
    rest = [item.card.id for item in fading if item.card.id not in aged]
    found.aged.extend(rest[: max(0, excess)])
    return found


def _is_idle(item: _PlannedEntry) -> bool:
    """Return True if nothing about an entry says that it matters."""
    card = item.card
    return (
        card.importance <= IDLE_IMPORTANCE and not card.tags and not item.gist.numbers and not item.is_named
    )


def _merge(items: list[_PlannedEntry], found: Sifted, changes_max: int) -> list[_PlannedEntry]:
    """Fill `merged` and `raised`; what is kept, in the order of adding."""
    frequency = Counter(term for item in items for term in item.gist.terms)
    by_term: dict[str, list[_PlannedEntry]] = {}
    groups: dict[str, list[_PlannedEntry]] = {}
    removed = found.gone
    for item in sorted(items, key=_plainness):
        rarest = sorted(item.gist.terms, key=lambda term: (frequency[term], term))[:RAREST]
        first = _original(item, [by_term.get(term, []) for term in rarest], frequency)
        if first is not None and removed < changes_max:
            groups[first.card.id].append(item)
            removed += 1
        else:
            groups[item.card.id] = [item]
            for term in item.gist.terms:
                by_term.setdefault(term, []).append(item)
    kept = [_settle(group, found, frequency) for group in groups.values()]
    return sorted(kept, key=lambda item: item.card.position)


def _plainness(item: _PlannedEntry) -> tuple[bool, int, int, int]:
    """Return what others are compared with first: trusted, then rich in fields, then without framing, then
    old.
    """
    card = item.card
    fields = len(card.tags) + bool(card.speaker) + bool(card.date)
    return card.trust != "trusted", -fields, len(item.gist.terms), card.position


def _original(
    item: _PlannedEntry, candidates: Sequence[Sequence[_PlannedEntry]], frequency: Counter[str]
) -> _PlannedEntry | None:
    """The entry that says the same and loses nothing that `item` has."""
    for among in candidates:
        for other in among[:CANDIDATES_MAX]:
            if _stands_for(other, item) and say_the_same(other.gist, item.gist, frequency):
                return other
    return None


def _stands_for(kept: _PlannedEntry, other: _PlannedEntry) -> bool:
    """Return True if it has all the fields of another, and no less trust."""
    return (
        other.card.about == kept.card.about
        and set(other.card.tags) <= set(kept.card.tags)
        and other.card.speaker in ("", kept.card.speaker)
        and other.card.date in ("", kept.card.date)
        and (kept.card.trust == "trusted" or other.card.trust != "trusted")
    )


def _settle(group: list[_PlannedEntry], found: Sifted, frequency: Counter[str]) -> _PlannedEntry:
    """Return what is kept of entries that say the same: in words that others use too, without framing."""
    if len(group) == 1:
        return group[0]

    def plain(item: _PlannedEntry) -> tuple[float, int, bool, int]:
        own = [frequency[term] for term in item.gist.terms if term not in framing_terms()]
        spelling = sum(map(math.log, own)) / max(1, len(own))
        is_shouted = item.card.text.isupper()
        return round(spelling, 6), -len(item.gist.terms), not is_shouted, -item.card.position

    able = [item for item in group if all(_stands_for(item, other) for other in group)]
    kept = max(able, key=plain)
    found.merged[kept.card.id] = [item.card.id for item in group if item is not kept]
    most = max(item.card.importance for item in group)
    after = min(1.0, round(most + REPEATED_BONUS * (len(group) - 1), 3))
    if after != kept.card.importance:
        found.raised[kept.card.id] = (kept.card.importance, after)
    return kept


def _by_worth(kept: list[_PlannedEntry]) -> list[_PlannedEntry]:
    """Return what is worth least first."""
    frequency = Counter(term for item in kept for term in item.gist.terms)
    worth = {
        item.card.id: _worth(item, place / len(kept), frequency, len(kept)) for place, item in enumerate(kept)
    }
    return sorted(kept, key=lambda item: (worth[item.card.id], item.card.position))


def _worth(item: _PlannedEntry, youth: float, frequency: Counter[str], total: int) -> float:
    """Importance first; then what only this entry says; then its youth (weights are a guess)."""
    # The mean, not the rarest: talk by a pattern holds a rare number too.
    rarity = sum(math.log(total / frequency[term]) for term in item.gist.terms) / (
        max(1, len(item.gist.terms)) * math.log(total + 1)
    )
    telling = min(1.0, len(item.gist.terms) / 4)
    named = 0.2 * bool(item.gist.numbers) + 0.2 * item.is_named
    return item.card.importance + rarity + 0.1 * telling + named + 0.15 * youth


def _names(cards: Sequence[EntryCard]) -> set[str]:
    """Terms that some entry writes with a capital letter within a sentence."""
    found: set[str] = set()
    for card in cards:
        if card.text.isupper():
            continue
        before = "."
        for word in card.text.split():
            if word[0].isupper() and before[-1] not in ".!?:" and len(word) > 1:
                found.update(gist_of(word).terms)
            before = word
    return found
