"""What goes on after its request was answered: turns of chats, ticks of worlds.

An errand holds no truth: what it does is in the log, and one that is cut off by the end of the server leaves
runs that can be resumed. It is kept here so that it can be looked at, and stopped with the server.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

from fastapi import FastAPI

from artelier.errors import ArtelierError, Conflict, Flow, QueueFull

logger = logging.getLogger("artelier.server")

AT_ONCE_MAX = 64
"""Errands of one server (guess: far more than two cores serve)."""
ENDED_MAX = 256
"""Failures that are remembered, to be shown once."""

Key = tuple[str, ...]


@dataclass(slots=True)
class Errand:
    """One of them, while it is on its way."""

    task: asyncio.Task[Any]
    asked: int = 0
    """How often it is to do its thing; 0 if that is not counted."""
    done: int = 0


@dataclass(slots=True)
class Errands:
    """Those of one app, by what they are about: `("turn", tenant, run id)`."""

    _at_work: dict[Key, Errand] = field(default_factory=dict[Key, Errand])
    _failed: dict[Key, ArtelierError] = field(default_factory=dict[Key, ArtelierError])
    _keepsakes: dict[Key, Any] = field(default_factory=dict[Key, Any])
    _partings: list[Callable[[], Awaitable[None]]] = field(
        default_factory=list[Callable[[], Awaitable[None]]]
    )

    def start(self, key: Key, work: Coroutine[Any, Any, Any], *, asked: int = 0) -> Errand:
        """Let it run. Errors: `Conflict` if one about the same is on its way; `QueueFull`."""
        if key in self._at_work or len(self._at_work) >= AT_ONCE_MAX:
            work.close()
            if key in self._at_work:
                raise Conflict(f"{' '.join(key[::2])} is being worked on already")
            raise QueueFull("the server has its hands full", hint="Try again in a moment.")
        self._failed.pop(key, None)
        errand = Errand(asyncio.get_running_loop().create_task(self._run(key, work)), asked)
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
        """Why the last one about this ended before its time."""
        return self._failed.get(key)

    def keep(self, key: Key, make: Callable[[], Any]) -> Any:
        """A value that lives as long as the app."""
        if key not in self._keepsakes:
            self._keepsakes[key] = make()
        return self._keepsakes[key]

    def at_end(self, parting: Callable[[], Awaitable[None]]) -> None:
        """What to do when the app ends, once no errand is on its way."""
        self._partings.append(parting)

    async def close(self) -> None:
        tasks = [one.task for one in self._at_work.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        while self._partings:
            await self._partings.pop()()


def errands_of(app: FastAPI) -> Errands:
    """The errands of an app."""
    found = getattr(app.state, "errands", None)
    if found is None:
        found = app.state.errands = Errands()
    return found
