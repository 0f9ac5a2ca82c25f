"""The tables of a workspace in an in-memory DuckDB, and questions to them.

The order matters: files are loaded first, then the door to the outside is locked for good, then SQL
that a model wrote is run, in transactions that can't write.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import math
import os
import threading
from collections.abc import Callable, Iterator
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from artelier.tools.worker.answers import (
    LoadAnswer,
    QueryRows,
    SkippedSource,
    TableColumn,
    TableFacts,
    TablesAnswer,
    TableSource,
)
from artelier.tools.worker.documents import read_document
from artelier.tools.worker.tables import (
    MAGIC,
    NOTES_CHARS_MAX,
    Failure,
    SqliteFile,
    first_line,
    identifier,
    load_delimited,
    make_unique,
    quote_identifier,
)

if TYPE_CHECKING:
    import duckdb


# --------------------------------------------------------------------------- cells
# Values of a query as JSON data.


CELL_CHARS_MAX = 100_000


def plain_row(row: tuple[Any, ...]) -> tuple[list[object], int]:
    """The row as JSON data and the bytes it takes. Errors: `Failure` for a huge cell."""
    plain = [plain_cell(value) for value in row]
    size = len(json.dumps(plain, ensure_ascii=False).encode(errors="replace"))
    return plain, size


def plain_cell(value: object) -> object:
    """Integers within 64 bits, finite floats, text, booleans and null stay. A decimal becomes a float if
    that is exact, else text; everything else its usual text."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return value if -(2**63) <= value < 2**63 else str(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, Decimal):
        return _decimal(value)
    if isinstance(value, datetime.datetime | datetime.date | datetime.time):
        return value.isoformat()
    if isinstance(value, bytes | bytearray):
        return _text(value.hex())
    if isinstance(value, list | tuple):
        return [plain_cell(item) for item in cast("list[Any]", value)]
    if isinstance(value, dict):
        items = cast("dict[Any, Any]", value).items()
        return {str(plain_cell(key)): plain_cell(item) for key, item in items}
    return _text(str(value))


def describe_type(kind: object) -> str:
    return str(kind)[:200]


def _text(value: str) -> str:
    if len(value) > CELL_CHARS_MAX:
        raise Failure(
            f"a value has {len(value)} characters, more than {CELL_CHARS_MAX}",
            hint="Select a part of it with left() or substr().",
        )
    return value


def _decimal(value: Decimal) -> float | str:
    if not value.is_finite():
        return str(value)
    nearest = float(value)
    return nearest if math.isfinite(nearest) and Decimal(repr(nearest)) == value else str(value)


# --------------------------------------------------------------------------- database


Loader = Callable[[str], str]
"""Makes the table of the name it is given and returns a note on it. Errors: `Failure`, `duckdb.Error`."""

MEMORY_LIMIT = "1GB"
RESULT_BYTES_MAX = 1_000_000
"""Rows beyond this much JSON are left out and the result is marked as truncated."""

_CONFIG = {
    "threads": "1",
    "memory_limit": MEMORY_LIMIT,
    "temp_directory": "",
    "preserve_insertion_order": "true",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "allow_community_extensions": "false",
    # Otherwise an unknown table name is looked up among the Python variables of this process.
    "python_enable_replacements": "false",
}


class TableDatabase:
    """The tables of one state of the workspace."""

    def __init__(self) -> None:
        self._db: duckdb.DuckDBPyConnection | None = None
        self._tables: dict[str, str] = {}
        """Table name to source, in the order of loading."""
        self._notes: dict[str, str] = {}

    def load(self, source: TableSource) -> LoadAnswer:
        """Load one source."""
        db = self._open()
        skipped: list[SkippedSource] = []
        for label, name, load in self._parts(db, source, skipped):
            self._load_one(db, label, name, load, skipped)
        return LoadAnswer(skipped=skipped)

    def lock(self) -> TablesAnswer:
        """Close the door to the outside for good; the tables that can be read from now on."""
        db = self._open()
        db.execute("SET enable_external_access = false")
        db.execute("SET lock_configuration = true")
        tables = [self._describe(db, name, source) for name, source in self._tables.items()]
        return TablesAnswer(tables=tables)

    def _open(self) -> duckdb.DuckDBPyConnection:
        if self._db is not None:
            return self._db
        db: duckdb.DuckDBPyConnection = _library().connect(":memory:", config=_CONFIG)
        db.execute("SET TimeZone = 'UTC'")
        self._db = db
        return db

    def query(self, sql: str, *, rows_max: int, time_s: float) -> QueryRows:
        """Rows of one reading statement, as JSON data. Errors: `Failure`."""
        db = self._db
        if db is None:
            raise Failure("no tables are loaded")
        _check_statement(sql)
        timer = threading.Timer(time_s, db.interrupt)
        timer.start()
        try:
            db.execute("BEGIN TRANSACTION READ ONLY")
            cursor = db.execute(sql)
            columns = [str(column[0]) for column in cursor.description]
            types = [describe_type(column[1]) for column in cursor.description]
            rows, truncated = _rows(cursor, rows_max=rows_max)
            return QueryRows(
                columns=columns, types=types, rows=rows, row_count=len(rows), truncated=truncated
            )
        except _library().InterruptException:
            raise Failure(
                f"the query ran longer than {time_s:g} s",
                hint="Ask for less: filter, aggregate, or join on equal keys.",
            ) from None
        except _library().Error as error:
            raise _explain(error) from None
        finally:
            timer.cancel()
            with contextlib.suppress(_library().Error):
                db.execute("ROLLBACK")

    def _parts(
        self, db: duckdb.DuckDBPyConnection, source: TableSource, skipped: list[SkippedSource]
    ) -> Iterator[tuple[str, str, Loader]]:
        """The tables inside a source: a label, the wished name and what loads it."""
        label, stem, kind, descriptor = source.source, source.stem, source.kind, source.descriptor
        if kind in ("csv", "tsv"):
            error = _library().Error
            load = partial(load_delimited, db, descriptor=descriptor, kind=kind, error=error)
            yield label, stem, load
        elif kind == "parquet":
            yield label, stem, partial(_load_parquet, db, descriptor=descriptor)
        elif kind != "sqlite":
            yield from _document_parts(db, source, skipped)
        elif os.pread(descriptor, len(MAGIC), 0) != MAGIC:
            skipped.append(SkippedSource(label, "not an SQLite database"))
        else:
            yield from self._sqlite_parts(db, source, skipped)

    def _sqlite_parts(
        self, db: duckdb.DuckDBPyConnection, source: TableSource, skipped: list[SkippedSource]
    ) -> Iterator[tuple[str, str, Loader]]:
        label, stem = source.source, source.stem
        try:
            file = SqliteFile(source.descriptor)
            inner = file.tables()
        except Failure as failure:
            skipped.append(SkippedSource(label, str(failure)))
            return
        if not inner:
            skipped.append(SkippedSource(label, "the database has no tables"))
        for table in inner:
            name = stem if len(inner) == 1 else f"{stem}_{table}"
            yield f"{label}#{table}", name, partial(file.load, db, source=table)
        file.close()

    def _load_one(
        self,
        db: duckdb.DuckDBPyConnection,
        label: str,
        wished: str,
        load: Loader,
        skipped: list[SkippedSource],
    ) -> None:
        name = make_unique(identifier(wished), self._tables)
        try:
            note = load(name)
        except (Failure, _library().Error, OSError, ValueError) as error:
            with contextlib.suppress(_library().Error):
                db.execute(f"DROP TABLE IF EXISTS {quote_identifier(name)}")
            skipped.append(SkippedSource(label, first_line(error)))
        else:
            self._tables[name] = label
            self._notes[name] = note

    def _describe(self, db: duckdb.DuckDBPyConnection, name: str, source: str) -> TableFacts:
        rows = db.execute(f"SELECT count(*) FROM {quote_identifier(name)}").fetchall()[0][0]
        columns = db.execute(f"DESCRIBE {quote_identifier(name)}").fetchall()
        return TableFacts(
            name=name,
            source=source,
            rows=rows,
            columns=[TableColumn(name=column[0], type=column[1]) for column in columns],
            note=self._notes[name],
        )


def _document_parts(
    db: duckdb.DuckDBPyConnection, source: TableSource, skipped: list[SkippedSource]
) -> Iterator[tuple[str, str, Loader]]:
    label, stem = source.source, source.stem
    try:
        parts = read_document(source.kind, source.descriptor)
    except (Failure, ValueError, OSError) as failure:
        skipped.append(SkippedSource(label, first_line(failure)))
        return
    for part in parts:
        name = stem if len(parts) == 1 or not part.label else f"{stem}_{part.label}"
        yield f"{label}#{part.label}" if part.label else label, name, partial(part.load, db)


def _load_parquet(db: duckdb.DuckDBPyConnection, name: str, *, descriptor: int) -> str:
    place = f"read_parquet('/dev/fd/{descriptor}')"
    columns = db.execute(f"DESCRIBE SELECT * FROM {place}").fetchall()
    # Instants become UTC timestamps without a zone: Python has no zone database to hand them over
    # with.
    instants = [column for column, kind, *_ in columns if kind == "TIMESTAMP WITH TIME ZONE"]
    chosen = ", ".join(
        f"CAST({quote_identifier(column)} AS TIMESTAMP) AS {quote_identifier(column)}"
        if column in instants
        else quote_identifier(column)
        for column, *_ in columns
    )
    db.execute(f"CREATE TABLE {quote_identifier(name)} AS SELECT {chosen} FROM {place}")
    return "; ".join(f"{column}: times in UTC" for column in instants)[:NOTES_CHARS_MAX]


def _check_statement(sql: str) -> None:
    duckdb = _library()
    try:
        statements = duckdb.extract_statements(sql)
    except duckdb.Error as error:
        raise _explain(error) from None
    kinds = [statement.type.name for statement in statements]
    # DESCRIBE, SHOW and SUMMARIZE are parsed as SELECT. What writes inside a SELECT (a CTE with
    # INSERT) is refused by the transaction.
    if kinds != ["SELECT"]:
        got = ", ".join(kinds)[:100] or "none"
        raise Failure(
            f"expected one SELECT, WITH, DESCRIBE, SHOW or SUMMARIZE, got {got}",
            hint="Tables can be read, not changed; send one statement at a time.",
        )


def _rows(cursor: duckdb.DuckDBPyConnection, *, rows_max: int) -> tuple[list[list[Any]], bool]:
    """Return the rows as JSON data, and True if there are more."""
    rows: list[list[Any]] = []
    size = 0
    truncated = False
    while not truncated:
        batch = cursor.fetchmany(100)
        for row in batch:
            plain, row_bytes = plain_row(row)
            size += row_bytes
            if len(rows) >= rows_max or size > RESULT_BYTES_MAX:
                truncated = True
                break
            rows.append(plain)
        if not batch:
            break
    return rows, truncated


def _explain(error: Exception) -> Failure:
    text = first_line(error, chars_max=600)
    if "pytz" in text:
        return Failure(
            "instants with a time zone can't be returned", hint="CAST them to TIMESTAMP or VARCHAR."
        )
    if "read-only" in text:
        return Failure("tables can be read, not changed")
    hint = None
    if "Out of Memory" in text or "failed to allocate" in text:
        text, hint = "the query needs too much memory", "Filter or aggregate first."
    return Failure(text, hint=hint)


def _library() -> Any:
    try:
        import duckdb
    except ImportError:
        raise Failure("tables can't be read: the package duckdb is not installed") from None
    return duckdb
