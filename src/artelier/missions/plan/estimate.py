"""Estimates of plans: model calls, and their cost if the prices are known."""

from __future__ import annotations

from typing import NamedTuple

from artelier.errors import ArtelierError
from artelier.kernel.run.services import Services
from artelier.missions.definition import Plan
from artelier.ports.model import Price, Usage
from artelier.tokens import cost_microusd, estimate_tokens

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


async def estimate_plan(services: Services, tenant: str, plan: Plan, *, model: str) -> PlanEstimate:
    """Return what the tasks of a plan take if each needs all its iterations.

    The size of a call is what earlier tasks of this tenant have used, else a guess that grows with the texts
    of the plan. Cost: two queries.
    """
    seen = await _mean_usage(services, tenant)
    models = {agent.slug: agent.model or model for agent in plan.agents}
    roles = {agent.slug: estimate_tokens(agent.role) for agent in plan.agents}
    calls, cost = 0, 0
    is_known = True
    for task in plan.tasks:
        number = task.max_iterations * CALLS_PER_ITERATION
        calls += number
        own = roles[task.agent] + estimate_tokens(task.goal + task.success_criteria)
        usage = seen or Usage(input_tokens=INPUT_TOKENS + own, output_tokens=OUTPUT_TOKENS)
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
    rows = await services.store.query(
        "WITH newest AS (SELECT id, input_tokens, output_tokens FROM runs"
        " WHERE tenant = ? AND loop = 'task' ORDER BY id DESC LIMIT ?)"
        " SELECT coalesce(sum(input_tokens), 0), coalesce(sum(output_tokens), 0),"
        " (SELECT count(*) FROM steps s JOIN newest n ON n.id = s.run"
        "  WHERE s.kind = 'model' AND s.status = 'completed') FROM newest",
        (tenant, RUNS_SEEN),
    )
    inputs, outputs, calls = rows[0]
    if calls < CALLS_NEEDED:
        return None
    return Usage(input_tokens=-(-inputs // calls), output_tokens=-(-outputs // calls))
