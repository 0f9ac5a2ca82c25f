"""Reads of the log's tables: the events of a stream, positions, leases, stored content and keys.

Other packages join the log's rows to their own through the published views `event_log`, `event_streams` and
`held_leases`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from json import dumps
from typing import Any, NamedTuple, TypeVar

from artelier.log.blobs import ERASED
from artelier.log.contract import LeaseEnd, Row, Store, Tx, decode_stored
from artelier.log.event import EventData, Stream, decode_data
from artelier.log.rate_windows import PRESENT_US

T = TypeVar("T")

PUBLISHED = (
    """CREATE TEMP VIEW IF NOT EXISTS event_log AS
        SELECT stream AS stream_id, seq, position, kind, version, at_us, actor, cause, data FROM events""",
    """CREATE TEMP VIEW IF NOT EXISTS event_streams AS
        SELECT id AS stream_id, tenant, space, name FROM streams""",
    """CREATE TEMP VIEW IF NOT EXISTS held_leases AS
        SELECT stream, holder, expires_us, expires_uptime_us, progress FROM leases""",
)
"""The log's published views: `event_log` has a row per event, `event_streams` one per stream, and
`held_leases` one per lease that was not given back."""


async def fetch_all(
    store: Store, record: Callable[..., T], sql: str, parameters: Sequence[object] = ()
) -> list[T]:
    """Return each row as a record."""
    return [record(*row) for row in await store.query(sql, parameters)]


async def fetch_first(
    store: Store, record: Callable[..., T], sql: str, parameters: Sequence[object] = ()
) -> T | None:
    """Return the first row as a record; None if there is no row."""
    rows = await store.query(sql, parameters)
    return record(*rows[0]) if rows else None


async def fetch_column(store: Store, sql: str, parameters: Sequence[object] = ()) -> list[Any]:
    """Return the first column."""
    return [row[0] for row in await store.query(sql, parameters)]


async def fetch_value(
    store: Store, sql: str, parameters: Sequence[object] = (), *, default: object = None
) -> Any:
    """Return the first column of the first row; `default` if there is no row."""
    rows = await store.query(sql, parameters)
    return rows[0][0] if rows else default


_EVENT = "seq, position, kind, version, at_us, actor, cause, data"


class EventRow(NamedTuple):
    """A stored event of a stream that the caller knows."""

    seq: int
    position: int
    kind: str
    version: int
    at_us: int
    actor: str
    cause: str | None
    data: str

    def decode(self) -> EventData:
        """Return the data, typed and upcast. Errors: `UnknownEvent`."""
        return decode_data(self.kind, self.version, self.data.encode())

    def read(self, type: type[T]) -> T:
        """Return the data as it was stored, as a value of `type`. Errors: `CorruptStore`."""
        return decode_stored(self.data, type=type)


async def stream_events(
    store: Store,
    stream_id: int,
    *kinds: str,
    after: int = 0,
    upto: int | None = None,
    containing: str = "",
    newest: int | None = None,
    limit: int | None = None,
) -> list[EventRow]:
    """Return events of a stream in their order, of some kinds, with `after < seq <= upto`.

    `containing` narrows them to those whose stored data has this text; with `newest`, that many of the last
    are returned, the newest first; with `limit`, that many of the first.
    """
    where, parameters = "stream = ? AND seq > ?", [stream_id, after]
    if upto is not None:
        where, parameters = f"{where} AND seq <= ?", [*parameters, upto]
    if kinds:
        where, parameters = f"{where} AND kind IN ({sql_marks(kinds)})", [*parameters, *kinds]
    if containing:
        where, parameters = f"{where} AND instr(data, ?) > 0", [*parameters, containing]
    order = "seq" if newest is None else f"seq DESC LIMIT {newest:d}"
    if limit is not None:
        order = f"{order} LIMIT {limit:d}"
    return await fetch_all(
        store, EventRow, f"SELECT {_EVENT} FROM events WHERE {where} ORDER BY {order}", parameters
    )


async def survey_events(store: Store, stream_id: int, *kinds: str) -> list[Row]:
    """Return what all events of a stream are made from (`EventRow`), of some kinds; read beside the loop."""
    if not kinds:
        sql = f"SELECT {_EVENT} FROM events WHERE stream = ? ORDER BY seq"
        return await store.survey(sql, (stream_id,))
    return await store.survey(
        f"SELECT {_EVENT} FROM events WHERE stream = ? AND kind IN ({sql_marks(kinds)}) ORDER BY seq",
        (stream_id, *kinds),
    )


async def events_at(store: Store, stream_id: int, seqs: Sequence[int]) -> dict[int, EventRow]:
    """Return the events of a stream that have these sequence numbers, by number."""
    rows = await store.query(
        f"SELECT {_EVENT} FROM events WHERE stream = ? AND seq IN ({sql_marks(seqs)})", (stream_id, *seqs)
    )
    return {row[0]: EventRow(*row) for row in rows}


async def events_between(
    store: Store, stream_id: int, kinds: Sequence[str], *, after: int, upto: int
) -> list[EventRow]:
    """Return the events of some kinds between two of a stream, oldest first."""
    return await fetch_all(
        store,
        EventRow,
        f"SELECT {_EVENT} FROM events WHERE stream = ? AND seq > ? AND seq <= ?"
        f" AND kind IN ({sql_marks(kinds)}) ORDER BY seq",
        (stream_id, after, upto, *kinds),
    )


async def event_caused_by(store: Store, stream_id: int, cause: str) -> EventRow | None:
    """Return the first event of a stream that names this cause."""
    return await fetch_first(
        store,
        EventRow,
        f"SELECT {_EVENT} FROM events WHERE stream = ? AND cause = ? ORDER BY seq LIMIT 1",
        (stream_id, cause),
    )


async def causes_of(store: Store, stream: Stream, *, prefix: str, upto: int) -> list[str]:
    """Return the causes with a prefix that events of a stream name, up to a position."""
    return await fetch_column(
        store,
        "SELECT e.cause FROM events e JOIN streams s ON s.id = e.stream"
        " WHERE s.tenant = ? AND s.space = ? AND s.name = ? AND e.position <= ?"
        " AND substr(e.cause, 1, ?) = ?",
        (*stream, upto, len(prefix), prefix),
    )


async def position_of(store: Store, stream: Stream, seq: int) -> int:
    """Return the position of an event that is there."""
    return await fetch_value(
        store,
        "SELECT e.position FROM events e JOIN streams s ON s.id = e.stream"
        " WHERE s.tenant = ? AND s.space = ? AND s.name = ? AND e.seq = ?",
        (*stream, seq),
    )


async def newest_position(store: Store) -> int:
    """Return the position of the newest event of the store."""
    return (await store.query("SELECT coalesce(max(position), 0) FROM events"))[0][0]


async def newest_at_us(store: Store) -> int | None:
    """Return when the newest event of the store was written; None without one."""
    return await fetch_value(store, "SELECT at_us FROM events ORDER BY position DESC LIMIT 1")


async def newest_event(store: Store, stream: Stream, kind: str) -> EventRow | None:
    """Return the newest event of a kind in a stream."""
    return await fetch_first(
        store,
        EventRow,
        f"SELECT {_EVENT} FROM events WHERE kind = ? AND stream = (SELECT id FROM streams"
        " WHERE tenant = ? AND space = ? AND name = ?) ORDER BY seq DESC LIMIT 1",
        (kind, *stream),
    )


NEWEST_BUT = (
    "SELECT e.seq FROM events e JOIN streams s ON s.id = e.stream"
    " WHERE s.tenant = ? AND s.space = ? AND s.name = ? AND e.kind NOT IN ({}) ORDER BY e.seq DESC LIMIT 1"
)


def newest_seq_but(tx: Tx, stream: Stream, kinds: Sequence[str]) -> int:
    """Return the sequence number of a stream's newest event that is of none of these kinds; 0 without one."""
    row = tx.one(NEWEST_BUT.format(sql_marks(kinds)), (*stream, *kinds))
    return 0 if row is None else row[0]


async def read_newest_seq_but(store: Store, stream: Stream, kinds: Sequence[str]) -> int:
    """Return what `newest_seq_but` returns, outside of a transaction."""
    return await fetch_value(store, NEWEST_BUT.format(sql_marks(kinds)), (*stream, *kinds), default=0)


async def is_leased(store: Store, stream: Stream) -> bool:
    """Return True if the stream's lease was not given back, whether it has expired or not."""
    return bool(await store.query("SELECT 1 FROM leases WHERE stream = ?", (stream.name,)))


class LeaseRow(NamedTuple):
    """A lease that was not given back."""

    stream: str
    """`tenant/space/name` of the stream."""
    holder: str
    end: LeaseEnd


_LEASE = "SELECT stream, holder, expires_us, expires_uptime_us FROM leases"


async def held_leases(store: Store, streams: Sequence[Stream] | None = None) -> list[LeaseRow]:
    """Return the leases of these streams that were not given back; without `streams` those of all."""
    if streams is None:
        rows = await store.query(_LEASE)
    else:
        names = [stream.name for stream in streams]
        rows = await store.query(
            f"{_LEASE} WHERE stream IN (SELECT value FROM json_each(?))", (dumps(names),)
        )
    return [LeaseRow(stream, holder, LeaseEnd(*end)) for stream, holder, *end in rows]


def tenant_leases(tx: Tx, tenant: str) -> list[LeaseRow]:
    """Return the leases of a tenant's streams."""
    prefix = f"{tenant}/"
    rows = tx.execute(f"{_LEASE} WHERE substr(stream, 1, ?) = ?", (len(prefix), prefix)).fetchall()
    return [LeaseRow(stream, holder, LeaseEnd(*end)) for stream, holder, *end in rows]


async def has_blob(store: Store, tenant: str, name: bytes) -> bool:
    """Return True if a tenant has stored this content."""
    return bool(await store.query("SELECT 1 FROM blobs WHERE name = ? AND tenant = ?", (name, tenant)))


_STORED = f"SELECT count(*) FROM blobs WHERE name = ? AND tenant = ? AND codec <> {ERASED}"


def count_stored(tx: Tx, tenant: str, names: Sequence[bytes]) -> int:
    """Return how many of these contents a tenant has that were not erased. Cost: one look for each."""
    return sum(tx.execute(_STORED, (name, tenant)).fetchall()[0][0] for name in dict.fromkeys(names))


_CONTENT_SIZE = "SELECT max(rowid), coalesce(sum(size), 0) FROM blobs WHERE rowid > ? AND tenant = ?"


async def content_size(store: Store, tenant: str, *, after: int) -> tuple[int | None, int]:
    """Return the newest row of a tenant's content after a row, and the bytes of what came after it."""
    ask = store.query if after else store.survey
    rows = await ask(_CONTENT_SIZE, (after, tenant))
    return rows[0][0], rows[0][1]


async def subject_keys(store: Store, tenant: str, subject: str) -> tuple[int, ...]:
    """Return the rows in `keys` of a subject's keys."""
    names = await store.subject_names(tenant, subject)
    return tuple(
        await fetch_column(
            store,
            "SELECT key_id FROM keys WHERE tenant = ? AND subject IS NOT NULL"
            " AND (subject = ? OR subject = ?)",
            (tenant, names[0], names[-1]),
        )
    )


async def part_keys_of(store: Store, tenant: str, names: Sequence[bytes]) -> dict[bytes, int]:
    """Return the rows in `keys` of those of these contents that can be erased as a part, by name.

    Cost: a query for each 500.
    """
    found: dict[bytes, int] = {}
    for start in range(0, len(names), 500):
        await asyncio.sleep(0)  # of tens of thousands others have turns in between
        some = names[start : start + 500]
        rows = await store.query(
            "SELECT b.name, b.key_id FROM blobs b JOIN keys k ON k.key_id = b.key_id"
            f" WHERE b.name IN ({sql_marks(some)}) AND b.tenant = ? AND k.parent IS NOT NULL",
            (*some, tenant),
        )
        found.update((bytes(name), key_id) for name, key_id in rows)
    return found


PARTS_SINCE = 6
"""The schema in which keys stand below others."""


async def are_parts(store: Store, tenant: str, names: Sequence[bytes]) -> bool:
    """Return True if all of these contents that are still there can be erased as a part."""
    for start in range(0, len(names), 500):
        await asyncio.sleep(0)  # of tens of thousands others have turns in between
        some = names[start : start + 500]
        rows = await store.query(
            "SELECT 1 FROM blobs b JOIN keys k ON k.key_id = b.key_id"
            f" WHERE b.name IN ({sql_marks(some)}) AND b.tenant = ? AND k.parent IS NULL"
            " AND length(k.secret) > 0 LIMIT 1",
            (*some, tenant),
        )
        if rows:
            return False
    return True


async def part_keys_in(store: Store, tenant: str) -> frozenset[int]:
    """Return the rows in `keys` of a tenant under which content can be erased as a part."""
    if store.schema_version < PARTS_SINCE:
        return frozenset()  # a file of an older version that cannot be written
    rows = await store.survey("SELECT key_id FROM keys WHERE tenant = ? AND parent IS NOT NULL", (tenant,))
    return frozenset(key_id for (key_id,) in rows)


async def content_key(store: Store, tenant: str, name: bytes) -> int | None:
    """Return the row of the key that a content was stored under, though it may be gone."""
    return await fetch_value(store, "SELECT key_id FROM blobs WHERE name = ? AND tenant = ?", (name, tenant))


async def contents_under(store: Store, tenant: str, key_ids: Sequence[int]) -> list[tuple[int, bytes]]:
    """Return key and name of all that is stored under some keys. Cost: a query for each 500."""
    found: list[tuple[int, bytes]] = []
    for start in range(0, len(key_ids), 500):
        await asyncio.sleep(0)  # of tens of thousands others have turns in between
        some = key_ids[start : start + 500]
        rows = await store.query(
            f"SELECT key_id, name FROM blobs WHERE key_id IN ({sql_marks(some)}) AND tenant = ?",
            (*some, tenant),
        )
        found.extend((key_id, bytes(name)) for key_id, name in rows)
    return found


async def stored_bytes(store: Store) -> int:
    """Return the bytes of all content before compression. Cost: one scan of the contents."""
    rows = await store.query("SELECT coalesce(sum(size), 0) FROM blobs")
    return int(rows[0][0])


async def newest_key(store: Store) -> int:
    """Return the row of the newest key ever made, dropped or not; 0 without one."""
    return await fetch_value(store, "SELECT made FROM key_counter", default=0)


async def has_wrapped_keys(store: Store, *, secret_bytes: int) -> bool:
    """Return True if a key of the store is longer than a plain one: it was sealed under another key."""
    return bool(await store.query("SELECT 1 FROM keys WHERE length(secret) > ? LIMIT 1", (secret_bytes,)))


class Placeholder(NamedTuple):
    """A placeholder of the vault."""

    placeholder: str
    is_alive: bool
    """Whether it still stands for a value."""


async def placeholders_of(store: Store, tenant: str, digest: bytes) -> list[Placeholder]:
    """Return the placeholders of a value by its digest."""
    rows = await store.query(
        "SELECT placeholder, sealed IS NOT NULL FROM vault WHERE digest = ? AND tenant = ?", (digest, tenant)
    )
    return [Placeholder(placeholder, bool(is_alive)) for placeholder, is_alive in rows]


def sql_marks(values: Sequence[object]) -> str:
    """Return the parameters of `IN (...)` in a statement."""
    return ", ".join("?" * len(values))


def events_since(tx: Tx, position: int, kind: str, *, containing: str) -> list[tuple[int, EventRow]]:
    """Return events of a kind behind a position whose stored data has a text, each with its stream's row."""
    rows = tx.execute(
        f"SELECT stream, {_EVENT} FROM events WHERE position > ? AND kind = ? AND instr(data, ?) > 0"
        " ORDER BY position",
        (position, kind, containing),
    ).fetchall()
    return [(row[0], EventRow(*row[1:])) for row in rows]


# Placeholders of personal data, read at once: `look` is `Store.look`

Look = Callable[[str, Sequence[Any]], list[tuple[Any, ...]]]


class VaultRow(NamedTuple):
    """A placeholder of a value, without the value."""

    digest: bytes
    placeholder: str
    generation: int
    is_erased: bool


def vault_rows(look: Look, tenant: str, digests: Sequence[bytes]) -> dict[bytes, VaultRow]:
    """Return the newest placeholder of each of these values that has one, by digest."""
    rows = look(
        "SELECT digest, placeholder, generation, sealed IS NULL FROM vault"
        f" WHERE digest IN ({sql_marks(digests)}) AND tenant = ? ORDER BY generation",
        (*digests, tenant),
    )
    return {digest: VaultRow(digest, made, generation, bool(gone)) for digest, made, generation, gone in rows}


def stored_placeholders(look: Look, tenant: str, placeholders: Sequence[str]) -> set[str]:
    """Return those of these placeholders that are stored."""
    rows = look(
        f"SELECT placeholder FROM vault WHERE placeholder IN ({sql_marks(placeholders)}) AND tenant = ?",
        (*placeholders, tenant),
    )
    return {placeholder for (placeholder,) in rows}


def sealed_values(look: Look, tenant: str, placeholders: Sequence[str]) -> dict[str, bytes | None]:
    """Return the sealed values of those placeholders that are stored; None for one that was erased."""
    rows = look(
        "SELECT placeholder, sealed FROM vault"
        f" WHERE placeholder IN ({sql_marks(placeholders)}) AND tenant = ?",
        (*placeholders, tenant),
    )
    return dict(rows)


class KeyRow(NamedTuple):
    """A key as it is stored, perhaps wrapped."""

    key_id: int
    secret: bytes


def tenant_key(look: Look, tenant: str) -> KeyRow | None:
    """Return the key of a tenant itself; None if it has none yet."""
    rows = look(
        "SELECT key_id, secret FROM keys WHERE tenant = ? AND subject IS NULL ORDER BY key_id LIMIT 1",
        (tenant,),
    )
    return KeyRow(*rows[0]) if rows else None


def stream_ids_in(look: Look, tenant: str, text: str) -> list[str]:
    """Return the ids of a tenant's streams that stand in a text, the longest first, at most 100."""
    rows = look(
        "SELECT id FROM (SELECT substr(name, instr(name, ':') + 1) AS id FROM streams WHERE tenant = ?)"
        " WHERE length(id) > 3 AND instr(?, id) > 0 ORDER BY length(id) DESC LIMIT 100",
        (tenant, text),
    )
    return [id for (id,) in rows]


async def keys_of_blobs(store: Store, tenant: str, names: Sequence[bytes], *, but: str) -> dict[bytes, int]:
    """Return the rows of the subjects' keys that contents are stored under, by name; not of subject `but`."""
    rows = await store.query(
        "SELECT b.name, b.key_id FROM blobs b JOIN keys k ON k.key_id = b.key_id"
        f" WHERE b.name IN ({sql_marks(names)}) AND b.tenant = ? AND k.subject <> ?",
        (*names, tenant, but),
    )
    return {bytes(name): key_id for name, key_id in rows}


async def newest_position_of(store: Store, tenant: str, space: str, names: Sequence[str]) -> int:
    """Return the position of the newest event of some streams of a space; 0 if none has any."""
    return await fetch_value(
        store,
        "SELECT coalesce(max((SELECT e.position FROM events e WHERE e.stream = s.id"
        " ORDER BY e.seq DESC LIMIT 1)), 0) FROM streams s WHERE s.tenant = ? AND s.space = ?"
        f" AND s.name IN ({sql_marks(names)})",
        (tenant, space, *names),
    )


async def newest_events(
    store: Store, stream_ids: Sequence[int], kind: str, *, after: int, limit: int
) -> list[tuple[int, EventRow]]:
    """Return `(stream id, event)` of a kind in some streams behind a position, newest first."""
    rows = await store.query(
        f"SELECT stream, {_EVENT} FROM events WHERE stream IN ({sql_marks(stream_ids)}) AND kind = ?"
        " AND position > ? ORDER BY position DESC LIMIT ?",
        (*stream_ids, kind, after, limit),
    )
    return [(row[0], EventRow(*row[1:])) for row in rows]


async def streams_begun(store: Store, stream_ids: Sequence[int], *, upto: int) -> set[int]:
    """Return those of these streams that had begun at a position. Cost: a query for each 500."""
    found: set[int] = set()
    for start in range(0, len(stream_ids), 500):
        some = stream_ids[start : start + 500]
        rows = await store.query(
            f"SELECT stream FROM events WHERE stream IN ({sql_marks(some)}) AND seq = 1 AND position <= ?",
            (*some, upto),
        )
        found.update(id_ for (id_,) in rows)
    return found


async def stored_keys(store: Store, key_ids: Sequence[int]) -> set[int]:
    """Return those of these keys that were not destroyed. Cost: a query for each 500."""
    found: set[int] = set()
    for start in range(0, len(key_ids), 500):
        await asyncio.sleep(0)  # of tens of thousands others have turns in between
        some = key_ids[start : start + 500]
        rows = await store.query(
            f"SELECT key_id FROM keys WHERE key_id IN ({sql_marks(some)}) AND length(secret) > 0", some
        )
        found.update(id_ for (id_,) in rows)
    return found


class WindowWait(NamedTuple):
    """A window of rates that a run waits for."""

    window: str
    until_us: int


async def rate_wait(store: Store, tenant: str, run_id: str, *, now_us: int) -> WindowWait | None:
    """Return the window that a run waits for the longest, as a process that is alive says."""
    rows = await store.query(
        "SELECT unit, at_us FROM rates WHERE scope = ? AND unit > 'wait:' AND unit < 'wait;' AND used > ?"
        " ORDER BY at_us DESC LIMIT 1",
        (f"run:{tenant}/{run_id}", now_us - PRESENT_US),
    )
    return WindowWait(rows[0][0].partition("\n")[2], rows[0][1]) if rows else None
