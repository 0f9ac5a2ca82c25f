"""The interface to schedules: `desk.schedules.add("nightly", cron="0 3 * * *", goal=..., model=...)`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from typing import Any, cast

import msgspec

from artelier.agents.launch import launch_of
from artelier.agents.schedules import events as ev
from artelier.agents.schedules.dispatcher import fire_now, write
from artelier.agents.schedules.queries import (
    FiredSchedule,
    ScheduleDetail,
    ScheduledJob,
    SchedulePage,
    schedule_detail,
    schedule_page,
    schedule_row,
)
from artelier.agents.schedules.recurrence import (
    CATCH_UPS,
    OVERLAPS,
    STORED,
    Schedule,
    ScheduleStatus,
    Timing,
    checked_timing,
)
from artelier.errors import Conflict, InvalidRequest, SequenceConflict
from artelier.kernel import Limits
from artelier.kernel.prompt.manifest import encode_json
from artelier.kernel.queries.content import blob_json
from artelier.kernel.tenants.registry import TenantScope
from artelier.log import Batch, Blob, BlobRef, Draft, EventData, StreamAppend, check_subject, prepared_blob
from artelier.log.contract import stored_name
from artelier.money import parse_usd
from artelier.pii.vault import escape_json

ATTEMPTS_MAX = 20
"""How often a change is decided anew because a firing was faster."""

FAILURES_MAX = 1_000_000
NOTE_CHARS_MAX = 10_000

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,39}")
# A run is called `<name>/20261122T180000Z`, and what belongs to a mission is named after that.

UNSAID: Any = object()


class Schedules:
    """The schedules of one tenant. `by` is who acts, as events say it."""

    def __init__(self, desk: TenantScope) -> None:
        self._desk = desk
        self._services = desk.services

    async def add(
        self,
        name: str,
        *,
        cron: str | None = None,
        every: str | int | None = None,
        timezone: str | None = None,
        goal: str | None = None,
        model: str | None = None,
        workspace: str = "",
        solo: bool = False,
        loop: str | None = None,
        settings: Mapping[str, Any] | None = None,
        budget_usd: str | None = None,
        limits: Limits | None = None,
        overlap: str = "skip",
        catch_up: str = "one",
        max_failures: int = 0,
        by: str = "operator",
        subject: str = "",
    ) -> ScheduleDetail:
        """Start a run at each time from now on; what `get` says of the schedule.

        `cron`: five fields, in `timezone` (UTC unless said). `every`: seconds, or a text such as `30m`,
        counted from now. `goal` with `model` is worked on as `artelier do` does: by a plan, or with `solo` by
        one agent; else `loop` and its `settings` say what is started. `budget_usd` and `limits` cap each run.
        `overlap`, while an earlier run has not ended: `skip`, `queue` (one waits), `cancel_running`, `allow`.
        `catch_up`, of times that passed while nobody drove runs: `one` run for all of them, or `none`.
        `max_failures` in a row pause the schedule; 0 for never. `subject`: whom it is about; its goal and
        what its runs store is erased with that, and its firings fail from then on.
        Errors: `InvalidRequest` for what cannot work; `UnknownModel`, `MissingKey`; `NotFound` for a folder
        that is not there; `Conflict` if there is such a schedule.
        """
        now_us = self._services.clock.now_us()
        _check_name(name)
        timing = checked_timing(cron=cron, every=every, zone=timezone, now_us=now_us)
        loop, wanted = _loop_and_settings(
            goal=goal, model=model, workspace=workspace, solo=solo, loop=loop, settings=settings
        )
        job = self._job(loop, self._escape_placeholders(wanted), _limits(limits, budget_usd))
        _check_policy(overlap=overlap, catch_up=catch_up, max_failures=max_failures)
        key = (await self._desk.state()).key
        if subject:
            key = await self._services.store.data_key(self._desk.id, check_subject(subject))
        ref, blob = await prepared_blob(self._desk.id, key, encode_json(job))
        event = ev.ScheduleAdded(
            **asdict(timing),
            job=ref,
            next_due_us=timing.after(now_us),
            overlap=overlap,
            catch_up=catch_up,
            max_failures=max_failures,
        )
        stream = ev.schedule_stream(self._desk.id, name)
        append = StreamAppend(stream, [Draft(event, now_us, by)])
        await self._services.store.append(Batch(appends=[append], blobs=[blob]))
        return await self.get(name)

    async def list(self, *, status: str | None = None, after: int = 0, limit: int = 100) -> SchedulePage:
        """Return schedules in the order of their making. `status`: `active` or `paused`."""
        if status is not None and status not in STORED:
            raise InvalidRequest("status", expected="active or paused", got=repr(status)[:80])
        return await schedule_page(self._services, self._desk.id, status=status, after=after, limit=limit)

    async def get(self, name: str) -> ScheduleDetail:
        """Return a schedule with its next time and its newest `runs`. Errors: `NotFound`."""
        return await schedule_detail(self._services, self._desk.id, name)

    async def change(
        self,
        name: str,
        *,
        cron: str | None = UNSAID,
        every: str | int | None = UNSAID,
        timezone: str | None = UNSAID,
        goal: str = UNSAID,
        model: str = UNSAID,
        workspace: str | None = UNSAID,
        budget_usd: str | None = UNSAID,
        overlap: str = UNSAID,
        catch_up: str = UNSAID,
        max_failures: int = UNSAID,
        by: str = "operator",
    ) -> ScheduleDetail:
        """Change what is given, for all firings to come; what `get` says then.

        An interval that stays keeps its times. Errors: those of `add`; `NotFound`.
        """
        times = {"cron": cron, "every": every, "timezone": timezone}
        ways = {"overlap": overlap, "catch_up": catch_up, "max_failures": max_failures}
        asked = {"goal": goal, "model": model, "workspace": workspace, "budget_usd": budget_usd}
        if not _given_values({**times, **ways, **asked}):
            return await self.get(name)
        state = await self._desk.state()

        async def make_change(row: Schedule) -> tuple[EventData, list[Blob]]:
            timing = self._timing_of(row, _given_values(times))
            job = await self._changed_job(row, _given_values(asked))
            policy = {name: getattr(row, name) for name in ways} | _given_values(ways)
            _check_policy(**policy)
            store = self._services.store
            held = await store.subject_key_of(self._desk.id, stored_name(row.job))
            ref, blob = await prepared_blob(self._desk.id, held or state.key, encode_json(job))
            next_us = row.next_due_us if timing == row.timing else None
            if next_us is None and row.status is ScheduleStatus.ACTIVE:
                next_us = timing.after(self._services.clock.now_us())
            event = ev.ScheduleChanged(
                **asdict(timing), job=ref, next_due_us=next_us, keeps_queued=True, **policy
            )
            return event, [blob]

        await self._append(name, make_change, by=by)
        return await self.get(name)

    async def pause(self, name: str, *, by: str = "operator", note: str = "") -> ScheduleDetail:
        """Fire no more until it is resumed; runs that are at work go on.

        Errors: `NotFound`; `Conflict` if it is paused.
        """
        if len(note) > NOTE_CHARS_MAX:
            raise InvalidRequest("note too long", expected=f"at most {NOTE_CHARS_MAX} characters")
        state = await self._desk.state()
        ref: BlobRef | None = None
        blobs: list[Blob] = []
        if note:
            ref, blob = await prepared_blob(self._desk.id, state.key, encode_json(note))
            blobs.append(blob)

        async def make_pause(row: Schedule) -> tuple[EventData, list[Blob]]:
            if not row.status.can_become(ScheduleStatus.PAUSED):
                raise Conflict(f"schedule {name!r} is paused already", got=row.reason or None)
            return ev.SchedulePaused(note=ref), blobs

        await self._append(name, make_pause, by=by)
        return await self.get(name)

    async def resume(self, name: str, *, by: str = "operator") -> ScheduleDetail:
        """Fire again, from now on: times that passed meanwhile are not made up for.

        Errors: `NotFound`; `Conflict` if it is not paused.
        """

        async def make_resumption(row: Schedule) -> tuple[EventData, list[Blob]]:
            if not row.status.can_become(ScheduleStatus.ACTIVE):
                raise Conflict(f"schedule {name!r} is not paused", got=row.status.value)
            next_us = row.timing.after(self._services.clock.now_us())
            return ev.ScheduleResumed(next_due_us=next_us), []

        await self._append(name, make_resumption, by=by)
        return await self.get(name)

    async def remove(self, name: str, *, by: str = "operator") -> None:
        """Let it be gone; its runs stay, and those that are at work go on. Errors: `NotFound`."""

        async def make_removal(row: Schedule) -> tuple[EventData, list[Blob]]:
            return ev.ScheduleRemoved(), []

        await self._append(name, make_removal, by=by)

    async def fire(self, name: str, *, by: str = "operator") -> FiredSchedule:
        """Fire now, paused or not. A worker starts the run, or `artelier resume`.

        Errors: `NotFound`; `Conflict` while an earlier run has not ended and the overlap does not allow it.
        """
        for attempt in range(ATTEMPTS_MAX):
            row = await schedule_row(self._services, self._desk.id, name)
            try:
                event = await fire_now(self._services, row, by=by)
            except SequenceConflict:
                if attempt == ATTEMPTS_MAX - 1:
                    raise
                continue
            run = event.run if isinstance(event, ev.ScheduleFired) else None
            return {"id": name, "run_id": run, "queued": run is None}
        raise AssertionError("the last attempt returns or raises")

    # Inside

    def _job(self, loop: str, settings: dict[str, Any], limits: Limits | None) -> ScheduledJob:
        """Return what is stored of what is to be started. Errors: what would keep it from starting now."""
        complete = launch_of(loop).check(self._desk, settings)
        caps = {} if limits is None else asdict(limits)
        said = {name: value for name, value in caps.items() if value is not None}
        job = ScheduledJob(loop=loop, settings=complete, limits=said)
        try:
            encode_json(job)
        except (TypeError, ValueError) as error:
            raise InvalidRequest(f"settings of loop {loop}: {error}", expected="JSON data") from None
        return job

    def _escape_placeholders(self, settings: dict[str, Any]) -> dict[str, Any]:
        """Settings that somebody gives, in which what looks like a placeholder is none."""
        return settings if self._services.personal is None else escape_json(settings)

    def _timing_of(self, row: Schedule, given: dict[str, Any]) -> Timing:
        timing = row.timing
        if not given:
            return timing
        if given.get("cron") is not None:
            given.setdefault("every", None)
        elif given.get("every") is not None:
            given = {"cron": None, "timezone": None, **given}
        have = {
            "cron": timing.cron or None,
            "every": timing.every_s or None,
            "timezone": timing.zone if timing.cron else None,
        }
        wanted = {**have, **given}
        return checked_timing(
            cron=wanted["cron"],
            every=wanted["every"],
            zone=wanted["timezone"],
            now_us=self._services.clock.now_us(),
        )

    async def _changed_job(self, row: Schedule, given: dict[str, Any]) -> ScheduledJob:
        job = msgspec.convert(await blob_json(self._services, row.tenant, row.job), ScheduledJob)
        caps = job.limits
        if "budget_usd" in given:
            caps = {**caps, "usd": given.pop("budget_usd")}
            if caps["usd"] is not None:
                _limits(None, caps["usd"])
        if given and job.loop not in ("mission", "agent"):
            raise InvalidRequest(
                f"schedule {row.schedule!r} starts a loop with settings of its own",
                got=job.loop,
                expected="times and limits alone",
                hint="Remove it, and add it anew.",
            )
        names = {"goal": "prompt" if job.loop == "agent" else "goal"}
        new = self._escape_placeholders({names.get(name, name): value or "" for name, value in given.items()})
        return self._job(job.loop, {**job.settings, **new}, Limits(**caps))

    async def _append(self, name: str, decide: Callable[[Schedule], Any], *, by: str) -> None:
        """An event on the schedule's stream, whoever else writes there."""
        for attempt in range(ATTEMPTS_MAX):
            row = await schedule_row(self._services, self._desk.id, name)
            event, blobs = await decide(row)
            try:
                return await write(self._services, row, event, by=by, blobs=blobs)
            except SequenceConflict:
                if attempt == ATTEMPTS_MAX - 1:
                    raise


def _given_values(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not UNSAID}


def _check_name(name: object) -> None:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise InvalidRequest(
            "invalid name of a schedule",
            got=repr(name)[:80],
            expected="1-40 characters of A-Z a-z 0-9 . _ -, beginning with a letter or digit",
            hint="Its runs are named after it.",
        )


def _loop_and_settings(
    *,
    goal: str | None,
    model: str | None,
    workspace: str,
    solo: bool,
    loop: str | None,
    settings: Mapping[str, Any] | None,
) -> tuple[str, dict[str, Any]]:
    """Loop and settings. Errors: `InvalidRequest` if both or neither were said."""
    if loop is not None:
        if goal is not None or model is not None or workspace or solo:
            raise InvalidRequest(
                "what a loop does is in its settings",
                expected="goal=..., or loop=... and settings=...",
                got="both",
            )
        return loop, dict(settings or {})
    if settings is not None:
        raise InvalidRequest("settings without a loop", expected="loop=... and settings=...")
    if goal is None:
        raise InvalidRequest(
            "a schedule needs something to do", expected="goal=... and model=..., or loop=..."
        )
    text: Any = goal
    if not isinstance(text, str):
        raise InvalidRequest("goal", expected="a text", got=repr(text)[:80])
    if not model:
        raise InvalidRequest("a schedule needs a model", expected='model="offline" or another name')
    wanted: dict[str, Any] = {"prompt" if solo else "goal": goal, "model": model}
    if workspace:
        wanted["workspace"] = workspace
    return "agent" if solo else "mission", wanted


def _limits(limits: Limits | None, budget_usd: str | None) -> Limits | None:
    """Caps of each run. Errors: `InvalidRequest` for a budget of nothing."""
    if budget_usd is not None:
        limits = replace(limits or Limits(), usd=budget_usd)
    if limits is not None and limits.usd is not None and not parse_usd(limits.usd):
        raise InvalidRequest(
            "with this budget no run could take a step",
            expected="an amount above 0",
            got=repr(limits.usd),
            hint="Leave it out for none but the tenant's.",
        )
    return limits


def _check_policy(*, overlap: object, catch_up: object, max_failures: object) -> None:
    for what, value, known in (("overlap", overlap, OVERLAPS), ("catch_up", catch_up, CATCH_UPS)):
        if value not in known:
            raise InvalidRequest(what, expected=" or ".join(known), got=repr(value)[:80])
    is_count = isinstance(max_failures, int) and not isinstance(max_failures, bool)
    if not is_count or not 0 <= cast(int, max_failures) <= FAILURES_MAX:
        raise InvalidRequest(
            "max_failures", expected="a whole number from 0 (never)", got=repr(max_failures)[:80]
        )
