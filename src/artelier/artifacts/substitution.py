"""Refs that stand for others while a fork is driven: every read of an artifact goes by them."""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar

from artelier.ids import MAIN_SPACE
from artelier.log import Store

NONE: Mapping[str, str] = {}

substitutions: ContextVar[Mapping[str, str]] = ContextVar("substitutions", default=NONE)
"""Old refs to new ones, for what the current task reads; a run sets it as long as it is driven."""


def substitute(ref: str, given: Mapping[str, str] | None = None) -> str:
    """Return the ref to read in place of another, or the ref itself.

    `id@3=...` also holds for a read of `id` without a version, which the origin would have read as that one;
    `id=...` for each version. A part stays.
    """
    known = substitutions.get() if given is None else given
    if not known:
        return ref
    whole, mark, part = ref.partition("#")
    id_, _, version = whole.partition("@")
    found = known.get(whole) or known.get(id_)
    if found is None and not version:
        found = next((new for old, new in known.items() if old.partition("@")[0] == id_), None)
    if found is None:
        return ref
    return f"{found}#{part}" if mark and "#" not in found else found


async def artifact_exists(store: Store, tenant: str, ref: str) -> bool:
    """Return True if the tenant's main space has an artifact, or the version of it that the ref names."""
    id_, mark, version = ref.partition("#")[0].partition("@")
    if mark and not (version.isascii() and version.isdecimal()):
        return False
    sql = "SELECT 1 FROM artifact_versions WHERE tenant = ? AND space = ? AND id = ?"
    rows = await store.query(
        sql + (" AND version = ?" if mark else "") + " LIMIT 1",
        (tenant, MAIN_SPACE, id_, *([int(version[:18])] if mark else [])),
    )
    return bool(rows)
