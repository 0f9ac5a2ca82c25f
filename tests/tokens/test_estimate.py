"""Estimates are cheap and near, bounds are true."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from artelier.tokens.estimate import FRAMING_TOKENS, estimate_tokens, upper_bound_tokens


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("", 0),
        ("a", 1),
        ("a" * 400, 100),
        ("договор", 5),
        ("東京都港区", 5),
        ("🦀🦀", 3),
        (b"a" * 400, 100),
        ("東京都港区".encode(), 5),
        (b"\xff\xfe broken", 3),
        ("\ud800 lone surrogate", 5),
    ],
)
def test_estimates_follow_the_script_of_the_text(text: str | bytes, tokens: int):
    assert abs(estimate_tokens(text) - tokens) <= 1


@given(st.text())
def test_text_and_its_bytes_have_one_estimate_below_the_bound(text: str):
    data = text.encode("utf-8", "replace")

    assert estimate_tokens(text) == estimate_tokens(data) or "\ud7ff" < max(text, default="")
    assert estimate_tokens(text) <= upper_bound_tokens(len(data))


def test_the_bound_is_a_token_per_byte_and_what_providers_add():
    assert upper_bound_tokens(100) == 100 + FRAMING_TOKENS
    assert upper_bound_tokens(100, framing_tokens=0) == 100
    assert upper_bound_tokens(-1, framing_tokens=0) == 0
