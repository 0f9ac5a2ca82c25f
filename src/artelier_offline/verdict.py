"""A verdict by rule: each criterion met with a quote that stands in an output, or what is missing.

A criterion whose words no rule knows is met only if the outputs have every word of it that names a topic.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from artelier_offline.conversation import Prompt
from artelier_offline.words import stems_of

CRITERIA_MAX = 40
QUOTE_CHARS_MAX = 160
UNSAID = "A criterion is said."

_ITEM = re.compile(r"^[ \t]*(?:[-*+]|\d{1,3}[.)])[ \t]+(?=\S)")
_TABLE = re.compile(r"\b(?:contains?|includes?|has|with|shows?)\s+(?:\w+\s+){0,2}tables?\b", re.I)
_QUOTES = re.compile(r"\b(?:quotes? )?(?:the |its )?(?:passages? )?(?:word for word|verbatim)\b", re.I)
_SOURCES = re.compile(r"\b(?:names?|cites?|gives?|states?) (?:the |its |their |all )?sources?\b", re.I)
_FIGURES = re.compile(r"\b(?:figures?|numbers?|amounts?)\b|\bhow (?:many|much)\b", re.I)
_ANSWERS = re.compile(r"\banswers?\b[^:]{0,40}:\s*(?P<question>.+)$", re.I | re.S)
_TERM = re.compile(r"[`\"“]([^`\"“”\n]{1,120})[`\"”]")
_NAMED_SOURCE = re.compile(r"^\W*(?:sources?|according to)\b.{2,}", re.I)
_FILE = re.compile(r"[\w./-]{1,100}\.(?:csv|tsv|parquet|md|markdown|txt|json|xlsx?|pdf)\b|https?://\S+")
_UNKNOWN = re.compile(
    r"(?i)\b(?:not determined|could not be (?:answered|found)|cannot be answered|no data|unknown)\b"
)
_ASIDE = ("#", "```", "Question: ", "*Written by")
"""How lines begin that answer nothing."""

_ABOUT_OUTPUTS = frozenset(
    "something output outputs artifact document report reports text findings result answer answers"
    " answered question contain contains include includes gives names lists states said says mentions"
    " explains describes must should all every each clear correct well form word words letter memo summary"
    " figure figures number numbers source sources addressed data given highest lowest total totals sum"
    " most best largest smallest top one two three four five six seven eight nine ten change changed"
    " changes found find out there many average mean name list sell sold write written now quote quotes"
    " sentence sentences passage line".split()
)
"""Words of criteria that are about the output, or that an answer gives in figures instead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ruling:
    """The ruling on one criterion: met if it has a quote."""

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
        """The lines that can answer something."""
        return [line for line in self.lines if not line.startswith(_ASIDE)]

    def quote(self, line: str) -> Ruling:
        return Ruling(quote=line[:QUOTE_CHARS_MAX].strip(), ref=self.ref)


def judge(prompt: Prompt) -> dict[str, Any]:
    """Return the verdict as JSON data."""
    outputs = [Output(ref=one.source, text=one.text) for one in prompt.shown("Outputs")]
    criteria = _criteria(prompt.section("Success criteria"))
    rulings = [(one, ruling(one, outputs)) for one in criteria]
    if not rulings:
        rulings.append((UNSAID, Ruling(missing="there is no criterion to judge by")))
    met = sum(bool(one.quote) for _, one in rulings)
    return {
        "criteria": [
            {
                "criterion": criterion,
                "met": bool(one.quote),
                "evidence": [{"ref": one.ref, "quote": one.quote}] if one.quote else [],
                "missing": one.missing,
            }
            for criterion, one in rulings
        ],
        "summary": f"{met} of {len(rulings)} criteria are met, judged by rule.",
    }


def _criteria(text: str) -> list[str]:
    """Return the criteria, one for each item of a list, else one for each sentence."""
    lines = [line for line in text.splitlines() if line.strip()]
    if not any(_ITEM.match(line) for line in lines):
        parts = re.split(r"(?<=[.;!?])\s+(?=[A-Z\"“`\d])|\n+", text)
        return [part.strip() for part in parts if part.strip()][:CRITERIA_MAX]
    items: list[str] = []
    for line in lines:
        if items and not _ITEM.match(line) and line.startswith((" ", "\t")):
            items[-1] += f" {line.strip()}"
        else:
            items.append(_ITEM.sub("", line).strip())
    return items[:CRITERIA_MAX]


def ruling(criterion: str, outputs: Sequence[Output]) -> Ruling:
    """Return what the outputs show for a criterion."""
    if not any(output.lines for output in outputs):
        return Ruling(missing="there is no output")
    if match := _ANSWERS.search(criterion):
        return _answers(match["question"], outputs)
    for pattern, rule in ((_TABLE, _table), (_QUOTES, _quotes), (_SOURCES, _sources)):
        if pattern.search(criterion):
            made = rule(outputs)
            rest = pattern.sub(" ", criterion)
            return _topic(rest, outputs) if made.quote and stems_of(rest, skipping=_ABOUT_OUTPUTS) else made
    return _topic(criterion, outputs)


def _table(outputs: Sequence[Output]) -> Ruling:
    for output in outputs:
        rows = [line for line in output.lines if line.count("|") > 1]
        if len(rows) > 1:
            return output.quote(rows[0])
    return Ruling(missing="no output has a table")


def _quotes(outputs: Sequence[Output]) -> Ruling:
    for output in outputs:
        for line in output.lines:
            if re.search(r"\bword for word\b|^>\s|[\"“][^\"”]{12,}[\"”]", line, re.I):
                return output.quote(line)
    return Ruling(missing="nothing is quoted")


def _sources(outputs: Sequence[Output]) -> Ruling:
    found: list[Ruling] = []
    for output in outputs:
        named = [line for line in output.lines if _NAMED_SOURCE.match(line)]
        named += [line[file.start() :] for line in output.said if (file := _FILE.search(line))]
        if not named:
            return Ruling(missing=f"{output.ref} names no source")
        found.append(output.quote(named[0]))
    return found[0]


def _answers(question: str, outputs: Sequence[Output]) -> Ruling:
    """Return whether an output takes up a question and says something of it."""
    for output in outputs:
        lines = [line for line in output.said if not _NAMED_SOURCE.match(line)]
        if not lines or (_UNKNOWN.search(" ".join(lines)) and not any(map(str.isdigit, " ".join(lines)))):
            return Ruling(missing=f"no answer to: {question.strip()}")
    return _topic(question, outputs)


def _topic(criterion: str, outputs: Sequence[Output]) -> Ruling:
    """Return whether the outputs have every word that names a topic, and every quoted term."""
    texts = [
        " ".join(line for line in output.lines if not line.startswith("Question: ")) for output in outputs
    ]
    for term in _TERM.findall(criterion):
        if not any(" ".join(term.lower().split()) in " ".join(text.lower().split()) for text in texts):
            return Ruling(missing=f"{term!r} is nowhere in the outputs")
    if _FIGURES.search(criterion) and not any(
        any(map(str.isdigit, line)) for output in outputs for line in output.said
    ):
        return Ruling(missing="there is no figure in the outputs")
    wanted = stems_of(criterion, skipping=_ABOUT_OUTPUTS)
    there = {one for text in texts for one in stems_of(text)}
    lacking = [one for one in wanted if one not in there]
    if lacking:
        return Ruling(missing=f"nothing on: {', '.join(lacking[:8])}")

    def weight(line: str) -> int:
        return 2 * len(set(wanted) & set(stems_of(line))) + 2 * ("**" in line) + any(map(str.isdigit, line))

    lines = [(output, line) for output in outputs for line in output.said if not _NAMED_SOURCE.match(line)]
    best = max(lines, key=lambda one: weight(one[1]), default=None)
    if best is None or (wanted and not weight(best[1])):
        return Ruling(missing="no line of the outputs says it")
    return best[0].quote(best[1])
