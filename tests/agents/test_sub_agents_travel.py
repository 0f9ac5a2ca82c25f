"""Forks, retries, streams and chats of agents that delegate; what is scrubbed for them."""

from __future__ import annotations

from pathlib import Path

import pytest

from artelier import Policy
from artelier.errors import ToolFailed
from artelier.kernel import AgentResult
from artelier.log import Event
from artelier.pii.vault import placeholders_in
from artelier.testing import ScriptedModel
from tests.agents.family import boss, hand, open_family, statuses, task_of, told, work, worker
from tests.kernel.stage import events, play

# Time travel


def test_a_fork_shares_what_children_said_and_runs_its_own_from_there(tmp_path: Path) -> None:
    models = {
        "boss": ScriptedModel([hand("a"), hand("b"), "end", hand("b"), "other end"]),
        "worker": ScriptedModel(task_of),
    }

    async def scenario() -> None:
        with open_family(tmp_path, models) as kernel:
            agent = boss(kernel, worker(kernel))
            await work(agent)
            first = next(e.seq for e in await events(kernel) if e.kind == "cycle.completed")

            fork = await kernel.for_tenant().fork("r", at=first)
            result = await work(agent, fork)

            assert result.text == "other end"
            assert told(models["boss"]) == ["a", "b"]
            (child,) = (await kernel.for_tenant().tree(fork))["children"]
            assert child["id"].startswith(f"{fork}::sub_agent::")
            assert len((await kernel.for_tenant().tree("r"))["children"]) == 2
            assert len(models["worker"].requests) == 3

    play(scenario())


def test_a_retried_parent_keeps_its_children(tmp_path: Path) -> None:
    models = {
        "boss": ScriptedModel([hand("a"), ToolFailed("down"), "end"]),
        "worker": ScriptedModel(["worked"]),
    }

    async def scenario() -> None:
        with open_family(tmp_path, models) as kernel:
            agent = boss(kernel, worker(kernel))
            assert (await work(agent)).status == "failed"
            await kernel.for_tenant().retry("r")

            assert (await work(agent)).text == "end"
            assert told(models["boss"]) == ["worked"]

    play(scenario())


def test_a_stream_of_a_parent_goes_on_while_its_child_works(tmp_path: Path) -> None:
    models = {"boss": ScriptedModel([hand("a"), "end"]), "worker": ScriptedModel(["worked"])}

    async def scenario() -> None:
        with open_family(tmp_path, models) as kernel:
            agent = boss(kernel, worker(kernel))
            seen = [item async for item in agent.stream(run_id="r", model="boss", prompt="Have it done.")]

            logged = [item for item in seen if isinstance(item, Event)]
            kinds_seen = [event.kind for event in logged]
            assert isinstance(seen[-1], AgentResult)
            assert seen[-1].text == "end"
            assert kinds_seen.index("tool.requested") < kinds_seen.index("tool.completed")
            assert {event.stream.id for event in logged} == {"r"}

    play(scenario())


def test_a_conversation_delegates_in_each_of_its_turns(tmp_path: Path) -> None:
    models = {"boss": ScriptedModel([hand("a"), "one", hand("b"), "two"]), "worker": ScriptedModel(task_of)}

    async def scenario() -> None:
        with open_family(tmp_path, models) as kernel:
            chat = boss(kernel, worker(kernel)).chat("talk", model="boss")
            replies = [(await chat.send(text)).text for text in ("first", "second")]

            assert replies == ["one", "two"]
            assert told(models["boss"])[-1] == "b"
            assert sum("::sub_agent::" in name for name in await statuses(kernel)) == 2

    play(scenario())


def test_what_is_scrubbed_for_a_parent_is_scrubbed_for_its_children(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ARTELIER_VAULT_KEY", "a vault key for tests")
    models = {"boss": ScriptedModel([hand("write to ana@x.no"), "end"]), "worker": ScriptedModel(["done"])}

    async def scenario() -> None:
        with open_family(tmp_path, models, policy=Policy(pii=True)) as kernel:
            await work(boss(kernel, worker(kernel)))

            task = task_of(models["worker"].requests[0])
            assert "ana@x.no" not in task
            assert len(placeholders_in(task)) == 1

    play(scenario())
