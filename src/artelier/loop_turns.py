"""Turns at the event loop, for reads that are as long as somebody outside makes them.

Whatever asks the database holds the loop, so a loop around it is one turn of it. A long read is done piece by
piece, each within `loop_turn`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from weakref import WeakValueDictionary

from artelier.content_thread import content_owner

_turns = WeakValueDictionary[tuple[asyncio.AbstractEventLoop, str], asyncio.Lock]()
"""Of each owner of whom something is read; forgotten with the last who waits."""


@asynccontextmanager
async def loop_turn() -> AsyncGenerator[None]:
    """Do a piece of a long read: one at a time of each user, and everybody else comes between two of them.

    For a few milliseconds, and never within another turn. However many long reads a user asks for at once,
    they hold up others no longer than one.
    """
    turn = _turns.setdefault((asyncio.get_running_loop(), content_owner.get()), asyncio.Lock())
    async with turn:
        yield
        await asyncio.sleep(0)  # what does not wait would else be followed by the next in the same moment
