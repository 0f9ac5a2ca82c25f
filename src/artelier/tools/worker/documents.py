"""Files that hold tables without being delimited text: JSON, JSON lines, workbooks and logs.

Each is parsed whole, in the helper process. What a table leaves out (titles above a header, fields beside the
rows) is said in its note, so that nothing is lost without a word.
"""

from __future__ import annotations

import datetime
import json
import math
import os
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeGuard, cast

from artelier.tools.worker.columns import AUTO, PLAIN, WRITTEN
from artelier.tools.worker.tables import COLUMNS_MAX, Failure, columns_from, decode, load_rows

if TYPE_CHECKING:
    import duckdb

JSON_BYTES_MAX = 64 * 1024 * 1024
"""A document in memory takes up to thirty times its size."""
WORKBOOK_BYTES_MAX = 32 * 1024 * 1024
UNPACKED_BYTES_MAX = 512 * 1024 * 1024
"""Of a workbook, which is a ZIP file, as its directory says; one that lies is stopped by its memory."""
LOG_BYTES_MAX = 64 * 1024 * 1024
PARTS_MAX = 50
"""Tables of one file."""
DEPTH_MAX = 3
"""Levels of objects inside a record that become columns of their own; deeper ones stay JSON."""
HEADER_ROWS_MAX = 20
NOTE_CHARS_MAX = 300
TOTALS = frozenset(("total", "totals", "grand total", "sum", "gesamt", "gesamtsumme", "summe", "insgesamt"))
"""How the last row of a sheet is called that adds up those above."""

Cell = str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentTable:
    """A table that was found in a file."""

    label: str = ""
    """Its place inside the file: a sheet, a path of keys; empty if it is the whole file."""
    columns: Sequence[str]
    rows: Iterable[Sequence[Cell]]
    types: Sequence[str | None] = field(default=())
    """By column, as `load_rows` takes them."""
    note: str = ""

    def load(self, db: duckdb.DuckDBPyConnection, table: str) -> str:
        """Make the table and return the notes on it. Errors: `Failure`, `duckdb.Error`."""
        types = self.types or [AUTO] * len(self.columns)
        return "; ".join(
            filter(None, (self.note, load_rows(db, table, self.columns, self.rows, types=types)))
        )


def read_document(kind: str, descriptor: int) -> list[DocumentTable]:
    """Return the tables of a file. Errors: `Failure` if it is broken, too large, or holds none."""
    try:
        parts = list(_READERS[kind](descriptor))
    except MemoryError:
        raise Failure("the file needs too much memory") from None
    except RecursionError:
        raise Failure("the file is nested too deeply") from None
    if not parts:
        raise Failure("the file holds no table")
    if len(parts) > PARTS_MAX:
        raise Failure(f"the file holds {len(parts)} tables, more than {PARTS_MAX}")
    return parts


def _read(descriptor: int, *, bytes_max: int) -> bytes:
    size = os.fstat(descriptor).st_size
    if size > bytes_max:
        raise Failure(f"{size} bytes, more than {bytes_max} for a file of this kind")
    with open(f"/dev/fd/{descriptor}", "rb") as file:
        raw = file.read(bytes_max + 1)
    if not raw.strip():
        raise Failure("the file is empty")
    return raw


# --------------------------------------------------------------------------- JSON


def _json_parts(descriptor: int) -> Iterator[DocumentTable]:
    text, note = decode(_read(descriptor, bytes_max=JSON_BYTES_MAX))
    document = _parse(text)
    found = list(_tables_in(document))
    if not found and isinstance(document, dict):
        found = [("", [cast("dict[str, Any]", document)], "")]
    for label, records, beside in found:
        yield _part(records, label=label, note="; ".join(filter(None, (note, beside))))


def _json_lines(descriptor: int) -> Iterator[DocumentTable]:
    text, note = decode(_read(descriptor, bytes_max=JSON_BYTES_MAX))
    records: list[Any] = []
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            records.append(_parse(line, line=number))
    yield _part(records, note=note)


def _parse(text: str, *, line: int = 0) -> object:
    try:
        # A number keeps the digits that it is written with.
        return json.loads(text, parse_float=_Number, parse_int=_Number, parse_constant=_Number)
    except json.JSONDecodeError as error:
        where = f"line {line or error.lineno}, character {error.colno}"
        raise Failure(f"{where}: not JSON ({error.msg[:80]})") from None


class _Number(str):
    """A number as it is written."""

    __slots__ = ()


def _tables_in(
    document: object, *, path: str = "", depth: int = 0
) -> Iterator[tuple[str, list[object], str]]:
    """Yield every list of records of a document: its path, the records, and the fields that stand beside."""
    if isinstance(document, list):
        records = cast("list[Any]", document)
        if records:
            yield path, records, ""
        return
    if not isinstance(document, dict) or depth > DEPTH_MAX:
        return
    members = cast("dict[str, Any]", document)
    objects = {
        key: cast("dict[str, Any]", one) for key, one in members.items() if one and isinstance(one, dict)
    }
    if len(members) > 1 and len(objects) == len(members):
        keyed: list[Any] = [{"key": key, **one} for key, one in objects.items()]
        if len(set(map(frozenset, objects.values()))) <= max(1, len(keyed) // 2):
            yield path, keyed, ""
            return
    beside = [f"{key} = {_text(one)}" for key, one in members.items() if not isinstance(one, list | dict)]
    note = f"beside the rows: {', '.join(beside)}"[:NOTE_CHARS_MAX] if beside else ""
    for key, one in members.items():
        if _is_records(one) or isinstance(one, dict):
            inner = f"{path}.{key}" if path else key
            for label, records, said in _tables_in(cast(object, one), path=inner, depth=depth + 1):
                yield label, records, "; ".join(filter(None, (note, said)))


def _is_records(value: object) -> TypeGuard[list[object]]:
    if not isinstance(value, list):
        return False
    items = cast("list[Any]", value)
    return bool(items) and all(isinstance(one, dict) for one in items)


def _part(records: Sequence[Any], *, label: str = "", note: str = "") -> DocumentTable:
    if all(isinstance(one, list) for one in records):
        return _of_lists([cast("list[Any]", one) for one in records], label=label, note=note)
    flat = [_flat(one) for one in records]
    paths = list(dict.fromkeys(path for one in flat for path in one))
    if not 0 < len(paths) <= COLUMNS_MAX:
        raise Failure(f"the records have {len(paths)} fields, expected 1 to {COLUMNS_MAX}")
    types = [_type_of(one.get(path) for one in flat) for path in paths]
    rows = ([_text(one.get(path)) for path in paths] for one in flat)
    names = columns_from("_".join(path) for path in paths)
    return DocumentTable(label=label, columns=names, rows=rows, types=types, note=note)


def _of_lists(records: Sequence[list[Any]], *, label: str, note: str) -> DocumentTable:
    """Rows without names: the first one is the header if it holds texts only."""
    first, width = records[0], max(map(len, records))
    if not 0 < width <= COLUMNS_MAX:
        raise Failure(f"the rows have {width} values, expected 1 to {COLUMNS_MAX}")
    is_header = bool(first) and all(isinstance(one, str) and not isinstance(one, _Number) for one in first)
    header = [*map(str, first), *[""] * (width - len(first))] if is_header else [""] * width
    body = [[*one, *[None] * (width - len(one))] for one in records[is_header:]]
    types = [_type_of(row[number] for row in body) for number in range(width)]
    rows = ([_text(one) for one in row] for row in body)
    return DocumentTable(label=label, columns=columns_from(header), rows=rows, types=types, note=note)


def _flat(record: object) -> dict[tuple[str, ...], Any]:
    """Return the values of a record by their paths; a value that is no object has the path `value`."""
    if not isinstance(record, dict):
        return {("value",): record}
    found: dict[tuple[str, ...], Any] = {}
    pending: list[tuple[tuple[str, ...], Any]] = [((), record)]
    while pending:
        path, value = pending.pop()
        if isinstance(value, dict) and value and len(path) < DEPTH_MAX:
            members = cast("dict[str, Any]", value).items()
            pending += [((*path, key), one) for key, one in reversed(members)]
        else:
            found[path or ("value",)] = value
    return found


def _type_of(values: Iterable[Any]) -> str | None:
    """Return the type of a column by what JSON says of its values."""
    kinds = {
        "null"
        if one is None
        else "truth"
        if isinstance(one, bool)
        else "number"
        if isinstance(one, _Number)
        else "text"
        if isinstance(one, str)
        else "nested"
        for one in values
    } - {"null"}
    if kinds == {"nested"}:
        return "JSON"
    if kinds == {"text"}:
        return WRITTEN
    return PLAIN if kinds in ({"number"}, {"truth"}) else None


def _text(value: object) -> Cell:
    if value is None or isinstance(value, str):
        return None if value is None else str(value).replace("\0", "")
    if isinstance(value, bool):
        return str(value).lower()
    return json.dumps(value, ensure_ascii=False, default=str)


# --------------------------------------------------------------------------- workbooks


def _sheets(descriptor: int) -> Iterator[DocumentTable]:
    try:
        import python_calamine as calamine
    except ImportError:
        raise Failure("workbooks can't be read: the package python-calamine is not installed") from None
    _read_bounds(descriptor)
    with open(f"/dev/fd/{descriptor}", "rb") as file:
        try:
            workbook = calamine.CalamineWorkbook.from_filelike(file)
            for sheet in workbook.sheets_metadata:
                if sheet.typ == calamine.SheetTypeEnum.WorkSheet:
                    found = workbook.get_sheet_by_name(sheet.name)
                    cells = found.to_python(skip_empty_area=True)
                    _fill_merged(found, cells)
                    is_hidden = sheet.visible != calamine.SheetVisibleEnum.Visible
                    if (part := _sheet(sheet.name, cells, is_hidden=is_hidden)) is not None:
                        yield part
        except calamine.PasswordError:
            raise Failure("the workbook is protected by a password") from None
        except (calamine.CalamineError, OSError, ValueError) as error:
            raise Failure(f"not a workbook: {str(error)[:150]}") from None


def _fill_merged(sheet: Any, cells: list[list[Any]]) -> None:
    """Put a value that is merged over several rows into each of them."""
    top, left = sheet.start or (0, 0)
    room = sum(map(len, cells))  # ranges that lie on each other would take longer than the sheet is large
    for (first, column), (last, _) in sheet.merged_cell_ranges or ():
        room -= last - first
        if room < 0:
            break
        if first >= top and 0 <= column - left < len(cells[0]):
            for row in cells[first + 1 - top : last + 1 - top]:
                row[column - left] = cells[first - top][column - left]


def _read_bounds(descriptor: int) -> None:
    size = os.fstat(descriptor).st_size
    if size > WORKBOOK_BYTES_MAX:
        raise Failure(f"{size} bytes, more than {WORKBOOK_BYTES_MAX} for a workbook")
    if os.pread(descriptor, 4, 0) != b"PK\x03\x04":
        return  # an old workbook, which is not packed
    try:
        with open(f"/dev/fd/{descriptor}", "rb") as file, zipfile.ZipFile(file) as packed:
            unpacked = sum(one.file_size for one in packed.infolist())
    except (zipfile.BadZipFile, OSError, ValueError) as error:
        raise Failure(f"not a workbook: {str(error)[:150]}") from None
    if unpacked > UNPACKED_BYTES_MAX:
        raise Failure(f"it unpacks to {unpacked} bytes, more than {UNPACKED_BYTES_MAX}")


def _sheet(name: str, cells: Sequence[Sequence[Any]], *, is_hidden: bool) -> DocumentTable | None:
    """Return a sheet as a table; None for one without rows below a header.

    The header is the first row that fills at least half of the columns: titles stand in rows with less.
    """
    filled = [sum(one not in ("", None) for one in row) for row in cells]
    widest = max(filled, default=0)
    start = next((at for at in range(min(HEADER_ROWS_MAX, len(cells))) if filled[at] * 2 >= widest > 0), None)
    if start is None:
        return None
    width = len(cells[start])
    if width > COLUMNS_MAX:
        raise Failure(f"the sheet {name[:60]!r} has {width} columns, more than {COLUMNS_MAX}")
    header = [_cell(one) or "" for one in cells[start]]
    if all(isinstance(one, int | float) and not isinstance(one, bool) for one in cells[start] if one != ""):
        header, start = [""] * width, start - 1  # numbers only: a sheet without a header
    above = [text for row in cells[: max(0, start)] for one in row if (text := _cell(one))]
    notes = ["the sheet is hidden"] if is_hidden else []
    if above:
        notes.append(f"above the header: {' | '.join(above)}"[:NOTE_CHARS_MAX])
    lines = [at for at in range(start + 1, len(cells)) if filled[at]]
    body = [cells[at] for at in lines]
    if not body:
        return None
    if len(body) > 2 and _is_total(body[-1], body[:-1]):
        said = " | ".join(text for one in body[-1] if (text := _cell(one)))
        notes.append(f"left out, the totals of the last row: {said}"[:NOTE_CHARS_MAX])
        body, lines = body[:-1], lines[:-1]
    columns = (at for row in (header, *body) for at, one in enumerate(row) if one not in ("", None))
    if _is_parted(lines) or _is_parted(columns):
        notes.append("an empty row or column parts it, so that it may hold several tables")
    rows = ([_cell(one) for one in row] for row in body)
    return DocumentTable(label=name, columns=columns_from(header), rows=rows, note="; ".join(notes))


def _is_parted(places: Iterable[int]) -> bool:
    """Return True if some place between the first and the last is missing."""
    found = set(places)
    return max(found) - min(found) >= len(found)


def _is_total(row: Sequence[Any], above: Sequence[Sequence[Any]]) -> bool:
    """Return True for a row that is called a total, and whose figures are the sums of those above it."""
    if str(next((one for one in row if one != ""), "")).strip(" :").casefold() not in TOTALS:
        return False
    figures = [(at, one) for at, one in enumerate(row) if _is_figure(one)]
    sums = [sum(line[at] for line in above if _is_figure(line[at])) for at, _ in figures]
    return bool(figures) and all(
        math.isclose(one, total, rel_tol=1e-9, abs_tol=0.005)
        for (_, one), total in zip(figures, sums, strict=True)
    )


def _is_figure(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _cell(value: object) -> Cell:
    if value is None or value == "":
        return None
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)
    if isinstance(value, datetime.datetime | datetime.date | datetime.time):
        return value.isoformat()
    return str(value).replace("\0", "") or None


# --------------------------------------------------------------------------- logs


def _log_lines(descriptor: int) -> Iterator[DocumentTable]:
    text, note = decode(_read(descriptor, bytes_max=LOG_BYTES_MAX))
    lines = text.replace("\r\n", "\n").removesuffix("\n").split("\n")
    rows = ([str(number), line] for number, line in enumerate(lines, start=1))
    yield DocumentTable(columns=["line", "text"], rows=rows, types=["BIGINT", None], note=note)


_READERS: Mapping[str, Any] = {
    "json": _json_parts,
    "jsonl": _json_lines,
    "workbook": _sheets,
    "log": _log_lines,
}
