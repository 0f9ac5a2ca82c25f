"""The start of a run from a firing: the work of a worker on a schedule whose time has come.

`dispatcher.py` writes the firing; this starts the run of it, under the id that the firing names.
A crash between the two, or in the middle of this, leads here again.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from artelier.agents.launch import Launch, launch_of
from artelier.agents.run_request import Kernels
from artelier.agents.schedules import events as ev
from artelier.agents.schedules.overlap_policy import ELSEWHERE_US
from artelier.errors import (
    ArtelierError,
    Conflict,
    Corrupt,
    LeaseHeld,
    MissingKey,
    NotFound,
    SequenceConflict,
    StoreUnavailable,
    UnknownModel,
)
from artelier.kernel import AgentResult, Limits, Services, run_row
from artelier.kernel.prompt.manifest import encode_json
from artelier.kernel.queries.content import blob_json
from artelier.log import Batch, Draft, StreamAppend, Tx, make_blob
from artelier.log.contract import stored_name

_WAITING = (
    "SELECT schedule, job, cancels, fired_us FROM schedule_firings"
    " WHERE tenant = ? AND run = ? AND open = 1 AND begun = 0"
)

PASSING = (LeaseHeld, SequenceConflict, StoreUnavailable, Corrupt)
"""What says nothing of the firing: it is tried again, or somebody else has it."""


async def begin(kernel: Kernels, tenant: Any, run_id: str, on_wait: str) -> AgentResult | None:
    """Start the run of a firing that waits for it; None if there is none of that id.

    Errors: whatever keeps the run from starting. It is recorded, and the firing is over.
    """
    desk: Any = kernel.for_tenant(tenant)
    rows = await desk.services.store.query(_WAITING, (desk.id, run_id))
    if not rows:
        return None
    schedule, job_ref, cancels, fired_us = rows[0]
    for earlier in cancels.split():
        with suppress(Conflict, NotFound):  # it has ended meanwhile
            await desk.cancel(earlier, by=f"schedule:{schedule}", note=f"replaced by {run_id}")
    desk.services.at("schedule.begin")
    launch: Launch | None = None
    try:
        job: dict[str, Any] = await blob_json(desk.services, desk.id, job_ref)
        launch = launch_of(job["loop"])
        limits = Limits(**job["limits"]) if job["limits"] else None
        settings = _as_given(desk, job["settings"])
        key = await desk.services.store.subject_key_of(desk.id, stored_name(job_ref))
        key_id = None if key is None else key.key_id
        return await launch.start(kernel, tenant, run_id, settings, limits, on_wait, key_id)
    except PASSING:
        raise
    except ArtelierError as error:
        lacks = launch is None or isinstance(error, MissingKey | UnknownModel)
        if lacks and desk.services.clock.now_us() - fired_us < ELSEWHERE_US:
            raise
        await _record_failure(desk, schedule, run_id, error)
        raise


def _as_given(desk: Any, settings: dict[str, Any]) -> dict[str, Any]:
    """Settings as somebody gave them: the run receives the values in them, as one that is started by hand."""
    personal = desk.services.personal
    return settings if personal is None else personal(desk.id).restore(settings)


async def _record_failure(desk: Any, schedule: str, run_id: str, error: ArtelierError) -> None:
    """Record that a run could not be started; one that has begun says itself what became of it."""
    services: Services = desk.services
    with suppress(NotFound):
        await run_row(services.store, desk.id, run_id)
        return
    state = await desk.state()
    ref, blob = make_blob(desk.id, state.key, encode_json(str(error)))
    data = ev.ScheduleFailed(run=run_id, code=error.code, message=ref)
    draft = Draft(data, services.clock.now_us(), f"schedule:{schedule}")
    append = StreamAppend(ev.schedule_stream(desk.id, schedule), [draft])

    def still_waits(tx: Tx) -> None:
        if tx.one(_WAITING, (desk.id, run_id)) is None:
            raise Conflict(f"the firing of {run_id!r} waits no more")

    with suppress(Conflict):
        await services.store.append(Batch(appends=[append], blobs=[blob], guard=still_waits))
