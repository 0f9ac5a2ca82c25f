"""Commands to runs, as the kernel of a tenant offers them: pause, resume, answer, settle, limit."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import msgspec

from artelier.artifacts.media.inspection import KeptMedium, MediaFacts, keep_medium
from artelier.chat.turn.turn_config import LOOP, TurnJob, chat_of
from artelier.errors import (
    ArtelierError,
    Conflict,
    InvalidArguments,
    InvalidRequest,
    LeaseHeld,
    RunStopped,
    RunSuspended,
)
from artelier.kernel import OpenRun, control_stream, reconcile, run_limits, run_row
from artelier.kernel.commands import REOPEN, Given
from artelier.kernel.control_stream import NOTHING
from artelier.kernel.export.archive import SIZE_BYTES_MAX
from artelier.kernel.history.drift import newest_drift
from artelier.kernel.history.fork_lineage import key_of, lineage
from artelier.kernel.pii_scrubber import wants_values
from artelier.kernel.queries import reports
from artelier.kernel.queries.content import blob_json
from artelier.kernel.queries.runs import RunRow
from artelier.kernel.queries.tenants import received_of
from artelier.kernel.run.context import find_driver, is_final
from artelier.kernel.run.waits import microseconds
from artelier.kernel.run_limits import cap_values, encode_limits
from artelier.kernel.tool_calls.compensation import compensate_ended
from artelier.log import Batch, EventData
from artelier.money import parse_usd
from artelier.pii.vault import escape_json
from artelier.ports.media import ATTACHMENTS
from artelier.ports.tool import ToolPort, fit_arguments

if TYPE_CHECKING:
    from artelier.chat.chat_file import ChatFileContents
    from artelier.chat.queries.chats import ChatPage
    from artelier.chat.session.session import Session
    from artelier.kernel.run.status import CompensationResult, Limits
    from artelier.kernel.tenants.registry import TenantScope

_NUMBER = re.compile("[0-9]{1,18}")

LIMIT_UNITS = ("usd", "tokens", "steps", "wall_s")
"""Units of a limit, as `Limits` names them."""

UNSAID: Any = object()
"""Stands for an argument that was not given where None is a legal value."""


class CommandsHandle:
    """Methods of `TenantKernel`."""

    async def pause(self: TenantScope, run_id: str, *, by: str = "operator", note: str = "") -> EventData:
        return await _give(self, run_id, "pause", by=by, payload=note or None)

    async def step(self: TenantScope, run_id: str, *, by: str = "operator") -> EventData:
        """Let a paused run go on for one cycle, and pause it again; a run of hand-written code for one step.

        One that is at work is paused after the cycle at hand, one that nobody drives becomes `pending` and
        holds after a cycle of whoever drives it next; a run that ends with the cycle just ends. Paused
        children take a step each: a parent that waits for one is done with its cycle when the child has
        ended.
        """
        return await _give(self, run_id, "step", by=by)

    async def cancel(self: TenantScope, run_id: str, *, by: str = "operator", note: str = "") -> EventData:
        """End a run for good, and its children. What a turn of a chat has said so far is kept in the chat."""
        return await _give(self, run_id, "cancel", by=by, payload=note or None)

    async def stop(self: TenantScope, run_id: str, *, by: str = "operator", note: str = "") -> EventData:
        """Cancel the call in flight and pause; what was produced is kept with its cost."""
        return await _give(self, run_id, "stop", by=by, payload=note or None)

    async def compensate(
        self: TenantScope,
        run_id: str,
        *,
        upto: str | None = None,
        note: str = "",
        by: str = "operator",
        on_wait: str = "await",
        tools: Iterable[ToolPort] | None = None,
    ) -> CompensationResult:
        """Undo what a run that has ended has done, in reverse order, with the `compensate` of each tool.

        `upto`: no further back than to this step, with it. `tools`: those that know how; None for the
        kernel's. What was undone stays so: another call goes on where the last one stopped. A failed run that
        was compensated cannot be retried. Undoing takes no step of a cap, and no time; the money that it
        spends counts.
        Errors: `NotFound`; `Conflict` if the run or a child has not ended; `CompensationFailed`, which names
        the step; `RunSuspended` with `unknown_outcome` (settle it with `reconcile`) or, with
        `on_wait="suspend"`, `waiting_approval`; `LeaseHeld`.
        """
        self.keep_alive()
        table = None if tools is None else {tool.name: tool for tool in tools}
        return await compensate_ended(
            self.services,
            await self.state(),
            run_id,
            open_run=OpenRun,
            tools=table,
            upto=upto,
            note=note,
            by=by,
            on_wait=on_wait,
        )

    async def goes_on_as(self: TenantScope, run_id: str) -> str:
        """The run in which this one goes on: itself, or the newest fork that `fork_on_drift` made of it."""
        return await newest_drift(self.services, self.id, run_id)

    async def limit(
        self: TenantScope, run_id: str, *, unit: str, cap: float | str | None, by: str = "operator"
    ) -> EventData:
        """Set or lift (`cap=None`) a cap of a run, its children included.

        Units:  those of `Limits`: `usd` in dollars as text, `tokens` and `steps` as counts, `wall_s` in
        seconds. `ms` is the older name of the last, in milliseconds; use `wall_s`.
        """
        if unit not in (*LIMIT_UNITS, "ms"):
            raise InvalidRequest(
                "unit of a limit", expected=f"one of {', '.join(LIMIT_UNITS)}", got=repr(unit)[:80]
            )
        amount = _amount(unit, cap)
        choice = "" if amount is None else str(amount)
        key = "ms" if unit == "wall_s" else unit
        return await _give(self, run_id, "limit", by=by, key=key, choice=choice)

    async def cap(
        self: TenantScope, scope: str, *, unit: str, cap: int | str | None, by: str = "operator"
    ) -> None:
        """Set or lift (`cap=None`) a cap of a scope that runs are opened with, such as `agent:<id>`.

        It holds at once, in every process. A run that does not fit any more stops at its next paid step with
        `budget_exhausted`; when the cap is raised it can be resumed.
        Units:  `usd` in dollars as text, `tokens` and `steps` as counts.
        Errors: `InvalidRequest`.
        """
        await self.state()
        amount = _amount(unit, cap)
        await run_limits.set_cap(self.services, self.id, scope, unit=unit, cap=amount, by=by)

    async def used(self: TenantScope, scope: str) -> run_limits.ScopeUse:
        """Return what the runs of a scope have used: `{scope, usd, tokens, steps}`, each `{used, reserved,
        cap}`.

        Units:  micro-dollars, tokens, steps of models and tools; `cap` is None without one.
        Errors: `InvalidRequest`.
        """
        return await run_limits.used_of(self.services, self.id, scope)

    async def inject(
        self: TenantScope,
        run_id: str,
        note: str,
        *,
        by: str = "operator",
        request: str = "",
        is_repeat: bool = False,
    ) -> EventData:
        """Tell a run something. Placeholders of others in it are text.

        `request` names what asked for it; with `is_repeat` a run that it has told is not told again.
        Errors: `NotFound`, `Conflict`.
        """
        payload = _escape_unknown_placeholders(self, run_id, note)
        repeat = {"request": request, "is_repeat": is_repeat}
        return await _give(self, run_id, "inject", by=by, payload=payload, **repeat)

    async def signal(
        self: TenantScope,
        run_id: str,
        name: str,
        data: object = None,
        *,
        by: str = "operator",
        request: str = "",
        is_repeat: bool = False,
    ) -> EventData:
        """Give a run data for a `wait_for`. `request`, `is_repeat`: as for `inject`.

        Errors: `NotFound`, `Conflict`.
        """
        repeat = {"request": request, "is_repeat": is_repeat}
        return await _give(self, run_id, "signal", by=by, key=name, payload=data, **repeat)

    async def approve(
        self: TenantScope,
        run_id: str,
        step: str | None = None,
        *,
        deny: bool = False,
        arguments: object = None,
        note: str = "",
        by: str = "operator",
        media: Sequence[MediaFacts] = (),
    ) -> EventData:
        """Answer an approval. Without `step`, the run's only open one. Placeholders of others in it are text.

        `media`: what is shown with the answer; a tool that asked gets it as `PersonAnswer.media`.
        Errors: `NotFound` if none is open, which names children that ask; `InvalidRequest` for several;
        `InvalidArguments` if `arguments` do not fit the tool that is asked about, and this process has it.
        """
        if step is None:
            step = await reports.only_approval(self.services, self.id, run_id)
        decision = "deny" if deny else "edit" if arguments is not None else "approve"
        if decision == "edit":
            await _check_edit(self, run_id, step, arguments)
        payload = {"arguments": arguments, "note": note}
        said = cast("dict[str, Any]", _escape_unknown_placeholders(self, run_id, payload))
        kept = await _keep_media(self, run_id, media)
        if kept:
            said = {**said, ATTACHMENTS: [msgspec.to_builtins(one.medium.part) for one in kept]}
        beside = Batch(blobs=[blob for one in kept for blob in one.blobs]) if kept else NOTHING
        given = Given(verb="answer", key=step, choice=decision, payload=said)
        await self.state()
        self.keep_alive()
        return (await give_in_order(self, run_id, [given], by=by, beside=beside))[0]

    async def reconcile(
        self: TenantScope,
        run_id: str,
        step: str,
        *,
        succeeded: object = UNSAID,
        failed: str | None = None,
        retry: bool = False,
        probe: bool = False,
        by: str = "operator",
    ) -> EventData:
        """Settle a step whose outcome is unknown: it succeeded with this result, failed with this message,
        is to be retried with the same idempotency key, or its tool's probe is asked.

        Errors: `InvalidRequest` unless exactly one answer is given; `Conflict` if the step has no unknown
        outcome; `NotFound` if the tool has no probe.
        """
        given = [
            name
            for name, is_given in (
                ("succeeded", succeeded is not UNSAID),
                ("failed", failed is not None),
                ("retry", retry),
                ("probe", probe),
            )
            if is_given
        ]
        if len(given) != 1:
            raise InvalidRequest(
                "reconcile takes one answer",
                expected="one of succeeded, failed, retry, probe",
                got=", ".join(given) or "none",
            )
        return await reconcile(
            self.services,
            await self.state(),
            run_id,
            step,
            answer=given[0],
            result=succeeded if failed is None else failed,
            by=by,
        )


def _check_time(caps: Sequence[tuple[str, int]], started_us: int, now_us: int) -> None:
    """Errors: `InvalidRequest` for a cap of time that has passed: the run would stop at once."""
    gone_ms = (now_us - started_us) // 1000
    for unit, cap in caps:
        if unit == "ms" and cap <= gone_ms:
            raise InvalidRequest(
                "this time is up already: it counts from the run's beginning",
                expected=f"more than {gone_ms / 1000:.0f} s",
                got=f"{cap / 1000:g} s",
            )


def _amount(unit: str, cap: float | str | None) -> int | None:
    """A cap in the smallest unit. Errors: `InvalidRequest`."""
    if cap is None:
        return None
    if unit == "usd":
        amount = parse_usd(cap)
    elif unit == "wall_s":
        amount = microseconds(_seconds(cap)) // 1000
    elif not (type(cap) is int or (isinstance(cap, str) and _NUMBER.fullmatch(cap))):
        raise InvalidRequest("a cap", expected="a whole number from 0", got=repr(cap)[:80])
    else:
        amount = int(cap)
    if not 0 <= amount < 1 << 53:
        raise InvalidRequest("a cap", expected="a number from 0", got=str(amount)[:80])
    return amount


def _seconds(cap: float | str) -> float | str:
    """Return the number that a text stands for; what is none is left to whoever takes it."""
    try:
        return float(cap) if isinstance(cap, str) else cap
    except ValueError:
        return cap


async def _check_edit(desk: TenantScope, run_id: str, step: str, arguments: object) -> None:
    """Check the arguments that a person gives to a call; a process without its tool leaves that to the run's,
    which asks again. Errors: `InvalidArguments`.
    """
    asked = await reports.approvals(desk.services, desk.id, run_id=run_id)
    question, details = next(
        ((one["question"], one["details"]) for one in asked if one["step"] == step), ("", None)
    )
    name = question.removeprefix("call ")
    is_call = isinstance(details, dict) and cast("dict[str, Any]", details).get("tool") == name
    if not is_call or name == question or not step.endswith("/approval"):
        return  # about no call
    driver = find_driver(desk.services, desk.id, run_id)
    tool = (desk.services.tools if driver is None else driver.tools).get(name)
    # What is given the values themselves may get them as placeholders here, which fit nothing.
    if tool is None or (desk.services.personal is not None and wants_values(tool.grant or "")):
        return
    try:
        fit_arguments(tool, arguments)
    except InvalidArguments as error:
        hint = "The question is still open: answer it with arguments that fit."
        raise InvalidArguments(
            error.message,
            expected=error.expected,
            got=error.got,
            hint=f"{error.hint}. {hint}" if error.hint else hint,
            **error.facts,
        ) from None


async def _keep_media(desk: TenantScope, run_id: str, media: Sequence[MediaFacts]) -> list[KeptMedium]:
    """Return media with their names under the run's key."""
    if not media:
        return []
    key = await key_of(desk.services, await lineage(desk.services, desk.id, run_id))
    escape = desk.services.escape_placeholders
    return [await keep_medium(desk.id, key, one, escape=escape) for one in media]


def _escape_unknown_placeholders(desk: TenantScope, run_id: str, value: object) -> object:
    """Return what a person says to a run, who may repeat the placeholders that it shows, and gains no
    others.
    """
    services = desk.services
    if services.personal is None:
        return value
    typed = dict[str, None]()

    def note(placeholder: str) -> bool:
        typed[placeholder] = None
        return True

    escape_json(value, note)
    known = received_of(services.store, desk.id, run_id, list(typed))
    return escape_json(value, known.__contains__)


async def _give(desk: TenantScope, run_id: str, verb: str, *, by: str, **command: Any) -> EventData:
    await desk.state()
    desk.keep_alive()
    return await give(desk, run_id, verb, by=by, **command)


async def resume_run(
    desk: TenantScope,
    run_id: str,
    *,
    note: str,
    limits: Limits | None,
    loop_limits: Mapping[str, int | None],
    by: str,
    beside: Batch = NOTHING,
) -> EventData:
    """Let a run go on, or reopen a failed one, and write what comes `beside` it. Errors: see
    `MissionsHandle.resume`."""
    loop = encode_limits(loop_limits)
    row = await run_row(desk.services.store, desk.id, run_id)
    caps = [] if limits is None else cap_values(limits)
    _check_time(caps, row.started_us, desk.services.clock.now_us())
    told = [Given(verb="limit", key=unit, choice=str(cap)) for unit, cap in caps]
    if note.strip():
        told.append(Given(verb="inject", payload=_escape_unknown_placeholders(desk, run_id, note)))
    is_asked = bool(loop or told)
    reopens = bool(loop) or (is_asked and row.status == "failed")
    resume = Given(verb="resume", key=REOPEN if reopens else "", choice=loop)
    # A run that goes on by itself hears the rest first; one that has failed hears nothing before it is
    # reopened.
    wanted = [resume, *told] if reopens else [*told, resume]
    await desk.state()
    desk.keep_alive()
    effects = await give_in_order(desk, run_id, wanted, by=by, beside=beside)
    return effects[0] if reopens else effects[-1]


# Commands to runs, with what a turn of a chat needs beside: its chat gets all that there is of it


async def give(desk: TenantScope, run_id: str, verb: str, *, by: str, **command: Any) -> EventData:
    """Give a command and return its effect. `desk` is the kernel bound to the tenant.

    Errors: those of the kernel's `control_stream.give`; `Conflict` for a `retry` of a turn of a chat.
    """
    given = Given(verb=verb, **command)
    return (await give_in_order(desk, run_id, [given], by=by))[0]


async def give_in_order(
    desk: TenantScope, run_id: str, wanted: Sequence[Given], *, by: str, beside: Batch = NOTHING
) -> list[EventData]:
    """Give commands that belong together, and return their effects. Errors: as `give`."""
    for one in wanted:
        if one.verb not in ("cancel", "retry", "inject") and one.key != REOPEN:
            continue
        row = await run_row(desk.services.store, desk.id, run_id)
        if one.verb == "inject":
            if row.loop in _READS_NO_NOTES:
                raise _not_told(run_id, row.loop)
            continue
        if row.loop == LOOP and one.verb != "cancel":
            raise _not_reopened(run_id)
        # A chat knows nothing of forks of its turns.
        if row.loop == LOOP and row.origin is None and not is_final(row.status):
            return [await _cancel_turn(desk, row, run_id, {"payload": one.payload, "by": by})]
    try:
        return await control_stream.give_in_order(
            desk.services, desk.id, run_id, wanted, by=by, beside=beside
        )
    except Conflict as refused:
        if refused.facts.get("refusal") == "run_ended":
            row = await run_row(desk.services.store, desk.id, run_id)
            if row.status == "failed" and row.loop in _READS_NO_NOTES:  # no note would reopen it
                refused.hint = _reopening(run_id, row.loop)
        raise


_READS_NO_NOTES = {
    LOOP: ("a turn of a chat", "Say it in the chat."),
    "mission": ("a mission", "Give it to one of its tasks: artelier resume TASK --note TEXT."),
}
"""Loops that read no notes: what their runs are, and where words are read."""


def _not_told(run_id: str, loop: str) -> Conflict:
    """Return why a note is refused: it would be recorded, and nobody would ever read it."""
    what, hint = _READS_NO_NOTES[loop]
    return Conflict(f"run {run_id} is {what}, which reads no notes", hint=hint)


def _reopening(run_id: str, loop: str) -> str:
    """Return what goes on with a failed run of a loop that reads no notes."""
    if loop == LOOP:
        return (
            "Try the turn again as another variant: session.regenerate(), or /regenerate in"
            f" `artelier chat {chat_of(run_id)}`."
        )
    return f"Try again what failed: artelier retry {run_id}"


def _not_reopened(run_id: str) -> Conflict:
    """Return what a turn came to is recorded: reopened, it would fail again without trying anything."""
    return Conflict(
        f"run {run_id} is a turn of chat {chat_of(run_id)!r}, which is not reopened",
        hint=_reopening(run_id, LOOP),
        refusal="turn_of_a_chat",
    )


async def _cancel_turn(desk: TenantScope, row: RunRow, run_id: str, command: dict[str, Any]) -> EventData:
    """End a turn, and keep in its chat how far it came.

    Who drives it does that. If nobody does, it is driven here, with the command heard before its first
    step: what is recorded is passed over, nothing new begins, and the chat gets what there is.
    """
    from artelier.chat.turn.turn_loop import drive_turn

    services, settings = desk.services, await blob_json(desk.services, desk.id, row.settings)
    effect: EventData | None = None
    refusal: ArtelierError | None = None
    try:
        async with desk.run(run_id, loop=LOOP, settings=settings, on_wait="suspend") as run:
            try:
                effect = await control_stream.give(services, desk.id, run_id, "cancel", **command)
            except ArtelierError as error:  # it must not become a failure of the run
                refusal = error
                raise asyncio.CancelledError from None
            await run.core.hear()  # the effect is in the log; from here on the run knows it as well
            await drive_turn(run, TurnJob.from_stored(settings), desk=desk)
    except asyncio.CancelledError:
        if refusal is None:
            raise
        raise refusal from None
    except (LeaseHeld, RunStopped, RunSuspended):
        pass  # somebody drives it; or it has ended, as it was told to
    except ArtelierError:
        if effect is not None:
            return effect  # it has ended, even if no more could be kept than is recorded
    if effect is not None:
        return effect
    return await control_stream.give(services, desk.id, run_id, "cancel", **command)


class ChatsHandle:
    """Methods of `TenantKernel`."""

    async def chat(self: TenantScope, chat_id: str, **opening: Any) -> Session:
        """The chat of that id, made if there is none: see `Session.open`."""
        from artelier.chat.session.session import Session

        return await Session.open(self, chat_id, **opening)

    async def chats(self: TenantScope, *, after: str | None = None, limit: int = 100) -> ChatPage:
        """Return the chats of the tenant by id."""
        from artelier.chat.queries.chats import list_chats

        return await list_chats(self.services.store, self.id, after=after, limit=limit)

    async def export_chat(self: TenantScope, chat_id: str, path: str | Path) -> ChatFileContents:
        """Write a chat into one verifiable file: its branches, turns and artifacts, all its runs with what
        belongs to them, and the profiles that these worked with.

        The file is complete or not there, and only its owner may read it.
        Errors: `NotFound`; `CorruptStore`, `InvalidExport`, `StoreUnavailable` as for `export`.
        """
        from artelier.chat.chat_file import export_chat

        return await export_chat(self.services, self.id, chat_id, path)

    async def import_chat(
        self: TenantScope,
        path: str | Path,
        *,
        size_max_bytes: int = SIZE_BYTES_MAX,
        events_max: int | None = None,
        by: str = "operator",
    ) -> ChatFileContents:
        """Take a chat into this tenant, hash for hash: its runs are records, the chat goes on.

        Units:  `size_max_bytes` bounds the unpacked size, `events_max` the events, which are one
        commit: one of more than 128 bytes counts for several.
        Errors: `InvalidExport` that names what is wrong; `Conflict` if a chat, run or other artifact of that
        name is here; `NotFound`. Nothing is imported by a refusal.
        """
        from artelier.chat.chat_file import import_chat

        await self.state()
        return await import_chat(
            self.services,
            self.keys,
            self.id,
            path,
            size_max_bytes=size_max_bytes,
            events_max=events_max,
            by=by,
        )
