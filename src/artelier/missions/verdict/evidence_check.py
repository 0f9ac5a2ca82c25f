"""The check of a verdict: it judges each criterion, and each quote is in the output and says something."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from artelier.missions.verdict.output_lint import Judged

if TYPE_CHECKING:
    from artelier.missions.definition import Verdict

CRITERIA_MAX = 40
"""Of one task; more are not looked for in a verdict."""

QUOTE_CHARS_MIN = 12
"""A shorter quote is a whole line or a figure, or it proves nothing."""

_MARK = re.compile(r"^\s*(?:(?:[-*+\u2022\u2013]|\(?\d{1,3}[.):]|\(?[A-Za-z][.)])(?=\s)|\[[ xX]?\])\s*(?=\S)")
"""What an item of a list begins with."""

_SENTENCE = re.compile(r"(?<=[.;!?])\s+(?=[A-Z\"\u201c`\d])")
_WORD = re.compile(r"\w+")
_SPACE = re.compile(r"\s+")
_FIGURE = re.compile(r"[-+\u2212$]*[0-9][0-9.,]*(?: ?%)?")


def void_of(verdict: Verdict, criteria: str, outputs: Sequence[Judged]) -> str:
    """Return why a verdict does not count; empty if it does. Pure."""
    if not _judges_all([one.criterion for one in verdict.criteria], criteria):
        return "criteria_missing"
    texts = {output.ref: output.text for output in outputs}
    folded = {ref: _fold_space(text) for ref, text in texts.items()}
    lines: dict[str, frozenset[str]] = {}
    for one in verdict.criteria:
        if one.met and not one.evidence:
            return "no_evidence"
        for evidence in one.evidence:
            if evidence.ref not in texts:
                return "unknown_ref"
            quote = _fold_space(evidence.quote)
            if not any(char.isalnum() for char in quote):
                return "no_evidence"
            ref = evidence.ref
            if quote not in folded[ref]:
                return "quote_not_found"
            if len(quote) < QUOTE_CHARS_MIN:
                if ref not in lines:
                    lines[ref] = frozenset(_fold_space(line) for line in texts[ref].splitlines())
                if quote not in lines[ref] and not _is_figure(quote, folded[ref]):
                    return "no_evidence"
    return ""


def criteria_of(text: str) -> tuple[list[str], bool]:
    """The criteria of a task, and whether they are a list; otherwise they are sentences."""
    lines = text.splitlines()
    items = [stripped for line in lines if (stripped := _strip_marks(line)) != line]
    if items:
        return items[:CRITERIA_MAX], True
    return [part for line in lines for part in _SENTENCE.split(line)][:CRITERIA_MAX], False


def _strip_marks(line: str) -> str:
    while match := _MARK.match(line):
        line = line[match.end() :]
    return line


def _judges_all(judged: list[str], criteria: str) -> bool:
    """Return True if each criterion is judged: those of a list by entries of their own."""
    wanted, is_list = criteria_of(criteria)
    if len(wanted) <= 1:
        return True  # an entry there is, and it can be about nothing else
    entries = [_words(_strip_marks(one)) for one in judged]
    if not is_list:
        return all(any(_is_about(one, _words(part)) for one in entries) for part in wanted)
    return all(_take(entries, item) or all(_take(entries, part) for part in _parts(item)) for item in wanted)


def _parts(item: str) -> list[str]:
    """The sentences of an item, if it has several; an entry may judge one of them."""
    parts = _SENTENCE.split(item)
    return parts if len(parts) > 1 else [item]


def _take(entries: list[str], criterion: str) -> bool:
    """Use up the entry that is about a criterion."""
    words = _words(criterion)
    for entry in entries:
        if not words or f"{entry} ".startswith(f"{words} ") or _begins(words, entry):
            entries.remove(entry)
            return True
    return False


def _is_about(entry: str, criterion: str) -> bool:
    return not criterion or f" {criterion} " in f" {entry} " or _begins(criterion, entry)


def _begins(criterion: str, entry: str) -> bool:
    """Return True if an entry is a criterion that was cut, but not to a few words."""
    return criterion.startswith(entry) and 2 * len(entry) >= len(criterion)


def _is_figure(quote: str, folded: str) -> bool:
    """Return True if a short quote is a figure that stands there as a whole."""
    figure = rf"(?<![\w.,]){re.escape(quote)}(?![\w]|[.,]\d)"
    return _FIGURE.fullmatch(quote) is not None and re.search(figure, folded) is not None


def _words(text: str) -> str:
    return " ".join(_WORD.findall(text.casefold()))


def _fold_space(text: str) -> str:
    """White space is all that a quote may differ in."""
    return _SPACE.sub(" ", text).strip()
