"""The entries of a lorebook that a turn brings into the prompt: a function of book, messages, turn and state.

It uses no clock and no randomness: a roll is made of seed, turn and entry. The one exception is the time
limit of regular expressions, which honest ones never reach. The decisions are returned with reasons, so that
the caller records them; nothing is decided twice.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import msgspec

from artelier.errors import InvalidArtifact
from artelier.operations.lore.entry_rules import (
    SEARCHED_CHARS_MAX,
    LoreScene,
    Needles,
    SearchedText,
    WorkAllowance,
    choose_of_groups,
    is_pattern,
    needles,
)
from artelier.operations.lore.macros import MADE_CHARS_MAX
from artelier.operations.lore.schemas import LOREBOOK_CHARS_MAX, Lorebook, LorebookEntry
from artelier.tokens.estimate import estimate_tokens

RECURSIONS_MAX = 8
"""Rounds in which the content of entries finds others (guess: chains end after two or three)."""

_BOOKS_KEPT = 8
"""Books whose keys are kept ready (guess: those of the chats that are open)."""

Because = Literal["constant", "sticky", "key", "recursion"]
Reason = Literal["budget", "probability", "cooldown", "delay", "group", "pattern_timeout", "search_limit"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Active:
    """An entry that enters the prompt."""

    entry: LorebookEntry
    because: Because
    key: str | None
    """The first of its keys that was found; None if none was needed."""
    tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DroppedEntry:
    """An entry that would have entered the prompt, and why it does not."""

    entry_id: str
    reason: Reason
    tokens: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class LoreActivation:
    """The entries that a turn activates."""

    entries: tuple[Active, ...]
    """In the order of insertion: the last stands nearest to the end."""
    state: dict[str, int]
    """For the next turn: the turn in which an entry with `sticky` or `cooldown` became active."""
    dropped: tuple[DroppedEntry, ...]
    tokens: int
    """Of all entries together."""


def activate(
    lorebook: Lorebook,
    messages: Sequence[str],
    *,
    turn: int,
    state: Mapping[str, object] | None = None,
    seed: int = 0,
    scene: LoreScene = LoreScene(),  # noqa: B008 - frozen
    estimate: Callable[[str], int] = estimate_tokens,
) -> LoreActivation:
    """The entries that are active in a turn.

    Shapes: `messages` newest last, as the prompt shows them (with names, if keys shall find them);
            `state` of the turn before in this branch, of which anything that makes no sense is ignored;
            `scene`: the character, its tags, the turn's trigger, and texts that some entries have searched.
    Units:  `turn` counts from 1. `estimate` gives tokens.
    Where the budget is short, the highest priority stays; direct hits go before what only recursion finds,
    and what was left out finds nothing.
    Cost:   O(keys + text); 1,000 entries with 3 keys over 20 messages take a few milliseconds.
    """
    begun = _read_begun(lorebook, state or {}, turn)
    scan = _Scan(lorebook, messages, turn=turn, seed=seed, scene=scene, estimate=estimate, begun=begun)
    scan.first_round()
    for _ in range(scan.rounds_max):
        if not scan.next_round():
            break
    return scan.result()


def with_names(lorebook: Lorebook, *, user: str, char: str) -> Lorebook:
    """The book with names for `{{user}}` and `{{char}}` in keys and contents, each replaced once.

    In a pattern a name is plain text, whatever characters it has. The same book and names give the same
    object, while it is among the last few.
    Errors: `InvalidArtifact` if names make it too long.
    Cost:   O(n); a third of a second for the largest book, so call it beside the event loop.
    """
    return _with_names(_Same(lorebook), user, char)


class _Same:
    """A book as the key of a cache: by identity, for its hash would be that of all its text."""

    __slots__ = ("book",)

    def __init__(self, book: Lorebook) -> None:
        self.book = book

    def __hash__(self) -> int:
        return id(self.book)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.book is self.book


@lru_cache(maxsize=_BOOKS_KEPT)
def _with_names(same: _Same, user: str, char: str) -> Lorebook:
    names = {"user": user, "char": char}
    escaped = {"user": _escape(user), "char": _escape(char)}
    left_chars = LOREBOOK_CHARS_MAX

    def fill(text: str, of: Mapping[str, str] = names) -> str:
        nonlocal left_chars
        filled = substitute_names(text, LOREBOOK_CHARS_MAX, **of)
        left_chars -= len(filled) - len(text)
        if left_chars < 0:  # before all of it is there: names can make 8 MB thirty times as long
            raise InvalidArtifact("with the names of the chat in it this lorebook is too long")
        return filled

    def fill_keys(entry: LorebookEntry, keys: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(fill(key, escaped if entry.use_regex and is_pattern(key) else names) for key in keys)

    entries = tuple(
        msgspec.structs.replace(
            entry,
            content=fill(entry.content),
            keys=fill_keys(entry, entry.keys),
            secondary_keys=fill_keys(entry, entry.secondary_keys),
        )
        if any(_names(text) for text in (entry.content, *entry.keys, *entry.secondary_keys))
        else entry
        for entry in same.book.entries
    )
    try:
        return msgspec.structs.replace(same.book, entries=entries)
    except ValueError as error:
        raise InvalidArtifact(f"with the names of the chat in it this is no lorebook: {error}") from None


def _names(text: str) -> bool:
    return "{{" in text or "<" in text


def _escape(name: str) -> str:
    return re.escape(name).replace("/", "\\/")


def _read_begun(lorebook: Lorebook, state: Mapping[str, object], turn: int) -> dict[str, int]:
    """Return when entries became active whose time is not over; a state from the future says nothing."""
    begun: dict[str, int] = {}
    if not state:
        return begun
    for entry in lorebook.entries:
        since = state.get(entry.id)
        if (
            isinstance(since, int)
            and not isinstance(since, bool)
            and 0 < turn - since <= entry.sticky + entry.cooldown
        ):
            begun[entry.id] = since
    return begun


@dataclass(frozen=True, slots=True)
class _PreparedEntry:
    """An entry that can become active, with its keys ready."""

    number: int
    entry: LorebookEntry
    keys: Needles


@lru_cache(maxsize=_BOOKS_KEPT)
def _prepare(same: _Same) -> tuple[_PreparedEntry, ...]:
    return tuple(
        _PreparedEntry(number, entry, _ready(entry, entry.keys))
        for number, entry in enumerate(same.book.entries)
        if entry.enabled and entry.content
    )


def _ready(entry: LorebookEntry, keys: tuple[str, ...]) -> Needles:
    return needles(keys, case_sensitive=entry.case_sensitive, use_regex=entry.use_regex)


@dataclass(frozen=True, slots=True)
class _ActivationHit:
    """An entry that a round found."""

    number: int
    entry: LorebookEntry
    because: Because
    key: str | None

    @property
    def is_sticky(self) -> bool:
        return self.because == "sticky"


class _Scan:
    """One activation in the making."""

    def __init__(
        self,
        lorebook: Lorebook,
        messages: Sequence[str],
        *,
        turn: int,
        seed: int,
        scene: LoreScene,
        estimate: Callable[[str], int],
        begun: dict[str, int],
    ) -> None:
        self._book = lorebook
        self._scene = scene
        self._messages = messages
        self._turn = turn
        self._seed = seed
        self._estimate = estimate
        self._begun = begun
        self._work = WorkAllowance()
        self._texts: dict[tuple[int | None, bool], SearchedText] = {}
        """The messages of each view."""
        self._more: dict[tuple[str, bool], SearchedText] = {}
        """Texts of the scene that entries have searched, too."""
        self._news: dict[bool, list[SearchedText]] = {False: [], True: []}
        """Content of active entries, a text for each round."""
        self._waiting: Sequence[_PreparedEntry] = [
            item for item in _prepare(_Same(lorebook)) if scene.allows(item.entry)
        ]
        levels = {level for item in self._waiting if (level := item.entry.recursion_level)}
        self._levels = sorted(levels)[: RECURSIONS_MAX + 1]
        """Levels of entries that are not looked for yet, the next first."""
        self._level = self._levels.pop(0) if self._levels else 0
        self.rounds_max = (RECURSIONS_MAX if lorebook.recursive else 0) + (RECURSIONS_MAX if levels else 0)
        self._found: dict[str, str] = {}
        """Keys of waiting entries whose secondary keys did not agree yet."""
        self._active: list[tuple[int, Active]] = []
        self._fresh: list[str] = []
        """Content that the next round searches."""
        self._taken: set[str] = set()
        """Inclusion groups that have an active entry."""
        self._fed = 0
        """Characters of content that were searched so far."""
        self._dropped: list[DroppedEntry] = []
        self._left_tokens = lorebook.budget_tokens
        self._used_tokens = 0

    def first_round(self) -> None:
        """Activate what the messages, the earlier turns and the book itself bring in."""
        hits: list[_ActivationHit] = []
        waiting: list[_PreparedEntry] = []
        for item in self._waiting:
            entry = item.entry
            key: str | None = None
            if self._begun and self._is_sticky(entry):
                because: Because = "sticky"
            elif entry.recursion_level:
                waiting.append(item)
                continue
            elif entry.constant:
                because = "constant"
            elif (key := self._first_key(item, self._messages_of(entry))) is not None:
                because = "key"
            else:
                waiting.append(item)
                continue
            if because == "sticky" or self._may(entry):
                hits.append(_ActivationHit(item.number, entry, because, key))
        self._waiting = waiting
        self._admit(hits)

    def next_round(self) -> bool:
        """Return what the content of the round before brings; False if that was nothing."""
        if not self._waiting or not (self._fresh or self._levels):
            return False
        has_news = bool(self._fresh)
        if has_news:
            fresh = "\n".join(self._fresh)
            self._fresh = []
            for case_sensitive, texts in self._news.items():
                texts.append(SearchedText(fresh, case_sensitive=case_sensitive))
        else:
            self._level = self._levels.pop(0)
        hits: list[_ActivationHit] = []
        waiting: list[_PreparedEntry] = []
        for item in self._waiting:
            entry = item.entry
            key = None
            if entry.recursion_level:
                if entry.recursion_level <= self._level:
                    key = "" if entry.constant else self._first_key(item, self._all_texts(entry))
            elif has_news and entry.found_by_recursion:
                key = self._key(item, self._news[entry.case_sensitive][-1])
            if key is None:
                waiting.append(item)
            elif self._may(entry):
                hits.append(_ActivationHit(item.number, entry, "recursion", key or None))
        self._waiting = waiting
        self._admit(hits)
        return True

    def result(self) -> LoreActivation:
        active = sorted(self._active, key=lambda item: (item[1].entry.order, item[0]))
        state = dict(self._begun)
        for _, item in active:
            if item.entry.sticky or item.entry.cooldown:
                state.setdefault(item.entry.id, self._turn)
        dropped = {item.entry_id: item for item in self._dropped}
        timed_out, is_spent = self._work.timed_out, self._work.is_spent
        for entry in (item.entry for item in self._waiting if timed_out or is_spent):
            if not timed_out.isdisjoint((*entry.keys, *entry.secondary_keys)):
                dropped[entry.id] = DroppedEntry(entry_id=entry.id, reason="pattern_timeout")
            elif is_spent and entry.keys:
                dropped[entry.id] = DroppedEntry(entry_id=entry.id, reason="search_limit")
        return LoreActivation(
            entries=tuple(item for _, item in active),
            state=state,
            dropped=tuple(dropped.values()),
            tokens=self._used_tokens,
        )

    def _is_sticky(self, entry: LorebookEntry) -> bool:
        since = self._begun.get(entry.id)
        return since is not None and self._turn - since <= entry.sticky

    def _may(self, entry: LorebookEntry) -> bool:
        """Return True if an entry that was found may become active; what may not is noted."""
        reason: Reason | None = None
        if entry.id in self._begun:
            reason = "cooldown"
        elif self._turn < entry.delay:
            reason = "delay"
        if reason is not None:
            self._drop(entry, reason)
        return reason is None

    def _drop(self, entry: LorebookEntry, reason: Reason, tokens: int = 0) -> None:
        self._dropped.append(DroppedEntry(entry_id=entry.id, reason=reason, tokens=tokens))

    def _chosen(self, hits: list[_ActivationHit]) -> list[_ActivationHit]:
        """Return the hits that their groups and their chance leave; the others are noted."""
        grouped = choose_of_groups(
            hits, taken=self._taken, score=self._score, seed=f"{self._seed}/{self._turn}/group"
        )
        if len(grouped) < len(hits):
            ids = {hit.entry.id for hit in grouped}
            for hit in hits:
                if hit.entry.id not in ids:
                    self._drop(hit.entry, "group")
        chosen: list[_ActivationHit] = []
        for hit in grouped:
            entry = hit.entry
            if not hit.is_sticky and entry.probability < 100 and self._roll(entry) >= entry.probability:
                self._drop(entry, "probability")
            else:
                chosen.append(hit)
        return chosen

    def _score(self, entry: LorebookEntry) -> int:
        """Return how many keys of an entry stand in the texts, secondary ones too."""
        texts = self._all_texts(entry)

        def count(keys: tuple[str, ...]) -> int:
            return sum(self._is_there(entry, key, texts) for key in keys)

        first, second = count(entry.keys), count(entry.secondary_keys)
        match entry.selective_logic:
            case "and_any":
                return first + second
            case "and_all" if second == len(entry.secondary_keys):
                return first + second
            case _:
                return first

    def _roll(self, entry: LorebookEntry) -> int:
        """0 to 99, the same for the same seed, turn and entry."""
        said = f"{self._seed}/{self._turn}/{entry.id}".encode("utf-8", "surrogatepass")
        return int.from_bytes(hashlib.blake2b(said, digest_size=8).digest(), "big") % 100

    def _admit(self, hits: list[_ActivationHit]) -> None:
        """Take what fits into the budget, the highest priority first."""

        def rank(hit: _ActivationHit) -> tuple[int, bool, int, int]:
            entry = hit.entry
            is_found = hit.because not in ("constant", "sticky")
            return (-entry.priority, is_found, -entry.order, hit.number)

        for hit in sorted(self._chosen(hits), key=rank):
            entry = hit.entry
            tokens = max(0, self._estimate(entry.content))
            if tokens > self._left_tokens and not entry.ignore_budget:
                self._drop(entry, "budget", tokens)
                continue
            self._used_tokens += tokens
            self._left_tokens = max(0, self._left_tokens - tokens)
            self._taken.update(entry.groups)
            active = Active(entry=entry, because=hit.because, key=hit.key, tokens=tokens)
            self._active.append((hit.number, active))
            if self._book.recursive and entry.feeds_recursion and self._fed < SEARCHED_CHARS_MAX:
                self._fresh.append(entry.content[: SEARCHED_CHARS_MAX - self._fed])
                self._fed += len(self._fresh[-1])

    def _key(self, item: _PreparedEntry, text: SearchedText) -> str | None:
        """The first key that stands in a text or stood in one before, if the secondary keys agree."""
        entry = item.entry
        key = self._found.get(entry.id) if self._found else None
        if key is None:
            key = text.first(item.keys, whole_words=entry.whole_words, work=self._work)
        if key is None or not entry.secondary_keys:
            return key
        texts = self._all_texts(entry)
        there = [self._is_there(entry, secondary, texts) for secondary in entry.secondary_keys]
        match entry.selective_logic:
            case "and_any":
                agrees = any(there)
            case "and_all":
                agrees = all(there)
            case "not_any":
                agrees = not any(there)
            case "not_all":
                agrees = not all(there)
        if agrees:
            return key
        self._found[entry.id] = key
        return None

    def _first_key(self, item: _PreparedEntry, texts: Sequence[SearchedText]) -> str | None:
        return next((key for text in texts if (key := self._key(item, text)) is not None), None)

    def _is_there(self, entry: LorebookEntry, key: str, texts: Sequence[SearchedText]) -> bool:
        needle = _ready(entry, (key,))
        return any(text.first(needle, whole_words=entry.whole_words, work=self._work) for text in texts)

    def _all_texts(self, entry: LorebookEntry) -> list[SearchedText]:
        """Return what an entry searches: messages, texts of the scene, the content of active entries."""
        return [*self._messages_of(entry), *self._news[entry.case_sensitive]]

    def _messages_of(self, entry: LorebookEntry) -> list[SearchedText]:
        texts = [self._messages_for((entry.scan_depth, entry.case_sensitive))]
        if entry.also_scans and (more := self._scene.more_for(entry)):
            at = more, entry.case_sensitive
            if at not in self._more:
                bounded = "" if self._work.is_spent else more[:SEARCHED_CHARS_MAX]
                self._more[at] = SearchedText(bounded, case_sensitive=at[1])
            texts.append(self._more[at])
        return texts

    def _messages_for(self, view: tuple[int | None, bool]) -> SearchedText:
        text = self._texts.get(view)
        if text is None:
            if self._work.is_spent:  # else each depth of a hostile book would cost a copy
                return SearchedText("", case_sensitive=view[1])
            depth = self._book.scan_depth if view[0] is None else view[0]
            newest = "\n".join(_newest(self._messages, min(depth, len(self._messages))))
            text = self._texts[view] = SearchedText(newest, case_sensitive=view[1])
        return text


def _newest(messages: Sequence[str], depth: int) -> list[str]:
    """The last messages within the bound, oldest first; the one at the bound loses its beginning."""
    left = SEARCHED_CHARS_MAX
    found: list[str] = []
    for at in range(len(messages) - 1, len(messages) - 1 - depth, -1):
        text = messages[at][-left:]
        found.append(text)
        left -= len(text)
        if left <= 0:
            break
    return found[::-1]


# ASCII, so that no other letter folds to one of these names; bounded spaces, so that the cost is linear.
_NAMED = re.compile(
    r"\{\{[ \t]{0,16}(char|user)[ \t]{0,16}\}\}|<[ \t]{0,16}(char|bot|user)[ \t]{0,16}>",
    re.IGNORECASE | re.ASCII,
)


def substitute_names(text: str, made_max: int = MADE_CHARS_MAX, /, *, user: str, char: str) -> str:
    """The text with the names in it.

    Shapes: `{{char}}`, `<BOT>` and `<CHAR>` become `char`, `{{user}}` and `<USER>` become `user`, in any
            case and with spaces. Every other macro stays as it is.
    A name is data: one that contains `{{user}}` or `{% raw %}` comes out unchanged.
    All names are at most as long as the text, and `made_max` more; those behind stay as written.
    Cost:   O(n).
    """
    if "{{" not in text and "<" not in text:
        return text
    left_chars = len(text) + made_max

    def name(match: re.Match[str]) -> str:
        nonlocal left_chars
        found = user if (match[1] or match[2]).lower() == "user" else char
        left_chars -= len(found)
        return found if left_chars >= 0 else match[0]

    return _NAMED.sub(name, text)
