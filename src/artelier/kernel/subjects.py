"""The subject of a run: whom its content is about, so that all of it can be erased at once."""

from __future__ import annotations

from artelier.errors import Conflict
from artelier.kernel.ancestry import subject_key
from artelier.kernel.core import RunCore
from artelier.kernel.erasure import check_subject


async def take_key(core: RunCore, subject: str, parent: RunCore | None) -> int | None:
    """Have a new run store under the key of its subject, or of its parent's; the row of that in `keys`.

    Errors: `Conflict` for another subject than the parent's.
    """
    key_id = None
    if parent is not None:
        key_id = await subject_key(core.services, core.tenant.id, parent.run_id)
        if key_id is not None:
            core.key = parent.key
    if subject:
        key = await core.store.data_key(core.tenant.id, check_subject(subject))
        if key_id not in (None, key.key_id):
            raise _other(core.run_id)
        core.key, key_id = key, key.key_id
    return key_id


async def check_same(core: RunCore, subject: str) -> None:
    """Errors: `Conflict` if a run is opened for another subject than it was made for."""
    if not subject:
        return
    rows = await core.store.query(
        "SELECT key_id FROM keys WHERE tenant = ? AND subject = ?",
        (core.tenant.id, check_subject(subject)),
    )
    if (core.key.key_id,) not in rows:
        raise _other(core.run_id)


def _other(run_id: str) -> Conflict:
    return Conflict(
        f"run {run_id!r} has another subject, or none",
        expected="the subject that it, or its parent, was made for",
        hint="Take another run id; what a run has stored stays under its key.",
    )
