"""The bundled table of `genai-prices`: which model a name means, its window and its published prices.

The import costs half a second of CPU and happens on the first question. Nothing is fetched.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from artelier.tokens.names import split_name

if TYPE_CHECKING:
    from genai_prices.types import ModelInfo, ModelPrice

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


def published_price(found: ModelInfo, *, at_us: int) -> ModelPrice:
    """The table's price at a moment (some start on a date, some depend on the hour)."""
    return found.get_prices(datetime.fromtimestamp(at_us / 1_000_000, tz=UTC))
