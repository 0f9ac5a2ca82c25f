"""Untrusted text between delimiters, where it reads as data, and conversations quoted in that way.

A summariser is shown messages as numbered, bounded text. A manifest names the messages and the form, not
the text; so a prompt that quotes a conversation takes no room in the log, and renders as long as the form
stays what it is. A change of wording is a new form.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from artelier.errors import CorruptStore
from artelier.ports.model import ChatMessage
from artelier.tokens.estimate import cut

_MARK = re.compile(r"<(?=/?\s*data\b)", re.IGNORECASE)

UNTRUSTED_MARK = 'trust="untrusted">'
"""How the mark before text ends that nobody vouches for."""


def is_untrusted(message: ChatMessage, *, is_labelled: bool = False) -> bool:
    """Return True for a message that nobody vouches for.

    That is a tool's result, or a text that shows something of that kind between marks.
    `is_labelled`: whoever made the message says how far its text is trusted.
    """
    is_marked = not is_labelled and message.role == "user" and UNTRUSTED_MARK in message.text
    return message.role == "tool" or is_marked


def fence(text: str, *, source: str, trust: str = "untrusted") -> str:
    """The text between `<data>` marks. A mark inside the text is made harmless; nothing else changes."""
    inside = _MARK.sub("&lt;", text)
    name = re.sub(r"[^A-Za-z0-9._:/@#-]+", " ", source)[:120]
    label = re.sub(r"[^a-z0-9_:-]+", "", trust.lower())[:40] or "untrusted"
    return f'<data source="{name}" trust="{label}">\n{inside}\n</data>'


def balance_fences(text: str) -> str:
    """The text with its fences whole again, after something was cut out of it."""
    begun, ended = text.count("<data "), text.count("</data>")
    if begun > ended:
        return f"{text}\n</data>"
    if ended > begun:
        return f'<data trust="untrusted">\n{text}'
    return text


TRANSCRIPT = "transcript-1"
"""Form of a quoted range: one line a message, such as `[12] user: ...`."""

_encode = msgspec.json.Encoder(order="sorted", decimal_format="string").encode


class Quote(msgspec.Struct, frozen=True, kw_only=True):
    """The settings for quoting a range of a conversation."""

    source: str
    line_tokens_max: int
    told: str = ""
    """A summary of what came before, put in front."""
    form: str = TRANSCRIPT


def lines(messages: Sequence[ChatMessage], *, first: int, tokens_each: int) -> list[str]:
    """One text per message, such as `[12] user: ...`; each within `tokens_each`.

    `first` is the number of the first message.
    """
    return [
        cut(_line(message, first + offset), tokens=tokens_each, where="middle")
        for offset, message in enumerate(messages)
    ]


def _line(message: ChatMessage, number: int) -> str:
    if message.role == "assistant" and message.tool_calls:
        calls = ", ".join(f"{call.name}({_encode(call.arguments).decode()})" for call in message.tool_calls)
        said = f"{message.text}\n" if message.text else ""
        return f"[{number}] assistant: {said}calls {calls}"
    return f"[{number}] {message.role}: {message.text}"


def quote_messages(messages: Sequence[ChatMessage], *, first: int, quote: Quote) -> ChatMessage:
    """The message that quotes these. Errors: `CorruptStore` for a form that this version does not know."""
    if quote.form != TRANSCRIPT:
        raise CorruptStore(
            "messages are quoted in a form of another version",
            expected=TRANSCRIPT,
            got=quote.form,
            hint="Update artelier.",
        )
    text = "\n".join(lines(messages, first=first, tokens_each=quote.line_tokens_max))
    if quote.told:
        text = f"Summary of what came before:\n{quote.told}\n\nThen:\n{text}"
    return ChatMessage(role="user", content=fence(text, source=quote.source))
