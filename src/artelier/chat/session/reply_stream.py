"""The main reply while it is being written: pieces for whoever watches, in this process only.

Nothing here is stored. Who comes late gets the text so far as one piece; who comes from another process gets
the stored events alone.
"""

from __future__ import annotations

import asyncio
import weakref
from collections import deque
from dataclasses import dataclass, field

from artelier.log import Store

WAITING_MAX = 10_000
"""Pieces that wait for a slow reader; then they are put together again from the text so far."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """Text of a reply that is being written."""

    step: str
    """Key of the model step."""
    offset: int
    """Characters of the reply before it."""
    text: str


@dataclass(slots=True)
class _Writing:
    """The text that one run is writing."""

    step: str = ""
    pieces: list[str] = field(default_factory=list[str])
    length: int = 0


class Watcher:
    """One reader of one run; made and used in one event loop."""

    def __init__(self, told: asyncio.Event) -> None:
        self._loop = asyncio.get_running_loop()
        self._told = told
        self._waiting: deque[Piece] = deque()
        self.is_behind = False

    def put(self, piece: Piece) -> None:
        if len(self._waiting) >= WAITING_MAX:
            self._waiting.clear()
            self.is_behind = True
        if not self.is_behind:
            self._waiting.append(piece)
        self.wake()

    def wake(self) -> None:
        try:
            self._loop.call_soon_threadsafe(self._told.set)
        except RuntimeError:  # its loop has ended, and with it who reads there
            self._waiting.clear()

    def take(self) -> list[Piece]:
        taken = list(self._waiting)
        self._waiting.clear()
        return taken


class Live:
    """The replies that are being written in this process. One per store."""

    def __init__(self) -> None:
        self._writing: dict[tuple[str, str], _Writing] = {}
        self._watchers: dict[tuple[str, str], list[Watcher]] = {}

    def begin(self, tenant: str, run: str, *, step: str) -> None:
        """A model begins to reply, perhaps for the second time: what it said before counts no more."""
        self._writing[tenant, run] = _Writing(step)

    def add(self, tenant: str, run: str, text: str) -> None:
        """A piece of the reply has come."""
        writing = self._writing.get((tenant, run))
        if writing is None or not text:
            return
        piece = Piece(step=writing.step, offset=writing.length, text=text)
        writing.pieces.append(text)
        writing.length += len(text)
        for watcher in self._watchers.get((tenant, run), ()):
            watcher.put(piece)

    def end(self, tenant: str, run: str) -> None:
        """The reply is recorded, or there will be none: from now on the log has all there is."""
        self._writing.pop((tenant, run), None)

    def watch(self, tenant: str, run: str, told: asyncio.Event) -> Watcher:
        """Hear of pieces from now on, and of the text so far first. `told` is set when there is news."""
        watcher = Watcher(told)
        self._watchers.setdefault((tenant, run), []).append(watcher)
        if (so_far := self._so_far(tenant, run)) is not None:
            watcher.put(so_far)
        return watcher

    def pieces(self, tenant: str, run: str, watcher: Watcher) -> list[Piece]:
        """News for a watcher; one that was too slow begins again with the text so far."""
        if watcher.is_behind:
            watcher.take()
            watcher.is_behind = False
            so_far = self._so_far(tenant, run)
            return [] if so_far is None else [so_far]
        return watcher.take()

    def unwatch(self, tenant: str, run: str, watcher: Watcher) -> None:
        watchers = self._watchers.get((tenant, run), [])
        if watcher in watchers:
            watchers.remove(watcher)
        if not watchers:
            self._watchers.pop((tenant, run), None)

    def _so_far(self, tenant: str, run: str) -> Piece | None:
        writing = self._writing.get((tenant, run))
        if writing is None or not writing.length:
            return None
        return Piece(step=writing.step, offset=0, text="".join(writing.pieces))


_live: weakref.WeakKeyDictionary[Store, Live] = weakref.WeakKeyDictionary()


def live_of(store: Store) -> Live:
    """Return what is being written over a store in this process."""
    live = _live.get(store)
    if live is None:
        live = _live[store] = Live()
    return live
