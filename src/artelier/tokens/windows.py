"""The number of tokens a model can read, and the number it should be allowed to write."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

import msgspec

from artelier.tokens.names import BUILT_IN, canonical_name
from artelier.tokens.table import known_context_tokens


class Window(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of a model, in tokens."""

    context_tokens: int = 128_000
    """Prompt and answer together."""
    max_output_tokens: int = 1_024
    """What one call may write unless its caller says otherwise."""


DEFAULT_WINDOW = Window()

_CHAT = 4_096
_REASONING = 16_384
"""Reasoning tokens are billed and capped as output, so such models need more room to answer at all."""

# Families by longest prefix. Windows are the published ones of 2026; where a family grew, the smallest.
_FAMILIES: dict[str, Window] = {
    # Rules, not a network: it reads all it is given, and its longest report must not be cut.
    "offline": Window(context_tokens=1_000_000, max_output_tokens=8_192),
    "openai:gpt-3.5": Window(context_tokens=16_385, max_output_tokens=_CHAT),
    "openai:gpt-4": Window(context_tokens=8_192, max_output_tokens=1_024),
    "openai:gpt-4-turbo": Window(max_output_tokens=_CHAT),
    "openai:gpt-4o": Window(max_output_tokens=_CHAT),
    "openai:gpt-4.1": Window(context_tokens=1_000_000, max_output_tokens=_CHAT),
    "openai:gpt-4.5": Window(max_output_tokens=_CHAT),
    "openai:gpt-5": Window(context_tokens=400_000, max_output_tokens=_REASONING),
    "openai:gpt-5.3": Window(max_output_tokens=_REASONING),
    "openai:gpt-6": Window(context_tokens=1_000_000, max_output_tokens=_REASONING),
    "openai:gpt-oss": Window(max_output_tokens=_CHAT),
    "openai:o1": Window(context_tokens=200_000, max_output_tokens=_REASONING),
    "openai:o1-mini": Window(max_output_tokens=_REASONING),
    "openai:o1-preview": Window(max_output_tokens=_REASONING),
    "openai:o3": Window(context_tokens=200_000, max_output_tokens=_REASONING),
    "openai:o4": Window(context_tokens=200_000, max_output_tokens=_REASONING),
    "anthropic:claude": Window(context_tokens=200_000, max_output_tokens=_CHAT),
    "anthropic:claude-3-haiku": Window(context_tokens=200_000, max_output_tokens=2_048),
    "google:gemini": Window(context_tokens=1_000_000, max_output_tokens=8_192),
    "google:gemini-1.0": Window(context_tokens=32_000, max_output_tokens=2_048),
    "google:gemma": Window(context_tokens=128_000, max_output_tokens=_CHAT),
    "groq:": Window(context_tokens=128_000, max_output_tokens=_CHAT),
    "groq:mixtral-8x7b": Window(context_tokens=32_768, max_output_tokens=_CHAT),
    "groq:llama3-": Window(context_tokens=8_192, max_output_tokens=1_024),
    "mistral:": Window(context_tokens=128_000, max_output_tokens=_CHAT),
    "mistral:mixtral": Window(context_tokens=32_000, max_output_tokens=_CHAT),
    "mistral:mistral-small": Window(context_tokens=32_000, max_output_tokens=_CHAT),
    "deepseek:": Window(context_tokens=64_000, max_output_tokens=_CHAT),
    # Ollama cuts prompts silently at its own num_ctx, 4,096 unless configured.
    "ollama:": Window(context_tokens=4_096, max_output_tokens=1_024),
}


class Windows:
    """Windows by model name.

    Order: an override of the exact name, the longest override that is a prefix, the published window of
    the exact model, the longest family that is a prefix, `DEFAULT_WINDOW`.
    """

    def __init__(self, overrides: Mapping[str, Window] | None = None) -> None:
        self._overrides = {canonical_name(name): value for name, value in (overrides or {}).items()}

    def of(self, model: str) -> Window:
        name = canonical_name(model)
        if (exact := self._overrides.get(name)) is not None:
            return exact
        if (prefix := _longest_prefix(name, self._overrides)) is not None:
            return self._overrides[prefix]
        return _published_window(name)


@lru_cache(maxsize=1024)
def _published_window(name: str) -> Window:
    prefix = _longest_prefix(name, _FAMILIES)
    family = _FAMILIES[prefix] if prefix is not None else DEFAULT_WINDOW
    # A server behind `ollama:` decides its own window, whatever the model could take elsewhere.
    if name in BUILT_IN or name.startswith("ollama:"):
        return family
    known = known_context_tokens(name)
    return msgspec.structs.replace(family, context_tokens=known) if known else family


def _longest_prefix(name: str, table: Mapping[str, Window]) -> str | None:
    return max((key for key in table if name.startswith(key)), key=len, default=None)
