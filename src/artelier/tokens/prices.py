"""The price of a call: its upper bound, and its actual cost. An unknown price is None, never zero."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Context, Decimal, localcontext
from typing import TYPE_CHECKING, Any

from artelier.clock import Clock, SystemClock
from artelier.errors import InvalidConfig
from artelier.money import MICRO, ceil_micro
from artelier.ports.model import FREE, Price, Usage
from artelier.tokens.model_info import BUILT_IN, canonical_name, find_model, published_price, split_name

if TYPE_CHECKING:
    from genai_prices.types import ModelInfo, ModelPrice

_EXACT = Context(prec=60)
"""Wide enough that no product of a price and a token count is ever rounded."""


class TieredPrice(Price, frozen=True, kw_only=True):
    """A price that rises with the size of the prompt.

    The inherited rates are the highest of all tiers, so whoever reads only those never pays short.
    """

    tiers: tuple[tuple[int, Price], ...]
    """`(start, rates)` ascending: the last one whose start lies below the input tokens holds for
    the whole call. The first start is -1."""

    def rates(self, input_tokens: int) -> Price:
        return next(rates for start, rates in reversed(self.tiers) if input_tokens > start)


class ModelPrices:
    """Prices by model name: the tenant's own first, then the bundled table.

    `overrides` is keyed by model name (`openai:gpt-4o-mini`, `gpt-4o-mini`, `offline`) or by a provider
    with its colon (`ollama:`) for all its models.

    Errors: `InvalidConfig` for an override that is no price.
    """

    def __init__(self, overrides: Mapping[str, Price] | None = None, *, clock: Clock | None = None) -> None:
        self._overrides = {_key(name): _check_price(name, p) for name, p in (overrides or {}).items()}
        self._clock = clock or SystemClock()
        self._found: dict[str, ModelInfo | None] = {}
        self._constant: dict[str, Price | None] = {}

    def price_of(self, model: str, *, at_us: int | None = None) -> Price | None:
        """The price of a call made at `at_us` (default: now); None if nobody knows it."""
        name = canonical_name(model)
        provider, _ = split_name(name)
        for key in (name, f"{provider}:"):
            if (override := self._overrides.get(key)) is not None:
                return override
        if name in BUILT_IN:
            return FREE
        if name in self._constant:
            return self._constant[name]
        return self._look_up(name, at_us=at_us)

    def _look_up(self, name: str, *, at_us: int | None) -> Price | None:
        found = self._found.get(name) or find_model(name)
        if found is None:
            _remember(self._constant, name, None)
            return None
        published = found.prices
        if isinstance(published, list):  # depends on the date or the hour
            _remember(self._found, name, found)
            moment_us = self._clock.now_us() if at_us is None else at_us
            return _price_from(published_price(found, at_us=moment_us), found.id)
        price = _price_from(published, found.id)
        _remember(self._constant, name, price)
        return price


def cost_microusd(price: Price, usage: Usage) -> int:
    """Micro-dollars of one call, exact and rounded up once.

    `usage.input_tokens` includes the cached ones, which are billed at the cached price, and those
    written to a cache, which have a price of their own. Parts beyond the whole are billed as claimed.
    """
    input_tokens = usage.prompt_tokens
    rates = price.rates(input_tokens) if isinstance(price, TieredPrice) else price
    output_tokens = max(0, usage.output_tokens)
    cached_tokens = max(0, usage.cached_input_tokens)
    written_tokens = max(0, usage.cache_write_input_tokens)
    long_tokens = min(max(0, usage.cache_write_long_input_tokens), written_tokens)
    cached_rate = rates.input if rates.cached_input is None else rates.cached_input
    written_rate = rates.input if rates.cache_write is None else rates.cache_write
    long_rate = written_rate if rates.cache_write_long is None else rates.cache_write_long
    with localcontext(_EXACT):
        # USD per million tokens is micro-dollars per token.
        return ceil_micro(
            rates.input * (input_tokens - cached_tokens - written_tokens)
            + cached_rate * cached_tokens
            + written_rate * (written_tokens - long_tokens)
            + long_rate * long_tokens
            + rates.output * output_tokens
            + rates.request * MICRO
        )


def upper_bound_microusd(price: Price, *, input_tokens_max: int, max_output_tokens: int) -> int:
    """Micro-dollars that no call within both maxima exceeds: the dearest tier that it can reach."""
    if isinstance(price, TieredPrice):
        reachable = [rates for start, rates in price.tiers if max(0, input_tokens_max) > start]
    else:
        reachable = [price]
    return max(
        cost_microusd(
            Price(
                input=max(rates.input, rates.cached_input or Decimal(0), rates.cache_write or Decimal(0)),
                output=rates.output,
                request=rates.request,
            ),
            Usage(input_tokens=input_tokens_max, output_tokens=max_output_tokens),
        )
        for rates in reachable
    )


def _key(name: str) -> str:
    return name.strip().lower() if name.strip().endswith(":") else canonical_name(name)


def _check_price(name: str, price: object) -> Price:
    if not isinstance(price, Price):  # one that is has looked at its amounts
        raise InvalidConfig(f"the price of {name!r} is not a price", expected="a Price", got=repr(price)[:80])
    return price


def _remember(cache: dict[str, Any], name: str, value: object) -> None:
    # Names may come from a model's own wishes: bounded, oldest out.
    if len(cache) >= 1024:
        del cache[next(iter(cache))]
    cache[name] = value


def _price_from(published: ModelPrice, model_id: str) -> Price | None:
    """Our price of a published one; None if it does not price text in and text out."""
    from genai_prices.types import TieredPrices

    outputs = [published.output_mtok, published.output_reasoning_mtok]
    if published.input_mtok is None:
        return None
    if published.output_mtok is None and "embed" not in model_id:
        return None
    everything = [
        published.input_mtok,
        published.cache_read_mtok,
        published.cache_write_mtok,
        published.cache_write_1h_mtok,
        *outputs,
        published.requests_kcount,
    ]
    starts = sorted({tier.start for p in everything if isinstance(p, TieredPrices) for tier in p.tiers})
    tiers = tuple((start, _rates(published, start)) for start in (-1, *starts))
    if len(tiers) == 1:
        return tiers[0][1]
    return TieredPrice(tiers=tiers, **_highest(rates for _, rates in tiers))


def _rates(published: ModelPrice, start: int) -> Price:
    """The rates of prompts just above `start` tokens."""
    from genai_prices.types import TieredPrices

    def rate(value: object) -> Decimal | None:
        if isinstance(value, TieredPrices):
            reached = [tier.price for tier in value.tiers if tier.start <= start]
            return reached[-1] if reached else value.base
        return value if isinstance(value, Decimal) else None

    outputs = [rate(published.output_mtok), rate(published.output_reasoning_mtok)]
    return Price(
        input=rate(published.input_mtok) or Decimal(0),
        cached_input=rate(published.cache_read_mtok),
        cache_write=rate(published.cache_write_mtok),
        cache_write_long=rate(published.cache_write_1h_mtok),
        output=max(out or Decimal(0) for out in outputs),
        request=(rate(published.requests_kcount) or Decimal(0)) / 1000,
    )


def _highest(prices: Iterable[Price]) -> dict[str, Any]:
    every = list(prices)
    written = [price.input if price.cache_write is None else price.cache_write for price in every]
    return {
        "input": max(price.input for price in every),
        "cached_input": max(
            price.input if price.cached_input is None else price.cached_input for price in every
        ),
        "cache_write": max(written),
        "cache_write_long": max(
            rate if price.cache_write_long is None else price.cache_write_long
            for rate, price in zip(written, every, strict=True)
        ),
        "output": max(price.output for price in every),
        "request": max(price.request for price in every),
    }
