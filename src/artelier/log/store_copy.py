"""A copy of a whole store in another place, of either engine: the same events, roots and rows; and backups.

The source is read in one snapshot, and every hash chain and commit root is checked on the way. The target is
written a few thousand rows at a time, each piece a commit; until all of it is there and was verified, nobody
can open it. A copy that was interrupted goes on: what it has of the log stays, everything else, which erasing
and collecting may have changed meanwhile, is copied again.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from artelier.errors import Conflict, CorruptStore, InvalidRequest, LeaseHeld, NotFound, StoreUnavailable
from artelier.log.blobs import Driving, Sealer
from artelier.log.contract import RESTORE, Row, View
from artelier.log.database import Database
from artelier.log.event import GENESIS, commit_root, event_hash
from artelier.log.places import (
    connect_place,
    exists,
    file_of,
    label_of,
    open_store,
    snapshot_place,
    verify_place,
)
from artelier.log.rows import copies, events
from artelier.log.rows.coordination import held_leases
from artelier.log.views import UNFINISHED_COPY, stored_versions

ROWS_AT_ONCE = 2_000
"""Rows of one commit: some 50 ms of the target, and what is in memory."""

BYTES_AT_ONCE = 8 * 1024 * 1024
"""Content of one commit; a single larger one has a commit of its own."""


class Copied(msgspec.Struct, kw_only=True):
    """The result of a copy, or with `dry` what it would be."""

    events: int = 0
    commits: int = 0
    contents: int = 0
    rows: int = 0
    """Rows of all other tables."""
    resumed: int = 0
    """Events that an earlier attempt had copied."""
    head: str = ""
    """The newest commit root, hex, of both."""
    dry: bool = False


class Backup(msgspec.Struct, kw_only=True):
    """A copy of a database file, as it was at one moment."""

    file: str
    size_bytes: int
    head: str
    """Its newest commit root, hex: `artelier verify --head` holds the file against it."""


def back_up(source: str, target: str) -> Backup:
    """Copy a database file into a new one, while servers and workers go on with it.

    The file is there whole or not at all.
    Errors: `InvalidRequest` for an address of PostgreSQL, which has tools of its own; `Conflict` if there is
    something at the target; `NotFound`, `StoreFull`, and other clear ones of SQLite and of the disk.
    Cost: reads and writes the whole file.
    """
    from artelier.log.sqlite.store import copy_file

    path, copy = file_of(source), Path(file_of(target))
    if copy.exists():
        raise Conflict(
            "there is a file already", got=str(copy), hint="Name a new one: nothing was overwritten."
        )
    if not copy.parent.is_dir():
        raise NotFound("the folder is not there", got=str(copy.parent))
    part = copy.with_name(f"{copy.name}.{os.getpid()}.part")
    try:
        copy_file(path, part)
        with snapshot_place(part) as seen:
            _, root = events.newest_commit(seen)
        shutil.copymode(path, part)
        os.rename(part, copy)
    except OSError as error:
        raise StoreUnavailable(f"the backup cannot be written: {error}") from error
    finally:
        for rest in copy.parent.glob(f"{part.name}*"):
            rest.unlink(missing_ok=True)
    return Backup(file=str(copy), size_bytes=copy.stat().st_size, head=root.hex())


def copy_store(
    source: str,
    target: str,
    views: Sequence[View],
    *,
    sealer: Sealer | None = None,
    is_driving: Driving = lambda holder, end: True,
    resume: bool = False,
    dry: bool = False,
    progress: Callable[[str], None] = lambda text: None,
) -> Copied:
    """Copy a store into an empty place, and verify what is there then.

    `is_driving` says which leases of the source hold: a run must not be driven in both places.

    Errors: `InvalidRequest` for a source of an older version, `Conflict` for a target that is not empty, or
    that somebody else copies to, `LeaseHeld`, `CorruptStore` if a chain is broken or the copy differs;
    those of connecting. An interrupted copy needs `resume`.
    Cost: memory for `ROWS_AT_ONCE` rows and the heads of all streams; verifying needs what `verify` needs.
    """
    with snapshot_place(source) as seen:
        _check_source(seen, source, views, is_driving)
        if dry:
            return _measure(seen, target, resume=resume)
        is_begun = _check_target(target, resume=resume)
        if not is_begun:
            open_store(target, views, sealer=sealer).close()  # makes the tables
        with connect_place(target) as db:
            copy = _StoreCopy(seen, db, views, progress)
            copy.begin(is_begun=is_begun)
            copied = copy.write()
    progress("verifying the copy")
    report = verify_place(target, views, head=copied.head if copied.commits else None, sealer=sealer)
    if not report.ok:
        raise CorruptStore(
            f"the copy is not what was to be copied, and stays closed: {report.findings[0]}",
            expected=f"head {copied.head}",
            got=f"head {report.head}",
            hint=f"`artelier verify` of {label_of(source)} says whether the damage is there, too.",
        )
    with connect_place(target) as db:
        db.begin()
        copies.end_attempts(db)
        db.commit()
    return copied


def _check_source(seen: Database, source: str, views: Sequence[View], is_driving: Driving) -> None:
    stored = stored_versions(seen)
    if UNFINISHED_COPY in stored:
        raise Conflict("the source is a copy that is not finished itself", got=label_of(source))
    older = [view.name for view in views if stored.get(view.name) != view.version]
    if older:
        raise InvalidRequest(
            "the source was written by another version of Artelier",
            expected="views of this version",
            got=", ".join(older)[:200],
            hint=f"artelier db migrate --db {label_of(source)}",
        )
    for stream, holder, end in sorted(held_leases(seen)):
        if is_driving(holder, end):
            raise LeaseHeld(
                "runs of the source are being driven; they would go on in both places",
                got=f"{stream}, by {holder}"[:300],
                hint="Stop the workers and servers of the source, and copy again.",
                holder=holder,
            )


def _check_target(target: str, *, resume: bool) -> bool:
    """Return True if a copy was begun there. Errors: `Conflict` if anything else is there."""
    if not exists(target):
        if resume:
            raise InvalidRequest("there is no copy to go on with", got=label_of(target))
        return False
    with connect_place(target) as db:
        tables = db.columns()
        if "view_versions" not in tables:  # an empty file
            return False
        is_begun = UNFINISHED_COPY in stored_versions(db)
        if is_begun and not resume:
            raise Conflict(
                "a copy was begun there and not finished",
                got=label_of(target),
                hint="Go on with it: the same command with --resume.",
            )
        if not is_begun and copies.has_anything(db):
            raise Conflict(
                "a store is copied into an empty place; nothing was changed",
                expected="no file, or a database without a store in it",
                got=f"{label_of(target)}, which holds one",
                hint="Name another place. A finished copy cannot be brought up to date.",
            )
        if resume and not is_begun:
            raise InvalidRequest("there is no copy to go on with", got=label_of(target))
    return is_begun


def _measure(seen: Database, target: str, *, resume: bool) -> Copied:
    """Return what would be copied; nothing is written."""
    is_begun = _check_target(target, resume=resume)
    found = Copied(dry=True, head=GENESIS.hex())
    found.events, found.commits, found.contents = (
        copies.count_rows(seen, table) for table in ("events", "commits", "blobs")
    )
    found.head = events.newest_commit(seen)[1].hex()
    if is_begun:
        with connect_place(target) as db:
            found.resumed = copies.count_rows(db, "events")
    return found


class _StoreCopy:
    """A copy that is being written."""

    def __init__(
        self, seen: Database, db: Database, views: Sequence[View], progress: Callable[[str], None]
    ) -> None:
        self._seen = seen
        self._db = db
        self._tables = [*copies.OTHER_TABLES, *(table for view in views for table in view.tables)]
        self._progress = progress
        self._attempt = 0
        """The number of this attempt. Of two at once, the later one has the place to itself."""
        self.copied = Copied(head=GENESIS.hex())

    def begin(self, *, is_begun: bool) -> None:
        """Close the place to everybody else, and empty what is copied again.

        Errors: `Conflict` if what is there is no beginning of the source.
        """
        db = self._db
        db.begin()
        try:
            self._attempt = copies.begin_attempt(db)
            if is_begun:
                self._check_beginning()
                copies.empty_tables(db, self._tables)
            db.commit()
        except BaseException:
            _roll_back(db)
            raise

    def _check_beginning(self) -> None:
        position, root = events.newest_commit(self._db)
        if not position:
            return
        own = copies.root_at(self._seen, position)
        if own != root:
            raise Conflict(
                "what was copied there before is of another store",
                expected=f"root {own.hex() if own else 'none'} at position {position}",
                got=f"root {root.hex()}",
                hint="Name the store that it was begun with, or an empty place without --resume.",
            )
        self.copied.resumed = position
        self.copied.head = root.hex()

    def write(self) -> Copied:
        """Copy all there is. Errors: `CorruptStore` if a chain of the source is broken."""
        streams = events.scan_streams(self._seen)
        names = {id_: (name, f"{tenant}/{space}/{name}".encode()) for id_, tenant, space, name in streams}
        self._write_events(names)
        self._write_contents()
        columns, own = self._seen.columns(), self._db.columns()
        for table in self._tables:
            if sorted(columns.get(table, ())) != sorted(own[table]):
                raise CorruptStore(
                    f"table {table} of the source has other columns", hint="Run `artelier verify` on it."
                )
            self._write_table(table, columns[table])
        counters = self._seen.counters()
        with self._piece():
            self._db.set_counters(counters)
        return self.copied

    @contextmanager
    def _piece(self) -> Generator[None]:
        """One commit. Errors: `Conflict` if another attempt has begun."""
        self._db.begin()
        try:
            if copies.find_attempt(self._db) != self._attempt:
                raise Conflict("somebody else copies to this place", hint="Let one of the two end.")
            yield
            self._db.commit()
        except BaseException:
            _roll_back(self._db)
            raise

    def _write_events(self, names: dict[int, tuple[str, bytes]]) -> None:
        """Copy events with their commits: a piece ends with one, so that what is there is a log."""
        after, root = self.copied.resumed, bytes.fromhex(self.copied.head)
        commits = copies.scan_commits_after(self._seen, after)
        heads = copies.heads(self._db) if self.copied.resumed else {}
        stored = self._checked_events(names, heads, after=after)
        self.copied.events = copies.count_rows(self._seen, "events")
        self.copied.commits = copies.count_rows(self._seen, "commits")
        position, commit = after, next(commits, None)
        while commit is not None:
            begun = position
            with self._piece():
                while commit is not None and position - begun < ROWS_AT_ONCE:
                    first, last, expected = commit
                    if first != position + 1:
                        raise _broken(f"the commit behind position {position} is missing")
                    pairs: list[tuple[bytes, bytes]] = []
                    for rows in _chunks(_take(stored, last - position)):
                        copies.add_event_rows(self._db, rows)
                        self._db.flush()
                        pairs += [(row[9], names[row[1]][1]) for row in rows]
                        position = rows[-1][0]
                    root = commit_root(root, pairs)
                    if position != last or root != expected:
                        raise _broken(f"the commit of positions {first} to {last} does not match its events")
                    events.add_commit(self._db, first, last, root)
                    commit = next(commits, None)
            self._progress(f"{position:,} of {self.copied.events:,} events")
        if next(stored, None) is not None:
            raise _broken(f"events behind position {position} belong to no commit")
        self.copied.head = root.hex()

    def _checked_events(
        self, names: dict[int, tuple[str, bytes]], heads: dict[int, tuple[int, bytes]], *, after: int
    ) -> Iterator[Row]:
        """Yield the rows of events. Errors: `CorruptStore` at the first that is not what was written."""
        for row in copies.scan_event_rows(self._seen, after=after):
            position, stream, seq, kind, version, data, at_us, actor, cause, hash_ = row
            after += 1
            last_seq, last_hash = heads.get(stream, (0, GENESIS))
            if position != after or stream not in names or seq != last_seq + 1:
                raise _broken(f"the event at position {after} is missing or out of order")
            expected = event_hash(
                last_hash,
                stream=names[stream][0],
                seq=seq,
                kind=kind,
                version=version,
                data=data.encode(),
                at_us=at_us,
                actor=actor,
                cause=cause,
            )
            if expected != hash_:
                raise _broken(f"the event at position {position} ({kind}) is not what was written")
            heads[stream] = (seq, hash_)
            yield row

    def _write_contents(self) -> None:
        """Copy content in pieces by its size: one row may be larger than all others together."""
        piece: list[int] = []
        size_bytes = 0

        def write() -> None:
            nonlocal size_bytes
            if not piece:
                return
            rows = copies.content_rows(self._seen, piece[0], piece[-1])
            with self._piece():
                copies.add_content_rows(self._db, rows)
            self.copied.contents += len(rows)
            self._progress(f"{self.copied.contents:,} contents")
            piece.clear()
            size_bytes = 0

        for rowid, length in copies.scan_content_sizes(self._seen):
            if piece and (len(piece) == ROWS_AT_ONCE or size_bytes + length > BYTES_AT_ONCE):
                write()
            piece.append(rowid)
            size_bytes += length
        write()

    def _write_table(self, table: str, columns: Sequence[str]) -> None:
        for rows in _chunks(copies.scan_rows(self._seen, table, columns)):
            with self._piece():
                copies.add_rows(self._db, table, columns, rows)
            self.copied.rows += len(rows)
            self._progress(f"{table}: {self.copied.rows:,} rows")


def _roll_back(db: Database) -> None:
    if db.in_transaction:
        with suppress(Exception):  # the connection is gone; what it had written goes with it
            db.rollback()


def _broken(what: str) -> CorruptStore:
    return CorruptStore(f"the source is damaged: {what}", hint=RESTORE)


def _take(rows: Iterator[Row], count: int) -> Iterator[Row]:
    for _ in range(count):
        if (row := next(rows, None)) is None:
            return
        yield row


def _chunks(rows: Iterable[Row]) -> Iterator[list[Row]]:
    chunk: list[Row] = []
    for row in rows:
        chunk.append(row)
        if len(chunk) == ROWS_AT_ONCE:
            yield chunk
            chunk = []
    if chunk:
        yield chunk
