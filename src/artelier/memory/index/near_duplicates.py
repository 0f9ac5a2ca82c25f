"""The comparison of two texts: at once by a mark of their words, later and less strictly by their gist.

`duplicate_key` is strict, because what it calls equal is never stored: only case, punctuation and filling
words may differ. Numbers, symbols, negations and the order of words all count.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left
from collections.abc import Iterable, Mapping
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from artelier.memory.index.tokenizer import stop_words, term_of, words

FILLERS = frozenset(
    "a an the please really very just also so well ok okay actually basically simply quite"
    " note remember reminder again".split()
)
"""Words that change nothing about a fact (guess, kept short on purpose)."""

_TOKEN = re.compile(r"[-+]?\d+(?:[.,:/-]\d+)*|\w+|[^\w\s]")
_IGNORED = frozenset(
    ".,;:!'\"()[]{}`*-\N{EN DASH}\N{EM DASH}\N{HORIZONTAL ELLIPSIS}"
    "\N{LEFT SINGLE QUOTATION MARK}\N{RIGHT SINGLE QUOTATION MARK}"
    "\N{LEFT DOUBLE QUOTATION MARK}\N{RIGHT DOUBLE QUOTATION MARK}"
)


def tokens_of(text: str) -> list[str]:
    """Words, numbers and telling symbols, case folded; without filling words if there are others."""
    found = [
        token
        for token in _TOKEN.findall(unicodedata.normalize("NFKC", text).casefold())
        if token not in _IGNORED
    ]
    telling = [token for token in found if token not in FILLERS]
    return telling or found


def duplicate_key(text: str, *, speaker: str = "", date: str = "") -> bytes:
    """Return what a mark is made of: equal for what one speaker says of one date in the same words."""
    words_said = "\0".join(tokens_of(text)) or text.strip()
    parts = (words_said, speaker.casefold(), date.casefold())
    return "\0\0".join(parts).encode(errors="surrogatepass")


# Near-duplicates, for the background step that merges them

NEGATIONS = frozenset("not no never none nobody nothing without cannot neither nor".split())
FRAMING = frozenset(
    "say said tell told mention know known remember remind reminder note noted again earlier before"
    " already confirm still fyi btw way keep mind important repeat recall per state update heads up"
    " record previous conversation discuss point fact good learn write down".split()
)
"""Words around a fact that are not part of it: `as I said earlier`, `for the record` (guess)."""

MOVABLE_FROM = 4
"""From so many common words one of them may stand elsewhere: `Al owes Bo` is not `Bo owes Al`."""
TYPO_CHARS_MIN = 5
"""Shorter words have too many honest neighbours."""
BOOT_MIN = 0.85
"""Share of an entry's words in one passage of a boot text from which it is that passage."""
BOOT_TERMS_MIN = 3
BOOT_ORDER_MIN = 0.6
"""Share of those words that stand in the passage's order."""

_NAME = re.compile(r"[\w.:/@+-]+")
_DIGIT = re.compile(r"\d")
_NOT = re.compile(r"n['\N{RIGHT SINGLE QUOTATION MARK}]t\b")
_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")


class Gist(NamedTuple):
    """The gist of a text, for comparison with others."""

    terms: tuple[str, ...]
    """Stems of its telling words, in order, each once."""
    numbers: tuple[str, ...]
    """Numbers and identifiers with digits, in order."""
    is_negated: bool


def gist_of(text: str) -> Gist:
    lowered = _NOT.sub(" not", text.casefold())
    numbers = tuple(found.strip(".:/@+-") for found in _NAME.findall(lowered) if _DIGIT.search(found))
    spoken = words(lowered)
    telling = dict.fromkeys(
        term_of(word)
        for word in spoken
        if word not in stop_words() and word not in NEGATIONS and word not in FILLERS
    )
    return Gist(tuple(telling), numbers, bool(NEGATIONS.intersection(spoken)))


def say_the_same(a: Gist, b: Gist, frequency: Mapping[str, int]) -> bool:
    """Return True if one may stand for the other: they differ in framing, spelling and a little order only.

    `frequency` says how many texts hold a term: one that others use as well is no misspelling.
    """
    if a.numbers != b.numbers or a.is_negated != b.is_negated or not a.terms or not b.terms:
        return False
    only_a = [term for term in a.terms if term not in b.terms]
    only_b = [term for term in b.terms if term not in a.terms]
    spelled: dict[str, str] = {}
    for term in tuple(only_a):
        for other in only_b:
            if min(frequency[term], frequency[other]) <= 1 and is_misspelling(term, other):
                only_a.remove(term)
                only_b.remove(other)
                spelled[term] = other
                break
    if not framing_terms().issuperset((*only_a, *only_b)):
        return False
    first = [spelled.get(term, term) for term in a.terms if term not in only_a]
    second = [term for term in b.terms if term not in only_b]
    moved = len(first) - _in_order(first, second)
    return bool(first) and moved <= (1 if len(first) >= MOVABLE_FROM else 0)


def is_misspelling(a: str, b: str) -> bool:
    """Return True if two words differ in one letter left out, or in two neighbours swapped.

    A letter for another makes other names (`Martin`, `Marvin`), and digits are never mistaken.
    """
    if min(len(a), len(b)) < TYPO_CHARS_MIN or any(map(str.isdigit, a + b)):
        return False
    shorter, longer = sorted((a, b), key=len)
    if len(longer) - len(shorter) == 1:
        return any(longer[:n] + longer[n + 1 :] == shorter for n in range(len(longer)))
    return len(a) == len(b) and any(a[:n] + a[n + 1] + a[n] + a[n + 2 :] == b for n in range(len(a) - 1))


def _in_order(a: list[str], b: list[str]) -> int:
    """Length of the longest sequence that both hold in order. Each word occurs once in each."""
    places = {term: place for place, term in enumerate(b)}
    ends: list[int] = []
    for term in a:
        if term in places:
            place = bisect_left(ends, places[term])
            ends[place : place + 1] = [places[term]]
    return len(ends)


@lru_cache(maxsize=1)
def framing_terms() -> frozenset[str]:
    """`FRAMING` as terms."""
    return frozenset(term_of(word) for word in FRAMING)


class Passages:
    """Texts that are no memories of an agent: its own prompts, skills and rules."""

    def __init__(self, texts: Iterable[str]) -> None:
        self._gists: list[Gist] = []
        self._by_term: dict[str, list[int]] = {}
        for text in texts:
            sentences = [part for part in _SENTENCE.split(text) if part.strip()]
            pairs = [f"{one} {two}" for one, two in pairwise(sentences)]
            for passage in (*sentences, *pairs):
                self._add(gist_of(passage))

    def _add(self, gist: Gist) -> None:
        for term in gist.terms:
            self._by_term.setdefault(term, []).append(len(self._gists))
        self._gists.append(gist)

    def hold(self, gist: Gist) -> bool:
        """Return True if a text is one of these passages, or nearly."""
        counts: dict[int, int] = {}
        for term in gist.terms:
            for number in self._by_term.get(term, ()):
                counts[number] = counts.get(number, 0) + 1
        for number, shared in counts.items():
            passage = self._gists[number]
            if not set(gist.numbers) <= set(passage.numbers):
                continue
            if shared == len(gist.terms) == len(passage.terms):
                return True
            if shared >= max(BOOT_TERMS_MIN, BOOT_MIN * len(gist.terms)):
                common = [term for term in gist.terms if term in passage.terms]
                if _in_order(common, list(passage.terms)) >= BOOT_ORDER_MIN * shared:
                    return True
        return False
