"""The offline model: a `ModelPort` that answers by fixed rules from what tools return.

What it replies is a pure function of the request: no clock, no randomness, no files, no state. It never
guesses; what it does not fully understand is refused with `OfflineCannot` and a reason.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache

from artelier.clock import Clock, SystemClock
from artelier.errors import InvalidConfig
from artelier.models.offline.matching import TooMuchAtOnce
from artelier.models.offline.reply import reply_to
from artelier.ports.model import FREE, Delta, ModelReply, ModelRequest, Price

_PIECE_CHARS = 64
PACE_MAX_S = 60
THREADS_MAX = 2
"""Replies with schemas that make much work, at once; more wait, each for a bounded time."""


class OfflineModel:
    """The built-in deterministic stand-in for a language model.

    Needs the tools `describe_tables` and `query_sql` for tables, `list_dir` and `read_file` for texts, each
    offered natively or as a skill. Uses tools of memory and of other agents where a message asks for it.
    Errors: `OfflineCannot` with what is ambiguous, unsupported or not there.
    """

    price: Price | None = FREE

    def __init__(self, *, pace_s: float = 0.0, clock: Clock | None = None) -> None:
        """`pace_s`: seconds that each reply takes, for demonstrations; half of them before its first piece
        where it is streamed. What is replied stays the same. `clock` is what waits; the machine's by default.

        Errors: `InvalidConfig` for a pace below 0 or above a minute.
        """
        if not 0 <= pace_s <= PACE_MAX_S:
            raise InvalidConfig(
                "not a pace of the offline model", expected=f"0 to {PACE_MAX_S} seconds", got=repr(pace_s)
            )
        self._pace_s = pace_s
        self._clock: Clock = clock or SystemClock()

    async def complete(self, request: ModelRequest, /) -> ModelReply:
        reply = await _reply(request)
        await self._wait(self._pace_s)
        return reply

    async def stream(self, request: ModelRequest, /) -> AsyncIterator[Delta | ModelReply]:
        """The text in pieces, then the whole reply."""
        reply = await _reply(request)
        starts = range(0, len(reply.text), _PIECE_CHARS)
        await self._wait(self._pace_s / 2 if starts else self._pace_s)
        for start in starts:
            yield Delta(text=reply.text[start : start + _PIECE_CHARS])
            await self._wait(self._pace_s / 2 / len(starts))
        yield reply

    async def _wait(self, seconds: float) -> None:
        if seconds > 0:
            await self._clock.sleep(seconds)


async def _reply(request: ModelRequest) -> ModelReply:
    """The reply, from a thread where its schema makes much work."""
    try:
        return reply_to(request, quick=True)
    except TooMuchAtOnce:
        return await asyncio.get_running_loop().run_in_executor(_threads(), reply_to, request)


@cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(THREADS_MAX, thread_name_prefix="artelier-offline")
