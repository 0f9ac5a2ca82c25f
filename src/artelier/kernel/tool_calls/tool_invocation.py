"""Inside a tool: its timeout and heartbeat, its retries, and what its context lets it do."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine, Generator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

from artelier.errors import Exhausted, TransientError
from artelier.kernel import events as ev
from artelier.kernel.budget import funds_guard, source_for
from artelier.kernel.history.step_history import question_key
from artelier.kernel.run.context import RunCore
from artelier.kernel.run.waits import approve
from artelier.kernel.steps.model_step import RunPayer
from artelier.kernel.tool_calls import tool_outcome
from artelier.kernel.tool_calls.dispatches import Dispatch, Dispatches
from artelier.ledger import Count, Posting
from artelier.money import USD
from artelier.ports.memory import paid_by
from artelier.ports.tool import PersonAnswer, ToolContext, ToolPort

T = TypeVar("T")

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
        except TransientError as error:
            if attempt == attempts:
                raise
            tool_outcome.trace_retry(attempt, error, wait_s)
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
        with beat.asking():
            approval = await approve(
                core,
                question,
                details,
                key=question_key(key, questions),
                by_tool=True,
                before_acting=before_acting,
            )
        decision = "deny" if approval.decision == "expired" else approval.decision
        return PersonAnswer(
            decision=decision, note=approval.note, arguments=approval.arguments, by=approval.by
        )

    spent, charged = Counter[int](), core.charged[key]

    async def spend(amount: int) -> None:
        if amount <= 0:
            return
        spent[amount] += 1
        if spent[amount] <= charged[amount]:
            return  # a try before this one was charged for it
        charged[amount] += 1

        def take_back() -> None:
            charged[amount] -= 1
            spent[amount] -= 1

        try:
            await _charge(core, key, amount, refused=take_back)
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
        deadline_us=min(times, default=None),
        progress=beat.beat,
        spend=spend,
        ask=ask,
        cancelled=lambda: core.cancelled_reason is not None or core.stopping,
        in_thread=call.in_thread,
    )


def is_untouched(core: RunCore, key: str) -> bool:
    """Return True if a tool was interrupted in a question before which, it says, it has done nothing."""
    number, last = 1, None
    while (asked := core.questions.get(question_key(key, number))) is not None:
        number, last = number + 1, asked
    request = last.request if last is not None and last.outcome is None else None
    return isinstance(request, ev.ApprovalRequested) and request.before_acting


async def _charge(core: RunCore, key: str, amount: int, *, refused: Callable[[], None]) -> None:
    """Charge what a tool spends. Errors: `InsufficientFunds`, `LimitReached`, before it is spent."""
    source = source_for(core)
    counts = tuple(Count(scope, unit, use=amount) for scope, unit in sorted(core.counted) if unit == "usd")
    await core.writer.commit(
        ev.ToolCharged(
            key=key, cost=amount, once=True, counts=counts, postings=(Posting(source, "spent", USD, amount),)
        ),
        refusable=True,
        refused=refused,
        guard=funds_guard(core, source=source, amount=amount),
    )
