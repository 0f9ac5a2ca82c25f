"""The parameters of a call, what each may be, its name in `pydantic-ai`; and structured output as text."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from typing import Any, cast

import msgspec

from artelier.errors import InvalidRequest

TIMEOUT_S = 600.0
"""How long a call may take unless its parameters say otherwise; reasoning models need minutes."""


def _count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _flag(value: object) -> bool:
    return isinstance(value, bool)


def _stops(value: object) -> bool:
    return isinstance(value, str) or (
        isinstance(value, list | tuple) and all(isinstance(item, str) for item in cast(list[object], value))
    )


def _effort(value: object) -> bool:
    return isinstance(value, bool) or value in ("minimal", "low", "medium", "high", "xhigh")


def _choice(value: object) -> bool:
    return value in ("auto", "none", "required")


_KNOWN: dict[str, tuple[str, Callable[[object], bool], str]] = {
    "max_output_tokens": ("max_tokens", _count, "a whole number of at least 0"),
    "temperature": ("temperature", _number, "a number"),
    "top_p": ("top_p", _number, "a number"),
    "top_k": ("top_k", _count, "a whole number of at least 0"),
    "seed": ("seed", _count, "a whole number of at least 0"),
    "stop": ("stop_sequences", _stops, "a text or a list of texts"),
    "presence_penalty": ("presence_penalty", _number, "a number"),
    "frequency_penalty": ("frequency_penalty", _number, "a number"),
    "parallel_tool_calls": ("parallel_tool_calls", _flag, "true or false"),
    "tool_choice": ("tool_choice", _choice, "auto, none or required"),
    "thinking": ("thinking", _effort, "true, false, minimal, low, medium, high or xhigh"),
}

_TIMEOUTS = ("timeout_s", "timeout")


_SENT_AS: dict[str, tuple[str, ...]] = {
    "max_output_tokens": ("max_tokens", "max_completion_tokens", "maxOutputTokens", "num_predict"),
    "top_p": ("topP",),
    "top_k": ("topK",),
    "stop": ("stop_sequences", "stopSequences"),
    "presence_penalty": ("presencePenalty",),
    "frequency_penalty": ("frequencyPenalty",),
    "parallel_tool_calls": ("disable_parallel_tool_use",),
    "tool_choice": ("toolChoice", "toolConfig", "tool_config"),
    "thinking": ("reasoning", "reasoning_effort", "thinkingConfig", "output_config", "think"),
}
"""What providers call a parameter in the bodies of their requests, beside its own name."""

_SETTINGS_DEPTH = 3
"""How deep parameters stand in a body; messages and tools are not looked through."""

_CONTENT = frozenset(("messages", "input", "contents", "tools", "system", "response_format"))


def dropped_of(params: Mapping[str, Any], body: bytes) -> tuple[str, ...]:
    """Return the parameters of a request that its HTTP body does not hold: the adapter dropped them.

    A body that is no JSON object holds none. Timeouts are never sent.
    """
    try:
        sent = _names_in(json.loads(body), _SETTINGS_DEPTH)
    except (ValueError, RecursionError):
        sent = set[str]()
    return tuple(
        name
        for name, value in params.items()
        if value is not None and name not in _TIMEOUTS and sent.isdisjoint((name, *_SENT_AS.get(name, ())))
    )


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
    settings: dict[str, Any] = {"timeout": timeout_s_of(params), "max_retries": 0}
    for name, value in params.items():
        if value is None or name in _TIMEOUTS:
            continue
        if name not in _KNOWN:
            raise InvalidRequest(
                "unknown model parameter", expected=", ".join((*_KNOWN, _TIMEOUTS[0])), got=repr(name)[:80]
            )
        vendor_name, is_valid, expected = _KNOWN[name]
        if not is_valid(value):
            raise InvalidRequest(
                f"model parameter {name!r} has a wrong value", expected=expected, got=repr(value)[:80]
            )
        if name == "stop":
            value = [value] if isinstance(value, str) else list(cast(list[str], value))
        settings[vendor_name] = value
    return settings


def timeout_s_of(params: Mapping[str, Any]) -> float:
    """Seconds a call may take in all, connecting and reading included."""
    value = next((params[name] for name in _TIMEOUTS if params.get(name) is not None), TIMEOUT_S)
    if not _number(value) or value <= 0:
        raise InvalidRequest(
            "model parameter 'timeout_s' has a wrong value",
            expected="a number of seconds above 0",
            got=repr(value)[:80],
        )
    return float(value)


_FENCE = re.compile(r"\A\s*```[A-Za-z0-9_-]*\s*\n(.*?)\n?\s*```\s*\Z", re.DOTALL)


def parse_output(text: str) -> Any:
    """The JSON value of a reply that should be JSON, or None if it is none.

    One Markdown fence around the whole text is taken off, since models add it unasked. Whether the
    value fits a schema is the caller's question; that None and JSON `null` look alike is harmless,
    as no structured output is `null`.
    """
    fenced = _FENCE.match(text)
    body = fenced.group(1) if fenced else text
    try:
        return msgspec.json.decode(body.encode())
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return None


def parse_arguments(text: str) -> Any:
    """Arguments of a tool call: parsed JSON, `{}` for nothing, or the raw text if broken."""
    if not text.strip():
        return {}
    try:
        return msgspec.json.decode(text.encode())
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return text


def output_text(value: Any) -> str:
    """Compact JSON of a structured output, keys in the order given."""
    return msgspec.json.encode(value).decode()
