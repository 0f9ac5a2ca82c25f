"""Checks by rule: declared criteria, and quotes that a verdict gives as evidence. Patterns of people end in
time; a check that cannot be made has failed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from artelier.errors import InvalidRequest, PatternTimeout
from artelier.missions.task.verdict.output_lint import Judged, json_in
from artelier.patterns import Allowance, check_pattern, compile_pattern

if TYPE_CHECKING:
    from artelier.missions.definition import Check, Verdict


TEXT_CHARS_MAX = 400_000
FOUND_CHARS_MAX = 400


def by_rule(check: Check, outputs: Sequence[Judged]) -> dict[str, Any]:
    """Return what came of a check that needs no tool: `{kind, passed, found}`. It may take its time."""
    ways = {"length": _by_length, "regex": _by_pattern, "schema": _by_schema}
    passed, found = ways[check.kind](check, outputs)
    return _result(check, passed, found)


def by_tool(check: Check, value: Any, *, is_error: bool) -> dict[str, Any]:
    """Return what a tool's word over the outputs means: nothing but a clear yes passes."""
    said: Any = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
    verdicts = [said[name] for name in ("passed", "ok", "success") if name in said]
    passed = value is True or (bool(verdicts) and all(verdict is True for verdict in verdicts))
    return _result(check, passed and not is_error, f"{check.tool} said {value!r}")


def shown_to_tools(outputs: Sequence[Judged]) -> dict[str, Any]:
    """The arguments of a tool that checks outputs."""
    return {"outputs": [{"ref": one.ref, "type": one.media, "content": one.text} for one in outputs]}


def _result(check: Check, passed: bool, found: str) -> dict[str, Any]:
    return {"kind": check.kind, "passed": passed, "found": found[:FOUND_CHARS_MAX]}


def _by_length(check: Check, outputs: Sequence[Judged]) -> tuple[bool, str]:
    words = sum(len(output.text.split()) for output in outputs)
    low, high = check.min or 0, check.max
    passed = bool(outputs) and words >= low and (high is None or words <= high)
    return passed, f"{words} words, expected {low} to {'any number' if high is None else high}"


def _by_pattern(check: Check, outputs: Sequence[Judged]) -> tuple[bool, str]:
    allowance = Allowance()
    for output in outputs:
        try:
            pattern = compile_pattern(check.pattern or "", dialect="regex", flags="m")
            if pattern.search(output.text[:TEXT_CHARS_MAX], allowance=allowance):
                return True, f"found in {output.ref}"
        except InvalidRequest as error:
            return False, str(error)
        except PatternTimeout:
            return False, f"the pattern took too long over {output.ref}"
    return False, "found in no output"


def pattern_problem(pattern: str | None) -> str | None:
    """Return what is wrong with the pattern of a check; it is read, not compiled."""
    try:
        if pattern is not None:
            check_pattern(pattern, dialect="regex")
    except InvalidRequest as error:
        return str(error)
    return None


def _by_schema(check: Check, outputs: Sequence[Judged]) -> tuple[bool, str]:
    from artelier.kernel.steps.json_schema import check_schema
    from artelier.kernel.steps.json_value import check_json

    said = "no output is JSON"
    for output in outputs:
        value = json_in(output.text) if output.media == "json" else None
        if value is None:
            continue
        try:
            check_json(value, check_schema(check.json_schema or {}))
            return True, f"{output.ref} fits"
        except InvalidRequest as error:
            said = f"{output.ref} does not fit: {error}"
    return False, said


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
