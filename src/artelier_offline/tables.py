"""Tables and columns as the tools describe them, the facts of a profile query, and what these forbid to
compute.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from functools import cached_property
from typing import Any, Literal, cast

from artelier.errors import OfflineCannot
from artelier_offline.words import code, listed, name_words

COLUMNS_MAX = 150
"""Of all tables together; beyond that nothing is answered."""
PROFILE_ROWS_MAX = 2_000

Type = Literal["number", "text", "date", "other"]

MONEY = frozenset("revenue sale amount turnover income takings proceeds".split())
QUANTITY = frozenset("unit quantity qty piece".split())
ADDITIVE = (
    MONEY
    | QUANTITY
    | frozenset("cost expense spend spending payment fee donation hour minute visit click view".split())
)
"""Words of columns whose values are added up although the question does not say `total`."""
INTENSIVE = frozenset(
    "price rate ratio score rating average avg mean median temperature temp percent pct"
    " percentage share age speed level balance stock hand inventory latitude longitude lat lon"
    " index grade limit target minimum maximum min max per capacity cumulative rank salary".split()
)
"""Words of columns whose sum means nothing."""
KEYS = frozenset("id key code no nr number num sku isbn uuid ref reference".split())
"""Last words of columns that tell things apart."""
IDENTIFIERS = KEYS | frozenset("zip postcode phone year month week day quarter hour".split())
"""Last words of columns whose numbers are no figures."""
LIFECYCLE = frozenset(
    "status state stage active inactive closed open cancelled canceled cancellation deleted"
    " void voided archived leave left end ended exit terminated termination expired expiry"
    " retired returned refunded duplicate draft valid superseded".split()
)
"""Words of columns that may say that a row does not count."""
SCALES = frozenset("currency ccy uom unit".split())
"""Names of columns that say in what the other columns are measured."""
TOTALS = (
    "total|totals|subtotal|sum|grand total|overall|all|gesamt|gesamtsumme|summe|zwischensumme|insgesamt"
    "|total général|sous-total|somme|suma|total general|totale|totaal|razem|итого|всего|合計|合计"
).split("|")
"""Cells of rows that hold the sum of other rows."""
_TOTAL_OF = r"(\S+[ -]+){1,2}(sub)?totals?:?"
"""The form of such cells that name a group too, for SQL, which takes linear time."""
_STAND_INS = "-9, -99, -999, -9999, -99999, -999999"
"""Numbers that some programs write where there is none."""
_IS_GUESS = "not UTF-8"
"""Words of the note on a file whose encoding could be another one."""
_BLANKS = r"[\s\x{a0}\x{202f}]+"
_HEADER_NUMBER = re.compile(r"(?!(?:19|20)\d\d$)-?\d[\d.,]*")
"""A name of a column that may be a value of the first row; a year may be a name."""


@dataclass(frozen=True)
class Column:
    """A column of a table."""

    table: str
    name: str
    type: Type
    called: str
    """Its name in the file, which another column may have too."""
    note: str = ""
    """How its values are written, or what could not be told."""

    @cached_property
    def words(self) -> tuple[str, ...]:
        return name_words(self.called)

    @property
    def is_identifier(self) -> bool:
        return bool(self.words) and self.words[-1] in IDENTIFIERS

    @property
    def is_key(self) -> bool:
        return bool(self.words) and self.words[-1] in KEYS

    @property
    def is_measure(self) -> bool:
        return self.type == "number" and not self.is_identifier

    @property
    def is_additive(self) -> bool:
        return self.is_measure and not self.is_intensive and bool(set(self.words) & ADDITIVE)

    @property
    def is_intensive(self) -> bool:
        return bool(set(self.words) & INTENSIVE) or self.note.endswith("unit %")


@dataclass(frozen=True)
class Table:
    """A table with the file that it was read from."""

    name: str
    source: str
    columns: tuple[Column, ...]
    note: str = ""
    """On the table as a whole."""

    @cached_property
    def words(self) -> tuple[str, ...]:
        """The words of its name, without numbers at the end."""
        words = name_words(self.name)
        while len(words) > 1 and words[-1].isdigit():
            words = words[:-1]
        return words

    def of_type(self, kind: Type) -> list[Column]:
        return [one for one in self.columns if one.type == kind]

    @property
    def key(self) -> Column | None:
        """The column that should tell its rows apart by its name: `id`, or `order_id` of `orders`."""
        own = [
            one for one in self.columns if one.is_key and one.words[:-1] in ((), self.words[-1:], self.words)
        ]
        return own[0] if own else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """The profile of a column."""

    filled: int
    distinct: int
    folded: int
    """Distinct values; of texts without differences of case and spaces, of numbers the finite ones."""
    low: date | None = None
    high: date | None = None
    odd: str = ""
    """Of numbers the only negative value, if it is one that stands for none; of texts one beyond ASCII."""


@dataclass(slots=True, kw_only=True)
class Profile:
    """The tables, what is known of their columns, and the cells that a question names."""

    tables: tuple[Table, ...]
    skipped: tuple[str, ...] = ()
    rows: dict[str, int] = field(default_factory=dict[str, int])
    copies: dict[str, int] = field(default_factory=dict[str, int])
    """Rows of a table that are a whole copy of another one."""
    facts: dict[Column, Fact] = field(default_factory=dict[Column, Fact])
    cells: dict[str, list[tuple[Column, str]]] = field(default_factory=dict[str, list[tuple[Column, str]]])
    """Columns and values by the folded text of a cell."""

    lone: dict[str, str] = field(default_factory=dict[str, str])
    """A cell that has a row of its table for itself, by table."""

    def table(self, name: str) -> Table:
        return next(one for one in self.tables if one.name == name)

    def is_unique(self, column: Column) -> bool:
        fact = self.facts[column]
        return fact.filled == fact.distinct == self.rows[column.table]

    def check_rows(self, table: Table, used: Iterable[Column], *, literal: bool) -> list[str]:
        """Return notes on the rows of a table. `literal`: the question asks for rows as they stand in the
        file.

        Errors: `OfflineCannot` if it is open which of the rows count.
        """
        named, name = list(used), code(table.name)
        if "may hold several tables" in table.note:
            raise OfflineCannot(f"{name} is parted by an empty row or column, so it may hold several tables")
        if table.name in self.lone:
            cell = code(self.lone[table.name][:40])
            raise OfflineCannot(f"{name} has a row that holds nothing but {cell}, which may be a note")
        for column in named:
            odd, is_guess = self.facts[column].odd, _IS_GUESS in table.note
            if odd and (column.type == "number" or is_guess):
                why = (
                    "may stand for no value"
                    if column.type == "number"
                    else "is in an encoding that was guessed"
                )
                raise OfflineCannot(f"{code(odd[:40])} in {code(column.name)} {why}")
            if self.facts[column].folded != self.facts[column].distinct:
                odd = "writes the same value in several ways"
                raise OfflineCannot(
                    f"{code(column.name)} {odd if column.type == 'text' else 'holds what is no number'}"
                )
        for column in table.columns:
            if column.type == "number" and _HEADER_NUMBER.fullmatch(column.name):
                raise OfflineCannot(f"{name} may have no header: its first line holds {code(column.name)}")
        if literal:
            return []
        for column in table.columns:
            fact = self.facts[column]
            values = fact.distinct + (0 < fact.filled < self.rows[table.name])
            if column in named or column.type == "number" or values < 2:
                continue
            differ = f"the rows of {name} differ in {code(column.name)}, and it is not said which of them"
            if set(column.words) & LIFECYCLE or column.words in (("type",), ("kind",)):
                raise OfflineCannot(f"{differ} count")
            if column.type == "text" and set(column.words) & SCALES:
                raise OfflineCannot(f"{differ} are meant")
        cells = [cell for found in self.cells.values() for one, cell in found if one.table == table.name]
        if any(map(_is_total, cells)):
            raise OfflineCannot(f"{name} seems to have rows that hold the total of others")
        key, copies = table.key, self.copies[table.name]
        if key is not None and not self.is_unique(key):
            raise OfflineCannot(
                f"several rows of {name} have the same {code(key.name)}, so it is open what counts"
            )
        if copies and any(one.is_key for one in table.columns):
            raise OfflineCannot(
                f"{copies} rows of {name} are copies of others, and it is not said whether they count"
            )
        said = "row equals" if copies == 1 else "rows equal"
        return [f"{copies} {said} another row of {name} in every column; each counts."] if copies else []


def tables_from(answer: Any) -> tuple[tuple[Table, ...], tuple[str, ...]]:
    """Return the tables of a `describe_tables` answer, and notes on the files that are no tables.

    Errors: `OfflineCannot` if the answer has another shape.
    """
    try:
        tables = tuple(map(_table, answer["tables"]))
        skipped = tuple(
            f"Not read: {code(str(one['source']))}, {str(one.get('reason', 'no table')).rstrip('.')}."
            for one in answer.get("skipped", [])[:5]
        )
    except (KeyError, TypeError, AttributeError):
        raise OfflineCannot("the result of describe_tables has another shape than expected") from None
    return tables, skipped


def _table(found: Any) -> Table:
    name, names = str(found["name"]), [str(one["name"]) for one in found["columns"]]
    notes: dict[str, str] = {}
    of = ""  # notes on the table come first
    for said in str(found.get("note", "")).split("; "):
        head, _, rest = said.partition(": ")
        of, said = (head, rest) if head in names else (of, said)
        notes[of] = f"{notes[of]}; {said}" if of in notes else said
    lowered = {one.lower() for one in names}
    columns: list[Column] = []
    for one in found["columns"]:
        column = str(one["name"])
        base = re.sub(r"_\d+$", "", column)  # the reader of a file numbers columns of one name
        called = base if base.lower() in lowered else column
        columns.append(Column(name, column, _type(str(one["type"])), called, notes.get(column, "")))
    source = str(found.get("source") or name)
    return Table(name=name, source=source, columns=tuple(columns), note=notes.get("", ""))


def _is_total(cell: str) -> bool:
    text = cell.strip().lower().rstrip(" :")
    words = text.replace("-", " ").split()
    is_of = 1 < len(words) < 4 and words[-1] in ("total", "totals", "subtotal", "subtotals")
    return text in TOTALS or is_of


def _type(name: str) -> Type:
    upper = name.upper()
    if "[" in upper or upper.startswith(("STRUCT", "MAP", "LIST", "INTERVAL")):
        return "other"
    if upper.startswith(("VARCHAR", "TEXT", "STRING", "CHAR", "BPCHAR", "ENUM", "UUID", "BOOL")):
        return "text"
    if upper.startswith(("DATE", "TIMESTAMP")):
        return "date"
    return "number" if re.search("INT|DOUBLE|FLOAT|REAL|DECIMAL|NUMERIC", upper) else "other"


def quoted(name: str) -> str:
    """Return a name as an identifier of SQL."""
    return '"' + name.replace('"', '""') + '"'


def literal(value: str) -> str:
    """Return a text as a literal of SQL."""
    return "'" + value.replace("'", "''") + "'"


def profile_sql(tables: Sequence[Table], words: Sequence[str]) -> str:
    """Return the query that tells what is in the columns, and which cells have the words of the question.

    Errors: `OfflineCannot` if there are too many columns.
    """
    if sum(len(one.columns) for one in tables) > COLUMNS_MAX:
        raise OfflineCannot(f"the workspace has more than {COLUMNS_MAX} columns")
    parts: list[str] = []
    wanted = ", ".join(map(literal, dict.fromkeys([*words, *TOTALS])))
    for table in tables:
        name, of = quoted(table.name), literal(table.name)
        copies = f"count(*) - (SELECT count(*) FROM (SELECT DISTINCT * FROM {name}))"
        head = "'' AS col, '' AS cell, count(*) AS filled"
        parts.append(
            f"SELECT 'table' AS part, {of} AS tbl, {head}, {copies} AS n, 0 AS folded, '' AS low, '' AS high"
            f" FROM {name}"
        )
        if len(table.columns) > 2:
            cells = [f"{quoted(one.name)}::VARCHAR" for one in table.columns]
            where = f"{cells[0]} IS NOT NULL AND coalesce({', '.join(cells[1:])}) IS NULL"
            parts.append(
                f"SELECT 'lone', {of}, '', any_value({cells[0]}), count(*), 0, 0, '', '' FROM {name}"
                f" WHERE {where} HAVING count(*) > 0"
            )
        texts = ", ".join(f"{quoted(one.name)}::VARCHAR" for one in table.columns if one.type != "number")
        for column in table.columns:
            col, lit = quoted(column.name), literal(column.name)
            plain = f"lower(trim({col}::VARCHAR))"
            folded = plain
            if column.type == "text":
                one_form = f"lower(nfc_normalize({col}::VARCHAR))"
                folded = f"trim(regexp_replace({one_form}, {literal(_BLANKS)}, ' ', 'g'))"
            elif column.type == "number":
                folded = f"CASE WHEN isfinite({col}::DOUBLE) THEN {col} END"
            bounds = f"min({col})::VARCHAR, max({col})::VARCHAR" if column.type == "date" else "'', ''"
            if column.type == "number":
                below = f"min({col}) FILTER ({col} < 0)"
                is_one = f"{below} IN ({_STAND_INS}) AND {below} = max({col}) FILTER ({col} < 0)"
                bounds = f"CASE WHEN {is_one} THEN {below}::BIGINT::VARCHAR END, ''"
            elif column.type == "text":
                bounds = f"any_value({col}) FILTER (strlen({col}) > length({col})), ''"
            counts = f"count({col}), count(DISTINCT {col}), count(DISTINCT {folded})"
            parts.append(f"SELECT 'column', {of}, {lit}, '', {counts}, {bounds} FROM {name}")
            if column.type == "text":
                cells = f"{of}, {lit}, {col}::VARCHAR, count(*), 0, 0, '', ''"
                where = f"{plain} IN ({wanted}) OR regexp_full_match({plain}, {literal(_TOTAL_OF)})"
                parts.append(f"SELECT 'cell', {cells} FROM {name} WHERE {where} GROUP BY 4")
            elif column.type == "number" and texts:
                value, total = f"{col}::DOUBLE", f"(SELECT sum({col}::DOUBLE) FROM {name})"
                is_sum = f"{col} <> 0 AND abs(2 * {value} - {total}) <= 1e-9 * abs({value})"
                where = f"coalesce({texts}) IS NULL AND {is_sum}"
                cells = f"{of}, {lit}, 'total', count(*), 0, 0, '', ''"
                parts.append(f"SELECT 'cell', {cells} FROM {name} WHERE {where} HAVING count(*) > 0")
    return "\nUNION ALL\n".join(parts)


def profile_from(tables: tuple[Table, ...], skipped: tuple[str, ...], answer: object) -> Profile:
    """Return the profile. Errors: `OfflineCannot` if the answer is cut or has another shape."""
    found = Profile(tables=tables, skipped=skipped)
    columns = {(table.name, column.name): column for table in tables for column in table.columns}
    for part, table, name, cell, filled, distinct, folded, low, high in rows_of(answer, width=9):
        if part == "table":
            found.rows[table], found.copies[table] = filled, distinct
        elif part == "column":
            fact = Fact(filled=filled, distinct=distinct, folded=folded, low=_day(low), high=_day(high))
            if columns[table, name].type in ("number", "text"):
                fact = replace(fact, odd=low or "")
            found.facts[columns[table, name]] = fact
        elif part == "lone":
            found.lone[table] = cell
        else:
            found.cells.setdefault(cell.strip().lower(), []).append((columns[table, name], cell))
    if len(found.facts) != len(columns) or len(found.rows) != len(tables):
        raise OfflineCannot("the result of query_sql is not whole")
    return found


def _day(text: object) -> date | None:
    try:
        return date.fromisoformat(str(text)[:10])
    except ValueError:
        return None


def rows_of(answer: object, *, width: int) -> list[list[Any]]:
    """Return the rows of a `query_sql` answer. Errors: `OfflineCannot` if it is cut or has another shape."""
    fields = cast("dict[str, Any]", answer) if isinstance(answer, dict) else {}
    rows: Any = fields.get("rows")
    if not isinstance(rows, list) or any(
        not isinstance(row, list) or len(cast("list[Any]", row)) != width for row in cast("list[Any]", rows)
    ):
        raise OfflineCannot("the result of query_sql has another shape than expected")
    if fields.get("truncated"):
        raise OfflineCannot("the result of query_sql is cut")
    return cast("list[list[Any]]", rows)


def names_of(columns: Iterable[Column]) -> str:
    """Return columns in words, each with its table."""
    return listed([code(f"{one.table}.{one.name}") for one in columns], "or")
