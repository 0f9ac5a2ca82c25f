"""CSV and TSV files as tables. Nothing is sniffed by sampling: the first line is the header, and a
column gets a type only if every one of its values has that form."""

from __future__ import annotations

import csv
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from artelier.tools.worker.failure import Failure
from artelier.tools.worker.naming import columns_from, quoted

if TYPE_CHECKING:
    import duckdb

HEADER_BYTES_MAX = 256 * 1024
COLUMNS_MAX = 1_000
DELIMITERS = (",", ";", "\t", "|")

# The forms by which a column is recognised, tried in this order. A number with a leading zero or a
# plus is an identifier or a telephone number, so it stays text; so does a number of more digits
# than the type can hold, a date in any but ISO order, and `yes`.
FORMS: tuple[tuple[str, str], ...] = (
    ("BIGINT", r"-?(0|[1-9][0-9]{0,17})"),
    ("DOUBLE", r"-?(0|[1-9][0-9]{0,14})?(\.[0-9]{1,15})?([eE][-+]?[0-9]{1,2})?"),
    ("BOOLEAN", r"(?i)true|false"),
    ("DATE", r"[0-9]{4}-[0-9]{2}-[0-9]{2}"),
    ("TIMESTAMP", r"[0-9]{4}-[0-9]{2}-[0-9]{2}[ T][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,6})?)?"),
)


def load_delimited(
    db: duckdb.DuckDBPyConnection, table: str, *, descriptor: int, kind: str
) -> None:
    """Make a table of a delimited file. Errors: `Failure`, and `duckdb.Error` for bad rows."""
    delimiter, header = _header(descriptor, "\t" if kind == "tsv" else None)
    columns = columns_from(header)
    load_text(db, table, f"/dev/fd/{descriptor}", columns, delimiter=delimiter)


def load_text(
    db: duckdb.DuckDBPyConnection,
    table: str,
    place: str,
    columns: Sequence[str],
    *,
    delimiter: str,
    null: str = "",
    types: Sequence[str | None] | None = None,
) -> None:
    """Load rows of text, then give each column its type: the given one, or the form of its values."""
    spec = ", ".join(f"{_literal(name)}: 'VARCHAR'" for name in columns)
    db.execute(
        f"CREATE TABLE raw AS SELECT * FROM read_csv({_literal(place)}, auto_detect=false, "
        f"header=true, columns={{{spec}}}, delim={_literal(delimiter)}, quote='\"', escape='\"', "
        f"nullstr={_literal(null)}, strict_mode=true, null_padding=false, parallel=false)"
    )
    try:
        found = _forms(db, columns) if types is None else [None] * len(columns)
        casts = [
            _cast(name, given or form)
            for name, given, form in zip(
                columns, types or [None] * len(columns), found, strict=True
            )
        ]
        db.execute(f"CREATE TABLE {quoted(table)} AS SELECT {', '.join(casts)} FROM raw")
    finally:
        db.execute("DROP TABLE raw")


def _header(descriptor: int, delimiter: str | None) -> tuple[str, list[str]]:
    raw = os.pread(descriptor, HEADER_BYTES_MAX, 0)
    if not raw.strip():
        raise Failure("the file is empty")
    line = raw.splitlines()[0]
    if len(line) >= HEADER_BYTES_MAX:
        raise Failure("the first line is too long for a header")
    try:
        text = line.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise Failure("the header is not UTF-8 text") from None
    if "\0" in text:
        raise Failure("the file is binary, not text")
    chosen = delimiter or max(DELIMITERS, key=lambda mark: len(_split(text, mark)))
    header = _split(text, chosen)
    if len(header) > COLUMNS_MAX:
        raise Failure(f"the header has {len(header)} columns, more than {COLUMNS_MAX}")
    return chosen, header


def _split(line: str, delimiter: str) -> list[str]:
    try:
        return next(csv.reader([line], delimiter=delimiter, strict=True))
    except (csv.Error, StopIteration):
        return []


def _forms(db: duckdb.DuckDBPyConnection, columns: Sequence[str]) -> list[str | None]:
    """For each column the first form that all its values have; None if there is none, or no value."""
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
