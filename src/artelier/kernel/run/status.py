"""The status of a run and the results of its steps: one enum that knows its successors, and frozen values.

The views record the same statuses from events, by the same rules: `kernel/view.py`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal, cast

from artelier.errors import CorruptStore, ToolFailed
from artelier.ports.media import Medium
from artelier.ports.model import ModelReply, ToolCall, Usage, reasoning_text

# --------------------------------------------------------------------------- status
# The status of a run: one enum that knows its successors, and the one place where a drive sets it.
#
# The views record the same statuses from events, by the same rules: `kernel/view.py`.


class RunStatus(StrEnum):
    """The status of a run.

        pending ──▶ running ◀──▶ waiting | waiting_approval | unknown_outcome | budget_exhausted
        any of these ──▶ pending      its process ends, or a command is queued; somebody should drive it
        any of these ◀──▶ paused      a person pauses and resumes it, whatever its steps report meanwhile
        any of these, or paused ──▶ completed | failed | cancelled
        failed ──▶ pending            reopened

    Steps run side by side, so a run goes from waiting for one thing straight to waiting for another.
    """

    PENDING = "pending"
    RUNNING = "running"
    PAUSED = "paused"
    WAITING = "waiting"
    WAITING_APPROVAL = "waiting_approval"
    UNKNOWN_OUTCOME = "unknown_outcome"
    BUDGET_EXHAUSTED = "budget_exhausted"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def is_final(self) -> bool:
        """True of a run that takes no steps any more unless it is reopened."""
        return self in (RunStatus.COMPLETED, RunStatus.FAILED, RunStatus.CANCELLED)

    @property
    def outlasts_steps(self) -> bool:
        """True of a status that no report of a step changes: that of an end, or a person's word."""
        return self.is_final or self is RunStatus.PAUSED

    @property
    def outlasts_interruption(self) -> bool:
        """True of a status that a run keeps when its process is interrupted."""
        return self in (RunStatus.WAITING, RunStatus.WAITING_APPROVAL, RunStatus.UNKNOWN_OUTCOME)

    @property
    def successors(self) -> frozenset[RunStatus]:
        """The statuses that can follow this one."""
        if not self.is_final:
            return frozenset(RunStatus) - {self}
        return frozenset((RunStatus.PENDING,) if self is RunStatus.FAILED else ())

    def can_become(self, other: RunStatus) -> bool:
        """Return True if the other status can follow this one, or is this one."""
        return other is self or other in self.successors


def quote_statuses(statuses: Iterable[RunStatus]) -> str:
    """Return statuses as an SQL list in parentheses."""
    return "(" + ", ".join(f"'{status.value}'" for status in statuses) + ")"


class StatusMachine:
    """The status of the run that a drive is at, as it says it to its code and to watchers."""

    def __init__(self) -> None:
        self._status = RunStatus.RUNNING
        self._is_undoing = False

    @property
    def status(self) -> RunStatus:
        return self._status

    @property
    def is_undoing(self) -> bool:
        """True if the drive undoes what the run has done, which has ended."""
        return self._is_undoing

    def enter(self, status: str, *, is_undoing: bool = False) -> None:
        """Take over a run in the status that the log gives it.

        `is_undoing`: what an ended run has done is undone. It keeps its end in the log; here its
        status is that of the undoing. Errors: `CorruptStore` for a status that no run has.
        """
        if status not in tuple(RunStatus):
            expected = ", ".join(RunStatus)
            raise CorruptStore("a run has a status that is none", expected=expected, got=repr(status[:40]))
        self._status, self._is_undoing = RunStatus(status), is_undoing

    def begin(self) -> None:
        """Begin a new run in this drive: the fork that goes on where its origin has ended."""
        self._status = RunStatus.RUNNING

    def report(self, status: str) -> None:
        """Set the status that a step reports. A run that has ended stays ended, whatever its steps say."""
        if self._is_undoing or not self._status.is_final:
            self._status = RunStatus(status)

    def become(self, status: RunStatus) -> None:
        """Set the status that a command, or the end of the drive, gives the run.

        Raises `AssertionError` if it cannot follow the status of the run: a mistake of the program.
        """
        if not self._is_undoing and not self._status.can_become(status):
            raise AssertionError(f"a run that is {self._status} does not become {status}")
        self._status = status

    def fail_unrecorded(self) -> None:
        """Fail the run, whatever it was to become: the batch that said so was refused."""
        self._status = RunStatus.FAILED


# --------------------------------------------------------------------------- results
# The results of steps and runs.

RESUMABLE = frozenset(one.value for one in RunStatus if not one.is_final)
FINAL = frozenset(one.value for one in RunStatus if one.is_final)
KERNEL = "kernel"
"""The actor of what no person and no code has said, such as the outcome of a call after its run's end."""

DRIFTED = "drifted"
"""Reason of a cancelled run that goes on as a fork of itself; the fork answers for what it has done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelResult:
    """The outcome of a model step."""

    output: Any = None
    """The structured output, validated, if a schema was asked for."""
    text: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    usage: Usage = field(default_factory=Usage)
    cost_microusd: int = 0
    replayed: bool = False
    """True if it was recorded earlier and nothing was called."""
    manifest_id: str = ""
    """`<run>:<step key>`, as `artelier manifest show` takes it."""
    finish_reason: str = "stop"
    key: str = ""
    reply: ModelReply | None = None
    max_output_tokens: int = 0
    """How much the model was allowed to write."""

    @property
    def reasoning(self) -> str:
        """Return what the model thought, as far as its provider shows it."""
        return "" if self.reply is None else reasoning_text(self.reply.parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolResult:
    """The outcome of a tool step. An error is a value too: `{"error": {code, message, ...}}`."""

    value: Any = None
    ref: str | None = None
    """The artifact that holds a large result."""
    is_error: bool = False
    replayed: bool = False
    key: str = ""
    call_id: str = ""
    content: bytes = b"null"
    """Canonical JSON of the value."""
    shown: bytes | None = None
    """What a model is shown instead of a large value: preview, size and ref, as JSON."""
    media: tuple[Medium, ...] = ()
    """Images, sounds, PDFs and texts that it came with."""
    settled_by: str = ""
    """Who told the outcome of a call that was cut off, `probe` or `person`; empty of any other."""

    def unwrap(self) -> Any:
        """Return the value of a call that succeeded.

        Errors: `ToolFailed` with the message of the recorded error; `facts["code"]` is the error's own code.
        """
        if not self.is_error:
            return self.value
        value: Any = self.value
        told: Any = cast("dict[str, Any]", value).get("error") if isinstance(value, dict) else None
        wire = cast("dict[str, Any]", told) if isinstance(told, dict) else {}
        raise ToolFailed(
            f"tool step {self.key} failed: {wire.get('message') or value}",
            expected=wire.get("expected"),
            got=wire.get("got"),
            hint=wire.get("hint"),
            code=wire.get("code", ToolFailed.code),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CompensationResult:
    """The steps of a run that were undone. Steps of children are named `<run>:<key>`."""

    run_id: str
    undone: tuple[str, ...] = ()
    """In that order, those that an earlier attempt has undone left out."""
    not_undone: tuple[str, ...] = ()
    """Side effects that stay: their tool has no `compensate`, or is not here, or the outcome is unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Approval:
    """A person's answer; falsy if denied or expired."""

    decision: Literal["approve", "deny", "edit", "expired"]
    arguments: Any = None
    """The edited arguments, with `edit`."""
    by: str = ""
    at: int = 0
    """Microseconds since the epoch."""
    note: str = ""
    media: tuple[Medium, ...] = ()
    """What is shown with the answer."""

    def __bool__(self) -> bool:
        return self.decision in ("approve", "edit")


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Caps of one run, its children included. None: no cap of its own.

    Said again of a run that exists, they must be those it was opened with, or those that hold; then the
    stored ones hold, also where an operator has raised them. Others are a `Conflict`.
    """

    usd: str | None = None
    """Dollars, such as `"0.50"`."""
    tokens: int | None = None
    steps: int | None = None
    wall_s: float | None = None
    """Seconds of wall time since its beginning."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentResult:
    """The result of a built-in loop."""

    status: str
    reason: str = ""
    output: Any = None
    text: str = ""
    run_id: str = ""
    usage: Usage = field(default_factory=Usage)
    """Of the run with all its children, and so is the cost."""
    cost_microusd: int = 0
    artifact: str = ""
    """Ref of the artifact that the result was written to, if any."""


def ended_hint(run_id: str, status: str, *, is_imported: bool) -> str:
    """Return what to do with a run that takes no steps here."""
    if is_imported:
        return f"Fork it: `artelier fork {run_id}`; an imported run is driven no more."
    if status == "failed":
        return f"Reopen it with `artelier retry {run_id}`, or fork it."
    if status in FINAL:
        return f"Fork it: `artelier fork {run_id}`."
    return f"It has not ended: let it go on first (`artelier resume {run_id}`), or fork it."
