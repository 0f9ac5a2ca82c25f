"""One tool step in two phases: the request is durable before a side effect, the outcome is never guessed."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any, cast

import msgspec

from artelier.errors import (
    ArtelierError,
    Exhausted,
    InvalidArguments,
    NotGranted,
    RunStopped,
    RunSuspended,
    ToolFailed,
    TransientError,
)
from artelier.kernel import events as ev
from artelier.kernel.budget import TENANT, UNLIMITED
from artelier.kernel.core import OutOfTime, RunCore
from artelier.kernel.failures import code_of, words
from artelier.kernel.history import Recorded
from artelier.kernel.manifest import UNENCODABLE, canonical
from artelier.kernel.results import Approval, ToolResult
from artelier.ledger import Count, Posting
from artelier.log import Blob, BlobRef
from artelier.money import USD
from artelier.ports.tool import Answer, ToolContext, ToolPort

PREVIEW_CHARS = 2_000
"""Characters of a large result that a model is shown, half from its head and half from its tail."""

PROBE_TIMEOUT_S = 60.0
"""For the probe of a tool without a timeout of its own; a probe that hangs cannot tell."""

RESULT_INVALID = "tool_result_invalid"
"""Code of a port's word that the tool has returned, and only its result is no JSON."""

RISKS = {"low": 0, "medium": 1, "high": 2}


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolAsk:
    """What a caller asks of a tool step."""

    name: str
    arguments: Any
    call_id: str = ""


class Unresolved(Exception):
    """A side-effecting call whose outcome is hidden; `code` says how it became so."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


async def tool_step(core: RunCore, ask: ToolAsk, *, key: str | None) -> ToolResult:
    """Errors: see `Run.step_tool`."""
    parent, key = core.begin(key)
    try:
        recorded = await core.recorded(key, "tool")
        if recorded is not None and recorded.status == "completed":
            return await _replayed(core, recorded, ask)
        await core.boundary()
        if recorded is not None:
            recorded = _taken_over(core, recorded)
        return await _live(core, ask, key, recorded)
    finally:
        core.end(parent)


def _taken_over(core: RunCore, recorded: Recorded) -> Recorded | None:
    """An unfinished call as this run must see it, which a fork may have found at its origin.

    A side effect of the origin was dispatched once, and its outcome is as unknown to the fork. Anything
    else is simply asked for again.
    """
    if recorded.owner and recorded.owner != core.run_id:
        core.owners[recorded.key] = recorded.owner
    if not recorded.inherited:
        return recorded
    request = recorded.request
    if not isinstance(request, ev.ToolRequested) or not request.side_effect:
        core.owners.pop(recorded.key, None)
        return None
    core.writer.note(msgspec.structs.replace(request, counts=()))
    return Recorded(key=recorded.key, kind="tool", request=request)


async def _live(core: RunCore, ask: ToolAsk, key: str, recorded: Recorded | None) -> ToolResult:
    request = recorded.request if recorded is not None else None
    if recorded is not None and isinstance(request, ev.ToolRequested):
        # What was dispatched is what is dispatched again, a person's edits included.
        _check_arguments(core, recorded, ask)
        arguments = msgspec.json.decode(await core.load(request.arguments))
        ask = replace(ask, name=request.name, arguments=arguments)
    tool = core.tools.get(ask.name)
    try:
        tool, arguments = _checked(core, ask, tool)
    except ArtelierError as error:
        if isinstance(request, ev.ToolRequested) and request.side_effect:
            # It was dispatched once; a registry that changed since cannot undo that.
            return await _settle_unknown(core, None, {}, ask, key, error.code)
        return _refused(core, ask, key, error)
    if recorded is not None:
        return await _again(core, tool, arguments, ask, recorded)
    asked: BlobRef | None = None
    blobs: list[Blob] = []
    if (answer := await _approved(core, tool, ask, key)) is not None:
        if not answer:
            return _refused(core, ask, key, ToolFailed(f"a person denied this call: {answer.note}"))
        if answer.decision == "edit":
            asked, blobs = core.keep_json(ask.arguments)
            ask = replace(ask, arguments=answer.arguments)
            try:
                arguments = tool.validate(ask.arguments)
            except ArtelierError as error:
                return _refused(core, ask, key, error)
    ref, more = core.keep_json(ask.arguments)
    blobs = [*blobs, *more]
    once = tool.side_effect and not tool.idempotent
    counts = tuple(
        Count(scope, unit, use=1) for scope, unit in sorted(core.capped) if unit == "steps"
    )
    requested = ev.ToolRequested(
        key=key, name=ask.name, arguments=ref, asked=asked, side_effect=once, counts=counts
    )
    if counts:
        await _commit_counted(core, requested, blobs)
    elif once:
        await core.writer.commit(requested, blobs=blobs)
    else:
        core.writer.note(requested, blobs)
        core.writer.flush()
    core.services.at("tool.requested")
    return await _dispatch(core, tool, arguments, ask, key)


async def _commit_counted(core: RunCore, requested: ev.ToolRequested, blobs: list[Blob]) -> None:
    """A step that a cap counts. Errors: `RunSuspended` if there is no room left for it."""
    try:
        await core.writer.commit(requested, blobs=blobs, refusable=True)
    except Exhausted as error:
        await core.refused(error)


def _checked(core: RunCore, ask: ToolAsk, tool: ToolPort | None) -> tuple[ToolPort, dict[str, Any]]:
    """Errors: what a model is told instead of a result, before anything is dispatched."""
    if tool is None:
        names = ", ".join(sorted(core.tools)) or "none"
        raise ToolFailed(f"there is no tool {ask.name[:80]!r}", expected=f"one of: {names[:1000]}")
    grant = tool.grant or f"tools:{tool.name}"
    if not core.may_use(grant):
        raise NotGranted(f"this run may not use {tool.name!r}", expected=f"the grant {grant}")
    return tool, tool.validate(ask.arguments)


def _error_value(error: ArtelierError) -> dict[str, Any]:
    return {"error": error.to_wire()}


def _refused(core: RunCore, ask: ToolAsk, key: str, error: ArtelierError) -> ToolResult:
    value = _error_value(error)
    content = canonical(value)
    ref, blob = core.keep(content)
    core.writer.note(
        ev.ToolRefused(key=key, name=ask.name[:200], code=error.code, result=ref),
        [blob],
    )
    return ToolResult(value=value, is_error=True, key=key, call_id=ask.call_id, content=content)


async def _approved(core: RunCore, tool: ToolPort, ask: ToolAsk, key: str) -> Approval | None:
    """A person's answer where the policy asks for one; None where it does not."""
    threshold = core.policy.approve_risk
    if threshold is None or RISKS[tool.risk] < RISKS[threshold]:
        return None
    from artelier.kernel.waits import approve

    return await approve(
        core, f"call {tool.name}", {"tool": tool.name, "arguments": ask.arguments},
        key=f"{key}/approval", exact=True,
    )  # fmt: skip


# What is found on resume


async def _again(
    core: RunCore, tool: ToolPort, arguments: dict[str, Any], ask: ToolAsk, recorded: Recorded
) -> ToolResult:
    """A step that was asked for and has no outcome: run it again only if that is known to be safe."""
    key, request = recorded.key, recorded.request
    once = isinstance(request, ev.ToolRequested) and request.side_effect
    if recorded.status == "retry" or (not once and recorded.status == "requested"):
        await core.writer.commit(ev.ToolRetried(key=key))
        return await _dispatch(core, tool, arguments, ask, key)
    if recorded.status == "requested":
        return await _settle_unknown(core, tool, arguments, ask, key, "crash")
    raise core.suspend("unknown_outcome", key)


async def _settle_unknown(
    core: RunCore,
    tool: ToolPort | None,
    arguments: dict[str, Any],
    ask: ToolAsk,
    key: str,
    code: str,
) -> ToolResult:
    """Ask the tool's probe; without an answer the run stops until a person settles it."""
    if tool is not None and tool.probe is not None:
        try:
            async with asyncio.timeout(tool.timeout_s or PROBE_TIMEOUT_S):
                value = await tool.probe(idempotency_key(core, key), arguments)
        except ToolFailed as error:
            return await _completed(core, ask, key, error, ms=0, settled_by="probe", wait=True)
        except Exception:
            # Whatever went wrong, the probe could not tell: that is what unresolved means.
            value = None
        else:
            return await _completed(core, ask, key, value, ms=0, settled_by="probe", wait=True)
    await core.writer.commit(ev.ToolUnresolved(key=key, code=code))
    raise core.suspend("unknown_outcome", key)


def idempotency_key(core: RunCore, key: str) -> str:
    """Stable over retries and resume, different for every step of every run of every tenant."""
    return f"{core.tenant.id}/{core.owners.get(key, core.run_id)}:{key}"


# The call


async def _dispatch(
    core: RunCore, tool: ToolPort, arguments: dict[str, Any], ask: ToolAsk, key: str
) -> ToolResult:
    once = tool.side_effect and not tool.idempotent
    started_us = core.clock.now_us()
    try:
        value = await _entered(core, tool, arguments, key)
    except ToolFailed as error:
        value = error
    except RunSuspended:
        raise
    except RunStopped:
        raise
    except asyncio.CancelledError:
        await _interrupted(core, once=once, key=key)
        await core.writer.commit(ev.ToolRetried(key=key))
        return await _dispatch(core, tool, arguments, ask, key)
    except OutOfTime:
        if once:
            return await _settle_unknown(core, tool, arguments, ask, key, "deadline")
        await core.out_of_time()
    except Exception as error:
        core.writer.check()  # what the store refused the tool's own questions is no error of the tool
        if once and code_of(error) != RESULT_INVALID:
            return await _settle_unknown(core, tool, arguments, ask, key, code_of(error))
        value = _as_error(error)
    ms = (core.clock.now_us() - started_us) // 1000
    core.services.at("tool.returned")
    return await _completed(core, ask, key, value, ms=ms, wait=once)


def _as_error(error: Exception) -> ArtelierError:
    if isinstance(error, ArtelierError):
        return error
    if isinstance(error, TimeoutError):
        return ToolFailed("the tool took too long and was stopped")
    return ToolFailed(f"{type(error).__name__}: {words(error)[:1000]}")


async def _entered(core: RunCore, tool: ToolPort, arguments: dict[str, Any], key: str) -> Any:
    """Run the tool under its timeout and heartbeat; harmless ones are retried when they say so."""
    once = tool.side_effect and not tool.idempotent
    beat = _Heartbeat(core)
    attempts = 1 if once else core.policy.attempts_max
    for attempt in range(1, attempts + 1):
        context = _context(core, tool, key, beat)
        try:
            with core.flight(harmless=not once):
                async with core.within(tool.timeout_s) as beat.limit:
                    if tool.heartbeat_timeout_s is None:
                        return await tool.call(arguments, context)
                    return await beat.watch(tool, arguments, context)
        except TransientError:
            if attempt == attempts:
                raise
        await core.rest(core.policy.backoff_s * 2 ** (attempt - 1))
    raise AssertionError("unreachable: the last attempt returns or raises")


class _Heartbeat:
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

    async def watch(self, tool: ToolPort, arguments: dict[str, Any], context: ToolContext) -> Any:
        limit_us = int((tool.heartbeat_timeout_s or 0) * 1_000_000)
        self._last_us = self._core.clock.now_us()
        work = asyncio.ensure_future(tool.call(arguments, context))
        try:
            while not work.done():
                left_us = self._last_us + limit_us - self._core.clock.now_us()
                if self._asking:
                    left_us = limit_us
                if left_us <= 0:
                    raise TimeoutError(f"silent for {tool.heartbeat_timeout_s} s")
                sleep = asyncio.ensure_future(self._core.clock.sleep(left_us / 1_000_000))
                await asyncio.wait((work, sleep), return_when=asyncio.FIRST_COMPLETED)
                sleep.cancel()
            return work.result()
        finally:
            work.cancel()


def _context(core: RunCore, tool: ToolPort, key: str, beat: _Heartbeat) -> ToolContext:
    from artelier.kernel.waits import approve

    questions = 0

    async def ask(question: str, details: Mapping[str, Any] | None) -> Answer:
        nonlocal questions
        questions += 1
        with beat.asking():
            approval = await approve(
                core, question, details, key=f"{key}/ask/{questions}", by_tool=True
            )
        decision = "deny" if approval.decision == "expired" else approval.decision
        return Answer(
            decision=decision, note=approval.note, arguments=approval.arguments, by=approval.by
        )

    async def spend(amount: int) -> None:
        await _charge(core, key, amount)

    times = [core.deadline_us] if core.deadline_us is not None else []
    if tool.timeout_s:
        times.append(core.clock.now_us() + int(tool.timeout_s * 1_000_000))
    return ToolContext(
        run_id=core.run_id, tenant_id=core.tenant.id, principal=core.actor.name if core.actor else "",
        idempotency_key=idempotency_key(core, key),
        deadline_us=min(times, default=None),
        progress=beat.beat, spend=spend, ask=ask,
        cancelled=lambda: core.cancelled_reason is not None or core.stopping,
    )  # fmt: skip


async def _charge(core: RunCore, key: str, amount: int) -> None:
    """A tool spends real money. Errors: `InsufficientFunds`, `LimitReached`, before it is spent."""
    if amount <= 0:
        return
    source = UNLIMITED if core.tenant.budget is None else TENANT
    counts = tuple(
        Count(scope, unit, use=amount) for scope, unit in sorted(core.capped) if unit == "usd"
    )
    await core.writer.commit(
        ev.ToolCharged(
            key=key, cost=amount, postings=(Posting(source, "spent", USD, amount),), counts=counts
        ),
        refusable=True,
    )


async def _interrupted(core: RunCore, *, once: bool, key: str) -> None:
    """A call was cancelled. Returns when a harmless one may be made again.

    Errors: `RunSuspended` for a side effect, since what it did is unknown; `CancelledError` if the cancel
    came from outside; `RunStopped`, `RunSuspended` as the command wants.
    """
    ours = core.was_interrupted()
    if once:
        core.writer.note(ev.ToolUnresolved(key=key, code="cancelled"))
        core.writer.flush()
        suspended = core.suspend("unknown_outcome", key)
        if ours:
            raise suspended
    if not ours:
        raise asyncio.CancelledError
    await core.boundary()


# The outcome


async def _completed(
    core: RunCore,
    ask: ToolAsk,
    key: str,
    value: Any,
    *,
    ms: int,
    settled_by: str = "",
    wait: bool = False,
) -> ToolResult:
    """Record an outcome: of a side effect on arrival, of anything else with the next request."""
    is_error = isinstance(value, ArtelierError)
    if isinstance(value, ArtelierError):
        value = _error_value(value)
    try:
        content = canonical(value)
    except UNENCODABLE as error:
        # The tool ran; only its answer is unusable. That is an outcome, and it is recorded.
        is_error = True
        value = _error_value(
            InvalidArguments(f"the tool returned something that is no JSON: {words(error)[:200]}")
        )
        content = canonical(value)
    value = msgspec.json.decode(content)
    ref, blob = core.keep(content)
    artifact, shown = "", None
    if len(content) > core.policy.result_bytes_max:
        artifact, shown = await _as_artifact(core, key, content)
    event = ev.ToolCompleted(
        key=key, result=ref, is_error=is_error, ms=ms, artifact=artifact, settled_by=settled_by
    )
    blobs = [blob]
    if wait:
        await core.writer.commit(event, blobs=blobs)
        core.services.at("tool.completed")
    else:
        core.writer.note(event, blobs)
    return ToolResult(
        value=value, ref=artifact or None, is_error=is_error, key=key, call_id=ask.call_id,
        content=content, shown=shown,
    )  # fmt: skip


async def _as_artifact(core: RunCore, key: str, content: bytes) -> tuple[str, bytes]:
    """A large result as an artifact of its own, and what a model sees of it."""
    if core.store_result is None:
        return "", preview(content, "")
    try:
        artifact_id = await core.store_result(core, key, content)
    except ArtelierError:
        return "", preview(content, "")  # the outcome counts; the event holds all of it anyway
    return artifact_id, preview(content, artifact_id)


def result_id(run_id: str, key: str) -> str:
    """The id of the artifact that holds a step's large result; no two steps share one."""
    if "/" in run_id or "/" in key:  # else run `a`, step `b/c` and run `a/b`, step `c` would
        pair = sha256(f"{len(run_id)}:{run_id}{key}".encode()).hexdigest()[:16]
        return f"runs/{_id_part(run_id)}/{_id_part(key)}/{pair}"
    return f"runs/{_id_part(run_id)}/{_id_part(key)}"


def _id_part(text: str) -> str:
    """Text as a part of an artifact id: legal, bounded, and still unique."""
    clean = re.sub(r"[^A-Za-z0-9._:/-]+", "-", text).replace("::", ":")
    if clean == text and len(text) <= 56:
        return text
    return f"{clean[:39]}-{sha256(text.encode()).hexdigest()[:16]}"


def preview(content: bytes, ref: str) -> bytes:
    """Head, tail, size and ref of a large result as canonical JSON."""
    text = content.decode("utf-8", "replace")
    half = PREVIEW_CHARS // 2
    shown: dict[str, Any] = {"head": text[:half], "tail": text[-half:], "total_chars": len(text)}
    if ref:
        shown["ref"] = ref
        shown["read_with"] = "read_artifact(ref, offset, limit)"
    return canonical(shown)


async def _replayed(core: RunCore, recorded: Recorded, ask: ToolAsk) -> ToolResult:
    outcome = recorded.outcome
    artifact = ""
    if isinstance(outcome, ev.ToolRefused):
        content, is_error = await core.load(outcome.result), True
    elif isinstance(outcome, ev.ToolReconciled):
        content = await core.load(outcome.result) if outcome.result else b"null"
        is_error = outcome.answer == "failed"
    else:
        completed = cast(ev.ToolCompleted, outcome)
        content, is_error = await core.load(completed.result), completed.is_error
        artifact = completed.artifact
    _check_arguments(core, recorded, ask)
    large = len(content) > core.policy.result_bytes_max
    return ToolResult(
        value=msgspec.json.decode(content), ref=artifact or None, is_error=is_error, replayed=True,
        key=recorded.key, call_id=ask.call_id, content=content,
        shown=preview(content, artifact) if large else None,
    )  # fmt: skip


def _check_arguments(core: RunCore, recorded: Recorded, ask: ToolAsk) -> None:
    """Under `strict`, a recorded call must be the one that the code makes now."""
    request = recorded.request
    if not isinstance(request, ev.ToolRequested) or recorded.inherited or core.replay != "strict":
        return
    if request.name != ask.name:
        raise core.mismatch(recorded.key, "tool", expected=request.name, got=ask.name[:80])
    if (request.asked or request.arguments) != core.ref_of(ask.arguments):
        raise core.mismatch(recorded.key, "arguments")
