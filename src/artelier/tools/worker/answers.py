"""The requests to the helper process of the workspace tools, and its answers."""

from __future__ import annotations

from typing import Any

from msgspec import Struct


class TableSource(Struct, frozen=True, kw_only=True):
    """A file to be loaded as tables."""

    source: str
    """Its path in the workspace."""
    stem: str
    """The wished name of its table."""
    kind: str
    """One of the values of `KINDS`."""
    descriptor: int
    """The open file, inherited by the helper process."""


class SkippedSource(Struct, frozen=True):
    """A file, or a part of one, that is no table here."""

    source: str
    reason: str


class LoadAnswer(Struct, frozen=True, kw_only=True):
    """The part of a source that could not be loaded."""

    skipped: list[SkippedSource]


class TableColumn(Struct, frozen=True, kw_only=True):
    """A column of a table, with its type in SQL."""

    name: str
    type: str


class TableFacts(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A table that can be read."""

    name: str
    source: str
    rows: int
    columns: list[TableColumn]
    note: str = ""
    """How values are written, or what could not be told; empty if there is nothing to say."""


class TablesAnswer(Struct, frozen=True, kw_only=True):
    """The tables that were loaded."""

    tables: list[TableFacts]


class TablesFound(Struct, frozen=True, kw_only=True):
    """The tables of a workspace, and what is none of them."""

    tables: list[TableFacts]
    skipped: list[SkippedSource]


class QueryRows(Struct, frozen=True, kw_only=True):
    """The rows of one statement, as JSON data."""

    columns: list[str]
    types: list[str]
    """In SQL, one for each column."""
    rows: list[list[Any]]
    row_count: int
    truncated: bool
    """True if there are more rows than were asked for, or than fit."""


class LineHits(Struct, frozen=True, kw_only=True):
    """The first lines that match a pattern."""

    hits: list[tuple[int, str, int]]
    """Number of the line, an excerpt of it, and the column at which that begins; both counted from 1."""
