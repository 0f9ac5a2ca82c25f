"""The status of a run: one enum that knows its successors, and the one place where a drive sets it.

The views record the same statuses from events, by the same rules: `kernel/view.py`.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from artelier.errors import CorruptStore


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
