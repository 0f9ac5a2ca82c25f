"""The helper process that queries tables and searches lines."""

from __future__ import annotations

import json
import re
import warnings
from functools import lru_cache
from typing import Any

import msgspec

from artelier.child import HelperFailure
from artelier.child_loop import MIB, serve
from artelier.tools.worker.answers import LineHits, LoadAnswer, QueryRows, TablesAnswer, TableSource
from artelier.tools.worker.database import TableDatabase
from artelier.tools.worker.tables import Failure, excerpts


def match_lines(pattern: str, text: str, *, hits_max: int) -> LineHits:
    """The first lines that match."""
    compiled = _compile(pattern)
    hits: list[tuple[int, str, int]] = []
    for number, line in enumerate(text.replace("\r\n", "\n").split("\n"), start=1):
        places = (found.start() for found in compiled.finditer(line))
        hits += [(number, *excerpt) for excerpt in excerpts(line, places)]
        if len(hits) >= hits_max:
            break
    return LineHits(hits=hits[:hits_max])


@lru_cache(maxsize=1)
def _compile(pattern: str) -> re.Pattern[str]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        raise Failure(
            f"not a regular expression: {str(error)[:200]}", hint="Python's re syntax is used."
        ) from None


MEMORY_BYTES_MAX = 4096 * MIB
"""Address space. DuckDB's own limit is lower, but its functions on text do not count towards it."""


def main() -> None:
    database = TableDatabase()  # of an idle process that has ended, the tables are loaded again

    def answer(message: dict[str, Any]) -> tuple[bytes, bool]:
        told = msgspec.to_builtins(_answer(database, message))
        content = json.dumps(told, ensure_ascii=False, allow_nan=False)
        return content.encode(), True

    serve(answer, memory_bytes_max=MEMORY_BYTES_MAX)


def _answer(
    database: TableDatabase, message: dict[str, Any]
) -> LoadAnswer | TablesAnswer | QueryRows | LineHits | HelperFailure:
    try:
        if message["ask"] == "load":
            return database.load(msgspec.convert(message["source"], TableSource))
        if message["ask"] == "lock":
            return database.lock()
        if message["ask"] == "query":
            return database.query(message["sql"], rows_max=message["rows_max"], time_s=message["time_s"])
        return match_lines(message["pattern"], message["text"], hits_max=message["hits_max"])
    except Failure as failure:
        return HelperFailure(failed="refused", message=str(failure), hint=failure.hint)
    except MemoryError:
        return HelperFailure(failed="too_large", message="this needs too much memory")


if __name__ == "__main__":
    main()
