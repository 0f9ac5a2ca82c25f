"""Schedules and their firings as the API and `--json` show them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, TypedDict

import msgspec

from artelier.agents.schedules.recurrence import Schedule, interval
from artelier.errors import NotFound
from artelier.kernel.queries.content import shown_json
from artelier.kernel.queries.runs import runs_by_id, totals
from artelier.kernel.run.services import Services
from artelier.log import Store, Tx
from artelier.log.queries import fetch_first


class ScheduledJob(msgspec.Struct, frozen=True, kw_only=True):
    """A run as a schedule starts it: stored with the schedule."""

    loop: str
    settings: dict[str, Any]
    """As the loop takes them."""
    limits: dict[str, Any]
    """Fields of `Limits` that were given."""


PAGE_MAX = 500
RUNS_MAX = 20
"""Newest firings that one schedule shows."""

COLUMNS = ", ".join(Schedule._fields)


class FiringRow(NamedTuple):
    """A firing of a schedule."""

    run: str
    due_us: int
    fired_us: int
    by: str
    asked: int
    missed: int
    begun: int
    open: int
    code: str | None
    message: str | None


_FIRING = f"SELECT {', '.join(f'f.{name}' for name in FiringRow._fields)} FROM schedule_firings f"


class OpenFiring(NamedTuple):
    """A firing whose run has not ended."""

    run: str
    begun: bool


_OPEN = (
    "SELECT run, begun FROM schedule_firings INDEXED BY schedule_firings_open"
    " WHERE made = ? AND open = 1 ORDER BY position DESC LIMIT ?"
)
_FIRED = "SELECT 1 FROM schedule_firings WHERE tenant = ? AND run = ?"


class FiringToStart(NamedTuple):
    """A firing whose run has not begun."""

    schedule: str
    job: str
    cancels: str
    fired_us: int


_TO_START = (
    f"SELECT {', '.join(FiringToStart._fields)} FROM schedule_firings"
    " WHERE tenant = ? AND run = ? AND open = 1 AND begun = 0"
)


async def due_schedules(store: Store, now_us: int, *, tenant: str | None, limit: int) -> list[Schedule]:
    """Return the schedules that are to be looked at: of each tenant that which is longest due comes first."""
    rows = await store.query(
        f"SELECT {COLUMNS} FROM schedules INDEXED BY schedules_due"
        " WHERE look_us <= ? AND tenant = coalesce(?, tenant) ORDER BY row_number() OVER"
        " (PARTITION BY tenant ORDER BY look_us, position), look_us, position LIMIT ?",
        (now_us, tenant, limit),
    )
    return [Schedule.of(row) for row in rows]


async def waiting_firings(store: Store, *, tenant: str | None, limit: int) -> list[tuple[str, str]]:
    """Return the firings whose run has not begun, as (tenant, run id): the oldest of each tenant first."""
    return await store.query(
        "SELECT f.tenant, f.run FROM schedule_firings f INDEXED BY schedule_firings_waiting"
        " WHERE f.open = 1 AND f.begun = 0 AND f.tenant = coalesce(?, f.tenant) ORDER BY row_number() OVER"
        " (PARTITION BY f.tenant ORDER BY f.position), f.position LIMIT ?",
        (tenant, limit),
    )


async def open_firings(store: Store, position: int, *, limit: int) -> list[OpenFiring]:
    """Return the open firings of the schedule that was made at a position, newest first."""
    return [OpenFiring(run, bool(begun)) for run, begun in await store.query(_OPEN, (position, limit))]


def open_firings_in(tx: Tx, position: int, *, limit: int) -> list[OpenFiring]:
    """Return the same as `open_firings`, in a transaction."""
    return [OpenFiring(run, bool(begun)) for run, begun in tx.execute(_OPEN, (position, limit))]


async def has_fired(store: Store, tenant: str, run_id: str) -> bool:
    """Return True if a firing has named this run."""
    return bool(await store.query(_FIRED, (tenant, run_id)))


def has_fired_in(tx: Tx, tenant: str, run_id: str) -> bool:
    """Return the same as `has_fired`, in a transaction."""
    return tx.one(_FIRED, (tenant, run_id)) is not None


async def firing_to_start(store: Store, tenant: str, run_id: str) -> FiringToStart | None:
    """Return the firing that waits for a run to be started."""
    return await fetch_first(store, FiringToStart, _TO_START, (tenant, run_id))


async def check_startable(store: Store, tenant: str, run_id: str) -> None:
    """Errors: `NotFound` for a firing that is over since its run could not be started."""
    found = await store.query(
        "SELECT schedule, code FROM schedule_firings WHERE tenant = ? AND run = ? AND open = 0 AND begun = 0",
        (tenant, run_id),
    )
    for schedule, code in found:
        raise NotFound(
            f"run {run_id!r} of schedule {schedule!r} could not be started: {code}",
            hint=f"`artelier schedule show {schedule}` says why. Once that is mended, start another one:"
            f" artelier schedule fire {schedule}",
        )


def is_to_start(tx: Tx, tenant: str, run_id: str) -> bool:
    """Return True if a firing waits for a run to be started."""
    return tx.one(_TO_START, (tenant, run_id)) is not None


async def schedule_row(services: Services, tenant: str, name: str) -> Schedule:
    """Errors: `NotFound`, also for another tenant's."""
    rows = await services.store.query(
        f"SELECT {COLUMNS} FROM schedules WHERE tenant = ? AND schedule = ?", (tenant, name)
    )
    if not rows:
        raise NotFound(f"no schedule {name[:128]!r}", hint="`artelier schedule list` shows those there are.")
    return Schedule.of(rows[0])


class FiringView(TypedDict):
    """A firing with what became of its run."""

    run_id: str
    due_us: int
    fired_us: int
    by: str
    """`schedule:<name>`, or who asked for it."""
    asked: bool
    """True if a person asked for it."""
    missed: int
    """Times before it that passed while nobody drove runs."""
    status: str | None
    reason: str | None
    """The code of its failure, or of its wait."""
    message: str | None
    """The reason for which its run could not be started, in words."""
    is_open: bool
    """True until it has ended."""
    is_begun: bool
    """True if its run is there to be looked at."""
    cost_microusd: int
    """Micro-dollars."""
    ended_us: int | None


class ScheduleView(TypedDict):
    """A schedule with what it starts and how its newest run stands.

    Reports are dictionaries, because callers index them.
    """

    id: str
    """Its name; its runs are called `<name>/<time in UTC>`."""
    status: str
    reason: str | None
    """`failures` if it paused itself."""
    cron: str | None
    """Five fields; None with an interval."""
    timezone: str | None
    """Of the cron line."""
    every: str | None
    """Such as `1h30m`; None with a cron line."""
    loop: str
    """The driver of its runs: `mission` by a plan, `agent` alone, or one of a program."""
    goal: str
    model: str
    workspace: str | None
    budget_usd: float | str | None
    overlap: str
    catch_up: str
    max_failures: int
    """So many in a row pause it; 0: none do."""
    failures: int
    """In a row, up to now."""
    firings: int
    skipped: int
    last_skip: str | None
    """The cause of the last skip: `overlap`, `queue_full`, `missed`, `run_exists` or `too_many`."""
    next_due_us: int | None
    """None while it is paused."""
    queued_us: int | None
    """The time that waits for an earlier run to end."""
    last_run: FiringView | None
    created_us: int
    created_by: str
    changed_us: int


class ScheduleDetail(ScheduleView):
    """A schedule with its newest firings."""

    runs: list[FiringView]


class FiredSchedule(TypedDict):
    """The result of firing a schedule now."""

    id: str
    run_id: str | None
    """None if it waits for an earlier run."""
    queued: bool


class SchedulePage(TypedDict):
    """Schedules in the order of their making; `next` is the place to go on from."""

    items: list[ScheduleView]
    next: int | None


async def schedule_page(
    services: Services, tenant: str, *, status: str | None, after: int, limit: int
) -> SchedulePage:
    """Return the schedules of a tenant behind a place."""
    limit = max(1, min(limit, PAGE_MAX))
    rows = await services.store.query(
        f"SELECT {COLUMNS} FROM schedules WHERE tenant = ? AND position > ?"
        " AND status = coalesce(?, status) ORDER BY position LIMIT ?",
        (tenant, after, status, limit + 1),
    )
    found = [Schedule.of(row) for row in rows]
    items = [await _read_schedule(services, one) for one in found[:limit]]
    return {"items": items, "next": found[limit - 1].position if len(found) > limit else None}


async def schedule_detail(services: Services, tenant: str, name: str) -> ScheduleDetail:
    """Return a schedule with its newest firings. Errors: `NotFound`."""
    row = await schedule_row(services, tenant, name)
    found = await services.store.query(
        f"{_FIRING} WHERE f.tenant = ? AND f.schedule = ? ORDER BY f.position DESC LIMIT ?",
        (tenant, name, RUNS_MAX),
    )
    runs = await _read_firings(services, tenant, [FiringRow(*one) for one in found])
    return {**await _read_schedule(services, row), "runs": runs}


async def _read_schedule(services: Services, row: Schedule) -> ScheduleView:
    told: Any = await shown_json(services, row.tenant, row.job)
    if isinstance(told, str):  # it was erased, or the vault key is not here: the mark says which
        told = {"loop": told, "settings": {"goal": told}, "limits": {}}
    job = msgspec.convert(told, ScheduledJob)
    settings, limits = job.settings, job.limits
    last = None
    if row.last_run:
        found = await services.store.query(
            f"{_FIRING} WHERE f.tenant = ? AND f.run = ?", (row.tenant, row.last_run)
        )
        [last] = await _read_firings(services, row.tenant, [FiringRow(*one) for one in found])
    return ScheduleView(
        id=row.schedule,
        status=row.status.value,
        reason=row.reason or None,
        cron=row.cron or None,
        timezone=row.zone if row.cron else None,
        every=interval(row.every_s) if row.every_s else None,
        loop=job.loop,
        goal=str(settings.get("goal", settings.get("prompt", ""))),
        model=str(settings.get("model", "")),
        workspace=settings.get("workspace") or None,
        budget_usd=limits.get("usd"),
        overlap=row.overlap,
        catch_up=row.catch_up,
        max_failures=row.max_failures,
        failures=row.failures,
        firings=row.firings,
        skipped=row.skipped,
        last_skip=row.last_skip or None,
        next_due_us=row.next_due_us,
        queued_us=row.queued_us,
        last_run=last,
        created_us=row.created_us,
        created_by=row.created_by,
        changed_us=row.changed_us,
    )


async def _read_firings(services: Services, tenant: str, rows: Sequence[FiringRow]) -> list[FiringView]:
    found: list[FiringView] = []
    costs = await totals(services.store, tenant, [row.run for row in rows])
    known = await runs_by_id(services.store, tenant, [row.run for row in rows])
    for row in rows:
        run = known.get(row.run)
        status = None if run is None else run.status
        if not row.begun:
            status = "pending" if row.open else "failed"
        found.append(
            FiringView(
                run_id=row.run,
                due_us=row.due_us,
                fired_us=row.fired_us,
                by=row.by,
                asked=bool(row.asked),
                missed=row.missed,
                status=status,
                reason=row.code or (None if run is None else run.reason) or None,
                message=await shown_json(services, tenant, row.message),
                is_open=bool(row.open),
                is_begun=bool(row.begun),
                ended_us=None if run is None else run.ended_us,
                cost_microusd=costs[row.run].total_cost_microusd if row.run in costs else 0,
            )
        )
    return found
