"""Words and figures: tokens of a question, sameness of words, and values as Markdown that cannot become
markup.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from typing import Any, Literal

CELL_CHARS_MAX = 120
MISSING = "(missing)"
LABEL = "*Written by Artelier's offline model: fixed rules, no language model.*"

Kind = Literal["word", "quoted", "number", "mark"]

_TOKEN = re.compile(
    r"""[`"“”](?P<quoted>[^`"“”\n]{1,200})[`"“”]
    | (?P<number>\d{4}-\d{2}(?:-\d{2})?(?![\w-])|\d+(?![^\W_]))
    | (?P<word>[^\W_]+(?:['’._-][^\W_]+)*)
    | (?P<mark>[^\s])""",
    re.VERBOSE,
)
_NAME_BREAK = re.compile(r"(?<=[a-z\d])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|[\W_]+")
_SPECIAL = re.compile(r"([\\`*\[\]<>|]|(?<!\w)_|_(?!\w)|~(?=~))")
_UNCHANGED = frozenset(
    "is was has does this us its as always across plus less news series species lens yes"
    " perhaps status bus gas class process address bonus campus virus focus census".split()
)
IRREGULAR = {"people": "person", "men": "man", "women": "woman", "children": "child", "shelves": "shelf"}
_CONTRACTED = {"what's": "what is", "who's": "who is", "how's": "how is", "there's": "there is"}

STOP_WORDS = frozenset(
    "a an the of in at on for with is are was were be been being do does did done has have had"
    " having there here we our ours us i me my mine you your it its they their them he his she"
    " her this that these those such as so than then and or by to from per how much what which"
    " who whom when where why whose if but can could would will shall may might should just only"
    " please tell show give say says said let about into any".split()
)
"""Words that name no topic."""


@dataclass(frozen=True, slots=True)
class Word:
    """A token of a question."""

    text: str
    """As written; of a quoted token, the text between the quotes."""
    kind: Kind

    @property
    def lower(self) -> str:
        return self.text.lower()


def tokens(text: str) -> list[Word]:
    """Return the tokens of a text in order. Cost: linear."""
    found: list[Word] = []
    for match in _TOKEN.finditer(unicodedata.normalize("NFC", text).replace("’", "'")):
        kind: Kind = match.lastgroup  # pyright: ignore[reportAssignmentType] - the groups are the kinds
        said = match[kind].strip()
        if kind == "word" and said.lower() in _CONTRACTED:
            found += [Word(one, "word") for one in _CONTRACTED[said.lower()].split()]
        elif kind == "word" and said.lower().endswith("'s"):
            found += [Word(said[:-2], "word"), Word("'s", "mark")]
        else:
            found.append(Word(said, kind))
    return found


@cache
def lemma(word: str) -> str:
    """Return a word in lower case without its plural ending."""
    word = word.lower()
    if word in IRREGULAR:
        return IRREGULAR[word]
    if word in _UNCHANGED or len(word) < 4 or not word.endswith("s") or word.endswith(("ss", "us", "is")):
        return word
    if word.endswith("ies"):
        return word[:-3] + "y" if len(word) > 4 else word[:-1]
    if word.endswith(("ches", "shes", "xes", "sses", "zzes")):
        return word[:-2]
    return word[:-1]


@cache
def stem(word: str) -> str:
    """Return the lemma without verb endings; used to find words in prose, never to find columns."""
    base = {"sold": "sell", "sales": "sell", "sale": "sell"}.get(word.lower(), lemma(word))
    for ending in ("ing", "ed"):
        if base.endswith(ending) and len(base) - len(ending) >= 3:
            base = base.removesuffix(ending)
            break
    if len(base) > 3 and base[-1] == base[-2] and base[-1] not in "aeiou":
        base = base[:-1]
    base = base.removesuffix("e") if len(base) > 3 else base
    return base[:-1] + "i" if base.endswith("y") and len(base) > 3 else base


def folded(text: str) -> str:
    """Return the words of a text in lower case, with single blanks between them."""
    return " ".join(re.findall(r"[^\W_]+", text.lower()))


def stems_of(text: str, *, skipping: Iterable[str] = ()) -> list[str]:
    """Return the stems of the words that name a topic, each once, in order."""
    skipped = STOP_WORDS | set(skipping)
    words = [part for part in re.findall(r"[^\W_]+", text.lower()) if part not in skipped and len(part) > 1]
    return list(dict.fromkeys(map(stem, words)))


@cache
def name_words(name: str) -> tuple[str, ...]:
    """Return the lemmas of an identifier: those of `orderDate` and `Order Dates` are the same."""
    pieces = _NAME_BREAK.split(unicodedata.normalize("NFC", name))
    return tuple(lemma(piece) for piece in pieces if piece)


# Values as text


def number_from(value: object) -> Decimal | None:
    """Return a finite number of a result; None for anything else, text that looks like a number included."""
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        return None
    found = Decimal(str(value))
    return found if found.is_finite() else None


def exact(value: object) -> str:
    """Return a value for a table: numbers with at most six decimals, at least two if not whole."""
    return _number(value, 6)


def rounded(value: object) -> str:
    """Return a value for a sentence: numbers with two decimals, small ones with more."""
    number, decimals = number_from(value), 2
    while number is not None and decimals < 6 and 0 < abs(number) < Decimal(10) ** (1 - decimals):
        decimals += 1
    return _number(value, decimals)


def _number(value: object, decimals: int) -> str:
    number = number_from(value)
    if number is None or isinstance(value, int):
        return escaped(value) if number is None else str(value)
    whole, _, rest = format(round(number, decimals), "f").partition(".")
    rest = rest.rstrip("0").ljust(2, "0")
    return f"{'0' if whole == '-0' and not rest.strip('0') else whole}.{rest}"


def flat(text: str, chars_max: int) -> str:
    """Return a text on one line without control characters, cut to its length."""
    line = " ".join("".join(one if one.isprintable() else " " for one in text).split())
    return line if len(line) <= chars_max else line[: chars_max - 1].rstrip() + "…"


def escaped(value: object) -> str:
    """Return any value on one line, with markup escaped."""
    if value is None or isinstance(value, bool):
        return MISSING if value is None else str(value).lower()
    return _SPECIAL.sub(r"\\\1", flat(str(value), CELL_CHARS_MAX))


def code(name: str) -> str:
    """Return a name as inline code, in a fence that its own backticks cannot close."""
    line = flat(name, CELL_CHARS_MAX)
    fence = "`" * (max((len(run) for run in re.findall("`+", line)), default=0) + 1)
    pad = " " if line[:1] == "`" or line[-1:] == "`" else ""
    return f"{fence}{pad}{line}{pad}{fence}"


def block(text: str, language: str = "") -> str:
    """Return a text in a fence that is longer than any run of backticks in it."""
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", text)), default=0))
    return f"{fence}{language}\n{text}\n{fence}"


def table(headings: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """Return a Markdown table; columns of numbers are aligned right."""
    columns: Sequence[Sequence[Any]] = list(zip(*rows, strict=True)) if rows else [()] * len(headings)
    right = [
        bool(rows) and all(one is None or number_from(one) is not None for one in column)
        for column in columns
    ]
    lines = ["| " + " | ".join(escaped(one) for one in headings) + " |"]
    lines.append("| " + " | ".join("---:" if one else "---" for one in right) + " |")
    return "\n".join([*lines, *("| " + " | ".join(map(exact, row)) + " |" for row in rows)])


def listed(parts: Sequence[str], word: str = "and") -> str:
    """Return a list in words: `a, b and c`."""
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} {word} {parts[-1]}" if parts else ""
