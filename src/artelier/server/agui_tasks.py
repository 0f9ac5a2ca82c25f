"""The status of tasks, folded from the log, as a state of AG-UI with its changes as JSON patches."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

from artelier.missions.job import LOOP
from artelier.missions.view import status_of

_RUN = {
    "run.started": "running", "run.reopened": "running", "run.resumed": "running",
    "run.exhausted": "budget_exhausted", "run.completed": "completed", "run.failed": "failed",
    "run.cancelled": "cancelled",
}  # fmt: skip
"""Kind of an event to the status that its run has from then on."""


@dataclass(slots=True)
class _Known:
    """The parts of a task's status."""

    ended: str = ""
    run: str | None = None
    shown: dict[str, Any] = field(
        default_factory=lambda: {"iteration": 0, "reason": "", "outputs": []}
    )


@dataclass(slots=True)
class Tasks:
    """Tasks by id, each `{status, reason, iteration, max_iterations, agent, outputs}`."""

    _known: dict[str, _Known] = field(default_factory=dict[str, _Known])

    def copied(self) -> dict[str, Any]:
        return {id_: deepcopy(one.shown) for id_, one in self._known.items()}

    def take(
        self, stream: str, id_: str, kind: str, data: dict[str, Any], *, loop: str
    ) -> list[dict[str, Any]]:
        """The patch that an event makes; empty if nothing changes. `loop` is that of a run's stream."""
        task = str(data.get("task", "")) if kind == "task.blocked" else id_
        before = deepcopy(self._known[task].shown) if task in self._known else None
        if stream == "artifact":
            self._of_artifact(task, kind, data)
        elif stream == "run" and kind == "task.blocked":
            self._blocked(task, data)
        elif stream == "run" and loop == LOOP:
            self._of_run(task, kind, data)
        known = self._known.get(task)
        if known is None:
            return []
        known.shown["status"] = status_of(known.ended, known.run)
        if known.shown == before:
            return []
        path = f"/tasks/{task.replace('~', '~0').replace('/', '~1')}"
        return [{"op": "add", "path": path, "value": deepcopy(known.shown)}]

    def _of_artifact(self, task: str, kind: str, data: dict[str, Any]) -> None:
        if kind == "task.created":
            self._known[task] = _Known()
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

    def _blocked(self, task: str, data: dict[str, Any]) -> None:
        known = self._known.get(task)
        if known is not None and not known.ended:
            known.ended, known.shown["reason"] = "blocked", data.get("reason", "")

    def _of_run(self, task: str, kind: str, data: dict[str, Any]) -> None:
        if kind == "run.forked":
            origin = self._known.get(str(data.get("origin", "")))
            known = self._known[task] = _Known(run="running")
            if origin is not None:
                known.shown |= {
                    name: origin.shown.get(name) for name in ("agent", "max_iterations")
                }
            return
        known = self._known.setdefault(task, _Known())
        if kind in ("task.begun", "run.reopened"):
            known.ended, known.shown["reason"] = "", ""
        if kind == "task.begun":
            known.shown["agent"] = data.get("agent", "")
            known.shown["max_iterations"] = data.get("max_iterations")
        elif kind in ("decision.taken", "decision.invalid"):
            known.shown["iteration"] = data["iteration"]
        elif kind == "task.ended":
            known.ended = data["status"]
            known.shown["reason"] = data.get("reason", "")
            known.shown["outputs"] = list(data.get("outputs", ()))
        self._run_is(known, kind, data)

    def _run_is(self, known: _Known, kind: str, data: dict[str, Any]) -> None:
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
