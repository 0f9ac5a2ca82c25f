"""Messages of a conversation quoted as text, for a summariser: numbered, bounded, fenced as data.

A manifest names the messages and the form, not the text; so a prompt that quotes a conversation takes no room
in the log, and renders as long as the form stays what it is. A change of wording is a new form.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from artelier.errors import CorruptStore
from artelier.kernel.prompt.delimiters import fence
from artelier.ports.model import ChatMessage
from artelier.tokens.estimate import cut

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
