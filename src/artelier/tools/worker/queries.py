"""The table `raw` of the helper process: the rows of a text table, before its columns have types."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import duckdb

SAMPLE_ROWS = 1_000
"""Rows that say whether a column of text is worth a closer look; what it is, all rows say."""


def quote_identifier(name: str) -> str:
    """Return a name as an SQL identifier, whatever it holds."""
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


class RawTable:
    """The rows of a text table as they are written, every column text. `drop` it when they are converted.

    Conditions and expressions are SQL that `columns` builds; names and texts in it are quoted by
    `quote_identifier` and `literal`.
    """

    def __init__(self, db: duckdb.DuckDBPyConnection) -> None:
        self._db = db

    def create(self, columns: Sequence[str], place: str, *, delimiter: str, null: str) -> None:
        """Read a delimited file with a header into the table. Errors: `duckdb.Error`."""
        spec = ", ".join(f"{literal(name)}: 'VARCHAR'" for name in columns)
        self._db.execute(
            f"CREATE TABLE raw AS SELECT * FROM read_csv({literal(place)}, auto_detect=false, "
            f"header=true, columns={{{spec}}}, delim={literal(delimiter)}, quote='\"', escape='\"', "
            f"nullstr={literal(null)}, strict_mode=true, null_padding=false, parallel=false)"
        )

    def count(self) -> int:
        """Return how many rows there are."""
        return self._db.execute("SELECT count(*) FROM raw").fetchall()[0][0]

    def evaluate(self, tests: Sequence[str]) -> Sequence[bool]:
        """Return the value of each test over all rows."""
        return self._db.execute(f"SELECT {', '.join(tests)} FROM raw").fetchone() or ()

    def count_where(self, **tests: str) -> dict[str, int]:
        """Return how many rows fulfil each condition."""
        asked = ", ".join(f"count(*) FILTER ({test})" for test in tests.values())
        counts = self._db.execute(f"SELECT {asked} FROM raw").fetchall()[0]
        return dict(zip(tests, counts, strict=True))

    def digit_share(self, name: str) -> float | None:
        """Return the share of the first values of a column that hold a digit; None if it has no values."""
        column = quote_identifier(name)
        return self._db.execute(
            f"SELECT avg(CASE WHEN regexp_matches({column}, '[0-9]') THEN 1.0 ELSE 0 END) FROM"
            f" (SELECT {column} FROM raw WHERE {column} IS NOT NULL LIMIT {SAMPLE_ROWS})"
        ).fetchall()[0][0]

    def example(self, name: str, test: str) -> str:
        """Return a value that fulfils a condition, as a note may quote it."""
        column = quote_identifier(name)
        row = self._db.execute(f"SELECT {column} FROM raw WHERE {test} ORDER BY 1 LIMIT 1").fetchone()
        return repr(str(row[0]).strip()[:40]) if row else ""

    def distinct(self, expression: str, name: str, *, limit: int) -> list[str]:
        """Return the first values of an expression over the rows that have a value in a column."""
        rows = self._db.execute(
            f"SELECT DISTINCT {expression} FROM raw WHERE {quote_identifier(name)} IS NOT NULL LIMIT {limit}"
        ).fetchall()
        return [value for (value,) in rows]

    def convert(self, table: str, expressions: Sequence[str]) -> None:
        """Make the typed table of these expressions. Errors: `duckdb.Error`."""
        chosen = ", ".join(expressions)
        self._db.execute(f"CREATE TABLE {quote_identifier(table)} AS SELECT {chosen} FROM raw")

    def drop(self) -> None:
        self._db.execute("DROP TABLE raw")
