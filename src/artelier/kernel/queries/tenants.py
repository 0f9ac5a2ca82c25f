"""Reads of tenants: grants, rates, patterns, the keys of data subjects, erasures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from artelier.log import Store, Tx
from artelier.log.queries import EventRow, events_at


class TenantRow(NamedTuple):
    """A tenant as the view has it."""

    grants: str
    """JSON."""
    budget: int | None
    allow_unknown_price: int


async def find_tenant(store: Store, tenant: str) -> TenantRow | None:
    """Return a tenant; None if there is none."""
    rows = await store.query(
        "SELECT grants, budget, allow_unknown_price FROM tenants WHERE tenant = ?", (tenant,)
    )
    return TenantRow(*rows[0]) if rows else None


async def tenant_ids(store: Store) -> list[str]:
    """Return the tenants of the store, sorted."""
    return [tenant for (tenant,) in await store.query("SELECT tenant FROM tenants ORDER BY tenant")]


class RateRow(NamedTuple):
    """A rate of a tenant for a provider or a pattern of models."""

    name: str
    requests: int | None
    tokens: int | None


async def rates_of(store: Store, tenant: str) -> list[RateRow]:
    """Return the rates of a tenant by name."""
    rows = await store.query(
        "SELECT name, requests, tokens FROM tenant_rates WHERE tenant = ? ORDER BY name", (tenant,)
    )
    return [RateRow(*row) for row in rows]


def patterns_of(store: Store, tenant: str) -> list[tuple[str, str]]:
    """Return `(kind, expression)` of what is looked for in a tenant's texts.

    It is read when a run is opened, so that what an administrator added holds for the next run everywhere.
    """
    rows = store.look(
        "SELECT kind, expression FROM tenant_patterns WHERE tenant = ? ORDER BY kind", (tenant,)
    )
    return [(kind, expression) for kind, expression in rows]


# Data subjects

_KEYED = (
    "FROM keyed k JOIN runs r ON r.id = k.run WHERE r.tenant = ?"
    # Of an imported run, the number is a row in the store that it came from.
    " AND NOT EXISTS (SELECT 1 FROM imports i WHERE i.tenant = r.tenant AND i.run = r.run)"
)


async def run_key(store: Store, tenant: str, run_id: str) -> int | None:
    """Return the row in `keys` of the subject's key that a run stores under; None if it has no subject."""
    rows = await store.query(f"SELECT k.key_id {_KEYED} AND r.run = ?", (tenant, run_id))
    return rows[0][0] if rows else None


def is_keyed(tx: Tx, tenant: str, run_id: str, keys: Sequence[int]) -> bool:
    """Return True if a run stores under one of these keys."""
    row = tx.one(f"SELECT k.key_id {_KEYED} AND r.run = ?", (tenant, run_id))
    return row is not None and row[0] in keys


async def runs_keyed(store: Store, tenant: str, keys: Sequence[int], *, limit: int) -> list[str]:
    """Return the runs that store under one of these keys, by id."""
    rows = await store.query(
        f"SELECT r.run {_KEYED} AND k.key_id IN ({_marks(keys)}) ORDER BY r.run LIMIT ?",
        (tenant, *keys, limit),
    )
    return [run for (run,) in rows]


async def imported_key(store: Store, tenant: str, run_ids: Sequence[str]) -> tuple[int | None] | None:
    """Return the key that an import brought with one of these runs; None if none was imported."""
    rows = await store.query(
        f"SELECT key_id FROM imports WHERE tenant = ? AND run IN ({_marks(run_ids)}) LIMIT 1",
        (tenant, *run_ids),
    )
    return (rows[0][0],) if rows else None


async def own_key(store: Store, stream_id: int) -> int | None:
    """Return the key of a subject that a run was begun with."""
    rows = await store.query("SELECT key_id FROM keyed WHERE run = ?", (stream_id,))
    return rows[0][0] if rows else None


async def received_alone(store: Store, tenant: str, keys: Sequence[int]) -> list[str]:
    """Return the placeholders that only runs under these keys were ever shown."""
    if not keys:
        return []
    mine = f"SELECT k.run {_KEYED} AND k.key_id IN ({_marks(keys)})"
    rows = await store.query(
        "SELECT DISTINCT p.placeholder FROM received p JOIN runs r ON r.id = p.run"
        f" WHERE r.tenant = ? AND p.run IN ({mine}) AND NOT EXISTS (SELECT 1 FROM received o"
        f" JOIN runs q ON q.id = o.run WHERE o.placeholder = p.placeholder AND q.tenant = ?"
        f" AND o.run NOT IN ({mine}))",
        (tenant, tenant, *keys, tenant, tenant, *keys),
    )
    return [placeholder for (placeholder,) in rows]


_FAMILY = (
    "WITH RECURSIVE family(run) AS (SELECT ? UNION"
    " SELECT coalesce(r.parent, r.origin) FROM runs r JOIN family f ON r.run = f.run"
    " WHERE r.tenant = ? AND coalesce(r.parent, r.origin) IS NOT NULL)"
    " SELECT 1 FROM family f JOIN runs r ON r.run = f.run AND r.tenant = ?"
)


def has_received(store: Store, tenant: str, run_id: str, placeholder: str) -> bool:
    """Return True if a run received a placeholder, or one that it comes from: its parents, its origins."""
    rows = store.look(
        f"{_FAMILY} JOIN received p ON p.run = r.id WHERE p.placeholder = ?"
        # What a file says that an imported run has received proves nothing here.
        " AND NOT EXISTS (SELECT 1 FROM imports i WHERE i.tenant = r.tenant AND i.run = r.run) LIMIT 1",
        (run_id, tenant, tenant, placeholder),
    )
    return bool(rows)


def has_said(store: Store, tenant: str, run_id: str, text: str) -> bool:
    """Return True if an event of a run has a text, or one of a run that it comes from."""
    rows = store.look(
        f"{_FAMILY} JOIN event_log e ON e.stream_id = r.id WHERE instr(e.data, ?) > 0 LIMIT 1",
        (run_id, tenant, tenant, text),
    )
    return bool(rows)


# Erasures


async def is_erased_since_begin(store: Store, tenant: str, stream_id: int) -> bool:
    """Return True if the whole tenant was erased after a run began."""
    begun = (await events_at(store, stream_id, [1])).get(1)
    rows = begun and await store.query(
        "SELECT 1 FROM erasures WHERE tenant = ? AND whole AND position > ? LIMIT 1", (tenant, begun.position)
    )
    return bool(rows)


async def erasures_of(store: Store, tenant: str, *, whole: bool, what: str) -> list[EventRow]:
    """Return the events of the erasures of a whole tenant, or of a subject by its keyed hash."""
    rows = await store.query(
        "SELECT e.seq, e.position, e.kind, e.version, e.at_us, e.actor, e.cause, e.data FROM erasures g"
        " JOIN event_log e ON e.position = g.position WHERE g.tenant = ? AND g.whole = ? AND g.what = ?",
        (tenant, whole, what),
    )
    return [EventRow(*row) for row in rows]


def _marks(values: Sequence[object]) -> str:
    return ", ".join("?" * len(values))
