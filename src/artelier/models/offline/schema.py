"""Tables and columns as the tools described them, and what their names and types suggest.

A column's `nature` says how its numbers may be used; it is read off the name, since no data is seen here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import msgspec

from artelier.errors import OfflineCannot
from artelier.models.offline import lexicon
from artelier.models.offline.words import lemma, name_words, stem

Type = Literal["number", "text", "date", "truth", "other"]
Nature = Literal["additive", "intensive", "unknown", "name", "none"]

_NUMBER = re.compile(r"(U?(TINY|SMALL|BIG|HUGE)?INT(EGER)?|DOUBLE|FLOAT|REAL|DECIMAL|NUMERIC)\b")
_TEXT = re.compile(r"(VARCHAR|TEXT|STRING|CHAR|BPCHAR|ENUM|UUID)\b")
_DATE = re.compile(r"(DATE|TIMESTAMP|DATETIME)")

# Words of a name that keep it from being a measure only where they close the name.
_SCALES = frozenset(("avg", "average", "mean", "max", "min", "maximum", "minimum", "pct"))


@dataclass(frozen=True)
class Column:
    """A column; equal if table, name and type are."""

    table: str
    name: str
    type_name: str
    dated: str = ""
    """The form of the dates that a text column holds; see `datelike.py`."""

    @cached_property
    def type(self) -> Type:
        upper = self.type_name.upper()
        if self.dated:
            return "date"
        if upper.startswith("BOOL"):
            return "truth"
        if "[" in upper or upper.startswith(("STRUCT", "MAP", "LIST")):
            return "other"
        if _NUMBER.match(upper):
            return "number"
        if _TEXT.match(upper):
            return "text"
        return "date" if _DATE.match(upper) else "other"

    @cached_property
    def words(self) -> tuple[str, ...]:
        """Its lemmas."""
        return tuple(lemma(word) for word in name_words(self.name))

    @cached_property
    def stems(self) -> tuple[str, ...]:
        return tuple(stem(word) for word in name_words(self.name))

    @cached_property
    def head(self) -> str:
        """The last word that is no unit, as written in the name."""
        words = name_words(self.name)
        plain = [word for word in words if word not in lexicon.UNIT_WORDS]
        return plain[-1] if plain else (words[-1] if words else self.name)

    @cached_property
    def nature(self) -> Nature:
        if self.type != "number":
            return "none"
        words, stems = set(name_words(self.name)), set(self.stems)
        if words & lexicon.NOT_A_MEASURE and not (words & {"rate", "hours", "days", "minutes"}):
            return "name"
        if self.head in ("number", "no", "nr", "num"):
            return "name"
        if words & _SCALES or stems & {"per"}:
            return "intensive"
        if stem(self.head) in lexicon.INTENSIVE:
            return "intensive"
        if stems & lexicon.ADDITIVE:
            return "additive"
        if stems & lexicon.INTENSIVE:
            return "intensive"
        return "additive" if lemma(self.head) != self.head else "unknown"

    @property
    def is_measure(self) -> bool:
        return self.nature in ("additive", "intensive", "unknown")

    @property
    def is_money(self) -> bool:
        """True if its name says money that flowed, rather than a price, a cost or a plan."""
        stems = set(self.stems)
        return bool(self.nature == "additive" and stems & lexicon.MONEY) and not (stems & lexicon.NO_MONEY)

    @property
    def kind_name(self) -> str:
        """Its type in plain words: `text`, `numbers`, `dates`, `true or false`."""
        names = {"text": "text", "number": "numbers", "date": "dates", "truth": "true or false"}
        return names.get(self.type, self.type_name.lower())

    @property
    def is_quantity(self) -> bool:
        return self.nature == "additive" and bool(set(self.stems) & lexicon.QUANTITY)

    @property
    def is_id(self) -> bool:
        """True if it looks like the key of something: `id`, `order_id`, `sku`, `customer_no`."""
        words = name_words(self.name)
        return bool(words) and words[-1] in (
            ("id", "ids", "key", "code", "no", "nr", "number", "num", "sku", "isbn", "uuid", "ref")
        )

    @property
    def is_label(self) -> bool:
        return bool(self.words) and self.words[-1] in ("name", "title", "label", "fullname")

    @property
    def thing(self) -> tuple[str, ...]:
        """The thing that an id or a label names: `customer` of `customer_id` and of `customer_name`."""
        return self.words[:-1] if self.is_id or self.is_label else self.words


@dataclass(frozen=True)
class Table:
    """A table with the file it was read from."""

    name: str
    source: str
    rows: int | None
    columns: tuple[Column, ...]

    @cached_property
    def _name_words(self) -> tuple[str, ...]:
        """The words of its name, without numbers at the end: `claims` of `claims_2024`."""
        words = name_words(self.name)
        while len(words) > 1 and words[-1].isdigit():
            words = words[:-1]
        return words

    @cached_property
    def words(self) -> tuple[str, ...]:
        return tuple(lemma(word) for word in self._name_words)

    @cached_property
    def stems(self) -> tuple[str, ...]:
        return tuple(stem(word) for word in self._name_words)

    @property
    def dates(self) -> tuple[Column, ...]:
        return tuple(column for column in self.columns if column.type == "date")

    @property
    def measures(self) -> tuple[Column, ...]:
        return tuple(column for column in self.columns if column.is_measure)

    def column(self, name: str) -> Column | None:
        return next((column for column in self.columns if column.name == name), None)

    @cached_property
    def key(self) -> Column | None:
        """The column that by its name identifies a row: `id`, `<table>_id`, or the first id column."""
        ids = [column for column in self.columns if column.is_id]
        own = [column for column in ids if column.thing == () or column.thing == self.words[-1:]]
        whole = [column for column in ids if column.thing == self.words]
        named = [column for column in self.columns if column.words == self.words[-1:]]
        for found in (whole, own, named):
            if found:
                return found[0]
        first = self.columns[0] if self.columns else None
        return first if first is not None and first.is_id else None

    @cached_property
    def labels(self) -> tuple[Column, ...]:
        """The columns that say what a row is called; two for a first and a last name."""
        texts = [column for column in self.columns if column.type == "text"]
        firsts = {column.words: column for column in texts}
        if ("first", "name") in firsts and ("last", "name") in firsts:
            return firsts["first", "name"], firsts["last", "name"]
        prefixed = [(*self.words[-1:], label) for label in ("name", "title", "label")]
        wanted = [tuple(label.split()) for label in lexicon.LABELS]
        for words in (*wanted[:4], *prefixed, self.words[-1:], *wanted[4:]):
            if words in firsts:
                return (firsts[words],)
        only = [column for column in texts if column.is_label]
        return (only[0],) if len(only) == 1 else ()


class _ColumnRow(msgspec.Struct):
    name: str
    type: str


class _TableRow(msgspec.Struct):
    name: str
    columns: list[_ColumnRow]
    source: str = ""
    rows: int | None = None


class Skipped(msgspec.Struct):
    """A file that could not be read as a table."""

    source: str
    reason: str = ""


class _Described(msgspec.Struct):
    tables: list[_TableRow]
    skipped: list[Any] = []


def skipped_from(result: Any) -> list[Skipped]:
    """The files that a `describe_tables` result left out; what has another shape is passed over."""
    try:
        return [msgspec.convert(one, Skipped) for one in msgspec.convert(result, _Described).skipped]
    except msgspec.ValidationError:
        return []


def tables_from(result: Any) -> tuple[Table, ...]:
    """The tables of a `describe_tables` result.

    Errors: `OfflineCannot` if the result has another shape.
    """
    try:
        described = msgspec.convert(result, _Described)
    except msgspec.ValidationError as error:
        raise OfflineCannot(
            f"the result of describe_tables has another shape than expected: {error}",
            expected='{"tables": [{"name", "source", "rows", "columns": [{"name", "type"}]}]}',
        ) from None
    return tuple(
        Table(
            name=row.name,
            source=row.source or row.name,
            rows=row.rows,
            columns=tuple(
                Column(table=row.name, name=column.name, type_name=column.type) for column in row.columns
            ),
        )
        for row in described.tables
    )
