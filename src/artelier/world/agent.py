"""The agent artifact: what an agent says of itself, the prices that it agrees to, and where it stands."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, NamedTuple, TypeGuard, cast

from artelier.artifacts import Ref
from artelier.artifacts.queries import Standing
from artelier.errors import InvalidRequest

REFERENCES = (
    "personality_prompt_artifact_id",
    "workflow_artifact_id",
    "reflex_artifact_id",
    "working_memory_artifact_id",
    "longterm_memory_artifact_id",
    "steering_artifact_id",
)


RESERVED = ("genesis", "world", "operator", "user:")
"""Who else acts in a world: no agent's name may begin so, or it would look like one of these."""

RESERVED_WHOLE = ("host", "mint", "source", "hold", "artifact", "principal")
"""What acts or accounts are called: no agent's name may be one of these."""

GOES_ON = "::on"
"""The end of the name of a run in which an agent goes on: no agent's name ends so, or two had one run."""


def check_agent_id(agent: str) -> str:
    """Errors: `InvalidRequest` for a name that is the world's own, in capitals or not."""
    name = agent.casefold()
    if name.startswith(RESERVED) or name in RESERVED_WHOLE or agent.endswith(GOES_ON):
        raise InvalidRequest(
            "this id is the world's own, no agent's",
            expected=f"not beginning with {', '.join(RESERVED)}, not ending with {GOES_ON},"
            f" and not {', '.join(RESERVED_WHOLE)}",
            got=agent[:200],
        )
    return agent


def is_agents_own(standing: Standing | None, agent: str) -> TypeGuard[Standing]:
    """Return whether this is an agent artifact that belongs to the agent itself: whoever else owned it would
    think for the agent, with the agent's money.
    """
    return (
        standing is not None and not standing.deleted and standing.kind == "agent" and standing.owner == agent
    )


AGREED = "agreed_prices"
"""Field of an agent artifact: what each showing of an artifact may cost it, by id."""

WORKFLOW, INLINE_WORKFLOW = "workflow_artifact_id", "workflow"
"""Fields of an agent artifact: the ref of its workflow, or the workflow itself."""


class WorldAgentRow(NamedTuple):
    """The state of an agent at the end of a tick: a row of the view."""

    id: str
    n: int
    """It joined with this event of the world's stream."""
    state: str | None
    ticks_in_state: int
    failures: int
    last_tick: int | None
    last_action: str | None
    last_ok: bool | None
    last_result: str | None
    """A reference to text or JSON."""
    last_source: str | None


class AgentSpec(NamedTuple):
    """The content of an agent artifact, read with leniency: every reference is soft and optional."""

    model: str = ""
    policy: str = ""
    """Name of a rule agent of the host."""
    system_prompt: str = ""
    references: Mapping[str, str] = {}
    """By field, of `REFERENCES`."""
    subscribed: tuple[Any, ...] = ()
    profile: str = ""
    """`id@version` of a profile of the main space: operations around the agent's model step."""
    agreed: Mapping[str, int] = {}
    """Scrip for each showing that the agent agreed to when it subscribed or configured, by id."""
    content: Mapping[str, Any] = {}

    def ref(self, field: str) -> str | None:
        return self.references.get(field)


def read_agent(content: object) -> AgentSpec:
    """Never raises: what is not of the right shape is not there. `llm_model` is an alias of `model`."""
    if not isinstance(content, Mapping):
        return AgentSpec()
    given = cast("Mapping[str, Any]", content)

    def text(name: str) -> str:
        value = given.get(name)
        return value if isinstance(value, str) else ""

    subscribed = given.get("subscribed_artifacts")
    return AgentSpec(
        model=text("model") or text("llm_model"),
        policy=text("policy"),
        system_prompt=text("system_prompt"),
        references={name: ref for name in REFERENCES if (ref := text(name))},
        subscribed=tuple(cast("list[Any]", subscribed)) if isinstance(subscribed, list) else (),
        profile=text("profile"),
        agreed=_parse_agreed(given.get(AGREED)),
        content=given,
    )


def _parse_agreed(given: object) -> dict[str, int]:
    if not isinstance(given, Mapping):
        return {}
    prices = cast("Mapping[Any, Any]", given)
    return {id_: n for id_, n in prices.items() if isinstance(id_, str) and type(n) is int}


# --------------------------------------------------------------------------- consent
# Consent to prices: what an agent's artifact names, and the most that each showing of it may cost the
# agent.
# An agent agrees to the prices in the state that its thought saw when it named something. They are kept
# in its own artifact, under `agreed_prices`; what has no price there may cost nothing.


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
