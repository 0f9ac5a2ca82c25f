"""Rows of groups: who is a member now, and which artifacts the newest policies share with a group.

Only the main space has groups. The rows of a deleted group's members are gone, so that an entry which still
names it means nobody (I10).
"""

from __future__ import annotations

from typing import NamedTuple

from artelier.artifacts.access import GROUP, PRINCIPALS_MAX, Access
from artelier.artifacts.queries import COLUMNS, Standing, standing_from
from artelier.errors import Conflict, LimitReached
from artelier.ids import MAIN_SPACE
from artelier.log import Store, Stream, Tx
from artelier.log.queries import fetch_all, fetch_column, fetch_value

GROUP_KIND = "membrane"
"""The kind of artifact that has members."""

MEMBERS_MAX = 1_000
"""Of one group (guess: more agents than work on one goal)."""

GROUPS_MAX = 256
"""That one principal is in (guess); bounds the look-up of every decision that needs it."""

TABLES = ("artifact_members", "artifact_shared")

SCHEMA = (
    """CREATE TABLE artifact_members(
        tenant TEXT NOT NULL, space TEXT NOT NULL, group_id TEXT NOT NULL, principal TEXT NOT NULL,
        joined_us INTEGER NOT NULL,
        PRIMARY KEY(tenant, space, group_id, principal)) STRICT, WITHOUT ROWID""",
    "CREATE INDEX artifact_members_by_principal ON artifact_members(tenant, space, principal, group_id)",
    """CREATE TABLE artifact_shared(
        tenant TEXT NOT NULL, space TEXT NOT NULL, group_id TEXT NOT NULL, id TEXT NOT NULL,
        PRIMARY KEY(tenant, space, group_id, id)) STRICT, WITHOUT ROWID""",
    "CREATE INDEX artifact_shared_by_id ON artifact_shared(tenant, space, id, group_id)",
)

PUBLISHED = (
    """CREATE TEMP VIEW IF NOT EXISTS group_members AS
        SELECT tenant, space, group_id, principal FROM artifact_members""",
)
"""The published view of groups: a row per member."""

_GROUPS = (
    "SELECT group_id FROM artifact_members WHERE tenant = ? AND space = ? AND principal = ?"
    " ORDER BY group_id LIMIT ?"
)


async def group_ids(store: Store, tenant: str, principal: str) -> tuple[str, ...]:
    """Ids of the groups that a principal is in now, sorted. Cost: one indexed query."""
    return tuple(await fetch_column(store, _GROUPS, (tenant, MAIN_SPACE, principal, GROUPS_MAX)))


async def groups_of(store: Store, tenant: str, principal: str) -> frozenset[str]:
    """The same as they stand in `allow` lists."""
    return frozenset(GROUP + id_ for id_ in await group_ids(store, tenant, principal))


def groups_in(tx: Tx, tenant: str, principal: str) -> frozenset[str]:
    """The same, inside a transaction."""
    rows = tx.execute(_GROUPS, (tenant, MAIN_SPACE, principal, GROUPS_MAX)).fetchall()
    return frozenset(GROUP + row[0] for row in rows)


def show_shared(tx: Tx, stream: Stream, id: str, access: Access) -> None:
    """The newest policy of an artifact names these groups and no others."""
    if stream.space != MAIN_SPACE:
        return
    here = (stream.tenant, stream.space)
    tx.execute("DELETE FROM artifact_shared WHERE tenant = ? AND space = ? AND id = ?", (*here, id))
    for name in access.groups("read")[:PRINCIPALS_MAX]:
        tx.execute("INSERT INTO artifact_shared VALUES (?, ?, ?, ?)", (*here, name.removeprefix(GROUP), id))


def forget(tx: Tx, stream: Stream, id: str) -> None:
    """A deleted artifact is shared with nobody, and has no members if it was a group."""
    if stream.space != MAIN_SPACE:
        return
    for column, table in (("id", "artifact_shared"), ("group_id", "artifact_members")):
        tx.execute(
            f"DELETE FROM {table} WHERE tenant = ? AND space = ? AND {column} = ?",
            (stream.tenant, stream.space, id),
        )


def add_member(tx: Tx, stream: Stream, group: str, principal: str, *, at_us: int) -> None:
    """Errors: `Conflict`; `LimitReached`."""
    here = (stream.tenant, stream.space)
    is_group = tx.one(
        "SELECT 1 FROM artifacts WHERE tenant = ? AND space = ? AND id = ? AND kind = ? AND deleted = 0",
        (*here, group, GROUP_KIND),
    )
    if not is_group or stream.space != MAIN_SPACE or stream.local != f"artifact:{group}":
        raise Conflict(f"{group} is no group that can be joined here")
    if principal.startswith(GROUP):
        raise Conflict("a group cannot be a member of a group", got=principal[:120])
    for column, value, most, what in (
        ("group_id", group, MEMBERS_MAX, f"members of the group {group}"),
        ("principal", principal, GROUPS_MAX, f"groups that {principal} is in"),
    ):
        row = tx.one(
            f"SELECT COUNT(*) FROM artifact_members WHERE tenant = ? AND space = ? AND {column} = ?",
            (*here, value),
        )
        if row is not None and row[0] >= most:
            raise LimitReached(
                f"too many {what}",
                expected=f"at most {most}",
                got=row[0] + 1,
                scope=value,
                unit="members",
                cap=most,
                used=row[0],
                asked=1,
                hint="Leave one first.",
            )
    done = tx.execute(
        "INSERT INTO artifact_members VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
        (*here, group, principal, at_us),
    )
    if done.rowcount != 1:
        raise already_in(group, principal)


def remove_member(tx: Tx, stream: Stream, group: str, principal: str) -> None:
    """Errors: `Conflict`."""
    if stream.local != f"artifact:{group}":
        raise Conflict(f"{group} is no group that can be left here")
    done = tx.execute(
        "DELETE FROM artifact_members WHERE tenant = ? AND space = ? AND group_id = ? AND principal = ?",
        (stream.tenant, stream.space, group, principal),
    )
    if done.rowcount != 1:
        raise not_in(group, principal)


def already_in(group: str, principal: str) -> Conflict:
    return Conflict(f"{principal} is a member of {group} already", hint="There is nothing to do.")


def not_in(group: str, principal: str) -> Conflict:
    return Conflict(f"{principal} is no member of {group}", hint="There is nothing to do.")


# Reads of a group


class MemberRow(NamedTuple):
    """A member of a group."""

    principal: str
    joined_us: int


async def members_of(
    store: Store, tenant: str, space: str, group: str, *, after: str, limit: int
) -> list[MemberRow]:
    """Return the members of a group behind a name, in the order of their names."""
    return await fetch_all(
        store,
        MemberRow,
        "SELECT principal, joined_us FROM artifact_members"
        " WHERE tenant = ? AND space = ? AND group_id = ? AND principal > ?"
        " ORDER BY principal LIMIT ?",
        (tenant, space, group, after, limit),
    )


async def has_member(store: Store, tenant: str, space: str, group: str, principal: str) -> bool:
    """Return True if a principal is in a group."""
    return bool(
        await store.query(
            "SELECT 1 FROM artifact_members"
            " WHERE tenant = ? AND space = ? AND group_id = ? AND principal = ?",
            (tenant, space, group, principal),
        )
    )


async def count_shared(store: Store, tenant: str, space: str, group: str) -> int:
    """Return how many artifacts the newest policies share with a group, itself left out."""
    return await fetch_value(
        store,
        "SELECT COUNT(*) FROM artifact_shared"
        " WHERE tenant = ? AND space = ? AND group_id = ? AND id <> group_id",
        (tenant, space, group),
    )


# The SQL form of static policies only narrows the candidates; the gate decides each of them, and asks
# contracts only for those of the page. A list is searched as text: ids hold no quotes, so a principal's
# quoted name occurs in it or is not there.
_MAY_READ = (
    " AND (a.owner = ? OR a.policy IN ('owner_writes', 'public', ?)"
    " OR (a.policy = 'allow' AND (instr(a.access, ?) > 0 OR instr(a.access, '\"*\"') > 0"
    " OR EXISTS (SELECT 1 FROM artifact_shared s JOIN artifact_members m ON m.tenant = s.tenant"
    "  AND m.space = s.space AND m.group_id = s.group_id AND m.principal = ?"
    "  WHERE s.tenant = a.tenant AND s.space = a.space AND s.id = a.id))))"
)


async def living_beyond(
    store: Store,
    tenant: str,
    space: str,
    principal: str,
    *,
    kind: str | None,
    owner: str | None,
    position: int,
    newest_first: bool,
    limit: int,
    with_contracts: bool,
) -> list[Standing]:
    """Return living artifacts beyond a position that static policies do not hide from a principal.

    What contracts govern is among them only `with_contracts`.
    """
    where = " WHERE a.tenant = ? AND a.space = ? AND a.deleted = 0"
    parameters: list[str | int] = [tenant, space]
    for column, value in (("kind", kind), ("owner", owner)):
        if value is not None:
            where += f" AND a.{column} = ?"
            parameters.append(value)
    where += f"{_MAY_READ} AND a.position {'<' if newest_first else '>'} ?"
    order = f" ORDER BY a.position{' DESC' if newest_first else ''} LIMIT ?"
    policy = "contract" if with_contracts else ""
    parameters += [principal, policy, f'"{principal}"', principal, position, limit]
    rows = await store.query(f"{COLUMNS}a.version{where}{order}", parameters)
    return [standing_from(row) for row in rows]
