"""Models as tables know them: their names, their limits, their prices, and the price of a call.

A name is `<provider>:<model>`; every spelling has one canonical name. The import of `genai-prices` costs half
a second of CPU and happens on the first question; nothing is fetched.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from decimal import Context, Decimal, localcontext
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import msgspec

from artelier.clock import Clock, SystemClock
from artelier.errors import InvalidConfig
from artelier.money import MICRO, ceil_micro
from artelier.ports.model import FREE, Price, Usage
from artelier.ports.model_params import TIERS

if TYPE_CHECKING:
    from genai_prices.types import ModelInfo, ModelPrice


# --------------------------------------------------------------------------- model info
# The names of models, and the limits that the bundled table and our own families give for them.
#
# A name is `<provider>:<model>`; every spelling has one canonical name. The import of `genai-prices` costs
# half a second of CPU and happens on the first question; nothing is fetched.

BUILT_IN: frozenset[str] = frozenset(("offline", "scripted", "recorded"))
"""Models that come with Artelier, need no provider and have bare names."""

DEFAULT_PROVIDER = "openai"
"""The provider of a bare name such as `gpt-4o-mini`."""


def canonical_name(model: str) -> str:
    """`<provider>:<model>`, or the bare name of a built-in; a bare name means `openai:`.

    The provider is case-insensitive, the model is not; white space around both is dropped.
    """
    name = model.strip()
    provider, colon, rest = name.partition(":")
    if not colon:
        return name.lower() if name.lower() in BUILT_IN else f"{DEFAULT_PROVIDER}:{name}"
    return f"{provider.strip().lower()}:{rest.strip()}"


_SAME_API = re.compile(r"\Aopenai-(?:chat|responses):")


def published_name(model: str) -> str:
    """Return the canonical name under which a provider publishes a model, whichever API is asked for it."""
    return _SAME_API.sub("openai:", canonical_name(model))


def split_name(model: str) -> tuple[str, str]:
    """The provider and the model of a name; a built-in is its own provider with an empty model."""
    provider, _, rest = canonical_name(model).partition(":")
    return provider, rest


# --------------------------------------------------------------------------- table
# The bundled table of `genai-prices`: which model a name means, its window and its published prices.
# The import costs half a second of CPU and happens on the first question. Nothing is fetched.


_NAME_CHARS_MAX = 200
"""Longer names are unknown: they are matched against hundreds of patterns."""

_PROVIDER_IDS = {"openai-chat": "openai", "openai-responses": "openai", "xai": "x-ai"}
"""Where our provider differs from the table's; others are found by the table's own rules."""


def find_model(model: str) -> ModelInfo | None:
    """The table's entry for a model name, or None."""
    provider, rest = split_name(model)
    if not rest or len(rest) > _NAME_CHARS_MAX:
        return None
    from genai_prices.data_snapshot import get_snapshot

    try:
        _, found = get_snapshot().find_provider_model(rest, None, _PROVIDER_IDS.get(provider, provider), None)
    except LookupError:
        return None
    return found


def known_context_tokens(model: str) -> int | None:
    found = find_model(model)
    return found.context_window if found is not None else None


# --------------------------------------------------------------------------- windows
# The number of tokens a model can read, and the number it should be allowed to write.


PROMPT_TOKENS_MIN = 256
"""Room for a prompt, however long an answer is asked for."""


class Window(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of a model, in tokens."""

    context_tokens: int = 128_000
    """Prompt and answer together."""
    max_output_tokens: int = 16_384
    """The most that one call may write unless its caller says otherwise; reasoning counts too. A call that
    limits of money or tokens cannot pay for asks for less."""
    is_assumed: bool = False
    """True if nobody says how much the model can write: a cut answer is then asked for once more."""

    def prompt_tokens_max(self, max_output_tokens: int | None) -> int:
        """Return the room for a prompt beside an answer of `max_output_tokens`, or of the usual length."""
        return max(PROMPT_TOKENS_MIN, self.context_tokens - (max_output_tokens or self.max_output_tokens))


class PartialWindow(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of a model as far as somebody says them; the rest is as published."""

    context_tokens: int | None = None
    max_output_tokens: int | None = None

    def over(self, window: Window) -> Window:
        """Return `window` with what is said here."""
        said = {name: value for name, value in msgspec.structs.asdict(self).items() if value is not None}
        if self.max_output_tokens is not None:
            said["is_assumed"] = False
        return msgspec.structs.replace(window, **said)


DEFAULT_WINDOW = Window(is_assumed=True)
"""Of a model that no table knows."""

# Compared with what providers publish on 2026-11-24.
# Families by longest prefix; where a family grew, the smallest. A limit of output near the window stands
# here with a quarter of that, since prompts leave room for the answer.
_FAMILIES: dict[str, Window] = {
    # Rules, not a network: it reads all it is given, and its longest report must not be cut.
    "offline": Window(context_tokens=1_000_000, max_output_tokens=8_192),
    "openai:gpt-3.5": Window(context_tokens=16_385, max_output_tokens=4_096),
    "openai:gpt-4": Window(context_tokens=8_192, max_output_tokens=2_048),
    "openai:gpt-4-turbo": Window(max_output_tokens=4_096),
    "openai:gpt-4o": Window(max_output_tokens=16_384),
    "openai:gpt-4.1": Window(context_tokens=1_000_000, max_output_tokens=32_768),
    "openai:gpt-4.5": Window(max_output_tokens=16_384),
    "openai:gpt-5": Window(context_tokens=400_000, max_output_tokens=65_536),
    "openai:gpt-5.3": Window(max_output_tokens=32_768),
    "openai:gpt-6": Window(context_tokens=1_000_000, max_output_tokens=131_072),
    "openai:gpt-oss": Window(max_output_tokens=32_768),
    "openai:o1": Window(context_tokens=200_000, max_output_tokens=32_768),
    "openai:o1-mini": Window(max_output_tokens=32_768),
    "openai:o1-preview": Window(max_output_tokens=32_768),
    "openai:o3": Window(context_tokens=200_000, max_output_tokens=32_768),
    "openai:o4": Window(context_tokens=200_000, max_output_tokens=32_768),
    "anthropic:claude": Window(context_tokens=200_000, max_output_tokens=32_768),
    "anthropic:claude-3": Window(context_tokens=200_000, max_output_tokens=4_096),
    "anthropic:claude-3-5": Window(context_tokens=200_000, max_output_tokens=8_192),
    "anthropic:claude-3-7": Window(context_tokens=200_000, max_output_tokens=32_768),
    "google:gemini": Window(context_tokens=1_000_000, max_output_tokens=65_536),
    "google:gemini-1.0": Window(context_tokens=32_000, max_output_tokens=2_048),
    "google:gemini-1.5": Window(context_tokens=1_000_000, max_output_tokens=8_192),
    "google:gemini-2.0": Window(context_tokens=1_000_000, max_output_tokens=8_192),
    "google:gemma": Window(context_tokens=128_000, max_output_tokens=8_192),
    "groq:": Window(context_tokens=128_000, max_output_tokens=8_192),
    "groq:mixtral-8x7b": Window(context_tokens=32_768, max_output_tokens=8_192),
    "groq:llama3-": Window(context_tokens=8_192, max_output_tokens=2_048),
    "mistral:": Window(context_tokens=128_000, max_output_tokens=16_384),
    "mistral:mixtral": Window(context_tokens=32_000, max_output_tokens=8_192),
    "mistral:mistral-small": Window(context_tokens=32_000, max_output_tokens=8_192),
    "deepseek:": Window(context_tokens=64_000, max_output_tokens=8_192),
    # Ollama cuts prompts silently at its own num_ctx, 4,096 unless configured.
    "ollama:": Window(context_tokens=4_096, max_output_tokens=1_024),
}


class Windows:
    """Windows by model name.

    Order: an override of the exact name, the longest override that is a prefix, the published window of
    the exact model, the longest family that is a prefix, `DEFAULT_WINDOW`.
    """

    def __init__(self, overrides: Mapping[str, Window | PartialWindow] | None = None) -> None:
        self._overrides = {canonical_name(name): value for name, value in (overrides or {}).items()}

    def of(self, model: str) -> Window:
        name = canonical_name(model)
        own = self._overrides.get(name)
        if own is None and (prefix := longest_prefix(name, self._overrides)) is not None:
            own = self._overrides[prefix]
        if isinstance(own, Window):
            return own
        published = _published_window(name)
        return published if own is None else own.over(published)


@lru_cache(maxsize=1024)
def _published_window(name: str) -> Window:
    prefix = longest_prefix(name, _FAMILIES)
    family = _FAMILIES[prefix] if prefix is not None else DEFAULT_WINDOW
    # A server behind `ollama:` decides its own window, whatever the model could take elsewhere.
    if name in BUILT_IN or name.startswith("ollama:"):
        return family
    known = known_context_tokens(name)
    return msgspec.structs.replace(family, context_tokens=known) if known else family


def longest_prefix(name: str, table: Mapping[str, object]) -> str | None:
    """Return the longest key that a name begins with; None if it begins with none."""
    return max((key for key in table if name.startswith(key)), key=len, default=None)


# --------------------------------------------------------------------------- prices
# The price of a call: its upper bound, and its actual cost. An unknown price is None, never zero.

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

    `overrides` is keyed by model name (`openai:gpt-4o-mini`, `gpt-4o-mini`, `offline`), by one with a service
    tier (`openai:gpt-5@priority`), or by a provider with its colon (`ollama:`) for all its models.

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
        if name.rpartition("@")[2] in TIERS:  # of a service tier, which no table publishes
            return None
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
            return _price_from(
                found.get_prices(datetime.fromtimestamp(moment_us / 1_000_000, tz=UTC)), found.id
            )
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
    return TieredPrice(tiers=tiers, **msgspec.structs.asdict(_highest(rates for _, rates in tiers)))


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


def _highest(prices: Iterable[Price]) -> Price:
    every = list(prices)
    written = [price.input if price.cache_write is None else price.cache_write for price in every]
    return Price(
        input=max(price.input for price in every),
        cached_input=max(
            price.input if price.cached_input is None else price.cached_input for price in every
        ),
        cache_write=max(written),
        cache_write_long=max(
            rate if price.cache_write_long is None else price.cache_write_long
            for rate, price in zip(written, every, strict=True)
        ),
        output=max(price.output for price in every),
        request=max(price.request for price in every),
    )
