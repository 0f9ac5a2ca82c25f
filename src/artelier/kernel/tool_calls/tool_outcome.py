"""Tool calls: a step's arguments, its invocation, what is recorded of it, and what a model and a trace see.

An invocation has a timeout, a heartbeat and retries; its context lets the tool do what is here and no more.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, TypeVar, cast

import msgspec

from artelier.artifacts.content import is_small
from artelier.artifacts.media.inspection import MediaFacts, ResultWithMedia, keep_medium
from artelier.errors import (
    ArtelierError,
    Exhausted,
    InvalidRequest,
    RunStopped,
    RunSuspended,
    ToolResultInvalid,
    TransientError,
)
from artelier.kernel import events as ev
from artelier.kernel.budget import BudgetChanged, funds_guard, read_budget, source_for
from artelier.kernel.history.fork_effects import RECORD
from artelier.kernel.history.step_history import Recorded, RecordedCall, question_key
from artelier.kernel.prompt.manifest import UNENCODABLE, canonical
from artelier.kernel.run.context import RunCore
from artelier.kernel.run.status import KERNEL, ToolResult
from artelier.kernel.run.waits import approve
from artelier.kernel.steps.failures import code_of, words
from artelier.kernel.steps.model_step import RunPayer
from artelier.kernel.tool_calls.dispatches import Dispatch, Dispatches
from artelier.ledger import Count, Posting
from artelier.log import Blob, Tx
from artelier.money import USD
from artelier.ports.media import ATTACHMENTS, Medium, medium_of
from artelier.ports.memory import paid_by
from artelier.ports.model import Part
from artelier.ports.telemetry import Telemetry, ToolFacts, ToolSpan
from artelier.ports.tool import PersonAnswer, ToolContext, ToolPort
from artelier.threads import run_in_content_thread


@dataclass(frozen=True, slots=True, kw_only=True)
class Undo:
    """The facts that make a tool step the undoing of another one."""

    step: str
    port: ToolPort | None
    """Undoes it when it is called; None if the tool cannot be undone here any more."""
    run_id: str = ""
    """The run that has the step, if it is another one."""
    gone: tuple[str, ...] = ()
    """Placeholders of what the call was given or gave, whose values were erased since."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolAsk:
    """The arguments of a tool step."""

    name: str
    arguments: Any
    call_id: str = ""
    undo: Undo | None = None


PREVIEW_CHARS = 2_000
"""Characters of a large result that a model is shown, half from its head and half from its tail."""

ASIDE_BYTES = 128 * 1024
"""A result above this size is encoded and decoded in a thread: a million numbers take a tenth of a second."""

NAME_CHARS = 200
"""Of the name of a refused call, which may be anything."""

T = TypeVar("T")
U = TypeVar("U")


def error_value(error: ArtelierError) -> dict[str, Any]:
    return {"error": error.to_wire()}


def refuse(core: RunCore, ask: ToolAsk, key: str, error: ArtelierError) -> ToolResult:
    """Record that a call is not dispatched; the model is told why."""
    content = core.clean(canonical(error_value(error)))
    value = msgspec.json.decode(content)
    ref, blob = core.keep(content)
    blobs, asked = [blob], None
    with suppress(InvalidRequest):  # a caller may hand over anything; that is why it is refused
        asked, more = core.keep_json(ask.arguments)
        blobs += more
    core.writer.note(
        ev.ToolRefused(
            key=key,
            name=ask.name[:NAME_CHARS],
            code=error.code,
            result=ref,
            arguments=asked,
            undoes=ask.undo.step if ask.undo is not None else "",
        ),
        blobs,
    )
    if (telemetry := core.services.telemetry) is not None:
        trace_refusal(telemetry, core, ask, key, error.code)
    return ToolResult(value=value, is_error=True, key=key, call_id=ask.call_id, content=content)


async def complete(
    core: RunCore, ask: ToolAsk, key: str, value: object, *, ms: int, settled_by: str = "", wait: bool = False
) -> ToolResult:
    """Record an outcome: of a side effect on arrival, of anything else with the next request."""
    shows: tuple[MediaFacts | Medium, ...] = ()
    if isinstance(value, ResultWithMedia):
        value, shows = value.value, value.media
    content, value, is_error = await encode_outcome(core, ask, value)
    kept = await _keep_media(core, key, shows)
    if kept.media:  # behind the search for personal data: their names are ours
        value = {**cast("dict[str, Any]", value), ATTACHMENTS: kept.parts}
        content = canonical(value)
    ref, blob = core.keep(content)
    artifact, shown = "", None
    if len(content) > core.result_bytes_max:
        artifact, shown = await _as_artifact(core, key, content)
    event = ev.ToolCompleted(
        key=key,
        result=ref,
        is_error=is_error,
        ms=ms,
        artifact=artifact,
        preview=shown is not None and not artifact,
        media=kept.refs,
        settled_by=settled_by,
    )
    blobs = [blob, *kept.blobs]
    if wait:
        await core.writer.commit(event, blobs=blobs)
        core.services.at("tool.completed")
    else:
        core.writer.note(event, blobs)
    return ToolResult(
        value=value,
        ref=artifact or None,
        is_error=is_error,
        key=key,
        call_id=ask.call_id,
        content=content,
        shown=shown,
        media=kept.media,
        settled_by=settled_by,
    )


async def encode_outcome(core: RunCore, ask: ToolAsk, value: object) -> tuple[bytes, object, bool]:
    """Return what a call gave as it is stored, as data, and whether that is an error."""
    is_error = isinstance(value, ArtelierError)
    if isinstance(value, ArtelierError):
        value = error_value(_with_effect(core, ask, value))
    try:
        if is_small(value, bytes_max=ASIDE_BYTES):
            content = canonical(value)
        else:
            content = await _aside(core, canonical, value)
    except UNENCODABLE as error:
        # The tool ran; only its answer is unusable. That is an outcome, and it is recorded.
        is_error = True
        lost = ToolResultInvalid(f"the tool returned something that is no JSON: {words(error)[:200]}")
        content = canonical(error_value(_with_effect(core, ask, lost)))
    if core.pii is not None:
        content = await core.pii.result(content, core.tools.get(ask.name), is_error=is_error)
    if len(content) <= ASIDE_BYTES:
        return content, msgspec.json.decode(content), is_error
    return content, await _aside(core, msgspec.json.decode, content), is_error


def _with_effect(core: RunCore, ask: ToolAsk, error: ArtelierError) -> ArtelierError:
    """Return the error as a model is told it: one that has only lost its result has acted all the same."""
    tool = core.tools.get(ask.name)
    if error.code != ToolResultInvalid.code or tool is None or not tool.side_effect:
        return error
    hint = f"Do not call it again to get the result. {error.hint or ''}".rstrip()
    return ToolResultInvalid(f"{error.message}; the call was made, and what it did stands", hint=hint)


@dataclass(frozen=True, slots=True, kw_only=True)
class _KeptMedia:
    """The media of one result, stored with it."""

    media: tuple[Medium, ...] = ()
    refs: tuple[str, ...] = ()
    """Of the artifacts that hold them, in their order; empty for one that none holds."""
    blobs: tuple[Blob, ...] = ()

    @property
    def parts(self) -> list[object]:
        """Media parts of the recorded result: the same for the same content, whichever call shows it."""
        return [msgspec.to_builtins(one.part) for one in self.media]


async def _keep_media(core: RunCore, key: str, shows: Sequence[MediaFacts | Medium]) -> _KeptMedia:
    """Name the media of a result, and keep each as an artifact, in the batch of its event."""
    media, refs, blobs = list[Medium](), list[str](), list[Blob]()
    for number, one in enumerate(shows, 1):
        if isinstance(one, MediaFacts):
            escape = core.services.escape_placeholders
            kept = await keep_medium(core.tenant.id, core.key, one, escape=escape)
            medium, content = kept.medium, one.content
            blobs += kept.blobs
        else:
            medium, content = one, await core.load(one.blob)
        media.append(medium)
        ref = ""
        if core.store_result is not None:
            with suppress(ArtelierError):  # the outcome counts; it holds them anyway
                place = f"{key}/media/{number}"
                ref = await core.store_result(core, place, content, media_type=medium.media_type)
        refs.append(ref)
    return _KeptMedia(media=tuple(media), refs=tuple(refs), blobs=tuple(blobs))


def _media_of(value: object, refs: Sequence[str]) -> tuple[Medium, ...]:
    """Return the media that a recorded result names, as many as its event says: any tool can return what
    looks like it."""
    if not refs:
        return ()
    pieces: list[Any] = cast("dict[str, Any]", value)[ATTACHMENTS]
    return tuple(medium_of(msgspec.convert(one, Part)) for one in pieces[: len(refs)])


async def _aside(core: RunCore, work: Callable[[T], U], value: T) -> U:
    """Do some work on a large result in a thread; the run is at work meanwhile."""
    with core.calls.flight(harmless=True):
        return await run_in_content_thread(ASIDE_BYTES, work, value)


async def _as_artifact(core: RunCore, key: str, content: bytes) -> tuple[str, bytes]:
    """A large result as an artifact of its own, and what a model sees of it."""
    if core.store_result is None:
        return "", preview(content, "")
    try:
        artifact_id = await core.store_result(core, key, content)
    except ArtelierError:
        return "", preview(content, "")  # the outcome counts; the event holds all of it anyway
    return artifact_id, preview(content, artifact_id)


def preview(content: bytes, ref: str) -> bytes:
    """Head, tail, size and ref of a large result as canonical JSON."""
    text = content.decode("utf-8", "replace")
    half = PREVIEW_CHARS // 2
    shown: dict[str, Any] = {"head": text[:half], "tail": text[-half:], "total_chars": len(text)}
    if ref:
        shown["ref"] = ref
        shown["read_with"] = "read_artifact(ref, offset, limit)"
    return canonical(shown)


async def return_recorded(
    core: RunCore,
    ask: ToolAsk,
    key: str,
    call: RecordedCall,
    *,
    counts: Sequence[Count],
    guard: Callable[[Tx], None],
) -> ToolResult:
    """Record a step whose outcome is that of an origin's call: asked and answered in one batch, so that it
    is never found without an outcome. Errors: `Exhausted` if a cap has no room for it; those of `guard`.
    """
    content = b"null" if call.result is None else await core.load(call.result)
    result, blob = core.keep(content)
    arguments, blobs = core.keep_json(ask.arguments)
    await core.writer.commit(
        ev.ToolRequested(key=key, name=ask.name, arguments=arguments, counts=tuple(counts)),
        ev.ToolCompleted(
            key=key,
            result=result,
            is_error=call.is_error,
            artifact=call.artifact,
            preview=call.preview,
            media=call.media,
            settled_by=RECORD,
            recorded=ev.RecordedStep(run=call.run_id, key=call.key),
        ),
        blobs=[*blobs, blob],
        refusable=True,
        guard=guard,
    )
    value = msgspec.json.decode(content)
    return ToolResult(
        value=value,
        ref=call.artifact or None,
        is_error=call.is_error,
        key=key,
        call_id=ask.call_id,
        content=content,
        settled_by=RECORD,
        shown=preview(content, call.artifact) if call.artifact or call.preview else None,
        media=_media_of(value, call.media),
    )


async def replay_result(core: RunCore, recorded: Recorded, ask: ToolAsk) -> ToolResult:
    outcome = recorded.outcome
    artifact, large, settled_by, media = "", False, "", ()
    if isinstance(outcome, ev.ToolRefused):
        content, is_error = await core.load(outcome.result), True
    elif isinstance(outcome, ev.ToolReconciled):
        content = await core.load(outcome.result) if outcome.result else b"null"
        is_error = outcome.answer == "failed"
        settled_by = "" if recorded.actor == KERNEL else "person"
        large = len(content) > core.result_bytes_max
    else:
        completed = cast(ev.ToolCompleted, outcome)
        content, is_error = await core.load(completed.result), completed.is_error
        artifact, settled_by, media = completed.artifact, completed.settled_by, completed.media
        # As it was shown then, whatever the limit is now: else the next prompt would be another one.
        large = bool(artifact) or completed.preview
    check_arguments(core, recorded, ask)
    value = msgspec.json.decode(content)
    return ToolResult(
        value=value,
        ref=artifact or None,
        is_error=is_error,
        replayed=True,
        key=recorded.key,
        call_id=ask.call_id,
        content=content,
        shown=preview(content, artifact) if large else None,
        media=_media_of(value, media),
        settled_by=settled_by,
    )


def check_arguments(core: RunCore, recorded: Recorded, ask: ToolAsk) -> None:
    """A recorded call must be the one that the code makes now, unless the policy lets it drift."""
    if not recorded.must_match(core.replay):
        return
    request, outcome = recorded.request, recorded.outcome
    if isinstance(request, ev.ToolRequested):
        then, name = request.asked or request.arguments, ask.name
    elif isinstance(outcome, ev.ToolRefused):
        request, then, name = outcome, outcome.arguments, ask.name[:NAME_CHARS]
    else:
        return
    if request.name != name:
        raise core.mismatch(recorded.key, "tool", expected=request.name, got=ask.name[:80])
    if then is None:
        return
    with suppress(InvalidRequest):  # what has no form as JSON was not recorded
        if then == core.ref_of(ask.arguments):
            return
    raise core.mismatch(recorded.key, "arguments")


_current: ContextVar[ToolSpan | None] = ContextVar("tool_span", default=None)
"""The call that the current task is in."""


async def trace_call(
    telemetry: Telemetry, core: RunCore, ask: ToolAsk, key: str, work: Awaitable[ToolResult]
) -> ToolResult:
    """A dispatched call's result, its span ended as the call did. Content is what was stored, no more."""
    facts = _facts(core, ask, key, ask.name)
    span = telemetry.tool_call(core, facts)
    token = _current.set(span)
    try:
        with span:
            result = await work
    except RunSuspended as flow:
        if flow.status == "unknown_outcome":
            span.failed(flow.status)
        else:
            span.left(flow.status)
        raise
    except (asyncio.CancelledError, RunStopped):
        span.failed("cancelled")
        raise
    except BaseException as error:
        span.failed(code_of(error))
        raise
    finally:
        _current.reset(token)
    span.completed(result.content, code=error_code(result.value) if result.is_error else "")
    return result


def trace_replay(telemetry: Telemetry, core: RunCore, result: ToolResult) -> ToolResult:
    """The recorded result that it is given; nothing was called."""
    code = error_code(result.value) if result.is_error else ""
    telemetry.step_replayed(core, operation="execute_tool", key=result.key, code=code)
    return result


def trace_refusal(telemetry: Telemetry, core: RunCore, ask: ToolAsk, key: str, code: str) -> None:
    """A call that was not dispatched."""
    name = ask.name if ask.name in core.tools else ""
    telemetry.tool_call(core, _facts(core, ask, key, name)).failed(code)


def _facts(core: RunCore, ask: ToolAsk, key: str, name: str) -> ToolFacts:
    """Return what is told of a call: of its arguments no more than is stored."""
    arguments = ask.arguments if core.pii is None else core.pii.scrub_json(ask.arguments)
    return ToolFacts(key=key, name=name, call_id=ask.call_id, arguments=arguments)


def trace_retry(attempt: int, error: BaseException, wait_s: float) -> None:
    """An attempt inside the current call failed in passing."""
    if (span := _current.get()) is not None:
        span.retried(attempt=attempt, code=code_of(error), wait_s=wait_s)


def trace_interruption() -> None:
    """The current call is cancelled; if it is made again, that is a call of its own."""
    if (span := _current.get()) is not None:
        span.failed("cancelled")


def trace_loss() -> None:
    """The current call did not happen; if it is made again, that is a call of its own."""
    if (span := _current.get()) is not None:
        span.failed("not_happened")


def error_code(value: object) -> str:
    """The code in the value of a tool's error, as `ArtelierError.to_wire` has put it there."""
    found: object = cast(Any, value).get("error") if isinstance(value, dict) else None
    code: object = cast(Any, found).get("code") if isinstance(found, dict) else None
    return code if isinstance(code, str) else "tool_failed"


SPEND_FIRST = (
    "Nothing was spent. A tool that has not acted yet says `spend(usd, before_acting=True)`, or raises"
    " ToolFailed; else it may have acted, and the outcome is unknown."
)


def idempotency_key(core: RunCore, key: str) -> str:
    """Stable over retries and resume, different for every step of every run of every tenant."""
    return f"{core.tenant.id}/{core.owners.get(key, core.run_id)}:{key}"


async def enter(core: RunCore, tool: ToolPort, arguments: dict[str, Any], key: str) -> object:
    """Run the tool under its timeout and heartbeat; harmless ones are retried when they say so."""
    once = tool.side_effect and not tool.idempotent
    beat = Heartbeat(core)
    attempts = 1 if once else core.policy.attempts_max
    calls = core.services.dispatches if once else Dispatches()  # of what may be repeated, nobody asks
    for attempt in range(1, attempts + 1):
        if once:
            await core.writer.hold(core.services)
        call = calls.begin(core.services.process, idempotency_key(core, key))
        context = context_of(core, tool, key, beat, call)
        wait_s = core.policy.backoff_s * 2 ** (attempt - 1)
        try:
            with core.calls.flight(harmless=not once), paid_by(RunPayer(core, key, beat.asking)):
                async with core.calls.within(tool.timeout_s) as beat.limit:
                    work = call.follow(tool.call(arguments, context))
                    if tool.heartbeat_timeout_s is None:
                        return await work
                    return await beat.watch(work, silent_s=tool.heartbeat_timeout_s)
        except asyncio.CancelledError as error:
            if error is call.left_by:
                core.history.questions.cut_off(key)
            raise
        except TransientError as error:
            if attempt == attempts:
                raise
            trace_retry(attempt, error, wait_s)
        await core.rest(wait_s)
    raise AssertionError("unreachable: the last attempt returns or raises")


class Heartbeat:
    """Notices a tool that has been silent for too long."""

    def __init__(self, core: RunCore) -> None:
        self._core = core
        self._last_us = core.clock.now_us()
        self._asking = 0
        self.limit: asyncio.Timeout | None = None
        """The timeout of the call at work."""

    @contextmanager
    def asking(self) -> Generator[None]:
        """While a person is asked, neither the tool's timeout nor its heartbeat runs."""
        loop, limit = asyncio.get_running_loop(), self.limit
        until = limit.when() if limit is not None else None
        left = until - loop.time() if until is not None else None
        if limit is not None:
            limit.reschedule(None)
        self._asking += 1
        try:
            yield
        finally:
            self._asking -= 1
            self._last_us = self._core.clock.now_us()
            if limit is not None and left is not None:
                if (time_s := self._core.left_s()) is not None:
                    left = min(left, time_s)
                with suppress(RuntimeError):  # the call is over
                    limit.reschedule(loop.time() + left)

    def beat(self, note: str) -> None:
        self._last_us = self._core.clock.now_us()

    async def watch(self, call: Coroutine[Any, Any, T], *, silent_s: float) -> T:
        """Return what the call returns. Errors: `TimeoutError` once it is silent for so long."""
        limit_us = int(silent_s * 1_000_000)
        self._last_us = self._core.clock.now_us()
        work = asyncio.ensure_future(call)
        try:
            while not work.done():
                left_us = self._last_us + limit_us - self._core.clock.now_us()
                if self._asking:
                    left_us = limit_us
                if left_us <= 0:
                    raise TimeoutError(f"silent for {silent_s} s")
                sleep = asyncio.ensure_future(self._core.clock.sleep(left_us / 1_000_000))
                await asyncio.wait((work, sleep), return_when=asyncio.FIRST_COMPLETED)
                sleep.cancel()
            return work.result()
        finally:
            work.cancel()


def context_of(core: RunCore, tool: ToolPort, key: str, beat: Heartbeat, call: Dispatch) -> ToolContext:
    questions = 0

    async def ask(question: str, details: Mapping[str, Any] | None, before_acting: bool) -> PersonAnswer:
        nonlocal questions
        questions += 1
        asked = question_key(key, questions)
        with beat.asking():
            try:
                approval = await approve(
                    core, question, details, key=asked, by_tool=True, before_acting=before_acting
                )
            except asyncio.CancelledError as error:
                if tool.side_effect and not tool.idempotent:
                    call.left_by = error
                    await _leave_question(core, asked)
                raise
        decision = "deny" if approval.decision == "expired" else approval.decision
        return PersonAnswer(
            decision=decision,
            note=approval.note,
            arguments=approval.arguments,
            by=approval.by,
            media=approval.media,
        )

    spent, charged = Counter[int](), core.charged[key]

    async def spend(amount: int) -> None:
        if amount <= 0:
            return

        def take_back() -> None:
            charged[amount] -= 1
            spent[amount] -= 1

        while True:
            spent[amount] += 1
            if spent[amount] <= charged[amount]:
                return  # a try before this one was charged for it
            charged[amount] += 1
            try:
                return await _charge(core, key, amount, refused=take_back)
            except BudgetChanged:  # another account pays now
                await read_budget(core)
            except Exhausted as error:
                if tool.side_effect and not tool.idempotent:
                    error.hint = SPEND_FIRST
                raise

    times = [core.deadline_us] if core.deadline_us is not None else []
    if tool.timeout_s:
        times.append(core.clock.now_us() + int(tool.timeout_s * 1_000_000))
    return ToolContext(
        run_id=core.run_id,
        tenant_id=core.tenant.id,
        principal=core.actor.name if core.actor else "",
        idempotency_key=idempotency_key(core, key),
        fencing_token=core.writer.fence.token,
        deadline_us=min(times, default=None),
        progress=beat.beat,
        spend=spend,
        ask=ask,
        cancelled=lambda: core.cancelled_reason is not None or core.stopping,
        in_thread=call.in_thread,
    )


async def _leave_question(core: RunCore, asked: str) -> None:
    """Have it in the log that a tool gives its question up before the tool goes on: it may act then."""
    left = ev.ToolQuestionLeft(key=asked)
    if core.actor is None or core.delivery.is_closing or not core.history.questions.is_open(asked):
        return
    core.history.questions.fold(left)
    recorded = asyncio.ensure_future(core.writer.commit(left))
    while not recorded.done():
        with suppress(asyncio.CancelledError):  # the tool hears of the first
            await asyncio.wait((recorded,))
    recorded.result()


async def _charge(core: RunCore, key: str, amount: int, *, refused: Callable[[], None]) -> None:
    """Charge what a tool spends. Errors: `InsufficientFunds`, `LimitReached`, before it is spent."""
    source = source_for(core)
    counts = tuple(Count(scope, unit, use=amount) for scope, unit in sorted(core.capped) if unit == "usd")
    await core.writer.commit(
        ev.ToolCharged(
            key=key, cost=amount, once=True, counts=counts, postings=(Posting(source, "spent", USD, amount),)
        ),
        refusable=True,
        refused=refused,
        guard=funds_guard(core, source=source, amount=amount),
    )
