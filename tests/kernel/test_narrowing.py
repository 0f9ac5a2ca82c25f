"""What a child may do is what both sides grant, and never more than its parent has."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from artelier.kernel.policy import is_granted, narrow


@pytest.mark.parametrize(
    ("parent", "child", "both"),
    [
        ({"tools:*"}, {"tools:a"}, {"tools:a"}),
        ({"tools:a", "tools:b"}, {"tools:*"}, {"tools:a", "tools:b"}),
        ({"tools:a*"}, {"tools:a?", "tools:b"}, {"tools:a?"}),
        ({"tools:a"}, {"artifacts:*"}, set[str]()),
        ({"tools:?"}, {"tools:*"}, {"tools:?"}),
        ({"tools:????"}, {"tools:[ab]"}, set[str]()),
        ({"tools:[!a]"}, {"tools:[!b]"}, set[str]()),
        ({"*"}, {"tools:[ab]"}, {"tools:[ab]"}),
        ({"tools:*", "models:cheap"}, {"tools:a"}, {"tools:a", "models:cheap"}),
        ({"models:cheap"}, {"models:*"}, {"models:cheap"}),
        ({"models:cheap"}, {"models:dear"}, {"models:"}),
        ({"tools:*"}, {"models:dear"}, {"models:dear"}),
    ],
)
def test_narrowing_gives_what_both_sides_grant(parent: set[str], child: set[str], both: set[str]) -> None:
    assert set(narrow(sorted(parent), sorted(child))) == both


texts = st.text("ab", max_size=4)
patterns = st.lists(st.text("ab*?", min_size=1, max_size=4), max_size=3)


@given(parent=patterns, child=patterns, name=texts)
def test_a_child_never_gains_a_grant(parent: list[str], child: list[str], name: str) -> None:
    if is_granted(narrow(parent, child), name):
        assert is_granted(parent, name)
        assert is_granted(child, name)
