"""The offline model: a `ModelPort` that answers by fixed rules from what tools return.

It is a pure function of the request: no clock, no randomness, no files, no state. It never guesses; what
it does not fully understand is refused with `OfflineCannot` and a reason.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

from artelier.models.offline.reply import reply_to
from artelier.ports.model import FREE, Delta, ModelReply, ModelRequest, Price

_PIECE_CHARS = 64


class OfflineModel:
    """The built-in deterministic stand-in for a language model.

    Needs the tools `describe_tables` and `query_sql` for tables, `list_dir` and `read_file` for texts, each
    offered natively or as a skill. Uses tools of memory and of other agents where a message asks for it.
    Errors: `OfflineCannot` with what is ambiguous, unsupported or not there.
    """

    price: Price | None = FREE

    async def complete(self, request: ModelRequest, /) -> ModelReply:
        return reply_to(request)

    async def stream(self, request: ModelRequest, /) -> AsyncIterator[Delta | ModelReply]:
        """The text in pieces, then the whole reply."""
        reply = reply_to(request)
        for start in range(0, len(reply.text), _PIECE_CHARS):
            yield Delta(text=reply.text[start : start + _PIECE_CHARS])
        yield reply
