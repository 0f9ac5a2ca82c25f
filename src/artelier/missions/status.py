"""The status of tasks and goals: the states that there are, and what can follow what.

A task's status is stored in one column of the view, and set by one function there (`view._move`). A goal
has no status of its own: it stands as its tasks do.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from artelier.kernel.run.status import FINAL

ONCE_MORE = "once more: `artelier tasks retry "
"""In the message of a goal that failed: what a retry of the goal leaves, and how to try that again."""


class TaskStatus(StrEnum):
    """The status of a task.

        pending ─────▶ active    its run begins
        pending ◀────▶ blocked   what it depends on will not be done; it was reopened or freed
        active  ─────▶ done      an evaluation has passed
        active  ─────▶ failed | blocked      its loop ends otherwise
        done | failed | blocked ─────▶ active     a retry goes on
        done ◀──────▶ failed     a person rejects or accepts what it made; of a blocked one too
        pending | active | blocked ──▶ cancelled ──▶ pending      wanted again

    An event that a person or a mission has asked for does nothing where it came too late: where the status
    that it leads to does not follow. What a run records of its own task is a fact and always holds.
    """

    PENDING = "pending"
    ACTIVE = "active"
    BLOCKED = "blocked"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def successors(self) -> frozenset[TaskStatus]:
        """The statuses that can follow this one."""
        return _SUCCESSORS[self]

    @property
    def stored(self) -> str:
        """The form in the view: a task that has not ended says no more than that; its run says the rest."""
        return "" if self in (TaskStatus.PENDING, TaskStatus.ACTIVE) else self.value

    @property
    def predecessors(self) -> frozenset[str]:
        """The stored forms of the statuses that this one can follow."""
        return frozenset(one.stored for one in TaskStatus if self in one.successors)

    def can_become(self, other: TaskStatus) -> bool:
        """Return True if the other status can follow this one."""
        return other in self.successors

    @property
    def keeps_waiting(self) -> bool:
        """True of a status in which nothing that depends on the task can begin, now or later by itself."""
        return self in (TaskStatus.FAILED, TaskStatus.BLOCKED, TaskStatus.CANCELLED)


_SUCCESSORS = {
    TaskStatus.PENDING: frozenset((TaskStatus.ACTIVE, TaskStatus.BLOCKED, TaskStatus.CANCELLED)),
    TaskStatus.ACTIVE: frozenset(
        (TaskStatus.DONE, TaskStatus.FAILED, TaskStatus.BLOCKED, TaskStatus.CANCELLED)
    ),
    TaskStatus.BLOCKED: frozenset(
        (TaskStatus.PENDING, TaskStatus.ACTIVE, TaskStatus.DONE, TaskStatus.FAILED, TaskStatus.CANCELLED)
    ),
    TaskStatus.DONE: frozenset((TaskStatus.ACTIVE, TaskStatus.FAILED)),
    TaskStatus.FAILED: frozenset((TaskStatus.ACTIVE, TaskStatus.DONE)),
    TaskStatus.CANCELLED: frozenset((TaskStatus.PENDING,)),
}


def status_of(ended: str, run_status: str | None) -> TaskStatus:
    """Return where a task stands: what its loop said, else what its run says.

    A run that is out of budget has done nothing wrong: its task is blocked until somebody raises the limit.
    """
    if run_status == "cancelled":
        return TaskStatus.CANCELLED
    if ended:
        return TaskStatus(ended)
    if run_status is None:
        return TaskStatus.PENDING
    if run_status == "budget_exhausted":
        return TaskStatus.BLOCKED
    return TaskStatus.FAILED if run_status in ("failed", "completed") else TaskStatus.ACTIVE


def reason_of(reason: str, run_status: str | None, run_reason: str | None) -> str:
    """Return why a task stands where it stands: what its loop said, else its run."""
    if run_status in ("cancelled", "budget_exhausted"):
        return run_status
    return reason or (run_reason if run_status == "failed" and run_reason else "")


TASKS_FAILED = "tasks_failed"
"""The code with which a mission fails that has worked on all it could."""

GOAL_REASONS = {"failed": TASKS_FAILED, "blocked": "tasks_blocked"}
"""Why a goal stands otherwise than its run has ended, as a code."""

REASONS = {
    "max_iterations": "used all its iterations without meeting the criteria",
    "stuck": "decided the same again and again without new evidence",
    "decision_invalid": "got replies from its model that were no decision",
    "budget_exhausted": "stopped at its budget",
    "rejected": "was rejected by a person",
    "model_refused_call": "was refused by its model's provider",
    "provider_unavailable": "found its model's provider unavailable at every attempt",
    "rate_limited": "met its provider's rate limit at every attempt",
    "output_invalid": "got no reply from its model in the form that it needs",
    "model_timeout": "waited for its model as long as is allowed, at every attempt",
    "model_reply_broken": "got replies from its model's provider that could not be read",
    "context_too_long": "had more to show its model than that takes",
    "media_not_taken": "has an image, a sound or a file that its model does not take",
    "offline_cannot": "needs more than the offline model does with certainty",
    "unknown_model": "asks a model that nobody here provides",
    "missing_key": "asks a model whose provider's key is not set",
    "price_unknown": "asks a model of unknown price",
    "not_granted": "needed something that it is not granted",
    "access_denied": "needed something that it may not use",
    "limit_reached": "met a limit",
    "insufficient_funds": "could not pay for its next call",
    "quota_reached": "could store nothing more under its tenant's quota",
    "too_many_at_once": "needed more at once than its tenant may have",
    "store_full": "could record nothing more: the server's disk is full",
    "store_unavailable": "could record nothing: the server's database did not answer",
    "store_locked": "could record nothing: another program held the server's database",
    "erased": "needed content that was erased since",
    "locked": "needed content that is sealed under a key which is not there",
    "replay_mismatch": "was begun by code that has changed since",
    "mission_cancelled": "was cancelled with its goal",
    "cancelled": "was cancelled",
}
"""What happened to a task that is not done, by the code of its reason."""


def reason_sentence(name: str, *, status: str, reason: str, blocked_by: str) -> str:
    """Return why a task is not done, as a sentence that names it."""
    lacks = short_name(blocked_by)
    if reason == "dependency_failed":
        return f"{name} waits for {lacks or 'another task'}, which is not done."
    if reason == "missing_input":
        return f"{name} lacks {lacks}." if lacks else f"{name} could not go on with what there is."
    plain = f"failed ({reason})" if status == "failed" and reason else f"is {status}"
    return f"{name} {REASONS.get(reason, plain)}."


def short_name(ref: str) -> str:
    """Return the last part of an id, without a version."""
    return ref.partition("@")[0].rpartition("/")[2]


_GOALS = (
    (TaskStatus.ACTIVE, "running"),
    (TaskStatus.PENDING, "pending"),
    (TaskStatus.FAILED, "failed"),
    (TaskStatus.BLOCKED, "blocked"),
)
"""What a goal is of which a task is that, the first that applies."""


def goal_status(tasks: Iterable[str], *, run_status: str) -> str:
    """Return where a goal stands, from where its own tasks stand. Pure; their order does not matter.

    While the run of the goal has not ended, that says what it is at; a goal without tasks is its run. A goal
    of which nothing has failed and something is blocked is `blocked`: it goes on with what is missing.
    """
    found = set(tasks)
    if run_status not in FINAL or not found:
        return run_status
    if found == {TaskStatus.DONE}:
        return "completed"
    return next((goal for status, goal in _GOALS if status in found), "cancelled")
