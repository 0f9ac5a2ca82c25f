"""The helper process that queries tables and searches lines."""

from __future__ import annotations

import json
from typing import Any

from artelier.child_loop import MIB, serve
from artelier.tools.worker.database import Database
from artelier.tools.worker.line_match import match_lines
from artelier.tools.worker.tables import Failure

MEMORY_BYTES_MAX = 4096 * MIB
"""Address space. DuckDB's own limit is lower, but its functions on text do not count towards it."""


def main() -> None:
    database = Database()  # of an idle process that has ended, the tables are loaded again

    def answer(message: dict[str, Any]) -> tuple[bytes, bool]:
        content = json.dumps(_answer(database, message), ensure_ascii=False, allow_nan=False)
        return content.encode(), True

    serve(answer, memory_bytes_max=MEMORY_BYTES_MAX)


def _answer(database: Database, message: dict[str, Any]) -> dict[str, Any]:
    try:
        if message["ask"] == "load":
            return database.load(message["sources"])
        if message["ask"] == "query":
            return database.query(message["sql"], rows_max=message["rows_max"], time_s=message["time_s"])
        return match_lines(message["pattern"], message["text"], hits_max=message["hits_max"])
    except Failure as failure:
        return {"failed": str(failure), "hint": failure.hint}
    except MemoryError:
        return {"failed": "this needs too much memory", "hint": None}


if __name__ == "__main__":
    main()
