"""Differences between two model requests: the first one, and the prefix that they share.

A difference is named by the part of the prompt that holds it. Providers cache prefixes: what stands after
the first difference is read, and paid for, anew.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from artelier.kernel.events import PartRecord
from artelier.kernel.prompt.manifest import Manifest, comparable
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


class SharedPrefix(msgspec.Struct, frozen=True, kw_only=True):
    """The common beginning of two prompts."""

    shared_tokens: int
    """Estimate, of whole parts and messages."""
    previous_tokens: int
    """Of the earlier prompt without its tail."""
    broken_by: str | None = None
    """Tag of the part that ended the common prefix early; `tools`, `model` or `params` stand before all
    parts. None: the later prompt only goes on."""
    why: str = ""

    @property
    def ratio(self) -> float:
        """Shared tokens to those of the earlier prompt without its tail."""
        return self.shared_tokens / self.previous_tokens if self.previous_tokens else 1.0


def shared_prefix(earlier: Manifest, later: Manifest) -> SharedPrefix:
    """Compare two prompts by their manifests. Pure; no content is read."""
    old = [part for part in earlier.parts if not part.attach and part.stability != "volatile"]
    new = [part for part in later.parts if not part.attach and part.stability != "volatile"]
    total = sum(part.tokens for part in old)
    for name, why in (
        ("model", f"{earlier.model} -> {later.model}"),
        ("tools", "the list of tools changed"),
        ("output_schema", "the schema of the output changed"),
    ):
        if getattr(earlier, name) != getattr(later, name):
            return SharedPrefix(shared_tokens=0, previous_tokens=total, broken_by=name, why=why)
    shared = 0
    for index, part in enumerate(old):
        if index >= len(new):
            return SharedPrefix(
                shared_tokens=shared, previous_tokens=total, broken_by=part.tag, why="left out"
            )
        following = new[index]
        if _continues(part, following):
            shared += part.tokens
            continue
        return SharedPrefix(
            shared_tokens=shared,
            previous_tokens=total,
            broken_by=following.tag if following.tag != part.tag else part.tag,
            why=_why(part, following),
        )
    return SharedPrefix(shared_tokens=shared, previous_tokens=total)


def _continues(old: PartRecord, new: PartRecord) -> bool:
    """Return True if the later part begins with all of the earlier one."""
    if old.form or new.form:
        return old == new
    if old.conversation is not None:
        same = old.conversation == new.conversation and old.start == new.start
        return same and new.end >= old.end
    return old.blob is not None and (old.blob, old.joined) == (new.blob, new.joined)


def _why(old: PartRecord, new: PartRecord) -> str:
    if old.tag != new.tag:
        return f"{new.tag!r} stands where {old.tag!r} stood"
    if old.conversation is not None:
        if old.conversation != new.conversation:
            return "another conversation"
        return f"its messages begin at {new.start} instead of {old.start}"
    return "its text changed"
