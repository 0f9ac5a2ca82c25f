"""Rows of the view as typed values. Every query names tenant and space; nothing here decides anything."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from artelier.artifacts.access.bill import Prices
from artelier.artifacts.access.rules import Access
from artelier.artifacts.artifact import Summary
from artelier.log import Store

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
    prices: Prices
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
        Prices(read=read, invoke=invoke, inclusion=inclusion),
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
    rows = await store.query(f"{sql} ORDER BY version, n LIMIT ?", (*parameters, limit))
    return [row[0] for row in rows]
