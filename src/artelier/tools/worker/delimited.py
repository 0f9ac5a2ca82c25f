"""CSV and TSV files as tables. The first line is the header; every row must have as many values as it.

The file is read twice: once here, strictly, to find out what is in it, and once by DuckDB for speed. If
the two do not agree on the number of rows, what was read here counts.
"""

from __future__ import annotations

import csv
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from artelier.tools.worker.failure import Failure
from artelier.tools.worker.rows import load_rows, load_text
from artelier.tools.worker.table_names import columns_from

if TYPE_CHECKING:
    import duckdb

HEADER_BYTES_MAX = 256 * 1024
VALUE_CHARS_MAX = 10_000_000
COLUMNS_MAX = 1_000
DELIMITERS = (",", ";", "\t", "|")


def load_delimited(
    db: duckdb.DuckDBPyConnection, table: str, *, descriptor: int, kind: str, error: type[Exception]
) -> None:
    """Make a table of a delimited file. Shapes: `error` is what DuckDB raises. Errors: `Failure`."""
    line = _first_line(descriptor)
    delimiter = "\t" if kind == "tsv" else max(DELIMITERS, key=lambda mark: _width(line, mark))
    rows = _rows(descriptor, delimiter)
    header = next(rows, None)
    if header is None or not any(name.strip() for name in header):
        raise Failure("the header is empty")
    if len(header) > COLUMNS_MAX:
        raise Failure(f"the header has {len(header)} columns, more than {COLUMNS_MAX}")
    columns = columns_from(header)
    count = sum(1 for _ in rows)
    place = f"/dev/fd/{descriptor}"
    try:
        load_text(db, table, place, columns, delimiter=delimiter, count=count)
    except (Failure, error):
        again = _rows(descriptor, delimiter)
        next(again)
        load_rows(db, table, columns, ([value or None for value in row] for row in again))


def _first_line(descriptor: int) -> str:
    raw = os.pread(descriptor, HEADER_BYTES_MAX, 0)
    if not raw.strip():
        raise Failure("the file is empty")
    if b"\0" in raw and not raw.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise Failure("the file is binary, not text")
    line = raw.splitlines()[0]
    if len(line) >= HEADER_BYTES_MAX:
        raise Failure("the first line is too long for a header")
    return line.decode("utf-8-sig", "replace")


def _width(line: str, delimiter: str) -> int:
    """Into how many names a delimiter cuts the header; the one that makes the most is taken."""
    return max((len(row) for row in csv.reader([line], delimiter=delimiter)), default=0)


def _rows(descriptor: int, delimiter: str) -> Iterator[list[str]]:
    """The header and all rows. Errors: `Failure` with the line, if one is malformed."""
    csv.field_size_limit(VALUE_CHARS_MAX)
    reader: Any = None
    width = 0
    try:
        with open(f"/dev/fd/{descriptor}", encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file, delimiter=delimiter, strict=True)
            for row in reader:
                width = width or len(row)
                # An empty line is nothing, except where a line has only one value.
                values = row or ([""] if width == 1 else [])
                if not values:
                    continue
                if len(values) != width:
                    found = f"line {reader.line_num} has {len(values)} values"
                    raise Failure(f"{found}, the header has {width}")
                yield values
    except UnicodeDecodeError:
        raise Failure("the file is not UTF-8 text") from None
    except csv.Error as broken:
        line = reader.line_num if reader is not None else 1
        raise Failure(f"line {line}: {str(broken)[:100]}") from None
