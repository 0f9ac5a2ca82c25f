"""Success criteria taken apart, and what a rule can say of each: met with a quote, or what is missing."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from artelier.models.offline.missions.prompt import json_in
from artelier.models.offline.missions.topics import (
    DIGIT,
    QUOTE_CHARS_MAX,
    Output,
    Ruling,
    first_of,
    quoted,
    stems_of,
    topic,
)

CRITERIA_MAX = 40
_ITEM = re.compile(r"^[ \t]*(?:[-*+]|\d{1,3}[.)])[ \t]+(?=\S)")
_LENGTH = re.compile(
    r"(?P<how>at least|no less than|not less than|minimum(?: of)?|more than|over|at most|no more than|"
    r"not more than|maximum(?: of)?|less than|fewer than|under|up to)\s+(?P<number>\d[\d,]*)\s+"
    r"(?P<unit>words?|characters?|lines?|sentences?)",
    re.IGNORECASE,
)
_BETWEEN = re.compile(
    r"between\s+(\d[\d,]*)\s+and\s+(\d[\d,]*)\s+(words?|characters?|lines?|sentences?)", re.IGNORECASE
)
_ABSENT = re.compile(
    r"\b(?:no|without|does not (?:contain|mention|include|use|name)|"
    r"must not (?:contain|mention|include|use|name)|"
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
_QUOTES = re.compile(r"\b(?:word for word|verbatim|quotes? (?:the|a|its|passages?))\b", re.IGNORECASE)
_QUOTED = re.compile(r"\bword for word\b|^>\s|[\"\u201c][^\"\u201d]{12,}[\"\u201d]", re.IGNORECASE)
_JSON = re.compile(r"\bJSON\b")
_ANSWERS = re.compile(r"\b(?:answers?)\b(?:[^:]{0,40}:)?\s*(?P<question>.*)$", re.IGNORECASE | re.DOTALL)
_FILE = re.compile(
    r"[\w./-]{1,100}\.(?:csv|tsv|parquet|md|markdown|txt|text|rst|sqlite|db|json|xlsx?|pdf)\b|https?://\S+"
)
_NAMED_SOURCE = re.compile(r"^\W*(?:sources?|from|according to)\b.{2,}", re.IGNORECASE)
_UNKNOWN = re.compile(
    r"\b(?:not determined|could not be (?:answered|determined|found)|cannot be answered|no data|unknown)\b",
    re.I,
)


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
            part.strip() for part in re.split(r"(?<=[.;!?])\s+(?=[A-Z\"“`\d])|\n+", text) if part.strip()
        ]
    return items[:CRITERIA_MAX]


def ruling(criterion: str, outputs: Sequence[Output]) -> Ruling:
    """Return what the outputs show for a criterion. The first rule that its words call for decides."""
    rules: tuple[tuple[re.Pattern[str], Callable[..., Ruling]], ...] = (
        (_BETWEEN, _between),
        (_LENGTH, _length),
        (_JSON, _json),
        (_TABLE, _table),
        (_QUOTES, _quotes),
        (_ABSENT, _absent),
        (_SOURCES, _sources),
    )
    if (match := _ANSWERS.search(criterion)) and match["question"].strip(" .?"):
        return _answers(match["question"], outputs)
    for pattern, rule in rules:
        if match := pattern.search(criterion):
            made = rule(match, criterion, outputs)
            if not made.met or rule not in (_table, _sources, _json):
                return made
            about = topic(criterion, outputs, skipping=("table", "json", "valid", "come", "cite"))
            return made if about.met else about
    return topic(criterion, outputs)


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
            size >= number if how.startswith(("at least", "no less", "not less", "min")) else size <= number
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
    return first_of(outputs) if fits else Ruling(met=False, missing=missing)


def _json(match: re.Match[str], criterion: str, outputs: Sequence[Output]) -> Ruling:
    for output in outputs:
        if isinstance(output.value, dict | list):
            return quoted(output, output.lines[0]) if output.lines else Ruling(met=False)
    return Ruling(met=False, missing="no output is JSON")


def _table(match: re.Match[str], criterion: str, outputs: Sequence[Output]) -> Ruling:
    for output in outputs:
        rows = [line for line in output.lines if line.count("|") > 1]
        if len(rows) > 1:
            return quoted(output, rows[0])
        if isinstance(output.value, dict) and json_in(output.text) and '"rows"' in output.text:
            return quoted(output, output.text[output.text.index('"rows"') :])
    return Ruling(met=False, missing="no output has a table")


def _quotes(match: re.Match[str], criterion: str, outputs: Sequence[Output]) -> Ruling:
    for output in outputs:
        for line in output.lines:
            if _QUOTED.search(line):
                return quoted(output, line)
    return Ruling(met=False, missing="nothing is quoted")


def _absent(match: re.Match[str], criterion: str, outputs: Sequence[Output]) -> Ruling:
    wanted = stems_of(match["what"])
    if not wanted:
        return topic(criterion, outputs)
    for output in outputs:
        for line in output.said:
            if set(wanted) <= set(stems_of(line)):
                return Ruling(met=False, missing=f"it should not say: {line[:QUOTE_CHARS_MAX]}")
    return first_of(outputs)


def _sources(match: re.Match[str], criterion: str, outputs: Sequence[Output]) -> Ruling:
    found: list[Ruling] = []
    for output in outputs:
        named = next((line for line in output.lines if _NAMED_SOURCE.match(line)), None)
        if isinstance(output.value, dict) and '"sources"' in output.text:
            found.append(quoted(output, output.text[output.text.index('"sources"') :]))
        elif named is not None:
            found.append(quoted(output, named))
        elif file := _FILE.search(output.text):
            found.append(quoted(output, output.text[file.start() :]))
        else:
            return Ruling(met=False, missing=f"{output.ref} names no source")
    return found[0] if found else Ruling(met=False, missing="there is no output")


def _answers(question: str, outputs: Sequence[Output]) -> Ruling:
    """Return whether the words of a question are taken up and some line answers."""
    for output in outputs:
        lines = [line for line in output.said if not _NAMED_SOURCE.match(line)]
        if _UNKNOWN.search(" ".join(lines)) and not any(DIGIT.search(line) for line in lines):
            return Ruling(met=False, missing=f"no answer to: {question.strip()}")
    return topic(question, outputs, answering=True)
