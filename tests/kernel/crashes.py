"""Simulated deaths of a process: a store copied at an instant, with the outside as it was then."""

from __future__ import annotations

import shutil
import threading
from dataclasses import dataclass
from pathlib import Path

from tests.kernel.stage import World


@dataclass(frozen=True)
class Death:
    """What is left of a process that died at a point: its database, and what it did outside."""

    point: str
    number: int
    path: Path
    world: World


class Deaths:
    """A fault hook that copies the store at every point where a crash hurts, and lets the run go on.

    The writer thread calls it between commits and the loop thread between steps, so a copy never catches a
    file half written: it is what a `kill -9` at that instant leaves.
    """

    def __init__(self, path: Path, world: World, *, skip: tuple[str, ...] = (), every: int = 1) -> None:
        """`every`: only of every so many instants."""
        self._path = path
        self._world = world
        self._skip = skip
        self._every = every
        self.found: list[Death] = []
        self._seen: set[tuple[bytes, tuple[str, ...]]] = set()
        self._lock = threading.Lock()

    def __call__(self, point: str) -> None:
        if point not in self._skip and self._path.exists():
            with self._lock:
                self._copy(point)

    def _copy(self, point: str) -> None:
        log = Path(f"{self._path}-wal")
        state = (log.read_bytes() if log.exists() else b"", tuple(self._world.done))
        if state in self._seen:
            return  # nothing has changed outside or on disk since another copy
        number = len(self._seen)
        self._seen.add(state)
        if number % self._every:
            return
        copy = self._path.with_name(f"{self._path.stem}-{number}.db")
        world = self._world.copy()
        shutil.copy(self._path, copy)
        if log.exists():
            shutil.copy(log, f"{copy}-wal")
        self.found.append(Death(point, number, copy, world))
