"""The subject of a run: whom its content is about, so that all of it can be erased at once."""

from __future__ import annotations

from artelier.errors import Conflict, Erased
from artelier.kernel.queries.tenants import run_key
from artelier.kernel.run.context import RunCore
from artelier.log import DataKey, Store, check_subject
from artelier.log.queries import subject_keys


async def take_key(core: RunCore, subject: str, parent: RunCore | None, key_id: int | None) -> int | None:
    """Have a new run store under the key of its subject, or of its parent's; the row of that in `keys`.

    `key_id` is that of what it goes on from. Errors: `Conflict` for another subject than that, or than
    the parent's; `Erased`.
    """
    if parent is not None:
        above = await run_key(core.services.store, core.tenant.id, parent.run_id)
        if above is not None and key_id not in (None, above):
            raise _other(core.run_id)
        key_id = key_id if above is None else above
    if key_id is not None:
        core.key = await _alive(core.store, core.tenant.id, key_id)
    if subject:
        key = await core.store.data_key(core.tenant.id, check_subject(subject))
        if key_id not in (None, key.key_id):
            raise _other(core.run_id)
        core.key, key_id = key, key.key_id
    return key_id


async def check_same(core: RunCore, subject: str) -> None:
    """Errors: `Conflict` if a run is opened for another subject than it was made for."""
    if subject and core.key.key_id not in await subject_keys(
        core.store, core.tenant.id, check_subject(subject)
    ):
        raise _other(core.run_id)


async def check_about(store: Store, tenant: str, run_id: str, subject: str) -> None:
    """Errors: `Conflict` if a run that is there was made for another subject, or for none."""
    key_id = await run_key(store, tenant, run_id)
    if key_id is None or key_id not in await subject_keys(store, tenant, check_subject(subject)):
        raise _other(run_id)


async def writing_key(store: Store, tenant: str, run_id: str) -> DataKey | None:
    """Return what a run writes elsewhere is stored under this, too; None if it has no subject.

    Errors: `Erased` if its key is gone.
    """
    key_id = await run_key(store, tenant, run_id)
    return None if key_id is None else await _alive(store, tenant, key_id)


async def _alive(store: Store, tenant: str, key_id: int) -> DataKey:
    key = await store.key_by_id(tenant, key_id)
    if key is None:
        raise Erased(
            "what was stored of this subject was erased, and nothing goes on from it",
            hint="Begin anew: another run, or another chat.",
        )
    return key


def _other(run_id: str) -> Conflict:
    return Conflict(
        f"run {run_id!r} has another subject, or none",
        expected="the subject that it, or its parent, was made for",
        hint="Take another run id; what a run has stored stays under its key.",
    )
