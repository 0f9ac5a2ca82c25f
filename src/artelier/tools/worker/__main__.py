"""The loop of the helper process: one line of JSON in, one line of JSON out, until the input ends."""

from __future__ import annotations

import contextlib
import json
import resource
import select
import signal
import sys
from typing import Any

from artelier.tools.worker.database import Database
from artelier.tools.worker.failure import Failure
from artelier.tools.worker.matching import match_lines

MEMORY_BYTES_MAX = 4 * 1024 * 1024 * 1024
"""Address space. DuckDB's own limit is lower, but its functions on text do not count towards it."""
IDLE_S = 600
"""After this time without a question the process ends; the tables are loaded again when needed."""
GRACE_S = 5
"""How long past its time a question may go on before the process ends itself, if its parent died."""


def main() -> None:
    _limit()
    database = Database()
    while select.select([sys.stdin], [], [], IDLE_S)[0]:
        line = sys.stdin.readline()
        if not line:
            return
        message: dict[str, Any] = json.loads(line)
        signal.alarm(int(message["timeout_s"]) + GRACE_S)
        answer = json.dumps(_answer(database, message), ensure_ascii=False, allow_nan=False)
        signal.alarm(0)
        sys.stdout.write(answer + "\n")
        sys.stdout.flush()


def _answer(database: Database, message: dict[str, Any]) -> dict[str, Any]:
    try:
        if message["ask"] == "load":
            return database.load(message["sources"])
        if message["ask"] == "query":
            return database.query(
                message["sql"], rows_max=message["rows_max"], time_s=message["time_s"]
            )
        return match_lines(message["pattern"], message["text"], hits_max=message["hits_max"])
    except Failure as failure:
        return {"failed": str(failure), "hint": failure.hint}
    except MemoryError:
        return {"failed": "this needs too much memory", "hint": None}


def _limit() -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    if hard == resource.RLIM_INFINITY or hard > MEMORY_BYTES_MAX:
        # Not every system lets a process bound its address space; DuckDB's own limit stays.
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES_MAX, hard))


if __name__ == "__main__":
    main()
