"""Planted bugs: each breaks one promise, so that it can be seen that torture finds such a bug.

A plant wraps an inner function of the kernel for the time of a trial. Production code knows nothing of it.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import replace
from typing import Any

import msgspec

import artelier.kernel.budget
import artelier.kernel.history.drift
import artelier.kernel.run.delivery
import artelier.kernel.steps.model_call
import artelier.kernel.tool_calls.compensation_plan
import artelier.kernel.tool_calls.tool_outcome
import artelier.kernel.tool_calls.tool_step
import artelier.ledger.view
import artelier.log.writer
from artelier.errors import InvalidRequest
from artelier.kernel.tool_calls.dispatches import Dispatches
from artelier_lab.torture.missions.plants import MISSION_PLANTS
from artelier_lab.torture.schedules.plants import SCHEDULE_PLANTS
from artelier_lab.torture.world.plants import WORLD_PLANTS


@contextmanager
def _wrapped(owner: Any, name: str, wrap: Callable[[Any], Any]) -> Generator[None]:
    """Replace `owner.name` by `wrap(owner.name)` for a while."""
    before = getattr(owner, name)
    setattr(owner, name, wrap(before))
    try:
        yield
    finally:
        setattr(owner, name, before)


def _double_step() -> AbstractContextManager[None]:
    """A tool step that is recorded as completed is executed again when its run is resumed."""
    steps, entry = artelier.kernel.tool_calls.tool_step, artelier.kernel.tool_calls.tool_outcome

    def wrap(replayed: Any) -> Any:
        async def replayed_and_repeated(core: Any, recorded: Any, ask: Any) -> Any:
            result = await replayed(core, recorded, ask)
            port = core.tools.get(ask.name)
            if port is not None and core.actor is not None and not result.is_error:
                beat = entry.Heartbeat(core)
                call = Dispatches().begin((), recorded.key)
                context = entry.context_of(core, port, recorded.key, beat, call)
                with suppress(Exception):
                    await port.call(port.validate(ask.arguments), context)
            return result

        return replayed_and_repeated

    return _wrapped(steps, "replay_result", wrap)


def _unbalanced_posting() -> AbstractContextManager[None]:
    """Whoever receives money receives a little more than was given."""

    def wrap(post: Any) -> Any:
        def post_and_add(event: Any, posting: Any, tx: Any) -> None:
            post(event, posting, tx)
            tx.execute(
                "UPDATE accounts SET balance = balance + 1 WHERE tenant = ? AND account = ? AND asset = ?",
                (event.stream.tenant, posting.target, posting.asset),
            )

        return post_and_add

    return _wrapped(artelier.ledger.view, "_post", wrap)


def _repeated_payment() -> AbstractContextManager[None]:
    """A side effect whose outcome is hidden is simply tried again."""
    steps = artelier.kernel.tool_calls.tool_step

    def wrap(settle: Any) -> Any:
        async def settle_by_trying(
            core: Any, tool: Any, arguments: Any, ask: Any, key: str, code: str, **more: Any
        ) -> Any:
            if tool is None or code == "planted":
                return await settle(core, tool, arguments, ask, key, code, **more)
            return await getattr(steps, "_dispatch")(core, tool, arguments, ask, key)  # noqa: B009

        return settle_by_trying

    return _wrapped(steps, "_settle_unknown", wrap)


def _believed_probe() -> AbstractContextManager[None]:
    """An effect that has not happened counts as one that never happens, whoever may still act."""

    def wrap(is_over: Any) -> Any:
        def always(calls: Any, process: Any, key: str) -> bool:
            return True

        return always

    return _wrapped(Dispatches, "is_over", wrap)


def _forgotten_hold() -> AbstractContextManager[None]:
    """The rest of a hold stays held after the call."""

    def wrap(settle: Any) -> Any:
        def settle_and_keep(reservation: Any, **facts: Any) -> Any:
            settlement = settle(reservation, **facts)
            return replace(settlement, postings=settlement.postings[:1])

        return settle_and_keep

    return _wrapped(artelier.kernel.steps.model_call, "settle", wrap)


def _forgiven_overrun() -> AbstractContextManager[None]:
    """An overrun of a provider is written down, and nobody asks for it."""

    def wrap(check: Any) -> Any:
        def check_nothing(*given: Any) -> None:
            return None

        return check_nothing

    return _wrapped(artelier.kernel.budget, "check_available", wrap)


def _unbilled_cancel() -> AbstractContextManager[None]:
    """A call that ends without usage costs nothing."""

    def wrap(settle_call: Any) -> Any:
        def settle_known(core: Any, ready: Any, **facts: Any) -> Any:
            facts["is_sent"] = facts.get("usage") is not None
            return settle_call(core, ready, **facts)

        return settle_known

    return _wrapped(artelier.kernel.steps.model_call, "settle_call", wrap)


def _changed_prompt() -> AbstractContextManager[None]:
    """The adapter gets another prompt than the one that is recorded."""

    def wrap(called: Any) -> Any:
        async def called_with_more(core: Any, ready: Any, attempt: int) -> Any:
            request = ready.request
            last = msgspec.structs.replace(request.messages[-1], content=f"{request.messages[-1].text} ")
            changed = msgspec.structs.replace(request, messages=(*request.messages[:-1], last))
            measured = replace(ready.assembled.measured, request=changed)
            assembled = replace(ready.assembled, measured=measured)
            return await called(core, replace(ready, assembled=assembled), attempt)

        return called_with_more

    return _wrapped(artelier.kernel.steps.model_call, "_call_once", wrap)


def _unfenced() -> AbstractContextManager[None]:
    """A worker that was taken for dead may go on writing."""

    def wrap(check: Any) -> Any:
        def check_nothing(writer: Any, fence: Any, *, builds: bool) -> None:
            return None

        return check_nothing

    return _wrapped(artelier.log.writer.Writer, "_check_fence", wrap)


def _twice_undone() -> AbstractContextManager[None]:
    """Whoever asks again undoes again what was undone."""

    def wrap(has_undone: Any) -> Any:
        def has_not(attempt: Any) -> bool:
            return False

        return has_not

    return _wrapped(artelier.kernel.tool_calls.compensation_plan, "_has_undone", wrap)


def _left_standing() -> AbstractContextManager[None]:
    """A run that goes on as a fork forgets what it did as the run that it left."""

    def wrap(owned: Any) -> Any:
        async def only_own(services: Any, tenant: str, row: Any) -> Any:
            return {row.id: row.run}

        return only_own

    return _wrapped(artelier.kernel.tool_calls.compensation_plan, "_owned_streams", wrap)


def _forgotten_version() -> AbstractContextManager[None]:
    """Whoever resumes a run goes by the newest version, whatever it began with."""

    def wrap(version: Any) -> Any:
        async def newest(core: Any, change: str, *, latest: int, default: int) -> int:
            return latest

        return newest

    return _wrapped(artelier.kernel.history.drift, "version", wrap)


@contextmanager
def _tolerated_drift() -> Generator[None]:
    """Changed code is given what was recorded for another call."""

    def wrap(check: Any) -> Any:
        def check_nothing(core: Any, recorded: Any, ask: Any) -> None:
            return None

        return check_nothing

    with (
        _wrapped(artelier.kernel.tool_calls.tool_outcome, "check_arguments", wrap),
        _wrapped(artelier.kernel.tool_calls.tool_step, "check_arguments", wrap),
    ):
        yield


def _acting_fork() -> AbstractContextManager[None]:
    """A fork acts as its origin did."""

    def wrap(acts: Any) -> Any:
        def never(tool: Any) -> bool:
            return False

        return never

    return _wrapped(artelier.kernel.tool_calls.tool_step, "acts_outside", wrap)


def _forgotten_cancellation() -> AbstractContextManager[None]:
    """A step that the code of a run cancels leaves no trace."""

    def wrap(take_down: Any) -> Any:
        def forget(delivery: Any) -> None:
            delivery.pending = []

        return forget

    return _wrapped(artelier.kernel.run.delivery.Delivery, "take_down", wrap)


SAGA_PLANTS: dict[str, Callable[[], AbstractContextManager[None]]] = {
    "twice-undone": _twice_undone,
    "left-standing": _left_standing,
    "forgotten-version": _forgotten_version,
    "tolerated-drift": _tolerated_drift,
}

PROBE_PLANTS: dict[str, Callable[[], AbstractContextManager[None]]] = {"believed-probe": _believed_probe}

PLANTS: dict[str, Callable[[], AbstractContextManager[None]]] = {
    "double-step": _double_step,
    "unbalanced-posting": _unbalanced_posting,
    "repeated-payment": _repeated_payment,
    "forgotten-hold": _forgotten_hold,
    "forgiven-overrun": _forgiven_overrun,
    "unbilled-cancel": _unbilled_cancel,
    "changed-prompt": _changed_prompt,
    "unfenced": _unfenced,
    "acting-fork": _acting_fork,
    "forgotten-cancellation": _forgotten_cancellation,
    **SAGA_PLANTS,
    **PROBE_PLANTS,
    **WORLD_PLANTS,
    **SCHEDULE_PLANTS,
    **MISSION_PLANTS,
}


def planted(name: str | None) -> AbstractContextManager[None]:
    """The bug of that name, as long as it is open. Errors: `InvalidRequest` for an unknown one."""
    if name is None:
        return nullcontext()
    if name not in PLANTS:
        raise InvalidRequest("no such plant", expected=", ".join(sorted(PLANTS)), got=name)
    return PLANTS[name]()
