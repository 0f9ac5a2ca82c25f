"""Declared checks that people or models wrote badly, or with intent: each ends, and says why it failed."""

from __future__ import annotations

import pytest

from artelier.missions.definition import Check
from artelier.missions.task.evaluation import by_rule, pattern_problem
from artelier.missions.task.output_lint import Judged


def judged(text: str) -> list[Judged]:
    return [Judged(ref="files/a@1", media="text", text=text)]


def test_a_check_that_would_take_gigabytes_fails_with_the_reason() -> None:
    check = Check(kind="regex", pattern="((a{1000}){100}){100}")

    found = by_rule(check, judged("aaa"))

    assert not found.passed
    assert "at most 200000 parts" in found.found
    assert "at most 200000 parts" in str(pattern_problem(check.pattern))


@pytest.mark.parametrize("pattern", ["(a+)+b", "(?:a|a)*b", "a*a*a*a*a*a*b"])
def test_a_check_with_repeats_in_repeats_is_made(pattern: str) -> None:
    check = Check(kind="regex", pattern=pattern)

    assert by_rule(check, judged("a" * 50_000 + "!\nb")).found == (
        "found in files/a@1" if pattern != "(a+)+b" else "found in no output"
    )
    assert not by_rule(check, judged("a" * 50_000 + "!")).passed


def test_a_check_that_never_ends_fails_with_the_reason() -> None:
    check = Check(kind="regex", pattern=r"(?=(?:a+)+b|(a|b|ab)*c)\p{L}")

    assert by_rule(check, judged("a" * 100_000)).found == ("the pattern took too long over files/a@1")


def test_a_check_reads_lines_and_scripts_as_before() -> None:
    for pattern in (r"^\p{Lu}\w+$", r"^Second$", r"(?i)^second$", r"\bSecond\b(?!\.)"):
        assert by_rule(Check(kind="regex", pattern=pattern), judged("first line\nSecond\n")).passed
