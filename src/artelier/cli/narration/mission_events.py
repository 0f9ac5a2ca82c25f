"""Events of missions and tasks as lines: plans, decisions, what came of them, verdicts, ends."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from artelier.cli import display
from artelier.cli.narration.narrator import Narration, NarrationLine, tells
from artelier.log import Event
from artelier.missions import events as ev
from artelier.money import format_usd

GOAL_CHARS = 140


def plan_lines(plan: Mapping[str, Any]) -> list[str]:
    """A plan as people read it: each task with its agent, what it waits for, and what it must fulfil."""
    names = {str(agent.get("slug")): str(agent.get("name")) for agent in plan.get("agents", ())}
    lines: list[str] = []
    for task in plan.get("tasks", ()):
        after = f", after {', '.join(task['depends_on'])}" if task.get("depends_on") else ""
        agent = names.get(str(task.get("agent")), str(task.get("agent")))
        most = display.count(int(task.get("max_iterations") or 0), "iteration")
        lines.append(
            f"{task.get('slug')}  {agent}{after}, at most {most}:"
            f" {display.line(str(task.get('goal')), chars_max=GOAL_CHARS)}"
        )
        criteria = display.line(str(task.get("success_criteria")), chars_max=GOAL_CHARS)
        lines.append(f"    done when: {criteria}")
    return lines


def estimate_line(calls: int, cost_microusd: int | None, is_limit: bool = False) -> str:
    """Return what a plan takes: about that, or at most that if it is enforced."""
    cost = "price unknown" if cost_microusd is None else f"{format_usd(cost_microusd)} USD"
    if is_limit and cost_microusd is not None:
        cost = f"at most {cost}"
    return f"about {display.count(calls, 'model call')}, {cost}"


@tells(ev.MissionPlanned)
async def _narrate_planned(story: Narration, data: ev.MissionPlanned, event: Event) -> list[NarrationLine]:
    plan = await story.fields(data.plan)
    agents, tasks = len(plan.get("agents", ())), len(plan.get("tasks", ()))
    made = f"planned  {display.count(agents, 'agent')}, {display.count(tasks, 'task')}"
    told = [NarrationLine(f"{made}: {estimate_line(data.calls, data.cost, data.is_limit)}", "bold")]
    return told + [NarrationLine(f"  {line}") for line in plan_lines(plan)]


@tells(ev.MissionLaunched)
async def _narrate_launched(story: Narration, data: ev.MissionLaunched, event: Event) -> list[NarrationLine]:
    edited = " as it was edited" if data.edited else ""
    told = [NarrationLine(f"launched{edited}", "bold green")]
    if data.edited:
        plan = await story.fields(data.plan)
        told += [NarrationLine(f"  {line}") for line in plan_lines(plan)]
    return told


@tells(ev.TaskBlocked)
async def _narrate_blocked(story: Narration, data: ev.TaskBlocked, event: Event) -> list[NarrationLine]:
    return [NarrationLine(f"{data.task} is blocked ({data.reason}: {data.by})", "yellow")]


@tells(ev.TaskBegun)
async def _narrate_begun(story: Narration, data: ev.TaskBegun, event: Event) -> list[NarrationLine]:
    reads = f", with {', '.join(data.inputs)}" if data.inputs else ""
    return [NarrationLine(f"begun by {data.agent}{reads}", "bold")]


@tells(ev.DecisionTaken)
async def _narrate_decision(story: Narration, data: ev.DecisionTaken, event: Event) -> list[NarrationLine]:
    decision = await story.fields(data.decision)
    what = data.action + (f" {data.tool}" if data.tool else "")
    if target := decision.get("target"):
        what += f" “{display.line(str(target), chars_max=80)}”"
    why = display.line(str(decision.get("reason") or ""), chars_max=200)
    stuck = ", again" if data.repeats else ""
    return [NarrationLine(f"{data.iteration}. {what}{stuck}{f': {why}' if why else ''}", "bold")]


@tells(ev.DecisionInvalid)
async def _narrate_invalid_decision(
    story: Narration, data: ev.DecisionInvalid, event: Event
) -> list[NarrationLine]:
    why = display.line(str(await story.json(data.mistakes) or ""), chars_max=300)
    return [NarrationLine(f"{data.iteration}. no decision: {why}", "red")]


@tells(ev.DecisionExecuted)
async def _narrate_execution(
    story: Narration, data: ev.DecisionExecuted, event: Event
) -> list[NarrationLine]:
    if data.artifact:
        return [NarrationLine(f"{data.iteration}. wrote {data.artifact}", "green")]
    if data.is_error:
        return [NarrationLine(f"{data.iteration}. {data.action} failed ({data.code})", "red")]
    return []


@tells(ev.TaskEvaluated)
async def _narrate_evaluation(story: Narration, data: ev.TaskEvaluated, event: Event) -> list[NarrationLine]:
    if data.passed:
        return [NarrationLine(f"{data.iteration}. evaluated: passed", "green")]
    why = f" (void: {data.void})" if data.void else ""
    verdict = await story.fields(data.verdict)
    missing = _missing(verdict)
    return [NarrationLine(f"{data.iteration}. evaluated: not passed{why}{missing}", "yellow")]


def _missing(verdict: Mapping[str, Any]) -> str:
    """Return what the first criterion lacks that is not met."""
    criteria: Any = verdict.get("criteria")
    for one in cast("list[Any]", criteria) if isinstance(criteria, list) else []:
        if isinstance(one, dict):
            fields = cast("dict[str, Any]", one)
            if not fields.get("met"):
                said = fields.get("missing") or fields.get("criterion") or ""
                return f": {display.line(str(said), chars_max=200)}"
    return ""


@tells(ev.TaskEnded)
async def _narrate_ended(story: Narration, data: ev.TaskEnded, event: Event) -> list[NarrationLine]:
    after = display.count(data.iterations, "iteration")
    if data.status == "done":
        return [NarrationLine(f"done after {after}: {', '.join(data.outputs)}", "bold green")]
    return [NarrationLine(f"{data.status} after {after} ({data.reason})", "bold red")]
