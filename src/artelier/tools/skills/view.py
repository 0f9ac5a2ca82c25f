"""The view of skills: per tenant, source and name the newest definition and the one that was last usable."""

from __future__ import annotations

from typing import NamedTuple

from artelier.log import Applied, Store, Tx, View
from artelier.log.queries import fetch_all, fetch_first
from artelier.tools.skills.events import SkillApproved, SkillDefined, SkillParked, SkillPinned, SkillRefused

skills_view = View(
    name="skills",
    version=1,
    tables=("skills",),
    schema=(
        """CREATE TABLE skills(
            tenant TEXT NOT NULL, source TEXT NOT NULL, name TEXT NOT NULL,
            skill TEXT NOT NULL, origin TEXT NOT NULL, status TEXT NOT NULL,
            hash TEXT NOT NULL, shape TEXT NOT NULL, definition TEXT NOT NULL,
            active_hash TEXT NOT NULL, active_definition TEXT NOT NULL,
            reasons TEXT, note TEXT, decided_by TEXT NOT NULL, changed_us INTEGER NOT NULL,
            PRIMARY KEY(tenant, source, name)) STRICT, WITHOUT ROWID""",
    ),
)


@skills_view.on(SkillPinned)
def show_pinned(event: Applied, tx: Tx) -> None:
    """It is usable at once."""
    data = event.data
    assert isinstance(data, SkillPinned)
    _show(event, tx, data, status="active", reasons=None)
    tx.execute(
        "UPDATE skills SET active_hash = hash, active_definition = definition"
        " WHERE tenant = ? AND source = ? AND name = ?",
        (event.stream.tenant, data.source, data.name),
    )


@skills_view.on(SkillParked)
def show_parked(event: Applied, tx: Tx) -> None:
    """Show a skill as parked. The definition that was usable before stays known, for the difference."""
    data = event.data
    assert isinstance(data, SkillParked)
    _show(event, tx, data, status="parked", reasons=data.reasons)


def _show(event: Applied, tx: Tx, data: SkillDefined, *, status: str, reasons: str | None) -> None:
    tx.execute(
        "INSERT INTO skills VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, '', '', ?, NULL, ?, ?)"
        " ON CONFLICT(tenant, source, name) DO UPDATE SET skill = excluded.skill,"
        " origin = excluded.origin, status = excluded.status, hash = excluded.hash,"
        " shape = excluded.shape, definition = excluded.definition, reasons = excluded.reasons,"
        " note = NULL, decided_by = excluded.decided_by, changed_us = excluded.changed_us",
        (
            event.stream.tenant,
            data.source,
            data.name,
            data.skill,
            data.origin,
            status,
            data.hash,
            data.shape,
            data.definition,
            reasons,
            event.actor,
            event.at_us,
        ),
    )


@skills_view.on(SkillApproved)
def show_approved(event: Applied, tx: Tx) -> None:
    data = event.data
    assert isinstance(data, SkillApproved)
    tx.execute(
        "UPDATE skills SET status = 'active', active_hash = hash, active_definition = definition,"
        " note = ?, decided_by = ?, changed_us = ?"
        " WHERE tenant = ? AND source = ? AND name = ? AND hash = ?",
        (data.note, event.actor, event.at_us, event.stream.tenant, data.source, data.name, data.hash),
    )


@skills_view.on(SkillRefused)
def show_refused(event: Applied, tx: Tx) -> None:
    """A definition that was usable is so no more, not even if it comes back after another one."""
    data = event.data
    assert isinstance(data, SkillRefused)
    where = (event.stream.tenant, data.source, data.name, data.hash)
    tx.execute(
        "UPDATE skills SET active_hash = '', active_definition = ''"
        " WHERE tenant = ? AND source = ? AND name = ? AND hash = ? AND active_hash = hash",
        where,
    )
    tx.execute(
        "UPDATE skills SET status = 'refused', note = ?, decided_by = ?, changed_us = ?"
        " WHERE tenant = ? AND source = ? AND name = ? AND hash = ?",
        (data.note, event.actor, event.at_us, *where),
    )


_COLUMNS = (
    "source, name, skill, origin, status, hash, shape, definition, active_hash, active_definition,"
    " reasons, note, decided_by, changed_us"
)


class Pin(NamedTuple):
    """A row of the view."""

    source: str
    name: str
    skill: str
    origin: str
    status: str
    """`active`, `parked` or `refused`."""
    hash: str
    shape: str
    definition: str
    active_hash: str
    active_definition: str
    reasons: str | None
    note: str | None
    decided_by: str
    changed_us: int


async def pins_of(store: Store, tenant: str) -> list[Pin]:
    """Return the rows of a tenant, by source and name."""
    return await fetch_all(
        store, Pin, f"SELECT {_COLUMNS} FROM skills WHERE tenant = ? ORDER BY source, name", (tenant,)
    )


async def pin_of(store: Store, tenant: str, source: str, name: str) -> Pin | None:
    """Return the row of one skill; None if it was never seen."""
    return await fetch_first(
        store,
        Pin,
        f"SELECT {_COLUMNS} FROM skills WHERE tenant = ? AND source = ? AND name = ?",
        (tenant, source, name),
    )


def read_hash_and_status(tx: Tx, tenant: str, source: str, name: str) -> tuple[str, str] | None:
    """Return the newest hash of a skill and its status as a transaction sees them; None if it is unknown."""
    row = tx.one(
        "SELECT hash, status FROM skills WHERE tenant = ? AND source = ? AND name = ?", (tenant, source, name)
    )
    return (row[0], row[1]) if row else None
