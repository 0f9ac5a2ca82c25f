"""Text files and tables of the helper process: encodings, CSV, TSV and SQLite, rows, names, refusals."""

from __future__ import annotations

import codecs
import csv
import itertools
import os
import re
import sqlite3
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from typing import IO, TYPE_CHECKING, Any

from artelier.tools.worker.columns import AUTO, forms_of
from artelier.tools.worker.queries import RawTable, quote_identifier

if TYPE_CHECKING:
    import duckdb


UTF_8 = "utf-8-sig"
NOT_UTF8 = "it is not UTF-8; read as Windows-1252"
GUESS_SHARE_MAX = 0.3
"""Of the bytes, those beyond ASCII: a text in a Western language has few of them, another has most."""
_CONTROLS = bytes(one for one in range(0x20) if one not in b"\t\n\f\r\x1b")


class UnknownEncoding(ValueError):
    """A text whose encoding cannot be told; its message is for the model."""


def encoding_of(raw: bytes) -> tuple[str, str]:
    """Return the codec of a text and a note about it, empty for UTF-8 and UTF-16 with their marks.

    Errors: `UnknownEncoding` for binary content and for bytes that could be any of several encodings.
    """
    if raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        try:
            raw.decode("utf-16")
        except UnicodeDecodeError:
            raise UnknownEncoding("the file is binary, not text") from None
        return "utf-16", ""
    if b"\0" in raw:
        raise UnknownEncoding("the file is binary, not text")
    try:
        raw.decode(UTF_8)
    except UnicodeDecodeError as error:
        return _guess(raw, at=error.start)
    return UTF_8, ""


def _guess(raw: bytes, *, at: int) -> tuple[str, str]:
    beyond = len(raw.translate(None, bytes(range(0x80))))
    controls = len(raw) - len(raw.translate(None, _CONTROLS))
    try:
        raw.decode("cp1252")
    except UnicodeDecodeError:
        beyond = len(raw)
    if controls or beyond > len(raw) * GUESS_SHARE_MAX:
        raise UnknownEncoding(f"it is not UTF-8 text (byte {at}), and its encoding is unknown")
    return "cp1252", NOT_UTF8


def decode(raw: bytes) -> tuple[str, str]:
    """Return a text and the note about its encoding. Errors: `UnknownEncoding`."""
    codec, note = encoding_of(raw)
    return raw.decode(codec), note


LINE_CHARS_MAX = 500
BEFORE_CHARS = 150
"""Of an excerpt, before what was found."""
EXCERPTS_MAX = 20
"""Of one line."""


def excerpts(line: str, places: Iterable[int]) -> list[tuple[str, int]]:
    """Return what is quoted of a line for the places where something was found in it.

    Shapes: the text and its column, counted from 1. A short line is quoted whole, once; of a long one, a
    piece around each place that no piece before it shows.
    """
    found: list[tuple[str, int]] = []
    shown = -1
    for place in places:
        if len(line) <= LINE_CHARS_MAX:
            return [(line, 1)]
        if place < shown:
            continue
        start = max(0, place - BEFORE_CHARS)
        shown = start + LINE_CHARS_MAX
        found.append((line[start:shown], start + 1))
        if len(found) >= EXCERPTS_MAX:
            break
    return found


# --------------------------------------------------------------------------- tables


_PLACE = re.compile(r"\(?(?:/dev/fd|/proc/self/fd)/\d+\)?|/nonexistent\S*")


class Failure(Exception):
    """A text for the model, with an optional hint."""

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint


def first_line(error: BaseException, *, chars_max: int = 200) -> str:
    """The first line of what a library says, without places of this process in it."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return _PLACE.sub("the file", lines[0] if lines else type(error).__name__)[:chars_max]


# --------------------------------------------------------------------------- table names
# Names of tables: from file names to SQL identifiers that need no quotes.


NAME_CHARS_MAX = 60

# Words that DuckDB 2.0 does not take as the name of a table without quotes; a test compares.
RESERVED: frozenset[str] = frozenset(
    "all analyse analyze and anti any array as asc asof asymmetric at authorization binary both by "
    "case cast check collate collation column concurrently constraint create cross default "
    "deferrable desc describe distinct do else end except false fetch for foreign freeze from full "
    "glob group having ilike in initially inner intersect into is isnull join lambda lateral "
    "leading left like limit natural not notnull null offset on only or order outer overlaps pivot "
    "pivot_longer pivot_wider placing positional primary qualify references returning right select "
    "semi show similar some summarize symmetric table tablesample then to trailing true union "
    "unique unpack unpivot using variadic verbose when where window with".split()
)


def identifier(text: str) -> str:
    """Lower case, everything but letters and digits as `_`, never empty, never reserved."""
    name = "".join(char if char.isalnum() else "_" for char in text.lower())[:NAME_CHARS_MAX]
    if not name.strip("_"):
        name = "table_"
    if name[0].isdigit():
        name = f"t_{name}"
    return f"{name}_" if name in RESERVED else name


def make_unique(name: str, taken: Iterable[str]) -> str:
    """The name, or with the first free suffix `_2`, `_3`, ..."""
    used = set(taken)
    number, chosen = 1, name
    while chosen in used:
        number += 1
        chosen = f"{name}_{number}"
    return chosen


def columns_from(header: Iterable[str]) -> list[str]:
    """Names for the columns of a header: trimmed, never empty, never twice (case ignored)."""
    names: list[str] = []
    lowered: set[str] = set()
    for number, text in enumerate(header, start=1):
        name = text.strip() or f"column_{number}"
        chosen = name
        suffix = 1
        while chosen.lower() in lowered:
            suffix += 1
            chosen = f"{name}_{suffix}"
        lowered.add(chosen.lower())
        names.append(chosen)
    return names


# --------------------------------------------------------------------------- rows
# Rows of text become a table: loaded as they are, then every column gets its type from `columns`.


NOTES_CHARS_MAX = 2_000


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
    is_semicolon: bool = False,
) -> str:
    """Make a table of rows and return the notes on it; `types` None: by the form of the values.

    Errors: `Failure`, `duckdb.Error`.
    """
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
        return load_text(
            db,
            table,
            place,
            columns,
            delimiter=_DELIMITER,
            count=count,
            null=_NULL,
            types=types,
            is_semicolon=is_semicolon,
        )


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
    is_semicolon: bool = False,
) -> str:
    """Make a table of a delimited file with a header, and return the notes on its columns.

    Shapes: `count` rows must come out; a type is one of DuckDB's, None for text as it is, or a rule of
    `columns`.
    `is_semicolon`: the file is delimited as where a comma marks decimals.

    Errors: `Failure` if they do not, `duckdb.Error` for rows it can't read.
    """
    raw = RawTable(db)
    raw.create(columns, place, delimiter=delimiter, null=null)
    try:
        # DuckDB's reader drops some malformed rows without a word, even in strict mode.
        if (loaded := raw.count()) != count:
            raise Failure(f"{count} rows were written and {loaded} were read")
        found = forms_of(raw, columns, types or [AUTO] * len(columns), is_semicolon=is_semicolon)
        raw.convert(table, [form.expression for form in found])
        return "; ".join(form.note for form in found if form.note)[:NOTES_CHARS_MAX]
    finally:
        raw.drop()


# --------------------------------------------------------------------------- delimited
# CSV and TSV files as tables. The first line is the header; every row must have as many values as it.
# The file is read twice: once here, strictly, to find out what is in it, and once by DuckDB for speed. If
# the two do not agree on the number of rows, what was read here counts.


HEADER_BYTES_MAX = 256 * 1024
VALUE_CHARS_MAX = 10_000_000
COLUMNS_MAX = 1_000
HEADER_ROWS_MAX = 20
"""That are looked at for a header below titles."""
TITLE_CHARS_MAX = 300
DELIMITERS = (",", ";", "\t", "|")
_SAID_DELIMITER = re.compile(r"(?i)sep=([,;\t|])\s*")
"""A first line by which a file tells Excel its delimiter."""


def load_delimited(
    db: duckdb.DuckDBPyConnection, table: str, *, descriptor: int, kind: str, error: type[Exception]
) -> str:
    """Make a table of a delimited file and return the notes on it. Shapes: `error` is what DuckDB raises.

    Errors: `Failure`.
    """
    csv.field_size_limit(VALUE_CHARS_MAX)
    codec, note = _codec(descriptor)
    delimiter, above = _layout(descriptor, codec, kind)

    def read() -> Iterator[list[str]]:
        return _rows(descriptor, delimiter, codec, skipping=len(above))

    rows = read()
    header = next(rows, None)
    if header is None or not any(name.strip() for name in header):
        raise Failure("the header is empty")
    if len(header) > COLUMNS_MAX:
        raise Failure(f"the header has {len(header)} columns, more than {COLUMNS_MAX}")
    columns = columns_from(header)
    empty = count = 0
    for row in rows:
        count += 1
        empty += _is_empty(row)
    place = f"/dev/fd/{descriptor}"
    is_semicolon = delimiter == ";"
    try:
        if codec != UTF_8 or above or empty:
            raise Failure("DuckDB reads UTF-8, from the header on, and rows without a value too")
        notes = load_text(
            db, table, place, columns, delimiter=delimiter, count=count, is_semicolon=is_semicolon
        )
    except (Failure, error):
        again = read()
        next(again)
        values = ([value or None for value in row] for row in again if not _is_empty(row))
        notes = load_rows(db, table, columns, values, is_semicolon=is_semicolon)
    titles = " | ".join(filter(None, above))[:TITLE_CHARS_MAX]
    titles = f"above the header: {titles}" if titles else ""
    left_out = f"left out, rows without a value: {empty}" if empty else ""
    return "; ".join(filter(None, (note, titles, left_out, notes)))


def _layout(descriptor: int, codec: str, kind: str) -> tuple[str, list[str]]:
    """Return the delimiter, and the lines above the header: titles, or one that tells Excel the delimiter.

    Titles are lines of one value above rows that all have the same number of several. Errors: `Failure`.
    """
    line = _first_line(descriptor, codec)
    if (said := _SAID_DELIMITER.fullmatch(line.removeprefix("\ufeff"))) is not None:
        return said[1], [""]
    if kind == "tsv":
        return "\t", []
    if max(widths := [_width(line, mark) for mark in DELIMITERS]) == 1:
        with open(f"/dev/fd/{descriptor}", encoding=codec, newline="") as file:
            lines = [file.readline(HEADER_BYTES_MAX) for _ in range(HEADER_ROWS_MAX)]
        found: list[tuple[int, int, str, list[str]]] = []
        for mark in DELIMITERS:
            rows = list(csv.reader(filter(None, lines), delimiter=mark))
            start = next((at for at, row in enumerate(rows) if sum(map(bool, row)) > 1), 0)
            if 0 < start < len(rows) - 1 and len({len(row) for row in rows[start:] if row}) == 1:
                titles = ["".join(row).strip() for row in rows[:start]]
                found.append((start, -len(rows[start]), mark, titles))
        if found:
            return min(found)[2:]
    return DELIMITERS[widths.index(max(widths))], []


def _is_empty(row: Sequence[str]) -> bool:
    """Return True for a row of several values, none of which says anything."""
    return len(row) > 1 and not any(map(str.strip, row))


def _codec(descriptor: int) -> tuple[str, str]:
    """Return the codec of the whole file, and a note if it was guessed. Errors: `Failure`."""
    head = os.pread(descriptor, HEADER_BYTES_MAX, 0)
    if not head.strip():
        raise Failure("the file is empty")
    if b"\0" in head and not head.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise Failure("the file is binary, not text")
    with open(f"/dev/fd/{descriptor}", "rb") as file:
        try:
            return encoding_of(file.read())
        except ValueError as problem:
            raise Failure(str(problem)) from None


def _first_line(descriptor: int, codec: str) -> str:
    raw = os.pread(descriptor, HEADER_BYTES_MAX, 0)
    line = (raw.decode(codec, "replace").splitlines() or [""])[0]
    if len(line.encode("utf-8", "replace")) >= HEADER_BYTES_MAX:
        raise Failure("the first line is too long for a header")
    return line


def _width(line: str, delimiter: str) -> int:
    """Into how many names a delimiter cuts the header; the one that makes the most is taken."""
    return max((len(row) for row in csv.reader([line], delimiter=delimiter)), default=0)


def _rows(descriptor: int, delimiter: str, codec: str, *, skipping: int = 0) -> Iterator[list[str]]:
    """The header and all rows, after lines to skip. Errors: `Failure` with the line, if one is malformed."""
    reader: Any = None
    width = 0
    try:
        with open(f"/dev/fd/{descriptor}", encoding=codec, newline="") as file:
            reader = csv.reader(file, delimiter=delimiter, strict=True)
            for row in itertools.islice(reader, skipping, None):
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
        raise Failure("the file is not text of one encoding") from None
    except csv.Error as broken:
        line = reader.line_num if reader is not None else 1
        raise Failure(f"line {line}: {str(broken)[:100]}") from None


# --------------------------------------------------------------------------- sqlite
# Tables of an SQLite file. DuckDB's reader for them is a download, so rows go through Python.


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

    def load(self, db: duckdb.DuckDBPyConnection, table: str, *, source: str) -> str:
        """Copy one table with the types of its values. Errors: `Failure`, `duckdb.Error`."""
        try:
            names = [row[1] for row in self._db.execute(f"PRAGMA table_info({quote_identifier(source)})")]
            if not 0 < len(names) <= COLUMNS_MAX:
                raise Failure(f"the table has {len(names)} columns")
            types = self._types(source, names)
            rows = self._db.execute(
                f"SELECT {', '.join(map(quote_identifier, names))} FROM {quote_identifier(source)}"
            )
            return load_rows(
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
            f"coalesce(max(typeof({quote_identifier(name)}) = '{kind}'), 0)"
            for name in names
            for kind in kinds
        )
        flags = self._db.execute(f"SELECT {census} FROM {quote_identifier(source)}").fetchone()
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


def _cell(value: object, kind: str) -> str | None:
    if value is None:
        return None
    if isinstance(value, bytes):
        return "".join(f"\\x{byte:02X}" for byte in value) if kind == "BLOB" else value.hex()
    if isinstance(value, float):
        return repr(value)
    return str(value).replace("\0", "")


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")
