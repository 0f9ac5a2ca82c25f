"""What the kernel needs of a tool, and what a tool is given when it runs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from decimal import Decimal
from typing import Any, Literal, Protocol

import msgspec

from artelier.ports.model import ToolSchema

Risk = Literal["low", "medium", "high"]


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What a person said: `decision` is `approve`, `deny` or `edit`."""

    decision: Literal["approve", "deny", "edit"]
    note: str = ""
    arguments: Any = None
    by: str = ""


class ToolContext:
    """What a running tool may know and do. The kernel makes it; a tool only receives it."""

    __slots__ = (
        "_ask",
        "_cancelled",
        "_progress",
        "_spend",
        "deadline_us",
        "idempotency_key",
        "principal",
        "run_id",
        "tenant_id",
    )

    def __init__(
        self,
        *,
        run_id: str,
        tenant_id: str,
        principal: str,
        idempotency_key: str,
        deadline_us: int | None,
        progress: Callable[[str], None],
        spend: Callable[[int], Awaitable[None]],
        cancelled: Callable[[], bool],
        ask: Callable[[str, Mapping[str, Any] | None], Awaitable[Answer]],
    ) -> None:
        self.run_id = run_id
        self.tenant_id = tenant_id
        self.principal = principal
        self.idempotency_key = idempotency_key
        """Stable over retries and resume: hand it to the outside system."""
        self.deadline_us = deadline_us
        """Microseconds since the epoch by which the tool must be done, or None."""
        self._progress = progress
        self._spend = spend
        self._cancelled = cancelled
        self._ask = ask

    @property
    def cancelled(self) -> bool:
        """Whether somebody asked this run to stop."""
        return self._cancelled()

    def progress(self, note: str = "") -> None:
        """Say that the tool is alive; silence longer than its `heartbeat_timeout_s` means it hangs."""
        self._progress(note)

    async def spend(self, usd: Decimal | str) -> None:
        """Charge real money to the run's budget. Errors: `InsufficientFunds`, before anything is spent."""
        from artelier.money import parse_usd

        await self._spend(parse_usd(usd))

    async def ask(self, question: str, details: Mapping[str, Any] | None = None) -> Answer:
        """Wait durably until a person answers; the process may die and restart meanwhile."""
        return await self._ask(question, details)


class ToolPort(Protocol):
    """A tool as the kernel drives it.

    `side_effect=True` and not `idempotent`: dispatched once per decision, never repeated unasked.
    """

    name: str
    description: str
    side_effect: bool
    idempotent: bool
    grant: str | None
    """The grant a run needs; None means `tools:<name>`."""
    timeout_s: float | None
    heartbeat_timeout_s: float | None
    risk: Risk
    trust: str
    """Trust label of its results: `trusted` or `untrusted`."""

    @property
    def schema(self) -> ToolSchema: ...

    def validate(self, arguments: Any) -> dict[str, Any]:
        """Checked keyword arguments. Errors: `InvalidArguments` with a text that a model can act on."""
        ...

    async def call(self, arguments: dict[str, Any], context: ToolContext) -> Any:
        """Run it; the value must be JSON-encodable."""
        ...

    @property
    def probe(self) -> Callable[[str, dict[str, Any]], Awaitable[Any]] | None:
        """`probe(idempotency_key, arguments)` asks the outside system what became of a call.

        It returns the result if the call happened, raises `ToolFailed` if it surely did not, and
        `TransientError` if it cannot tell.
        """
        ...
