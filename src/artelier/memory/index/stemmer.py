"""The Porter stemmer: English words without their endings.

Source: M. F. Porter, An algorithm for suffix stripping, 1980, with the two departures of the author's own
implementation (`bli` for `abli`, and `logi`).
"""

from __future__ import annotations

from functools import lru_cache

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
    word = _replaced(word, _STEP_2)
    word = _replaced(word, _STEP_3)
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
            return _restored(head)
    return word


def _restored(head: str) -> str:
    """Return what is left after `-ed` or `-ing`, with the letter put back that the ending had taken."""
    if head.endswith(("at", "bl", "iz")):
        return head + "e"
    if len(head) > 1 and head[-1] == head[-2] and head[-1] not in "aeioulsz":
        return head[:-1]
    if _measure(head) == 1 and _ends_short(head):
        return head + "e"
    return head


def _replaced(word: str, endings: tuple[tuple[str, str], ...]) -> str:
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
