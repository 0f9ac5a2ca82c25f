"""Agents of missions: objects of the API, pages and searches of them, their making and changing, and work on
their tasks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, TypedDict, cast

from artelier.agents.agent_directory import AgentProfile, KnownAgent
from artelier.artifacts import Artifact
from artelier.artifacts.queries import ids_between, load
from artelier.errors import (
    AccessDenied,
    ArtelierError,
    Erased,
    InvalidRequest,
    NotFound,
    SequenceConflict,
    VersionConflict,
)
from artelier.ids import MAIN_SPACE, OPERATOR
from artelier.kernel import AgentResult
from artelier.kernel.queries.runs import agent_runs, find_run, runs_started, totals
from artelier.kernel.run_limits import cap_changed, plan_cap
from artelier.kernel.tenants.registry import TenantScope
from artelier.log import Batch, StreamAppend
from artelier.missions.definition import AgentContent, check_name, validate_form
from artelier.missions.membranes import checked_budget, checked_name
from artelier.missions.plan.launch import steering, toggles
from artelier.missions.plan.planner import MissionJob
from artelier.missions.queries import agent_ids, planned_of, standing_of, task_page
from artelier.missions.reports import AgentDetail, AgentReport, AgentToolState, SteeringReport, TaskReport
from artelier.missions.steering_document import AXES, Steering, effective
from artelier.missions.task.loop_state import agent_content
from artelier.missions.task.preview import offers, place_of, place_without_task, upcoming
from artelier.missions.task.task_handle import worked_on
from artelier.money import parse_usd

AT_WORK = {"running": "active", "pending": "active"}
"""Status of an agent by that of the run it works in; others are called as they are."""

TASKS_MAX = 1_000


async def create_agent(
    desk: Any,
    id: str,
    *,
    name: str,
    role: str = "",
    model: str | None = None,
    tools: Sequence[str] = (),
    budget_usd: str | None = None,
    by: str = OPERATOR,
) -> AgentDetail:
    """Make an agent with its steering, as one batch.

    Errors: `InvalidRequest`; `UnknownModel`, `MissingKey`; `VersionConflict` if the id is taken.
    """
    check_name(id, what="an agent")
    content = validate_form(
        AgentContent,
        {
            "name": name,
            "role": role,
            "model": model,
            "tools": list(tools),
            "steering_artifact_id": f"{id}/steering",
            "axes": {"x": list(AXES[0]), "y": list(AXES[1])},
        },
        what="the agent",
    )
    if model is not None:
        desk.services.model(model)
    await desk.state()
    artifacts = desk.as_principal(OPERATOR).artifacts.by(by)
    moved = steering(tools=toggles(tools, desk.services.tools), budget_usd=budget_usd, iterations=20)
    wishes = ((id, "agent", content.model_dump(mode="json")), (f"{id}/steering", "steering", moved))
    appends: list[Any] = []
    blobs: list[Any] = []
    for id_, kind, value in wishes:
        append, more, _ = await artifacts.plan_write(
            id_, kind=kind, content=value, access={"allow": {"read": [id]}}, expected_version=0
        )
        appends.append(append)
        blobs.extend(more)
    await desk.services.store.append(Batch(appends=appends, blobs=blobs))
    if budget_usd is not None:
        await desk.cap(f"agent:{id}", unit="usd", cap=budget_usd, by=by)
    return await agent_object(desk, id)


async def agents_of(desk: TenantScope, mission: str) -> list[AgentReport]:
    """Return the agents of a mission."""
    return [await agent_line(desk, agent) for agent in await agent_ids(desk, mission)]


async def agent_line(desk: TenantScope, agent: str) -> AgentReport:
    """Return an agent with the task that it works on. Errors: `NotFound`."""
    artifact = await desk.as_principal(OPERATOR).artifacts.look(agent)
    content = await _shown_content(desk, agent)
    mission = await mission_of(desk, artifact)
    tasks = await task_page(desk, mission=None, agent=agent, status=None, after=0, limit=TASKS_MAX)
    at = _at_work(tasks["items"])
    model = content.model or await _model_of(desk, mission)
    return {
        "id": agent,
        "name": content.name,
        "mission": mission or None,
        "status": _status(tasks["items"], at),
        "task": at["id"] if at else None,
        "iteration": at["iteration_count"] if at else 0,
        "max_iterations": at["max_iterations"] if at else 0,
        "last_iteration": at["last_iteration"] if at else 0,
        "model": model,
        "tasks": [task["id"] for task in tasks["items"]],
        **await _sums(desk, agent),
    }


async def _shown_content(desk: TenantScope, agent: str) -> AgentContent:
    try:
        return await agent_content(desk, agent)
    except Erased as error:
        return AgentContent(name=error.mark, role=error.mark)


async def agent_object(desk: Any, agent: str) -> AgentDetail:
    """Return an agent with its tools, steering, membranes and budget. Errors: `NotFound`."""
    artifacts = desk.as_principal(OPERATOR).artifacts
    artifact = await artifacts.look(agent)
    content = await _shown_content(desk, agent)
    shown = await agent_line(desk, agent)
    groups = await artifacts.groups_of(agent)
    used = (await desk.used(f"agent:{agent}"))["usd"]
    cap = used["cap"]
    steered = await _steering(desk, content.steering_artifact_id)
    return {
        **shown,
        "role": content.role,
        "version": artifact.version,
        "tools": await _tools(desk, agent, shown["mission"] or "", steered, groups),
        "steering": steered,
        "membranes": list(groups),
        "memory": content.memory_artifact_id,
        "budget": {
            "usd": cap,
            "used": used["used"],
            "left": None if cap is None else max(0, cap - used["used"] - used["reserved"]),
        },
    }


async def run_agent(
    desk: TenantScope, agent: str, *, on_wait: str = "await", params: Mapping[str, Any] | None = None
) -> list[AgentResult]:
    """Work on the agent's pending tasks that can begin, in the order of their making; their results.

    It goes on until none can begin: a task may be what the next one waits for.
    Errors: `NotFound` for an agent that is not there.
    """
    await agent_content(desk, agent)
    results: list[AgentResult] = []
    tried: set[str] = set()
    while True:
        page = await task_page(desk, mission=None, agent=agent, status="pending", after=0, limit=TASKS_MAX)
        ready = [
            task["id"] for task in page["items"] if task["id"] not in tried and await _is_ready(desk, task)
        ]
        if not ready:
            return results
        tried.add(ready[0])
        results.append(await worked_on(desk, ready[0], on_wait=on_wait, params=params))


async def _is_ready(desk: TenantScope, task: TaskReport) -> bool:
    from artelier.kernel.run.context import is_final

    mission = (await standing_of(desk, task["id"])).mission_status
    if mission is not None and not is_final(mission):
        return False  # that is its mission's to decide
    standings = [await standing_of(desk, before) for before in task["depends_on"]]
    return all(standing.status == "done" for standing in standings)


async def mission_of(desk: TenantScope, artifact: Artifact) -> str:
    """The mission that an agent was made by, else the one that it is named after; empty for none."""
    pieces = artifact.id.split("/")
    above = ["/".join(pieces[:count]) for count in range(1, len(pieces))]
    named = [name for name in (artifact.provenance.run_id, *above[::-1]) if name]
    found = await planned_of(desk, named)
    return next((name for name in named if name in found), "")


def _at_work(tasks: Sequence[TaskReport]) -> TaskReport | None:
    """The task that an agent works on, else the one that was changed last."""
    active = [task for task in tasks if task["status"] == "active"]
    if active:
        return active[0]
    begun = [task for task in tasks if task["run_status"] is not None]
    return max(begun, key=lambda task: task["changed_us"], default=None)


def _status(tasks: Sequence[TaskReport], at: TaskReport | None) -> str:
    if at is not None and at["status"] == "active":
        return AT_WORK.get(str(at["run_status"]), str(at["run_status"]))
    there = {task["status"] for task in tasks}
    for status in ("pending", "blocked", "failed", "done", "cancelled"):
        if status in there:
            return status
    return "idle"


class _TaskSums(TypedDict):
    """The cost and the tokens of an agent's tasks."""

    cost_microusd: int
    tokens: int


async def _sums(desk: TenantScope, agent: str) -> _TaskSums:
    runs = await runs_started(desk.services.store, desk.id, loop="task", agent=agent)
    found = (await totals(desk.services.store, desk.id, [run.run for run in runs])).values()
    return {
        "cost_microusd": sum(one.total_cost_microusd for one in found),
        "tokens": sum(one.total_usage.input_tokens + one.total_usage.output_tokens for one in found),
    }


async def _model_of(desk: TenantScope, mission: str) -> str | None:
    row = await find_run(desk.services.store, desk.id, mission)
    return None if row is None else row.model


async def _steering(desk: TenantScope, id_: str | None) -> SteeringReport | None:
    if not id_:
        return None
    try:
        found = await desk.as_principal(OPERATOR).artifacts.read(id_)
    except ArtelierError:
        return None
    return {"id": id_, "version": found.version, "content": found.content}


async def _tools(
    desk: TenantScope, agent: str, mission: str, steered: SteeringReport | None, groups: Sequence[str]
) -> list[AgentToolState]:
    """The tools that its next prompt has, and why others are off for this agent now."""
    own = _parse_steering(steered)
    pools = [_parse_steering(await _steering(desk, f"{group}/steering")) for group in groups]
    shared = [one for one in pools if one is not None]
    place = place_without_task(agent, await _mission_job(desk, mission))
    comes = await upcoming(desk, agent)
    with suppress(NotFound, InvalidRequest):  # such as a task that its agent has no model for
        place = place if comes is None else await place_of(desk, comes)
    is_steered = own is not None or bool(shared) or place.changes.get("steering") is not None
    rules = effective(own, shared, place.changes) if is_steered else None
    try:
        there = await offers(desk, place, rules)
    except (NotFound, AccessDenied):  # the folder is gone, or not the tenant's
        return []
    return [
        {
            "name": tool.name,
            "risk": tool.risk,
            "side_effect": tool.side_effect,
            "enabled": why is None,
            "why_off": why,
        }
        for tool, why in sorted(there, key=lambda one: one.tool.name)
    ]


def _parse_steering(steered: SteeringReport | None) -> Steering | None:
    """Return what steering says; None for what is none, which the loop refuses by name."""
    with suppress(InvalidRequest):
        return None if steered is None else Steering.parse(steered["content"])
    return None


async def _mission_job(desk: TenantScope, mission: str) -> MissionJob | None:
    """Return what a mission was asked to do; None for an agent of none."""
    from artelier.missions.plan.mission_runner import recorded_job

    return await recorded_job(desk, mission) if mission else None


CARDS = "agents/"
"""Below this the cards of agents are kept: artifacts of the same kind, and no agents."""


class AgentFacts(NamedTuple):
    """The facts known of one agent."""

    id: str
    known: KnownAgent | None
    """Its runs and its memory; None for an agent without both."""
    assigned: AgentReport | None
    """The work on its tasks; None for an agent that tasks cannot be assigned to."""


class AgentPage(NamedTuple):
    """A page of agents by id."""

    items: list[AgentFacts]
    next: str | None


async def agent_page(
    desk: Any, *, mission: str | None = None, after: str | None = None, limit: int = 100
) -> AgentPage:
    """Return agents by id; with `mission` those that are named after it.

    Cost: that of `TenantKernel.agents`.
    """
    first = after or ""
    lines: dict[str, AgentFacts | None] = {}
    if mission is not None:
        ids = [one for one in await agent_ids(desk, mission) if one > first][: limit + 1]
    else:
        ids = await _assignable(desk, after=first, limit=limit + 1)
        known: list[KnownAgent] = (await desk.agents(after=after, limit=limit + 1))["items"]
        lines = {one["agent"]: AgentFacts(one["agent"], one, None) for one in known}
    lines |= {one: await _read_facts(desk, one, lines.get(one)) for one in ids}
    names = sorted(lines)
    items = [line for name in names[:limit] if (line := lines[name]) is not None]
    return AgentPage(items, names[limit - 1] if len(names) > limit else None)


async def agent_facts(desk: Any, agent: str) -> AgentFacts:
    """Return what `TenantKernel.show_agent` and `mission_agent` know of one agent.

    Errors: `NotFound` if neither knows it.
    """
    known: AgentProfile | None = None
    with suppress(NotFound):
        known = await desk.show_agent(agent)
    if await _assignable(desk, agent):
        return AgentFacts(agent, known, await agent_object(desk, agent))
    if known is None:
        raise NotFound(f"no agent {agent!r:.140}", hint="GET /api/v1/agents names those there are.")
    return AgentFacts(agent, known, None)


async def _read_facts(desk: TenantScope, agent: str, listed: AgentFacts | None) -> AgentFacts | None:
    """Return the facts of an agent; None for one that people may not read, or that was deleted right now."""
    try:
        assigned = await agent_line(desk, agent)
    except ArtelierError:
        return listed
    known = None if listed is None else listed.known
    return AgentFacts(agent, known or await _read_runs(desk, assigned), assigned)


async def _read_runs(desk: TenantScope, agent: AgentReport) -> KnownAgent:
    """Return what runs say of an agent that stands beyond the page of those."""
    had = await agent_runs(desk.services.store, desk.id, agent["id"])
    return {
        "agent": agent["id"],
        "runs": had.runs,
        "last_run": had.last_run,
        "last_us": had.last_us,
        "entries": None,
        "cost_microusd": agent["cost_microusd"],
    }


async def _assignable(
    desk: TenantScope, agent: str | None = None, *, after: str = "", limit: int = 1
) -> list[str]:
    """Ids of artifacts that tasks can be assigned to, one or those after an id."""
    store = desk.services.store
    if agent is None:
        return await ids_between(store, desk.id, MAIN_SPACE, kind="agent", low=after, but=CARDS, limit=limit)
    found = await load(store, desk.id, MAIN_SPACE, agent)
    is_one = found is not None and found.kind == "agent" and not found.deleted and not agent.startswith(CARDS)
    return [agent] if is_one else []


ATTEMPTS_MAX = 5
"""Changes by others that a change without an expected version waits out."""


async def change_agent(
    desk: TenantScope, id: str, changes: Mapping[str, Any], *, by: str, expected_version: int | None = None
) -> None:
    """Write an agent anew with other `{name, role, model, tools, memory_artifact_id}`; the rest stays.

    In force with the next task that it begins: a run keeps the agent that it began with.
    Errors: `InvalidRequest`; `NotFound`, also for a memory that is not there; `UnknownModel`, `MissingKey`;
    `VersionConflict`.
    """
    known = ("name", "role", "model", "tools", "memory_artifact_id")
    if strange := sorted(set(changes) - set(known)):
        raise InvalidRequest("an agent has no such field", expected=", ".join(known), got=strange[0])
    if (model := changes.get("model")) is not None:
        desk.services.model(model)
    if (memory := changes.get("memory_artifact_id")) is not None:
        (await desk.as_principal(OPERATOR).artifacts.access(memory, "read")).granted()

    def apply_changes(content: dict[str, Any]) -> dict[str, Any]:
        fields = {name: content[name] for name in AgentContent.model_fields if name in content}
        fields.setdefault("name", id[:80])
        said = validate_form(AgentContent, {**fields, **changes}, what="the agent")
        # What an agent of another making says besides is kept.
        return {**content, **said.model_dump(mode="json")}

    await _amend(desk, id, "agent", apply_changes, by=by, expected_version=expected_version)


async def change_membrane(
    desk: TenantScope, id: str, changes: Mapping[str, Any], *, by: str, expected_version: int | None = None
) -> None:
    """Write a membrane anew with another `{name, budget_usd}`; the budget is the cap of its scope at once.

    Errors: `InvalidRequest`, `InvalidArtifact`; `NotFound`; `VersionConflict`.
    """
    wanted = dict(changes)
    if "name" in wanted:
        wanted["name"] = checked_name(wanted["name"])
    if "budget_usd" in wanted:
        wanted["budget_usd"] = checked_budget(wanted["budget_usd"])
    caps: dict[str, int | None] = {}
    if "budget_usd" in wanted:
        budget = wanted["budget_usd"]
        caps[f"membrane:{id}"] = None if budget is None else parse_usd(budget)

    def apply_changes(content: dict[str, Any]) -> dict[str, Any]:
        return {**content, **wanted}

    await _amend(desk, id, "membrane", apply_changes, by=by, expected_version=expected_version, caps=caps)


async def _amend(
    desk: Any,
    id: str,
    kind: str,
    changed: Any,
    *,
    by: str,
    expected_version: int | None,
    caps: Mapping[str, int | None] | None = None,
) -> None:
    artifacts = desk.as_principal(OPERATOR).artifacts.by(by)
    services = desk.services
    for _ in range(ATTEMPTS_MAX):
        stored: Artifact = await artifacts.read(id)
        if stored.kind != kind:
            raise InvalidRequest(f"{id} is no {kind}", expected=kind, got=stored.kind)
        if expected_version is not None and stored.version != expected_version:
            raise VersionConflict(
                f"{id} was changed by somebody else",
                expected=f"version {expected_version}",
                got=f"version {stored.version}",
                hint="Look at it again, then change it.",
            )
        try:
            append, blobs, _artifact = await artifacts.plan_write(
                id, content=changed(cast("dict[str, Any]", stored.content)), expected_version=stored.version
            )
            appends: list[StreamAppend] = [append]
            for scope, cap in (caps or {}).items():
                appends.append(await plan_cap(services, desk.id, scope, unit="usd", cap=cap, by=by))
            await services.store.append(Batch(appends=appends, blobs=blobs))
        except (SequenceConflict, VersionConflict):
            continue
        for scope in caps or {}:
            cap_changed(services, desk.id, scope)
        return
    raise VersionConflict(f"{id} is changed by others all the time", hint="Try again in a moment.")
