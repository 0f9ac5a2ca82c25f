"""An agent of a world: what its artifact refers to, and where it stands."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, TypeGuard, cast

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


class AgentRow(NamedTuple):
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
