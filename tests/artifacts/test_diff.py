"""Differences of contents that are made to be large: what is shown of them, and what it takes."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from artelier.artifacts import content
from artelier.artifacts.content import DIFF_CHARS_MAX, PATH_CHARS_MAX, Content, Diff, diff

NAMES = ("a@1", "a@2")
REST = f"(the rest is left out: a difference is shown up to {DIFF_CHARS_MAX:,} characters)"


def compared(before: Content, after: Content) -> tuple[Diff, int]:
    """A difference, and the most bytes that it took to find it."""
    tracemalloc.start()
    try:
        return diff(before, after, names=NAMES), tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_a_long_key_is_not_written_out_for_each_pair_below_it() -> None:
    """A key of 200 KB above 5,000 numbers took 2.4 GB."""
    key = "k" * 200_000
    found, took = compared({key: dict.fromkeys(map(str, range(5_000)), 0)}, {key: dict.fromkeys("12", 1)})

    assert took < 20_000_000
    assert all(len(one.path) <= PATH_CHARS_MAX + 3 for one in found.changes)
    assert len(found.text) < 1.1 * DIFF_CHARS_MAX and found.text.endswith(REST)


def test_a_value_that_is_too_large_is_left_out_of_the_difference() -> None:
    found, took = compared({"a": ["x" * 3_000_000], "b": 1}, {"a": {"c": "y" * 3_000_000}, "b": 2})

    assert took < 1_000_000
    assert [(one.path, one.op) for one in found.changes] == [("/a", "replace"), ("/b", "replace")]
    assert found.text == "~ /a: (too large to be shown) -> (too large to be shown)\n~ /b: 1 -> 2"


def test_of_more_changes_than_are_listed_the_difference_says_so() -> None:
    found, _ = compared([0] * 1_001, [1] * 1_001)

    assert len(found.changes) == 1_000
    assert found.text.endswith("~ /999: 0 -> 1\n(the rest is left out: 1,000 changes are shown)")


@pytest.mark.parametrize(
    ("before", "after"),
    [("word ab\n" * 1_500_000, "x"), ("a" * 12_000_000, "a" * 11_000_000 + "b"), ("x", "é\n" * 6_000_000)],
    ids=["lines", "one line", "added"],
)
def test_texts_are_made_into_lines_no_further_than_they_are_shown(before: str, after: str) -> None:
    """60 MB against one letter, asked for three times at once, killed a server."""
    found, took = compared(before, after)

    assert took < 120_000_000, "copies of the texts, and the lines that are shown"
    assert found.text.startswith("--- a@1\n+++ a@2\n@@ -1,")
    assert len(found.text) < 3.1 * DIFF_CHARS_MAX and found.text.endswith(REST)


def test_a_change_far_inside_a_large_text_is_shown_with_its_lines() -> None:
    lines = [f"line {number}" for number in range(1, 500_001)]
    before = "\n".join(lines)
    lines[400_000] += "!"
    found, _ = compared(before, "\n".join(lines))

    assert found.text.splitlines()[2:6] == [
        "@@ -399998,7 +399998,7 @@",
        " line 399998",
        " line 399999",
        " line 400000",
    ]
    assert found.text.splitlines()[6:8] == ["-line 400001", "+line 400001!"]
    assert found.text.endswith(" line 400004")


LINES = st.lists(st.sampled_from(["", "a", "b", "ab"]), max_size=12).map("\n".join)


@given(LINES, LINES, LINES, LINES, st.integers(0, 3))
def test_what_texts_have_in_common_changes_nothing_of_their_difference(
    head: str, before: str, after: str, tail: str, context: int
) -> None:
    """The matcher alone, over all lines, says the same."""
    old, new = f"{head}{before}{tail}", f"{head}{after}{tail}"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(content, "_clip", lambda one, two, context: (0, one, two))
        whole = content.line_diff(old, new, names=NAMES, context=context)
    assert content.line_diff(old, new, names=NAMES, context=context) == whole
