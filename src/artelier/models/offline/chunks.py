"""Chunks: a clause cut into operators, numbers, periods and nouns, the longest match first.

Words that mean nothing here stay as `unknown`; whoever reads the chunks must account for every one of
them or refuse.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Literal

from artelier.models.offline import lexicon
from artelier.models.offline.columns import CORE, STRONG, Noun
from artelier.models.offline.periods import Period, period_at, year_of
from artelier.models.offline.words import Word

ChunkKind = Literal["op", "number", "period", "noun", "degree", "unit", "filler", "mark", "unknown"]
NOUN_WORDS_MAX = 6
FindNoun = Callable[[int, int], Noun | None]
"""The meanings of the words from the first to before the second place."""

_NUMERIC = frozenset((">", ">=", "<", "<=", "=", "!="))
_YEAR_LEADS = frozenset(
    "in during since before after until till through of for from to and or vs versus between year"
    " years with against by , - – — / ( the than thru starting ending".split()
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """A piece of a clause; which fields are set depends on `kind`."""

    kind: ChunkKind
    text: str
    """As asked, in lower case."""
    op: str = ""
    number: Decimal | None = None
    """Of a number, and of a period that may be a plain number (a bare year)."""
    period: Period | None = None
    noun: Noun | None = None
    """Of a noun; also of an operator or filler whose words may be a name."""
    optional: bool = False
    """Whether it may be left unread."""
    foreign: bool = False
    """Whether it means something in another table, so that it can't be passed over here."""


def chunks(words: Sequence[Word], find: FindNoun, *, find_anywhere: FindNoun | None = None) -> list[Chunk]:
    """The chunks of a clause; `find_anywhere` also sees the tables outside of the scope.

    Cost: linear in its words times the longest noun.
    """
    found: list[Chunk] = []
    at = 0
    while at < len(words):
        if _is_joint(words, at) or _is_unit_of_name(words, at):
            at += 1
            continue
        chunk, taken = _next(words, at, found, find)
        if taken == 1 and chunk.kind in ("filler", "unknown") and find_anywhere is not None:
            chunk = _foreign(chunk, find_anywhere(at, at + 1))
        found.append(chunk)
        at += taken
    return found


def _foreign(chunk: Chunk, noun: Noun | None) -> Chunk:
    """A word that surely names something elsewhere is no filler here."""
    least = CORE if chunk.kind == "filler" else STRONG
    if noun is None or noun.level < least or chunk.noun is not None:
        return chunk
    return replace(chunk, kind="unknown", foreign=True)


def _is_joint(words: Sequence[Word], at: int) -> bool:
    """A hyphen, slash or bracket inside running words says nothing; between numbers it may mean `to`."""
    if words[at].kind != "mark" or words[at].text not in "-/():":
        return False
    around = [words[place] for place in (at - 1, at + 1) if 0 <= place < len(words)]
    return words[at].text in "():" or not all(
        word.kind != "word" or period_at([word], 0) is not None for word in around
    )


def _is_unit_of_name(words: Sequence[Word], at: int) -> bool:
    """A percent sign that belongs to the name of a column, not to a number."""
    return words[at].text == "%" and (at == 0 or words[at - 1].kind != "number")


def _next(words: Sequence[Word], at: int, before: list[Chunk], find: FindNoun) -> tuple[Chunk, int]:
    operator, op_words = _operator(words, at)
    period = period_at(words, at) or _bare_year(words, at, before)
    noun, noun_words = _noun(words, at, find)
    span = max(op_words, period[1] if period else 0, noun_words)
    text = " ".join(word.text.lower() for word in words[at : at + max(span, 1)])
    word = words[at]
    if period and period[1] >= noun_words:
        return _period_chunk(words, at, period, find), period[1]
    unit = _unit_chunk(word, before[-1] if before else None, noun)
    if unit is not None:
        return unit, 1
    if noun and (noun_words > op_words or (not operator and noun_words)):
        if word.kind != "number" or noun_words > 1:
            return _noun_chunk(word, text, noun, noun_words), noun_words
    if operator:
        dual = find(at, at + op_words) if operator in lexicon.SOFT else None
        kept = dual if dual and dual.level >= CORE else None
        return Chunk(kind="op", text=text, op=operator, noun=kept), op_words
    return _single(words, at, before, noun), 1


def _unit_chunk(word: Word, previous: Chunk | None, noun: Noun | None) -> Chunk | None:
    """`5 stars`: a unit right after a number, unless it names a column well."""
    if previous is None or previous.kind != "number" or not lexicon.UNITS.get(word.lower):
        return None
    if noun is not None and noun.level >= STRONG:
        return None
    return Chunk(kind="unit", text=word.lower)


def _period_chunk(words: Sequence[Word], at: int, period: tuple[Period, int], find: FindNoun) -> Chunk:
    span = words[at : at + period[1]]
    number = words[at].number if period[0].grain == "year" and period[1] == 1 else None
    return Chunk(
        kind="period",
        text=" ".join(word.text.lower() for word in span),
        period=period[0],
        number=number,
        noun=find(at, at + period[1]),
    )


def _noun_chunk(word: Word, text: str, noun: Noun, taken: int) -> Chunk:
    if taken == 1 and word.lower in lexicon.DEGREES and noun.level < STRONG:
        return Chunk(kind="degree", text=text, noun=noun)
    weak = taken == 1 and word.lower in lexicon.FILLERS and noun.level < STRONG
    return Chunk(kind="noun", text=text, noun=noun, optional=weak)


def _single(words: Sequence[Word], at: int, before: list[Chunk], noun: Noun | None) -> Chunk:
    word = words[at]
    text = word.text.lower()
    previous = before[-1] if before else None
    if text in lexicon.UNITS and previous and previous.kind in ("number", "unit"):
        return Chunk(kind="unit", text=text)
    if text in ("$", "€", "£"):
        return Chunk(kind="unit", text=text)
    if word.kind == "number":
        return Chunk(kind="number", text=text, number=word.number, noun=noun)
    if word.lower in lexicon.NUMBER_WORDS and not _pronoun(words, at):
        value = Decimal(lexicon.NUMBER_WORDS[word.lower])
        return Chunk(kind="number", text=text, number=value)
    if word.lower in lexicon.LATEST:
        return Chunk(kind="op", text=text, op="latest" if lexicon.LATEST[text] else "earliest")
    if word.lower in lexicon.BUSIEST:
        return Chunk(kind="op", text=text, op="frequent" if lexicon.BUSIEST[word.lower] else "rare")
    if word.lower in lexicon.DEGREES:
        return Chunk(kind="degree", text=text)
    if word.kind == "mark":
        return Chunk(kind="mark", text=text)
    if word.lower in lexicon.FILLERS:
        return Chunk(kind="filler", text=text)
    return Chunk(kind="unknown", text=text)


def _pronoun(words: Sequence[Word], at: int) -> bool:
    """`one` in `which one`, `the one`."""
    if words[at].lower != "one":
        return False
    return at > 0 and words[at - 1].lower in ("which", "the", "this", "that", "each", "every")


def _operator(words: Sequence[Word], at: int) -> tuple[str, int]:
    for taken in range(min(lexicon.OPERATOR_WORDS_MAX, len(words) - at), 0, -1):
        phrase = tuple(word.text.lower() for word in words[at : at + taken])
        if operator := lexicon.OPERATORS.get(phrase):
            if any(word.kind == "quoted" for word in words[at : at + taken]):
                continue
            return operator, taken
    return "", 0


def _noun(words: Sequence[Word], at: int, find: FindNoun) -> tuple[Noun | None, int]:
    for taken in range(min(NOUN_WORDS_MAX, len(words) - at), 0, -1):
        noun = find(at, at + taken)
        if noun and (taken == 1 or noun.level >= STRONG):
            return noun, taken
    return None, 0


def _bare_year(words: Sequence[Word], at: int, before: list[Chunk]) -> tuple[Period, int] | None:
    """A four-digit number is a year where a year may stand: `in 2024`, `the year 2024`, `and 2024`."""
    year = year_of(words[at])
    if year is None:
        if words[at].lower == "year" and at + 1 < len(words):
            following = year_of(words[at + 1])
            if following is not None:
                return Period(grain="year", year=following), 2
        return None
    previous = next((chunk for chunk in reversed(before) if chunk.kind != "unit"), None)
    if previous is None:
        return Period(grain="year", year=year), 1
    if previous.kind == "op" and previous.op in _NUMERIC:
        return None
    if previous.text.split()[-1] in _YEAR_LEADS or previous.kind in ("op", "period", "noun"):
        if at + 1 < len(words) and words[at + 1].lower in lexicon.UNITS:
            return None
        return Period(grain="year", year=year), 1
    return None
