"""Words: how a question or an identifier is cut into tokens, and when two words are one word.

Two degrees of sameness are used everywhere. A *lemma* takes off the plural (`cities` is `city`); a
*stem* takes off verb endings too (`shipped`, `shipping` and `ship` are one). Matching by lemma is
strong evidence, matching by stem alone is weak.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass, replace
from datetime import date
from decimal import Decimal
from functools import cache
from typing import Literal

Kind = Literal["word", "number", "quoted", "day", "month", "mark"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Word:
    """A token of a question, with its place in the text."""

    kind: Kind
    text: str
    """As written; of a quoted token what stands between the quotes."""
    lower: str
    start: int
    end: int
    number: Decimal | None = None
    """Of a number."""
    day: date | None = None
    """Of an ISO day, or the first day of an ISO month."""

    @property
    def lemma(self) -> str:
        return lemma(self.lower)

    @property
    def stem(self) -> str:
        return stem(self.lower)


_TOKEN = re.compile(
    r"""
      [`"“”«»](?P<quoted>[^`"“”«»\n]{1,200})[`"“”«»]
    | (?<!\w)'(?P<single>[^'\n]{1,200})'(?!\w)
    | (?<![\w-])(?P<day>\d{4}[-/]\d{1,2}[-/]\d{1,2})(?!\w)
    | (?<![\w-])(?P<month>\d{4}-\d{2})(?![\w-])
    | (?P<money>[$€£])
    | (?<![\w])(?P<number>(?:(?<!\w)[-−](?=\d))?(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)(?:\.\d+)?)
      (?P<kilo>k)?(?![^\W_])
    | (?P<ordinal>\d+)(?:st|nd|rd|th)\b
    | (?P<word>[^\W_]+(?:'[^\W\d_]+)*)
    | (?P<mark>>=|<=|<>|!=|==|[<>=≥≤≠]|[.,;:?!%–—()/+-])
    """,
    re.VERBOSE | re.IGNORECASE,
)
_CAMEL = re.compile(r"(?<=[a-z\d])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|[\W_]+")
_LETTERS_DIGITS = re.compile(r"(?<=[^\W\d_]{3})(?=\d)")
_CONTRACTED = {
    "what's": ("what", "is"),
    "who's": ("who", "is"),
    "how's": ("how", "is"),
    "there's": ("there", "is"),
    "which's": ("which", "is"),
    "i'd": ("i", "would"),
    "won't": ("will", "not"),
    "can't": ("can", "not"),
    "cannot": ("can", "not"),
    "let's": ("let", "us"),
}


def tokens(text: str) -> tuple[Word, ...]:
    """The tokens of a text in order. Cost: linear in its length."""
    found: list[Word] = []
    for match in _TOKEN.finditer(text):
        scale = _SCALES.get(match.group().lower())
        if scale and found and found[-1].kind == "number" and found[-1].number is not None:
            number = found[-1].number * scale
            whole = text[found[-1].start : match.end()]
            found[-1] = replace(found[-1], text=whole, number=number, end=match.end())
        else:
            found.extend(_words(match))
    return tuple(found)


_SCALES = {"hundred": 100, "thousand": 1_000, "million": 1_000_000, "billion": 1_000_000_000}


def _words(match: re.Match[str]) -> list[Word]:
    text, start, end = match.group(), match.start(), match.end()
    quoted = match["quoted"] or match["single"]
    if quoted is not None:
        inner = quoted.strip()
        return [Word(kind="quoted", text=inner, lower=inner.lower(), start=start, end=end)]
    if match["day"] or match["month"]:
        return [_day(text, start, end)]
    if match["number"] or match["ordinal"]:
        return [_number(match)]
    kind: Kind = "word" if match["word"] else "mark"
    parts = _CONTRACTED.get(text.lower())
    if parts is None and text.lower().endswith("n't"):
        parts = (text[:-3].lower(), "not")
    if parts is None and kind == "word":
        parts = tuple(_split_word(text))
    if parts is None or len(parts) == 1:
        return [Word(kind=kind, text=text, lower=text.lower(), start=start, end=end)]
    return [Word(kind=kind, text=one, lower=one.lower(), start=start, end=end) for one in parts]


def _split_word(text: str) -> list[str]:
    """A camel-case name typed in a question is several words; `McCoy` and `iPad` are left alone."""
    if re.fullmatch(r"[a-z]{3,}(?:[A-Z][a-z]+)+", text):
        return [part for part in _CAMEL.split(text) if part]
    return [text]


def _day(text: str, start: int, end: int) -> Word:
    numbers = [int(part) for part in re.split(r"[-/]", text)]
    kind: Kind = "day" if len(numbers) == 3 else "month"
    try:
        day = date(numbers[0], numbers[1], numbers[2] if kind == "day" else 1)
    except ValueError:
        return Word(kind="word", text=text, lower=text.lower(), start=start, end=end)
    return Word(kind=kind, text=text, lower=text.lower(), start=start, end=end, day=day)


def _number(match: re.Match[str]) -> Word:
    digits = (match["number"] or match["ordinal"]).replace(",", "").replace("−", "-")
    value = Decimal(digits) * (1000 if match["kilo"] else 1)
    text = match.group()
    return Word(
        kind="number", text=text, lower=text.lower(), start=match.start(), end=match.end(), number=value
    )


_IRREGULAR = {
    "people": "person",
    "men": "man",
    "women": "woman",
    "children": "child",
    "staff": "staff",
    "mice": "mouse",
    "feet": "foot",
    "criteria": "criterion",
    "indices": "index",
    "indexes": "index",
    "matrices": "matrix",
    "shelves": "shelf",
    "leaves": "leave",
    "lives": "live",
}
_INVARIANT = frozenset(
    "is was has does this us its as always across plus less news series species lens yes"
    " perhaps status bus gas class process address bonus campus virus focus census".split()
)


@cache
def lemma(word: str) -> str:
    """The word in lower case without its plural ending; possessives lose their `'s`."""
    word = word.lower().removesuffix("'s").removesuffix("'")
    if word in _IRREGULAR:
        return _IRREGULAR[word]
    if word.endswith("ie") and len(word) > 4:
        return word[:-2] + "y"  # movie, calorie: so that they meet their plurals in -ies
    if word in _INVARIANT or len(word) < 4 or not word.endswith("s"):
        return word
    if word.endswith(("ss", "us", "is")):
        return word
    if word.endswith("ies"):
        return word[:-3] + "y"
    if word.endswith(("ches", "shes", "xes", "sses", "zzes")):
        return word[:-2]
    if word.endswith("uses") and not word.endswith(("ouses", "auses")):
        return word[:-2]
    return word[:-1]


_VERBS = {
    "sold": "sell",
    "sale": "sell",
    "seller": "sell",
    "spent": "spend",
    "spending": "spend",
    "paid": "pay",
    "payment": "pay",
    "bought": "buy",
    "lent": "lend",
    "sent": "send",
    "made": "make",
    "born": "birth",
    "grew": "grow",
    "grown": "grow",
    "growth": "grow",
    "fell": "fall",
    "fallen": "fall",
    "rose": "rise",
    "risen": "rise",
    "won": "win",
    "lost": "lose",
    "ran": "run",
    "taken": "take",
    "took": "take",
    "given": "give",
    "gave": "give",
    "written": "write",
    "wrote": "write",
    "began": "begin",
    "begun": "begin",
    "left": "leave",
    "flew": "fly",
    "flown": "fly",
    "flight": "fly",
    "driven": "drive",
    "drove": "drive",
    "weight": "weigh",
    "departure": "depart",
    "arrival": "arrive",
    "delivery": "deliver",
    "delivered": "deliver",
    "enrolment": "enrol",
    "enrollment": "enrol",
    "enrolled": "enrol",
    "rental": "rent",
    "renewal": "renew",
    "purchaser": "purchase",
    "registration": "register",
    "cancellation": "cancel",
    "admission": "admit",
    "donation": "donate",
    "donor": "donate",
    "publication": "publish",
    "creation": "create",
    "closure": "close",
    "completion": "complete",
}


@cache
def stem(word: str) -> str:
    """The lemma without verb endings, doubled consonants and a final `e`."""
    base = lemma(word)
    base = _VERBS.get(base, _VERBS.get(word, base))
    for ending in ("ing", "ed"):
        if base.endswith(ending) and len(base) - len(ending) >= 3 and _has_vowel(base, ending):
            base = base.removesuffix(ending)
            break
    if len(base) > 3 and base[-1] == base[-2] and base[-1] not in "aeiou":
        base = base[:-1]
    base = base.removesuffix("e") if len(base) > 3 else base
    return base[:-1] + "i" if base.endswith("y") and len(base) > 3 else base


def _has_vowel(word: str, ending: str) -> bool:
    return any(letter in "aeiouy" for letter in word.removesuffix(ending))


@cache
def name_words(name: str) -> tuple[str, ...]:
    """The words of an identifier in lower case: `orderDate`, `order_date`, `Order Date`."""
    plain = unicodedata.normalize("NFC", name)
    pieces = [piece for piece in _CAMEL.split(plain) if piece]
    split = [part for piece in pieces for part in _LETTERS_DIGITS.split(piece)]
    return tuple(part.lower() for part in split if part)


def folded(text: str) -> str:
    """The form in which values of a table and words of a question are compared: case, spaces, `_` and
    `-` do not count. The same rule in SQL is `artelier.models.offline.values.FOLDED`."""
    return re.sub(r"[\s_-]+", " ", text).strip(" ").lower()
