"""Runs: their status, the step at work, what they spend, and who reads what by them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from artelier.kernel.run.status import FINAL
from artelier.server.graph.records import (
    RUN_STATUSES,
    FailedTry,
    Graph,
    GraphApproval,
    GraphEdge,
    GraphRun,
    SeenEvent,
    Spend,
    id_of,
    record,
)

Fold = Callable[[Graph, SeenEvent], None]


def link(graph: Graph, kind: str, source: str, target: str, event: SeenEvent) -> None:
    """Count one more of what goes from one to another."""
    if not source or not target or source == target:
        return
    id_ = f"{kind}:{source}>{target}"
    if (edge := graph.edges.get(id_)) is None:
        edge = graph.edges[id_] = GraphEdge(id=id_, kind=kind, source=source, target=target)
    edge.count += 1
    edge.last_position, edge.last_us = event.position, event.at_us


def is_open(run: GraphRun | None) -> bool:
    """Return True of a run that has not ended."""
    return run is not None and run.status not in FINAL


def _spend(graph: Graph, run_id: str, model: str, more: Spend) -> None:
    costs = graph.costs
    costs.total.add(more)
    if model:
        costs.by_model.setdefault(model, Spend()).add(more)
    if (run := graph.runs.get(run_id)) is None:
        return
    run.spend.add(more)
    if run.agent:
        graph.agent(run.agent).spend.add(more)


def _set_status(graph: Graph, id_: str, status: str, reason: str = "") -> None:
    """Let steps report: an ended run stays ended, a paused one paused. As the server's view does it."""
    run = graph.runs.get(id_)
    if run is not None and run.status not in FINAL and run.status != "paused":
        run.status, run.reason = status, reason


def _set_by_command(graph: Graph, id_: str, status: str, reason: str = "") -> None:
    """Do what a person decides about the whole run; only an end is stronger."""
    run = graph.runs.get(id_)
    if run is not None and run.status not in FINAL:
        run.status, run.reason = status, reason


def _end(status: str) -> Fold:
    def fold(graph: Graph, event: SeenEvent) -> None:
        run = graph.runs.get(event.id)
        if run is None or run.status in FINAL:
            return
        run.status, run.reason = status, event.text("reason")
        run.message = event.texts.get("message", event.texts.get("note", ""))
        run.ended_us = event.at_us
        run.rest()

    return fold


_cancel = _end("cancelled")


def _driven(event: SeenEvent) -> str:
    return "pending" if event.flag("queued") else "running"


def _blank(event: SeenEvent) -> GraphRun:
    return GraphRun(
        id=event.id,
        started_us=event.at_us,
        last_kind=event.kind,
        last_position=event.position,
        last_us=event.at_us,
    )


def _started(graph: Graph, event: SeenEvent) -> None:
    run = graph.runs[event.id] = _blank(event)
    run.loop, run.agent = event.text("loop"), event.text("agent")
    run.model, run.parent = event.text("model"), event.text("parent")
    run.goal = event.texts.get("goal", "")
    if not run.agent:
        return
    agent = graph.agent(run.agent)
    agent.run_id, agent.last_us = event.id, event.at_us
    parent = graph.runs.get(run.parent)
    if parent is not None and parent.agent:
        link(graph, "delegated", parent.agent, run.agent, event)


def _forked(graph: Graph, event: SeenEvent) -> None:
    origin = event.text("origin")
    before = graph.runs.get(origin)
    run = graph.runs[event.id] = _blank(event)
    run.origin, run.status = origin, "pending"
    if before is not None:
        run.loop, run.agent, run.model, run.goal = before.loop, before.agent, before.model, before.goal


def _resumed(graph: Graph, event: SeenEvent) -> None:
    status, run = _driven(event), graph.runs.get(event.id)
    asked = next(
        (one for one in graph.approvals.values() if one.run_id == event.id and not one.decision), None
    )
    if status == "pending":
        _set_by_command(graph, event.id, status)
    elif asked is not None:
        _set_by_command(graph, event.id, "waiting_approval", asked.key)
    elif run is not None and run.waits:
        _set_by_command(graph, event.id, "waiting")
    else:
        _set_by_command(graph, event.id, status)


def _drifted(graph: Graph, event: SeenEvent) -> None:
    """Its code had changed: the run is over, and what it was about is done by its fork."""
    _cancel(graph, event)
    run = graph.runs.get(event.id)
    if run is not None and run.status == "cancelled":
        run.reason, run.successor = "drifted", event.text("fork")


def _asked(graph: Graph, event: SeenEvent) -> None:
    key, question = event.text("key"), event.parsed("question")
    expires_us, words = event.integer("expires_us", -1), question.get("question")
    id_ = f"{event.id}#{key}"
    graph.approvals[id_] = GraphApproval(
        id=id_,
        run_id=event.id,
        key=key,
        question=words if isinstance(words, str) else event.texts.get("question", ""),
        details=record(question.get("details")),
        asked_us=event.at_us,
        expires_us=None if expires_us < 0 else expires_us,
    )
    _set_status(graph, event.id, "waiting_approval", key)


def _answered(graph: Graph, event: SeenEvent) -> None:
    approval = graph.approvals.get(f"{event.id}#{event.text('key')}")
    if approval is not None:
        approval.decision, approval.by = event.text("decision"), event.actor
    _set_status(graph, event.id, _driven(event))


def _suspended(graph: Graph, event: SeenEvent) -> None:
    status = event.text("status")
    if status in RUN_STATUSES:
        _set_status(graph, event.id, status, event.text("reason"))
    _rest(graph, event)


def _wait(graph: Graph, event: SeenEvent) -> None:
    if (run := graph.runs.get(event.id)) is None:
        return
    if (key := event.text("key")) not in run.waits:
        run.waits.append(key)
    _set_status(graph, event.id, "waiting", event.text("name", "timer"))


def _go_on(graph: Graph, event: SeenEvent) -> None:
    if (run := graph.runs.get(event.id)) is None:
        return
    key = event.text("key")
    run.waits = [one for one in run.waits if one != key]
    _set_status(graph, event.id, "running")


def _do(graph: Graph, event: SeenEvent, what: str) -> None:
    if (run := graph.runs.get(event.id)) is not None:
        run.rest()
        run.doing, run.doing_us = what, event.at_us


def _rest(graph: Graph, event: SeenEvent) -> None:
    if (run := graph.runs.get(event.id)) is not None:
        run.rest()


def _bill(graph: Graph, event: SeenEvent) -> None:
    """Count what a provider bills for a call without a reply."""
    if (cost := event.integer("cost")) > 0:
        run = graph.runs.get(event.id)
        _spend(graph, event.id, run.model if run is not None else "", Spend(microusd=cost))


def _attempted(graph: Graph, event: SeenEvent) -> None:
    _bill(graph, event)
    if (run := graph.runs.get(event.id)) is not None:
        failed = FailedTry(
            code=event.text("code"),
            at_us=event.at_us,
            wait_ms=event.integer("wait_ms"),
            attempt=event.integer("attempt"),
            attempts_max=event.integer("attempts_max"),
        )
        run.failed_tries.append(failed)


def _hold_of(event: SeenEvent) -> int:
    counts, wanted = event.data.get("counts"), f"run:{event.id}"
    for count in cast("list[Any]", counts) if isinstance(counts, list) else ():
        if not isinstance(count, list) or len(found := cast("list[Any]", count)) < 3:
            continue
        scope, unit, reserve = found[:3]
        if (scope, unit) == (wanted, "usd") and isinstance(reserve, int) and not isinstance(reserve, bool):
            return max(0, reserve)
    return 0


def _hold(graph: Graph, event: SeenEvent, amount: int) -> None:
    name, held = f"{event.id} {event.text('key')}", graph.costs.held
    if amount > 0:
        held[name] = amount
    else:
        held.pop(name, None)


def _model_requested(graph: Graph, event: SeenEvent) -> None:
    model, run = event.text("model"), graph.runs.get(event.id)
    if model and run is not None:
        run.model = model  # not every beginning names one, and a run may ask several
    _hold(graph, event, _hold_of(event))
    _do(graph, event, f"model {model}")


def _model_completed(graph: Graph, event: SeenEvent) -> None:
    is_unpriced, run = event.flag("unpriced"), graph.runs.get(event.id)
    _hold(graph, event, 0)
    if run is not None:
        run.rest()
        run.prompt_tokens = event.integer("input_tokens")
        run.prompt_cached_tokens = event.integer("cached_input_tokens")
    more = Spend(
        calls=1,
        microusd=0 if is_unpriced else event.integer("cost"),
        input_tokens=event.integer("input_tokens"),
        cached_tokens=event.integer("cached_input_tokens"),
        output_tokens=event.integer("output_tokens"),
        unpriced=int(is_unpriced),
    )
    _spend(graph, event.id, run.model if run is not None else "", more)


def _model_failed(graph: Graph, event: SeenEvent) -> None:
    _hold(graph, event, 0)
    _rest(graph, event)
    _bill(graph, event)


def _assembled(graph: Graph, event: SeenEvent) -> None:
    """A prompt that holds an artifact: its agent has read it."""
    run, parts = graph.runs.get(event.id), event.data.get("parts")
    if run is None or not run.agent or not isinstance(parts, list):
        return
    read = set[str]()
    for part in cast("list[Any]", parts):
        sources = record(part).get("src")
        for source in cast("list[Any]", sources) if isinstance(sources, list) else ():
            artifact = id_of(source) if isinstance(source, str) else ""
            if artifact not in read and artifact in graph.artifacts:
                read.add(artifact)
                link(graph, "read", artifact, run.agent, event)


def _exhausted(graph: Graph, event: SeenEvent) -> None:
    reason = event.text("reason") or f"{event.text('unit')} of {event.text('scope')}"
    _set_status(graph, event.id, "budget_exhausted", reason)
    if (run := graph.runs.get(event.id)) is not None:
        run.asked_microusd = event.integer("asked") if event.text("unit") == "usd" else 0


def _reopened(graph: Graph, event: SeenEvent) -> None:
    if (run := graph.runs.get(event.id)) is not None:
        run.status, run.reason, run.ended_us, run.message = "pending", "", None, ""


def _paused(graph: Graph, event: SeenEvent) -> None:
    _set_by_command(graph, event.id, "paused", "stopped" if event.flag("stopped") else "")


def _cycled(graph: Graph, event: SeenEvent) -> None:
    if (run := graph.runs.get(event.id)) is not None:
        run.cycles = event.integer("cycle")


_FOLDS: dict[str, Fold] = {
    "run.started": _started,
    "run.forked": _forked,
    "run.resumed": _resumed,
    "run.paused": _paused,
    "run.suspended": _suspended,
    "run.exhausted": _exhausted,
    "run.completed": _end("completed"),
    "run.failed": _end("failed"),
    "run.cancelled": _cancel,
    "run.drifted": _drifted,
    "run.reopened": _reopened,
    "approval.requested": _asked,
    "approval.given": _answered,
    "wait.started": _wait,
    "wait.ended": _go_on,
    "cycle.completed": _cycled,
    "context.assembled": _assembled,
    "model.requested": _model_requested,
    "model.completed": _model_completed,
    "model.failed": _model_failed,
    "model.attempted": _attempted,
    "tool.requested": lambda graph, event: _do(graph, event, event.text("name")),
    "tool.retried": lambda graph, event: _set_status(graph, event.id, "running"),
    "tool.completed": _rest,
    "tool.charged": lambda graph, event: _spend(graph, event.id, "", Spend(microusd=event.integer("cost"))),
    "tool.unresolved": lambda graph, event: _set_status(
        graph, event.id, "unknown_outcome", event.text("key")
    ),
    "tool.reconciled": lambda graph, event: _set_status(graph, event.id, _driven(event)),
}


def fold_run(graph: Graph, event: SeenEvent) -> None:
    """Fold any event of a run's stream: also one of an unknown kind moves its last sign of life."""
    if (fold := _FOLDS.get(event.kind)) is not None:
        fold(graph, event)
    if (run := graph.runs.get(event.id)) is None:
        return
    run.last_kind, run.last_position, run.last_us = event.kind, event.position, event.at_us
    if run.agent and (agent := graph.agents.get(run.agent)) is not None:
        agent.last_us = event.at_us
