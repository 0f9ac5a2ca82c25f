"""Signs of life in a stream of which nothing else comes: proxies close what is silent."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing

from artelier.clock import Clock
from artelier.server.live.hub import BEAT, HEARTBEAT_S

LOOK_S = 1
"""How often a silent stream looks whether the server ends."""


async def beating(
    frames: AsyncGenerator[bytes], clock: Clock, *, is_over: Callable[[], bool]
) -> AsyncGenerator[bytes]:
    """The frames, and a comment whenever none came for `HEARTBEAT_S`; the end when `is_over`."""
    async with aclosing(frames):
        ahead = asyncio.ensure_future(anext(frames, b""))
        silent_s = 0
        try:
            while not is_over():
                look = asyncio.ensure_future(clock.sleep(LOOK_S))
                await asyncio.wait((ahead, look), return_when=asyncio.FIRST_COMPLETED)
                look.cancel()
                if not ahead.done():
                    silent_s += LOOK_S
                    if silent_s >= HEARTBEAT_S:
                        silent_s = 0
                        yield BEAT
                    continue
                if not (frame := ahead.result()):
                    return
                silent_s = 0
                yield frame
                ahead = asyncio.ensure_future(anext(frames, b""))
        finally:
            ahead.cancel()
            await asyncio.gather(ahead, return_exceptions=True)
