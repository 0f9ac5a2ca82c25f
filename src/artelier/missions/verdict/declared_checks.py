"""Declared checks: criteria that are tested by rule. Patterns of people end in time; a check that cannot be
made has failed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from artelier.errors import InvalidRequest, PatternTimeout
from artelier.missions.verdict.output_lint import Judged, json_in
from artelier.patterns import Allowance, check_pattern, compile_pattern

if TYPE_CHECKING:
    from artelier.missions.definition import Check

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
