"""Words as the index knows them: lower case, without accents and endings, irregular forms resolved."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from functools import lru_cache
from itertools import pairwise
from pathlib import Path

# --------------------------------------------------------------------------- stemmer
# The Porter stemmer: English words without their endings.
# Source: M. F. Porter, An algorithm for suffix stripping, 1980, with the two departures of the author's
# own implementation (`bli` for `abli`, and `logi`).


_STEP_2 = (
    ("ational", "ate"),
    ("tional", "tion"),
    ("enci", "ence"),
    ("anci", "ance"),
    ("izer", "ize"),
    ("bli", "ble"),
    ("alli", "al"),
    ("entli", "ent"),
    ("eli", "e"),
    ("ousli", "ous"),
    ("ization", "ize"),
    ("ation", "ate"),
    ("ator", "ate"),
    ("alism", "al"),
    ("iveness", "ive"),
    ("fulness", "ful"),
    ("ousness", "ous"),
    ("aliti", "al"),
    ("iviti", "ive"),
    ("biliti", "ble"),
    ("logi", "log"),
)
_STEP_3 = (
    ("icate", "ic"),
    ("ative", ""),
    ("alize", "al"),
    ("iciti", "ic"),
    ("ical", "ic"),
    ("ful", ""),
    ("ness", ""),
)
_STEP_4 = (
    "ement",
    "ance",
    "ence",
    "able",
    "ible",
    "ment",
    "ant",
    "ent",
    "ism",
    "ate",
    "iti",
    "ous",
    "ive",
    "ize",
    "ion",
    "al",
    "er",
    "ic",
    "ou",
)


@lru_cache(maxsize=50_000)
def stem(word: str) -> str:
    """The stem of a lower-case word; words of one or two letters and those with digits stay."""
    if len(word) <= 2 or not word.isascii() or not word.isalpha():
        return word
    word = _inflections(word)
    if word.endswith("y") and _has_vowel(word[:-1]):
        word = word[:-1] + "i"
    word = _replace_ending(word, _STEP_2)
    word = _replace_ending(word, _STEP_3)
    word = _suffix_dropped(word)
    if word.endswith("e"):
        head, measure = word[:-1], _measure(word[:-1])
        if measure > 1 or (measure == 1 and not _ends_short(head)):
            word = head
    if word.endswith("ll") and _measure(word) > 1:
        word = word[:-1]
    return word


def _inflections(word: str) -> str:
    """Steps 1a and 1b: plurals, `-ed`, `-ing`."""
    if word.endswith(("sses", "ies")):
        word = word[:-2]
    elif word.endswith("s") and not word.endswith("ss"):
        word = word[:-1]
    if word.endswith("eed"):
        return word[:-1] if _measure(word[:-3]) > 0 else word
    for ending in ("ed", "ing"):
        head = word[: -len(ending)]
        if word.endswith(ending) and _has_vowel(head):
            return _restore_ending(head)
    return word


def _restore_ending(head: str) -> str:
    """Return what is left after `-ed` or `-ing`, with the letter put back that the ending had taken."""
    if head.endswith(("at", "bl", "iz")):
        return head + "e"
    if len(head) > 1 and head[-1] == head[-2] and head[-1] not in "aeioulsz":
        return head[:-1]
    if _measure(head) == 1 and _ends_short(head):
        return head + "e"
    return head


def _replace_ending(word: str, endings: tuple[tuple[str, str], ...]) -> str:
    for ending, instead in endings:
        if word.endswith(ending):
            head = word[: -len(ending)]
            return head + instead if _measure(head) > 0 else word
    return word


def _suffix_dropped(word: str) -> str:
    for ending in _STEP_4:
        if word.endswith(ending):
            head = word[: -len(ending)]
            if _measure(head) > 1 and (ending != "ion" or head.endswith(("s", "t"))):
                return head
            return word
    return word


def _shape(word: str) -> str:
    """`v` for each vowel and `c` for each consonant; `y` after a consonant is a vowel."""
    shape = ""
    for letter in word:
        is_vowel = letter in "aeiou" or (letter == "y" and shape.endswith("c"))
        shape += "v" if is_vowel else "c"
    return shape


def _measure(word: str) -> int:
    """Return how often a vowel is followed by a consonant (Porter's m)."""
    return _shape(word).count("vc")


def _has_vowel(word: str) -> bool:
    return "v" in _shape(word)


def _ends_short(word: str) -> bool:
    """Consonant, vowel, consonant at the end, the last none of w, x, y."""
    return _shape(word).endswith("cvc") and word[-1] not in "wxy"


# --------------------------------------------------------------------------- tokenizer


_LEXICON = Path(__file__).parent / "lexicon"
_WORD = re.compile(r"[^\W_]+(?:[.,]\d+)*")
_WIDE = re.compile("[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]{2,}")
"""Runs of scripts that put no spaces between words."""


def words(text: str) -> list[str]:
    """The words of a text in their order, lower case and without accents; a possessive 's is dropped.

    Scripts without spaces give pairs of characters instead.
    """
    text = text.lower()
    if not text.isascii():
        text = unicodedata.normalize("NFKD", text.replace("’", "'"))
        text = "".join(letter for letter in text if not unicodedata.combining(letter))
        text = unicodedata.normalize("NFKC", text)
        text = _WIDE.sub(_pairs, text)
    return _WORD.findall(text.replace("'s", " ").replace("'", " "))


def terms(text: str) -> list[str]:
    """The words of a text as the index compares them, stop words dropped."""
    return [term_of(word) for word in words(text) if word not in stop_words()]


@lru_cache(maxsize=50_000)
def term_of(word: str) -> str:
    """One word's form in the index: its base form where it is irregular, then its stem."""
    return stem(_irregular().get(word, word))


@lru_cache(maxsize=1)
def stop_words() -> frozenset[str]:
    return frozenset(word for line in lexicon("stop") for word in line)


@lru_cache(maxsize=1)
def _irregular() -> dict[str, str]:
    return {form: base for base, *forms in lexicon("irregular") for form in forms}


def lexicon(name: str) -> list[list[str]]:
    """The lines of a word list that ships with the package, as lists of words."""
    lines = (_LEXICON / f"{name}.txt").read_text(encoding="utf-8").splitlines()
    return [line.split() for line in lines if line and not line.startswith("#")]


def _pairs(run: re.Match[str]) -> str:
    letters = run.group()
    return " ".join(f" {one}{two} " for one, two in pairwise(letters))


# --------------------------------------------------------------------------- synonyms
# Words that a question's word may mean: members of a class it names, and near synonyms.
# The lists are general English, written by hand, by somebody who had seen what a search without them
# misses in three conversations. Decision 0009 tells what they are worth, and what remains without them.


MEMBER = 0.4
"""How much a member of the class that was asked for counts, against the word itself."""
CLASS = 0.2
ALIKE = 0.5
WEAK = 0.5
"""What a word that questions hold and answers seldom do is worth. All four: guesses, kept."""


def associations_of(term: str) -> Mapping[str, float]:
    """Other terms that speak for this one, with their strength below 1."""
    return _table().get(term, {})


@lru_cache(maxsize=1)
def weak_terms() -> frozenset[str]:
    return frozenset(term_of(word) for line in lexicon("weak") for word in line)


@lru_cache(maxsize=1)
def _table() -> dict[str, dict[str, float]]:
    table: dict[str, dict[str, float]] = {}

    def relate(term: str, other: str, strength: float) -> None:
        if term != other:
            row = table.setdefault(term, {})
            row[other] = max(row.get(other, 0.0), strength)

    for line in lexicon("kinds"):
        end = next(place for place, word in enumerate(line) if word.endswith(":"))
        names = [term_of(word.rstrip(":")) for word in line[: end + 1]]
        members = [term_of(word) for word in line[end + 1 :]]
        for name in names:
            for member in members:
                relate(name, member, MEMBER)
                relate(member, name, CLASS)
            for other in names:
                relate(name, other, MEMBER)
    for line in lexicon("alike"):
        group = [term_of(word) for word in line]
        for term in group:
            for other in group:
                relate(term, other, ALIKE)
    return table
