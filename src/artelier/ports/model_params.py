"""The parameters of a model call: their names, their values, and how a command line spells them.

They are checked where a call is asked for, before anything is spent. Which of them a provider takes is its
adapter's knowledge; what it drops stands in `model.completed`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, cast

import msgspec

from artelier.errors import InvalidRequest

EXTRA_BYTES_MAX = 64 * 1024
"""Of `extra`, as JSON: routing and samplers of a server, never content."""

STOPS_MAX = 16
"""Texts that end an answer; OpenAI takes four, Google five, Groq four."""

EFFORTS = ("minimal", "low", "medium", "high", "xhigh", "max")
TIERS = ("auto", "default", "flex", "priority")

OWNED: frozenset[str] = frozenset(
    (
        # What a manifest records and a hold pays for: one body may not say it twice.
        *("model", "models", "messages", "input", "contents", "prompt", "system", "instructions"),
        *("tools", "tool_choice", "toolConfig", "tool_config", "functions", "response_format", "text"),
        *("max_tokens", "max_completion_tokens", "max_output_tokens", "maxOutputTokens", "num_predict"),
        *("generationConfig", "generation_config", "n", "best_of", "candidate_count", "candidateCount"),
        # What costs more than tokens, or keeps the conversation where no erasure reaches it.
        *("service_tier", "serviceTier", "web_search_options", "plugins", "mcp_servers", "container"),
        *("store", "background", "previous_response_id", "conversation", "cachedContent"),
        *("stream", "stream_options", "stream_id", "type"),
    )
)
"""Keys of a provider's body that `extra` may not set."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rule:
    """The values that a parameter may have."""

    expected: str
    is_valid: Callable[[object], bool]


def _count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 63


def _number(low: float, high: float) -> Callable[[object], bool]:
    def is_valid(value: object) -> bool:
        if not isinstance(value, int | float) or isinstance(value, bool):
            return False
        return math.isfinite(value) and low <= value <= high

    return is_valid


def _stops(value: object) -> bool:
    listed = cast("list[object]", [value] if isinstance(value, str) else value)
    if not isinstance(cast(object, listed), list | tuple) or len(listed) > STOPS_MAX:
        return False
    return all(isinstance(one, str) and one for one in listed)


def _flag(value: object) -> bool:
    return isinstance(value, bool)


def _one_of(*names: str) -> Callable[[object], bool]:
    return lambda value: isinstance(value, str) and value in names


def _extra(value: object) -> bool:
    if not isinstance(value, Mapping):
        return False
    try:
        return len(msgspec.json.encode(value)) <= EXTRA_BYTES_MAX
    except (TypeError, ValueError, msgspec.MsgspecError, RecursionError):
        return False


def _number_rule(low: float, high: float) -> _Rule:
    return _Rule(expected=f"a number from {low:g} to {high:g}", is_valid=_number(low, high))


_COUNT = _Rule(expected="a whole number of at least 0", is_valid=_count)

PARAMS: Mapping[str, _Rule] = {
    "max_output_tokens": _COUNT,
    "temperature": _number_rule(0, 5),
    "top_p": _number_rule(0, 1),
    "top_k": _COUNT,
    "min_p": _number_rule(0, 1),
    "presence_penalty": _number_rule(-2, 2),
    "frequency_penalty": _number_rule(-2, 2),
    "seed": _COUNT,
    "stop": _Rule(expected=f"a text, or a list of 1 to {STOPS_MAX} texts", is_valid=_stops),
    "thinking": _Rule(
        expected=f"true, false, {', '.join(EFFORTS)}",
        is_valid=lambda value: isinstance(value, bool) or _one_of(*EFFORTS)(value),
    ),
    "verbosity": _Rule(expected="low, medium or high", is_valid=_one_of("low", "medium", "high")),
    "service_tier": _Rule(expected=", ".join(TIERS), is_valid=_one_of(*TIERS)),
    "parallel_tool_calls": _Rule(expected="true or false", is_valid=_flag),
    "tool_choice": _Rule(expected="auto, none or required", is_valid=_one_of("auto", "none", "required")),
    "timeout_s": _Rule(
        expected="a number of seconds above 0", is_valid=lambda value: _number(0, 1e6)(value) and value != 0
    ),
    "extra": _Rule(expected=f"an object of JSON with at most {EXTRA_BYTES_MAX} bytes", is_valid=_extra),
}
"""Every parameter that a call may have."""

_OLD_NAMES = {"timeout": "timeout_s"}
"""Deprecated names, which recorded requests hold."""


def check_params(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters that are given; None counts as not given.

    Errors: `InvalidRequest` for a name that no parameter has, a value of a wrong type, and a key of `extra`
    that is Artelier's to set; its fact `param` is the name.
    """
    given = {name: value for name, value in params.items() if value is not None}
    for name, value in given.items():
        rule = PARAMS.get(_OLD_NAMES.get(name, name))
        if rule is None:
            near = get_close_matches(name[:80], PARAMS, n=1)
            raise InvalidRequest(
                "unknown model parameter",
                expected=", ".join(PARAMS),
                got=repr(name)[:80],
                hint=f"Did you mean {near[0]!r}?"
                if near
                else 'What only one provider knows goes into extra={"name": value}.',
                param=name[:80],
            )
        if not rule.is_valid(value):
            raise InvalidRequest(
                f"model parameter {name!r} has a wrong value",
                expected=rule.expected,
                got=repr(value)[:80],
                param=name,
            )
    _check_extra(given.get("extra"))
    return given


def _check_extra(extra: Mapping[object, object] | None) -> None:
    for name in extra or ():
        if not isinstance(name, str) or not name or name in OWNED:
            raise InvalidRequest(
                f"extra may not set {str(name)[:80]!r}",
                expected="a parameter that only this provider knows",
                hint="What is sent, how much is written and what it costs is recorded, and paid for in"
                " advance: use the parameter of step_model.",
                param=str(name)[:80],
            )


def parse_params(given: Iterable[str], *, option: str = "--param") -> dict[str, Any]:
    """Return the parameters that `NAME=VALUE` texts say: a value is JSON, or else a text as it stands.

    `stop=END` is the text END, `stop=["a", "b"]` a list, `extra.NAME=VALUE` one key of `extra`.
    Errors: `InvalidRequest`, as of `check_params`; for a text without `=`, and a name that comes twice.
    """
    params: dict[str, Any] = {}
    for one in given:
        name, equals, text = one.partition("=")
        name = name.strip()
        if not equals or not name:
            raise InvalidRequest(
                f"{option} is no parameter", expected="NAME=VALUE, such as temperature=0.2", got=one[:80]
            )
        into, key = params, name
        if name.startswith("extra."):
            into, key = params.setdefault("extra", {}), name.removeprefix("extra.")
        if not isinstance(cast(object, into), dict) or key in into:
            raise InvalidRequest(
                f"{option} says {name[:80]!r} twice", expected="each name once", got=one[:80]
            )
        into[key] = _value_of(name, text)
    return check_params(params)


def _value_of(name: str, text: str) -> object:
    if name == "stop" and not text.lstrip().startswith("["):
        return text
    try:
        return msgspec.json.decode(text.encode())
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return text.strip()
