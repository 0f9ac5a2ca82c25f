"""Estimates are cheap and near, bounds are true, and calibration follows what was billed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from artelier.tokens.estimate import FRAMING_TOKENS, Calibration, estimate_tokens, upper_bound_tokens


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


def test_an_unseen_model_is_estimated_at_four_characters_per_token():
    assert Calibration().estimate("m", 401) == 101


def test_calibration_learns_the_ratio_of_each_model():
    calibration = Calibration()
    for _ in range(10):
        calibration.observe("dense", 1_000, 500)
        calibration.observe("sparse", 1_000, 200)

    assert calibration.estimate("dense", 1_000) == 500
    assert calibration.estimate("sparse", 1_000) == 200


def test_calibration_follows_a_change():
    calibration = Calibration()
    for _ in range(200):
        calibration.observe("m", 1_000, 250)
    for _ in range(200):
        calibration.observe("m", 1_000, 500)

    assert 480 <= calibration.estimate("m", 1_000) <= 500


@pytest.mark.parametrize(("chars", "tokens"), [(0, 5), (-1, 5), (10, 0), (10, -4), (10, 10**9)])
def test_impossible_counts_teach_nothing(chars: int, tokens: int):
    calibration = Calibration()

    calibration.observe("m", chars, tokens)

    assert calibration.estimate("m", 400) == 100
    assert calibration.estimate("m", chars) >= 0


def test_calibration_keeps_a_bounded_number_of_models():
    calibration = Calibration()
    for number in range(3_000):
        calibration.observe(f"m{number}", 100, 100)

    assert calibration.estimate("m2999", 100) == 100
    assert calibration.estimate("m0", 100) == 25
