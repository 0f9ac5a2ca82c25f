"""The first difference between two model requests, named by the part of the prompt that holds it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from artelier.kernel.prompt.manifest import comparable
from artelier.ports.model import ChatMessage, ModelRequest

FIELDS = ("model", "params", "tools", "output_schema")


class Shape(NamedTuple):
    """The contribution of one part to a prompt."""

    tag: str
    own: int
    """Number of its own messages."""
    text: str
    """Of the last one of them, or what it adds to the one before."""
    joined: bool = False

    @classmethod
    def of(cls, tag: str, content: tuple[ChatMessage, ...] | str, *, joined: bool) -> Shape:
        if isinstance(content, str):
            return cls(tag, 0, content, joined)
        return cls(tag, len(content), content[-1].text if content else "")


def joined_tag(shapes: Sequence[Shape], old: ChatMessage, new: ChatMessage) -> str:
    """The part whose text differs first in two messages, the older of which is of these parts, in order."""
    end = 0
    for index, shape in enumerate(shapes):
        end += len(shape.text) + (2 if end and index else 0)
        # The blank line after a text belongs to it, so that a longer text is seen where it grew.
        upto = end + 2 if end and index < len(shapes) - 1 else end
        if old.role != new.role or old.text[:upto] != new.text[:upto]:
            return shape.tag
    return shapes[-1].tag


def with_joined(shapes: Sequence[Shape], index: int) -> Sequence[Shape]:
    """A part, and those that join its last message."""
    end = index + 1
    while end < len(shapes) and shapes[end].joined:
        end += 1
    return shapes[index:end]


def difference(
    left: ModelRequest, right: ModelRequest, parts: Sequence[Shape]
) -> tuple[str, str, str] | None:
    """`(section, left, right)`, or None if they are equal.

    `parts`: those of the left prompt, in order.
    """
    for name in FIELDS:
        old, new = getattr(left, name), getattr(right, name)
        if old != new:
            return name, _text(old), _text(new)
    for index in range(max(len(left.messages), len(right.messages))):
        old, new = _nth(left.messages, index), _nth(right.messages, index)
        if old != new:
            return (
                f"{_tag(parts, index, old, new)}, message {index + 1}",
                _format_message(old),
                _format_message(new),
            )
    return None


def _tag(parts: Sequence[Shape], index: int, old: ChatMessage | None, new: ChatMessage | None) -> str:
    """The part that a message of the left prompt stands in; beyond its end, the last one."""
    tag = "messages"
    for number, part in enumerate(parts):
        if not part.own:
            continue
        tag = part.tag
        if index < part.own:
            if index == part.own - 1 and old is not None and new is not None:
                return joined_tag(with_joined(parts, number), old, new)
            return tag
        index -= part.own
    return tag


def _nth(messages: tuple[ChatMessage, ...], index: int) -> ChatMessage | None:
    return messages[index] if index < len(messages) else None


def _text(value: Any) -> str:
    return comparable(value).decode()


def _format_message(message: ChatMessage | None) -> str:
    if message is None:
        return "no message"
    calls = f" and {len(message.tool_calls)} tool calls" if message.tool_calls else ""
    return f"{message.role}: {message.text}{calls}"
