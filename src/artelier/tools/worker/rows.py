"""Rows of text become a table: loaded as they are, then every column gets a type by the form of all its
values, never of a sample."""

from __future__ import annotations

import csv
import os
import tempfile
from collections.abc import Iterable, Sequence
from typing import IO, TYPE_CHECKING

from artelier.tools.worker.failure import Failure
from artelier.tools.worker.table_names import quoted

if TYPE_CHECKING:
    import duckdb

# The forms by which a column is recognised, tried in this order. A number with a leading zero or a plus
# is an identifier or a telephone number, so it stays text; so does a number of more digits than the type
# can hold, a date in any but ISO order, and `yes`.
FORMS: tuple[tuple[str, str], ...] = (
    ("BIGINT", r"-?(0|[1-9][0-9]{0,17})"),
    ("DOUBLE", r"-?(0|[1-9][0-9]{0,14})?(\.[0-9]{1,15})?([eE][-+]?[0-9]{1,2})?"),
    ("BOOLEAN", r"(?i)true|false"),
    ("DATE", r"[0-9]{4}-[0-9]{2}-[0-9]{2}"),
    ("TIMESTAMP", r"[0-9]{4}-[0-9]{2}-[0-9]{2}[ T][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,6})?)?"),
)

COLUMNS_AT_ONCE = 16
"""Planning a query takes time in the square of its expressions: 9 s for 500 columns, 2 s like this."""

# How rows travel when they do not come from a file of their own: NULL is a text nobody writes, so that
# empty text stays empty text.
_NULL = "\x1fNULL\x1f"
_DELIMITER = "\x1e"


def load_rows(
    db: duckdb.DuckDBPyConnection,
    table: str,
    columns: Sequence[str],
    rows: Iterable[Sequence[str | None]],
    *,
    types: Sequence[str | None] | None = None,
) -> None:
    """Make a table of rows; `types` None: by the form of the values. Errors: `duckdb.Error`."""
    # Text in a file is how rows enter DuckDB a hundred times faster than one by one.
    with _scratch() as draft:
        writer = csv.writer(draft, delimiter=_DELIMITER, lineterminator="\n")
        writer.writerow(columns)
        count = 0
        for row in rows:
            writer.writerow([_NULL if value is None else value for value in row])
            count += 1
        draft.flush()
        place = f"/dev/fd/{draft.fileno()}"
        load_text(db, table, place, columns, delimiter=_DELIMITER, count=count, null=_NULL, types=types)


def _scratch() -> IO[str]:
    """A file without a name; in memory where there are such files, since no other may be written."""
    if not hasattr(os, "memfd_create"):
        return tempfile.TemporaryFile("w+", encoding="utf-8", newline="")
    return open(os.memfd_create("rows"), "w+", encoding="utf-8", newline="")


def load_text(
    db: duckdb.DuckDBPyConnection,
    table: str,
    place: str,
    columns: Sequence[str],
    *,
    delimiter: str,
    count: int,
    null: str = "",
    types: Sequence[str | None] | None = None,
) -> None:
    """Make a table of a delimited file with a header. Shapes: `count` rows must come out.

    Errors: `Failure` if they do not, `duckdb.Error` for rows it can't read.
    """
    spec = ", ".join(f"{_literal(name)}: 'VARCHAR'" for name in columns)
    db.execute(
        f"CREATE TABLE raw AS SELECT * FROM read_csv({_literal(place)}, auto_detect=false, "
        f"header=true, columns={{{spec}}}, delim={_literal(delimiter)}, quote='\"', escape='\"', "
        f"nullstr={_literal(null)}, strict_mode=true, null_padding=false, parallel=false)"
    )
    try:
        # DuckDB's reader drops some malformed rows without a word, even in strict mode.
        loaded = db.execute("SELECT count(*) FROM raw").fetchall()[0][0]
        if loaded != count:
            raise Failure(f"{count} rows were written and {loaded} were read")
        chosen = _forms(db, columns) if types is None else types
        casts = [_cast(name, kind) for name, kind in zip(columns, chosen, strict=True)]
        db.execute(f"CREATE TABLE {quoted(table)} AS SELECT {', '.join(casts)} FROM raw")
    finally:
        db.execute("DROP TABLE raw")


def _forms(db: duckdb.DuckDBPyConnection, columns: Sequence[str]) -> list[str | None]:
    """Return for each column the first form that all its values have; None if there is none, or no value."""
    found: list[str | None] = []
    for start in range(0, len(columns), COLUMNS_AT_ONCE):
        found += _forms_of(db, columns[start : start + COLUMNS_AT_ONCE])
    return found


def _forms_of(db: duckdb.DuckDBPyConnection, columns: Sequence[str]) -> list[str | None]:
    tests: list[str] = []
    for name in columns:
        column = quoted(name)
        tests.append(f"count({column}) > 0")
        for kind, form in FORMS:
            fits = f"regexp_full_match(trim({column}), {_literal(form)})"
            if kind in ("DATE", "TIMESTAMP", "DOUBLE"):
                fits += f" AND TRY_CAST(trim({column}) AS {kind}) IS NOT NULL"
            tests.append(f"coalesce(bool_and({column} IS NULL OR ({fits})), false)")
    flags = db.execute(f"SELECT {', '.join(tests)} FROM raw").fetchone() or ()
    width = len(FORMS) + 1
    found: list[str | None] = []
    for start in range(0, len(flags), width):
        filled = flags[start]
        fits = flags[start + 1 : start + width]
        kinds = [kind for (kind, _), fit in zip(FORMS, fits, strict=True) if fit]
        found.append(kinds[0] if filled and kinds else None)
    return found


def _cast(name: str, kind: str | None) -> str:
    column = quoted(name)
    return column if kind is None else f"CAST(trim({column}) AS {kind}) AS {column}"


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
