"""The status of tasks, folded from the log, as a state of AG-UI with its changes as JSON patches."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from artelier.missions.status import status_of
from artelier.missions.task.loop_state import counts_anew, last_iteration
from artelier.missions.task.task_config import LOOP

_RUN = {
    "run.started": "running",
    "run.reopened": "running",
    "run.resumed": "running",
    "run.exhausted": "budget_exhausted",
    "run.completed": "completed",
    "run.failed": "failed",
    "run.cancelled": "cancelled",
}
"""Kind of an event to the status that its run has from then on."""


class _Mark(NamedTuple):
    """The progress of a task's loop at an event of its run: forks begin with it."""

    seq: int = 0
    iteration: int = 0
    before: int = 0
    """The iteration after which the limit counts."""
    ended: str = ""
    reason: str = ""


@dataclass(slots=True)
class _KnownTask:
    """The parts of a task's status."""

    ended: str = ""
    run: str | None = None
    marks: list[_Mark] = field(default_factory=lambda: [_Mark()])
    """Oldest first; the last is how it stands."""
    shown: dict[str, Any] = field(default_factory=lambda: {"iteration": 0, "reason": "", "outputs": []})

    def mark(self, seq: int, **changed: Any) -> None:
        """Note what an event changed in the progress of the loop."""
        self.marks.append(self.marks[-1]._replace(seq=seq, **changed))

    def to_show(self) -> dict[str, Any]:
        """Return it as clients see it."""
        most = self.shown.get("max_iterations")
        last = None if most is None else last_iteration(self.marks[-1].before, most)
        return deepcopy(self.shown) | {"last_iteration": last}


@dataclass(slots=True)
class TaskStates:
    """Tasks by id, each `{status, reason, iteration, max_iterations, last_iteration, agent, outputs}`."""

    _known: dict[str, _KnownTask] = field(default_factory=dict[str, _KnownTask])

    def copy_shown(self) -> dict[str, Any]:
        return {id_: one.to_show() for id_, one in self._known.items()}

    def take(
        self, stream: str, id_: str, kind: str, data: dict[str, Any], *, loop: str, seq: int
    ) -> list[dict[str, Any]]:
        """The patch that an event makes; empty if nothing changes. `loop` is that of a run's stream,
        `seq` the event's in its stream."""
        task = str(data.get("task", "")) if kind == "task.blocked" else id_
        before = self._known[task].to_show() if task in self._known else None
        if stream == "artifact":
            self._of_artifact(task, kind, data)
        elif stream == "run" and kind == "task.blocked":
            self._block(task, data)
        elif stream == "run" and loop == LOOP:
            self._of_run(task, kind, data, seq)
        known = self._known.get(task)
        if known is None:
            return []
        known.shown["status"] = status_of(known.ended, known.run)
        after = known.to_show()
        if after == before:
            return []
        path = f"/tasks/{task.replace('~', '~0').replace('/', '~1')}"
        return [{"op": "add", "path": path, "value": after}]

    def _of_artifact(self, task: str, kind: str, data: dict[str, Any]) -> None:
        if kind == "task.created":
            self._known[task] = _KnownTask()
        known = self._known.get(task)
        if known is None:
            return
        if kind in ("task.created", "task.changed"):
            known.shown["agent"] = data.get("agent", "")
            known.shown["max_iterations"] = data.get("max_iterations")
        elif kind == "task.cancelled" and known.ended in ("", "blocked"):
            known.ended, known.shown["reason"] = "cancelled", "cancelled"
        elif kind == "task.reopened" and known.ended in ("cancelled", "blocked"):
            known.ended, known.shown["reason"] = "", ""

    def _block(self, task: str, data: dict[str, Any]) -> None:
        known = self._known.get(task)
        if known is not None and not known.ended:
            known.ended, known.shown["reason"] = "blocked", data.get("reason", "")

    def _of_run(self, task: str, kind: str, data: dict[str, Any], seq: int) -> None:
        if kind == "run.forked":
            self._fork(task, data)
            return
        known = self._known.setdefault(task, _KnownTask())
        at = known.marks[-1]
        if kind == "run.reopened":
            is_anew = counts_anew(at.ended, at.reason, at.iteration)
            before = at.iteration if is_anew else at.before
            known.mark(seq, before=before, ended="", reason="")
        if kind in ("task.begun", "run.reopened"):
            known.ended, known.shown["reason"] = "", ""
        if kind == "task.begun":
            known.shown["agent"] = data.get("agent", "")
            known.shown["max_iterations"] = data.get("max_iterations")
        elif kind in ("decision.taken", "decision.invalid"):
            known.shown["iteration"] = data["iteration"]
            known.mark(seq, iteration=data["iteration"])
        elif kind == "task.ended":
            known.ended = data["status"]
            known.shown["reason"] = data.get("reason", "")
            known.shown["outputs"] = list(data.get("outputs", ()))
            known.shown["iteration"] = number = data.get("iterations", 0)
            known.mark(seq, iteration=number, ended=data["status"], reason=data.get("reason", ""))
        self._run_is(known, kind, data)

    def _fork(self, task: str, data: dict[str, Any]) -> None:
        """A fork of a task's run is a task of its own, as far on as the history that it shares."""
        origin = self._known.get(str(data.get("origin", "")))
        known = self._known[task] = _KnownTask(run="running")
        if origin is None:
            return
        at = [one for one in origin.marks if one.seq <= data["at"]][-1]
        known.marks = [at._replace(seq=0)]
        known.shown |= {name: origin.shown.get(name) for name in ("agent", "max_iterations")}
        known.shown["iteration"] = at.iteration

    def _run_is(self, known: _KnownTask, kind: str, data: dict[str, Any]) -> None:
        status = str(data.get("status", "")) if kind == "run.suspended" else _RUN.get(kind)
        if status is None:
            return
        known.run = status
        if status in ("cancelled", "budget_exhausted"):
            known.shown["reason"] = status
        elif status == "failed" and not known.ended:
            known.shown["reason"] = data.get("reason", "")
        elif status == "running" and not known.ended:
            known.shown["reason"] = ""
