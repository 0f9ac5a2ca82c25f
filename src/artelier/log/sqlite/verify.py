"""Verification of a file: its pages and its tables, then all rows, as `log/verify.py` checks them.

It opens the file read-only, and rebuilds the views into a scratch database in memory.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from artelier.errors import CorruptStore
from artelier.log.blobs import Keyring, Sealer
from artelier.log.contract import FINDINGS_MAX, RESTORE, Report, View
from artelier.log.sqlite.connection import SqliteDatabase, open_read_only, publish, store_error
from artelier.log.sqlite.schema import MIGRATIONS
from artelier.log.verify import check_rows, note_damage
from artelier.log.views import index_name, missing_indexes


def verify_store(
    path: str | Path, views: Sequence[View], *, head: str | None = None, sealer: Sealer | None = None
) -> Report:
    """Check a whole store. `head` is a root printed earlier by `artelier head`.

    Sealed content is held against its name only with a `sealer` that has its vault key.

    Errors: `NotFound` if there is no file; `CorruptStore` or `NewerSchema` if it cannot be read as a
    store at all. Damage inside is in the report.
    """
    report = Report()
    db = open_read_only(path)
    db.text_factory = _text
    try:
        with closing(sqlite3.connect(":memory:", isolation_level=None)) as fresh:
            _check_all(db, fresh, report, views, head, Keyring(sealer))
    except (sqlite3.Error, UnicodeDecodeError) as error:
        raise store_error(error) from error
    finally:
        db.close()
    return report


def _check_all(
    db: sqlite3.Connection,
    fresh: sqlite3.Connection,
    report: Report,
    views: Sequence[View],
    head: str | None,
    keyring: Keyring,
) -> None:
    """`fresh` is an empty database: it gets the tables as this code makes them, then their rows."""
    db.execute("BEGIN")  # one snapshot, whoever writes meanwhile
    seen, folded = SqliteDatabase(db), SqliteDatabase(fresh)
    publish(seen, ())
    with note_damage(report, "the file"):
        _check_file(db, report)
    with note_damage(report, "the tables"):
        _check_schema(seen, folded, report, views)
    expected = _make_tables(seen.schema_version(), make_statements(views)).columns
    check_rows(seen, folded, report, views, head=head, keyring=keyring, expected=expected)


def _text(stored: bytes) -> str:
    """Text that is no UTF-8 must be a finding, not the end of verification: replaced, it breaks its chain."""
    return stored.decode(errors="backslashreplace")


def _check_file(db: sqlite3.Connection, report: Report) -> None:
    """The pages of the file and every index: reads go through indexes, the checks below through tables."""
    for (line,) in db.execute(f"PRAGMA integrity_check({FINDINGS_MAX})"):
        if line != "ok":
            report.add_finding(f"the file is damaged: {line}")


def _check_schema(db: SqliteDatabase, fresh: SqliteDatabase, report: Report, views: Sequence[View]) -> None:
    """Tables, indexes and triggers against what this code makes: without an index a store is slow, without
    a unique one, or with a trigger of somebody else, it is wrong. Leaves the tables of all views in `fresh`.

    Errors: `CorruptStore` if a table of the log itself is missing.
    """
    version = db.schema_version()
    there = _read_schema(db.db)
    own = _make_tables(version, ()).schema
    if lost := sorted(name for kind, name in own.keys() - there if kind == "table"):
        raise CorruptStore("this store lacks tables of the log itself", got=", ".join(lost), hint=RESTORE)
    stored = dict(db.execute("SELECT name, version FROM view_versions"))
    current = [view for view in views if stored.get(view.name) == view.version]
    expected = _make_tables(version, make_statements(current)).schema
    # The others are made anew at the next open.
    _load(fresh.db, _make_tables(version, make_statements(views)))
    publish(fresh, views)
    fresh.execute("BEGIN")
    tables = {name for kind, name in expected if kind == "table"}
    found = {key: made for key, made in there.items() if made[0] in tables}
    later = {("index", index_name(one)) for one in missing_indexes(db, current)}  # the next open makes them
    for (kind, name), made in expected.items():
        if ("table", made[0]) not in found or (kind, name) in later:
            continue  # a missing table is named with its view
        if (kind, name) not in found:
            report.add_finding(f"table {made[0]} lacks the {kind} {name}")
        elif found[kind, name] != made:
            report.add_finding(f"table {made[0]}: the {kind} {name} is not as it was made")
    for kind, name in sorted(found.keys() - expected.keys()):
        report.add_finding(f"table {found[kind, name][0]} has a foreign {kind} {name}")


class _StoreTables(NamedTuple):
    """An empty database, as SQLite stores it, what it consists of (see `_read_schema`), and its columns."""

    image: bytes
    schema: dict[tuple[str, str], tuple[str, str]]
    columns: dict[str, list[str]]


@lru_cache(maxsize=8)
def _make_tables(version: int, statements: tuple[str, ...]) -> _StoreTables:
    """Return the tables of the log at `version`, and those that the `statements` of views make.

    They cost more than looking through a small store: who verifies many of them makes tables once.
    """
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as db:
        db.execute("BEGIN")
        for step in MIGRATIONS[:version]:
            step(db)
        for statement in statements:
            db.execute(statement)
        db.execute("COMMIT")
        return _StoreTables(db.serialize(), _read_schema(db), SqliteDatabase(db).columns())


def make_statements(views: Sequence[View]) -> tuple[str, ...]:
    return tuple(statement for view in views for statement in (*view.schema, *view.indexes))


def open_scratch(views: Sequence[View]) -> SqliteDatabase:
    """Return an empty database in memory with the tables of `views`, for whoever folds a log anew."""
    db = sqlite3.connect(":memory:", isolation_level=None)
    fresh = SqliteDatabase(db)
    _load(db, _make_tables(len(MIGRATIONS), make_statements(views)))
    publish(fresh, views)
    return fresh


def _load(fresh: sqlite3.Connection, tables: _StoreTables) -> None:
    """Copy the tables: a database that is its own image, instead of a copy, would end at 1 GiB."""
    with closing(sqlite3.connect(":memory:")) as db:
        db.deserialize(tables.image)
        db.backup(fresh)


def _read_schema(db: sqlite3.Connection) -> dict[tuple[str, str], tuple[str, str]]:
    """Return what a database consists of: `(kind, name) -> (table, statement)`, but for what SQLite adds
    itself.
    """
    rows = db.execute(
        "SELECT type, name, tbl_name, sql FROM sqlite_master WHERE sql IS NOT NULL"
        " AND name NOT LIKE 'sqlite!_%' ESCAPE '!'"
    )
    return {(kind, name): (table, " ".join(sql.split())) for kind, name, table, sql in rows}
