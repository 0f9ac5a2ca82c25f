"""The records of prompts' parts, of messages and of sent requests, as the events of prompts hold them."""

from __future__ import annotations

import msgspec

from artelier.ledger import Moving
from artelier.log import BlobRef


class PartRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One part of a prompt in its manifest: stored content, or a range of a conversation."""

    tag: str
    blob: BlobRef | None = None
    """Canonical JSON list of messages (or the text of an `attach` or `joined` part)."""
    conversation: str | None = None
    start: int = 0
    end: int = 0
    """Numbers of the first and last message, inclusive, from 1."""
    tokens: int = 0
    """Estimate."""
    stability: str = "append_only"
    src: tuple[str, ...] = ()
    attach: bool = False
    """Appended to the last message instead of standing as one."""
    detached: bool = False
    """Of an `attach` part: its text is a piece of its own at the end of the last message, so that the rest of
    that message is the same in the next prompt. Prompts of 0.1 have none such: text joined text."""
    joined: bool = False
    """Appended to the message just before it instead of standing as one; `blob` is its text."""
    trust: str = "trusted"
    cut: str = ""
    """How it was shortened to fit: `start`, `end`, `middle` or empty."""
    form: str = ""
    """How the messages of a range are quoted as one (`manifest.py`); empty if they stand as themselves.
    Then `blob` is a summary that stands before them, as a JSON string."""
    line_tokens_max: int = 0
    """Of one message that is quoted."""


class DroppedRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A part that was left out, and why."""

    tag: str
    why: str
    tokens: int = 0


class MessageEntry(msgspec.Struct, frozen=True, array_like=True, omit_defaults=True):
    """A new message of a conversation, by reference to what is already recorded."""

    form: str
    """`m`: a stored message; `r`: the reply of a model step; `t`: the result of a tool step; `b`, only as
    the first one of a conversation: this message and all before it are those of another conversation."""
    ref: str
    """A blob reference for `m`, for `b` the run whose stream has the message, a step key otherwise."""
    call: str = ""
    """For `t`: the id of the call that it answers. For `b`: the conversation of that run."""


NUMBER_MAX = 1 << 53
"""Of a message: what JSON carries."""


class Added(msgspec.Struct, frozen=True, array_like=True, omit_defaults=True):
    """Messages that a conversation got since the run's previous request."""

    conversation: str
    start: int
    """Number of the first one."""
    entries: tuple[MessageEntry, ...] = ()


class Sent(Moving, frozen=True, kw_only=True, omit_defaults=True):
    """The end of a model call, with what its adapter has sent."""

    adapter: str = ""
    """Name and version of the adapter that sent the request; empty if it does not say."""
    body: str = ""
    """Keyed hash of the HTTP body that was sent, media by their references; empty if none was."""
    not_sent: tuple[str, ...] = ()
    """Parameters of the request that the body does not hold, since the provider takes none such."""
