"""Rows of the view as typed values. Every query names tenant and space; nothing here decides anything."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from artelier.artifacts.access import Access, AccessPrices
from artelier.artifacts.ref import Ref
from artelier.errors import InvalidArtifact
from artelier.ids import MAIN_SPACE
from artelier.log import Store, Tx
from artelier.log.queries import events_at, fetch_all, fetch_column, fetch_value

# --------------------------------------------------------------------------- artifact
# The values of this package: an artifact, and what search, history and lineage answer.


PUBLISHED = (
    """CREATE TEMP VIEW IF NOT EXISTS artifact_heads AS
        SELECT a.tenant, a.space, a.id, a.kind, a.owner, a.access, a.deleted, a.version, a.position,
            v.content, v.size_bytes
        FROM artifacts a LEFT JOIN artifact_versions v
        ON v.tenant = a.tenant AND v.space = a.space AND v.id = a.id AND v.version = a.version""",
)
"""The published view of artifacts: a row per artifact with its newest version."""

SOURCES_MAX = 256
"""Refs one version may derive from (guess: a prompt's worth of parts)."""


class Provenance(msgspec.Struct, frozen=True, kw_only=True):
    """The origin of a version."""

    derived_from: tuple[str, ...] = ()
    """Refs, as written; they may dangle."""
    run_id: str | None = None
    step: str | None = None
    """Key of the step of that run."""

    def normalise(self) -> Provenance:
        """Itself, refs checked and each once. Errors: `InvalidArtifact`, `InvalidRequest`."""
        refs = tuple(str(Ref.parse(ref, main_allowed=True)) for ref in dict.fromkeys(self.derived_from))
        if len(refs) > SOURCES_MAX:
            raise InvalidArtifact(
                "too many sources of one artifact", expected=f"at most {SOURCES_MAX}", got=len(refs)
            )
        return Provenance(derived_from=refs, run_id=self.run_id, step=self.step)


class Artifact(msgspec.Struct, frozen=True, kw_only=True):
    """One version of an artifact, with what holds for all its versions."""

    id: str
    kind: str
    content: Any
    """Text, bytes or JSON data."""
    version: int
    """From 1; that of `content`."""
    creator: str
    owner: str
    access: Access | None
    """None: what is stored cannot be read, and denies."""
    prices: AccessPrices
    interface: Any = None
    """MCP style: its tools with JSON schema; None if it has none."""
    provenance: Provenance = Provenance()
    metadata: dict[str, Any] = {}
    deleted: bool = False
    created_us: int
    """Of version 1; in a world the tick."""
    written_us: int
    """Of this version; in a world the tick."""


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """An artifact without its content."""

    id: str
    kind: str
    version: int
    creator: str
    owner: str
    access: Access | None
    prices: AccessPrices
    size_bytes: int
    created_us: int
    """Of version 1; in a world the tick."""
    written_us: int

    @property
    def names_chars(self) -> int:
        """The characters of the names in its policy."""
        return 0 if self.access is None else self.access.size_chars


class VersionInfo(msgspec.Struct, frozen=True, kw_only=True):
    """One entry of a history."""

    version: int
    writer: str
    """Its writer: `user:<name>`, `operator`, or a principal."""
    written_us: int
    media: str
    size_bytes: int
    run_id: str | None
    step: str | None
    pruned: bool
    """Its content can no longer be read."""


class Lineage(msgspec.Struct, frozen=True, kw_only=True):
    """One step in both directions; follow the refs for more."""

    id: str
    sources: tuple[str, ...]
    """Refs that versions of it came from, oldest first."""
    derived: tuple[str, ...]
    """Refs `id@version` of what came from it, as far as the asker may read them."""


# --------------------------------------------------------------------------- queries


Row = tuple[Any, ...]


class VersionRow(NamedTuple):
    """One version, its content still behind references."""

    version: int
    content: str
    media: str
    size_bytes: int
    interface: str | None
    metadata: str | None
    sources: int
    written_us: int
    run_id: str | None
    step: str | None
    writer: str
    """Who wrote it, as its event says."""


class Standing(NamedTuple):
    """An artifact as it stands, and the version that was asked for (None if there is none such)."""

    id: str
    kind: str
    version: int
    """The newest."""
    kept_from: int
    deleted: bool
    creator: str
    owner: str
    access: Access | None
    prices: AccessPrices
    created_us: int
    position: int
    at: VersionRow | None

    def summary(self) -> Summary:
        """Shapes: `at` must be there."""
        assert self.at is not None
        return Summary(
            id=self.id,
            kind=self.kind,
            version=self.version,
            creator=self.creator,
            owner=self.owner,
            access=self.access,
            prices=self.prices,
            size_bytes=self.at.size_bytes,
            created_us=self.created_us,
            written_us=self.at.written_us,
        )


COLUMNS = (
    "SELECT a.id, a.kind, a.version, a.kept_from, a.deleted, a.creator, a.owner, a.access,"
    " a.price_read, a.price_invoke, a.price_inclusion, a.created_us, a.position,"
    " v.version, v.content, v.media, v.size_bytes, v.interface, v.metadata, v.sources,"
    " v.written_us, v.run_id, v.step, v.writer"
    " FROM artifacts a LEFT JOIN artifact_versions v"
    " ON v.tenant = a.tenant AND v.space = a.space AND v.id = a.id AND v.version = "
)

_ONE = " WHERE a.tenant = ? AND a.space = ? AND a.id = ?"


def standing_from(row: Row) -> Standing:
    (
        id_,
        kind,
        version,
        kept_from,
        deleted,
        creator,
        owner,
        access,
        read,
        invoke,
        inclusion,
        created_us,
        position,
        *at,
    ) = row
    return Standing(
        id_,
        kind,
        version,
        kept_from,
        bool(deleted),
        creator,
        owner,
        Access.read(access),
        AccessPrices(read=read, invoke=invoke, inclusion=inclusion),
        created_us,
        position,
        None if at[0] is None else VersionRow(*at),
    )


async def load(
    store: Store, tenant: str, space: str, id_: str, *, version: int | None = None
) -> Standing | None:
    """An artifact and one of its versions, the newest unless said; None if the id was never written."""
    key = (tenant, space, id_)
    if version is None:
        rows = await store.query(f"{COLUMNS}a.version{_ONE}", key)
    else:
        rows = await store.query(f"{COLUMNS}?{_ONE}", (version, *key))
    return standing_from(rows[0]) if rows else None


async def sources_of(
    store: Store, tenant: str, space: str, id_: str, *, version: int | None = None, limit: int
) -> list[str]:
    """Refs that a version, or all versions, came from, in order."""
    sql = "SELECT source FROM artifact_sources WHERE tenant = ? AND space = ? AND id = ?"
    parameters: Sequence[Any] = (tenant, space, id_)
    if version is not None:
        sql, parameters = f"{sql} AND version = ?", (*parameters, version)
    return await fetch_column(store, f"{sql} ORDER BY version, n LIMIT ?", (*parameters, limit))


async def find_kind(store: Store, tenant: str, space: str, id: str) -> str | None:
    """Return the kind of an artifact, deleted or not; None if there is none."""
    return await fetch_value(
        store, "SELECT kind FROM artifacts WHERE tenant = ? AND space = ? AND id = ?", (tenant, space, id)
    )


async def streams_written(
    store: Store, tenant: str, space: str, run_id: str, *, upto: int, beside: Sequence[tuple[str, str]]
) -> list[tuple[str, int]]:
    """Return the streams of artifacts that a run wrote, each with the position of the run's newest version.

    Of artifacts of a kind in `beside`, also with that of the newest event of the kind that goes with it. Both
    count up to the position `upto`.
    """
    at = (tenant, space, run_id, upto)
    versions = await store.query(
        "SELECT s.name, max(e.position) FROM artifact_versions v"
        " JOIN event_log e ON e.stream_id = v.stream AND e.seq = v.seq"
        " JOIN event_streams s ON s.stream_id = v.stream"
        " WHERE v.tenant = ? AND v.space = ? AND v.run_id = ? AND e.position <= ?"
        " GROUP BY s.name",
        at,
    )
    others = await store.query(
        "SELECT s.name, max(e.position) FROM artifact_versions v"
        " JOIN artifacts a ON a.tenant = v.tenant AND a.space = v.space AND a.id = v.id"
        " JOIN json_each(?) b ON json_extract(b.value, '$[0]') = a.kind"
        " JOIN event_log e ON e.stream_id = v.stream AND e.kind = json_extract(b.value, '$[1]')"
        " JOIN event_streams s ON s.stream_id = v.stream"
        " WHERE v.tenant = ? AND v.space = ? AND v.run_id = ? AND e.position <= ? GROUP BY s.name",
        (json.dumps(beside), *at),
    )
    return [(name, position) for name, position in (*versions, *others)]


IDS_MAX = 500
"""Ids of one query."""


class HeadRow(NamedTuple):
    """An artifact with its newest version."""

    id: str
    kind: str
    owner: str
    deleted: bool
    version: int
    content: str
    size_bytes: int


class KindCount(NamedTuple):
    """The number of artifacts of a kind, and of their owners."""

    kind: str
    artifacts: int
    owners: int


async def load_many(store: Store, tenant: str, space: str, ids: Sequence[str]) -> dict[str, Standing]:
    """Return artifacts with their newest versions, by id. Cost: a query for each 500."""
    found: dict[str, Standing] = {}
    for start in range(0, len(ids), IDS_MAX):
        some = ids[start : start + IDS_MAX]
        marks = ",".join("?" * len(some))
        rows = await store.query(
            f"{COLUMNS}a.version WHERE a.tenant = ? AND a.space = ? AND a.id IN ({marks})",
            (tenant, space, *some),
        )
        found.update({row[0]: standing_from(row) for row in rows})
    return found


async def heads(store: Store, tenant: str, space: str) -> list[HeadRow]:
    """Return all artifacts of a space that have a version, deleted ones too, in no order."""
    rows = await store.query(
        "SELECT a.id, a.kind, a.owner, a.deleted, a.version, v.content, v.size_bytes FROM artifacts a"
        " JOIN artifact_versions v ON v.tenant = a.tenant AND v.space = a.space AND v.id = a.id"
        " AND v.version = a.version WHERE a.tenant = ? AND a.space = ?",
        (tenant, space),
    )
    return [HeadRow(*row)._replace(deleted=bool(row[3])) for row in rows]


async def kinds_of(store: Store, tenant: str, space: str) -> dict[str, str]:
    """Return the kind of every artifact of a space, by id: it is fixed, and ids are not given again."""
    return dict(
        await store.query("SELECT id, kind FROM artifacts WHERE tenant = ? AND space = ?", (tenant, space))
    )


async def count_kinds(store: Store, tenant: str, space: str) -> list[KindCount]:
    """Return the kinds of artifacts that are not deleted, by name."""
    return await fetch_all(
        store,
        KindCount,
        "SELECT kind, COUNT(*), COUNT(DISTINCT owner) FROM artifacts WHERE tenant = ? AND space = ?"
        " AND deleted = 0 GROUP BY kind ORDER BY kind",
        (tenant, space),
    )


async def contents_of_kind(store: Store, tenant: str, space: str, kind: str) -> list[str]:
    """Return the references of the contents of all versions of artifacts of a kind, each once."""
    return await fetch_column(
        store,
        "SELECT DISTINCT v.content FROM artifact_versions v JOIN artifacts a ON a.tenant = v.tenant"
        " AND a.space = v.space AND a.id = v.id"
        " WHERE a.tenant = ? AND a.space = ? AND a.kind = ?",
        (tenant, space, kind),
    )


async def is_owner(store: Store, tenant: str, space: str, principal: str) -> bool:
    """Return True if a principal owns an artifact that is not deleted."""
    return bool(
        await store.query(
            "SELECT 1 FROM artifacts WHERE tenant = ? AND space = ? AND owner = ? AND deleted = 0 LIMIT 1",
            (tenant, space, principal),
        )
    )


async def first_written_us(store: Store, tenant: str, space: str, content: str, *, beside: str) -> int | None:
    """Return when another artifact than `beside` first had a content; None if none did.

    Cost: one scan of the versions of the space.
    """
    return await fetch_value(
        store,
        "SELECT MIN(v.written_us) FROM artifact_versions v WHERE v.tenant = ? AND v.space = ?"
        " AND v.content = ? AND v.id <> ?",
        (tenant, space, content, beside),
    )


async def ids_between(
    store: Store,
    tenant: str,
    space: str,
    *,
    kind: str,
    low: str = "",
    high: str | None = None,
    but: str | None = None,
    limit: int,
) -> list[str]:
    """Return ids of a kind between two texts, neither included, in their order; what was deleted is left out.

    `but`: a beginning that none of them may have.
    """
    where, values = (
        "tenant = ? AND space = ? AND id > ? AND kind = ? AND deleted = 0",
        [tenant, space, low, kind],
    )
    if high is not None:
        where, values = f"{where} AND id < ?", [*values, high]
    if but is not None:
        where, values = f"{where} AND substr(id, 1, length(?)) <> ?", [*values, but, but]
    return await fetch_column(
        store, f"SELECT id FROM artifacts WHERE {where} ORDER BY id LIMIT ?", (*values, limit)
    )


async def newest_first(store: Store, tenant: str, space: str, ids: Sequence[str]) -> list[str]:
    """Return those of these artifacts that there are, the one that was written last first."""
    marks = ", ".join("?" * len(ids))
    return await fetch_column(
        store,
        f"SELECT id FROM artifact_versions WHERE tenant = ? AND space = ? AND id IN ({marks})"
        " GROUP BY id ORDER BY max(written_us) DESC, id",
        (tenant, space, *ids),
    )


class Written(NamedTuple):
    """The writing of a version, as its event says."""

    at_us: int
    by: str


async def find_written(store: Store, tenant: str, space: str, id: str, version: int) -> Written | None:
    """Return when a version of an artifact was written, and by whom; None if it was not."""
    rows = await store.query(
        "SELECT written_us, stream, seq FROM artifact_versions"
        " WHERE tenant = ? AND space = ? AND id = ? AND version = ?",
        (tenant, space, id, version),
    )
    if not rows:
        return None
    written_us, stream, seq = rows[0]
    return Written(written_us, (await events_at(store, stream, [seq]))[seq].actor)


async def ref_written_by(store: Store, tenant: str, space: str, run_id: str, step: str) -> str:
    """Return `id@version` of what a run wrote at a step; empty if it wrote nothing there."""
    rows = await store.query(
        "SELECT id, version FROM artifact_versions WHERE tenant = ? AND space = ? AND run_id = ?"
        " AND step = ?",
        (tenant, space, run_id, step),
    )
    return f"{rows[0][0]}@{rows[0][1]}" if rows else ""


async def content_of(store: Store, tenant: str, space: str, id_: str, version: int) -> str | None:
    """Return the reference of the content of a version; None if there is no such version."""
    return await fetch_value(
        store,
        "SELECT content FROM artifact_versions WHERE tenant = ? AND space = ? AND id = ? AND version = ?",
        (tenant, space, id_, version),
    )


async def versions_below(store: Store, tenant: str, space: str, folder: str) -> dict[str, int]:
    """Return the newest version of each artifact, not deleted, whose id begins with `folder`, by id."""
    rows = await store.query(
        "SELECT id, version FROM artifacts WHERE tenant = ? AND space = ? AND substr(id, 1, ?) = ?"
        " AND deleted = 0 ORDER BY id",
        (tenant, space, len(folder), folder),
    )
    return dict(rows)


async def ids_below(store: Store, tenant: str, space: str, folder: str) -> list[str]:
    """Return the ids that begin with `folder`, of deleted artifacts too."""
    return await fetch_column(
        store,
        "SELECT id FROM artifacts WHERE tenant = ? AND space = ? AND substr(id, 1, ?) = ?",
        (tenant, space, len(folder), folder),
    )


class NewestVersion(NamedTuple):
    """The newest version of an artifact."""

    version: int
    position: int
    """Of the event that made the artifact."""
    deleted: bool


async def newest_version(store: Store, tenant: str, space: str, id_: str) -> NewestVersion | None:
    """Return the newest version of an artifact, of a deleted one too; None if there is none of that id."""
    rows = await store.query(
        "SELECT version, position, deleted FROM artifacts WHERE tenant = ? AND space = ? AND id = ?",
        (tenant, space, id_),
    )
    return NewestVersion(rows[0][0], rows[0][1], bool(rows[0][2])) if rows else None


def _taken(tenant: str, space: str, ids: Sequence[str], folder: str) -> tuple[str, tuple[str | int, ...]]:
    sql = (
        f"SELECT id FROM artifacts WHERE tenant = ? AND space = ? AND (id IN ({', '.join('?' * len(ids))})"
        " OR ? <> '' AND substr(id, 1, ?) = ?) LIMIT 1"
    )
    return sql, (tenant, space, *ids, folder, len(folder), folder)


async def find_taken(
    store: Store, tenant: str, space: str, ids: Sequence[str], *, folder: str = ""
) -> str | None:
    """Return an artifact that has one of these ids, or one that begins with `folder`; deleted ones too."""
    return await fetch_value(store, *_taken(tenant, space, ids, folder))


def find_taken_in(tx: Tx, tenant: str, space: str, ids: Sequence[str], *, folder: str = "") -> str | None:
    """Return the same as `find_taken`, in a transaction."""
    row = tx.one(*_taken(tenant, space, ids, folder))
    return row[0] if row else None


async def load_shared(
    store: Store, tenant: str, space: str, group: str, *, after: str, limit: int
) -> list[Standing]:
    """Return artifacts that the newest policies share with a group, itself left out, in the order of ids."""
    rows = await store.query(
        f"{COLUMNS}a.version JOIN artifact_shared s"
        " ON s.tenant = a.tenant AND s.space = a.space AND s.id = a.id"
        " WHERE s.tenant = ? AND s.space = ? AND s.group_id = ? AND s.id > ?"
        " AND s.id <> s.group_id AND a.deleted = 0"
        " ORDER BY s.id LIMIT ?",
        (tenant, space, group, after, limit),
    )
    return [standing_from(row) for row in rows]


async def versions_after(
    store: Store, tenant: str, space: str, id_: str, *, after: int, kept_from: int, limit: int
) -> list[VersionInfo]:
    """Return the versions of an artifact above `after`, oldest first; those below `kept_from` are pruned."""
    rows = await store.query(
        "SELECT version, writer, written_us, media, size_bytes, run_id, step"
        " FROM artifact_versions WHERE tenant = ? AND space = ? AND id = ? AND version > ?"
        " ORDER BY version LIMIT ?",
        (tenant, space, id_, after, limit),
    )
    return [
        VersionInfo(
            version=version,
            writer=writer,
            written_us=written_us,
            media=media,
            size_bytes=size_bytes,
            run_id=run_id,
            step=step,
            pruned=version < kept_from,
        )
        for version, writer, written_us, media, size_bytes, run_id, step in rows
    ]


async def derived_from(
    store: Store, tenant: str, space: str, id_: str, *, limit: int
) -> list[tuple[str, int]]:
    """Return the versions, as (id, version), in the same space that came from an artifact."""
    return await store.query(
        "SELECT DISTINCT id, version FROM artifact_sources"
        " WHERE tenant = ? AND source_space = ? AND source_id = ? AND space = ?"
        " ORDER BY id, version LIMIT ?",
        (tenant, space, id_, space, limit),
    )


async def oldest_since(store: Store, tenant: str, space: str, id_: str, since_us: int) -> int | None:
    """Return the oldest version that was written since a time; None if there is none such."""
    return await fetch_value(
        store,
        "SELECT MIN(version) FROM artifact_versions"
        " WHERE tenant = ? AND space = ? AND id = ? AND written_us >= ?",
        (tenant, space, id_, since_us),
    )


class AbandonedHold(NamedTuple):
    """Money that is held for an invocation which cannot be at work any more."""

    hold: str
    id: str
    caller: str
    payer: str
    amount: int


async def abandoned_holds(
    store: Store, tenant: str, space: str, payer: str, *, before_us: int, limit: int
) -> list[AbandonedHold]:
    """Return what a principal has held for invocations that had to end before a time."""
    return await fetch_all(
        store,
        AbandonedHold,
        f"SELECT {', '.join(AbandonedHold._fields)} FROM artifact_holds"
        " WHERE tenant = ? AND space = ? AND payer = ? AND until_us < ? LIMIT ?",
        (tenant, space, payer, before_us, limit),
    )


def kind_in(tx: Tx, tenant: str, space: str, id_: str) -> str | None:
    """Return the kind of an artifact, in a transaction; None if there is none."""
    row = tx.one("SELECT kind FROM artifacts WHERE tenant = ? AND space = ? AND id = ?", (tenant, space, id_))
    return None if row is None else row[0]


def owner_in(tx: Tx, tenant: str, space: str, id_: str) -> str | None:
    """Return who owns an artifact, deleted or not, in a transaction; None if there is none."""
    row = tx.one(
        "SELECT owner FROM artifacts WHERE tenant = ? AND space = ? AND id = ?", (tenant, space, id_)
    )
    return None if row is None else row[0]


class Terms(NamedTuple):
    """The parts of an artifact that a decision about it rests on."""

    version: int
    kept_from: int
    deleted: bool
    owner: str
    access: Access | None
    prices: AccessPrices


def terms_of(tx: Tx, tenant: str, space: str, id_: str) -> Terms | None:
    """Return the terms of an artifact, in a transaction."""
    row = tx.one(
        "SELECT version, kept_from, deleted, owner, access, price_read, price_invoke,"
        " price_inclusion FROM artifacts WHERE tenant = ? AND space = ? AND id = ?",
        (tenant, space, id_),
    )
    if row is None:
        return None
    version, kept_from, deleted, owner, access, read, invoke, inclusion = row
    prices = AccessPrices(read=read, invoke=invoke, inclusion=inclusion)
    return Terms(version, kept_from, bool(deleted), owner, Access.read(access), prices)


async def artifact_exists(store: Store, tenant: str, ref: str) -> bool:
    """Return True if the tenant's main space has an artifact, or the version of it that the ref names."""
    id_, mark, version = ref.partition("#")[0].partition("@")
    if mark and not (version.isascii() and version.isdecimal()):
        return False
    sql = "SELECT 1 FROM artifact_versions WHERE tenant = ? AND space = ? AND id = ?"
    return bool(
        await store.query(
            sql + (" AND version = ?" if mark else "") + " LIMIT 1",
            (tenant, MAIN_SPACE, id_, *([int(version[:18])] if mark else [])),
        )
    )
