"""Opening, resuming and closing a run: lease, history, status, and an honest end in every case."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import ExitStack, suppress
from dataclasses import replace
from types import TracebackType
from typing import Any

import msgspec

from artelier.artifacts.media.inspection import keep_medium
from artelier.artifacts.ref import NONE, substitutions
from artelier.errors import (
    ArtelierError,
    Conflict,
    InvalidRequest,
    LeaseHeld,
    LeaseLost,
    NotFound,
    ReplayMismatch,
    RunStopped,
    RunSuspended,
    SequenceConflict,
    StoreUnavailable,
    ToolFailed,
)
from artelier.kernel import events as ev
from artelier.kernel.control_stream import cancel_left, give_back, obey, return_held_money, tell
from artelier.kernel.erasure import check_same, take_keys
from artelier.kernel.history.drift import FORK_ON_DRIFT, become, branch_off, newest_drift
from artelier.kernel.history.fork_effects import effects_of
from artelier.kernel.history.fork_lineage import (
    Place,
    changes_of,
    grants_of,
    keys_of,
    lineage,
    newest_state,
    params_of,
    pii_rules_of,
    segments,
)
from artelier.kernel.history.step_history import History
from artelier.kernel.policy import narrow
from artelier.kernel.prompt.manifest import encode_json
from artelier.kernel.queries.runs import RunRow, check_nothing_below, is_imported, run_row
from artelier.kernel.queries.steps import signals_of
from artelier.kernel.run.context import ResultStore, RunActions, RunCore, is_final
from artelier.kernel.run.crash_recovery import STALLED_MAX, abandoned_calls, park_stalled, with_stall_count
from artelier.kernel.run.handle import Run
from artelier.kernel.run.pending_steps import steps_of
from artelier.kernel.run.services import Services, TenantState
from artelier.kernel.run.status import FINAL, CompensationResult, RunStatus
from artelier.kernel.run.writer import Actor
from artelier.kernel.run_limits import (
    Opening,
    check_limits,
    check_scopes,
    deadlines,
    limits_of,
    opening_caps,
    refresh_caps_above,
    scopes_of,
)
from artelier.kernel.steps.failures import code_of, is_end, verdict_on, words
from artelier.kernel.steps.model_request import take_back
from artelier.kernel.steps.step_keys import SingleStep
from artelier.kernel.tool_calls.compensation import compensate_ended
from artelier.kernel.tool_calls.tool_list import newest_list, note_tools, tool_list
from artelier.kernel.tool_calls.tool_step import settle_left
from artelier.log import (
    Batch,
    Blob,
    BlobRef,
    Draft,
    EventData,
    Fence,
    LeaseEnd,
    Receipt,
    StreamAppend,
    make_blob,
    run_stream,
)
from artelier.log.queries import stream_events
from artelier.pii.detectors.text_view import RULES
from artelier.ports.media import ATTACHMENTS
from artelier.ports.model_params import check_params
from artelier.ports.telemetry import RunFacts, Telemetry


class OpenRun:
    """`async with` this to drive a run."""

    def __init__(
        self,
        services: Services,
        find_tenant: Callable[[], Awaitable[TenantState]],
        opening: Opening,
        store_result: ResultStore | None = None,
    ) -> None:
        self._services = services
        self._find_tenant = find_tenant
        self._found: TenantState | None = None
        self._opening = opening
        self._store_result = store_result
        self._run: Run | None = None
        self._token = 0
        self._stalled = 0
        """Drives before this one that ended without progress."""
        self._lease_end = LeaseEnd(0)
        """When the lease ends that was asked for."""
        self._is_opening = False
        self._handed = ExitStack()
        """What the parent has handed over to this run as long as it is open."""
        self.is_new = False
        """Whether this opening made the run."""
        self.snapshot: dict[str, Any] | None = None
        """The state a built-in loop left, if it resumes."""

    @property
    def _tenant(self) -> TenantState:
        assert self._found is not None
        return self._found

    async def __aenter__(self) -> Run:
        opening = self._opening
        if opening.parent is not None:
            opening.parent.prepare_child()
        tenant = self._found = await self._find_tenant()
        await self._services.turn_to_open(tenant.id)
        try:
            row = await run_row(self._services.store, tenant.id, opening.run_id)
        except NotFound:
            row = None
        if row is not None and self._may_fork(row):
            newest = await newest_drift(self._services, tenant.id, opening.run_id)
            opening = self._opening = replace(opening, run_id=newest)
            row = await run_row(self._services.store, tenant.id, newest)
        self._token = 0
        try:
            core = await (self._create() if row is None else self._resume(row))
            if row is not None and core.actor is not None:
                await core.hear()
        except BaseException:
            self._give_back(self._token)
            raise
        finally:
            if self._is_opening:
                self._is_opening = False
                self._services.opening.discard((tenant.id, opening.run_id))
        core.store_result = self._store_result
        self._run = Run(core)
        if core.effects is not None and not opening.is_detached:
            substitutions.set(core.effects.replaced)  # for what is read in this task, until it ends
        if self._may_fork(row):
            core.fork_off = self._fork_off
        if self._services.telemetry is not None:
            self._watch(self._services.telemetry, core, row)
        if core.actor is not None:
            self._services.active[tenant.id, opening.run_id] = core
            core.nudge()
            if opening.parent is not None:
                self._handed.enter_context(opening.parent.calls.handed_over())
                self._handed.enter_context(self._services.draining.waiting())
                try:
                    await self._catch_up(opening.parent)
                except BaseException as error:
                    await self.__aexit__(type(error), error, None)
                    raise
        return self._run

    def _may_fork(self, row: RunRow | None) -> bool:
        """Return True if it goes on as a fork of itself where its code differs: no child, and not in a
        replay.
        """
        opening = self._opening
        is_child = opening.parent is not None or (row is not None and row.parent is not None)
        policies = (opening.replay, row.replay if row is not None else "")
        is_only_read = opening.read_only or opening.compensating
        return FORK_ON_DRIFT in policies and not is_child and not is_only_read

    async def _fork_off(self, mismatch: ReplayMismatch) -> None:
        """Leave the run at the step at hand, and go on as its fork. Errors: see `branch_off`."""
        assert self._run is not None
        core, services, opening = self._run.core, self._services, self._opening
        branch = await branch_off(core, mismatch, by=opening.principal, settle_left=settle_left)
        self._give_back(self._token)
        services.active.pop((core.tenant.id, core.run_id), None)
        if services.telemetry is not None:
            services.telemetry.run_closed(core, status="cancelled")
        self._opening = replace(opening, run_id=branch.run_id)
        self._token, self._lease_end = branch.token, branch.lease_end
        become(core, branch.run_id)
        core.effects = await effects_of(services, core.tenant.id, core.run_id)
        self._attach(core, branch.token)
        services.active[core.tenant.id, core.run_id] = core
        row = await run_row(services.store, core.tenant.id, core.run_id)
        await self._at_work(core, row, await lineage(services, core.tenant.id, core.run_id))
        core.writer.note(ev.RunResumed())
        core.listed_under = None
        note_tools(core)
        if services.telemetry is not None:
            self._watch(services.telemetry, core, row)
        core.nudge()

    async def _catch_up(self, parent: RunCore) -> None:
        """Hear what the parent was told while this run was being opened, and was not there to be told."""
        steps = bool(parent.stepping.command) and self.is_new
        if parent.cancelled_reason is None and not parent.paused and not steps:
            return
        verb = "stop" if parent.stopping else "pause" if parent.paused else "step"
        if parent.cancelled_reason is not None:
            verb = "cancel"
        await tell(self._services, self._tenant.id, self._opening.run_id, verb, by="kernel")
        if self._run is not None:
            await self._run.core.hear()  # before its first step

    def _watch(self, telemetry: Telemetry, core: RunCore, row: RunRow | None) -> None:
        opening = self._opening
        facts = RunFacts(
            run_id=core.run_id, tenant=core.tenant.id, parent=opening.parent,
            agent=row.agent if row is not None else opening.agent, conversation=opening.conversation,
            loop=row.loop if row is not None else opening.loop,
            is_resumed=row is not None and core.actor is not None,
            is_replayed=core.actor is None, is_detached=opening.is_detached,
        )  # fmt: skip
        telemetry.run_opened(core, facts)

    async def _take(self, *appends: StreamAppend, blobs: list[Blob]) -> int:
        """Take the run's lease, with the first events of a new one; its token.

        Errors: `LeaseHeld` also if this kernel drives the run already.
        """
        key = (self._tenant.id, self._opening.run_id)
        if self._services.driver(*key) is not None or key in self._services.opening:
            raise LeaseHeld(
                f"run {self._opening.run_id!r} is driven by this process already",
                hint="Use the handle that drives it, or wait until that is done.",
            )
        self._services.opening.add(key)
        self._services.orphans.discard(key)
        self._is_opening = True
        lease = with_stall_count(self._services.lease(run_stream(*key)))
        self._lease_end = lease.end
        batch = Batch(appends=appends, blobs=blobs, acquire=lease)
        taking = asyncio.ensure_future(self._services.store.append(batch))
        try:
            receipt = await asyncio.shield(taking)
        except asyncio.CancelledError:
            # The lease may be ours all the same, and then nobody would ever give it back.
            taking.add_done_callback(self._taken_in_vain)
            raise
        self._token, self._stalled = receipt.lease_token or 0, receipt.stalled
        return self._token

    def _taken_in_vain(self, taking: asyncio.Future[Receipt]) -> None:
        if not taking.cancelled() and taking.exception() is None:
            self._give_back(taking.result().lease_token or 0)

    def _give_back(self, token: int) -> None:
        """Release the lease without waiting for it; nothing depends on when."""
        if not token:
            return
        stream = run_stream(self._tenant.id, self._opening.run_id)
        with suppress(StoreUnavailable):
            released = asyncio.ensure_future(
                self._services.store.submit(Batch(release=Fence(stream=stream, token=token)))
            )
            released.add_done_callback(lambda done: done.cancelled() or done.exception())

    # A new run

    async def _create(self) -> RunCore:
        opening, tenant = self._opening, self._tenant
        await self._check_new()
        stream = run_stream(tenant.id, opening.run_id)
        grants = tenant.grants if opening.grants is None else narrow(tenant.grants, opening.grants)
        params = dict(self._services.params)
        if opening.parent is not None:
            if opening.parent.tenant.id != tenant.id:
                raise InvalidRequest(
                    "a child run belongs to the tenant of its parent",
                    expected=f"tenant {opening.parent.tenant.id!r}", got=repr(tenant.id),
                )  # fmt: skip
            opening.parent.writer.check()  # a parent that takes no steps takes no children
            if opening.parent.depth_max == 0:
                raise ToolFailed(  # it is mostly a tool that asks, and nothing has happened
                    f"run {opening.parent.run_id!r} may start no runs below it",
                    expected="work of its own", got=opening.run_id,
                    hint="Its delegation depth is used up.",
                )  # fmt: skip
            grants, params = narrow(opening.parent.grants, grants), dict(opening.parent.params)
        elif opening.ended_parent:
            above = await lineage(self._services, tenant.id, opening.ended_parent)
            grants = narrow(await grants_of(self._services, above), grants)
            params = await params_of(self._services, above)
        core = self._core(
            History(self._services.store, []), grants=grants, replay=opening.replay,
            loop=opening.loop,
        )  # fmt: skip
        core.params = params | check_params(opening.params or {})
        if core.pii is not None:
            core.pii.hold(RULES)
            core.pii.check_name(opening.run_id)
        blobs: list[Blob] = []
        key_id, part_key_id = await take_keys(core, opening)
        core.listed_under = core.sight
        settings = await _prepare_settings(core, opening, blobs)
        started = ev.RunStarted(
            loop=opening.loop, agent=opening.agent, model=opening.model,
            goal=_keep(core, opening.goal, blobs), settings=_keep(core, settings, blobs),
            tools=_keep(core, tool_list(core), blobs) if core.tools else None, grants=grants,
            params=_keep(core, core.params or None, blobs),
            parent=opening.parent.run_id if opening.parent else opening.ended_parent or None,
            parent_step=opening.parent_step, replay=opening.replay,
            scopes=check_scopes(opening.scopes), code=self._services.code_version,
            key_id=key_id, part_key_id=part_key_id,
            pii_rules=1 if core.pii is None else RULES,
        )  # fmt: skip
        core.listed = started.tools
        caps = opening_caps(opening.limits, opening.run_id)
        now = self._services.clock.now_us()
        by = opening.by or opening.principal
        known = [] if core.pii is None else core.pii.receive_opening(opening.goal, settings)
        drafts = [Draft(data, now, by) for data in (started, *caps, *known)]
        try:
            token = await self._take(StreamAppend(stream, drafts, expected_seq=0), blobs=blobs)
        except SequenceConflict:
            # Somebody started it meanwhile, or an open of ours that was cancelled: then it exists.
            self._services.opening.discard((tenant.id, opening.run_id))
            self._is_opening = False
            return await self._resume(await run_row(self._services.store, tenant.id, opening.run_id))
        self._attach(core, token)
        if opening.parent is not None:
            core.effects = opening.parent.effects
        self.is_new = core.is_new = True
        core.started_us = now
        core.is_hand_written = not opening.loop
        await self._count(core, started.scopes)
        self._services.at("run.started")
        return core

    async def _check_new(self) -> None:
        """Check that the run may be new, and that nothing is below it. Errors: `NotFound`, `Conflict`."""
        if self._opening.read_only:
            raise NotFound(f"no run {self._opening.run_id!r} to replay")
        await check_nothing_below(self._services.store, self._tenant.id, self._opening.run_id)

    # A run that exists

    async def _resume(self, row: RunRow) -> RunCore:
        opening, tenant = self._opening, self._tenant
        stream = run_stream(tenant.id, opening.run_id)
        imported = await is_imported(self._services.store, tenant.id, opening.run_id)
        read_only = opening.read_only or (opening.parent is not None and opening.parent.actor is None)
        ended = is_final(row.status) and not opening.compensating
        final = ended or read_only or imported
        token = 0
        if row.status == "cancelled" and not read_only and not imported:
            await give_back(self._services, row)
        if not final:
            await check_limits(self._services, tenant.id, opening.run_id, opening.limits)
            token = await self._take(blobs=[])
            row = await run_row(self._services.store, tenant.id, opening.run_id)
            if opening.compensating and not is_final(row.status):
                raise Conflict(f"run {opening.run_id!r} was reopened", hint="Let it end first.")
            if (
                is_final(row.status) and not opening.compensating
            ):  # it ended while we were on our way to the lease
                self._give_back(token)
                final, token = True, 0
        if token and self._stalled >= STALLED_MAX and row.loop and not opening.compensating:
            raise await park_stalled(self._services, Fence(stream=stream, token=token))
        head, _ = await self._services.store.head(stream)
        places = await lineage(self._services, tenant.id, opening.run_id)
        start = (len(places) - 1, 0)
        if opening.from_snapshot and not final:
            start = await self._snapshot(places, start)
        history = History(self._services.store, segments(places, head=head, start=start))
        core = self._core(
            history, grants=await grants_of(self._services, places),
            replay=opening.replay if opening.replay != "strict" else row.replay,
            loop=row.loop,
        )  # fmt: skip
        core.lifecycle.enter(row.status, is_undoing=opening.compensating)
        core.key, core.shared_key = await keys_of(self._services, places)
        if core.pii is not None:
            core.pii.hold(await pii_rules_of(self._services, places))
        await check_same(core, opening.subject)
        core.changes = await changes_of(self._services, places)
        core.params = await params_of(self._services, places)
        core.effects = await effects_of(self._services, tenant.id, opening.run_id)
        if final:
            core.closed_because = "was imported" if imported else "is replayed" if read_only else ""
            return core
        self._attach(core, token)
        await self._at_work(core, row, places)
        if opening.compensating:
            core.deadlines = {}  # what went wrong may be undone at any time
            return core
        if core.lifecycle.status is RunStatus.PAUSED:
            core.paused = True
        elif core.lifecycle.status not in (
            RunStatus.WAITING,
            RunStatus.WAITING_APPROVAL,
        ):  # those wait until it ends
            core.writer.note(ev.RunResumed())
            core.lifecycle.report(RunStatus.RUNNING)
        # A built-in loop first says what is switched off, and notes its tools with a model step.
        if core.is_hand_written:
            note_tools(core)
        return core

    async def _at_work(self, core: RunCore, row: RunRow, places: list[Place]) -> None:
        """Restore from the log what an existing run needs to go on."""
        core.row_id = row.id
        core.control_seq = row.control_seq
        core.started_us = row.started_us
        core.is_hand_written = not row.loop
        core.stepping = SingleStep.from_stored(row.stepping)
        await self._count(core, await scopes_of(self._services, places))
        core.signals = [*await signals_of(self._services.store, row.id)]
        core.notes = await unread_notes(self._services, row.id)
        core.listed = await newest_list(self._services, row)

    async def _snapshot(self, places: list[Place], oldest: tuple[int, int]) -> tuple[int, int]:
        """Place and seq after which a built-in loop's history is still of interest; keeps its state."""
        found = await newest_state(self._services, places)
        if found is None:
            return oldest
        self.snapshot, start = found
        return start

    # Both

    async def _count(self, core: RunCore, extra: tuple[str, ...]) -> None:
        """Load the scopes in which the run counts what it uses, and its deadlines."""
        services, tenant = self._services, core.tenant.id
        core.extra_scopes = extra
        core.scopes, core.counted = await limits_of(services, tenant, core.run_id, extra=extra)
        core.deadlines = await deadlines(services, tenant, core.scopes)

    def _core(self, history: History, *, grants: tuple[str, ...], replay: str, loop: str) -> RunCore:
        opening, tenant = self._opening, self._tenant
        core = RunCore(
            self._services, run_id=opening.run_id, tenant=tenant,
            stream=run_stream(tenant.id, opening.run_id), history=history,
            on_wait=opening.on_wait, replay=replay, grants=grants,
            tools=self._services.tools if opening.tools is None else opening.tools,
            actions=ACTIONS,
        )  # fmt: skip
        if opening.parent is not None:
            core.take_depth_of(opening.parent)
        core.delivery.drive(is_ordered=not loop and not opening.is_detached)
        return core

    def _attach(self, core: RunCore, token: int) -> None:
        fence = Fence(stream=core.stream, token=token)
        core.actor = Actor(
            self._services.store, self._services.clock, core.stream, fence, self._opening.principal,
            lease_end=self._lease_end,
        )  # fmt: skip
        core.actor.goes_on, core.actor.ended = core.delivery.settle, core.delivery.note_outcome
        core.actor.taken_back = core.delivery.taken_back

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._run is not None
        core = self._run.core
        try:
            if core.actor is not None:
                await self._end(core, self._run, error)
            else:
                await core.delivery.close(is_over=False)
        except BaseException as raised:
            error = raised
            raise
        finally:
            if core.effects is not None and not self._opening.is_detached:
                substitutions.set(NONE if self._opening.parent is None else core.effects.replaced)
            if core.actor is not None:
                core.actor = None
                self._services.active.pop((core.tenant.id, core.run_id), None)
                core.released.set()
            core.end_waits()
            self._handed.close()
            if (telemetry := self._services.telemetry) is not None:
                why = _why(core, self._run, error)
                telemetry.run_closed(core, status=core.status, code=why)

    async def _end(self, core: RunCore, run: Run, error: BaseException | None) -> None:
        """Record how the drive ended and give the lease back. The error, if any, goes on to the caller."""
        writer = core.writer
        core.delivery.has_returned = True
        raised = await _held_back(core, run) if error is None else None
        error = error or raised
        if (said := verdict_on(core, error)) is not error:
            error = raised = said
        await core.delivery.close(is_over=error is None or is_end(error))
        await core.quiet()
        await writer.wait_decided()  # an end must not stand in the log without what it is the end of
        if writer.failure is not None and (error is None or error is raised):
            error = raised = writer.failure
        if isinstance(error, LeaseLost) or isinstance(writer.failure, LeaseLost):
            if raised is not None:
                raise raised
            return  # the run is another process's now
        if writer.failure is not None and self._opening.compensating:
            self._give_back(self._token)
            raise writer.failure
        if writer.failure is not None:
            await self._end_refused(core, writer.failure)
            if raised is not None:
                raise raised
            return
        if isinstance(error, StoreUnavailable):
            self._give_back(self._token)
            return
        if error is None and core.cancelled_reason is not None:
            error = raised = RunStopped(core.run_id, reason=core.cancelled_reason)
        nothing = None, list[Blob]()
        data, blobs = nothing if self._opening.compensating else _last_word(core, run, error)
        if isinstance(data, ev.RunSuspendedEvent):
            data = msgspec.structs.replace(data, unheard=core.leave_questions())
        last = [] if data is None else [data]
        if core.status in FINAL and not self._opening.compensating:
            last = [*await abandoned_calls(core), *last]
        core.services.at("run.ending")
        try:
            await asyncio.shield(writer.commit(*last, blobs=blobs, release=True))
        except StoreUnavailable:
            self._give_back(self._token)  # the release went with the rest of the batch
            raise
        core.services.at("run.ended")
        if core.cancelled_reason is not None:
            await cancel_left(core.services, core.tenant.id, core.run_id)
        if raised is not None:
            raise raised

    async def _end_refused(self, core: RunCore, failure: BaseException) -> None:
        """A batch was refused, and with it what it held. The log still gets an honest end, if it can."""
        if isinstance(failure, StoreUnavailable):
            self._give_back(self._token)  # nothing is wrong with the run: it can be resumed
            return
        core.lifecycle.fail_unrecorded()
        message, blobs = core.keep_json(words(failure))
        with suppress(ArtelierError):
            row = await run_row(self._services.store, core.tenant.id, core.run_id)
            held = await return_held_money(self._services, row)
            await core.writer.last_word(
                [*held, ev.RunFailed(reason=code_of(failure), message=message)], blobs
            )


async def _compensate_below(core: RunCore, run_id: str, since: int, note: str) -> CompensationResult:
    return await compensate_ended(
        core.services,
        core.tenant,
        run_id,
        open_run=OpenRun,
        tools=core.tools,
        since=since,
        note=note,
        by=core.writer.name,
        on_wait=core.on_wait,
        store_result=core.store_result,
    )


ACTIONS = RunActions(
    obey=obey, take_back=take_back, compensate_below=_compensate_below, refresh_caps=refresh_caps_above
)


def _why(core: RunCore, run: Run, error: BaseException | None) -> str:
    """The code of a drive's failure as a watcher is told; empty if it did not fail."""
    if error is None:
        _, failed = run.outcome
        return failed[0] if failed is not None and core.status == "failed" else ""
    if isinstance(error, RunSuspended):
        return error.status if error.status in ("unknown_outcome", "budget_exhausted") else ""
    if isinstance(error, RunStopped):
        return {"cancelled": "cancelled", "failed": "child_cancelled"}.get(core.status, "")
    return code_of(error) if isinstance(error, Exception) else ""


async def _held_back(core: RunCore, run: Run) -> BaseException | None:
    """The end is a boundary too: a paused run does not complete. What to end with instead, if anything."""
    try:
        if core.pii is not None:
            result, why = run.outcome
            await core.pii.prepare(result, None if why is None else why[1])
        await core.pause_over()
        await core.quiet()
        while core.paused:  # told in the last moment
            core.obey_again()
            await core.pause_over()
            await core.quiet()
    except (Exception, asyncio.CancelledError) as error:
        return error
    return None


def _last_word(core: RunCore, run: Run, error: BaseException | None) -> tuple[EventData | None, list[Blob]]:
    """The event that ends a drive; None if a command has said it already."""
    if core.cancelled_reason is not None:
        core.lifecycle.become(RunStatus.CANCELLED)
        return None, []
    if error is None:
        result, failed = run.outcome
        ref, blobs = core.keep_json(result)
        if failed is None:
            core.lifecycle.become(RunStatus.COMPLETED)
            return ev.RunCompleted(result=ref), blobs
        core.lifecycle.become(RunStatus.FAILED)
        message, more = core.keep_json(failed[1])
        return ev.RunFailed(reason=failed[0], message=message, result=ref), [*blobs, *more]
    if isinstance(error, RunSuspended):
        own = error.run_id == core.run_id  # else a child of this run waits; so does this run
        # Nobody paused this run if only its child is: it goes on as soon as the child does.
        is_child_paused = error.status == RunStatus.PAUSED and not own
        status = RunStatus.WAITING if is_child_paused else RunStatus(error.status)
        if own and core.can_go_on and status in (RunStatus.WAITING_APPROVAL, RunStatus.WAITING):
            status = RunStatus.PENDING  # what it waits for has come: nobody would wake it any more
        core.lifecycle.become(status)
        reason = (error.reason or "") if own else error.run_id
        return ev.RunSuspendedEvent(status=core.status, reason=reason[:200]), []
    if isinstance(error, asyncio.CancelledError | KeyboardInterrupt | GeneratorExit | SystemExit):
        if core.paused:
            core.lifecycle.become(RunStatus.PAUSED)
        elif not core.lifecycle.status.outlasts_interruption:
            core.lifecycle.become(RunStatus.PENDING)
        return ev.RunSuspendedEvent(status=core.status, reason="interrupted"), []
    if isinstance(error, RunStopped) and error.run_id == core.run_id:
        core.lifecycle.become(RunStatus.PAUSED)
        return ev.RunSuspendedEvent(status=core.status, reason="stopped"), []
    core.lifecycle.become(RunStatus.FAILED)
    reason = "child_cancelled" if isinstance(error, RunStopped) else code_of(error)
    message, blobs = core.keep_json(words(error))
    steps = steps_of(error, core.run_id) if core.delivery.is_ordered else ()
    return ev.RunFailed(reason=reason, message=message, steps=steps), blobs


async def _prepare_settings(core: RunCore, opening: Opening, blobs: list[Blob]) -> object:
    """Return the settings of a new run with the media that it is given, which are stored with them.

    What is large in them is searched for personal data, off the event loop.
    """
    settings = opening.settings
    if opening.attachments:
        escape = core.services.escape_placeholders
        kept = [
            await keep_medium(core.tenant.id, core.key, one, escape=escape) for one in opening.attachments
        ]
        blobs.extend(blob for one in kept for blob in one.blobs)
        settings = {**settings, ATTACHMENTS: [msgspec.to_builtins(one.medium.part) for one in kept]}
    if core.pii is not None:
        await core.pii.prepare(opening.goal, settings)
    return settings


def _keep(core: RunCore, value: object, blobs: list[Blob]) -> BlobRef | None:
    if value is None:
        return None
    ref, blob = make_blob(core.tenant.id, core.key, encode_json(value))
    blobs.append(blob)
    return ref


async def unread_notes(services: Services, stream: int) -> list[tuple[int, BlobRef]]:
    """Injected notes that no later `notes` step has taken, as `(seq, text)`.

    Not only those after a loop's snapshot: a note that came in the middle of a cycle is older than its end.
    """
    notes = await stream_events(services.store, stream, ev.NoteInjected.KIND)
    if not notes:
        return []
    taken = await stream_events(
        services.store, stream, ev.StepCompleted.KIND, after=notes[0].seq, containing='"took":', newest=1
    )
    took = taken[0].read(ev.StepCompleted).took if taken else 0
    return [(note.seq, note.read(ev.NoteInjected).text) for note in notes if note.seq > took]
