"""Costs are exact and never above what was reserved; an unknown price is None."""

from __future__ import annotations

import warnings
from decimal import ROUND_CEILING, Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from artelier.errors import InvalidConfig
from artelier.ports.model import FREE, Price, Usage
from artelier.tokens.model_info import (
    ModelPrices,
    TieredPrice,
    cost_microusd,
    find_model,
    upper_bound_microusd,
)

MINI = Price(input=Decimal("0.15"), cached_input=Decimal("0.075"), output=Decimal("0.6"))


def price(model: str, **options: Any) -> Price:
    found = ModelPrices().price_of(model, **options)
    assert found is not None
    return found


@pytest.mark.parametrize("name", ["gpt-4o-mini", "openai:gpt-4o-mini", " OpenAI:gpt-4o-mini "])
def test_a_bare_name_means_openai(name: str):
    assert price(name) == MINI


@pytest.mark.parametrize(
    "name",
    [
        "openai:no-such-model",
        "nobody:gpt-4o-mini",
        "ollama:llama3.2",
        "openai:" + "x" * 10_000,
        "openai:",
        "",
        ":",
        "openai:gpt-4o-mini\x00; drop",
        "openai:tts-1",
    ],
)
def test_an_unknown_price_is_none_and_never_zero(name: str):
    assert ModelPrices().price_of(name) is None


def test_built_in_models_are_free():
    assert ModelPrices().price_of("offline") == FREE


def test_overrides_win_by_model_and_by_provider():
    mine = Price(input=Decimal(9))
    prices = ModelPrices({"gpt-4o-mini": mine, "ollama:": FREE, "offline": MINI})

    assert prices.price_of("openai:gpt-4o-mini") == mine
    assert prices.price_of("openai:gpt-4o") != mine
    assert prices.price_of("ollama:llama3.2") == FREE
    assert prices.price_of("offline") == MINI


@pytest.mark.parametrize("bad", ["-1", "NaN", "Infinity"])
def test_a_price_that_is_none_is_refused_when_it_is_set(bad: str):
    with pytest.raises(InvalidConfig, match="price of output"):
        Price(output=Decimal(bad))


def test_an_override_that_is_no_price_is_refused():
    with pytest.raises(InvalidConfig, match="'gpt-4o' is not a price"):
        ModelPrices({"gpt-4o": 0.15})  # pyright: ignore[reportArgumentType] - on purpose


def test_cost_rounds_up_once_and_bills_cached_tokens_at_their_price():
    usage = Usage(input_tokens=1_210, cached_input_tokens=1_000, output_tokens=64)

    # 210 * 0.15 + 1000 * 0.075 + 64 * 0.6 = 144.9 micro-dollars
    assert cost_microusd(MINI, usage) == 145


def test_cached_tokens_cost_as_fresh_ones_when_no_cached_price_is_known():
    usage = Usage(input_tokens=10, cached_input_tokens=10)

    assert cost_microusd(Price(input=Decimal(2)), usage) == 20


def test_a_price_per_request_is_added():
    assert cost_microusd(Price(request=Decimal("0.005")), Usage()) == 5_000


def test_nonsense_counts_never_earn_money():
    assert cost_microusd(MINI, Usage(input_tokens=-5, output_tokens=-5)) == 0
    assert cost_microusd(MINI, Usage(input_tokens=10, cached_input_tokens=-99)) == 2


def test_parts_beyond_the_whole_are_billed_as_claimed():
    rates = Price(input=Decimal(1), cached_input=Decimal("0.5"), cache_write=Decimal(2))

    assert cost_microusd(rates, Usage(input_tokens=1, cached_input_tokens=100)) == 50
    assert cost_microusd(rates, Usage(input_tokens=1, cache_write_input_tokens=100)) == 200


def test_the_tier_of_the_whole_prompt_holds_for_the_whole_call():
    sonnet = price("anthropic:claude-sonnet-4-5")

    assert isinstance(sonnet, TieredPrice)
    assert cost_microusd(sonnet, Usage(input_tokens=200_000)) == 600_000
    assert cost_microusd(sonnet, Usage(input_tokens=200_001, output_tokens=10)) == 1_200_231


def test_the_rates_shown_by_a_tiered_price_are_the_highest():
    sonnet = price("anthropic:claude-sonnet-4-5")

    assert (sonnet.input, sonnet.output) == (Decimal(6), Decimal("22.5"))


def test_the_bound_of_a_small_prompt_stays_in_its_tier():
    sonnet = price("anthropic:claude-sonnet-4-5")

    small = upper_bound_microusd(sonnet, input_tokens_max=1_000, max_output_tokens=100)
    large = upper_bound_microusd(sonnet, input_tokens_max=300_000, max_output_tokens=100)

    # Every input token may be one that is written to a cache, at 1.25 times its price.
    assert small == 1_000 * 3.75 + 100 * 15
    assert large == 300_000 * 7.5 + 100 * 22.5


def test_cache_writes_are_billed_at_their_price():
    usage = Usage(input_tokens=1_000, cached_input_tokens=400, cache_write_input_tokens=500)
    rates = Price(input=Decimal(2), cached_input=Decimal(1), cache_write=Decimal(4))

    assert cost_microusd(rates, usage) == 100 * 2 + 400 * 1 + 500 * 4


def test_a_price_that_depends_on_the_hour_is_taken_at_the_moment_of_the_call():
    day_us = 86_400 * 1_000_000
    noon_us, night_us = 20_000 * day_us + day_us // 2, 20_000 * day_us + day_us * 20 // 24

    assert price("deepseek:deepseek-chat", at_us=noon_us) != price("deepseek:deepseek-chat", at_us=night_us)


def _table() -> dict[str, tuple[Any, Price]]:
    """Every model of the table that is priced by text tokens alone: its prices, and ours."""
    from genai_prices.data_snapshot import get_snapshot

    prices, rows = ModelPrices(), {}
    for provider in get_snapshot().providers:
        for model in provider.models:
            name = f"{provider.id}:{model.id}"
            if isinstance(model.prices, list) or find_model(name) is not model:
                continue
            keys = {key for key, value in model.prices.__dict__.items() if value is not None}
            known = prices.price_of(name)
            if keys <= TEXT_KEYS and known is not None:
                rows[name] = (model.prices, known)
    return rows


TEXT_KEYS = {"input_mtok", "output_mtok", "cache_read_mtok", "requests_kcount"}
TABLE = _table()
COUNTS = st.integers(0, 3_000_000)


@given(data=st.data(), input_tokens=COUNTS, output_tokens=COUNTS, share=st.floats(0, 1))
def test_cost_agrees_with_the_table_and_stays_within_the_bound(
    data: st.DataObject, input_tokens: int, output_tokens: int, share: float
):
    """Against the table's own calculator, for every model priced by text tokens."""
    from genai_prices.types import Usage as TableUsage

    theirs, known = data.draw(st.sampled_from(sorted(TABLE)).map(TABLE.__getitem__))
    cached_tokens = int(input_tokens * share)
    usage = Usage(input_tokens=input_tokens, cached_input_tokens=cached_tokens, output_tokens=output_tokens)

    cost = cost_microusd(known, usage)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        table = theirs.calc_price(
            TableUsage(
                input_tokens=input_tokens, cache_read_tokens=cached_tokens, output_tokens=output_tokens
            )
        )
    exact = table["total_price"] * 1_000_000
    assert cost == int(exact.to_integral_value(rounding=ROUND_CEILING))
    assert cost <= upper_bound_microusd(known, input_tokens_max=input_tokens, max_output_tokens=output_tokens)


def test_the_table_has_enough_models_for_the_property_to_mean_something():
    assert len(TABLE) > 300
    assert any(isinstance(known, TieredPrice) for _, known in TABLE.values())
