"""Replies of a hostile model or tool, by name, each with its decent twin. The served process makes them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from artelier.testing import tool_call

__all__ = ["REPLIES", "Reply", "result_of"]

MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Reply:
    """`first` is the answer to the prompt, `then` the one to tool results; `schema` what the run asks for.

    `delay_s` is how long each answer takes.
    """

    first: Callable[[], Any]
    then: Callable[[], Any] = lambda: "done"
    schema: Any = None
    delay_s: float = 0


def _deep(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


def _wide(count: int) -> dict[str, int]:
    return {f"key{number}": number for number in range(count)}


def _pattern(pattern: str) -> dict[str, Any]:
    """The schema of an object with one text that must match."""
    return {
        "type": "object",
        "required": ["code"],
        "properties": {"code": {"type": "string", "pattern": pattern}},
    }


def _calls(name: str, count: int = 1) -> Callable[[], Any]:
    return lambda: [tool_call("given", {"name": name}) for _ in range(count)]


_RESULTS: dict[str, Callable[[], Any]] = {
    "small": lambda: {"rows": [1, 2, 3]},
    "deep": lambda: _deep(900),
    "wide": lambda: _wide(200_000),
    "long": lambda: "word " * (4 * MIB),
    "cards": lambda: "4111 1111 1111 1112 " * 200_000,
    "integers": lambda: list(range(1_000_000)),
}


def result_of(name: str) -> Any:
    """Return a tool result by its name."""
    return _RESULTS[name]()


REPLIES: dict[str, Reply] = {
    "decent": Reply(lambda: "done"),
    "slow": Reply(lambda: "done", delay_s=10.0),
    "decent-schema": Reply(lambda: {"code": "aab"}, schema=_pattern("^a+b$")),
    "freeze": Reply(lambda: tool_call("freeze")),
    "decent-call": Reply(_calls("small")),
    "schema-nested": Reply(lambda: {"code": "a" * 64}, schema=_pattern("^(a+)+b$")),
    "schema-polynomial": Reply(lambda: {"code": "a" * 400}, schema=_pattern("^a*a*a*a*a*a*b$")),
    "schema-counted": Reply(lambda: {"code": "a" * 64}, schema=_pattern("((a{1000}){100}){100}")),
    "schema-wide": Reply(
        lambda: _wide(20_000), schema={"type": "object", "additionalProperties": {"type": "string"}}
    ),
    "long-reply": Reply(lambda: "word " * (2 * MIB)),
    "cards-reply": Reply(lambda: "4111 1111 1111 1112 " * 100_000),
    "many-calls": Reply(_calls("small", 2_000)),
    "deep-arguments": Reply(lambda: tool_call("given", {"name": "small", "more": _deep(500)})),
    "deep-result": Reply(_calls("deep")),
    "wide-result": Reply(_calls("wide")),
    "long-result": Reply(_calls("long")),
    "cards-result": Reply(_calls("cards")),
    "integers-result": Reply(_calls("integers")),
}
