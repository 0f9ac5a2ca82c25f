"""The built-in loop under time travel: replayed from a file, forked at a cycle, left alone when imported."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from artelier import Kernel, Run, tool
from artelier.agents import AutonomousAgent, Worker, resume_run
from artelier.agents.loop_registry import replay_run
from artelier.kernel import run_row
from artelier.kernel.queries.content import blob_json
from artelier.testing import ScriptedModel, tool_call
from tests.kernel.stage import events, kinds, play


@tool(side_effect=False)
async def look(at: str) -> dict[str, str]:
    "Look."
    return {"seen": at}


async def again(run: Run) -> None:
    """The loop's own drive, from what the run was started with."""
    services = run.core.services
    row = await run_row(services.store, run.tenant_id, run.id)
    await replay_run(run, await blob_json(services, run.tenant_id, row.settings))


def scripted(*last: Any) -> ScriptedModel:
    return ScriptedModel([tool_call("look", {"at": "moon"}), tool_call("look", {"at": "sun"}), *last])


def test_an_exported_agent_replays_offline_to_the_same_result(tmp_path: Path) -> None:
    path = tmp_path / "run.artelier"

    async def scenario() -> None:
        with Kernel.open(tmp_path / "s.db", models=scripted("done"), tools=[look]) as kernel:
            agent = AutonomousAgent(kernel=kernel)
            made = await agent.run(run_id="r", model="m", prompt="look", artifact="report")
            await kernel.for_tenant().export("r", path)

        found = await Kernel.replay_file(path, again)

        assert made.artifact == "report@1"
        assert found.result == {"text": "done", "output": None, "artifact": "report@1"}
        assert (found.status, found.steps_replayed) == ("completed", 5)

    play(scenario())


def test_a_fork_of_an_agent_pays_only_for_the_cycles_after_it(tmp_path: Path) -> None:
    model = scripted("done", "done otherwise")

    async def scenario() -> None:
        with Kernel.open(tmp_path / "s.db", models=model, tools=[look]) as kernel:
            agent = AutonomousAgent(kernel=kernel)
            await agent.run(run_id="r", model="m", prompt="look")
            cycles = [e.seq for e in await events(kernel) if e.kind == "cycle.completed"]

            name = await kernel.for_tenant().fork("r", at=cycles[1])
            result = await resume_run(kernel, None, name)

            assert (result.status, result.text) == ("completed", "done otherwise")
            assert len(model.requests) == 4
            assert model.requests[3].canonical() == model.requests[2].canonical()
            assert (await kinds(kernel, name)).count("model.requested") == 1
            sent = await kernel.for_tenant().render(name, "c3/model")
            assert sent.canonical() == model.requests[3].canonical()
            replayed = await kernel.for_tenant().replay(name, again)
            assert replayed.result["text"] == "done otherwise"

    play(scenario())
    model.assert_done()


def test_a_worker_drives_forks_and_leaves_imported_runs_alone(tmp_path: Path) -> None:
    path = tmp_path / "run.artelier"
    model = scripted("done")

    async def scenario() -> None:
        with Kernel.open(tmp_path / "s.db", models=model, tools=[look]) as kernel:
            agent = AutonomousAgent(kernel=kernel)
            await agent.run(run_id="r", model="m", prompt="look")
            name = await kernel.for_tenant().fork("r", at=3)
            await kernel.for_tenant().export(name, path)

        with Kernel.open(tmp_path / "t.db", models=scripted("done"), tools=[look]) as kernel:
            runs = kernel.for_tenant()
            await runs.import_(path)
            worker = Worker(kernel, kernel.services)
            assert (await runs.show(name))["status"] == "pending"
            assert await worker.due() == []
            mine = await runs.fork(name)
            assert await worker.due() == [("default", mine)]
            assert await worker.once() == 1
            assert (await runs.show(mine))["status"] == "completed"

    play(scenario())


def test_a_note_that_came_in_the_middle_of_a_cycle_outlives_a_restart(tmp_path: Path) -> None:
    """It is older than the snapshot that the restart begins with, and was not taken before it."""

    async def scenario() -> None:
        @tool(side_effect=False)
        async def listen() -> str:
            "Hear what people say meanwhile."
            await runs.inject("r", "mind the gap")
            await runs.pause("r")
            return "heard"

        model = ScriptedModel([tool_call("listen", {}), "done"])
        with Kernel.open(tmp_path / "s.db", models=model, tools=[listen]) as kernel:
            runs = kernel.for_tenant()
            agent = AutonomousAgent(kernel=kernel)
            first = await agent.run(run_id="r", model="m", prompt="look", on_wait="return")
            assert first.status == "paused"
            await runs.resume("r")

            result = await agent.run(run_id="r", model="m", prompt="look")

            assert result.status == "completed"
            shown = [message.text for message in model.requests[-1].messages]
            assert "mind the gap" in shown

    play(scenario())
