"""Where two requests to a model differ first, named by the part of the prompt that it stands in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from artelier.kernel.manifest import canonical
from artelier.ports.model import ChatMessage, ModelRequest

FIELDS = ("model", "params", "tools", "output_schema")


def difference(
    left: ModelRequest, right: ModelRequest, parts: Sequence[tuple[str, int]]
) -> tuple[str, str, str] | None:
    """`(section, left, right)`, or None if they are equal.

    `parts`: tag and number of messages of each part of the left prompt, in order.
    """
    for name in FIELDS:
        old, new = getattr(left, name), getattr(right, name)
        if old != new:
            return name, _text(old), _text(new)
    for index in range(max(len(left.messages), len(right.messages))):
        old, new = _nth(left.messages, index), _nth(right.messages, index)
        if old != new:
            return f"{_tag(parts, index)}, message {index + 1}", _shown(old), _shown(new)
    return None


def _tag(parts: Sequence[tuple[str, int]], index: int) -> str:
    """The part that a message of the left prompt stands in; beyond its end, the last one."""
    tag = "messages"
    for name, count in parts:
        if not count:
            continue
        tag = name
        if index < count:
            return tag
        index -= count
    return tag


def _nth(messages: tuple[ChatMessage, ...], index: int) -> ChatMessage | None:
    return messages[index] if index < len(messages) else None


def _text(value: Any) -> str:
    return canonical(value).decode()


def _shown(message: ChatMessage | None) -> str:
    if message is None:
        return "no message"
    calls = f" and {len(message.tool_calls)} tool calls" if message.tool_calls else ""
    return f"{message.role}: {message.text}{calls}"
