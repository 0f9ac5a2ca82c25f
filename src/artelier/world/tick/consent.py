"""Consent to prices: what an agent's artifact names, and the most that each showing of it may cost the agent.

An agent agrees to the prices in the state that its thought saw when it named something. They are kept in its
own artifact, under `agreed_prices`; what has no price there may cost nothing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, cast

from artelier.artifacts import Ref
from artelier.errors import InvalidRequest
from artelier.world.agent import AGREED, INLINE_WORKFLOW, WORKFLOW, AgentSpec, read_agent

STEPS_MAX = 1_000
"""Steps of a workflow that are looked at; a workflow that can be saved has fewer."""

STEP_PARTS = ("prompts", "code", "transition_conditions")
"""Lists of a step whose entries name artifacts as well."""

STEP_REFS = ("prompt_artifact_id", "transition_prompt_artifact_id", "artifact_id", "ask")
"""Fields of a step and of its parts that name an artifact."""

PriceOf = Callable[[str], Awaitable[int]]
"""Scrip that one showing of an artifact costs the agent, in the state that its thought saw."""

ContentOf = Callable[[str], Awaitable[object]]
"""Content behind a ref as the agent's thought saw it; None for what it could not read."""


def id_of(ref: object) -> str:
    """Return the id of this world that a ref names; empty if it names none."""
    try:
        parsed = Ref.parse(ref, main_allowed=True) if isinstance(ref, str) else None
    except InvalidRequest:
        return ""
    return parsed.id if parsed is not None and parsed.space is None else ""


def step_ids(workflow: object) -> list[str]:
    """Return the ids of the prompts and the code that the steps of a workflow name. Never raises."""
    found: list[str] = []
    for step in _members(workflow, "steps"):
        parts = [one for name in STEP_PARTS for one in _members(step, name)]
        found += [id_of(given.get(name)) for given in (step, *parts) for name in STEP_REFS]
    return [id_ for id_ in found if id_]


def _members(holder: object, name: str) -> list[Mapping[str, Any]]:
    """Return the mappings of a list that a mapping holds; none of what has another shape."""
    given = cast("Mapping[str, Any]", holder).get(name) if isinstance(holder, Mapping) else None
    items = cast("list[object]", given)[:STEPS_MAX] if isinstance(given, list) else []
    return [cast("Mapping[str, Any]", one) for one in items if isinstance(one, Mapping)]


def named_ids(spec: AgentSpec) -> set[str]:
    """Return the ids that an agent's artifact names itself, its inline workflow included."""
    refs = {id_of(ref) for ref in (*spec.references.values(), *spec.subscribed)}
    return (refs | set(step_ids(spec.content.get(INLINE_WORKFLOW)))) - {""}


async def agreed_prices(
    content: Mapping[str, Any],
    before: AgentSpec,
    *,
    price_of: PriceOf,
    content_of: ContentOf,
    renewed: Iterable[str] = (),
) -> dict[str, Any]:
    """Return the content of an agent's artifact with the prices that its author agrees to by writing it.

    A price that the content says itself stands, and so does one agreed to before. What `before` named without
    a price is no new consent. Everything else, and what is `renewed`, is agreed to at the price seen. Prompts
    that the steps of a newly named workflow show are agreed to along with it.
    """
    after, renewed = read_agent(content), set(renewed)
    named, was_named, workflow = named_ids(after), named_ids(before), after.ref(WORKFLOW)
    is_new = workflow != before.ref(WORKFLOW) or id_of(workflow) in renewed
    kept = {
        id_: price
        for id_, price in before.agreed.items()
        # What nothing but a step of the workflow names is not named by the artifact itself.
        if id_ in named or (id_ not in was_named and not is_new)
    }
    agreed = {**kept, **after.agreed}
    fresh = renewed | (named - was_named - set(agreed))
    if workflow is not None and is_new:
        fresh |= set(step_ids(await content_of(workflow))) - set(after.agreed) - was_named
    for id_ in sorted(fresh):
        agreed.pop(id_, None)
        if price := await price_of(id_):
            agreed[id_] = price
    rest = {name: value for name, value in content.items() if name != AGREED}
    return {**rest, AGREED: agreed} if agreed else rest
