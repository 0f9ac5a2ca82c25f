"""Launching a plan: every artifact, member and task of it as appends for one batch, and the estimate of its
cost.

Read next: `missions/plan/mission_loop.py`, whose receipt `mission_loop.launched` stands in that batch.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from artelier.artifacts import Provenance
from artelier.errors import ArtelierError
from artelier.ids import OPERATOR
from artelier.kernel.erasure import writing_key
from artelier.kernel.prompt.manifest import encode_json
from artelier.kernel.queries.runs import loop_usage
from artelier.kernel.run.services import Services
from artelier.kernel.tenants.registry import TenantScope
from artelier.log import Blob, Draft, EventData, StreamAppend, prepared_blob
from artelier.missions import events as ev
from artelier.missions.definition import (
    ITERATIONS_DEFAULT,
    AgentContent,
    Plan,
    PlannedAgent,
    PlannedTask,
    TaskContent,
    check_name,
)
from artelier.missions.membranes import Membranes
from artelier.missions.steering_document import AXES, Steering
from artelier.money import parse_usd
from artelier.ports.media import Medium
from artelier.ports.model import Price, Usage
from artelier.tokens import cost_microusd, estimate_tokens
from artelier.tokens.estimate import estimate_media_tokens

MEMBRANE = "shared"
"""Slug of the membrane that all agents share, if a plan names none."""

ALL_OFF = frozenset(("web_fetch",))
"""Tools that are off unless a plan names them."""


class LaunchEffects(NamedTuple):
    """The effects of launching a plan."""

    event: ev.MissionLaunched
    appends: list[StreamAppend]
    blobs: list[Blob]
    caps: dict[str, str]
    """Dollars by scope of the agents and membranes that have a budget."""


async def prepare_launch(
    desk: TenantScope,
    mission: str,
    plan: Plan,
    *,
    key: str,
    tools: Collection[str],
    edited: bool,
    by: str,
    budget: int | None = None,
) -> LaunchEffects:
    """The appends of a launch. `budget`: what its plan may cost at most, if that is a limit.

    Errors: `VersionConflict` if something of that name is there already; `InvalidRequest` for a name that
    is reserved.
    """
    maker = _LaunchMaker(desk, check_name(mission, what="a mission"), by=by, key=key)
    for agent in plan.agents:
        await maker.agent(agent, plan, tools=tools)
    membranes = [(one.slug, one.name, one.members, one.budget_usd) for one in plan.membranes] or [
        (_free(MEMBRANE, plan), "Shared", [agent.slug for agent in plan.agents], None)
    ]
    for slug, name, members, share in membranes:
        await maker.membrane(slug, name=name, members=members, budget=share)
    for task in plan.tasks:
        await maker.task(task)
    state = await desk.state()
    own = await writing_key(desk.services.store, desk.id, mission)
    ref, blob = await prepared_blob(desk.id, own or state.key, encode_json(plan.model_dump(mode="json")))
    event = ev.MissionLaunched(
        key=key,
        plan=ref,
        edited=edited,
        budget=budget,
        agents=tuple(f"{mission}/{one.slug}" for one in plan.agents),
        tasks=tuple(f"{mission}/{one.slug}" for one in plan.tasks),
        membranes=tuple(f"{mission}/{slug}" for slug, *_ in membranes),
    )
    return LaunchEffects(event, maker.appends, [blob, *maker.blobs], maker.caps)


def steering(
    *, tools: Mapping[str, bool], budget_usd: str | None = None, iterations: int = ITERATIONS_DEFAULT
) -> dict[str, Any]:
    """The content of a steering artifact that nobody has moved yet."""
    budget = None if budget_usd is None else parse_usd(budget_usd)
    return Steering(tools=tools, budget=budget, iterations=iterations).content()


def toggles(wanted: Collection[str], tools: Iterable[str]) -> dict[str, bool]:
    """Return which tools are on: those that were named, or all but the ones that are off by default."""
    if wanted:
        return {name: name in wanted for name in sorted(tools) if name not in ("read_artifact",)}
    return {name: False for name in sorted(tools) if name in ALL_OFF}


class _LaunchMaker:
    def __init__(self, desk: TenantScope, mission: str, *, by: str, key: str) -> None:
        self._desk = desk
        self._mission = mission
        self._by = by
        self._provenance = Provenance(run_id=mission, step=key)
        self._artifacts = desk.as_principal(OPERATOR).artifacts.by(by)
        self.appends: list[StreamAppend] = []
        self.blobs: list[Blob] = []
        self.caps: dict[str, str] = {}

    def _id(self, slug: str) -> str:
        return f"{self._mission}/{slug}"

    async def agent(self, agent: PlannedAgent, plan: Plan, *, tools: Collection[str]) -> None:
        id_ = self._id(agent.slug)
        most = [task.max_iterations for task in plan.tasks if task.agent == agent.slug]
        content = AgentContent(
            name=agent.name,
            role=agent.role,
            model=agent.model,
            tools=agent.tools,
            steering_artifact_id=f"{id_}/steering",
            axes={"x": list(AXES[0]), "y": list(AXES[1])},
        )
        await self._write(id_, "agent", content.model_dump(mode="json"), readers=[id_])
        await self._write(
            f"{id_}/steering",
            "steering",
            steering(
                tools=toggles(agent.tools, tools),
                budget_usd=agent.budget_usd,
                iterations=max([ITERATIONS_DEFAULT, *most]),
            ),
            readers=[id_],
        )
        if agent.budget_usd is not None:
            self.caps[f"agent:{id_}"] = agent.budget_usd

    async def membrane(self, slug: str, *, name: str, members: Iterable[str], budget: str | None) -> None:
        id_ = self._id(slug)
        append, blobs = await Membranes(self._desk).plan_create(
            id_,
            name=name,
            members=[self._id(one) for one in dict.fromkeys(members)],
            budget_usd=budget,
            by=self._by,
            provenance=self._provenance,
        )
        self.appends.append(append)
        self.blobs.extend(blobs)
        if budget is not None:
            self.caps[f"membrane:{id_}"] = budget

    async def task(self, task: PlannedTask) -> None:
        content = TaskContent(
            goal=task.goal,
            success_criteria=task.success_criteria,
            assigned_agent_id=self._id(task.agent),
            inputs=task.inputs,
            depends_on=[self._id(one) for one in task.depends_on],
            max_iterations=task.max_iterations,
            checks=task.checks,
            only_checks=task.only_checks,
        )
        append, blobs = await task_made(
            self._desk,
            self._id(task.slug),
            content,
            mission=self._mission,
            by=self._by,
            provenance=self._provenance,
        )
        self.appends.append(append)
        self.blobs.extend(blobs)

    async def _write(self, id_: str, kind: str, content: dict[str, Any], *, readers: list[str]) -> None:
        append, blobs, _ = await self._artifacts.plan_write(
            id_,
            kind=kind,
            content=content,
            access={"allow": {"read": readers}},
            expected_version=0,
            provenance=self._provenance,
        )
        self.appends.append(append)
        self.blobs.extend(blobs)


async def task_made(
    desk: TenantScope,
    id_: str,
    content: TaskContent,
    *,
    mission: str,
    by: str,
    provenance: Provenance | None = None,
    metadata: dict[str, Any] | None = None,
) -> tuple[StreamAppend, list[Blob]]:
    """The first version of a task's artifact and its `task.created`, for a batch of the caller's.

    Errors: `VersionConflict` if the id is taken.
    """
    agent = content.assigned_agent_id or ""
    append, blobs, _ = await (desk.as_principal(OPERATOR).artifacts.by(by)).plan_write(
        id_,
        kind="task",
        content=content.model_dump(mode="json"),
        expected_version=0,
        access={"allow": {"read": [agent] if agent else []}},
        provenance=provenance,
        metadata=metadata or None,
        key=await writing_key(desk.services.store, desk.id, mission) if mission else None,
    )
    created = ev.TaskCreated(
        task=id_,
        mission=mission,
        agent=agent,
        parent=content.parent or "",
        depends_on=tuple(content.depends_on),
        inputs=tuple(content.inputs),
        max_iterations=content.max_iterations,
    )
    return with_event(desk, append, created, by=by), list(blobs)


def with_event(desk: TenantScope, append: StreamAppend, event: EventData, *, by: str) -> StreamAppend:
    """The append with one more event of the same stream."""
    draft = Draft(event, desk.services.clock.now_us(), by)
    return StreamAppend(append.stream, (*append.events, draft), append.expected_seq)


def _free(slug: str, plan: Plan) -> str:
    """A slug that nothing of the plan has."""
    taken = {one.slug for one in (*plan.agents, *plan.tasks)}
    return next(name for name in (slug, *(f"{slug}-{n}" for n in range(2, 200))) if name not in taken)


CALLS_PER_ITERATION = 3
"""Decision, content, evaluation; repairs are rare and come on top."""

INPUT_TOKENS, OUTPUT_TOKENS = 3_000, 700
"""Of one call, as long as the tenant has no tasks of its own to learn from (a guess)."""

RUNS_SEEN = 50
CALLS_NEEDED = 10
"""Calls from which on what was used before is believed."""


class PlanEstimate(NamedTuple):
    """The cost if each task needs all its iterations; `cost_microusd` is None if a price is unknown."""

    calls: int
    cost_microusd: int | None


async def estimate_plan(
    services: Services, tenant: str, plan: Plan, *, model: str, media: Sequence[Medium] = ()
) -> PlanEstimate:
    """Return what the tasks of a plan take if each needs all its iterations.

    The size of a call is what earlier tasks of this tenant have used, else a guess that grows with the texts
    of the plan; `media`, which came with the goal, are in each. Cost: two queries.
    """
    seen = await _mean_usage(services, tenant)
    shown = sum(map(estimate_media_tokens, media))
    models = {agent.slug: agent.model or model for agent in plan.agents}
    roles = {agent.slug: estimate_tokens(agent.role) for agent in plan.agents}
    calls, cost = 0, 0
    is_known = True
    for task in plan.tasks:
        number = task.max_iterations * CALLS_PER_ITERATION
        calls += number
        own = roles[task.agent] + estimate_tokens(task.goal + task.success_criteria)
        usage = seen or Usage(input_tokens=INPUT_TOKENS + own, output_tokens=OUTPUT_TOKENS)
        usage = msgspec.structs.replace(usage, input_tokens=usage.input_tokens + shown)
        price = _price(services, models[task.agent])
        is_known = is_known and price is not None
        if price is not None:
            cost += number * cost_microusd(price, usage)
    return PlanEstimate(calls, cost if is_known else None)


def _price(services: Services, model: str) -> Price | None:
    price = services.price_of(model)
    if price is not None:
        return price
    try:
        return getattr(services.model(model)[1], "price", None)
    except ArtelierError:
        return None  # said when it is asked for


async def _mean_usage(services: Services, tenant: str) -> Usage | None:
    """The mean use of a model call in the tenant's newest tasks; None before there are enough."""
    inputs, outputs, calls = await loop_usage(services.store, tenant, "task", newest=RUNS_SEEN)
    if calls < CALLS_NEEDED:
        return None
    return Usage(input_tokens=-(-inputs // calls), output_tokens=-(-outputs // calls))
