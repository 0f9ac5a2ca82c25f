"""The interface of a tool to the kernel, and the context that a tool is given when it runs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from typing import Any, Literal, Protocol, runtime_checkable

import msgspec

from artelier.errors import ArtelierError, Exhausted, InvalidArguments, InvalidRequest, ToolFailed
from artelier.ports.media import Medium
from artelier.ports.model import ToolSchema

Risk = Literal["low", "medium", "high"]


class PersonAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of a person: `decision` is `approve`, `deny` or `edit`; falsy if denied."""

    decision: Literal["approve", "deny", "edit"]
    note: str = ""
    arguments: Any = None
    by: str = ""
    media: tuple[Medium, ...] = ()
    """What is shown with the answer; stored already."""

    def __bool__(self) -> bool:
        return self.decision != "deny"


Answer = PersonAnswer
"""Deprecated: the name of `PersonAnswer` until it had to share it with a mission's answer."""


class ProbeAnswer(Enum):
    """Answers of a probe that bring no result."""

    NOT_HAPPENED = "not_happened"
    UNSURE = "unsure"

    def __repr__(self) -> str:
        return self.value


@dataclass(frozen=True, slots=True)
class Happened:
    """The answer of a probe that found the call's effect; see `happened`."""

    result: Any = None


def happened(result: object = None) -> Happened:
    """Return a probe's answer that the call has happened, with what it would have returned."""
    return Happened(result)


not_happened = ProbeAnswer.NOT_HAPPENED
"""A probe's answer that the call has not happened and, if nobody works on it any more, never will."""

unsure = ProbeAnswer.UNSURE
"""A probe's answer that nobody can tell yet; a person is asked."""


def _track_nothing() -> Callable[[], None]:
    return lambda: None


class ToolContext:
    """The context of a running tool. The kernel makes it; a tool only receives it."""

    __slots__ = (
        "_ask",
        "_cancelled",
        "_in_thread",
        "_progress",
        "_spend",
        "deadline_us",
        "fencing_token",
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
        fencing_token: int = 0,
        deadline_us: int | None,
        progress: Callable[[str], None],
        spend: Callable[[int], Awaitable[None]],
        cancelled: Callable[[], bool],
        ask: Callable[[str, Mapping[str, Any] | None, bool], Awaitable[PersonAnswer]],
        in_thread: Callable[[], Callable[[], None]] = _track_nothing,
    ) -> None:
        self.run_id = run_id
        self.tenant_id = tenant_id
        self.principal = principal
        self.idempotency_key = idempotency_key
        """Stable over retries and resume: hand it to the outside system."""
        self.fencing_token = fencing_token
        """Grows with each takeover of the run: an outside system that keeps the largest it has seen refuses a
        call of a process that was stopped before it made it."""
        self.deadline_us = deadline_us
        """Microseconds since the epoch by which the tool must be done, or None."""
        self._progress = progress
        self._spend = spend
        self._cancelled = cancelled
        self._ask = ask
        self._in_thread = in_thread

    @property
    def cancelled(self) -> bool:
        """True if somebody asked this run to stop."""
        return self._cancelled()

    def progress(self, note: str = "") -> None:
        """Say that the tool is alive; silence longer than its `heartbeat_timeout_s` means it hangs."""
        self._progress(note)

    def in_thread(self) -> Callable[[], None]:
        """Say that a thread works on this call; call what is returned when the thread has ended.

        A call that was cut off may act as long as its threads do, and a probe's `not_happened` counts only
        after that. A function that is not `async` needs none of this: its thread is known.
        """
        return self._in_thread()

    async def spend(self, usd: Decimal | str, *, before_acting: bool = False) -> None:
        """Charge real money to the run's budget, once per call: a later try of the call repeats its spends.

        `before_acting`: the tool says that it has done nothing yet, so that a refusal is a `ToolFailed`
        which the model reads. Without it, a side-effecting tool that lets the refusal pass has an unknown
        outcome, as with any error but `ToolFailed`: it may have acted first.
        Errors: `InsufficientFunds`, `LimitReached`, before anything is spent.
        """
        from artelier.money import parse_usd

        try:
            await self._spend(parse_usd(usd))
        except (Exhausted, InvalidRequest) as error:
            if not before_acting:
                raise
            raise ToolFailed(
                f"this cannot be paid: {error.message}", expected=error.expected, got=error.got
            ) from error

    async def ask(
        self, question: str, details: Mapping[str, Any] | None = None, *, before_acting: bool = False
    ) -> PersonAnswer:
        """Wait durably until a person answers; the process may die and restart meanwhile.

        A tool that was interrupted while it waited is entered again from its beginning, and gets the
        answers that were given. A side-effecting one is, only if it says `before_acting`: that it has done
        nothing before this question. Without it nobody can know, and the run waits in `unknown_outcome`.
        Of several such questions that were left open together, it gets the answers once all have come.
        A tool may give its question up, such as by `asyncio.timeout`, and act: then it may have acted.
        """
        return await self._ask(question, details, before_acting)


Compensate = Callable[[dict[str, Any], Any, ToolContext], Awaitable[Any]]


@runtime_checkable
class Reversible(Protocol):
    """The additional interface of a `ToolPort` whose completed calls can be undone."""

    @property
    def compensate(self) -> Compensate | None:
        """`compensate(arguments, result, context)` undoes a completed call; None: it cannot.

        `result` is the recorded one, and the context's idempotency key is the undoing's own. Raising
        `ToolFailed` says that nothing was undone; any other exception leaves the outcome unknown.
        """
        ...


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

    def validate(self, arguments: object) -> dict[str, Any]:
        """Checked keyword arguments. Errors: `InvalidArguments` with a text that a model can act on."""
        ...

    async def call(self, arguments: dict[str, Any], context: ToolContext) -> Any:
        """Run it; the value must be JSON-encodable."""
        ...

    @property
    def probe(self) -> Callable[[str, dict[str, Any]], Awaitable[object]] | None:
        """`probe(idempotency_key, arguments)` asks the outside system what became of a call.

        It returns `happened(result)`, `not_happened` or `unsure`; anything else that it returns is the result
        of a call that happened. Raising `ToolFailed` says that the call failed for good. Whatever else it
        raises leaves the outcome unknown.
        """
        ...


@runtime_checkable
class PerCallTool(Protocol):
    """A tool whose own facts hold for its worst call: what some calls do is milder.

    What wraps a tool without knowing this keeps the stricter facts.
    """

    def for_call(self, arguments: Mapping[str, Any], /) -> ToolPort:
        """The tool with the facts (side effect, risk) of one call, by its checked arguments."""
        ...


def for_call(tool: ToolPort, arguments: Mapping[str, Any]) -> ToolPort:
    """The tool as it is for one call."""
    return tool.for_call(arguments) if isinstance(tool, PerCallTool) else tool


def fit_arguments(tool: ToolPort, arguments: object) -> dict[str, Any]:
    """Return the arguments that a tool has checked.

    Errors: those of `validate`; `InvalidArguments` too for whatever else a check of the tool's own raises.
    """
    try:
        return tool.validate(arguments)
    except ArtelierError:
        raise
    except Exception as error:
        said = f"{type(error).__name__}: {error}".encode("utf-8", "replace").decode()
        raise InvalidArguments(
            f"arguments of `{tool.name}` do not pass its check: {said[:1_000]}",
            expected="arguments that the tool can check",
        ) from error
