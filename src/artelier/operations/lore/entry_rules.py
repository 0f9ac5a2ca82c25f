"""Rules of a lorebook's entries beside their keys: for which character, at which trigger, which of a group.

The meaning of each is that of World Info files (SillyTavern `world-info.js`), whose entries bring them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from artelier.operations.lore.schemas import LorebookEntry, ScannedText

_TRIGGERS: Mapping[str, frozenset[str]] = {
    "generate": frozenset(("normal",)),
    "regenerate": frozenset(("regenerate", "swipe")),
    "continue": frozenset(("continue",)),
}
"""Triggers of a turn by the names that files give them. Another variant of a reply is a swipe there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoreScene:
    """What the rules of entries look at, beside the messages of a turn."""

    char: str = ""
    """The name of the character who speaks."""
    tags: frozenset[str] = frozenset()
    """The tags of its card."""
    trigger: str = ""
    """`generate`, `regenerate` or `continue`; empty where no rule about triggers is kept to."""
    texts: Mapping[ScannedText, str] = field(default_factory=dict["ScannedText", str])
    """Texts that an entry may have searched with the messages, by name."""

    def allows(self, entry: LorebookEntry) -> bool:
        """Return True if an entry may become active for this character and at this trigger."""
        wanted = entry.characters
        if wanted is not None:
            if wanted.names and (_meet((self.char,), wanted.names) is wanted.exclude):
                return False
            if wanted.tags and (_meet(self.tags, wanted.tags) is wanted.exclude):
                return False
        if not entry.triggers or not self.trigger:
            return True
        meant = _TRIGGERS.get(self.trigger, frozenset((self.trigger,)))
        return not meant.isdisjoint(entry.triggers)

    def more_for(self, entry: LorebookEntry) -> str:
        """Return the text that an entry has searched beside the messages; empty for most."""
        return "\n".join(text for name in entry.also_scans if (text := self.texts.get(name)))


def _meet(some: Iterable[str], others: Iterable[str]) -> bool:
    """Return True if two lists of names have one in common, whatever its case. Cost: O(both)."""
    return not {one.casefold().strip() for one in some}.isdisjoint(one.casefold().strip() for one in others)


class Candidate(Protocol):
    """An entry that was found, and whether it stays from an earlier turn."""

    @property
    def entry(self) -> LorebookEntry: ...

    @property
    def is_sticky(self) -> bool: ...


CandidateT = TypeVar("CandidateT", bound=Candidate)


def choose_of_groups(
    found: Sequence[CandidateT], *, taken: Iterable[str], score: Callable[[LorebookEntry], int], seed: str
) -> list[CandidateT]:
    """Return the candidates that their inclusion groups leave, in their order.

    Of the candidates of one group, those that stay from earlier turns are kept; else nobody is, if the group
    is in `taken`; else the one with the highest order of those that come first (`group_first`); else one by
    chance, in proportion to the weights. Entries with `group_scoring` and fewer keys in the text (`score`)
    are out before that. An entry that loses in one of its groups is out.
    Cost: O(candidates and their groups).
    """
    groups: dict[str, list[CandidateT]] = {}
    for one in found:
        for name in one.entry.groups:
            groups.setdefault(name, []).append(one)
    if not groups:
        return list(found)
    occupied = frozenset(taken)
    scores: dict[str, int] = {}

    def count(entry: LorebookEntry) -> int:  # once, however many groups it is in
        if entry.id not in scores:
            scores[entry.id] = score(entry)
        return scores[entry.id]

    out: set[str] = set()
    for name, members in groups.items():
        rivals = [one for one in members if one.entry.id not in out]
        kept = _winners(rivals, is_taken=name in occupied, score=count, seed=f"{seed}/{name}")
        out |= {one.entry.id for one in rivals} - kept
    return [one for one in found if one.entry.id not in out]


def _winners(
    rivals: Sequence[CandidateT], *, is_taken: bool, score: Callable[[LorebookEntry], int], seed: str
) -> set[str]:
    """Return the ids of those of a group that stay."""
    if sticky := {one.entry.id for one in rivals if one.is_sticky}:
        return sticky
    if is_taken:
        return set()
    entries = _best_scores([one.entry for one in rivals], score)
    if len(entries) < 2:
        return {entry.id for entry in entries}
    first = [entry for entry in entries if entry.group_first]
    if first:
        return {max(first, key=lambda entry: entry.order).id}
    return {_draw(entries, seed).id}


def _best_scores(
    entries: Sequence[LorebookEntry], score: Callable[[LorebookEntry], int]
) -> list[LorebookEntry]:
    if not any(entry.group_scoring for entry in entries):
        return list(entries)
    scores = {entry.id: score(entry) for entry in entries}
    best = max(scores.values())
    return [entry for entry in entries if not entry.group_scoring or scores[entry.id] == best]


def _draw(entries: Sequence[LorebookEntry], seed: str) -> LorebookEntry:
    """Return one of the entries by chance: the same for the same seed."""
    total = sum(entry.group_weight for entry in entries)
    digest = hashlib.blake2b(seed.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    left = int.from_bytes(digest, "big") % total if total else 0
    for entry in entries:
        left -= entry.group_weight
        if left < 0:
            return entry
    return entries[0]
