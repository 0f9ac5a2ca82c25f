"""Migrated agents act as the originals did: the same states, the same prompts, no value that nobody has."""

from __future__ import annotations

import asyncio
import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from artelier import Kernel
from artelier.ports.model import ModelRequest
from artelier.testing import ScriptedModel
from artelier.world import World
from artelier_migrate import join_agents, read_agents, write_agents
from tests.migrate.old_agents import WRITTEN, drawn
from tests.migrate.old_runner import OldAgent
from tests.world.places import balance, events, known, world_at
from tests.world.speaking import Speaking

ACTIONS: tuple[dict[str, Any], ...] = (
    {"action": "noop"},
    {"action": "transfer", "to": "bank", "amount": 4},
    {"action": "transfer", "to": "bank", "amount": 10_000},
    {"action": "write", "artifact_id": "{me}_note", "kind": "document", "content": "x"},
)
"""What agents do in turn: nothing, what costs, what fails, what they then own."""


def config_of(id: str, flow: dict[str, Any]) -> dict[str, Any]:
    return {
        "id": id,
        "llm_model": "m",
        "rag": {"enabled": False},
        "working_memory": {"streak": 2},
        "workflow": flow,
    }


def written(folder: Path, flows: dict[str, dict[str, Any]]) -> Path:
    for id, flow in flows.items():
        (folder / id).mkdir(parents=True)
        (folder / id / "agent.yaml").write_text(json.dumps(config_of(id, flow)))
        (folder / id / "system_prompt.md").write_text("You are a test.")
    return folder


class Actors:
    """A model that acts in turn, and decides by turns; it keeps what it was shown."""

    def __init__(self) -> None:
        self.shown: dict[str, str] = {}
        """By agent the prompt of the newest tick."""
        self._acts: Counter[str] = Counter()
        self.model = ScriptedModel(self._answer)

    def _answer(self, request: ModelRequest) -> str:
        text = "\n\n".join(message.text for message in request.messages)
        words = re.findall(r"^- (\w+): (\w+)$", text.partition("stands for a state")[2], re.MULTILINE)
        if words:
            return json.dumps({"next_state": words[chosen([word for word, _ in words])][1]})
        found = re.search(r"^You are (\w+)\.$", text, re.MULTILINE)
        me = found[1] if found else ""
        self.shown[me] = text
        self._acts[me] += 1
        action = json.dumps(ACTIONS[(self._acts[me] - 1) % len(ACTIONS)])
        return action.replace("{me}", me)


def chosen(words: list[str]) -> int:
    """The same word for the same words, whoever asks: the model knows nothing of ticks."""
    return sum(map(ord, "".join(sorted(words)))) % len(words)


def decide(state: str, words: list[str]) -> str:
    return words[chosen(words)]


async def facts(world: World, agent: str) -> dict[str, Any]:
    """What the old runner would have known at the beginning of the next tick."""
    row = (await world.agents())[agent]
    scrip = await balance(world, agent)
    return {
        "agent_id": agent,
        "tick": await world.tick_now() + 1,
        "balance": scrip,
        "credits": scrip,
        "failure_count": row.failures,
        "last_action_type": row.last_action,
    }


async def compare(folder: Path, flows: dict[str, dict[str, Any]], *, ticks: int) -> list[str]:
    """Where the migrated agents and the old rules part, over some ticks of one world."""
    actors = Actors()
    with Kernel.open(folder / "state.db", models={"m": actors.model}) as kernel:
        async with await migrated(kernel, folder / "old", flows) as world:
            old = {id: OldAgent(config_of(id, flow), decide) for id, flow in flows.items()}
            wrong: list[str] = []
            for _ in range(ticks):
                known_now = {id: await facts(world, id) for id in old}
                actors.shown.clear()
                await world.tick()
                rows = await world.agents()
                for id, one in old.items():
                    ended = one.turn(known_now[id], cut=True)
                    wrong += _differs(id, one, rows[id].state, actors.shown.get(id), known_now[id], ended)
            return wrong


def _differs(
    id: str, old: OldAgent, state: str | None, shown: str | None, known: dict[str, Any], ended: bool
) -> list[str]:
    found: list[str] = []
    if state != old.state:
        found.append(f"{id} tick {known['tick']}: {state} instead of {old.state}")
    if (shown is not None) != bool(old.prompts and ended):
        found.append(f"{id} tick {known['tick']}: asked {shown is not None}, prompts {old.prompts}")
    for prompt in old.prompts if shown is not None else ():
        if prompt not in str(shown):
            found.append(f"{id} tick {known['tick']}: not shown: {prompt!r}")
    return found


def test_migrated_agents_visit_the_states_that_the_old_rules_say(tmp_path: Path) -> None:
    async def scenario() -> None:
        assert await compare(tmp_path, WRITTEN, ticks=9) == []

    asyncio.run(scenario())


@pytest.mark.parametrize("first", [*range(0, 120, 30), 806_809_796])
def test_drawn_workflows_visit_the_states_that_the_old_rules_say(tmp_path: Path, first: int) -> None:
    flows = {f"agent{seed}": drawn(seed) for seed in range(first, first + 30)}

    async def scenario() -> None:
        assert await compare(tmp_path, flows, ticks=7) == []

    asyncio.run(scenario())


@pytest.mark.parametrize("id", ["cycle", "judged"])
def test_whole_turns_of_the_old_runner_lead_through_the_same_states(tmp_path: Path, id: str) -> None:
    """The old runner went through several states in one turn; here each is a tick, in the same order."""
    flow = WRITTEN[id]

    async def scenario() -> list[str]:
        with Kernel.open(tmp_path / "state.db", models={"m": Actors().model}) as kernel:
            async with await migrated(kernel, tmp_path / "old", {id: flow}) as world:
                known_now = await facts(world, id)
                old = OldAgent(config_of(id, flow), decide)
                for _ in range(4):
                    old.turn(known_now, cut=False)
                await world.run(ticks=len(old.visited) - 1)
                moved = await events(world, "agent.moved")
                assert [data["to"] for _, _, data in moved] == old.visited
                return old.visited

    assert len(asyncio.run(scenario())) > 4


async def migrated(kernel: Kernel, folder: Path, flows: dict[str, dict[str, Any]]) -> World:
    """A world of these agents, and the principal that they pay."""
    world = await World.new(kernel, "w", {"model": "m"})
    await known(world, "bank")
    plans = read_agents(written(folder, flows))
    assert not [note for plan in plans for note in plan.notes if note.what == "failed"]
    outcomes = await write_agents(plans, lambda agent: world.as_principal(agent).artifacts)
    await join_agents(kernel.for_tenant(), "w", plans, outcomes)
    return world


# What goes wrong


def flow_of(*steps: dict[str, Any], states: str = "ab") -> dict[str, Any]:
    return {"state_machine": {"states": list(states)}, "steps": list(steps)}


GO = {"name": "go", "in_state": "a", "prompt": "Go.", "transition_to": "b"}


@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("while True:\n    pass", "ran longer"),
        ("x = [0]\nwhile True:\n    x = x + x", "memory"),
        ("raise ValueError('no bread')", "no bread"),
        ("y = 1 / 0", "division by zero"),
        ("y = nobody_knows + 1", "name 'nobody_knows' is not defined"),
        ("def f():\n    return f()\ny = f()", "recursion"),
    ],
)
def test_code_that_fails_keeps_its_agent_where_it_is_and_is_read_by_it(
    tmp_path: Path, code: str, why: str
) -> None:
    actors = Actors()
    broken = {"name": "broken", "type": "code", "run_if": "tick < 2", "code": code}

    async def scenario() -> None:
        with Kernel.open(tmp_path / "state.db", models={"m": actors.model}) as kernel:
            flows = {"ana": flow_of(broken, GO), "bob": flow_of(GO)}
            async with await migrated(kernel, tmp_path / "old", flows) as world:
                passed = await world.tick()
                assert (passed.acted, passed.rejected) == (2, 1)
                rows = await world.agents()
                assert (rows["ana"].state, rows["bob"].state) == ("a", "b")
                [(_, who, data)] = await events(world, "action.rejected")
                assert (who, data["code"]) == ("ana", "code_failed")
                assert "ana" not in actors.shown
                await world.tick()
                assert (await world.agents())["ana"].state == "b"
                shown = actors.shown["ana"]
                assert "the code step ana_broken_code failed" in shown and why in shown.lower()

    asyncio.run(scenario())


def test_states_without_prompts_that_lead_in_a_circle_ask_no_model_and_end_no_world(tmp_path: Path) -> None:
    actors = Actors()
    round = [
        {"name": name, "type": "transition", "in_state": name, "transition_to": to}
        for name, to in (("a", "b"), ("b", "a"))
    ]

    async def scenario() -> None:
        with Kernel.open(tmp_path / "state.db", models={"m": actors.model}) as kernel:
            async with await migrated(kernel, tmp_path / "old", {"ana": flow_of(*round)}) as world:
                await world.run(ticks=5)
                moved = await events(world, "agent.moved")
                assert [data["to"] for _, _, data in moved] == ["a", "b", "a", "b", "a", "b"]
                assert await balance(world, "ana") == 100

    asyncio.run(scenario())
    assert not actors.model.requests


def test_states_that_are_never_entered_and_actions_that_are_gone_are_reported(tmp_path: Path) -> None:
    prompt = """Use read_artifact or query_kernel:
        {"action_type": "write_artifact", "artifact_id": "x", "artifact_type": "document"}
        {"action_type": "read_artifact", "artifact_id": "x"}"""
    flow = flow_of({**GO, "prompt": prompt, "run_if": "last_action_type != 'write_artifact'"}, states="abc")

    [plan] = read_agents(written(tmp_path / "old", {"ana": flow}))

    said = " | ".join(note.text for note in plan.notes)
    assert "the state c is unreachable" in said and "the state b is" not in said
    assert "read_artifact is read, write_artifact is write" in said
    assert "there is no action query_kernel here" in said
    made = {one.id: one.content for one in plan.artifacts}
    text = made["ana_go_prompt"]["template"]
    assert '{"action": "write", "artifact_id": "x", "kind": "document"}' in text
    assert '{"action": "read", "ref": "x"}' in text and "Use read or query_kernel" in text
    [step, *_] = made["ana_workflow"]["steps"]
    assert step["transition_conditions"][0]["condition"] == "last_action_type != 'write'"


def test_code_of_somebody_else_is_paid_at_the_price_that_was_agreed_to(tmp_path: Path) -> None:
    """Whoever names a workflow agrees to the prices of its code and prompts along with it."""
    workflow = {
        "states": ["a"],
        "initial_state": "a",
        "steps": [
            {
                "state": "a",
                "code": [{"artifact_id": "bobs_sum"}],
                "prompts": [{"prompt_inline": "The sum is {total}."}],
            }
        ],
    }
    chooses = {"action": "configure", "workflow_artifact_id": "flow"}
    speaking = Speaking({"ana": [chooses, {"action": "noop"}]})

    async def scenario() -> None:
        async with world_at(
            tmp_path, models={"m": speaking.model}, config={"model": "m"}, agents={"ana": {}}
        ) as world:
            code = {"code": "def run(balance):\n    return {'total': balance + 1}\n"}
            await world.as_principal("bob").artifacts.write(
                "bobs_sum", kind="tool", content=code, access="public", prices={"read": 3}
            )
            own = world.as_principal("ana").artifacts
            await own.write("flow", kind="workflow", content=workflow)
            await world.run(ticks=2)
            assert (await own.read("ana")).content["agreed_prices"] == {"bobs_sum": 3}
            assert (await balance(world, "ana"), await balance(world, "bob")) == (97, 3)
            await world.as_principal("bob").artifacts.write("bobs_sum", prices={"read": 4}, content=code)
            await world.tick()
            assert (await balance(world, "ana"), await balance(world, "bob")) == (97, 3)
            [(_, _, data)] = await events(world, "action.rejected")
            assert data["code"] == "code_failed"

    asyncio.run(scenario())
    assert "The sum is 101." in speaking.shown("ana")[1]
