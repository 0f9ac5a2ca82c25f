"""What people tell runs, as the kernel of a tenant offers it: pause, resume, answer, settle, limit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from artelier.errors import InvalidRequest
from artelier.kernel import queries, reconcile
from artelier.money import parse_usd
from artelier.operations.commanding import give

if TYPE_CHECKING:
    from artelier.kernel import Services, TenantState
    from artelier.log import EventData

UNSAID: Any = object()
"""Stands for an argument that was not given where None is a legal value."""


class Desk(Protocol):
    """The kernel bound to one tenant, as far as this needs it."""

    @property
    def id(self) -> str: ...

    @property
    def services(self) -> Services: ...

    async def state(self) -> TenantState: ...

    def keep_alive(self) -> None: ...


class CommandsHandle:
    """Methods of `TenantKernel`."""

    async def pause(self: Desk, run_id: str, *, by: str = "operator", note: str = "") -> EventData:
        return await _give(self, run_id, "pause", by=by, payload=note or None)

    async def resume(self: Desk, run_id: str, *, by: str = "operator") -> EventData:
        """Let a paused run go on; one that nobody drives becomes `pending`."""
        return await _give(self, run_id, "resume", by=by)

    async def cancel(self: Desk, run_id: str, *, by: str = "operator", note: str = "") -> EventData:
        """End a run for good, and its children. What a turn of a chat has said so far is kept in the chat."""
        return await _give(self, run_id, "cancel", by=by, payload=note or None)

    async def stop(self: Desk, run_id: str, *, by: str = "operator", note: str = "") -> EventData:
        """Cancel the call in flight and pause; what was produced is kept with its cost."""
        return await _give(self, run_id, "stop", by=by, payload=note or None)

    async def retry(self: Desk, run_id: str, *, by: str = "operator") -> EventData:
        """Reopen a failed run: its failed steps are executed again. Errors: `Conflict`, also for a chat's."""
        return await _give(self, run_id, "retry", by=by)

    async def limit(
        self: Desk, run_id: str, *, unit: str, cap: int | str | None, by: str = "operator"
    ) -> EventData:
        """Set or lift (`cap=None`) a cap of a run, its children included.

        Units:  `usd` in dollars as text, `tokens` and `steps` as counts, `ms` of wall time.
        """
        if unit not in ("usd", "tokens", "steps", "ms"):
            raise InvalidRequest("unit of a limit", expected="usd, tokens, steps or ms", got=unit)
        amount = cap if cap is None else parse_usd(cap) if unit == "usd" else int(cap)
        if amount is not None and amount < 0:
            raise InvalidRequest("a cap", expected="at least 0", got=amount)
        choice = "" if amount is None else str(amount)
        return await _give(self, run_id, "limit", by=by, key=unit, choice=choice)

    async def inject(self: Desk, run_id: str, note: str, *, by: str = "operator") -> EventData:
        return await _give(self, run_id, "inject", by=by, payload=note)

    async def signal(
        self: Desk, run_id: str, name: str, data: Any = None, *, by: str = "operator"
    ) -> EventData:
        return await _give(self, run_id, "signal", by=by, key=name, payload=data)

    async def approve(
        self: Desk,
        run_id: str,
        step: str | None = None,
        *,
        deny: bool = False,
        arguments: Any = None,
        note: str = "",
        by: str = "operator",
    ) -> EventData:
        """Answer an approval. Without `step`, the run's only open one.

        Errors: `NotFound` if none is open, which names children that ask; `InvalidRequest` for several.
        """
        if step is None:
            step = await queries.only_approval(self.services, self.id, run_id)
        decision = "deny" if deny else "edit" if arguments is not None else "approve"
        return await _give(self, 
            run_id, "answer", by=by, key=step, choice=decision,
            payload={"arguments": arguments, "note": note},
        )  # fmt: skip

    async def reconcile(
        self: Desk,
        run_id: str,
        step: str,
        *,
        succeeded: Any = UNSAID,
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
            self.services, await self.state(), run_id, step, answer=given[0],
            result=succeeded if failed is None else failed, by=by,
        )  # fmt: skip


async def _give(desk: Desk, run_id: str, verb: str, **command: Any) -> EventData:
    await desk.state()
    desk.keep_alive()
    return await give(desk, run_id, verb, **command)
