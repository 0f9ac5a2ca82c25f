"""The bill of the last prompt says what the next one will cost."""

from __future__ import annotations

from random import Random

import msgspec

from artelier.context import Estimator


def test_before_the_first_reply_the_plain_estimate_stands() -> None:
    assert Estimator().tokens(1000) == 1000


def test_after_the_first_reply_a_growing_prompt_is_known_within_three_percent() -> None:
    rng = Random(5)
    estimate, raw, worst = Estimator(), 900, 0.0
    for turn in range(200):
        billed = int(180 + raw * 1.21)
        if turn:
            worst = max(worst, abs(estimate.tokens(raw) - billed) / billed)
        estimate = estimate.learn_from_bill(raw=raw, billed=billed)
        raw += rng.randrange(30, 700)
        if raw > 12_000:
            raw = 3_000

    assert worst < 0.03


def test_after_a_compaction_old_text_is_known_to_have_cost_what_it_cost() -> None:
    """Text of another script at the end must not say what the text cost that a compaction takes away."""
    estimate, raw, billed = Estimator(), 1_000, 1_000
    estimate = estimate.learn_from_bill(raw=raw, billed=billed)
    for ratio in [1] * 20 + [3] * 2:
        raw, billed = raw + 500, billed + 500 * ratio
        estimate = estimate.learn_from_bill(raw=raw, billed=billed)

    told = estimate.tokens(2_000)

    assert 2_000 <= told <= 2_400
    assert abs(estimate.raw_budget(told) - 2_000) <= 2


def test_a_bill_that_cannot_be_true_teaches_nothing() -> None:
    known = Estimator().learn_from_bill(raw=1000, billed=1200)

    for raw, billed in ((0, 5), (1000, 0), (1000, 10**9), (1000, -4), (-1, 100)):
        assert known.learn_from_bill(raw=raw, billed=billed) == known


def test_the_budget_is_the_inverse_of_the_estimate() -> None:
    estimate = Estimator().learn_from_bill(raw=1000, billed=1300).learn_from_bill(raw=2000, billed=2500)

    for tokens in (500, 2500, 9000):
        raw = estimate.raw_budget(tokens)
        assert abs(estimate.tokens(raw) - tokens) <= 2


def test_its_numbers_survive_being_stored() -> None:
    estimate = Estimator().learn_from_bill(raw=1000, billed=1300)

    assert msgspec.json.decode(msgspec.json.encode(estimate), type=Estimator) == estimate
