"""The coverage of a criterion's words in outputs: covered or not, and in which line."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from artelier.models.offline import lexicon
from artelier.models.offline.missions.findings import QUESTION, SOURCES
from artelier.models.offline.words import stem, tokens

QUOTE_CHARS_MAX = 160
SHARE = 0.5
"""Of the words of a criterion that the outputs must have."""
_COUNTED = re.compile(
    r"\b(?:names?|lists?|gives?|shows?|contains?|includes?|mentions?|identif\w+)\s+"
    r"(?:the\s+|all\s+|at least\s+)*"
    r"(?P<number>two|three|four|five|six|seven|eight|nine|ten|\d{1,2})\b",
    re.IGNORECASE,
)
_FIGURES = re.compile(r"\b(?:figures?|numbers?|amounts?|values?|totals?|quantif\w+)\b", re.IGNORECASE)
_TERM = re.compile(r"[`\"“]([^`\"“”\n]{1,120})[`\"”]")
DIGIT = re.compile(r"\d")
_WORDS = {
    word: number
    for number, word in enumerate("zero one two three four five six seven eight nine ten".split())
}
_ITEM = re.compile(r"^[ \t]*(?:[-*+]|\d{1,3}[.)])[ \t]+(?=\S)")
_ASIDE = ("```", "*Written by", SOURCES)
"""How lines begin that say nothing on a topic; the last of them no answer."""

_PLAIN = frozenset(
    "output outputs artifact artifacts document report reports text findings finding result results"
    " answer answers answered question questions contain contains containing include includes"
    " including give gives given name names named list lists state states say says said show shows"
    " must should shall need needs every each all any least clear clearly correct correctly right good"
    " well form markdown word words letter email memo summary figure figures number numbers source"
    " sources data addressed complete completely explain explains describe describes present presents"
    " provide provides mention mentions one two three".split()
)
"""Words of criteria that are about the output, not about its topic."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ruling:
    """The ruling of a rule on one criterion."""

    met: bool
    quote: str = ""
    ref: str = ""
    missing: str = ""


@dataclass(frozen=True, kw_only=True)
class Output:
    """One output, as it is judged."""

    ref: str
    text: str

    @cached_property
    def lines(self) -> list[str]:
        return [line.strip() for line in self.text.splitlines() if any(map(str.isalnum, line))]

    @cached_property
    def said(self) -> list[str]:
        """Lines that answer: neither headings nor the question repeated."""
        kept = [line for line in self.lines if not line.startswith((QUESTION, "#"))]
        return [line for line in kept if not line.startswith('"question"')]

    @cached_property
    def stems(self) -> frozenset[str]:
        return frozenset(stems_of(self.text))

    @cached_property
    def value(self) -> Any:
        try:
            return json.loads(self.text)
        except (ValueError, RecursionError):
            return None


def topic(
    criterion: str, outputs: Sequence[Output], *, skipping: Sequence[str] = (), answering: bool = False
) -> Ruling:
    """Return whether the outputs take up a criterion's words and quoted terms, and as many things as it
    says.
    """
    for term in _TERM.findall(criterion):
        if not any(_folded(term) in _folded(output.text) for output in outputs):
            return Ruling(met=False, missing=f"{term!r} is nowhere in the outputs")
    if _FIGURES.search(criterion) or _asks_figure(criterion):
        if not any(DIGIT.search(line) for output in outputs for line in output.said):
            return Ruling(met=False, missing="there is no figure in the outputs")
    skipped = {stem(word) for word in skipping}
    words = {base: word for base, word in reversed(_told(criterion)) if base not in skipped}
    wanted = list(reversed(words))
    there = {one for output in outputs for one in output.stems}
    lacking = [one for one in wanted if one not in there]
    if wanted and len(lacking) > (1 - SHARE) * len(wanted):
        return Ruling(met=False, missing=f"nothing on: {', '.join(words[one] for one in lacking[:8])}")
    counted = _COUNTED.search(criterion)
    if counted is not None and (short := _too_few(counted["number"], outputs)):
        return Ruling(met=False, missing=short)
    best = _best(wanted, outputs, answering=answering)
    if best is None:
        return Ruling(met=False, missing="no line of the outputs says it")
    return quoted(*best)


def _asks_figure(question: str) -> bool:
    return bool(
        re.match(r"\W*(?:how (?:many|much)|what (?:is|was) the (?:total|average|number))\b", question, re.I)
    )


def _too_few(number: str, outputs: Sequence[Output]) -> str:
    """Return what is missing if fewer things are named than a criterion says; or nothing."""
    least = int(number) if number.isdigit() else _WORDS[number.lower()]
    text = "\n".join(output.text for output in outputs)
    bold = len(set(re.findall(r"\*\*([^*\n]+)\*\*", text)))
    rows = sum(line.count("|") > 1 for output in outputs for line in output.lines) - 1
    items = sum(bool(_ITEM.match(line)) for line in text.splitlines())
    names = len(set(re.findall(r"(?<=[\w,(*] )\**([A-Z][\w'-]+)", text)))
    most = max(bold, rows, items, names, len(re.findall(r"\[", text)) if text[:1] in "{[" else 0)
    return "" if most >= least else f"{least} are asked for, {max(most, 0)} are named"


def _best(wanted: Sequence[str], outputs: Sequence[Output], *, answering: bool) -> tuple[Output, str] | None:
    """The line that has most of the words; of those that answer, one with a figure or a quote first."""
    found: list[tuple[int, int, Output, str]] = []
    for output in outputs:
        for line in output.said:
            hits = len(set(wanted) & set(stems_of(line)))
            weight = 2 * hits + (2 if "**" in line else 0) + bool(DIGIT.search(line))
            if re.fullmatch(r"[\s|:-]+", line) or line.startswith(_ASIDE[: 3 if answering else 2]):
                continue
            found.append((weight, -len(found), output, line))
    if not found:
        return None
    weight, _, output, line = max(found, key=lambda one: one[:2])
    return (output, line) if weight or answering or not wanted else None


def first_of(outputs: Sequence[Output]) -> Ruling:
    """Met, shown by how an output begins."""
    for output in outputs:
        for line in [*output.said, *output.lines]:
            return quoted(output, line)
    return Ruling(met=False, missing="there is no output")


def quoted(output: Output, line: str) -> Ruling:
    quote = line.split("\n")[0][:QUOTE_CHARS_MAX]
    at = output.text.find(quote)
    assert at >= 0
    return Ruling(met=True, quote=quote.strip(), ref=output.ref)


def _folded(text: str) -> str:
    return " ".join(text.lower().split())


def stems_of(text: str) -> list[str]:
    """The stems of the words that say something."""
    return [base for base, _ in _told(text)]


def _told(text: str) -> list[tuple[str, str]]:
    """The words that say something, each with its stem."""
    found: list[tuple[str, str]] = []
    for token in tokens(text):
        inner = tokens(token.text) if token.kind == "quoted" else (token,)
        for word in inner:
            plain = word.lower
            if word.kind == "mark" or plain in _PLAIN or len(plain) < 2:
                continue
            if plain in lexicon.FUNCTION_WORDS or plain in lexicon.FILLERS:
                continue
            found += [(stem(part), part) for part in re.findall(r"[^\W_]+", plain)]
    return found
