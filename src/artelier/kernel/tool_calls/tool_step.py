"""One tool step in two phases: the request is durable before a side effect, the outcome is never guessed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import replace
from itertools import count
from typing import Any

import msgspec

from artelier.artifacts.media.inspection import ResultWithMedia
from artelier.errors import (
    ArtelierError,
    Conflict,
    Erased,
    Exhausted,
    InvalidArguments,
    LeaseLost,
    NotFound,
    NotGranted,
    RunEnded,
    RunStopped,
    RunSuspended,
    ToolFailed,
    ToolResultInvalid,
)
from artelier.kernel import events as ev
from artelier.kernel.control_stream import give
from artelier.kernel.history.fork_effects import acts_outside, stub_result
from artelier.kernel.history.step_history import Recorded, TakenElsewhere, approval_key
from artelier.kernel.pii_scrubber import wants_values
from artelier.kernel.policy import RISKS
from artelier.kernel.prompt.manifest import UNENCODABLE, canonical
from artelier.kernel.queries.runs import run_row
from artelier.kernel.run.context import RunCore, is_final
from artelier.kernel.run.crash_recovery import (
    MAY_LAND,
    NOT_OURS,
    REDISPATCHES_MAX,
    TOO_OFTEN,
    Probed,
    ask_probe,
    reconcile,
)
from artelier.kernel.run.delivery import at_step
from artelier.kernel.run.pending_steps import OutOfTime, ask_apart
from artelier.kernel.run.status import KERNEL, Approval, ToolResult
from artelier.kernel.run.waits import approve
from artelier.kernel.steps.failures import code_of, is_own, words
from artelier.kernel.tool_calls import tool_outcome
from artelier.kernel.tool_calls.compensation_plan import undoing_of
from artelier.kernel.tool_calls.dispatches import ProcessId
from artelier.kernel.tool_calls.tool_outcome import (
    ToolAsk,
    Undo,
    check_arguments,
    complete,
    encode_outcome,
    enter,
    idempotency_key,
    refuse,
    replay_result,
    return_recorded,
)
from artelier.ledger import Count
from artelier.log import Blob, BlobRef, EventData
from artelier.ports.tool import ToolPort, fit_arguments, for_call, unsure

_logger = logging.getLogger("artelier.kernel")

MISFIT_CHARS = 2_000
"""Of what a person is told about edited arguments: about what a tool of ours says."""


async def tool_step(core: RunCore, ask: ToolAsk, *, key: str | None) -> ToolResult:
    """Errors: see `Run.step_tool`."""
    async with at_step(core, key, "tool") as step:
        if (name := core.replacement_of(ask.name)) != ask.name:
            ask = replace(ask, name=name)
        return await ask_apart(core, step, lambda key: step_with_key(core, ask, key))


async def step_with_key(core: RunCore, ask: ToolAsk, key: str) -> ToolResult:
    """A tool step under its full key, such as one that undoes another one; it takes no step of any cap.

    Errors: as of `tool_step`.
    """
    recorded = await core.find_recorded(key, "tool")
    if recorded is not None and recorded.status == "completed":
        if isinstance(recorded.request, ev.ToolRequested):
            tool = core.tools.get(ask.name)
            if recorded.request.side_effect or (tool is not None and tool.side_effect):
                core.delivery.effects.note_effect(key, is_once=recorded.request.side_effect)
        result = await replay_result(core, recorded, ask)
        telemetry = core.services.telemetry
        return result if telemetry is None else tool_outcome.trace_replay(telemetry, core, result)
    if recorded is not None and recorded.left_us and core.actor is None and core.delivery.is_ordered:
        await core.delivery.until_left(recorded)
    try:
        await core.boundary()
    except asyncio.CancelledError:
        if recorded is not None and _may_have_happened(core, recorded):
            if recorded.inherited:  # its origin may know by the next drive, which looks there first
                core.delivery.effects.give_up(key)
            else:
                _give_up(core, key, "crash", said=recorded.outcome)
        raise
    if recorded is not None:
        request = recorded.request
        if recorded.inherited and isinstance(request, ev.ToolRequested) and request.side_effect:
            if (done := await _from_record(core, ask, key, step=key)) is not None:
                return done
        recorded = _taken_over(core, recorded)
    return await _live(core, ask, key, recorded)


def _may_have_happened(core: RunCore, recorded: Recorded) -> bool:
    """Return True if the log has a side effect that must not be repeated, and not what it did."""
    request = recorded.request
    is_once = isinstance(request, ev.ToolRequested) and request.side_effect
    is_untouched = recorded.key in core.history.questions
    return is_once and not is_untouched and recorded.status in ("requested", "unknown")


def _taken_over(core: RunCore, recorded: Recorded) -> Recorded | None:
    """An unfinished call as this run must see it, which a fork may have found at its origin.

    A side effect of the origin was dispatched once, and its outcome is as unknown to the fork. Anything
    else is simply asked for again, also what was left in a question before it acts.
    """
    request = recorded.request
    if recorded.inherited:
        is_once = isinstance(request, ev.ToolRequested) and request.side_effect
        if not is_once or recorded.key in core.history.questions:
            return None
    if recorded.owner and recorded.owner != core.run_id:
        core.owners.setdefault(recorded.key, recorded.owner)  # an undoing knows better: see `key_owner_of`
    if not recorded.inherited or not isinstance(request, ev.ToolRequested):
        return recorded
    # Who entered it last is who may still be at it.
    core.writer.note(msgspec.structs.replace(request, counts=(), process=recorded.process))
    return Recorded(
        key=recorded.key,
        kind="tool",
        request=request,
        process=recorded.process,
        redispatched=recorded.redispatched,
        charged=recorded.charged,
    )


async def _live(core: RunCore, ask: ToolAsk, key: str, recorded: Recorded | None) -> ToolResult:
    request = recorded.request if recorded is not None else None
    if recorded is not None:  # in all, whatever a person has decided in between
        core.redispatched[key] = recorded.redispatched
        core.charged[key] |= recorded.charged
    if recorded is not None and isinstance(request, ev.ToolRequested):
        # What was dispatched is what is dispatched again, a person's edits included.
        check_arguments(core, recorded, ask)
        arguments = msgspec.json.decode(await core.load(request.arguments))
        ask = replace(ask, name=request.name, arguments=arguments)
    elif core.pii is not None:
        ask = replace(ask, arguments=core.pii.receive_arguments(ask.arguments))
    tool = core.tools.get(ask.name) if ask.undo is None else ask.undo.port
    try:
        tool, arguments = _check(core, ask, tool)
    except ArtelierError as error:
        if recorded and isinstance(request, ev.ToolRequested) and request.side_effect:
            # It was dispatched once; a registry that changed since cannot undo that.
            return await _settle_found(core, None, {}, ask, recorded, code=error.code)
        return refuse(core, ask, key, error)
    if recorded is not None:
        is_once = tool.side_effect and not tool.idempotent
        if isinstance(request, ev.ToolRequested) and request.side_effect:
            is_once = True  # whatever the tool says of itself by now
        core.delivery.dispatches(key, tool, is_once=is_once)
        return await _again(core, tool, arguments, ask, recorded)
    asked: BlobRef | None = None
    blobs: list[Blob] = []
    mode = "live" if core.effects is None else core.effects.mode
    is_held = mode != "live" and ask.undo is None and acts_outside(tool)
    if is_held:
        if (done := await _from_record(core, ask, key)) is not None:
            return done
        if mode == "stub":
            return refuse(core, ask, key, stub_result(tool.name))
    if (answer := await _ask_approval(core, tool, ask, key, is_held=is_held)) is not None:
        if not answer:
            why = f": {answer.note}" if answer.note else ""
            return refuse(core, ask, key, ToolFailed(f"a person denied this call{why}"))
        told = ask
        if answer.decision == "edit":
            asked, blobs = core.keep_json(ask.arguments)
            told = replace(ask, arguments=answer.arguments)
        try:
            tool, arguments = _check(core, told, tool)  # a grant may be gone since it was asked
        except ArtelierError as error:
            return refuse(core, ask, key, error)
        ask = told
    ref, more = core.keep_json(ask.arguments)
    blobs = [*blobs, *more]
    once = tool.side_effect and not tool.idempotent
    counts = () if ask.undo is not None else _step_counts(core)
    requested = ev.ToolRequested(
        key=key,
        name=ask.name,
        arguments=ref,
        asked=asked,
        side_effect=once,
        counts=counts,
        undoes=ask.undo.step if ask.undo is not None else "",
        undoes_in=ask.undo.run_id if ask.undo is not None else "",
        process=core.services.process if once else (),
    )
    return await _request(core, tool, arguments, ask, requested, blobs)


async def _request(
    core: RunCore,
    tool: ToolPort,
    arguments: dict[str, Any],
    ask: ToolAsk,
    requested: ev.ToolRequested,
    blobs: list[Blob],
) -> ToolResult:
    """Record that a tool is called, and call it.

    Who drains waits for both: a call that is recorded and then not made has an unknown outcome.
    """
    core.history.questions.fold(requested)
    with core.services.draining.at_work():
        if requested.counts:
            await _commit_counted(core, requested, blobs)
        elif tool.side_effect:  # also one that may be repeated: what undoes it must find it in the log
            await core.writer.commit(requested, blobs=blobs)
        else:
            core.writer.note(requested, blobs)
            core.writer.flush()
        core.delivery.dispatches(requested.key, tool, is_once=requested.side_effect)
        core.services.at("tool.requested")
        return await _dispatch(core, tool, arguments, ask, requested.key)


async def _from_record(core: RunCore, ask: ToolAsk, key: str, *, step: str = "") -> ToolResult | None:
    """Return the outcome of an equal call that the origin of this fork made, and record that it is used.

    `step`: only of this step, which the fork shares and whose outcome is behind the branch.
    Errors: `RunSuspended` if no cap has room for the step.
    """
    if (effects := core.effects) is None or effects.mode != "recorded":
        return None
    if core.pii is not None:
        ask = replace(ask, arguments=core.pii.receive_arguments(ask.arguments))
    async with effects.lock:
        while call := await effects.find(core, ask.name, ask.arguments, step=step):
            try:
                done = await return_recorded(
                    core, ask, key, call, counts=_step_counts(core), guard=effects.guard(call)
                )
            except TakenElsewhere:
                continue  # there may be another equal one
            except Exhausted as error:
                await core.end_refused(error)
                raise
            effects.use(call)
            return done
        return None


def _step_counts(core: RunCore) -> tuple[Count, ...]:
    return tuple(Count(scope, unit, use=1) for scope, unit in sorted(core.capped) if unit == "steps")


async def _commit_counted(core: RunCore, requested: ev.ToolRequested, blobs: list[Blob]) -> None:
    """A step that a cap counts. Errors: `RunSuspended` if there is no room left for it."""
    try:
        await core.writer.commit(requested, blobs=blobs, refusable=True)
    except Exhausted as error:
        await core.end_refused(error)


def _check(core: RunCore, ask: ToolAsk, tool: ToolPort | None) -> tuple[ToolPort, dict[str, Any]]:
    """Errors: what a model is told instead of a result, before anything is dispatched."""
    if tool is None and ask.undo is not None:
        raise ToolFailed(
            f"a call of {ask.name!r} cannot be undone here",
            expected="a tool of that name with `compensate`",
            got="none is registered",
        )
    if ask.undo is not None and ask.undo.gone:
        raise Erased(
            f"what step {ask.undo.step} was given, or gave, was erased, and cannot be undone any more",
            got=", ".join(ask.undo.gone[:5]),
        )
    if tool is None:
        names = ", ".join(sorted(core.tools)) or "none"
        raise ToolFailed(f"there is no tool {ask.name[:80]!r}", expected=f"one of: {names[:1000]}")
    grant = tool.grant or f"tools:{tool.name}"
    if not core.may_use(grant):
        raise NotGranted(f"this run may not use {tool.name!r}", expected=f"the grant {grant}")
    if (why := core.why_off(tool)) is not None:
        raise NotGranted(f"tool {tool.name!r} is off", expected="another tool", got=why)
    try:
        canonical(ask.arguments)
    except UNENCODABLE as error:
        raise InvalidArguments(
            f"the arguments of {tool.name!r} have no form as JSON: {words(error)[:200]}",
            expected="JSON data, with numbers that are finite",
        ) from None
    if core.pii is not None and wants_values(grant):
        arguments = fit_arguments(tool, core.pii.restore(ask.arguments))
    else:
        arguments = fit_arguments(tool, ask.arguments)
    return for_call(tool, arguments), arguments


async def _ask_approval(
    core: RunCore, tool: ToolPort, ask: ToolAsk, key: str, *, is_held: bool
) -> Approval | None:
    """Return a person's answer where the policy, the run's loop or a fork asks for one, and where the log has
    asked: a process of another policy answers for nobody. None elsewhere.

    Edited arguments that do not fit the tool are no answer: the person is asked again, and told why. What the
    log says of that holds, whatever has become of the tool since: the newest question decides.
    """
    threshold = core.approve_risk
    is_asked = is_held or (threshold is not None and RISKS[tool.risk] >= RISKS[threshold])
    if not is_asked and not await core.history.knows(f"{key}/approval"):
        return None
    what = "call" if ask.undo is None else "undo"
    details = {"tool": tool.name, "arguments": ask.arguments}
    if is_held:  # the fork's name makes it a question that no answer to the origin settles
        details |= {"fork": core.run_id, "why": "no equal call of the origin is left"}
    first, edit = 1, core.history.edits.get(key)
    if edit is not None and not (is_held and edit.inherited):
        first = edit.number
        details |= {"why": (await core.load_json(edit.question))["details"]["why"]}
        for past in range(1, first):
            await core.history.find(approval_key(key, past))
    for number in count(first):
        question = approval_key(key, number)
        answer = await approve(core, f"{what} {tool.name}", details, key=question, exact=True)
        if answer.decision != "edit" or not (misfit := _misfit(core, ask, tool, answer.arguments)):
            return answer
        details |= {"why": misfit}


def _misfit(core: RunCore, ask: ToolAsk, tool: ToolPort, arguments: object) -> str:
    """Return why the arguments that a person has given do not fit the tool; empty if they do."""
    try:
        _check(core, replace(ask, arguments=arguments), tool)
    except InvalidArguments as error:
        said = words(error) if core.pii is None else core.pii.scrub_json(words(error))
        return said[:MISFIT_CHARS]
    except ArtelierError:
        return ""  # the call is refused, whatever its arguments
    return ""


# What is found on resume


async def _again(
    core: RunCore, tool: ToolPort, arguments: dict[str, Any], ask: ToolAsk, recorded: Recorded
) -> ToolResult:
    """A step that was asked for and has no outcome: run it again only if that is known to be safe."""
    key, request = recorded.key, recorded.request
    harmless = not (isinstance(request, ev.ToolRequested) and request.side_effect)
    harmless = harmless or key in core.history.questions
    if recorded.status == "retry" or (harmless and recorded.status == "requested"):
        by = "person" if recorded.status == "retry" else "kernel"
        return await _entered_again(core, tool, arguments, ask, key, by=by)
    return await _settle_found(core, tool, arguments, ask, recorded, code="crash")


async def _entered_again(
    core: RunCore, tool: ToolPort, arguments: dict[str, Any], ask: ToolAsk, key: str, *, by: str
) -> ToolResult:
    """Enter a step once more under its idempotency key. `by`: see `ToolRetried`."""
    process = core.services.process if tool.side_effect and not tool.idempotent else ()
    with core.services.draining.at_work():
        with _before_entering(core, key):
            await core.writer.commit(ev.ToolRetried(key=key, by=by, process=process))
        return await _dispatch(core, tool, arguments, ask, key)


@contextmanager
def _before_entering(core: RunCore, key: str) -> Generator[None]:
    """What cancels a call inside cancels one that may be made again, and is not: that is an outcome."""
    try:
        yield
    except asyncio.CancelledError:
        core.delivery.effects.take_back(key)
        raise


async def _settle_found(
    core: RunCore,
    tool: ToolPort | None,
    arguments: dict[str, Any],
    ask: ToolAsk,
    recorded: Recorded,
    *,
    code: str,
) -> ToolResult:
    """Settle a side effect that this drive has found without an outcome."""
    said = recorded.outcome if isinstance(recorded.outcome, ev.ToolUnresolved) else None
    return await _settle_unknown(
        core, tool, arguments, ask, recorded.key, code, process=recorded.process, said=said
    )


async def _settle_unknown(
    core: RunCore,
    tool: ToolPort | None,
    arguments: dict[str, Any],
    ask: ToolAsk,
    key: str,
    code: str,
    *,
    process: ProcessId | None = None,
    said: ev.ToolUnresolved | None = None,
    is_wanted: bool = True,
) -> ToolResult:
    """Ask the tool's probe; without an answer the run stops until a person settles it.

    `process`: who entered the call; None for this process. `said`: what the log has of the unknown outcome.
    `is_wanted`: whether code waits for the call, so that it is entered again if it has not happened.
    """
    if core.delivery.is_too_late:
        return await _settle_late(core, ask, key, unsure)
    found, effects = Probed(answer="unsure"), core.delivery.effects
    try:
        if tool is not None and tool.probe is not None:
            asked = ask_probe(tool, idempotency_key(core, key), arguments)
            found = await effects.shield(asked, gives_way=True)
        if key in core.deciding:
            return await _settled_by_person(core, tool, arguments, ask, key)
    except asyncio.CancelledError:
        _give_up(core, key, code, said=said)
        raise
    if found.answer != "unsure":
        core.deciding.add(key)  # from here on, no person's word is taken: it would be a second outcome
    if found.answer in ("happened", "failed"):
        done = complete(core, ask, key, found.value, ms=0, settled_by="probe", wait=True)
        return await effects.shield(done)
    error = found.error
    if tool is not None and found.answer == "not_happened":
        error = _why_not_again(core, key, core.services.process if process is None else process)
        if not error and not is_wanted:
            left = ToolFailed("the call has not happened, and nobody asks for it any more")
            return await complete(core, ask, key, left, ms=0, settled_by="probe", wait=True)
        if not error and effects.gives_up(key):
            core.deciding.discard(key)
            raise asyncio.CancelledError
        if not error:
            tool_outcome.trace_loss()
            with _before_entering(core, key):
                await core.boundary()
            core.redispatched[key] += 1
            core.deciding.discard(key)
            return await _entered_again(core, tool, arguments, ask, key, by="probe")
    core.deciding.discard(key)
    suspended = core.suspend("unknown_outcome", key)  # before its siblings go on
    ref, blobs = core.keep_json(error) if error else (None, [])
    if said is None or (ref is not None and ref != said.probe_error):
        unresolved = ev.ToolUnresolved(key=key, code=said.code if said else code, probe_error=ref)
        await effects.shield(core.writer.commit(unresolved, blobs=blobs))
    raise suspended


def _give_up(core: RunCore, key: str, code: str, *, said: EventData | None) -> None:
    """Note that nobody knows what a call did that is cut off, for the code and for people. `said`: what the
    log has of the unknown outcome.
    """
    core.delivery.effects.give_up(key)
    if said is None:
        core.writer.note(ev.ToolUnresolved(key=key, code=code))
        core.writer.flush()


async def _settled_by_person(
    core: RunCore, tool: ToolPort | None, arguments: dict[str, Any], ask: ToolAsk, key: str
) -> ToolResult:
    """Return what a person has said while the probe was asked about a step that waited for a person."""
    while (said := core.reconciled.get(key)) is None:
        core.writer.check()
        await core.wait_change(None, since=core.turn)
    if said.answer != "retry" or tool is None:
        told = Recorded(key=key, kind="tool", outcome=said, status="completed")
        return await replay_result(core, told, ask)
    del core.reconciled[key]
    core.deciding.discard(key)
    await core.boundary()
    return await _entered_again(core, tool, arguments, ask, key, by="person")


def _why_not_again(core: RunCore, key: str, process: ProcessId) -> str:
    """Return why the probe's word that a call has not happened is not enough to enter it again; empty if it
    is.
    """
    if key in core.owners:
        return NOT_OURS
    if not core.services.dispatches.is_over(process, idempotency_key(core, key)):
        return MAY_LAND
    return TOO_OFTEN if core.redispatched[key] >= REDISPATCHES_MAX else ""


async def _settle_late(core: RunCore, ask: ToolAsk, key: str, value: object) -> ToolResult:
    """Record the outcome of a side effect that has ended after its run, and return it to whoever waits.

    The run's lease was given back, so this process says it as a person would who settles the step, and a
    replay does not hand it out. A run that has not ended asks what became of the call when it goes on.
    `value`: `unsure` for a call that has raised; then its probe is asked.
    """
    is_known = value is not unsure
    if isinstance(value, ResultWithMedia):
        value = value.value
    if not is_known:
        value = ToolFailed(f"run {core.run_id} has ended, and the call has raised: what it did is not known")
    await core.released.wait()
    content, value, is_error = await encode_outcome(core, ask, value)
    services, tenant, run_id = core.services, core.tenant, core.run_id
    try:
        row = await run_row(core.store, tenant.id, run_id)
        if not is_final(row.status):
            raise Conflict("the run goes on later, and asks about it then", got=row.status)
        if is_known:
            answer = "failed" if is_error else "succeeded"
            await give(
                services, tenant.id, run_id, "reconcile", by=KERNEL, key=key, choice=answer, payload=value
            )
        else:
            probed = replace(services, tools=core.tools)
            await reconcile(probed, tenant, run_id, key, answer="probe", by=KERNEL)
    except ArtelierError as error:
        _logger.warning(
            "what step %s of run %s did after the end of its drive is not recorded: %s", key, run_id, error
        )
    return ToolResult(value=value, is_error=is_error, key=key, call_id=ask.call_id, content=content)


async def settle_left(core: RunCore, key: str, request: ev.ToolRequested, *, again: bool) -> None:
    """Have it known what a dispatched call did that the code does not ask for any more.

    `again`: a person has decided that it be entered once more, with the same idempotency key.
    Errors: `RunSuspended` with `unknown_outcome`, unless the tool's probe or the repetition tells; those of
    `boundary`.
    """
    port = await undoing_of(core, request) if request.undoes else None
    undo = Undo(step=request.undoes, port=port, run_id=request.undoes_in)
    ask = ToolAsk(
        name=request.name,
        arguments=await core.load_json(request.arguments),
        undo=undo if request.undoes else None,
    )
    tool: ToolPort | None = None
    arguments: dict[str, Any] = {}
    with suppress(ArtelierError):
        found = port if request.undoes else core.tools.get(request.name)
        tool, arguments = _check(core, ask, found)
    if tool is None or not again:
        await _settle_unknown(
            core, tool, arguments, ask, key, "crash", process=request.process, is_wanted=False
        )
        return
    await core.boundary()
    await _entered_again(core, tool, arguments, ask, key, by="person")


# The call


async def _dispatch(
    core: RunCore, tool: ToolPort, arguments: dict[str, Any], ask: ToolAsk, key: str
) -> ToolResult:
    work = _call(core, tool, arguments, ask, key)
    if (telemetry := core.services.telemetry) is None:
        return await work
    return await tool_outcome.trace_call(telemetry, core, ask, key, work)


async def _call(
    core: RunCore, tool: ToolPort, arguments: dict[str, Any], ask: ToolAsk, key: str
) -> ToolResult:
    once = tool.side_effect and not tool.idempotent
    started_us = core.clock.now_us()
    try:
        value = await enter(core, tool, arguments, key)
    except ToolFailed as error:
        value = error
    except RunSuspended:
        raise
    except RunStopped as error:
        if once and core.cancelled_reason is None and not await _is_below(core, error.run_id):
            return await _settle_unknown(core, tool, arguments, ask, key, "cancelled")
        raise
    except asyncio.CancelledError as error:
        if is_own(error):
            return await _broken(core, tool, arguments, ask, key, error, once=once)
        tool_outcome.trace_interruption()
        await _wait_interruption(core, once=once, key=key)
        return await _entered_again(core, tool, arguments, ask, key, by="kernel")
    except OutOfTime:
        if once:
            return await _settle_unknown(core, tool, arguments, ask, key, "deadline")
        await core.out_of_time()
    except (KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except BaseException as error:  # such as the outcomes of a test library, or of another event loop
        if once and code_of(error) == ToolResultInvalid.code:
            value = _as_error(error)
        else:
            return await _broken(core, tool, arguments, ask, key, error, once=once)
    ms = (core.clock.now_us() - started_us) // 1000
    core.services.at("tool.returned")
    if once and core.delivery.is_too_late:
        return await _settle_late(core, ask, key, value)
    done = complete(core, ask, key, value, ms=ms, wait=once)
    if not once:
        return await done
    try:
        return await core.delivery.effects.shield(done)
    except (LeaseLost, RunEnded):
        if not core.delivery.is_too_late:
            raise
        return await _settle_late(core, ask, key, value)  # the run has ended while it was being recorded


async def _is_below(core: RunCore, run_id: str) -> bool:
    """Return True for a child of this run, or a child's: its end says what came of the call."""
    while run_id != core.run_id:
        try:
            row = await run_row(core.store, core.tenant.id, run_id)
        except NotFound:
            return False
        if row.parent is None:
            return False
        run_id = row.parent
    return True


async def _broken(
    core: RunCore,
    tool: ToolPort,
    arguments: dict[str, Any],
    ask: ToolAsk,
    key: str,
    error: BaseException,
    *,
    once: bool,
) -> ToolResult:
    """Return what became of a call that has raised: of a side effect, what its probe says."""
    if core.actor is not None:
        core.writer.check()  # what the store refused the tool's own questions is no error of the tool
    if once:
        return await _settle_unknown(core, tool, arguments, ask, key, code_of(error))
    return await complete(core, ask, key, _as_error(error), ms=0)


def _as_error(error: BaseException) -> ArtelierError:
    if isinstance(error, ArtelierError):
        return error
    if isinstance(error, TimeoutError):
        return ToolFailed("the tool took too long and was stopped")
    return ToolFailed(f"{type(error).__name__}: {words(error)[:1000]}")


async def _wait_interruption(core: RunCore, *, once: bool, key: str) -> None:
    """A call was cancelled. Returns when a harmless one may be made again.

    Errors: `RunSuspended` for a side effect, since what it did is unknown; `CancelledError` if the cancel
    came from outside; `RunStopped`, `RunSuspended` as the command wants.
    """
    if core.actor is None:  # nothing can be recorded any more
        raise asyncio.CancelledError
    ours = core.calls.was_interrupted()
    if once and key not in core.history.questions:
        core.writer.note(ev.ToolUnresolved(key=key, code="cancelled"))
        core.writer.flush()
        suspended = core.suspend("unknown_outcome", key)
        if ours:
            raise suspended
    if not ours:
        if once:  # in a question before which it has done nothing
            core.delivery.effects.take_back(key)
        raise asyncio.CancelledError
    await core.boundary()
