"""The floor: two bare commits of the same bytes on the same disk, with the store's own settings."""

from __future__ import annotations

import random
import time
from pathlib import Path

from artelier.log.sqlite.connection import connect
from artelier_lab.bench.kernel.cycle import Cost

COMMITS_PER_CYCLE = 2


class Floor:
    """Writes rows into a bare SQLite file as our store is set up: WAL, `synchronous=FULL`."""

    def __init__(self, path: Path) -> None:
        self._db = connect(str(path))
        self._db.execute("CREATE TABLE rows(id INTEGER PRIMARY KEY, content BLOB NOT NULL)")
        self._log = path.with_name(f"{path.name}-wal")

    def warm_up(self, *, bytes_per_cycle: float) -> None:
        """Write until the log has been written back once.

        A log file that still grows costs twice as much per fsync; a store has that behind it after its first
        few hundred cycles, so the floor must have it too.
        """
        size = -1
        while (now := self._log.stat().st_size) > size:
            size = now
            self.cycles(100, bytes_per_cycle=bytes_per_cycle)

    def cycles(self, count: int, *, bytes_per_cycle: float) -> Cost:
        """Return what that many floors cost each: two transactions with one row of half of the bytes."""
        content = random.Random(2).randbytes(int(bytes_per_cycle / COMMITS_PER_CYCLE))
        execute = self._db.execute
        cpu_s, wall_s = time.process_time(), time.perf_counter()
        for _ in range(count * COMMITS_PER_CYCLE):
            execute("BEGIN IMMEDIATE")
            execute("INSERT INTO rows(content) VALUES (?)", (content,))
            execute("COMMIT")
        wall_s, cpu_s = time.perf_counter() - wall_s, time.process_time() - cpu_s
        return Cost(wall_ms=wall_s / count * 1000, cpu_ms=cpu_s / count * 1000, commits=COMMITS_PER_CYCLE)

    def close(self) -> None:
        self._db.close()
