"""Tables of an SQLite file. DuckDB's reader for them is a download, so rows go through Python."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from artelier.tools.worker.delimited import COLUMNS_MAX
from artelier.tools.worker.failure import Failure
from artelier.tools.worker.rows import load_rows
from artelier.tools.worker.table_names import columns_from, quoted

if TYPE_CHECKING:
    import duckdb

MAGIC = b"SQLite format 3\0"
TABLES_MAX = 200


class SqliteFile:
    """An SQLite database, read only."""

    def __init__(self, descriptor: int) -> None:
        """Errors: `Failure` if it is none, or can't be read."""
        try:
            self._db = sqlite3.connect(f"file:/dev/fd/{descriptor}?mode=ro", uri=True)
            # A file's own schema can hold code (views, generated columns); it gets no dangerous
            # functions.
            self._db.execute("PRAGMA trusted_schema=OFF")
            self._db.execute("PRAGMA query_only=ON")
            self._db.text_factory = _text
        except sqlite3.Error as error:
            raise Failure(f"SQLite: {str(error)[:150]}") from None

    def tables(self) -> list[str]:
        """Names of ordinary tables. Errors: `Failure`."""
        sql = (
            "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%' "
            "ESCAPE '\\' AND sql NOT LIKE 'CREATE VIRTUAL%' ORDER BY name LIMIT ?"
        )
        try:
            return [name for (name,) in self._db.execute(sql, (TABLES_MAX,))]
        except sqlite3.Error as error:
            raise Failure(f"SQLite: {str(error)[:150]}") from None

    def load(self, db: duckdb.DuckDBPyConnection, table: str, *, source: str) -> None:
        """Copy one table with the types of its values. Errors: `Failure`, `duckdb.Error`."""
        try:
            names = [row[1] for row in self._db.execute(f"PRAGMA table_info({quoted(source)})")]
            if not 0 < len(names) <= COLUMNS_MAX:
                raise Failure(f"the table has {len(names)} columns")
            types = self._types(source, names)
            rows = self._db.execute(f"SELECT {', '.join(map(quoted, names))} FROM {quoted(source)}")
            load_rows(
                db,
                table,
                columns_from(names),
                ([_cell(value, kind) for value, kind in zip(row, types, strict=True)] for row in rows),
                types=[None if kind == "VARCHAR" else kind for kind in types],
            )
        except sqlite3.Error as error:
            raise Failure(f"SQLite: {str(error)[:150]}") from None

    def close(self) -> None:
        self._db.close()

    def _types(self, source: str, names: Sequence[str]) -> list[str]:
        """SQLite types values, not columns: a column gets the type that holds all its values."""
        kinds = ("integer", "real", "text", "blob")
        census = ", ".join(
            f"coalesce(max(typeof({quoted(name)}) = '{kind}'), 0)" for name in names for kind in kinds
        )
        flags = self._db.execute(f"SELECT {census} FROM {quoted(source)}").fetchone()
        found: list[str] = []
        for start in range(0, len(flags), len(kinds)):
            integer, real, text, blob = flags[start : start + len(kinds)]
            if blob and not (integer or real or text):
                found.append("BLOB")
            elif text or blob:
                found.append("VARCHAR")
            elif real:
                found.append("DOUBLE")
            else:
                found.append("BIGINT" if integer else "VARCHAR")
        return found


def _cell(value: Any, kind: str) -> str | None:
    if value is None:
        return None
    if isinstance(value, bytes):
        return "".join(f"\\x{byte:02X}" for byte in value) if kind == "BLOB" else value.hex()
    if isinstance(value, float):
        return repr(value)
    return str(value).replace("\0", "")


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")
