"""Success criteria taken apart, and what a rule can say of each: met with a quote, or what is missing."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from artelier.models.offline import lexicon
from artelier.models.offline.missions.findings import QUESTION
from artelier.models.offline.missions.prompt import json_in
from artelier.models.offline.words import stem, tokens

CRITERIA_MAX = 40
QUOTE_CHARS_MAX = 160
SHARE = 0.5
"""Of the words of a criterion that the outputs must have."""

_ITEM = re.compile(r"^[ \t]*(?:[-*+]|\d{1,3}[.)])[ \t]+(?=\S)")
_LENGTH = re.compile(
    r"(?P<how>at least|no less than|not less than|minimum(?: of)?|more than|over|at most|no more than|not more than|"
    r"maximum(?: of)?|less than|fewer than|under|up to)\s+(?P<number>\d[\d,]*)\s+(?P<unit>words?|characters?|lines?|"
    r"sentences?)",
    re.IGNORECASE,
)
_BETWEEN = re.compile(
    r"between\s+(\d[\d,]*)\s+and\s+(\d[\d,]*)\s+(words?|characters?|lines?|sentences?)",
    re.IGNORECASE,
)
_COUNTED = re.compile(
    r"\b(?:names?|lists?|gives?|shows?|contains?|includes?|mentions?|identif\w+)\s+(?:the\s+|all\s+|at least\s+)*"
    r"(?P<number>two|three|four|five|six|seven|eight|nine|ten|\d{1,2})\b",
    re.IGNORECASE,
)
_ABSENT = re.compile(
    r"\b(?:no|without|does not (?:contain|mention|include|use|name)|must not (?:contain|mention|include|use|name)|"
    r"never (?:mentions?|uses?|names?))\s+(?:any\s+)?(?P<what>[^,.;]{2,80})",
    re.IGNORECASE,
)
_SOURCES = re.compile(
    r"\b(?:sources?|cites?|citations?|where (?:it|they|the \w+) (?:comes?|is|are) from)\b", re.I
)
_TABLE = re.compile(
    r"\b(?:contains?|includes?|has|as|in|is|with|shows?|gives?|make)\s+(?:\w+\s+){0,3}tables?\b|\btable\b.{0,20}\b(?:form|format)\b",
    re.I,
)
_JSON = re.compile(r"\bJSON\b")
_FIGURES = re.compile(
    r"\b(?:figures?|numbers?|amounts?|values?|totals?|quantif\w+)\b", re.IGNORECASE
)
_WORD_FOR_WORD = re.compile(r"\b(?:word for word|verbatim|quotes?|quoted)\b", re.IGNORECASE)
_ANSWERS = re.compile(
    r"\b(?:answers?)\b(?:[^:]{0,40}:)?\s*(?P<question>.*)$", re.IGNORECASE | re.DOTALL
)
_TERM = re.compile(r"[`\"“]([^`\"“”\n]{1,120})[`\"”]")
_FILE = re.compile(
    r"[\w./-]{1,100}\.(?:csv|tsv|parquet|md|markdown|txt|text|rst|sqlite|db|json|xlsx?|pdf)\b|https?://\S+"
)
_NAMED_SOURCE = re.compile(r"^\W*(?:sources?|from|according to)\b.{2,}", re.IGNORECASE)
_DIGIT = re.compile(r"\d")
_UNKNOWN = re.compile(
    r"\b(?:not determined|could not be (?:answered|determined|found)|cannot be answered|no data|unknown)\b",
    re.I,
)
_WORDS = {
    word: number
    for number, word in enumerate("zero one two three four five six seven eight nine ten".split())
}
_PLAIN = frozenset(
    "output outputs artifact artifacts document report reports text findings finding result results answer answers"
    " answered question questions contain contains containing include includes including give gives given name names"
    " named list lists state states say says said show shows must should shall need needs every each all any least"
    " clear clearly correct correctly right good well form markdown word words letter email memo summary figure"
    " figures number numbers source sources data addressed complete completely explain explains describe describes"
    " present presents provide provides mention mentions one two three".split()
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ruling:
    """What a rule says of one criterion."""

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
        return frozenset(_stems(self.text))

    @cached_property
    def value(self) -> Any:
        try:
            return json.loads(self.text)
        except (ValueError, RecursionError):
            return None


def criteria_in(text: str) -> list[str]:
    """The criteria, one an item of a list, else one a sentence."""
    lines = [line for line in text.splitlines() if line.strip()]
    items: list[str] = []
    if any(_ITEM.match(line) for line in lines):
        for line in lines:
            if _ITEM.match(line):
                items.append(_ITEM.sub("", line).strip())
            elif items and line.startswith((" ", "\t")):
                items[-1] += f" {line.strip()}"
            else:
                items.append(line.strip())
    else:
        items = [
            part.strip()
            for part in re.split(r"(?<=[.;!?])\s+(?=[A-Z\"“`\d])|\n+", text)
            if part.strip()
        ]
    return items[:CRITERIA_MAX]


def ruling(criterion: str, outputs: Sequence[Output]) -> Ruling:
    """What the outputs show for a criterion. The first rule that its words call for decides."""
    rules: tuple[tuple[re.Pattern[str], Callable[..., Ruling]], ...] = (
        (_BETWEEN, _between), (_LENGTH, _length), (_JSON, _json), (_TABLE, _table),
        (_ABSENT, _absent), (_SOURCES, _sources),
    )  # fmt: skip
    if (match := _ANSWERS.search(criterion)) and match["question"].strip(" .?"):
        return _answers(match["question"], outputs)
    for pattern, rule in rules:
        if match := pattern.search(criterion):
            made = rule(match, criterion, outputs)
            if not made.met or rule not in (_table, _sources, _json):
                return made
            topic = _topic(criterion, outputs, skipping=("table", "json", "valid", "come", "cite"))
            return made if topic.met else topic
    return _topic(criterion, outputs)


def _between(match: re.Match[str], criterion: str, outputs: Sequence[Output]) -> Ruling:
    low, high = (int(one.replace(",", "")) for one in match.groups()[:2])
    size = _size(match[3], outputs)
    return _sized(low <= size <= high, f"{size} {match[3]} instead of {low} to {high}", outputs)


def _length(match: re.Match[str], criterion: str, outputs: Sequence[Output]) -> Ruling:
    number, how = int(match["number"].replace(",", "")), match["how"].lower()
    size = _size(match["unit"], outputs)
    if how in ("more than", "over"):
        fits = size > number
    elif how in ("less than", "fewer than", "under"):
        fits = size < number
    else:
        fits = (
            size >= number
            if how.startswith(("at least", "no less", "not less", "min"))
            else size <= number
        )
    return _sized(fits, f"{size} {match['unit']}, expected {how} {number}", outputs)


def _size(unit: str, outputs: Sequence[Output]) -> int:
    text = "\n".join(output.text for output in outputs)
    if unit.lower().startswith("word"):
        return len(text.split())
    if unit.lower().startswith("line"):
        return sum(bool(line.strip()) for line in text.splitlines())
    if unit.lower().startswith("sentence"):
        return len(re.findall(r"[^\s.!?][^.!?]*[.!?](?=\s|$)", text))
    return len(text)


def _sized(fits: bool, missing: str, outputs: Sequence[Output]) -> Ruling:
    return _first(outputs) if fits else Ruling(met=False, missing=missing)


def _json(match: re.Match[str], criterion: str, outputs: Sequence[Output]) -> Ruling:
    for output in outputs:
        if isinstance(output.value, dict | list):
            return _quoted(output, output.lines[0]) if output.lines else Ruling(met=False)
    return Ruling(met=False, missing="no output is JSON")


def _table(match: re.Match[str], criterion: str, outputs: Sequence[Output]) -> Ruling:
    for output in outputs:
        rows = [line for line in output.lines if line.count("|") > 1]
        if len(rows) > 1:
            return _quoted(output, rows[0])
        if isinstance(output.value, dict) and json_in(output.text) and '"rows"' in output.text:
            return _quoted(output, '"rows"')
    return Ruling(met=False, missing="no output has a table")


def _absent(match: re.Match[str], criterion: str, outputs: Sequence[Output]) -> Ruling:
    wanted = _stems(match["what"])
    if not wanted:
        return _topic(criterion, outputs)
    for output in outputs:
        for line in output.said:
            if set(wanted) <= set(_stems(line)):
                return Ruling(met=False, missing=f"it should not say: {line[:QUOTE_CHARS_MAX]}")
    return _first(outputs)


def _sources(match: re.Match[str], criterion: str, outputs: Sequence[Output]) -> Ruling:
    found: list[Ruling] = []
    for output in outputs:
        named = next((line for line in output.lines if _NAMED_SOURCE.match(line)), None)
        if isinstance(output.value, dict) and '"sources"' in output.text:
            found.append(_quoted(output, output.text[output.text.index('"sources"') :]))
        elif named is not None:
            found.append(_quoted(output, named))
        elif file := _FILE.search(output.text):
            found.append(_quoted(output, file[0]))
        else:
            return Ruling(met=False, missing=f"{output.ref} names no source")
    return found[0] if found else Ruling(met=False, missing="there is no output")


def _answers(question: str, outputs: Sequence[Output]) -> Ruling:
    """Whether the words of a question are taken up and some line answers."""
    for output in outputs:
        lines = [line for line in output.said if not _NAMED_SOURCE.match(line)]
        if _UNKNOWN.search(" ".join(lines)) and not any(_DIGIT.search(line) for line in lines):
            return Ruling(met=False, missing=f"no answer to: {question.strip()}")
    return _topic(question, outputs, answering=True)


def _topic(
    criterion: str,
    outputs: Sequence[Output],
    *,
    skipping: Sequence[str] = (),
    answering: bool = False,
) -> Ruling:
    """Whether the outputs take up the words of a criterion, its quoted terms, and as many things as it says."""
    for term in _TERM.findall(criterion):
        if not any(_folded(term) in _folded(output.text) for output in outputs):
            return Ruling(met=False, missing=f"{term!r} is nowhere in the outputs")
    if _FIGURES.search(criterion) or _asks_figure(criterion):
        if not any(_DIGIT.search(line) for output in outputs for line in output.said):
            return Ruling(met=False, missing="there is no figure in the outputs")
    skipped = {stem(word) for word in skipping}
    wanted = [one for one in dict.fromkeys(_stems(criterion)) if one not in skipped]
    there = {one for output in outputs for one in output.stems}
    lacking = [one for one in wanted if one not in there]
    if wanted and len(lacking) > (1 - SHARE) * len(wanted):
        return Ruling(met=False, missing=f"nothing on: {', '.join(lacking[:8])}")
    counted = _COUNTED.search(criterion)
    if counted is not None and (short := _too_few(counted["number"], outputs)):
        return Ruling(met=False, missing=short)
    best = _best(wanted, outputs, answering=answering)
    if best is None:
        return Ruling(met=False, missing="no line of the outputs says it")
    return _quoted(*best)


def _asks_figure(question: str) -> bool:
    return bool(
        re.match(
            r"\W*(?:how (?:many|much)|what (?:is|was) the (?:total|average|number))\b",
            question,
            re.I,
        )
    )


def _too_few(number: str, outputs: Sequence[Output]) -> str:
    """What is missing if fewer things are named than a criterion says; or nothing."""
    least = int(number) if number.isdigit() else _WORDS[number.lower()]
    text = "\n".join(output.text for output in outputs)
    bold = len(set(re.findall(r"\*\*([^*\n]+)\*\*", text)))
    rows = sum(line.count("|") > 1 for output in outputs for line in output.lines) - 1
    items = sum(bool(_ITEM.match(line)) for line in text.splitlines())
    names = len(set(re.findall(r"(?<=[\w,(*] )\**([A-Z][\w'-]+)", text)))
    most = max(bold, rows, items, names, len(re.findall(r"\[", text)) if text[:1] in "{[" else 0)
    return "" if most >= least else f"{least} are asked for, {max(most, 0)} are named"


def _best(
    wanted: Sequence[str], outputs: Sequence[Output], *, answering: bool
) -> tuple[Output, str] | None:
    """The line that has most of the words; of those that answer, one with a figure or a quote first."""
    found: list[tuple[int, int, Output, str]] = []
    for output in outputs:
        for line in output.said:
            hits = len(set(wanted) & set(_stems(line)))
            weight = 2 * hits + (2 if "**" in line else 0) + bool(_DIGIT.search(line))
            if re.fullmatch(r"[\s|:-]+", line) or line.startswith(("```", "*Written by")):
                continue
            found.append((weight, -len(found), output, line))
    if not found:
        return None
    weight, _, output, line = max(found, key=lambda one: one[:2])
    return (output, line) if weight or answering or not wanted else None


def _first(outputs: Sequence[Output]) -> Ruling:
    """Met, shown by how an output begins."""
    for output in outputs:
        for line in [*output.said, *output.lines]:
            return _quoted(output, line)
    return Ruling(met=False, missing="there is no output")


def _quoted(output: Output, line: str) -> Ruling:
    quote = line.split("\n")[0][:QUOTE_CHARS_MAX]
    at = output.text.find(quote)
    assert at >= 0
    return Ruling(met=True, quote=quote.strip(), ref=output.ref)


def _folded(text: str) -> str:
    return " ".join(text.lower().split())


def _stems(text: str) -> list[str]:
    """The stems of the words that say something; numbers as digits, unlike words for them."""
    found: list[str] = []
    for token in tokens(text):
        inner = tokens(token.text) if token.kind == "quoted" else (token,)
        for word in inner:
            plain = word.lower
            if word.kind == "mark" or plain in _PLAIN or len(plain) < 2:
                continue
            if plain in lexicon.FUNCTION_WORDS or plain in lexicon.FILLERS:
                continue
            found += [stem(part) for part in re.findall(r"[^\W_]+", plain)]
    return found
