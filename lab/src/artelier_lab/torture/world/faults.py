"""The faults of a world while it passes its ticks, and their times: one fault per life of the process."""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from typing import Any

import artelier.log.database_store
from artelier.log.contract import Applied
from artelier.log.writer import Writer
from artelier_lab.torture.engine import engine

LIVES_MAX = 8
"""Lives with a misfortune; then comes the calm."""

FULL_MAX = 5
"""How often in a life the disk is full."""

KINDS = ("point", "point", "thought", "event", "event", "full", "twin")
"""`point`: a crash at a fault point of kernel or store. `thought`: while an agent thinks. `event`: between
two events of a batch. `full`: the disk is, now and then. `twin`: a second process passes ticks too."""


class WorldCrash(BaseException):
    """The process is gone: nothing that catches errors may catch this."""


class WorldFaults:
    """The misfortunes of one seed. Each life of a process begins with `begin`."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(f"world faults {seed}")
        self.counts: Counter[str] = Counter()
        self.lives = 0
        self.kind = "calm"
        self.is_dead = False
        self.ticks = 1 << 30
        """Of this life, if nothing ends it before."""
        self._left = 0
        self._lock = threading.Lock()

    def begin(self) -> str:
        """Draw what this life ends by."""
        self.lives += 1
        self.is_dead = False
        self.kind = self.rng.choice(KINDS) if self.lives <= LIVES_MAX else "calm"
        reach = {"point": 12, "thought": 40, "event": 120}.get(self.kind, 0)
        self._left = self.rng.randint(1, reach) if reach else FULL_MAX
        self.ticks = self.rng.randint(1, 4) if self.lives <= LIVES_MAX else 1 << 30
        return self.kind

    def die(self, where: str) -> None:
        self.is_dead = True
        self.counts[f"world: crash {where}"] += 1
        raise WorldCrash(where)

    def _pass(self, kind: str, where: str) -> None:
        """One occasion of a kind has come."""
        with self._lock:  # the store's writer is another thread
            if self.is_dead:
                raise WorldCrash(where)
            if self.kind != kind or not self._left:
                return
            self._left -= 1
            if self._left:
                return
        self.die(where)

    def __call__(self, point: str) -> None:
        """The fault hook of kernel and writer."""
        self._pass("point", f"at {point}")
        is_commit = self.kind == "full" and point == "commit.before"
        if is_commit and self._left and self.rng.random() < 0.4:
            self._left -= 1
            self.counts["world: disk full"] += 1
            raise engine().no_room()

    def event(self) -> None:
        """Before the views take up an event of a batch."""
        self._pass("event", "within a batch")

    def thinking(self, policies: Mapping[str, Callable[[Any], Any]]) -> dict[str, Any]:
        """The rules, whose every thought is an occasion."""

        def watched(rule: Callable[[Any], Any]) -> Callable[[Any], Any]:
            def decide(facts: Any) -> Any:
                self._pass("thought", "in thought")
                return rule(facts)

            return decide

        return {name: watched(rule) for name, rule in policies.items()}


class _BreakingWriter(Writer):
    """The store's writer, which can stop between two events of a batch."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._faults = _opening[-1]
        super().__init__(*args, **kwargs)

    def _show(self, applied: list[Applied]) -> None:
        for event in applied:
            self._faults.event()
            super()._show([event])


_opening: list[WorldFaults] = []


@contextmanager
def breaking_writers(faults: WorldFaults) -> Generator[None]:
    """Stores that are opened in here break as these faults say."""
    before = artelier.log.database_store.Writer  # pyright: ignore[reportPrivateImportUsage] - replaced
    _opening.append(faults)
    artelier.log.database_store.Writer = _BreakingWriter  # pyright: ignore[reportPrivateImportUsage] - replaced
    try:
        yield
    finally:
        artelier.log.database_store.Writer = before  # pyright: ignore[reportPrivateImportUsage] - replaced
        _opening.pop()
