"""The files of a sweep: one with a row for each completed run, and the table of all runs.

A file is either complete or absent. Text in a CSV never begins like a spreadsheet formula.
"""

from __future__ import annotations

import csv
import io
import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from artelier.errors import InvalidRequest, StoreUnavailable
from artelier.world.figures.sweep import FIGURES, Param, PlannedRun

ROW = "row.json"
"""In the folder of a run, once it is done."""

FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""How a cell begins that a spreadsheet might obey (OWASP, CSV injection)."""

Column = tuple[str, str]
"""Name and type, as DuckDB calls it."""


def folder_of(out: Path) -> Path:
    """Return where the runs of a table are kept. Errors: `InvalidRequest` for a name of neither format."""
    if out.suffix not in (".csv", ".parquet"):
        raise InvalidRequest("--out", expected="FILE.csv or FILE.parquet", got=str(out))
    return out.with_suffix(".sweep")


def save_row(folder: Path, row: Mapping[str, Any]) -> None:
    """Say that the run of this folder is done. Errors: `StoreUnavailable`."""
    _put(folder / ROW, msgspec.json.encode(row))


def row_of(folder: Path, planned: PlannedRun) -> dict[str, Any] | None:
    """The row of a run that is done; None if it is not, or the file is none of ours."""
    try:
        row = msgspec.json.decode((folder / planned.id / ROW).read_bytes(), type=dict[str, Any])
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return None
    is_whole = row.get("run") == planned.id and all(name in row for name in (*FIGURES, *planned.means))
    return {**row, "params": planned.params} if is_whole else None


def columns_of(planned: Sequence[PlannedRun]) -> list[Column]:
    """`run`, the parameters, `seed`, `ticks`, the figures, and the means of what is collected."""
    params: dict[str, list[Param]] = {}
    means: dict[str, str] = {}
    for one in planned:
        means.update(dict.fromkeys(one.means, "DOUBLE"))
        for name, value in one.params.items():
            params.setdefault(name, []).append(value)
    return [
        ("run", "VARCHAR"),
        *((name, _type_of(values)) for name, values in params.items()),
        ("seed", "BIGINT"),
        ("ticks", "BIGINT"),
        *FIGURES.items(),
        *means.items(),
    ]


def _type_of(values: Sequence[Param]) -> str:
    return "BIGINT" if all(isinstance(one, int | None) for one in values) else "VARCHAR"


def write_table(out: Path, rows: Sequence[Mapping[str, Any]], columns: Sequence[Column]) -> None:
    """Write the rows of runs, as CSV or Parquet by the name of the file. Errors: `StoreUnavailable`."""
    flat = [{**row, **row["params"]} for row in rows]
    data = _parquet(flat, columns) if out.suffix == ".parquet" else _csv(flat, columns)
    _put(out, data)


def _csv(rows: Sequence[Mapping[str, Any]], columns: Sequence[Column]) -> bytes:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([name for name, _ in columns])
    for row in rows:
        writer.writerow([_cell(row[name]) for name, _ in columns])
    return text.getvalue().encode()


def _cell(value: Any) -> Any:
    """A number, or text that no spreadsheet takes for a formula."""
    if isinstance(value, str) and value.startswith(FORMULA):
        return f"'{value}"
    return "" if value is None else value


def _parquet(rows: Sequence[Mapping[str, Any]], columns: Sequence[Column]) -> bytes:
    import duckdb

    with tempfile.TemporaryDirectory(prefix="artelier-") as scratch:
        source, target = Path(scratch, "rows.json"), Path(scratch, "rows.parquet")
        # A file is how rows enter DuckDB a hundred times faster than one by one.
        source.write_bytes(
            b"\n".join(msgspec.json.encode({name: row[name] for name, _ in columns}) for row in rows)
        )
        shape = ", ".join(f"{_quote(name)}: {_quote(kind)}" for name, kind in columns)
        with duckdb.connect(":memory:") as db:
            db.execute(
                f"COPY (SELECT * FROM read_json({_quote(str(source))},"
                f" format = 'newline_delimited', columns = {{{shape}}}))"
                f" TO {_quote(str(target))} (FORMAT parquet)"
            )
        return target.read_bytes()


def _quote(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _put(file: Path, data: bytes) -> None:
    """Put a file in place at once."""
    draft: str | None = None
    try:
        handle, draft = tempfile.mkstemp(dir=file.parent, prefix=".artelier-")
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        os.chmod(draft, 0o644)
        os.replace(draft, file)
    except OSError as error:
        if draft is not None and os.path.exists(draft):
            os.unlink(draft)
        raise StoreUnavailable(
            f"the file cannot be written: {error.strerror}",
            got=str(file),
            hint="Name another one, or make room; what is done stays.",
        ) from None
