"""The subject of the checkers of a finished simulation: its database, its outside, and the expected state."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from artelier_lab.torture.engine import Reader
from artelier_lab.torture.process import Process
from artelier_lab.torture.simulation import Simulation


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """The end of a run."""

    status: str
    reason: str
    result: Any


def drift_of(name: str) -> int:
    """The number of a fork in which a run goes on whose code has changed."""
    return int(name.rpartition("-")[2])


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    """A finished simulation, with a kernel to ask and the file to read."""

    simulation: Simulation
    desk: Process
    db: Reader
    ended: dict[str, Ended]
    """By run, children included."""
    expected: dict[str, Ended]
    """How the same runs end without faults."""

    def newest(self, run_id: str) -> Ended | None:
        """Return how a run has ended, or the newest fork in which it went on."""
        forks = [name for name in self.ended if name.startswith(f"{run_id}.drift-")]
        return self.ended.get(max(forks, key=drift_of, default=run_id))

    def rows(self, sql: str, *parameters: Any) -> list[tuple[Any, ...]]:
        return self.db.execute(sql, parameters).fetchall()

    def events(self, *kinds: str) -> list[tuple[str, str, dict[str, Any]]]:
        """Events of runs of these kinds in order: run id, kind, data."""
        marks = ", ".join("?" * len(kinds))
        return [
            (name.removeprefix("run:"), kind, json.loads(data))
            for name, kind, data in self.rows(
                "SELECT s.name, e.kind, e.data FROM events e JOIN streams s ON s.id = e.stream"
                f" WHERE s.name LIKE 'run:%' AND e.kind IN ({marks}) ORDER BY e.position",
                *kinds,
            )
        ]
