"""The losses of one text against another: identifiers, numbers, paths, decisions and open questions."""

from __future__ import annotations

import re
from collections.abc import Iterable

FACTS_MAX = 400
"""Facts of one kind that a report holds; a block with more is counted, not listed."""

FACT_CHARS_MAX = 200

# Every repetition is bounded, so that no text takes more than linear time.
_PATTERNS: dict[str, re.Pattern[str]] = {
    "paths": re.compile(
        r"https?://[^\s<>\"')\]]{3,300}"
        r"|(?<![\w.@+-])(?:~|\.{1,2})?(?:/[\w.@+-]{1,100}){1,30}"
        r"|(?<![\w.@+-])[\w+-]{1,100}(?:/[\w.+-]{1,100}){1,30}\b"
        r"|(?<![\w-])[\w-]{1,100}\.(?:py|ts|js|md|csv|json|ya?ml|toml|sql|txt|html|parquet|log|db)\b"
    ),
    "identifiers": re.compile(
        r"(?<![\w.+-])[\w.+-]{1,64}@[\w-]{1,64}(?:\.[\w-]{1,64}){1,6}"
        r"|(?<![\w-])(?=[\w-]{0,80}\d)(?=[\w-]{0,80}[A-Za-z])[A-Za-z0-9]{1,80}(?:[-_][A-Za-z0-9]{1,80}){0,12}\b"
        r"|\b[A-Za-z][a-z0-9]{0,60}(?:_[A-Za-z0-9]{1,60}){1,12}\b"
        r"|\b[A-Za-z][a-z0-9]{0,60}(?:[A-Z][a-z0-9]{1,60}){1,12}\b"
        r"|\b[A-Z]{2,40}(?:-[A-Z0-9]{1,40}){1,12}\b"
    ),
    # Begins with a set of characters, which the engine looks for ten times faster than for a lookbehind.
    "numbers": re.compile(
        r"[-\d](?<![\w.].)(?:(?<=-)\d{1,3}|(?<!-)\d{0,2})(?:[ ,]\d{3}){1,6}(?:\.\d{1,20})?%?(?!\w)"
        r"|[-\d](?<![\w.].)(?:(?<=-)\d{1,40}|(?<!-)\d{0,39})(?:\.\d{1,20})?%?(?!\w)"
    ),
}
_SENTENCE = re.compile(r"[^.!?\n]{8,400}[.!?\n]?")
_DECISION = re.compile(
    r"\b(?:decided|decision|agreed|we will|i will|must not|must|chose|chosen|approved|rejected"
    r"|prefers?|deadline|always|never)\b",
    re.IGNORECASE,
)
_NUMBER_SIGNIFICANT = 2
"""Digits that a number needs to be a fact of its own: single digits occur everywhere."""


def facts_of(text: str) -> dict[str, list[str]]:
    """`{identifiers, numbers, paths, decisions, questions}` of a text, each once, in order.

    Cost: O(n).
    """
    found: dict[str, list[str]] = {}
    marked = _without_plain_words(text)
    for kind, pattern in _PATTERNS.items():
        where = text if kind == "numbers" else marked
        found[kind] = _unique(match.group().rstrip(".,;:!?") for match in pattern.finditer(where))
    found["numbers"] = [
        number for number in found["numbers"] if sum(char.isdigit() for char in number) >= _NUMBER_SIGNIFICANT
    ]
    sentences = [match.group().strip() for match in _SENTENCE.finditer(text)]
    found["decisions"] = _unique(said for said in sentences if _DECISION.search(said))
    found["questions"] = _unique(said for said in sentences if said.endswith("?"))
    return found


def _without_plain_words(text: str) -> str:
    """The text without its words of small letters: no path and no identifier is one or has a blank in it."""
    return "\n".join(word for word in text.split() if not _is_plain(word.strip(".,;:!?()\"'")))


def _is_plain(word: str) -> bool:
    return word.isalpha() and word.islower()


def lost(text: str, *, kept: Iterable[str]) -> dict[str, list[str]]:
    """The facts of `text` that occur in none of the kept texts; kinds without any are left out.

    A sentence counts as kept if most of its words stand together in what was kept.
    """
    joined = "\n".join(kept)
    folded = joined.casefold()
    words = frozenset(re.findall(r"\w+", folded))
    missing: dict[str, list[str]] = {}
    for kind, facts in facts_of(text).items():
        if kind in ("decisions", "questions"):
            gone = [fact for fact in facts if not _told(fact, words)]
        else:
            gone = [fact for fact in facts if fact.casefold() not in folded]
        if gone:
            missing[kind] = gone[:FACTS_MAX]
    return missing


def count(report: dict[str, list[str]]) -> int:
    return sum(len(facts) for facts in report.values())


def _told(sentence: str, words: frozenset[str]) -> bool:
    said = [word for word in re.findall(r"\w+", sentence.casefold()) if len(word) > 3]
    return sum(word in words for word in said) * 10 >= len(said) * 7


def _unique(found: Iterable[str]) -> list[str]:
    seen: dict[str, None] = {}
    for fact in found:
        if len(seen) >= FACTS_MAX:
            break
        seen.setdefault(fact.strip()[:FACT_CHARS_MAX], None)
    return [fact for fact in seen if fact]
