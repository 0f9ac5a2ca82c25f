"""The view of artifacts: what stands now, every version, and what derives from what.

It depends on events alone. Text search therefore reads blobs when it is asked (`search.py`), and lists of
metadata are no columns here.
"""

from __future__ import annotations

import msgspec

from artelier.artifacts.events import (
    ArtifactDeleted,
    ArtifactHeld,
    ArtifactInvoked,
    ArtifactPruned,
    ArtifactTransferred,
    ArtifactWritten,
    GroupJoined,
    GroupLeft,
)
from artelier.artifacts.groups import queries
from artelier.artifacts.queries import PUBLISHED
from artelier.artifacts.ref import Ref
from artelier.errors import Conflict, NotFound, VersionConflict
from artelier.log import Applied, Tx, View

_encode = msgspec.json.Encoder(order="sorted").encode

artifacts_view = View(
    name="artifacts",
    version=3,
    tables=("artifacts", "artifact_versions", "artifact_sources", "artifact_holds", *queries.TABLES),
    schema=(
        # `position` is that of the event that made it: the order of lists and searches, which no later
        # write changes, so that a write touches one index row at most.
        """CREATE TABLE artifacts(
            position INTEGER PRIMARY KEY,
            tenant TEXT NOT NULL, space TEXT NOT NULL, id TEXT NOT NULL, kind TEXT NOT NULL,
            version INTEGER NOT NULL, kept_from INTEGER NOT NULL, deleted INTEGER NOT NULL,
            creator TEXT NOT NULL, owner TEXT NOT NULL, policy TEXT NOT NULL, access TEXT NOT NULL,
            price_read INTEGER NOT NULL, price_invoke INTEGER NOT NULL,
            price_inclusion INTEGER NOT NULL, created_us INTEGER NOT NULL,
            UNIQUE(tenant, space, id)) STRICT""",
        "CREATE INDEX artifacts_by_space ON artifacts(tenant, space, position)",
        "CREATE INDEX artifacts_by_kind ON artifacts(tenant, space, kind, position)",
        "CREATE INDEX artifacts_by_owner ON artifacts(tenant, space, owner, position)",
        """CREATE TABLE artifact_versions(
            tenant TEXT NOT NULL, space TEXT NOT NULL, id TEXT NOT NULL, version INTEGER NOT NULL,
            content TEXT NOT NULL, media TEXT NOT NULL, size_bytes INTEGER NOT NULL,
            interface TEXT, metadata TEXT, sources INTEGER NOT NULL,
            stream INTEGER NOT NULL, seq INTEGER NOT NULL, writer TEXT NOT NULL,
            written_us INTEGER NOT NULL, run_id TEXT, step TEXT,
            PRIMARY KEY(tenant, space, id, version)) STRICT, WITHOUT ROWID""",
        """CREATE TABLE artifact_sources(
            tenant TEXT NOT NULL, space TEXT NOT NULL, id TEXT NOT NULL, version INTEGER NOT NULL,
            n INTEGER NOT NULL, source TEXT NOT NULL, source_space TEXT NOT NULL,
            source_id TEXT NOT NULL,
            PRIMARY KEY(tenant, space, id, version, n)) STRICT, WITHOUT ROWID""",
        "CREATE INDEX artifact_sources_by_source ON artifact_sources(tenant, source_space, source_id)",
        """CREATE TABLE artifact_holds(
            tenant TEXT NOT NULL, space TEXT NOT NULL, hold TEXT NOT NULL, id TEXT NOT NULL,
            caller TEXT NOT NULL, payer TEXT NOT NULL, amount INTEGER NOT NULL,
            until_us INTEGER NOT NULL,
            PRIMARY KEY(tenant, space, hold)) STRICT, WITHOUT ROWID""",
        "CREATE INDEX artifact_holds_by_payer ON artifact_holds(tenant, space, payer, until_us)",
        *queries.SCHEMA,
    ),
    published=(*PUBLISHED, *queries.PUBLISHED),
)


@artifacts_view.on(ArtifactWritten)
def show_written(event: Applied, tx: Tx) -> None:
    """A new version, which must follow on the one that stands."""
    data = event.data
    assert isinstance(data, ArtifactWritten)
    tenant, space, _ = event.stream
    access = _encode(data.access).decode()
    prices = (data.prices.read, data.prices.invoke, data.prices.inclusion)
    if data.version == 1:
        done = tx.execute(
            "INSERT INTO artifacts VALUES (?, ?, ?, ?, ?, 1, 1, 0, ?, ?, ?, ?, ?, ?, ?, ?)"
            " ON CONFLICT DO NOTHING",
            (
                event.position,
                tenant,
                space,
                data.id,
                data.kind,
                data.creator,
                data.owner,
                data.access.policy,
                access,
                *prices,
                event.at_us,
            ),
        )
    else:
        done = tx.execute(
            "UPDATE artifacts SET version = ?, policy = ?, access = ?, price_read = ?,"
            " price_invoke = ?, price_inclusion = ?"
            " WHERE tenant = ? AND space = ? AND id = ? AND version = ? AND deleted = 0",
            (data.version, data.access.policy, access, *prices, tenant, space, data.id, data.version - 1),
        )
    if done.rowcount != 1:
        _refuse_version(event, data, tx)
    tx.execute(
        "INSERT INTO artifact_versions VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            tenant,
            space,
            data.id,
            data.version,
            data.content,
            data.media,
            data.size_bytes,
            data.interface,
            data.metadata,
            len(data.derived_from),
            event.stream_id,
            event.seq,
            event.actor,
            event.at_us,
            data.run_id,
            data.step,
        ),
    )
    for n, source in enumerate(data.derived_from):
        ref = Ref.parse(source, main_allowed=True)
        tx.execute(
            "INSERT INTO artifact_sources VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (tenant, space, data.id, data.version, n, source, ref.space or space, ref.id),
        )
    queries.show_shared(tx, event.stream, data.id, data.access)


def _refuse_version(event: Applied, data: ArtifactWritten, tx: Tx) -> None:
    row = tx.one(
        "SELECT version, deleted FROM artifacts WHERE tenant = ? AND space = ? AND id = ?",
        (event.stream.tenant, event.stream.space, data.id),
    )
    have, deleted = row if row else (0, 0)
    if deleted:
        raise NotFound(f"artifact {data.id} was deleted", hint="Write under another id.")
    raise VersionConflict(
        f"artifact {data.id} has moved on",
        expected=f"version {data.version - 1}",
        got=f"version {have}",
        hint="Read it again and decide anew.",
    )


@artifacts_view.on(ArtifactDeleted)
def show_deleted(event: Applied, tx: Tx) -> None:
    data = event.data
    assert isinstance(data, ArtifactDeleted)
    done = tx.execute(
        "UPDATE artifacts SET deleted = 1 WHERE tenant = ? AND space = ? AND id = ? AND deleted = 0",
        (event.stream.tenant, event.stream.space, data.id),
    )
    if done.rowcount != 1:
        raise NotFound(f"no artifact {data.id} to delete")
    queries.forget(tx, event.stream, data.id)


@artifacts_view.on(ArtifactTransferred)
def show_transferred(event: Applied, tx: Tx) -> None:
    data = event.data
    assert isinstance(data, ArtifactTransferred)
    policy = access = None
    if data.access is not None:
        policy, access = data.access.policy, _encode(data.access).decode()
    done = tx.execute(
        "UPDATE artifacts SET owner = ?, policy = COALESCE(?, policy),"
        " access = COALESCE(?, access)"
        " WHERE tenant = ? AND space = ? AND id = ? AND owner = ? AND deleted = 0",
        (data.to, policy, access, event.stream.tenant, event.stream.space, data.id, data.giver),
    )
    if done.rowcount != 1:
        raise Conflict(f"artifact {data.id} does not belong to {data.giver} any more")
    if data.access is not None:
        queries.show_shared(tx, event.stream, data.id, data.access)


@artifacts_view.on(ArtifactPruned)
def show_pruned(event: Applied, tx: Tx) -> None:
    data = event.data
    assert isinstance(data, ArtifactPruned)
    tx.execute(
        "UPDATE artifacts SET kept_from = ? WHERE tenant = ? AND space = ? AND id = ?"
        " AND kept_from < ? AND version >= ? AND deleted = 0",
        (data.kept_from, event.stream.tenant, event.stream.space, data.id, data.kept_from, data.kept_from),
    )


@artifacts_view.on(ArtifactHeld)
def show_held(event: Applied, tx: Tx) -> None:
    data = event.data
    assert isinstance(data, ArtifactHeld)
    tx.execute(
        "INSERT INTO artifact_holds VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (
            event.stream.tenant,
            event.stream.space,
            data.hold,
            data.id,
            data.caller,
            data.payer,
            data.amount,
            data.until_us,
        ),
    )


@artifacts_view.on(ArtifactInvoked)
def show_invoked(event: Applied, tx: Tx) -> None:
    """Release the hold of an invocation, once."""
    data = event.data
    assert isinstance(data, ArtifactInvoked)
    if not data.hold:
        return
    done = tx.execute(
        "DELETE FROM artifact_holds WHERE tenant = ? AND space = ? AND hold = ?",
        (event.stream.tenant, event.stream.space, data.hold),
    )
    if done.rowcount != 1:
        raise Conflict(f"the price of {data.id} is not held any more")


@artifacts_view.on(GroupJoined)
def show_joined(event: Applied, tx: Tx) -> None:
    data = event.data
    assert isinstance(data, GroupJoined)
    queries.add_member(tx, event.stream, data.group, data.principal, at_us=event.at_us)


@artifacts_view.on(GroupLeft)
def show_left(event: Applied, tx: Tx) -> None:
    data = event.data
    assert isinstance(data, GroupLeft)
    queries.remove_member(tx, event.stream, data.group, data.principal)
