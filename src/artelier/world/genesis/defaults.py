"""The mind of a new agent that names nothing of its own."""

from __future__ import annotations

from typing import Any

from artelier.world.genesis.batch_builder import Made
from artelier.world.mind_artifacts import shipped_workflow

HANDBOOK = "handbook"
TEMPLATE = "trader"
"""The shipped workflow of agents for which nobody chose one: it asks no model which state comes next."""

PERSONALITY = (
    "You are {agent_id}, an agent of a world in which everything that you think with, know and make is an"
    " artifact that has an owner. You act once in each tick."
)
ENTRIES_MAX = 1000


def default_artifacts(
    agent: str,
    *,
    template: str | None = None,
    personality: Any = None,
    workflow: Any = None,
    working_memory: Any = None,
    longterm_memory: Any = None,
    without: frozenset[str] = frozenset(),
    place: str = "",
) -> tuple[list[Made], dict[str, Any]]:
    """The artifacts of a new agent, and the fields of its own artifact that name them.

    `without` are fields that it has already, such as `workflow_artifact_id`: nothing is made for those.
    Errors: `NotFound` for an unknown template.
    """
    contents: dict[str, tuple[str, str, Any]] = {
        "personality_prompt_artifact_id": (
            "personality",
            "personality",
            {"template": PERSONALITY, "variables": ["agent_id"]} if personality is None else personality,
        ),
        "workflow_artifact_id": (
            "workflow",
            "workflow",
            shipped_workflow(template or TEMPLATE) if workflow is None else workflow,
        ),
        "working_memory_artifact_id": (
            "working_memory",
            "document",
            {"goal": "", "progress": "", "lessons": [], "objectives": [], "facts": {}}
            if working_memory is None
            else working_memory,
        ),
        "longterm_memory_artifact_id": (
            "longterm_memory",
            "memory_store",
            {"config": {"max_entries": ENTRIES_MAX, "auto_prune": "oldest"}}
            if longterm_memory is None
            else longterm_memory,
        ),
    }
    made: list[Made] = []
    fields: dict[str, Any] = {}
    for field, (name, kind, content) in contents.items():
        if field in without:
            continue
        fields[field] = f"{agent}_{name}"
        made.append(make_owned(agent, name, kind, content, place=place))
    return made, fields


def make_owned(agent: str, name: str, kind: str, content: Any, *, place: str = "") -> Made:
    """Something that an agent thinks with: its own, and nobody else's to read."""
    return Made(id=f"{agent}_{name}", kind=kind, owner=agent, content=content, access="private", place=place)
