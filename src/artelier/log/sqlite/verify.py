"""Verification: every chain, every commit root, every blob, every view, from the file alone.

It opens the file read-only, rebuilds the views into a scratch database and compares row by row. A finding
names what is wrong and where. Without a head from outside, a cut-off tail cannot be excluded (`--head`).
"""

from __future__ import annotations

import sqlite3
from collections.abc import Generator, Sequence
from contextlib import closing, contextmanager
from functools import lru_cache
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from artelier.errors import ArtelierError, CorruptStore, Erased, MissingKey, UnknownEvent
from artelier.log.blobs import (
    ERASED,
    SECRET_BYTES,
    Keyring,
    Sealer,
    blob_name,
    blob_ref,
    blob_refs,
    name_blob,
)
from artelier.log.contract import FINDINGS_MAX, RESTORE, Report, View
from artelier.log.event import GENESIS, commit_root, event_hash, names_messages
from artelier.log.sqlite.connection import open_read_only, store_error
from artelier.log.sqlite.erasure import GoneKeys
from artelier.log.sqlite.schema import LISTING_SINCE, MIGRATIONS, fold, index_name, missing_indexes, publish
from artelier.ports.media import media_refs

_TABLES_AT_ONCE = 200
"""Tables that one statement asks for rows; SQLite takes 2,000 columns."""


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
    names: dict[int, bytes] = {}
    with _damage(report, "the file"):
        _check_file(db, report)
    with _damage(report, "the tables"):
        _check_schema(db, fresh, report, views)
    with _damage(report, "the events"):
        names = _check_chains(db, report)
    with _damage(report, "the list of tenants' events"):
        _check_positions(db, report)
    with _damage(report, "the commits"):
        _check_commits(db, report, names, head)
    with _damage(report, "the content"):
        _check_blobs(db, report, keyring)
    with _damage(report, "the views"):
        _check_views(db, fresh, report, views)


@contextmanager
def _damage(report: Report, what: str) -> Generator[None]:
    """A damaged page can put a value of any type anywhere: that is a finding, and the checks go on."""
    try:
        yield
    except (TypeError, ValueError, ArithmeticError, AttributeError, AssertionError) as error:
        report.add_finding(f"{what} cannot be checked to the end: {error}")


def _text(stored: bytes) -> str:
    """Text that is no UTF-8 must be a finding, not the end of verification: replaced, it breaks its chain."""
    return stored.decode(errors="backslashreplace")


def _check_file(db: sqlite3.Connection, report: Report) -> None:
    """The pages of the file and every index: reads go through indexes, the checks below through tables."""
    for (line,) in db.execute(f"PRAGMA integrity_check({FINDINGS_MAX})"):
        if line != "ok":
            report.add_finding(f"the file is damaged: {line}")


def _check_schema(
    db: sqlite3.Connection, fresh: sqlite3.Connection, report: Report, views: Sequence[View]
) -> None:
    """Tables, indexes and triggers against what this code makes: without an index a store is slow, without
    a unique one, or with a trigger of somebody else, it is wrong. Leaves the tables of all views in `fresh`.

    Errors: `CorruptStore` if a table of the log itself is missing.
    """
    (version,) = db.execute("PRAGMA user_version").fetchone()
    there = _read_schema(db)
    own = _make_tables(version, ()).schema
    if lost := sorted(name for kind, name in own.keys() - there if kind == "table"):
        raise CorruptStore("this store lacks tables of the log itself", got=", ".join(lost), hint=RESTORE)
    stored = dict(db.execute("SELECT name, version FROM view_versions"))
    current = [view for view in views if stored.get(view.name) == view.version]
    expected = _make_tables(version, _statements(current)).schema
    # The others are made anew at the next open.
    _load(fresh, _make_tables(version, _statements(views)))
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
        return _StoreTables(db.serialize(), _read_schema(db), _read_columns(db))


def _statements(views: Sequence[View]) -> tuple[str, ...]:
    return tuple(statement for view in views for statement in (*view.schema, *view.indexes))


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


def _check_chains(db: sqlite3.Connection, report: Report) -> dict[int, bytes]:
    """Every event against its stream's chain; full stream names by id."""
    streams: dict[int, tuple[str, bytes]] = {}
    for id_, tenant, space, name in db.execute("SELECT id, tenant, space, name FROM streams"):
        streams[id_] = (name, f"{tenant}/{space}/{name}".encode())
    report.streams = len(streams)
    heads: dict[int, tuple[int, bytes]] = {}
    for stream, seq, kind, version, data, at_us, actor, cause, hash_, position in db.execute(
        "SELECT stream, seq, kind, version, data, at_us, actor, cause, hash, position"
        " FROM events ORDER BY position"
    ):
        report.events += 1
        if position != report.events:
            report.add_finding(f"position {report.events} is missing (next is {position})")
            report.events = position
        if stream not in streams:
            report.add_finding(f"event at position {position} belongs to no stream")
            continue
        local, name = streams[stream]
        last_seq, last_hash = heads.get(stream, (0, GENESIS))
        if seq != last_seq + 1:
            report.add_finding(
                f"{name.decode()}: event {last_seq + 1} is missing or out of order (found {seq})"
            )
        try:
            expected = event_hash(
                last_hash,
                stream=local,
                seq=seq,
                kind=kind,
                version=version,
                data=data.encode(),
                at_us=at_us,
                actor=actor,
                cause=cause,
            )
        except (msgspec.MsgspecError, UnicodeError, TypeError, AttributeError):
            expected = b""
        if expected != hash_:
            report.add_finding(f"{name.decode()}: event {seq} ({kind}) is not what was written")
        heads[stream] = (seq, hash_)
    for id_ in streams.keys() - heads.keys():
        report.add_finding(f"{streams[id_][1].decode()}: every event of this stream is missing")
    return {id_: name for id_, (_, name) in streams.items()}


def _check_positions(db: sqlite3.Connection, report: Report) -> None:
    """Whose each position is, as the list says that pages of tenants are read by; it may end early."""
    if db.execute("PRAGMA user_version").fetchone()[0] < LISTING_SINCE:
        return
    expected = 1
    for first, last in db.execute("SELECT first, last FROM tenant_positions ORDER BY first"):
        if first != expected or last < first:
            report.add_finding(f"the list of tenants' events: position {expected} is missing")
            return
        expected = last + 1
    wrong = db.execute(
        "SELECT t.first, t.tenant FROM tenant_positions t LEFT JOIN events f ON f.position = t.last"
        " WHERE f.position IS NULL UNION ALL SELECT e.position, t.tenant FROM tenant_positions t"
        " JOIN events e ON e.position BETWEEN t.first AND t.last"
        " JOIN streams s ON s.id = e.stream WHERE s.tenant <> t.tenant LIMIT 1"
    ).fetchone()
    if wrong is not None:
        report.add_finding(f"the list of tenants' events: position {wrong[0]} is not of {wrong[1]}")


def _check_commits(db: sqlite3.Connection, report: Report, names: dict[int, bytes], head: str | None) -> None:
    """Every commit root, contiguous from position 1 to the last event."""
    root, last, seen = GENESIS, 0, False
    events = db.execute("SELECT position, hash, stream FROM events ORDER BY position")
    carried: tuple[Any, ...] | None = None
    for first, end, stored in db.execute(
        "SELECT first_position, last_position, root FROM commits ORDER BY first_position"
    ):
        report.commits += 1
        if first != last + 1:
            report.add_finding(f"the commit row for position {last + 1} is missing (next is {first})")
        pairs: list[tuple[bytes, bytes]] = []
        while True:
            carried = carried or events.fetchone()
            if carried is None or carried[0] > end:
                break
            pairs.append((carried[1], names.get(carried[2], b"")))
            carried = None
        root = commit_root(root, pairs)
        if root != stored:
            report.add_finding(f"the commit of positions {first}-{end} does not match its events")
        root, last = stored, end
        seen = seen or (head is not None and stored.hex() == head)
    if carried is not None or events.fetchone() is not None:
        report.add_finding(f"events after position {last} belong to no commit")
    if report.events < last:
        report.add_finding(f"events up to position {last} were committed, {report.events} are there")
    report.head = root.hex()
    if head is not None:
        if seen or (head == GENESIS.hex()):
            report.truncation = "excluded"
        else:
            report.add_finding(f"the given head {head} is not in this database: its end was cut off")


def _check_blobs(db: sqlite3.Connection, report: Report, keyring: Keyring) -> None:
    """Every blob against its name, and every reference of an event against the blobs."""
    keys = {row[0]: row[1] for row in db.execute("SELECT key_id, secret FROM keys")}
    gone = GoneKeys(db, keys)
    have: set[tuple[str, bytes]] = set()
    media: dict[tuple[str, bytes], list[bytes]] = {}
    """By content that has the form of messages: the media that it names."""
    sealed = 0
    for tenant, name, key_id, codec, size, stored in db.execute(
        "SELECT tenant, name, key_id, codec, size, content FROM blobs"
    ):
        report.blobs += 1
        have.add((tenant, bytes(name)))
        is_empty = codec == ERASED and not stored
        if (key_id is not None and key_id not in keys) or codec == ERASED:
            # The name is all that is left to check, and that somebody recorded it.
            where = f"blob {blob_ref(name)} of {tenant}"
            for finding in gone.content(tenant, key_id, where, is_empty=is_empty):
                report.add_finding(finding)
            continue
        secret = keys[key_id] if key_id is not None else b""
        if len(secret) > SECRET_BYTES and not keyring.is_sealing:
            sealed += 1
            continue
        try:
            content = keyring.unpack(name, key_id, secret, codec, stored, size)
            if name_blob(keyring.key(tenant, key_id, secret), content) != name:
                report.add_finding(f"blob {blob_ref(name)} of {tenant} is not what was written")
            if named := [blob_name(ref) for ref in media_refs(content)]:
                media[tenant, bytes(name)] = named
        except (CorruptStore, Erased, MissingKey) as error:
            report.add_finding(f"blob {blob_ref(name)} of {tenant}: {error.message}")
    for finding in gone.findings():
        report.add_finding(finding)
    if sealed:
        report.unchecked.append(f"{sealed} sealed contents: the vault key is not here")
    report.unchecked.extend(gone.find_unchecked())
    for tenant, space, name, seq, kind, data in db.execute(
        "SELECT s.tenant, s.space, s.name, e.seq, e.kind, e.data FROM events e"
        " JOIN streams s ON s.id = e.stream WHERE instr(e.data, '\"b:')"
    ):
        where = f"{tenant}/{space}/{name}: event {seq}"
        for ref in blob_refs(data):
            if (tenant, ref) not in have:
                report.add_finding(f"{where} names content that is missing: {blob_ref(ref)}")
            for shown in media.get((tenant, ref), ()) if names_messages(kind) else ():
                if (tenant, shown) not in have:
                    report.add_finding(
                        f"{where} names messages that show a missing medium: {blob_ref(shown)}"
                    )


def _check_views(
    db: sqlite3.Connection, fresh: sqlite3.Connection, report: Report, views: Sequence[View]
) -> None:
    expected = _make_tables(db.execute("PRAGMA user_version").fetchone()[0], _statements(views)).columns
    tables = {row[0] for row in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    own = {"streams", "events", "blobs", "commits", "keys", "leases", "view_versions", "vault", "rates"}
    owned = own | {"tenant_positions"} | {table for view in views for table in view.tables}
    report.unchecked.extend(sorted(t for t in tables - owned if not t.startswith("sqlite_")))
    try:
        fold(db, fresh, views)
    except (ArtelierError, sqlite3.Error) as error:
        if not isinstance(error, UnknownEvent) or "unfit" in error.facts:
            report.add_finding(f"the views cannot be rebuilt: {error}")
        # An event of another version is no damage: it is kept and verified, only not folded here.
        why = error.message if isinstance(error, ArtelierError) else str(error)
        report.unchecked.extend(f"view {view.name}: {why}" for view in views)
        return
    made = {row[0] for row in db.execute("SELECT name FROM view_versions")}
    there = [table for view in views for table in view.tables if table in tables]
    columns = _read_columns(db)
    filled = _find_filled(db, there) | _find_filled(fresh, [t for view in views for t in view.tables])
    for view in views:
        for table in view.tables:
            if table not in tables:
                if view.name in made or table in filled:
                    # Else nobody who knows this view has opened the file, and it would be empty.
                    report.add_finding(f"view {view.name}: table {table} is missing")
            elif columns[table] != expected[table]:
                report.add_finding(f"view {view.name}: table {table} has other columns")
            elif table in filled:
                _compare(db, fresh, table, columns[table], report, view.name)
        report.views.append(view.name)


def _read_columns(db: sqlite3.Connection) -> dict[str, list[str]]:
    columns: dict[str, list[str]] = {}
    for table, column in db.execute(
        "SELECT m.name, c.name FROM sqlite_master m JOIN pragma_table_info(m.name) c"
        " WHERE m.type = 'table' ORDER BY m.name, c.cid"
    ):
        columns.setdefault(table, []).append(column)
    return columns


def _find_filled(db: sqlite3.Connection, tables: Sequence[str]) -> set[str]:
    """Return which tables have rows, by few statements: most stores use few of the tables."""
    filled: set[str] = set()
    for start in range(0, len(tables), _TABLES_AT_ONCE):
        part = tables[start : start + _TABLES_AT_ONCE]
        found = db.execute("SELECT " + ", ".join(f"EXISTS(SELECT 1 FROM {t})" for t in part)).fetchone()
        filled.update(table for table, has_rows in zip(part, found, strict=True) if has_rows)
    return filled


def _compare(
    live: sqlite3.Connection,
    fresh: sqlite3.Connection,
    table: str,
    columns: Sequence[str],
    report: Report,
    view: str,
) -> None:
    """The rows of one table, in the order of all its columns."""
    names = ", ".join(columns)
    sql = f"SELECT {names} FROM {table} ORDER BY {names}"
    for row, expected in zip_longest(live.execute(sql), fresh.execute(sql)):
        if row != expected:
            shown = dict(zip(columns, row or expected or (), strict=True))
            what = "has an extra row" if expected is None else "lacks a row"
            what = "differs from the log" if row and expected else what
            report.add_finding(f"view {view}: table {table} {what}: {str(shown)[:300]}")
            return
