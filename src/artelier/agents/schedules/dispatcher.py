"""Taking what is due: each decision is one batch, so that two workers never fire one time twice.

The batch expects the schedule's stream to end where the decision was made, and its guard finds the same runs
open. Who comes second gets a conflict and changes nothing. A run is started only after its firing is durable:
a crash in between leaves a firing that waits, and the next look starts it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import msgspec

from artelier.agents.launch import Launch, launch_of
from artelier.agents.schedules import events as ev
from artelier.agents.schedules.queries import (
    OpenFiring,
    ScheduledJob,
    check_startable,
    due_schedules,
    firing_to_start,
    has_fired,
    has_fired_in,
    is_to_start,
    open_firings,
    open_firings_in,
    waiting_firings,
)
from artelier.agents.schedules.recurrence import (
    ELSEWHERE_US,
    OPEN_MAX,
    SECOND_US,
    Around,
    Due,
    Schedule,
    UnknownZone,
    decide,
    firing_event,
    time_at_hand,
)
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
from artelier.kernel import AgentResult, Limits, run_row
from artelier.kernel.prompt.manifest import encode_json
from artelier.kernel.queries.content import blob_json
from artelier.kernel.queries.runs import find_run, has_run
from artelier.kernel.run.services import Services
from artelier.kernel.tenants.registry import TenantRef, TenantScope, TenantScopes
from artelier.log import Batch, Blob, Draft, EventData, StreamAppend, Tx, make_blob
from artelier.log.contract import stored_name
from artelier.threads import content_owner

LOOKED_MAX = 100
"""Schedules of one look; the others come with the next."""


async def fire_due(services: Services, *, tenant: str | None = None, until_us: int | None = None) -> int:
    """Decide about every schedule whose time has come, now or by `until_us`; how many decisions were written.

    Cost: what is due, at most 100 schedules of one look, in one commit.
    """
    now_us = services.clock.now_us() if until_us is None else until_us
    due = await due_schedules(services.store, now_us, tenant=tenant, limit=LOOKED_MAX)
    looks = (_look(services, schedule, now_us) for schedule in due)
    written = await asyncio.gather(*looks)
    if any(written):
        services.at("schedule.fired")
    return sum(written)


async def waiting(services: Services, limit: int, *, tenant: str | None = None) -> list[tuple[str, str]]:
    """Firings whose run has not begun, as (tenant, run id), oldest first."""
    return await waiting_firings(services.store, tenant=tenant, limit=limit)


async def _look(services: Services, schedule: Schedule, now_us: int) -> int:
    """1 if a decision was written; 0 if nothing is due, or somebody else was faster."""
    content_owner.set(f"tenant {schedule.tenant}")  # missed times are long to go through
    due, around = None, None
    event: EventData | None
    try:
        due = time_at_hand(schedule, now_us)
        around = await _around(services, schedule, due)
        event = decide(schedule, around, due, now_us=now_us)
    except UnknownZone:  # one such schedule must not keep the others from being looked at
        if now_us - (schedule.next_due_us or now_us) < ELSEWHERE_US:
            return 0
        event = ev.SchedulePaused(reason=UnknownZone.code)
    if event is None:
        return 0
    try:
        await write(services, schedule, event, by=f"schedule:{schedule.schedule}", due=due, around=around)
    except Conflict:  # of sequence numbers too
        return 0
    return 1


async def fire_now(services: Services, schedule: Schedule, *, by: str) -> EventData:
    """A firing that a person asks for, whether it is due or not; its event.

    Errors: `Conflict` while an earlier run has not ended and the schedule's overlap does not allow it, or if
    it has fired in this very second.
    """
    now_us = services.clock.now_us()
    due = Due(now_us // SECOND_US * SECOND_US, 0, schedule.next_due_us)
    around = await _around(services, schedule, due)
    event = firing_event(schedule, around, due, asked=True)
    if isinstance(event, ev.ScheduleSkipped):
        if event.reason == "run_exists":
            raise Conflict(
                f"schedule {schedule.schedule!r} has fired for this second already",
                got=event.run,
                hint="Ask again in a second.",
            )
        begun = dict(around.open).get(event.run, False)
        raise Conflict(
            f"a run of schedule {schedule.schedule!r} has not ended",
            got=event.run,
            expected=f"its end, as its overlap is {schedule.overlap!r}",
            hint=f"Wait, or end it: artelier cancel {event.run}"
            if begun
            else f"A worker starts it, or you: artelier resume {event.run}",
        )
    await write(services, schedule, event, by=by, due=due, around=around)
    return event


async def write(
    services: Services,
    schedule: Schedule,
    event: EventData,
    *,
    by: str,
    due: Due | None = None,
    around: Around | None = None,
    blobs: list[Blob] | None = None,
) -> None:
    """Append an event to a schedule's stream, as long as it stands as it was read.

    Errors: `SequenceConflict`, also if the runs `around` it have changed meanwhile.
    """
    stream = ev.schedule_stream(schedule.tenant, schedule.schedule)
    draft = Draft(event, services.clock.now_us(), by)
    append = StreamAppend(stream, [draft], expected_seq=schedule.seq)
    guard = None if around is None else _guard_unchanged(schedule, due, around)
    await services.store.append(Batch(appends=[append], blobs=blobs or (), guard=guard))


async def _around(services: Services, schedule: Schedule, due: Due | None) -> Around:
    store, taken = services.store, False
    open_ = await open_firings(store, schedule.position, limit=OPEN_MAX)
    if due is not None:
        tenant, run_id = schedule.tenant, schedule.run_of(due.due_us)
        taken = await find_run(store, tenant, run_id) is not None or await has_fired(store, tenant, run_id)
    return _around_of(open_, taken)


def _around_of(newest_first: Sequence[OpenFiring], taken: bool) -> Around:
    return Around(tuple((one.run, one.begun) for one in reversed(newest_first)), taken)


def _guard_unchanged(schedule: Schedule, due: Due | None, around: Around) -> Callable[[Tx], None]:
    """Refuses a batch whose decision would be another one by now."""

    def guard(tx: Tx) -> None:
        open_ = open_firings_in(tx, schedule.position, limit=OPEN_MAX)
        taken = False
        if due is not None:
            tenant, run_id = schedule.tenant, schedule.run_of(due.due_us)
            taken = has_run(tx, tenant, run_id) or has_fired_in(tx, tenant, run_id)
        if _around_of(open_, taken) != around:
            raise SequenceConflict(
                f"the runs of schedule {schedule.schedule!r} have changed meanwhile", hint="Look again."
            )

    return guard


# The start of a run from a firing: the work of a worker on a schedule whose time has come


PASSING = (LeaseHeld, SequenceConflict, StoreUnavailable, Corrupt)
"""What says nothing of the firing: it is tried again, or somebody else has it."""


async def begin(kernel: TenantScopes, tenant: TenantRef, run_id: str, on_wait: str) -> AgentResult | None:
    """Start the run of a firing that waits for it; None if there is none of that id.

    Errors: whatever keeps the run from starting. It is recorded, and the firing is over; `NotFound` then.
    """
    desk: Any = kernel.for_tenant(tenant)
    firing = await firing_to_start(desk.services.store, desk.id, run_id)
    if firing is None:
        await check_startable(desk.services.store, desk.id, run_id)
        return None
    schedule, job_ref, cancels, fired_us = firing
    for earlier in cancels.split():
        with suppress(Conflict, NotFound):  # it has ended meanwhile
            await desk.cancel(earlier, by=f"schedule:{schedule}", note=f"replaced by {run_id}")
    desk.services.at("schedule.begin")
    launch: Launch | None = None
    try:
        job = msgspec.convert(await blob_json(desk.services, desk.id, job_ref), ScheduledJob)
        launch = launch_of(job.loop)
        limits = Limits(**job.limits) if job.limits else None
        settings = _as_given(desk, job.settings)
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


def _as_given(desk: TenantScope, settings: dict[str, Any]) -> dict[str, Any]:
    """Settings as somebody gave them: the run receives the values in them, as one that is started by hand."""
    personal = desk.services.personal
    return settings if personal is None else personal(desk.id).restore(settings)


async def _record_failure(desk: TenantScope, schedule: str, run_id: str, error: ArtelierError) -> None:
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
        if not is_to_start(tx, desk.id, run_id):
            raise Conflict(f"the firing of {run_id!r} waits no more")

    with suppress(Conflict):
        await services.store.append(Batch(appends=[append], blobs=[blob], guard=still_waits))
