"""The names of models, and the limits that the bundled table and our own families give for them.

A name is `<provider>:<model>`; every spelling has one canonical name. The import of `genai-prices` costs half
a second of CPU and happens on the first question; nothing is fetched.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from functools import lru_cache
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from genai_prices.types import ModelInfo, ModelPrice


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


def published_price(found: ModelInfo, *, at_us: int) -> ModelPrice:
    """The table's price at a moment (some start on a date, some depend on the hour)."""
    return found.get_prices(datetime.fromtimestamp(at_us / 1_000_000, tz=UTC))


# --------------------------------------------------------------------------- windows
# The number of tokens a model can read, and the number it should be allowed to write.


class Window(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of a model, in tokens."""

    context_tokens: int = 128_000
    """Prompt and answer together."""
    max_output_tokens: int = 16_384
    """The most that one call may write unless its caller says otherwise; reasoning counts too. A call that
    limits of money or tokens cannot pay for asks for less."""


class PartialWindow(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of a model as far as somebody says them; the rest is as published."""

    context_tokens: int | None = None
    max_output_tokens: int | None = None

    def over(self, window: Window) -> Window:
        """Return `window` with what is said here."""
        said = {name: value for name, value in msgspec.structs.asdict(self).items() if value is not None}
        return msgspec.structs.replace(window, **said)


DEFAULT_WINDOW = Window()

TABLE_DATE = "2026-11-24"
"""When the table below was compared with what providers publish."""

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
        if own is None and (prefix := _longest_prefix(name, self._overrides)) is not None:
            own = self._overrides[prefix]
        if isinstance(own, Window):
            return own
        published = _published_window(name)
        return published if own is None else own.over(published)


@lru_cache(maxsize=1024)
def _published_window(name: str) -> Window:
    prefix = _longest_prefix(name, _FAMILIES)
    family = _FAMILIES[prefix] if prefix is not None else DEFAULT_WINDOW
    # A server behind `ollama:` decides its own window, whatever the model could take elsewhere.
    if name in BUILT_IN or name.startswith("ollama:"):
        return family
    known = known_context_tokens(name)
    return msgspec.structs.replace(family, context_tokens=known) if known else family


def _longest_prefix(name: str, table: Mapping[str, object]) -> str | None:
    return max((key for key in table if name.startswith(key)), key=len, default=None)
