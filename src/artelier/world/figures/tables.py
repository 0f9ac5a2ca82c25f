"""Tables of figures: columns that are computed for each row, and the files that rows are written to."""

from __future__ import annotations

import asyncio
import csv
import os
import re
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, NamedTuple

import msgspec

from artelier.errors import InvalidArtifact, InvalidRequest, StoreUnavailable
from artelier.tools.worker.queries import literal, quote_identifier
from artelier.world.mind_artifacts.condition import Valued, read_valued

FACTS = (
    "balance",
    "owns",
    "current_state",
    "ticks_in_state",
    "failure_count",
    "last_action.type",
    "last_action.success",
)
"""What there is to know of an agent, beside `tick` and `agent_id`."""

FIXED = ("tick", "agent_id")
"""The first columns of every table."""

COLUMNS_MAX = 200
NAME_CHARS_MAX = 100

Cell = int | float | str | bool | None


class Columns:
    """Checked columns: name to expression."""

    def __init__(self, given: Mapping[str, str]) -> None:
        """Errors: `InvalidRequest` that names the column, and what is wrong with it."""
        if len(given) > COLUMNS_MAX:
            raise InvalidRequest("too many columns", expected=f"at most {COLUMNS_MAX}")
        self._read: dict[str, Valued] = {}
        taken: set[str] = set(FIXED)
        for name, text in given.items():
            _check_name(name, taken)
            taken.add(name.casefold())
            self._read[name] = _readable(name, text)
        self.failed: dict[str, FailedCells] = {}
        """By column, the cells without a value because their expression could not be worked out."""

    @property
    def names(self) -> tuple[str, ...]:
        return (*FIXED, *self._read)

    def row(self, facts: Mapping[str, Any]) -> tuple[Cell, ...]:
        """The cells of one agent and tick."""
        cells: list[Cell] = [facts[name] for name in FIXED]
        for name, expression in self._read.items():
            worth = expression.value(facts)
            if worth.error:
                before = self.failed.get(name, FailedCells(0, worth.error))
                self.failed[name] = FailedCells(before.cells + 1, before.why)
            cells.append(worth.value)
        return tuple(cells)


class FailedCells(NamedTuple):
    """Cells of a column that are empty, and why the first one is."""

    cells: int
    why: str


def read_columns(given: Sequence[str]) -> dict[str, str]:
    """`["rich=balance > 100"]` as `{"rich": "balance > 100"}`.

    Errors: `InvalidRequest` for what is no pair, or for a name that is given twice.
    """
    found: dict[str, str] = {}
    for text in given:
        column, sign, expression = text.partition("=")
        if not column.strip() or not sign or not expression.strip():
            raise InvalidRequest(
                "--set takes a column and an expression", expected="COLUMN=EXPRESSION", got=text[:200]
            )
        if column.strip() in found:
            raise InvalidRequest(f"--set {column[:200]} is given twice", expected="each column once")
        found[column.strip()] = expression.strip()
    return found


def columns_of(given: Mapping[str, str]) -> Columns:
    """The columns that are asked for; all facts if none are. Errors: those of `Columns`."""
    return Columns(given or {name.replace(".", "_"): name for name in FACTS})


def _readable(name: str, text: object) -> Valued:
    if not isinstance(text, str):
        raise InvalidRequest(f"column {name} has no expression", expected="a text", got=repr(text))
    try:
        read = read_valued(text)
    except InvalidArtifact as error:
        raise InvalidRequest(
            f"column {name}: {error.message}", expected=error.expected, got=error.got
        ) from None
    unknown = [one for one in read.names if one not in (*FIXED, *FACTS)]
    if unknown:
        raise InvalidRequest(
            f"column {name} asks for a fact that there is not",
            expected=f"of {', '.join((*FIXED, *FACTS))}",
            got=unknown[0],
        )
    return read


def _check_name(name: str, taken: set[str]) -> None:
    # Databases do not tell columns apart by capitals.
    if not 0 < len(name) <= NAME_CHARS_MAX or not name.isprintable() or name.casefold() in taken:
        raise InvalidRequest(
            "this is no name of a column",
            expected=f"1 to {NAME_CHARS_MAX} printable characters, each name once, not {' or '.join(FIXED)}",
            got=repr(name)[:120],
        )


# --------------------------------------------------------------------------- table writer
# Rows as they come, into a file of CSV or Parquet. A file is complete or not there.
# Text in CSV never begins as a formula of a spreadsheet; numbers stay numbers.


SUFFIXES = (".csv", ".parquet")

FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")
"""How a cell begins that a spreadsheet might obey (OWASP, CSV injection)."""

_NUMBER = re.compile(r"[+-]?\d+(\.\d+)?")


def check_table(out: Path) -> Path:
    """Errors: `InvalidRequest` for a file of neither format."""
    if out.suffix not in SUFFIXES:
        raise InvalidRequest("--out", expected="FILE.csv or FILE.parquet", got=str(out))
    return out


async def write_rows(out: Path, names: Sequence[str], rows: AsyncIterator[tuple[Any, ...]]) -> int:
    """Write a table, as CSV or Parquet by the name of the file; how many rows it has.

    Shapes: a row has a number, text, true, false or None for each name. A column of Parquet has the type of
    all its values, text if they differ. Memory: one row; a Parquet passes through a file beside it.
    Errors: `InvalidRequest` for another format; `StoreUnavailable` if the file cannot be written.
    """
    check_table(out)
    draft: str | None = None
    try:
        handle, draft = tempfile.mkstemp(dir=out.parent, prefix=".artelier-")
        with os.fdopen(handle, "w", encoding="utf-8", newline="") as file:
            if out.suffix == ".csv":
                count = await _csv(file, names, rows)
            else:
                count = await _parquet(file, Path(draft), names, rows)
        os.chmod(draft, 0o644)
        os.replace(draft, out)
    except OSError as error:
        raise StoreUnavailable(
            f"the file cannot be written: {error.strerror or error}", got=str(out)
        ) from None
    finally:
        if draft is not None:
            with suppress(FileNotFoundError):  # it is in its place
                os.unlink(draft)
    return count


async def _csv(file: IO[str], names: Sequence[str], rows: AsyncIterator[tuple[Any, ...]]) -> int:
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow([cell(name) for name in names])
    count = 0
    async for row in rows:
        writer.writerow([cell(value) for value in row])
        count += 1
    file.flush()
    await asyncio.to_thread(os.fsync, file.fileno())
    return count


def cell(value: object) -> object:
    """Return what stands in a cell of CSV: a number, or text that no spreadsheet takes for a formula."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str) and value.startswith(FORMULA) and not _NUMBER.fullmatch(value):
        return f"'{value}"
    return value


async def _parquet(
    file: IO[str], draft: Path, names: Sequence[str], rows: AsyncIterator[tuple[Any, ...]]
) -> int:
    """The rows as lines of JSON, from which DuckDB makes the table in place of the draft."""
    keys = [f"c{n}" for n in range(len(names))]
    kinds: list[set[str]] = [set() for _ in names]
    count = 0
    async for row in rows:
        for kind, value in zip(kinds, row, strict=True):
            if value is not None:
                kind.add(_type(value))
        file.write(msgspec.json.encode(dict(zip(keys, row, strict=True))).decode() + "\n")
        count += 1
    file.flush()
    shape = ", ".join(f"{key}: '{_common(kind)}'" for key, kind in zip(keys, kinds, strict=True))
    chosen = ", ".join(f"{key} AS {quote_identifier(name)}" for key, name in zip(keys, names, strict=True))
    target = draft.with_suffix(".parquet")
    await asyncio.to_thread(
        _convert,
        draft,
        target,
        f"COPY (SELECT {chosen} FROM read_json({literal(str(draft))},"
        f" format = 'newline_delimited', columns = {{{shape}}}))"
        f" TO {literal(str(target))} (FORMAT parquet)",
    )
    return count


def _convert(draft: Path, target: Path, statement: str) -> None:
    """Let DuckDB read the draft, and put the table in its place. A large table takes long: in a thread."""
    import duckdb

    try:
        with duckdb.connect(":memory:") as db:
            db.execute(statement)
        os.replace(target, draft)
    except duckdb.Error as error:
        raise StoreUnavailable(f"the table cannot be written: {error}"[:500]) from None
    finally:
        target.unlink(missing_ok=True)


def _type(value: object) -> str:
    if isinstance(value, bool):
        return "BOOLEAN"
    if isinstance(value, int):
        return "BIGINT" if -(2**63) <= value < 2**63 else "DOUBLE"
    return "DOUBLE" if isinstance(value, float) else "VARCHAR"


def _common(kinds: set[str]) -> str:
    if len(kinds) == 1:
        return next(iter(kinds))
    return "DOUBLE" if kinds == {"BIGINT", "DOUBLE"} else "VARCHAR"
