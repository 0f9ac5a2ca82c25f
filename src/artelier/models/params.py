"""The parameters of a call in the terms of `pydantic-ai` and of bodies; and structured output as text."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, cast

import msgspec

from artelier.ports.model_params import check_params

TIMEOUT_S = 600.0
"""How long a call may take unless its parameters say otherwise; reasoning models need minutes."""


_VENDOR_NAMES: dict[str, str] = {
    "max_output_tokens": "max_tokens",
    "temperature": "temperature",
    "top_p": "top_p",
    "top_k": "top_k",
    "seed": "seed",
    "stop": "stop_sequences",
    "presence_penalty": "presence_penalty",
    "frequency_penalty": "frequency_penalty",
    "parallel_tool_calls": "parallel_tool_calls",
    "tool_choice": "tool_choice",
    "thinking": "thinking",
    "service_tier": "service_tier",
    "verbosity": "openai_text_verbosity",
    "extra": "extra_body",
}
"""Our name of a parameter to its name in `pydantic-ai`. `min_p` has none there."""

_TIMEOUTS = ("timeout_s", "timeout")
"""The second is a deprecated name."""


_SENT_AS: dict[str, tuple[str, ...]] = {
    "max_output_tokens": ("max_tokens", "max_completion_tokens", "maxOutputTokens", "num_predict"),
    "top_p": ("topP",),
    "top_k": ("topK",),
    "stop": ("stop_sequences", "stopSequences"),
    "presence_penalty": ("presencePenalty",),
    "frequency_penalty": ("frequencyPenalty",),
    "parallel_tool_calls": ("disable_parallel_tool_use",),
    "tool_choice": ("toolChoice", "toolConfig", "tool_config"),
    "seed": ("random_seed",),
    "service_tier": ("serviceTier",),
    "thinking": ("reasoning", "reasoning_effort", "thinkingConfig", "effort", "think"),
}
"""What providers call a parameter in the bodies of their requests, beside its own name."""

_SETTINGS_DEPTH = 3
"""How deep parameters stand in a body; messages and tools are not looked through."""

_CONTENT = frozenset(("messages", "input", "contents", "tools", "system", "response_format"))


def dropped_of(params: Mapping[str, Any], body: bytes) -> tuple[str, ...]:
    """Return the parameters of a request that its HTTP body does not hold: the adapter dropped them.

    A body that is no JSON object holds none. Timeouts are never sent. Of `extra`, each key is named.
    """
    try:
        sent = _names_in(json.loads(body), _SETTINGS_DEPTH)
    except (ValueError, RecursionError):
        sent = set[str]()
    given = [
        name for name, value in params.items() if value is not None and name not in (*_TIMEOUTS, "extra")
    ]
    lost = [name for name in given if sent.isdisjoint((name, *_SENT_AS.get(name, ())))]
    return (*lost, *(f"extra.{name}" for name in params.get("extra") or () if name not in sent))


def _names_in(value: object, depth: int) -> set[str]:
    if not isinstance(value, dict) or not depth:
        return set()
    found: set[str] = set()
    for name, inner in cast("dict[str, Any]", value).items():
        found.add(name)
        if name not in _CONTENT:
            found |= _names_in(inner, depth - 1)
    return found


def settings_of(params: Mapping[str, Any]) -> dict[str, Any]:
    """Vendor settings of `params`; a value of None counts as not given.

    Errors: `InvalidRequest` for a parameter that nobody knows, or of the wrong type.
    """
    given = check_params(params)
    settings: dict[str, Any] = {"timeout": timeout_s_of(given), "max_retries": 0}
    for name, vendor_name in _VENDOR_NAMES.items():
        if (value := given.get(name)) is not None:
            settings[vendor_name] = value
    if isinstance(stop := settings.get("stop_sequences"), str):
        settings["stop_sequences"] = [stop]
    return settings


def timeout_s_of(params: Mapping[str, Any]) -> float:
    """Seconds a call may take in all, connecting and reading included."""
    return float(next((params[name] for name in _TIMEOUTS if params.get(name) is not None), TIMEOUT_S))


_FENCE = "```"
_FENCE_HEAD = re.compile(rf"{_FENCE}[A-Za-z0-9_-]*\s*")


def parse_output(text: str) -> object:
    """The JSON value of a reply that should be JSON, or None if it is none.

    One Markdown fence around the whole text is taken off, since models add it unasked. Whether the
    value fits a schema is the caller's question; that None and JSON `null` look alike is harmless,
    as no structured output is `null`.
    """
    try:
        return msgspec.json.decode(_without_fence(text).encode())
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return None


def _without_fence(text: str) -> str:
    # One pattern for all of it tries each space of a reply as the last one.
    head, _, body = text.strip().partition("\n")
    if not body.endswith(_FENCE) or not _FENCE_HEAD.fullmatch(head):
        return text
    return body.removesuffix(_FENCE).strip()


def parse_arguments(text: str) -> object:
    """Arguments of a tool call: parsed JSON, `{}` for nothing, or the raw text if broken."""
    if not text.strip():
        return {}
    try:
        return msgspec.json.decode(text.encode())
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return text


def output_text(value: object) -> str:
    """Compact JSON of a structured output, keys in the order given."""
    return msgspec.json.encode(value).decode()
