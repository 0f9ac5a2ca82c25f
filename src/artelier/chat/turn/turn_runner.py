"""Bringing a chat's run to its end, in whatever process, and what came of it."""

from __future__ import annotations

import asyncio
import weakref
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import msgspec

from artelier.chat.queries.chats import branch_of, chat_key, chat_row, shown_text, speaker_name
from artelier.chat.queries.tree import node_of_run, node_row
from artelier.chat.rows import Node
from artelier.chat.turn.main_call import STEP, reply_so_far
from artelier.chat.turn.turn_config import LOOP, FailedTurn, TurnJob
from artelier.chat.turn.turn_events import join_texts
from artelier.errors import ArtelierError, InvalidRequest, NotFound, RunStopped, RunSuspended
from artelier.kernel import run_row
from artelier.kernel.queries.content import blob_json, shown_fields, shown_json
from artelier.kernel.queries.runs import RunRow, find_run
from artelier.kernel.run.context import is_final
from artelier.kernel.tenants.registry import TenantScope
from artelier.log import Store
from artelier.log.queries import stream_events
from artelier.loops.cycle import go, read_recorded_job
from artelier.loops.cycle import has_ended as run_has_ended
from artelier.operations.events import OperationFinished, OperationStarted, PhaseChanged, PlannedOperation
from artelier.ports.model import Delta

WAITING_MAX = 10_000
"""Pieces that wait for a slow reader; then they are put together again from the text so far."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """Text of a reply that is being written, or of what its model thinks before."""

    step: str
    """Key of the model step."""
    offset: int
    """Characters of the same channel before it."""
    text: str
    is_reasoning: bool = False


@dataclass(slots=True)
class _Channel:
    """The text of a reply so far, or that of its reasoning."""

    pieces: list[str] = field(default_factory=list[str])
    length: int = 0


class _Writing:
    """The text that one run is writing."""

    def __init__(self, step: str) -> None:
        self._step = step
        self._reply, self._reasoning = _Channel(), _Channel()

    def add(self, text: str, *, is_reasoning: bool) -> Piece:
        """Keep a piece; an empty one of reasoning begins it anew."""
        if is_reasoning and not text:
            self._reasoning = _Channel()
        channel = self._reasoning if is_reasoning else self._reply
        piece = Piece(step=self._step, offset=channel.length, text=text, is_reasoning=is_reasoning)
        channel.pieces.append(text)
        channel.length += len(text)
        return piece

    def so_far(self) -> list[Piece]:
        """Return what has come, each channel in one piece."""
        return [
            Piece(step=self._step, offset=0, text="".join(channel.pieces), is_reasoning=is_reasoning)
            for channel, is_reasoning in ((self._reasoning, True), (self._reply, False))
            if channel.length
        ]


class Watcher:
    """One reader of one run; made and used in one event loop."""

    def __init__(self, told: asyncio.Event) -> None:
        self._loop = asyncio.get_running_loop()
        self._told = told
        self._waiting: deque[Piece] = deque()
        self.is_behind = False

    def put(self, piece: Piece) -> None:
        if len(self._waiting) >= WAITING_MAX:
            self._waiting.clear()
            self.is_behind = True
        if not self.is_behind:
            self._waiting.append(piece)
        self.wake()

    def wake(self) -> None:
        try:
            self._loop.call_soon_threadsafe(self._told.set)
        except RuntimeError:  # its loop has ended, and with it who reads there
            self._waiting.clear()

    def take(self) -> list[Piece]:
        taken = list(self._waiting)
        self._waiting.clear()
        return taken


class Live:
    """The replies that are being written in this process. One per store."""

    def __init__(self) -> None:
        self._writing: dict[tuple[str, str], _Writing] = {}
        self._watchers: dict[tuple[str, str], list[Watcher]] = {}

    def begin(self, tenant: str, run: str, *, step: str) -> None:
        """A model begins to reply, perhaps for the second time: what it said before counts no more."""
        self._writing[tenant, run] = _Writing(step)

    def add(self, tenant: str, run: str, delta: Delta) -> None:
        """A piece of the reply, or of its reasoning, has come."""
        if (writing := self._writing.get((tenant, run))) is None:
            return
        piece = writing.add(delta.text or delta.reasoning, is_reasoning=not delta.text)
        for watcher in self._watchers.get((tenant, run), ()):
            watcher.put(piece)

    def end(self, tenant: str, run: str) -> None:
        """The reply is recorded, or there will be none: from now on the log has all there is."""
        self._writing.pop((tenant, run), None)

    def watch(self, tenant: str, run: str, told: asyncio.Event) -> Watcher:
        """Hear of pieces from now on, and of the text so far first. `told` is set when there is news."""
        watcher = Watcher(told)
        self._watchers.setdefault((tenant, run), []).append(watcher)
        for piece in self._so_far(tenant, run):
            watcher.put(piece)
        return watcher

    def pieces(self, tenant: str, run: str, watcher: Watcher) -> list[Piece]:
        """News for a watcher; one that was too slow begins again with the text so far."""
        if watcher.is_behind:
            watcher.take()
            watcher.is_behind = False
            return self._so_far(tenant, run)
        return watcher.take()

    def unwatch(self, tenant: str, run: str, watcher: Watcher) -> None:
        watchers = self._watchers.get((tenant, run), [])
        if watcher in watchers:
            watchers.remove(watcher)
        if not watchers:
            self._watchers.pop((tenant, run), None)

    def _so_far(self, tenant: str, run: str) -> list[Piece]:
        writing = self._writing.get((tenant, run))
        return [] if writing is None else writing.so_far()


_live: weakref.WeakKeyDictionary[Store, Live] = weakref.WeakKeyDictionary()


def live_of(store: Store) -> Live:
    """Return what is being written over a store in this process."""
    live = _live.get(store)
    if live is None:
        live = _live[store] = Live()
    return live


_RANK = ("skipped", "done", "aborted", "error")
"""Of one operation at both hooks, the later status in this list counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnResult:
    """The result of a turn."""

    text: str
    """The reply as people see it; before the run has ended, as the model gave it. Empty if there is none."""
    turn: int
    variant: int
    """From 1; 0 if the run made none."""
    run_id: str
    status: str
    """Of the run: `completed`, `failed`, `cancelled`, or one in which it can be resumed."""
    finish_reason: str = ""
    """Of the main call: `completed`, `user_abort`, `deadline`, `provider_error`, ...; empty for none."""
    failed: Mapping[str, Any] | None = None
    """`{failed_type, operation, code, message}` of a run that failed."""
    operations: Mapping[str, str] = field(default_factory=dict[str, str])
    """Status by operation: `done`, `skipped`, `error` or `aborted`; `running` before the run has ended."""
    is_cut: bool = False
    """Whether the reply ended at its limit of tokens; `continue_()` goes on with it."""
    cost_microusd: int = 0
    """Of all model calls of the run."""
    speaker: str = ""
    """What the one is called who replied; empty if nobody has a name."""


async def drive(
    desk: TenantScope, run_id: str, job: TurnJob | None = None, *, on_wait: str = "await"
) -> TurnResult:
    """Start a chat's run, or go on where it stopped; one that has ended just gives its result.

    `job` is for a run that may not have begun; what is recorded comes first.
    Errors: `LeaseHeld` if another process drives it, `NotFound`, `StoreUnavailable`; `InvalidRequest` if its
    operations need tools that this process does not have; what goes wrong in the turn is the result's
    `failed`.
    """
    services, tenant = desk.services, desk.id
    recorded = await recorded_job(desk, run_id)
    if (job := recorded or job) is None:
        raise NotFound(f"no run {run_id!r} in tenant {tenant!r}")
    if not await has_ended(desk, run_id):
        if recorded is not None:  # elsewhere: a call without its tool would spend an approval
            await check_tools(desk, run_id)
        with suppress(RunSuspended, RunStopped):  # how it stands is in the log
            await go(services, tenant, run_id, _drive(desk, run_id, job, on_wait=on_wait))
    return await result_of(services, tenant, run_id, job)


async def _drive(desk: TenantScope, run_id: str, job: TurnJob, *, on_wait: str) -> None:
    from artelier.chat.turn.turn_loop import drive_turn

    live, tenant = live_of(desk.services.store), desk.id

    async def sink(delta: Delta) -> None:
        live.add(tenant, run_id, delta)

    opened = desk.run(
        run_id,
        loop=LOOP,
        model=job.model,
        goal=job.text or None,
        settings=job.settings(),
        principal=f"chat:{job.chat}",
        conversation=job.chat,
        on_wait=on_wait,
        **await record_keys(desk, run_id, chat=job.chat),
    )
    async with opened as run:
        if is_final(run.status):
            return
        live.begin(tenant, run_id, step=STEP)
        try:
            await drive_turn(run, job, desk=desk, sink=sink)
        finally:
            live.end(tenant, run_id)


async def record_keys(desk: TenantScope, run_id: str, *, chat: str) -> dict[str, int | None]:
    """Return the keys that a turn's run is opened with: its chat's, and one of its own if it is new.

    Errors: `Erased` for a chat that was erased.
    """
    store, tenant = desk.services.store, desk.id
    key, part = await chat_key(store, tenant, chat), None
    if await find_run(store, tenant, run_id) is None:
        (part,) = await store.part_keys(tenant, key or await store.data_key(tenant), count=1)
    return {
        "key_id": None if key is None else key.key_id,
        "part_key_id": None if part is None else part.key_id,
    }


async def has_ended(desk: TenantScope, run_id: str) -> bool:
    """Return True if a run is over; one that never began is not."""
    return await run_has_ended(desk.services, desk.id, run_id)


async def recorded_job(desk: TenantScope, run_id: str) -> TurnJob | None:
    """Return what a run was asked to do; None if it never began. Errors: `InvalidRequest` for another
    loop's.
    """
    return await read_recorded_job(
        desk.services,
        desk.id,
        run_id,
        loop=LOOP,
        job=TurnJob.from_stored,
        other=lambda loop: InvalidRequest(f"run {run_id!r} is no turn of a chat", got=loop),
    )


async def result_of(services: Any, tenant: str, run_id: str, job: TurnJob) -> TurnResult:
    """Return how a run stands, from the log."""
    row = await run_row(services.store, tenant, run_id)
    chat = await chat_row(services.store, tenant, job.chat)
    node = await _node(services.store, chat, run_id, job)
    text = ""
    if node is not None:
        text = await shown_text(services.store, tenant, node.reply_parts(), prompt=False)
    result: dict[str, Any] = await shown_fields(services, tenant, row.result)
    failed = result.get("failed") if row.status == "failed" else None
    if failed is None and row.status == "failed":
        failed = msgspec.to_builtins(await _unforeseen(services, tenant, row))
    so_far = None
    if not is_final(row.status):
        so_far = await reply_so_far(services.store, tenant, row.id)
    if so_far is not None:
        text = join_texts(text, so_far.text)
        result = {"finish_reason": so_far.finish_reason, "is_cut": so_far.code == "length"}
    return TurnResult(
        text=text,
        turn=node.number if node is not None else 0,
        variant=node.variant if node is not None else 0,
        run_id=run_id,
        status=row.status,
        finish_reason=(node.finish if node is not None else "") or result.get("finish_reason", ""),
        failed=failed,
        operations=await _operations(services, row),
        is_cut=bool(result.get("is_cut")),
        cost_microusd=row.cost,
        speaker="" if node is None else await speaker_name(services.store, tenant, node.reply_parts()),
    )


async def _node(store: Any, chat: Any, run_id: str, job: TurnJob) -> Node | None:
    """The node that a run has made, or added to."""
    made = await node_of_run(store, chat.id, run_id)
    if made is not None or job.trigger != "continue":
        if made is None:  # a failed attempt at another variant
            branch = await branch_of(store, chat, job.branch)
            if branch.run == run_id and branch.head:
                head = await node_row(store, chat.id, branch.head)
                return await node_row(store, chat.id, head.turn)
        return made
    return await node_row(store, chat.id, job.node) if job.node else None


async def _operations(services: Any, row: RunRow) -> dict[str, str]:
    kinds = (OperationStarted.KIND, OperationFinished.KIND, PhaseChanged.KIND)
    ended: dict[tuple[str, str], str] = {}
    started: set[tuple[str, str]] = set()
    planned: list[PlannedOperation] = []
    for event in await stream_events(services.store, row.id, *kinds):
        if event.kind == PhaseChanged.KIND:
            planned.extend(event.read(PhaseChanged).plan)
        elif event.kind == OperationStarted.KIND:
            begun = event.read(OperationStarted)
            started.add((begun.hook, begun.operation_id))
        else:
            one = event.read(OperationFinished)
            ended[one.hook, one.operation_id] = one.status
    if not is_final(row.status):
        ended.update(dict.fromkeys(started - ended.keys(), "running"))
    else:
        for one in planned:
            ended.setdefault((one.hook, one.operation_id), status_if_unended(one))
    found: dict[str, str] = {}
    for (_, operation_id), status in ended.items():
        found[operation_id] = max(found.get(operation_id, "skipped"), status, key=_rank)
    return found


def status_if_unended(planned: PlannedOperation) -> str:
    """Return what became of an operation whose run says nothing more: it ended while nobody drove it."""
    return "skipped" if planned.skipped else "aborted"


def _rank(status: str) -> int:
    return _RANK.index(status) if status in _RANK else len(_RANK)


async def _unforeseen(services: Any, tenant: str, row: RunRow) -> FailedTurn:
    """A failure that the turn itself has not reported: where it was, and the run's own reason."""
    newest = await stream_events(services.store, row.id, PhaseChanged.KIND, newest=1)
    phase = newest[0].read(PhaseChanged).phase if newest else "planning"
    where = {"main_llm": "main_llm", "planning": "before_barrier", "barrier": "before_barrier"}
    where["before_main_llm"] = "before_barrier"
    message = await shown_json(services, tenant, row.message)
    return FailedTurn(
        failed_type=where.get(phase, "after_main_llm"),
        code=row.reason,
        message=message if isinstance(message, str) else "",
    )


# The requirements of a chat turn on the process that drives it: the tools of its operations


async def tools_missing(desk: TenantScope, run_id: str) -> tuple[str, ...]:
    """Tools that a turn has seen, will still call, and that this process does not have, by name.

    Driven here, their operations would fail for good: a person's approval would be spent on nothing.
    Empty for a run that never began, since it has seen no tools.
    """
    services, tenant = desk.services, desk.id
    try:
        row = await run_row(services.store, tenant, run_id)
    except NotFound:
        return ()
    listed: list[dict[str, Any]] = await blob_json(services, tenant, row.tools) or []
    gone = {str(item["name"]) for item in listed} - set(services.tools)
    job = TurnJob.from_stored(await blob_json(services, tenant, row.settings))
    if not gone or not job.profile:
        return ()
    ahead = await _to_call(desk, run_id, job)
    return tuple(sorted(gone if ahead is None else gone & ahead))


async def check_tools(desk: TenantScope, run_id: str) -> None:
    """Errors: `InvalidRequest` if the turn needs tools that only its own program has."""
    if missing := await tools_missing(desk, run_id):
        raise InvalidRequest(
            f"the tools of run {run_id!r} come from code that is not loaded here",
            got=", ".join(missing)[:300],
            hint="Go on with the chat in the program that has them: session.resume().",
        )


async def _to_call(desk: TenantScope, run_id: str, job: TurnJob) -> set[str] | None:
    """Tools of operations that have not ended; of a run without a plan, of all that are enabled.

    None if the profile cannot be read.
    """
    from artelier.chat.session.run_report import show_run
    from artelier.operations.profile.profile_reader import load_profile

    shown = await show_run(desk, run_id)
    ended = {(one["operation_id"], one["hook"]) for one in shown["operations"] if one["status"] != "running"}
    ahead = {
        one["operation_id"]
        for one in shown["plan"]
        if not one.get("skipped") and (one["operation_id"], one["hook"]) not in ended
    }
    try:
        profile, _ = await load_profile(desk, job.profile, by=job.principal)
    except ArtelierError:
        return None
    return {
        one.params.name
        for one in profile.operations
        if one.kind == "tool" and one.enabled and (one.operation_id in ahead or not shown["plan"])
    }
