"""Rules of a lorebook's entries beside their keys: for which character, at which trigger, which of a group.

The meaning of each is that of World Info files (SillyTavern `world-info.js`), whose entries bring them.
"""

from __future__ import annotations

import hashlib
import re
import sys
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar

from artelier.operations.lore.schemas import LorebookEntry, ScannedText
from artelier.patterns import size_of

if TYPE_CHECKING:
    import regex

_TRIGGERS: Mapping[str, frozenset[str]] = {
    "generate": frozenset(("normal",)),
    "regenerate": frozenset(("regenerate", "swipe")),
    "continue": frozenset(("continue",)),
}
"""Triggers of a turn by the names that files give them. Another variant of a reply is a swipe there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoreScene:
    """The facts that the rules of entries look at, beside the messages of a turn."""

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
        return is_triggered(self.trigger, entry.triggers)

    def more_for(self, entry: LorebookEntry) -> str:
        """Return the text that an entry has searched beside the messages; empty for most."""
        return "\n".join(text for name in entry.also_scans if (text := self.texts.get(name)))


def is_triggered(trigger: str, wanted: Sequence[str]) -> bool:
    """Return True if a trigger of a turn is one of those that a file names; none, or an empty one, is any."""
    meant = _TRIGGERS.get(trigger, frozenset((trigger,)))
    return not wanted or not trigger or not meant.isdisjoint(wanted)


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


# Keys of a lorebook and the text they are looked for in: fast for many keys, bounded for hostile ones.

SEARCHED_CHARS_MAX = 100_000
"""Of messages, the newest, and as many of the content of entries (guess: a whole context window)."""

WORK_CHARS_MAX = 64_000_000
"""The characters that all searches of one activation may pass over; seconds for the worst keys there are."""

PATTERN_S_MAX = 0.5
"""Of one pattern over one text. An honest one takes a thousandth of this."""

PATTERNS_S_MAX = 1.0
"""Of all patterns that did not end in time, in one activation."""

PATTERN_SIZE_MAX = 20_000
"""Of a pattern with its counted repeats written out: `regex` does write them out, before any time limit."""

# The cost of other work, in characters passed over (measured, roughly).
_GRAM_WORK, _PATTERN_WORK, _PLACE_WORK = 64, 20_000, 200

_GRAM_BYTES = 4
_ANY = -1
"""Stands for a key that is shorter; it is among the runs of every text."""

_SLASHED = re.compile(r"/((?:[^\\/]|\\.)+)/([gimsuyv]{0,7})", re.DOTALL)

# Scripts that put no space between words: a letter beside a key says nothing there.
_UNSPACED = (
    (0x0E00, 0x0EFF),
    (0x1000, 0x109F),
    (0x1780, 0x17FF),
    (0x3040, 0x30FF),
    (0x31F0, 0x31FF),
    (0x3400, 0x4DBF),
    (0x4E00, 0x9FFF),
    (0xAC00, 0xD7AF),
    (0xF900, 0xFAFF),
    (0x20000, 0x3FFFF),
)


class WorkAllowance:
    """The remaining work allowance of one activation."""

    def __init__(self) -> None:
        self.chars = WORK_CHARS_MAX
        self.pattern_s = PATTERNS_S_MAX
        self.timed_out: set[str] = set()
        """Patterns that did not end in time; they count as not found."""

    @property
    def is_spent(self) -> bool:
        return self.chars <= 0


def fold_case(text: str, *, case_sensitive: bool) -> str:
    """Text as it is compared: composed, and without case unless case counts."""
    if not text.isascii():
        text = unicodedata.normalize("NFC", text)
    return text if case_sensitive else text.casefold()


def is_pattern(key: str) -> bool:
    """Return True if a key looks like `/pattern/flags`; a slash inside is escaped, else it is a path."""
    return key[:1] == "/" and _SLASHED.fullmatch(key) is not None


@lru_cache(maxsize=2_048)
def pattern_of(key: str) -> regex.Pattern[str] | None:
    """The compiled `/pattern/flags`; None for plain text and for what is no pattern, or too large a one."""
    slashed = _SLASHED.fullmatch(key)
    if slashed is None or size_of(slashed[1]) > PATTERN_SIZE_MAX:
        return None
    import regex

    flags = 0
    for letter in slashed[2]:
        flags |= {"i": regex.IGNORECASE, "m": regex.MULTILINE, "s": regex.DOTALL}.get(letter, 0)
    try:
        return regex.compile(slashed[1].replace("\\/", "/"), flags, cache_pattern=False)
    except (regex.error, ValueError, OverflowError, RecursionError):
        return None


class Needles(NamedTuple):
    """Keys, ready to be looked for."""

    plain: tuple[tuple[str, str, int, int], ...]
    """Each as it was given, as it is compared, and its first and last four bytes as numbers."""
    patterns: tuple[str, ...]


NO_NEEDLES = Needles((), ())


def needles(keys: tuple[str, ...], *, case_sensitive: bool, use_regex: bool) -> Needles:
    """Cost: O(characters of the keys); worth keeping."""
    if not keys:
        return NO_NEEDLES
    plain: list[tuple[str, str, int, int]] = []
    patterns: list[str] = []
    for key in keys:
        if use_regex and is_pattern(key):
            patterns.append(key)
        elif compared := fold_case(key.strip(), case_sensitive=case_sensitive):
            head = tail = _ANY
            packed = compared.encode("utf-8", "surrogatepass")
            if len(packed) >= _GRAM_BYTES:
                head = int.from_bytes(packed[:_GRAM_BYTES], sys.byteorder)
                tail = int.from_bytes(packed[-_GRAM_BYTES:], sys.byteorder)
            plain.append((key, compared, head, tail))
    return Needles(tuple(plain), tuple(patterns))


class SearchedText:
    """A text, ready to be searched for many keys."""

    __slots__ = ("_case_sensitive", "_folded", "_grams", "_raw")

    def __init__(self, raw: str, *, case_sensitive: bool) -> None:
        self._raw = raw
        self._case_sensitive = case_sensitive
        self._folded = fold_case(raw, case_sensitive=case_sensitive)
        self._grams: set[int] | None = None

    def first(self, wanted: Needles, *, whole_words: bool, work: WorkAllowance) -> str | None:
        """The first of the keys that is there, as it was given; None, too, when no work is left."""
        if work.is_spent:
            return None
        if wanted.plain:
            grams = self._grams
            if grams is None:
                grams = self._grams = _grams(self._folded)
                work.chars -= len(self._folded) * _GRAM_WORK
            for key, compared, head, tail in wanted.plain:
                if head in grams and tail in grams and self._has(compared, whole_words, work):
                    return key
        return next((key for key in wanted.patterns if self._matches(key, work)), None)

    def _has(self, compared: str, whole_words: bool, work: WorkAllowance) -> bool:
        if work.is_spent:
            return False
        text = self._folded
        work.chars -= len(text)
        at = text.find(compared)
        if not whole_words or len(compared.split()) > 1:  # several words are looked up as they stand
            return at >= 0
        while at >= 0:
            if not _joins(text, at) and not _joins(text, at + len(compared)):
                return True
            work.chars -= _PLACE_WORK
            at = -1 if work.is_spent else text.find(compared, at + 1)
        return False

    def _matches(self, key: str, work: WorkAllowance) -> bool:
        """Return True if a pattern matches; one that takes too long does not, and is not tried again."""
        work.chars -= _PATTERN_WORK
        if work.is_spent:
            return False
        if key in work.timed_out or work.pattern_s <= 0:
            work.timed_out.add(key)
            return False
        pattern = pattern_of(key)
        if pattern is None:
            as_text = needles((key,), case_sensitive=self._case_sensitive, use_regex=False)
            return self.first(as_text, whole_words=False, work=work) is not None
        limit_s = min(PATTERN_S_MAX, work.pattern_s)
        try:
            return pattern.search(self._raw, timeout=limit_s) is not None
        except TimeoutError:
            work.pattern_s -= limit_s
        except (RecursionError, MemoryError):
            pass
        work.timed_out.add(key)
        return False


def _grams(text: str) -> set[int]:
    """All runs of four bytes as numbers, read at four offsets: a tenth of the cost of slices."""
    packed = text.encode("utf-8", "surrogatepass")
    found = {_ANY}
    for offset in range(_GRAM_BYTES):
        size_bytes = (len(packed) - offset) // _GRAM_BYTES * _GRAM_BYTES
        found.update(memoryview(packed)[offset : offset + size_bytes].cast("I"))
    return found


def _joins(text: str, at: int) -> bool:
    """Return True if the characters before and after a place belong to one word."""
    return 0 < at < len(text) and _is_letter(text[at - 1]) and _is_letter(text[at])


def _is_letter(char: str) -> bool:
    if char.isascii():
        return char.isalnum() or char == "_"
    code = ord(char)
    return char.isalnum() and not any(low <= code <= high for low, high in _UNSPACED)
