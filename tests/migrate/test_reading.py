"""Old agents as plans: what each key becomes, and what is said about those that nothing uses."""

from __future__ import annotations

import asyncio
import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from artelier.artifacts.kinds import program_of
from artelier.errors import NotFound
from artelier.sandbox import MontySandbox
from artelier.world.mind_artifacts.prompt import BUILT_IN, read_prompt
from artelier.world.mind_artifacts.transition import TransitionAnswer, facts_of, next_state, with_position
from artelier.world.mind_artifacts.workflow import MindState, read_workflow
from artelier_migrate import Plan, Specification, read_agents

AGENTS = Path(__file__).parent / "agents"


def plans(folder: Path = AGENTS) -> dict[str, Plan]:
    return {plan.folder: plan for plan in read_agents(folder)}


def artifact(plan: Plan, id: str) -> Specification:
    (found,) = [made for made in plan.artifacts if made.id == id]
    return found


def said(plan: Plan, *, what: str | None = None) -> list[tuple[int, str]]:
    return [(note.line, note.key) for note in plan.notes if what in (None, note.what)]


def agent(folder: Path, text: str, *, name: str = "ada", prompt: str | None = "You.") -> Plan:
    """The plan of one agent that is written down here."""
    (folder / name).mkdir(parents=True, exist_ok=True)
    (folder / name / "agent.yaml").write_text(text)
    if prompt is not None:
        (folder / name / "system_prompt.md").write_text(prompt)
    return plans(folder)[name]


def values(**given: Any) -> dict[str, Any]:
    return {**dict.fromkeys(BUILT_IN, "-"), **given}


def after(plan: Plan, state: str, *, reply: str | None = None, **given: Any) -> str:
    """The state that follows, by the real engine."""
    (made,) = [one for one in plan.artifacts if one.kind == "workflow"]
    workflow = read_workflow(made.content)
    own = {key: given.pop(key) for key in list(given) if key not in ("balance", "tick", "failures")}
    facts = facts_of(agent_id="x", tick=given.get("tick", 0), balance=given.get("balance", 0), own=own)
    mind = MindState(state=state, failure_count=given.get("failures", 0))
    facts = {"working_memory": {}, **with_position(facts, workflow, mind)}
    for step in workflow.step(state).code:
        if step.run_if is None or step.run_if.check(facts, strict=True).holds:
            facts |= computed(artifact(plan, step.artifact_id).content["code"], facts)
    asked = TransitionAnswer(text=reply) if reply is not None else None
    return next_state(workflow, mind, facts, asked)[0].state


def computed(code: str, facts: dict[str, Any]) -> dict[str, Any]:
    """What the tool of a code step gives, as the sandbox of a world runs it."""

    async def scenario() -> Any:
        sandbox = MontySandbox()
        names = program_of(code).parameters
        args = {name: facts[name] for name in names if name in facts}
        try:
            return await sandbox.run(f"{code}\nrun(**args)", inputs={"args": args})
        finally:
            await sandbox.close()

    return asyncio.run(scenario()).value


def test_each_agent_gets_the_artifacts_that_it_thinks_with() -> None:
    plan = plans()["builder"]

    assert [(made.id, made.kind) for made in plan.artifacts] == [
        ("builder_metrics_code", "tool"),
        ("builder_observe_prompt", "prompt"),
        ("builder_design_prompt", "prompt"),
        ("builder_build_prompt", "prompt"),
        ("builder_judge_transition", "prompt"),
        ("builder_ship_prompt", "prompt"),
        ("builder_workflow", "workflow"),
        ("builder_personality", "personality"),
        ("builder_working_memory", "document"),
        ("builder_longterm_memory", "memory_store"),
        ("builder", "agent"),
    ]
    assert plan.artifacts[-1].content == {
        "model": "google:gemini-2.0-flash",
        "personality_prompt_artifact_id": "builder_personality",
        "workflow_artifact_id": "builder_workflow",
        "reflex_artifact_id": None,
        "working_memory_artifact_id": "builder_working_memory",
        "longterm_memory_artifact_id": "builder_longterm_memory",
        "steering_artifact_id": None,
        "subscribed_artifacts": [],
    }
    assert plan.artifacts[-1].metadata["starting_scrip"] == 120
    assert plan.artifacts[-1].metadata["genotype"]["primary_strategy"] == "BUILD"
    assert not plan.failed


def test_what_nothing_uses_is_named_with_file_and_line() -> None:
    found = plans()
    text = (AGENTS / "builder/agent.yaml").read_text().split("\n")
    unused = said(found["builder"], what="unused")

    assert text[6 - 1].startswith("temperature")
    assert (6, "temperature") in unused
    for line, key in said(found["builder"]):
        last = {"components.behaviors": "no_such"}.get(key)
        assert (last or key.rpartition(".")[2]) in text[line - 1], (line, key)
    assert {key for _, key in unused} == {
        "temperature",
        "components.behaviors",
        "workflow.steps[3].on_failure",
        "workflow.steps[3].max_retries",
    }
    kept = {key for _, key in said(found["builder"], what="kept")}
    assert kept >= {"genotype", "visibility", "error_handling", "rag.limit", "starting_credits"}
    assert {note.file for note in found["builder"].notes} == {"builder/agent.yaml"}
    assert (26, "workflow.steps[2].on") in said(found["trader"], what="unused")
    assert (8, "memory.decay") in said(found["scout"], what="unused")
    assert (6, "workflow.error_handling") in said(found["planner"], what="kept")


def test_a_step_prompt_renders_as_it_did() -> None:
    content = artifact(plans()["builder"], "builder_observe_prompt").content
    given = values(agent_id="builder", current_state="observing", tick=3, balance=40)

    text = read_prompt(content).render(given)
    more = read_prompt(content).render({**given, "revenue_earned": 12.4, "working_memory": {"goal": "grow"}})

    assert text.startswith("You are builder in observing, at tick 3, with 40 scrip.")
    # Nobody knows these: no value is made up, and none is left blank.
    assert "Revenue so far: {revenue_earned:+.0f}; time left: {time_remaining}." in text
    assert "Goal: {working_memory.goal}" in text
    assert 'Look around: {"action": "search", "text": "tools"}' in text
    assert "Revenue so far: +12;" in more
    assert "Goal: grow" in more


def test_a_personality_keeps_braces_that_are_no_variables() -> None:
    content = artifact(plans()["builder"], "builder_personality").content
    raw = (AGENTS / "builder/system_prompt.md").read_text().strip()

    assert read_prompt(content).render(values(agent_id="bo")) == raw.replace("{agent_id}", "bo")


def test_a_component_ends_the_prompts_that_it_names() -> None:
    plan = plans()["builder"]
    observed = artifact(plan, "builder_observe_prompt").content["template"]
    shipped = artifact(plan, "builder_ship_prompt").content["template"]

    assert observed.endswith("do something else. Recent: {action_history}")
    assert shipped == "Offer it for sale.\n\nNever spend more than a tenth of {balance}."
    assert "same action" not in shipped


def test_code_steps_feed_conditions_and_steps_lead_where_the_state_machine_allows() -> None:
    plan = plans()["builder"]

    assert after(plan, "observing", balance=19) == "observing"
    assert after(plan, "observing", balance=20) == "designing"
    assert after(plan, "designing", balance=5, failures=2) == "building"
    assert after(plan, "designing", balance=5, failures=3) == "building"
    assert after(plan, "designing", balance=50, failures=3) == "building"


def test_what_code_computes_from_the_working_memory_decides(tmp_path: Path) -> None:
    plan = plans()["planner"]
    kept: dict[str, Any] = {"working_memory": {"strategic_goal": "trade"}}

    assert after(plan, "tactical", tick=20, **kept) == "tactical"
    assert after(plan, "tactical", tick=21, **kept) == "reviewing"
    assert after(plan, "tactical", tick=21, working_memory={}) == "tactical"
    # A name that nobody computes is said, and the step is left out as it was: even `not` of it does not hold.
    one = {"name": "s", "prompt": "Go.", "in_state": "a", "run_if": "not done", "transition_to": "b"}
    lost = agent(
        tmp_path,
        json.dumps({"id": "a", "workflow": {"steps": [one, {"name": "t", "prompt": "x", "in_state": "b"}]}}),
    )
    (note,) = [note for note in lost.notes if note.key == "workflow.steps[0].run_if"]
    assert note.what == "changed" and "nothing here supplies done" in note.text
    assert after(lost, "a") == "a" and after(lost, "a", done=False) == "b"


def test_a_condition_to_stay_wins_over_those_below_it(tmp_path: Path) -> None:
    plan = agent(
        tmp_path,
        """
id: a
workflow:
  state_machine:
    states: [here, there, away]
    transitions:
      - {from: here, to: here, condition: "tick < 5"}
      - {from: here, to: there, condition: "balance > 1"}
      - {from: there, to: away, condition: "balance > 9"}
      - {from: "*", to: away, condition: "tick > 90"}
  steps:
    - {name: go, type: llm, in_state: there, prompt: Go., transition_to: away}
""",
    )

    assert after(plan, "here", tick=3, balance=2) == "here"
    assert after(plan, "here", tick=7, balance=2) == "there"
    assert after(plan, "here", tick=91) == "away"
    # The step moves on only where the state machine allows it.
    assert after(plan, "there", balance=9) == "there"
    assert after(plan, "there", balance=10) == "away"
    assert after(plan, "away", tick=91) == "away"


def test_several_ways_without_a_condition_are_a_models_choice(tmp_path: Path) -> None:
    plan = agent(
        tmp_path,
        "id: a\nworkflow: {state_machine: {states: [x, y, z], transitions: [x -> y, x -> z, '* -> x']}}\n",
    )

    assert after(plan, "x", reply='{"next_state": "z"}') == "z"
    assert after(plan, "y") == "x"
    assert [note.key for note in plan.notes if note.what == "changed"] == ["workflow.state_machine"]


def test_a_decision_becomes_the_state_it_stands_for() -> None:
    plan = plans()["builder"]
    template = artifact(plan, "builder_judge_transition").content["template"]

    assert "Respond with exactly one of: continue, pivot, ship" in template
    assert '{"next_state": "<state>"' in template
    assert "- pivot: observing" in template
    assert after(plan, "judging", reply='{"next_state": "shipping"}') == "shipping"
    assert after(plan, "judging", reply="ship") == "judging"


def test_booleans_of_yaml_are_keys_and_names() -> None:
    plan = plans()["trader"]
    workflow = next(made for made in plan.artifacts if made.kind == "workflow")
    template = artifact(plan, "trader_ask_transition").content["template"]

    assert workflow.content["states"] == ["watching", "on", "off"]
    assert after(plan, "watching") == "on"
    assert after(plan, "off") == "watching"
    assert "- yes: on\n- no: off" in template
    assert "nowhere" not in template


def test_true_and_false_decide_by_the_condition_of_the_step() -> None:
    plan = plans()["planner"]

    assert after(plan, "reviewing", balance=20) == "reviewing_llm"
    assert after(plan, "reviewing", balance=19) == "strategic"


def test_a_decision_by_an_artifact_takes_its_fallback_and_says_so() -> None:
    plan = plans()["planner"]

    assert after(plan, "reviewing_llm") == "strategic"
    assert (56, "workflow.steps[5].transition_source") in said(plan, what="changed")


def test_steps_of_every_state_are_part_of_each_prompt() -> None:
    plan = plans()["planner"]
    (workflow,) = [made for made in plan.artifacts if made.kind == "workflow"]
    (tactical,) = [one for one in workflow.content["steps"] if one["state"] == "tactical"]

    assert tactical["prompts"] == [
        {"prompt_artifact_id": "planner_learn_prompt", "code_before": 0},
        {"prompt_artifact_id": "planner_tactics_prompt", "run_if": "not needs_review"},
    ]


def test_steps_without_states_take_turns() -> None:
    plan = plans()["scout"]

    assert (after(plan, "look"), after(plan, "tell")) == ("tell", "look")
    assert artifact(plan, "scout.v2_personality").content["template"] == "You scout for others."
    assert plan.artifacts[-1].content["subscribed_artifacts"] == ["handbook", "price_list"]


def test_memory_settings_and_the_first_working_memory() -> None:
    plan = plans()["scout"]

    config = artifact(plan, "scout.v2_longterm_memory").content["config"]
    assert config == {"max_entries": 200, "auto_prune": "lowest_score"}
    assert artifact(plan, "scout.v2_working_memory").content == {
        "goal": "find what is missing",
        "progress": "",
        "lessons": [],
        "objectives": [],
        "facts": {"strategic_goal": "map the market"},
    }
    # `rag: {enabled: false}`: nothing is looked up at a step.
    assert plan.artifacts[-1].content["longterm_memory_artifact_id"] is None


def test_wildcards_references_and_anchors() -> None:
    plan = plans()["keeper"]
    content = plan.artifacts[-1].content
    (workflow,) = [made for made in plan.artifacts if made.kind == "workflow"]
    counting = next(one for one in workflow.content["steps"] if one["state"] == "counting")

    assert content["reflex_artifact_id"] == "keeper_habit"
    assert content["longterm_memory_artifact_id"] == "shared_archive"
    assert content["model"] == "anthropic:claude-haiku-4-5"
    assert counting["prompts"] == [
        {
            "prompt_artifact_id": "genesis_prompt_library#observe_base",
            "prompt_inline": "Count what you own.",
            "run_if": "tick % 10 == 0",
        }
    ]
    assert after(plan, "alarmed") == "guarding"
    assert artifact(plan, "keeper_personality").content["template"] == "You keep things.\nAll of them."


def test_code_that_the_sandbox_refuses_is_reported_by_the_line_of_the_file() -> None:
    plan = plans()["keeper"]
    line = (AGENTS / "keeper/agent.yaml").read_text().split("\n").index("            yield 1") + 1

    (note,) = [note for note in plan.notes if note.key == "workflow.steps[0].code"]

    assert (note.what, note.line) == ("unused", line)
    assert "yield is not supported" in note.text
    assert "tool" not in {made.kind for made in plan.artifacts}


@pytest.mark.parametrize(
    "code",
    [
        "z = 1\nglobal z",
        "x = price_max + 1",
        "def f(:",
        "x = 1\ndel x",
        "return" + "(" * 300,
        "from os import *",
        "x = super().y",
    ],
)
def test_code_that_can_be_no_tool_is_reported_and_the_agent_goes_on(tmp_path: Path, code: str) -> None:
    steps = [
        {"name": "facts", "type": "code", "code": code},
        {"name": "s", "type": "llm", "prompt": "Go.", "run_if": "x > 0"},
    ]

    plan = agent(tmp_path, json.dumps({"id": "a", "workflow": {"steps": steps}}))

    assert not plan.failed
    assert "tool" not in {made.kind for made in plan.artifacts}
    assert ("unused", "workflow.steps[0].code") in {(note.what, note.key) for note in plan.notes}


def test_no_code_of_a_file_is_run(tmp_path: Path) -> None:
    trap = tmp_path / "trap"
    code = f"import os\nos.mkdir({str(trap)!r})\nx = open({str(trap)!r}, 'w')\n"
    steps = [{"name": "s", "type": "code", "code": code}, {"name": "p", "prompt": f"{{{code}}}"}]

    agent(tmp_path, json.dumps({"id": "a", "workflow": {"steps": steps}}))

    assert not trap.exists()


def test_a_component_that_no_prompt_takes_is_named(tmp_path: Path) -> None:
    shelf = tmp_path / "_components/behaviors"
    shelf.mkdir(parents=True)
    (shelf / "calm.yaml").write_text("prompt_fragment: Be calm.\ninject_into: [elsewhere]\n")
    (shelf / "odd.yaml").write_text("prompt_fragment: [")

    workflow = "workflow: {steps: [{name: s, type: llm, prompt: Go.}]}\n"
    plan = agent(tmp_path, f"id: a\ncomponents:\n  - calm\n  - odd\n{workflow}")
    plain = agent(tmp_path, "id: b\ncomponents: [calm]\n", name="b")

    assert said(plan, what="unused") == [(3, "components"), (4, "components")]
    assert artifact(plain, "b_personality").content["template"] == "You.\n\nBe calm."


def test_what_is_no_agent_is_skipped() -> None:
    found = plans()

    assert set(found) == {"builder", "drafts", "hermit", "keeper", "planner", "scout", "sleeper", "trader"}
    assert [name for name, plan in found.items() if plan.skipped] == ["drafts", "sleeper"]
    assert not any(plan.failed for plan in found.values())


def test_a_folder_that_is_an_agent_itself() -> None:
    (plan,) = read_agents(AGENTS / "hermit")

    assert (plan.agent, plan.folder) == ("hermit", ".")
    with pytest.raises(NotFound):
        read_agents(AGENTS / "nowhere")


def test_an_agent_of_another_format_is_skipped(tmp_path: Path) -> None:
    plan = agent(tmp_path, "id: a\nartifacts: []\nprincipal: {id: b}\n")

    assert plan.skipped
    assert agent(tmp_path, "title: no agent\n").skipped


# Bad and hostile files


BOMB = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{new}: &{new} [{','.join([f'*{old}'] * 9)}]\n" for old, new in zip("abcdefgh", "bcdefghi", strict=True)
)

BROKEN = [
    ("id: [", 0, "broken YAML"),
    ("id: a\nmodel: offline\n\tworkflow: x\n", 3, "broken YAML"),
    ("id: a\n---\nid: b\n", 2, "broken YAML"),
    ("id: a\nllm_model: \x00\n", 2, "broken YAML"),
    ("- a\n- b\n", 1, "expected a mapping"),
    ("just text", 1, "expected a mapping"),
    ("", 1, "expected a mapping"),
    (BOMB + "id: bomb\n", 0, "with aliases unfolded"),
    ("id: a\nx: &x [*x]\n", 2, "nested"),
    ("id: a\nx: " + "[" * 100_000, 2, "nested"),
    ("id: a\nx: !!python/object/apply:os.system ['true']\n", 2, "is not read"),
    ("id: a\nx: !secret y\n", 2, "is not read"),
    ("id: a\n? [1, 2]\n: x\n", 2, "neither text nor a number"),
    ("id: no spaces please\nmodel: offline\n", 1, "invalid artifact id"),
    ("id: a#b\nmodel: offline\n", 1, "invalid artifact id"),
    ("id: main:a\nmodel: offline\n", 1, "reserved"),
    ("id: artifact:a\nmodel: offline\n", 1, "reserved"),
    (f"id: {'x' * 129}\nmodel: offline\n", 1, "invalid artifact id"),
    (f"id: {'x' * 120}\nmodel: offline\n", 0, "too long"),
    ("id: a\nmodel: offline\npad: '" + "x" * 300_000 + "'", 0, "larger than"),
]


@pytest.mark.parametrize(("text", "line", "reason"), BROKEN, ids=range(len(BROKEN)))
def test_a_broken_file_fails_its_agent_alone(tmp_path: Path, text: str, line: int, reason: str) -> None:
    agent(tmp_path, "id: good\nmodel: offline\n", name="good")
    began = time.process_time()

    plan = agent(tmp_path, text, name="bad")

    assert time.process_time() - began < 20, "of work: no file is a bomb"
    (note, *_) = [note for note in plan.notes if note.what == "failed"]
    assert reason in note.text
    assert note.file == "bad/agent.yaml"
    assert line in (0, note.line)
    assert plan.artifacts == ()
    assert plans(tmp_path)["good"].artifacts


def test_files_that_are_no_utf8_fail_with_their_line(tmp_path: Path) -> None:
    agent(tmp_path, "id: a\nmodel: offline\n", name="a")
    (tmp_path / "a/system_prompt.md").write_bytes(b"fine\nnot \xff fine")
    agent(tmp_path, "", name="b")
    (tmp_path / "b/agent.yaml").write_bytes(b"id: b\nmodel: \xe9\n")

    found = plans(tmp_path)

    assert [(n.file, n.line) for n in found["a"].notes if n.what == "failed"] == [("a/system_prompt.md", 2)]
    assert [(n.file, n.line) for n in found["b"].notes] == [("b/agent.yaml", 2)]
    assert found["a"].artifacts == ()


def test_nothing_outside_of_the_folder_is_read(tmp_path: Path) -> None:
    inside = tmp_path / "agents"
    agent(tmp_path / "elsewhere", "id: spy\nmodel: offline\n", name="spy")
    (tmp_path / "secret").write_text("id: secret\nmodel: offline\n")
    agent(inside, "id: a\nmodel: offline\n", name="a", prompt=None)
    (inside / "a/system_prompt.md").symlink_to(tmp_path / "secret")
    (inside / "b").mkdir()
    (inside / "b/agent.yaml").symlink_to("../../secret")
    (inside / "c").symlink_to(tmp_path / "elsewhere/spy")
    (inside / "d").mkdir()
    (inside / "d/agent.yaml").symlink_to("agent.yaml")
    (inside / "e").mkdir()
    os.mkfifo(inside / "e/agent.yaml")
    agent(inside, "id: f\nmodel: offline\ncomponents: ['../../secret']\n", name="f")

    found = plans(inside)

    assert {name for name, plan in found.items() if plan.failed} == {"a", "b", "c", "d", "e"}
    assert "leads out of the folder" in found["a"].notes[-1].text
    assert "leads out of the folder" in found["c"].notes[-1].text
    assert "no plain file" in found["e"].notes[-1].text
    assert found["f"].notes[-1].key == "components"


def test_agents_of_one_id_all_fail_and_the_rest_goes_on(tmp_path: Path) -> None:
    ids = {"one": "same", "two": "same", "three": "other", "four": "other_personality"}
    for name, id in ids.items():
        agent(tmp_path, f"id: {id}\nmodel: offline\n", name=name)
    agent(tmp_path, "id: fine\nmodel: offline\n", name="five")

    found = plans(tmp_path)

    assert [name for name, plan in found.items() if not plan.failed] == ["five"]
    assert "two would write an artifact of the id same" in found["one"].notes[-1].text
    assert "other_personality" in found["four"].notes[-1].text


def test_a_key_that_stands_twice_is_named(tmp_path: Path) -> None:
    plan = agent(tmp_path, "id: a\nmodel: offline\nid: b\n")

    assert (plan.agent, said(plan, what="changed")) == ("b", [(3, "id")])


@pytest.mark.parametrize(
    "placeholder",
    [
        "{x:>10}",
        "{x:05d}",
        "{x:,}",
        "{x!r}",
        "{x[a]} {x.b:.1f}",
        "{balance:+.2f}",
        "{}",
        "{0}",
        "{last_action_result[error]}",
        "{last_action_result:>20}",
        "{tick:03d}",
        "{x",
        "}",
        "{{x}}",
    ],
)
def test_every_template_that_was_one_can_be_rendered(tmp_path: Path, placeholder: str) -> None:
    plan = agent(
        tmp_path, "id: a\nworkflow: {steps: [{name: s, type: llm, prompt: 'Say " + placeholder + "'}]}\n"
    )

    content = artifact(plan, "a_s_prompt").content

    assert read_prompt(content).render(values(balance=1, tick=2)).startswith("Say ")


def test_a_workflow_beyond_the_bounds_fails_with_its_line(tmp_path: Path) -> None:
    states = ", ".join(f"s{number}" for number in range(70))

    plan = agent(tmp_path, f"id: a\nworkflow:\n  state_machine: {{states: [{states}]}}\n")

    (note,) = [note for note in plan.notes if note.what == "failed"]
    assert (note.line, note.key) == (2, "workflow")
