"""Working memory is shown within its limit, and its facts are what conditions may ask for."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from artelier.world.mind_artifacts import memory_facts, memory_text

CONTENT = {
    "goal": "Earn 200 scrip.",
    "progress": {"sold": 2},
    "objectives": ["sell a tool", "buy a prompt"],
    "lessons": ["old lesson", "new\n lesson"],
    "facts": {"has_design": True},
    "internal": "not shown",
}


def test_the_parts_are_shown_in_order_newest_lessons_first() -> None:
    text, is_cut = memory_text(CONTENT)

    assert text == (
        'Goal: Earn 200 scrip.\nProgress: {"sold": 2}\n'
        "Objectives:\n- sell a tool\n- buy a prompt\nLessons:\n- new lesson\n- old lesson"
    )
    assert not is_cut


def test_too_much_is_cut_within_two_thousand_bytes() -> None:
    text, is_cut = memory_text({"goal": "Earn.", "lessons": ["ü" * 100] * 40})

    assert is_cut
    assert 1_990 < len(text.encode()) <= 2_000
    assert text.startswith("Goal: Earn.\nLessons:\n- üü")
    assert text.endswith(" bytes in all]")


@pytest.mark.parametrize("content", [None, 7, [], {}, {"goal": ""}, {"goal": None, "lessons": []}])
def test_nothing_to_remember_is_no_text(content: Any) -> None:
    assert memory_text(content) == ("", False)
    assert memory_facts(content) == {}


def test_plain_text_is_shown_as_it_is() -> None:
    assert memory_text("  {goal}: stay\n").text == "{goal}: stay"


def test_facts_are_those_under_facts() -> None:
    assert memory_facts(CONTENT) == {"has_design": True}
    assert memory_facts({"facts": ["has_design"]}) == {}
    assert len(memory_facts({"facts": {f"k{n}": n for n in range(500)}})) == 200


json_values = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(max_size=30),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=10,
)


@given(
    st.dictionaries(st.sampled_from(["goal", "progress", "lessons", "objectives", "facts"]), json_values),
    st.integers(40, 120),
)
def test_any_content_fits_into_the_limit(content: dict[str, Any], limit: int) -> None:
    text, _ = memory_text(content, limit_bytes=limit)

    assert len(text.encode()) <= limit
    assert isinstance(memory_facts(content), dict)
