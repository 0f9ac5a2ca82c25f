"""Kinds: which there are, what each takes, who may read it unless its owner says otherwise."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from artelier.artifacts import Access, Kind, register_kind
from artelier.artifacts.kinds import check_content, check_workflow, kind_named
from artelier.errors import InvalidArtifact, InvalidConfig
from tests.artifacts.places import LEDGER, Place, in_place  # noqa: F401 - the view is verified

WORKFLOW: dict[str, Any] = {
    "states": ["observing", "acting"],
    "initial_state": "observing",
    "steps": [
        {
            "state": "observing",
            "prompt_artifact_id": "alice_observe",
            "prompt_inline": None,
            "transition_mode": "condition",
            "transition_conditions": [{"to": "acting", "condition": "balance >= 20"}],
        },
        {"state": "acting", "transition_mode": "auto", "transition_to": "observing"},
    ],
}


def changed(content: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return {**content, **changes}


@pytest.mark.parametrize("kind", ["prompt", "workflow", "memory_store", "reflex", "steering", "personality"])
def test_cognition_is_private_by_default(kind: str) -> None:
    assert kind_named(kind).default_access == "private"


@pytest.mark.parametrize("kind", ["tool", "document", "report", "library", "agent", "dataset"])
def test_the_rest_is_read_by_anyone_by_default(kind: str) -> None:
    assert kind_named(kind).default_access == "owner_writes"


def test_every_default_policy_is_a_policy() -> None:
    from artelier.artifacts import known_kinds

    for name in known_kinds():
        Access.parse(kind_named(name).default_access)


@pytest.mark.parametrize(
    ("kind", "content"),
    [
        ("prompt", "You are {agent_id}."),
        ("prompt", {"template": "Hi {x}", "variables": ["x", {"name": "y", "default": 1}]}),
        ("library", {"prompts": {"base": "text", "other": {"template": "t"}}}),
        ("workflow", WORKFLOW),
        ("reflex", "def reflex(context):\n    return None"),
        ("reflex", {"code": "def reflex(context): return None"}),
        ("memory_store", {"config": {"max_entries": 10, "auto_prune": "lowest_score"}}),
        ("memory_store", {}),
        ("agent", {"workflow_artifact_id": None, "subscribed_artifacts": ["handbook"]}),
        ("document", b"\x00\xff"),
        ("document", {"a": 1}),
        ("skill", "---\nname: x\n---\n"),
        ("tool", {"code": "def run(): return 1"}),
    ],
)
def test_what_fits_a_kind_is_taken(kind: str, content: object) -> None:
    check_content(kind_named(kind), content)


@pytest.mark.parametrize(
    ("kind", "content"),
    [
        ("prompt", b"bytes"),
        ("prompt", {"variables": []}),
        ("prompt", {"template": 7}),
        ("prompt", {"template": "x", "variables": [{"type": "int"}]}),
        ("prompt", {"template": "x", "variables": "x"}),
        ("prompt", ["x"]),
        ("library", "text"),
        ("library", {"prompts": ["x"]}),
        ("library", {"prompts": {"x": 7}}),
        ("workflow", "states: []"),
        ("workflow", changed(WORKFLOW, states=[])),
        ("workflow", changed(WORKFLOW, states=["observing", "observing"])),
        ("workflow", changed(WORKFLOW, states=[1])),
        ("workflow", changed(WORKFLOW, initial_state="gone")),
        ("workflow", changed(WORKFLOW, steps={"state": "acting"})),
        ("workflow", changed(WORKFLOW, steps=[{"state": "gone"}])),
        ("workflow", changed(WORKFLOW, steps=[{"state": "acting", "transition_mode": "magic"}])),
        ("workflow", changed(WORKFLOW, steps=[{"state": "acting", "transition_to": "gone"}])),
        (
            "workflow",
            changed(WORKFLOW, steps=[{"state": "acting", "transition_conditions": [{"to": "acting"}]}]),
        ),
        ("reflex", {"source": "x"}),
        ("memory_store", {"config": {"max_entries": 0}}),
        ("memory_store", {"config": {"max_entries": True}}),
        ("memory_store", {"config": {"auto_prune": "random"}}),
        ("memory_store", {"config": []}),
        ("agent", {"workflow_artifact_id": 7}),
        ("agent", {"subscribed_artifacts": "handbook"}),
        ("profile", "text"),
        ("skill", [1]),
        ("steering", 7),
    ],
)
def test_what_does_not_fit_a_kind_is_refused(kind: str, content: object) -> None:
    with pytest.raises(InvalidArtifact):
        check_content(kind_named(kind), content)


class Name(str):
    """The name of a state that counts how often it is compared with another."""

    compared = 0
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        Name.compared += 1
        return str.__eq__(self, other)


def test_each_step_of_a_workflow_looks_its_state_up_once_and_a_mistake_names_a_few() -> None:
    names = [Name(f"s{number}") for number in range(2_000)]
    steps = [{"state": Name("s1999"), "transition_to": Name("s1998")} for _ in range(500)]
    workflow: dict[str, Any] = {"states": names, "initial_state": "s0", "steps": steps}

    check_workflow(workflow)  # worlds put a check of their own in its place

    assert Name.compared < 10 * len(steps)
    with pytest.raises(InvalidArtifact) as caught:
        check_workflow({**workflow, "initial_state": "none"})
    assert str(caught.value.expected).startswith("one of s0, s1,") and len(str(caught.value.expected)) < 200
    assert str(caught.value.expected).endswith("s19 and 1980 others")


def test_an_unknown_kind_names_the_known_ones(tmp_path: Path) -> None:
    async def story(here: Place) -> None:
        with pytest.raises(InvalidArtifact, match="dataset, document, library"):
            await here.as_("alice").write("x", kind="promt", content="x")
        with pytest.raises(InvalidArtifact, match="needs a kind"):
            await here.as_("alice").write("x", content="x")

    in_place(tmp_path, story)


def test_a_kind_can_be_registered_once_and_replaced_on_purpose(tmp_path: Path) -> None:
    def short(content: Any) -> None:
        if len(content) > 3:
            raise InvalidArtifact("too long")

    register_kind(Kind(name="haiku"), replace=True)
    with pytest.raises(InvalidConfig):
        register_kind(Kind(name="haiku"))
    register_kind(Kind(name="haiku", check=short, default_access="public"), replace=True)

    async def story(here: Place) -> None:
        await here.as_("alice").write("h", kind="haiku", content="frog")

    with pytest.raises(InvalidArtifact, match="too long"):
        in_place(tmp_path, story)


@pytest.mark.parametrize("name", ["", "A", "a b", "1a", "a" * 65])
def test_a_kind_needs_a_plain_name(name: str) -> None:
    with pytest.raises(InvalidConfig):
        register_kind(Kind(name=name))
