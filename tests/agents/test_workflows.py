"""Workflow artifacts: all errors are told at once, and the next state is a pure function."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from artelier.artifacts import Ref
from artelier.errors import InvalidArtifact
from artelier.world.mind_artifacts import (
    InvalidWorkflow,
    MindState,
    Transition,
    TransitionAnswer,
    Workflow,
    asks_model,
    begin,
    facts_of,
    next_state,
    parse_choice,
    prompt_library,
    read_workflow,
    shipped_workflow,
    with_position,
    workflow_templates,
)
from artelier.world.mind_artifacts.prompt import PROMPT_LIBRARY, WORKFLOW_TEMPLATES, WORKFLOWS
from artelier.world.mind_artifacts.transition import StateChoice
from tests.agents.strict_kinds import strict_kinds
from tests.artifacts.places import Place, in_place

CONTENT: dict[str, Any] = {
    "states": ["observing", "ideating", "implementing", "resting"],
    "initial_state": "observing",
    "steps": [
        {
            "state": "observing",
            "prompt_artifact_id": "alice_observe_prompt",
            "prompt_inline": None,
            "transition_mode": "llm",
            "transition_prompt_artifact_id": "alice_transition",
        },
        {
            "state": "ideating",
            "prompt_artifact_id": "genesis_prompt_library#ideate_base",
            "transition_mode": "condition",
            "transition_conditions": [
                {"to": "implementing", "condition": "has_design"},
                {"to": "resting", "condition": "stuck or consecutive_failures > 2"},
                {"to": "observing", "condition": "balance / spare > 2"},
            ],
        },
        {
            "state": "implementing",
            "prompt_inline": "Build, {agent_id}.",
            "transition_mode": "auto",
            "transition_to": "observing",
        },
    ],
}
WORKFLOW = read_workflow(CONTENT)


def facts(success: bool | None = True, **own: Any) -> dict[str, Any]:
    action = {"type": "write", "success": success, "result": "..."}
    return facts_of(agent_id="alice", tick=3, balance=20, last_action=action, own=own)


def at(state: str, ticks: int = 0, failures: int = 0) -> MindState:
    return MindState(state=state, ticks_in_state=ticks, failure_count=failures)


def test_workflow_artifact_loading(tmp_path: Path) -> None:
    """A stored workflow, and one of the shipped templates, are read; a broken one is refused at save."""

    async def story(here: Place) -> None:
        alice = here.as_("alice")
        await alice.write("alice_workflow", kind="workflow", content=CONTENT)
        await alice.write(WORKFLOW_TEMPLATES, kind="workflow_library", content=workflow_templates())

        own = read_workflow((await alice.read("alice_workflow")).content)
        shipped = read_workflow((await alice.read(f"{WORKFLOW_TEMPLATES}#build_cycle")).content)

        assert own == WORKFLOW
        assert own.step("ideating").prompt_artifact_id == "genesis_prompt_library#ideate_base"
        assert own.step("implementing").prompt_inline == "Build, {agent_id}."
        assert shipped.initial_state == "observing"
        with pytest.raises(InvalidArtifact, match=r"steps\[0\]\.transition_to: expected one of"):
            broken = {**CONTENT, "steps": [{"state": "observing", "transition_to": "gone"}]}
            await alice.write("alice_workflow", kind="workflow", content=broken)
        with pytest.raises(InvalidArtifact, match=r"workflows\.bad: .*states"):
            bad = {"workflows": {"bad": {"states": [], "initial_state": "x"}}}
            await alice.write("more", kind="workflow_library", content=bad)

    with strict_kinds():
        in_place(tmp_path, story)


def test_all_errors_are_told_with_their_paths() -> None:
    content = {
        "states": ["a", "a", 7, " b"],
        "initial_state": "z",
        "colour": "red",
        "steps": [
            {"state": "q", "transition_mode": "magic", "transition_to": "k", "prompt": "x"},
            {
                "state": "a",
                "prompt_inline": "x" * 70_000,
                "prompt_artifact_id": "x y",
                "transition_mode": "condition",
                "transition_conditions": [{"to": "a", "condition": "run()"}, {"to": "a"}, 7],
            },
            {"state": "a", "transition_mode": "auto"},
            {"state": "a", "transition_mode": "condition"},
        ],
    }

    with pytest.raises(InvalidWorkflow) as caught:
        read_workflow(content)

    paths = {error.partition(":")[0] for error in caught.value.errors}
    assert paths == {
        "content",
        *("states[1]", "states[2]", "states[3]", "initial_state"),
        *("steps[0]", "steps[0].state", "steps[0].transition_mode", "steps[0].transition_to"),
        *("steps[1].prompt_inline", "steps[1].prompt_artifact_id"),
        "steps[1].transition_conditions[0].condition",
        "steps[1].transition_conditions[1].condition",
        "steps[1].transition_conditions[2]",
        *("steps[2].state", "steps[2].transition_to"),
        *("steps[3].state", "steps[3].transition_conditions"),
    }


@pytest.mark.parametrize(
    "content",
    [
        None,
        "states: []",
        [],
        {},
        {"states": [], "initial_state": "a"},
        {"states": ["a"]},
        {"states": ["a"], "initial_state": ["a"]},
        {"states": ["a"], "initial_state": "a", "steps": {"state": "a"}},
        {"states": ["a"], "initial_state": "a", "steps": [{"state": "a", "transition_mode": []}]},
        {"states": [f"s{n}" for n in range(65)], "initial_state": "s0"},
        {"states": ["a\n"], "initial_state": "a\n"},
        {"states": ["a"], "initial_state": "a", "steps": [{"state": "a"}] * 65},
    ],
)
def test_what_is_no_workflow_is_refused(content: Any) -> None:
    with pytest.raises(InvalidWorkflow) as caught:
        read_workflow(content)

    assert 1 <= len(caught.value.errors) <= 21


def test_states_may_come_without_steps_and_stay() -> None:
    workflow = read_workflow({"states": ["a", "b"], "initial_state": "a", "steps": []})

    after, event = next_state(workflow, at("a"), facts())

    assert after == at("a", ticks=1)
    assert event == Transition(origin="a", to="a", how="none")


def test_auto_goes_on_and_counts_anew() -> None:
    after, event = next_state(WORKFLOW, at("implementing", ticks=3), facts())

    assert after == at("observing")
    assert event == Transition(origin="implementing", to="observing", how="auto")


def test_the_first_true_condition_wins() -> None:
    both = facts(success=False, has_design=True)

    after, event = next_state(WORKFLOW, at("ideating", failures=2), both)

    assert after == at("implementing", failures=3)
    assert event.how == "condition"
    assert event.condition == "has_design"
    assert event.unknown_names == ()


def test_no_true_condition_stays_and_unknown_names_are_told() -> None:
    after, event = next_state(WORKFLOW, at("ideating"), facts())

    assert after == at("ideating", ticks=1)
    assert event.unknown_names == ("has_design", "spare")
    assert not event.is_move


def test_a_condition_that_cannot_be_decided_says_why() -> None:
    _, event = next_state(WORKFLOW, at("ideating"), facts(has_design=False, spare=0))

    assert not event.is_move
    assert event.reason == "balance / spare > 2: division by zero"


def test_an_agent_is_stuck_after_five_ticks_in_a_state() -> None:
    state = at("ideating")
    for _ in range(4):
        state, event = next_state(WORKFLOW, state, facts(has_design=False, spare=20))
        assert not event.is_move

    state, event = next_state(WORKFLOW, state, facts(has_design=False, spare=20))

    assert state == at("resting")
    assert event.condition.startswith("stuck")


def test_failures_in_a_row_are_counted_until_one_succeeds() -> None:
    counts = []
    state = at("resting")
    for success in (False, False, None, False, True, False):
        state, _ = next_state(WORKFLOW, state, facts(success=success))
        counts.append(state.failure_count)

    assert counts == [1, 2, 2, 3, 0, 1]


def test_a_state_that_is_gone_leads_to_the_initial_one() -> None:
    gone = at("testing", ticks=4, failures=2)

    begun, event = begin(WORKFLOW, gone)
    after, late = next_state(WORKFLOW, gone, facts(success=False), TransitionAnswer('{"next_state": "x"}'))

    assert begun == at("observing", failures=2)
    assert event == Transition(origin="testing", to="observing", how="state_gone")
    assert (after, late) == (at("observing", failures=3), event)
    assert WORKFLOW.step("testing").state == "observing"


def test_a_mind_begins_at_the_initial_state_and_stays_where_it_was() -> None:
    assert begin(WORKFLOW, None) == (at("observing"), Transition(origin="", to="observing", how="begun"))
    assert begin(WORKFLOW, at("ideating", 2)) == (at("ideating", 2), None)


def test_only_a_state_of_mode_llm_asks_a_model() -> None:
    asked = [state for state in (*WORKFLOW.states, "gone") if asks_model(WORKFLOW, at(state))]

    assert asked == ["observing"]


CHOSEN = '{"next_state": "ideating", "reason": "enough is known"}'


@pytest.mark.parametrize(
    "text",
    [
        CHOSEN,
        f"  {CHOSEN}\n",
        f"```json\n{CHOSEN}\n```",
        f"Going on from {{observing}}, I decide:\n\n{CHOSEN}\n\nGood luck!",
        '{"reason": "enough is known", "next_state": "ideating", "confidence": 0.9}',
    ],
)
def test_llm_transition_parsing(text: str) -> None:
    """A reply may be plain JSON, fenced, or wrapped in prose; it is followed, not ignored."""
    after, event = next_state(WORKFLOW, at("observing", ticks=2), facts(), TransitionAnswer(text))

    assert parse_choice(text, states=WORKFLOW.states) == StateChoice("ideating", "enough is known")
    assert after == at("ideating")
    assert (event.how, event.to, event.reason) == ("llm", "ideating", "enough is known")
    assert not event.refused


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        (TransitionAnswer('{"next_state": "conquering"}'), "unknown state 'conquering'"),
        (TransitionAnswer('{"next_state": "Ideating"}'), "unknown state"),
        (TransitionAnswer(""), "empty"),
        (TransitionAnswer("  \n"), "empty"),
        (TransitionAnswer("ideating"), "no JSON object"),
        (TransitionAnswer('{"next_state": "ideating"'), "not valid JSON"),
        (TransitionAnswer('{"next_state": null}'), "no `next_state`"),
        (TransitionAnswer('{"next_state": ["ideating"]}'), "no `next_state`"),
        (TransitionAnswer('{"state": "ideating"}'), "no `next_state`"),
        (TransitionAnswer('{"a": {"next_state": "ideating"}}'), "no `next_state`"),
        (TransitionAnswer(f"{CHOSEN} or {CHOSEN}"), "more than one"),
        (TransitionAnswer('{"next_state": "a", "next_state": "ideating"}'), "twice"),
        (TransitionAnswer(f'{{"next_state": "{"x" * 10_000}"}}'), "unknown state"),
        (TransitionAnswer(failed="rate limited"), "the reply failed: rate limited"),
        (None, "no model was asked"),
    ],
)
def test_a_reply_that_cannot_be_used_stays_with_a_reason(reply: TransitionAnswer | None, why: str) -> None:
    after, event = next_state(WORKFLOW, at("observing", ticks=2), facts(), reply)

    assert after == at("observing", ticks=3)
    assert event.refused
    assert why in event.reason
    assert len(event.reason) <= 300


def test_a_model_may_choose_to_stay() -> None:
    after, event = next_state(
        WORKFLOW, at("observing"), facts(), TransitionAnswer('{"next_state": "observing"}')
    )

    assert after == at("observing", ticks=1)
    assert event.how == "llm" and not event.refused and not event.is_move


def test_what_an_agent_says_of_itself_hides_nothing() -> None:
    known = with_position(
        facts(balance=10**6, stuck=False, failure_count=0, last_action={}, mood="fine"),
        WORKFLOW,
        at("observing", ticks=9, failures=4),
    )

    assert known["balance"] == 20
    assert known["stuck"] is True
    assert known["failure_count"] == known["consecutive_failures"] == 4
    assert known["last_action"]["type"] == "write"
    assert known["mood"] == "fine"


@pytest.mark.parametrize("name", WORKFLOWS)
def test_a_shipped_workflow_is_sound(name: str) -> None:
    content = shipped_workflow(name)
    workflow = read_workflow(content)
    prompts = prompt_library()["prompts"]

    assert content["title"] and content["description"]
    assert set(workflow.steps) == set(workflow.states)
    for step in workflow.steps.values():
        for text in (step.prompt_artifact_id, step.transition_prompt_artifact_id):
            if text is not None:
                ref = Ref.parse(text)
                assert ref.id == PROMPT_LIBRARY and ref.part in prompts
    assert reachable(workflow) == set(workflow.states)


def reachable(workflow: Workflow) -> set[str]:
    known: set[str] = set()
    waiting = [workflow.initial_state]
    while waiting:
        state = waiting.pop()
        if state not in known:
            known.add(state)
            step = workflow.step(state)
            waiting += [branch.to for branch in step.branches]
            waiting += [step.to] if step.to else []
            waiting += workflow.states if step.mode == "llm" else []
    return known


@pytest.mark.parametrize("name", WORKFLOWS)
def test_a_shipped_workflow_never_traps_an_agent_that_fails(name: str) -> None:
    workflow = read_workflow(shipped_workflow(name))
    state, _ = begin(workflow, None)
    visited = set()
    for _ in range(60):
        state, _ = next_state(
            workflow, state, facts(success=False), TransitionAnswer('{"next_state": "writing"}')
        )
        visited.add(state.state)

    assert len(visited) >= (1 if asks_model(workflow, state) else 2)


@given(
    st.sampled_from([*WORKFLOW.states, "gone"]),
    st.integers(0, 20),
    st.dictionaries(st.text(max_size=12), st.none() | st.booleans() | st.integers(), max_size=4),
    st.none() | st.builds(TransitionAnswer, st.text(max_size=40) | st.just(CHOSEN), st.just("")),
)
def test_any_facts_and_any_reply_lead_to_a_state_that_exists(
    name: str, ticks: int, known: dict[str, Any], reply: TransitionAnswer | None
) -> None:
    state = at(name, ticks)

    after, event = next_state(WORKFLOW, state, known, reply)

    assert after.state in WORKFLOW.states
    assert (event.origin, event.to) == (name, after.state)
    assert after.ticks_in_state == (0 if event.is_move else ticks + 1)
    assert next_state(WORKFLOW, state, known, reply) == (after, event)


contents = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from(["a", "b", "llm", "auto", "x()"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                "states initial_state steps state transition_mode transition_to condition to "
                "transition_conditions prompt_inline prompt_artifact_id".split()
            ),
            inner,
            max_size=5,
        )
    ),
    max_leaves=20,
)


@given(contents)
def test_any_content_is_a_workflow_or_is_refused(content: Any) -> None:
    try:
        workflow = read_workflow(content)
    except InvalidWorkflow as error:
        assert error.errors
    else:
        assert workflow.initial_state in workflow.states
