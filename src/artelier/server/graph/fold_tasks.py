"""Tasks and goals: where each task stands, its iterations, and the agent that works on it.

Runs and artifacts have folded the event before, because a task's status follows its run's.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from artelier.missions.status import status_of
from artelier.missions.task.loop_state import GOES_ON
from artelier.missions.view import ACCEPTED, DEPENDENCY_FAILED, REJECTED
from artelier.server.graph.fold_runs import is_open, link
from artelier.server.graph.records import (
    Graph,
    GraphIteration,
    GraphMission,
    GraphTask,
    IterationMark,
    SeenEvent,
    id_of,
    mission_of,
)

_START = IterationMark()
_ENDS = ("done", "failed", "blocked", "cancelled")


def _follow(graph: Graph, task: GraphTask) -> None:
    """Let a task stand where its loop and its run say that it does."""
    run = graph.runs.get(task.id)
    ended = task.ended if task.ended in _ENDS else ""
    task.status = str(status_of(ended, run.status if run is not None else None))


def _task(graph: Graph, id_: str) -> GraphTask:
    if (known := graph.tasks.get(id_)) is None:
        graph.put_task(known := GraphTask(id=id_, mission=mission_of(id_)))
    return known


def _mark(task: GraphTask, event: SeenEvent, **changed: Any) -> None:
    last = task.marks[-1] if task.marks else _START
    task.marks.append(replace(last, seq=event.seq, **changed))


def _restand(graph: Graph, task: GraphTask, *, ended: str = "", reason: str = "", by: str = "") -> None:
    task.ended, task.reason, task.blocked_by = ended, reason, by
    _follow(graph, task)


def _defined(graph: Graph, event: SeenEvent) -> None:
    if not (id_ := event.text("task")):
        return
    task = _task(graph, id_)
    if event.kind == "task.created":
        task.mission = event.text("mission")
    task.parent = event.text("parent", task.parent)
    task.agent = event.text("agent")
    task.depends_on = event.strings("depends_on")
    task.inputs = event.strings("inputs")
    task.iterations_max = task.iterations_before + event.integer("max_iterations")
    graph.put_task(task)
    _follow(graph, task)
    if task.agent:
        _assign(graph, task)
    if event.kind == "task.created":
        for other in task.depends_on:
            link(graph, "depends", other, id_, event)


def _assign(graph: Graph, task: GraphTask) -> None:
    """Let the agent show this task, unless it works on another one."""
    agent = graph.agents.get(task.agent)
    current = graph.tasks.get(agent.task) if agent is not None and agent.task else None
    if current is not None and current.id != task.id and current.status in ("active", "pending"):
        return
    agent = graph.agent(task.agent)
    agent.task, agent.iterations_max = task.id, task.iterations_max


def _begun(graph: Graph, event: SeenEvent) -> None:
    task = _task(graph, event.id)
    task.agent, task.inputs = event.text("agent"), event.strings("inputs")
    task.iterations_max = task.iterations_before + event.integer("max_iterations")
    graph.put_task(task)
    _restand(graph, task)
    if not task.agent:
        return
    agent = graph.agent(task.agent)
    agent.run_id = agent.task = event.id
    agent.action, agent.iteration, agent.iterations_max = "", 0, task.iterations_max
    for ref in task.inputs:
        link(graph, "read", id_of(ref), task.agent, event)


def _iteration(graph: Graph, event: SeenEvent) -> GraphIteration | None:
    """Return the iteration that an event is about, made when it is the first; None without its task."""
    if (task := graph.tasks.get(event.id)) is None:
        return None
    n = event.integer("iteration")
    if n > task.iteration:
        _mark(task, event, iteration=n)
        task.iteration = n
    _follow(graph, task)
    found = next((one for one in reversed(task.iterations) if one.n == n), None)
    if found is None:
        found = GraphIteration(n=n, position=event.position, at_us=event.at_us)
        task.iterations.append(found)
    return found


def _decided(graph: Graph, event: SeenEvent) -> None:
    if (iteration := _iteration(graph, event)) is None:
        return
    reason = event.parsed("decision").get("reason")
    iteration.action, iteration.tool = event.text("action"), event.text("tool")
    iteration.reason = reason if isinstance(reason, str) else ""
    iteration.repeats, iteration.steering = event.integer("repeats"), event.text("steering")
    agent = graph.agents.get(graph.tasks[event.id].agent)
    if agent is not None:
        agent.iteration, agent.action = event.integer("iteration"), iteration.action
        agent.steering = iteration.steering


def _undecided(graph: Graph, event: SeenEvent) -> None:
    if (iteration := _iteration(graph, event)) is not None:
        iteration.is_error, iteration.code = True, "decision_invalid"
        iteration.reason = event.texts.get("mistakes", "")


def _acted(graph: Graph, event: SeenEvent) -> None:
    if (iteration := _iteration(graph, event)) is not None:
        iteration.acted_seq, iteration.artifact = event.seq, event.text("artifact")
        iteration.is_error, iteration.code = event.flag("is_error"), event.text("code")
    task = graph.tasks.get(event.id)
    for ref in event.strings("read"):
        link(graph, "read", id_of(ref), task.agent if task is not None else "", event)


def _judged(graph: Graph, event: SeenEvent) -> None:
    if (iteration := _iteration(graph, event)) is not None:
        summary = event.parsed("verdict").get("summary")
        iteration.judged_seq = event.seq
        iteration.passed, iteration.void = event.flag("passed"), event.text("void")
        iteration.summary = summary if isinstance(summary, str) else ""


def _ended(graph: Graph, event: SeenEvent) -> None:
    task = _task(graph, event.id)
    task.outputs, task.iteration = event.strings("outputs"), event.integer("iterations")
    ended, reason, by = event.text("status"), event.text("reason"), event.text("by")
    _restand(graph, task, ended=ended, reason=reason, by=by)
    _mark(
        task,
        event,
        iteration=task.iteration,
        ended=ended,
        reason=reason,
        blocked_by=by,
        outputs=[*task.outputs],
    )
    _hand_over(graph, task)


def _hand_over(graph: Graph, task: GraphTask) -> None:
    """Let an agent whose tasks go on side by side show one that it works on, as long as there is one."""
    agent = graph.agents.get(task.agent)
    if agent is None or agent.run_id != task.id:
        return
    for one in graph.tasks_of(agent.id):
        if not one.ended and is_open(graph.runs.get(one.id)):
            agent.run_id = agent.task = one.id
            agent.action = one.iterations[-1].action if one.iterations else ""
            agent.iteration, agent.iterations_max = one.iteration, one.iterations_max
            return


def _blocked(graph: Graph, event: SeenEvent) -> None:
    task = graph.tasks.get(event.text("task"))
    if task is not None and not task.ended:
        _restand(graph, task, ended="blocked", reason=event.text("reason"), by=event.text("by"))


def _cancelled(graph: Graph, event: SeenEvent) -> None:
    """A task that nobody had begun with is not to be done; one with a run ends with its run."""
    task = graph.tasks.get(event.text("task"))
    if task is not None and task.ended in ("", "blocked"):
        _restand(graph, task, ended="cancelled", reason="cancelled", by=task.blocked_by)


def _output_judged(graph: Graph, event: SeenEvent) -> None:
    """A person's word stands above what the loop and its evaluator have come to."""
    if (task := graph.tasks.get(event.text("task"))) is not None:
        ended, reason = ("done", ACCEPTED) if event.flag("accepted") else ("failed", REJECTED)
        _restand(graph, task, ended=ended, reason=reason)


def _wanted_again(graph: Graph, event: SeenEvent) -> None:
    if (task := graph.tasks.get(event.text("task"))) is not None:
        _restand(graph, task)


def _planned(graph: Graph, event: SeenEvent) -> None:
    cost = event.integer("cost", -1)
    graph.missions[event.id] = GraphMission(
        id=event.id,
        planned_us=event.at_us,
        calls_max=event.integer("calls"),
        cost_max=None if cost < 0 else cost,
    )


def _launched(graph: Graph, event: SeenEvent) -> None:
    if (mission := graph.missions.get(event.id)) is not None:
        mission.launched_us, mission.agents = event.at_us, event.strings("agents")
        mission.tasks, mission.membranes = event.strings("tasks"), event.strings("membranes")


def _counts_anew(mark: IterationMark) -> bool:
    """Return True if the limit counts from where a task had ended: as `task/loop_state.py` does it."""
    goes_on = mark.ended == "done" or mark.reason in GOES_ON
    return goes_on and not (mark.reason == "missing_input" and mark.iteration == 0)


def _reopened(graph: Graph, event: SeenEvent) -> None:
    """Keep the iterations; the limit counts anew where it was met, or the result was not accepted."""
    if (task := graph.tasks.get(event.id)) is None:
        return
    last = task.marks[-1] if task.marks else _START
    before = last.iteration if _counts_anew(last) else last.before
    task.iterations_max += before - task.iterations_before
    task.iterations_before = before
    _restand(graph, task)
    _mark(task, event, before=before, ended="", reason="", blocked_by="", outputs=[])
    agent = graph.agents.get(task.agent)
    if agent is not None and agent.task == event.id:
        agent.iterations_max = task.iterations_max


def _forked(graph: Graph, event: SeenEvent) -> None:
    """A fork of a task's run is a task of its own, with the iterations of the history that it shares, and the
    end in it: a fork from behind that says no other.
    """
    if (origin := graph.tasks.get(event.text("origin"))) is None:
        return
    at = event.integer("at")
    mark = next((one for one in reversed(origin.marks) if one.seq <= at), _START)
    task = GraphTask(
        id=event.id,
        mission=origin.mission,
        goal=origin.goal,
        criteria=origin.criteria,
        agent=origin.agent,
        parent=origin.parent,
        depends_on=[*origin.depends_on],
        inputs=[*origin.inputs],
        ended=mark.ended,
        reason=mark.reason,
        blocked_by=mark.blocked_by,
        outputs=[*mark.outputs],
        iteration=mark.iteration,
        iterations=[one.share(at) for one in origin.iterations if one.n <= mark.iteration],
        iterations_before=mark.before,
        iterations_max=origin.iterations_max - origin.iterations_before + mark.before,
        marks=[replace(mark, seq=0)],
    )
    graph.put_task(task)
    _follow(graph, task)
    # It is what its agent works on now: the receipt that says so is in the history that it shares.
    if origin.agent:
        agent = graph.agent(origin.agent)
        agent.run_id = agent.task = event.id
        agent.action = ""


_FOLDS: dict[str, Callable[[Graph, SeenEvent], None]] = {
    "task.created": _defined,
    "task.changed": _defined,
    "task.begun": _begun,
    "task.blocked": _blocked,
    "task.cancelled": _cancelled,
    "task.reopened": _wanted_again,
    "output.judged": _output_judged,
    "decision.taken": _decided,
    "decision.invalid": _undecided,
    "decision.executed": _acted,
    "task.evaluated": _judged,
    "task.ended": _ended,
    "mission.planned": _planned,
    "mission.launched": _launched,
    "run.reopened": _reopened,
    "run.forked": _forked,
}

_SETTLING = frozenset(
    (
        "task.created",
        "task.changed",
        "task.cancelled",
        "task.reopened",
        "task.blocked",
        "output.judged",
        "task.ended",
        "run.reopened",
        "run.failed",
        "run.cancelled",
    )
)
"""After these, others that wait for the task may be blocked or free."""


def fold_task(graph: Graph, event: SeenEvent) -> None:
    """Fold an event of a task, of its run or of a goal; others change nothing here."""
    if (fold := _FOLDS.get(event.kind)) is not None:
        fold(graph, event)
    task = graph.tasks.get(event.id)
    if task is not None and event.id in graph.runs:
        _follow(graph, task)
    if event.kind in _SETTLING:
        _settle(graph, event.text("task", event.id))


def _settle(graph: Graph, id_: str) -> None:
    """Block or free a task by what it depends on, and those that wait for it.

    No event says so, since nobody drives such a task yet. As the server's view does it; a mission at work
    says it of its own tasks. Cost: a look at each task behind one whose standing changes.
    """
    waiting = [*graph.dependants(id_), id_]
    while waiting:
        one = waiting.pop()
        if _settle_task(graph, one):
            waiting += graph.dependants(one)


def _settle_task(graph: Graph, id_: str) -> bool:
    """Return True if the standing of a task has changed by what stands before it."""
    task = graph.tasks.get(id_)
    if task is None or id_ in graph.runs:
        return False
    mission = graph.runs.get(task.mission)
    if task.mission and (mission is None or mission.status not in ("completed", "failed")):
        return False
    if task.ended and (task.ended, task.reason) != ("blocked", DEPENDENCY_FAILED):
        return False
    by = next((one for one in sorted(task.depends_on) if _is_in_the_way(graph, one)), "")
    ended = "blocked" if by else ""
    before = task.ended
    if (before, task.blocked_by) == (ended, by):
        return False
    task.ended, task.reason, task.blocked_by = ended, DEPENDENCY_FAILED if ended else "", by
    task.status = "blocked" if ended else "pending"
    return before != ended


def _is_in_the_way(graph: Graph, id_: str) -> bool:
    """Return True if a task has ended otherwise than done."""
    if (task := graph.tasks.get(id_)) is None:
        return False
    if task.ended:
        return task.ended != "done"
    run = graph.runs.get(id_)
    return run is not None and run.status in ("failed", "cancelled")
