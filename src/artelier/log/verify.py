"""Verification of a store's rows: every chain, commit root, content and view, whatever engine keeps them.

The views are rebuilt in a scratch database and compared row by row. A finding names what is wrong and where.
Without a head from outside, a cut-off tail cannot be excluded (`--head`). What only an engine knows (its
pages, its indexes) is checked in `sqlite/verify.py` and `postgres/verify.py`.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from itertools import zip_longest
from typing import Any

import msgspec

from artelier.errors import ArtelierError, CorruptStore, Erased, MissingKey, UnknownEvent
from artelier.log.blobs import ERASED, SECRET_BYTES, Keyring, blob_name, blob_ref, blob_refs, name_blob
from artelier.log.contract import Report, View
from artelier.log.database import Database
from artelier.log.erasure import GoneKeys
from artelier.log.event import GENESIS, commit_root, event_hash, names_messages
from artelier.log.rows import events
from artelier.log.rows.contents import scan_contents, scan_secrets
from artelier.log.views import LISTING_SINCE, fold, stored_versions
from artelier.ports.media import media_refs

_TABLES_AT_ONCE = 200
"""Tables that one statement asks for rows; SQLite takes 2,000 columns."""


def check_rows(
    db: Database,
    fresh: Database,
    report: Report,
    views: Sequence[View],
    *,
    head: str | None,
    keyring: Keyring,
    expected: Mapping[str, list[str]],
) -> None:
    """Check all rows of a store that `db` sees one state of.

    `fresh` has the empty tables of the views, with the columns that are `expected`; it gets their rows.
    """
    names: dict[int, bytes] = {}
    with note_damage(report, "the events"):
        names = check_chains(db, report)
    with note_damage(report, "the list of tenants' events"):
        check_positions(db, report)
    with note_damage(report, "the commits"):
        check_commits(db, report, names, head)
    with note_damage(report, "the content"):
        check_blobs(db, report, keyring)
    with note_damage(report, "the views"):
        check_views(db, fresh, report, views, expected)


@contextmanager
def note_damage(report: Report, what: str) -> Generator[None]:
    """A damaged page can put a value of any type anywhere: that is a finding, and the checks go on."""
    try:
        yield
    except (TypeError, ValueError, ArithmeticError, AttributeError, AssertionError) as error:
        report.add_finding(f"{what} cannot be checked to the end: {error}")


def check_chains(db: Database, report: Report) -> dict[int, bytes]:
    """Every event against its stream's chain; full stream names by id."""
    streams: dict[int, tuple[str, bytes]] = {}
    for id_, tenant, space, name in events.scan_streams(db):
        streams[id_] = (name, f"{tenant}/{space}/{name}".encode())
    report.streams = len(streams)
    heads: dict[int, tuple[int, bytes]] = {}
    for stream, seq, kind, version, data, at_us, actor, cause, hash_, position in events.scan_events(db):
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


def check_positions(db: Database, report: Report) -> None:
    """Check the list by which pages of tenants are read: whose each position is. It may end early."""
    if db.schema_version() < LISTING_SINCE:
        return
    expected = 1
    for first, last in events.scan_positions(db):
        if first != expected or last < first:
            report.add_finding(f"the list of tenants' events: position {expected} is missing")
            return
        expected = last + 1
    if (wrong := events.find_misplaced(db)) is not None:
        report.add_finding(f"the list of tenants' events: position {wrong[0]} is not of {wrong[1]}")


def check_commits(db: Database, report: Report, names: dict[int, bytes], head: str | None) -> None:
    """Every commit root, contiguous from position 1 to the last event."""
    root, last, seen = GENESIS, 0, False
    hashes = events.scan_hashes(db)
    carried: tuple[Any, ...] | None = None
    for first, end, stored in events.scan_commits(db):
        report.commits += 1
        if first != last + 1:
            report.add_finding(f"the commit row for position {last + 1} is missing (next is {first})")
        pairs: list[tuple[bytes, bytes]] = []
        while True:
            carried = carried or next(hashes, None)
            if carried is None or carried[0] > end:
                break
            pairs.append((carried[1], names.get(carried[2], b"")))
            carried = None
        root = commit_root(root, pairs)
        if root != stored:
            report.add_finding(f"the commit of positions {first}-{end} does not match its events")
        root, last = stored, end
        seen = seen or (head is not None and stored.hex() == head)
    if carried is not None or next(hashes, None) is not None:
        report.add_finding(f"events after position {last} belong to no commit")
    if report.events < last:
        report.add_finding(f"events up to position {last} were committed, {report.events} are there")
    report.head = root.hex()
    if head is not None:
        if seen or (head == GENESIS.hex()):
            report.truncation = "excluded"
        else:
            report.add_finding(f"the given head {head} is not in this database: its end was cut off")


def check_blobs(db: Database, report: Report, keyring: Keyring) -> None:
    """Every blob against its name, and every reference of an event against the blobs."""
    keys = dict(scan_secrets(db))
    gone = GoneKeys(db, keys)
    have: set[tuple[str, bytes]] = set()
    media: dict[tuple[str, bytes], list[bytes]] = {}
    """By content that has the form of messages: the media that it names."""
    sealed = 0
    for tenant, name, key_id, codec, size, stored in scan_contents(db):
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
    for tenant, space, name, seq, kind, data in events.scan_referring(db):
        where = f"{tenant}/{space}/{name}: event {seq}"
        for ref in blob_refs(data):
            if (tenant, ref) not in have:
                report.add_finding(f"{where} names content that is missing: {blob_ref(ref)}")
            for shown in media.get((tenant, ref), ()) if names_messages(kind) else ():
                if (tenant, shown) not in have:
                    report.add_finding(
                        f"{where} names messages that show a missing medium: {blob_ref(shown)}"
                    )


def check_views(
    db: Database, fresh: Database, report: Report, views: Sequence[View], expected: Mapping[str, list[str]]
) -> None:
    """`fresh` has the empty tables of the views, with the columns that are `expected`."""
    columns = db.columns()
    tables = columns.keys()
    own = {"streams", "events", "blobs", "commits", "keys", "leases", "view_versions", "vault", "rates"}
    owned = own | {"tenant_positions", "moved_contents"} | {table for view in views for table in view.tables}
    report.unchecked.extend(sorted(tables - owned))
    try:
        fold(db, fresh, views)
    except Exception as error:
        if not isinstance(error, ArtelierError) and fresh.store_error(error) is None:
            raise
        if not isinstance(error, UnknownEvent) or "unfit" in error.facts:
            report.add_finding(f"the views cannot be rebuilt: {error}")
        # An event of another version is no damage: it is kept and verified, only not folded here.
        why = error.message if isinstance(error, ArtelierError) else str(error)
        report.unchecked.extend(f"view {view.name}: {why}" for view in views)
        return
    made = stored_versions(db).keys()
    there = [table for view in views for table in view.tables if table in tables]
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


def _find_filled(db: Database, tables: Sequence[str]) -> set[str]:
    """Return which tables have rows, by few statements: most stores use few of the tables."""
    filled: set[str] = set()
    for start in range(0, len(tables), _TABLES_AT_ONCE):
        part = tables[start : start + _TABLES_AT_ONCE]
        found = db.only("SELECT " + ", ".join(f"EXISTS(SELECT 1 FROM {t})" for t in part))
        filled.update(table for table, has_rows in zip(part, found, strict=True) if has_rows)
    return filled


def _compare(
    live: Database, fresh: Database, table: str, columns: Sequence[str], report: Report, view: str
) -> None:
    """The rows of one table, in the order of all its columns."""
    names = ", ".join(columns)
    order = ", ".join(f"{column} NULLS FIRST" for column in columns)
    sql = f"SELECT {names} FROM {table} ORDER BY {order}"
    for row, expected in zip_longest(live.scan(sql), fresh.scan(sql)):
        if row != expected:
            shown = dict(zip(columns, row or expected or (), strict=True))
            what = "has an extra row" if expected is None else "lacks a row"
            what = "differs from the log" if row and expected else what
            report.add_finding(f"view {view}: table {table} {what}: {str(shown)[:300]}")
            return
