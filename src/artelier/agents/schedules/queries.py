"""Schedules and their firings as the API and `--json` show them."""

from __future__ import annotations

from typing import Any

from artelier.agents.schedules.dispatcher import COLUMNS
from artelier.agents.schedules.overlap_policy import Schedule
from artelier.agents.schedules.recurrence import interval
from artelier.errors import NotFound
from artelier.kernel.queries.content import shown_json
from artelier.kernel.queries.runs import totals
from artelier.kernel.run.services import Services

PAGE_MAX = 500
RUNS_MAX = 20
"""Newest firings that one schedule shows."""

_FIRING = (
    "SELECT f.run, f.due_us, f.fired_us, f.by, f.asked, f.missed, f.begun, f.open, f.code, f.message,"
    " r.status, r.reason, r.ended_us FROM schedule_firings f"
    " LEFT JOIN runs r ON r.tenant = f.tenant AND r.run = f.run"
)


async def schedule_row(services: Services, tenant: str, name: str) -> Schedule:
    """Errors: `NotFound`, also for another tenant's."""
    rows = await services.store.query(
        f"SELECT {COLUMNS} FROM schedules WHERE tenant = ? AND schedule = ?", (tenant, name)
    )
    if not rows:
        raise NotFound(f"no schedule {name[:128]!r}", hint="`artelier schedule list` shows those there are.")
    return Schedule.of(rows[0])


async def schedule_page(
    services: Services, tenant: str, *, status: str | None, after: int, limit: int
) -> dict[str, Any]:
    """`{items, next}` in the order of their making."""
    limit = max(1, min(limit, PAGE_MAX))
    rows = await services.store.query(
        f"SELECT {COLUMNS} FROM schedules WHERE tenant = ? AND position > ?"
        " AND status = coalesce(?, status) ORDER BY position LIMIT ?",
        (tenant, after, status, limit + 1),
    )
    found = [Schedule.of(row) for row in rows]
    items = [await _line(services, one) for one in found[:limit]]
    return {"items": items, "next": found[limit - 1].position if len(found) > limit else None}


async def schedule_object(services: Services, tenant: str, name: str) -> dict[str, Any]:
    """A schedule with its newest firings as `runs`. Errors: `NotFound`."""
    row = await schedule_row(services, tenant, name)
    found = await services.store.query(
        f"{_FIRING} WHERE f.tenant = ? AND f.schedule = ? ORDER BY f.position DESC LIMIT ?",
        (tenant, name, RUNS_MAX),
    )
    return {**await _line(services, row), "runs": await _firings(services, tenant, found)}


async def _line(services: Services, row: Schedule) -> dict[str, Any]:
    job: Any = await shown_json(services, row.tenant, row.job)
    if isinstance(job, str):  # it was erased, or the vault key is not here: the mark says which
        job = {"loop": job, "settings": {"goal": job}, "limits": {}}
    settings, limits = job["settings"], job["limits"]
    last = None
    if row.last_run:
        found = await services.store.query(
            f"{_FIRING} WHERE f.tenant = ? AND f.run = ?", (row.tenant, row.last_run)
        )
        [last] = await _firings(services, row.tenant, found)
    return {
        "id": row.schedule,
        "status": row.status.value,
        "reason": row.reason or None,
        "cron": row.cron or None,
        "timezone": row.zone if row.cron else None,
        "every": interval(row.every_s) if row.every_s else None,
        "loop": job["loop"],
        "goal": str(settings.get("goal", settings.get("prompt", ""))),
        "model": str(settings.get("model", "")),
        "workspace": settings.get("workspace") or None,
        "budget_usd": limits.get("usd"),
        "overlap": row.overlap,
        "catch_up": row.catch_up,
        "max_failures": row.max_failures,
        "failures": row.failures,
        "firings": row.firings,
        "skipped": row.skipped,
        "last_skip": row.last_skip or None,
        "next_due_us": row.next_due_us,
        "queued_us": row.queued_us,
        "last_run": last,
        "created_us": row.created_us,
        "created_by": row.created_by,
        "changed_us": row.changed_us,
    }


async def _firings(services: Services, tenant: str, rows: list[Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    costs = await totals(services.store, tenant, [row[0] for row in rows])
    for row in rows:
        (run, due_us, fired_us, by, asked, missed, begun, open_, code, message, status, reason, ended_us) = (
            row
        )
        if not begun:
            status = "pending" if open_ else "failed"
        found.append(
            {
                "run_id": run,
                "due_us": due_us,
                "fired_us": fired_us,
                "by": by,
                "asked": bool(asked),
                "missed": missed,
                "status": status,
                "reason": code or reason or None,
                "message": await shown_json(services, tenant, message),
                "is_open": bool(open_),
                "is_begun": bool(begun),
                "ended_us": ended_us,
                "cost_microusd": costs[run].total_cost_microusd if run in costs else 0,
            }
        )
    return found
