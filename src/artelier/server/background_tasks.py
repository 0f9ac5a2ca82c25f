"""Work that goes on after its request was answered: turns of chats, ticks of worlds.

An errand holds no state of its own: its effects are in the log, and one that is cut off when the server ends
leaves runs that can be resumed. The errands are kept here so that they can be listed, and stopped with the
server.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any

from fastapi import FastAPI

from artelier.errors import ArtelierError, Conflict, Flow, QueueFull

logger = logging.getLogger("artelier.server")

AT_ONCE_MAX = 64
"""Errands of one server (guess: far more than two cores serve)."""
ENDED_MAX = 256
"""Failures that are remembered."""

Key = tuple[str, ...]


@dataclass(slots=True)
class Errand:
    """One of them, while it is on its way."""

    task: asyncio.Task[None]
    about: Any = None
    """What whoever sent it wants to be told of it."""


@dataclass(slots=True)
class Errands:
    """The errands of one app, by subject: `("turn", tenant, run id)`."""

    _at_work: dict[Key, Errand] = field(default_factory=dict[Key, Errand])
    _failed: dict[Key, ArtelierError] = field(default_factory=dict[Key, ArtelierError])

    def start(self, key: Key, work: Coroutine[Any, Any, Any], *, about: Any = None) -> Errand:
        """Let it run. Errors: `Conflict` if one about the same is on its way; `QueueFull`."""
        if key in self._at_work or len(self._at_work) >= AT_ONCE_MAX:
            work.close()
            if key in self._at_work:
                raise Conflict(f"{key[0]} {key[-1]} is being worked on already")
            raise QueueFull("the server has its hands full", hint="Try again in a moment.")
        self._failed.pop(key, None)
        errand = Errand(asyncio.get_running_loop().create_task(self._run(key, work)), about)
        self._at_work[key] = errand
        errand.task.add_done_callback(lambda _: self._at_work.pop(key, None))
        return errand

    async def _run(self, key: Key, work: Coroutine[Any, Any, Any]) -> None:
        try:
            await work
        except Flow:
            pass  # it waits for somebody: its run says so
        except ArtelierError as error:
            logger.warning("%s: %s", " ".join(key), error)
            if len(self._failed) >= ENDED_MAX:
                del self._failed[next(iter(self._failed))]
            self._failed[key] = error

    def at_work(self, key: Key) -> Errand | None:
        return self._at_work.get(key)

    def failure(self, key: Key) -> ArtelierError | None:
        """Return why the last one about this ended before its time; None if it did not."""
        return self._failed.get(key)

    async def close(self) -> None:
        tasks = [one.task for one in self._at_work.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def errands_of(app: FastAPI) -> Errands:
    """The errands of an app."""
    found = getattr(app.state, "errands", None)
    if found is None:
        found = app.state.errands = Errands()
    return found
