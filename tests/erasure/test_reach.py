"""What runs about a subject write elsewhere goes with it: artifacts, memories, chats, missions, uploads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from artelier import AutonomousAgent, ContextBuilder, Kernel
from artelier.agents import Worker
from artelier.artifacts import Provenance
from artelier.chat import Session
from artelier.errors import Conflict, Erased, InvalidRequest
from artelier.memory import SQLiteMemoryStore
from artelier.testing import ManualClock, ScriptedModel, tool_call
from tests.erasure.test_subjects import KEY, SEALED, assert_nowhere
from tests.kernel.stage import play

SUBJECT = "customer-17"
WORDS = ("violet-harbour", "amber-lantern", "cobalt-orchard", "scarlet-meadow", "ivory-thicket")
"""What is said of customer 17."""
OTHERS = "quartz-hollow"
"""What is said of nobody, or of another."""


def opened(path: Path, environ: dict[str, str], *steps: Any, **more: Any) -> Kernel:
    model = ScriptedModel(list(steps) or (lambda request: f"re: {request.messages[-1].text}"))
    return Kernel.open(path / "s.db", models=model, environ=environ, **more)


def assistant(kernel: Kernel, **more: Any) -> AutonomousAgent:
    builder = ContextBuilder(identity="You help.", memory_store=kernel.memory, recall_limit=3)
    return AutonomousAgent(kernel=kernel, context_builder=builder, agent_id="helper", **more)


@SEALED
def test_memories_and_the_report_of_a_run_go_with_its_subject(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    steps = (
        tool_call("core_memory_append", {"content": f"likes {WORDS[0]}"}),
        tool_call("remember", {"text": f"lives at {WORDS[1]}", "tags": [WORDS[2]]}),
        f"{WORDS[3]} is the answer",
        tool_call("remember", {"text": f"the office is at {OTHERS}"}),
        "noted",
        tool_call("core_memory_append", {"content": OTHERS}),
        "noted as well",
    )

    async def scenario() -> None:
        with opened(tmp_path, environ, *steps) as kernel:
            desk, agent = kernel.for_tenant(), assistant(kernel)
            memory = kernel.memory.for_agent(desk.id, "helper")
            await agent.run(
                run_id="r17", model="m", prompt="who is it?", subject=SUBJECT, artifact="reports/17"
            )
            await agent.run(run_id="plain", model="m", prompt="where is the office?")
            assert [hit.text for hit in await memory.recall("lives at", limit=1)] == [f"lives at {WORDS[1]}"]
            assert await memory.history().search(WORDS[3])

            await desk.erase(subject=SUBJECT)

            texts = [entry.text for entry in await memory.entries.entries()]
            assert texts == ["[erased]", f"the office is at {OTHERS}"]
            found = await memory.recall(f"{WORDS[1]} lives at the office", limit=5)
            assert [hit.text for hit in found] == [f"the office is at {OTHERS}"]
            assert not [said for said in await memory.history().search(WORDS[3]) if WORDS[3] in said.text]
            assert {block.text for block in await memory.blocks()} == {"[erased]", ""}
            assert any("[erased]" in one.summary for one in await memory.changes())
            with pytest.raises(Erased, match="begin anew"):
                await desk.as_principal("operator").artifacts.read("reports/17")
            # What was erased is out of the way: the agent goes on noting.
            await agent.run(run_id="later", model="m", prompt="and now?")
            assert OTHERS in {block.text for block in await memory.blocks()}
            assert kernel.verify().ok
        assert_nowhere(tmp_path, WORDS)

    play(scenario(), within_s=120)


def test_an_artifact_of_a_subject_stays_so_and_takes_no_other(tmp_path: Path) -> None:
    async def scenario() -> None:
        with opened(tmp_path, KEY) as kernel:
            desk = kernel.for_tenant()
            artifacts = desk.as_principal("operator").artifacts
            async with desk.run("r17", subject=SUBJECT) as run:
                await artifacts.write(
                    "notes/17", kind="document", content=WORDS[0], provenance=Provenance(run_id=run.id)
                )
            await artifacts.edit("notes/17", WORDS[0], f"{WORDS[0]} and {WORDS[1]}")
            async with desk.run("r18", subject="customer-18") as run:
                with pytest.raises(Conflict, match="another subject"):
                    await artifacts.write("notes/17", content="x", provenance=Provenance(run_id=run.id))
            with pytest.raises(Conflict, match="another subject"):
                await artifacts.about("customer-18").write("notes/17", content="x")
            await artifacts.write("notes/0", kind="document", content=OTHERS)
            await artifacts.about(SUBJECT).write("notes/0", content=f"{OTHERS}, {WORDS[2]}")

            done = await desk.erase(subject=SUBJECT)

            assert done.cleaned
            assert [one.id for one in await artifacts.list()] == ["notes/17", "notes/0"]
            assert not await artifacts.search(WORDS[0])
            for gone in ("notes/17", "notes/17@1", "notes/0"):
                with pytest.raises(Erased):
                    await artifacts.read(gone)
            assert (await artifacts.read("notes/0@1")).content == OTHERS
            await artifacts.write("notes/17", content="anew")
            assert (await artifacts.read("notes/17")).content == "anew"
            assert kernel.verify().ok
        assert_nowhere(tmp_path, WORDS)

    play(scenario())


@SEALED
def test_chats_of_both_kinds_go_with_their_subject(tmp_path: Path, environ: dict[str, str]) -> None:
    async def scenario() -> None:
        with opened(tmp_path, environ) as kernel:
            desk = kernel.for_tenant()
            talk = assistant(kernel).chat("c17", model="m", subject=SUBJECT)
            await talk.send(WORDS[0])
            # Whoever goes on need not know whom it is about.
            await assistant(kernel).chat("c17", model="m").send(WORDS[1])
            session = await Session.open(desk, "s17", model="m", subject=SUBJECT, greetings=[WORDS[2]])
            await session.generate(WORDS[3])
            await (await Session.open(desk, "s17")).generate(WORDS[4])
            with pytest.raises(Conflict, match="subject"):
                await Session.open(desk, "s17", subject="customer-18")
            await (await Session.open(desk, "other", model="m")).generate(OTHERS)
            with pytest.raises(Conflict, match="subject"):
                await Session.open(desk, "other", subject=SUBJECT)

            done = await desk.erase(subject=SUBJECT)

            assert set(done.runs) == {"c17/000001", "c17/000002", "s17/r000001", "s17/r000002"}
            with pytest.raises(Erased):
                await assistant(kernel).chat("c17", model="m").send("still there?")
            with pytest.raises(Erased):
                await Session.open(desk, "s17", model="m")
            assert [one["chat_id"] for one in (await desk.chats())["items"]] == ["other", "s17"]
            other = await Session.open(desk, "other")
            assert (await other.turn(1)).variants[0].text == f"re: {OTHERS}"
            assert kernel.verify().ok
        assert_nowhere(tmp_path, WORDS)

    play(scenario(), within_s=120)


def test_a_mission_with_its_plan_tasks_and_outputs_goes_with_its_subject(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "letters.txt").write_text("The tower is 40 metres high.\n")

    async def scenario() -> None:
        with Kernel.open(tmp_path / "db" / "s.db", environ=KEY) as kernel:
            desk = kernel.for_tenant()
            made = await desk.plan(
                f"Find out about {WORDS[0]}",
                model="offline",
                auto_launch=True,
                workspace=str(tmp_path / "work"),
                subject=SUBJECT,
                mission_id="m17",
            )
            assert made["plan"] is not None
            mission = await desk.mission("m17")
            assert WORDS[0] in str(mission)
            tasks = (await desk.tasks.list(mission="m17"))["items"]
            assert tasks

            done = await desk.erase(subject=SUBJECT)

            assert set(done.runs) >= {"m17"}
            assert WORDS[0] not in str(await desk.mission("m17"))
            assert WORDS[0] not in str((await desk.tasks.list(mission="m17"))["items"])
            assert WORDS[0] not in str(await desk.tasks.show(tasks[0]["id"]))
            assert kernel.verify().ok
        assert_nowhere(tmp_path / "db", WORDS[:1])

    play(scenario(), within_s=240)


def test_a_subject_is_not_remembered_where_no_erasure_comes(tmp_path: Path) -> None:
    async def scenario() -> None:
        with opened(tmp_path, KEY, "done") as kernel:
            with SQLiteMemoryStore(tmp_path / "memory.db") as store:
                builder = ContextBuilder(identity="You help.", memory_store=store)
                agent = AutonomousAgent(kernel=kernel, context_builder=builder)
                with pytest.raises(InvalidRequest, match="subject"):
                    await agent.run(run_id="r17", model="m", prompt="hello", subject=SUBJECT)
                async with kernel.for_tenant().run("above", subject=SUBJECT) as run:
                    with pytest.raises(InvalidRequest, match="subject"):
                        await agent.run(run_id="below", model="m", prompt="hello", parent=run)
                assert (await agent.run(run_id="r0", model="m", prompt="hello")).text == "done"

    play(scenario())


def test_a_schedule_goes_with_its_subject_and_fires_in_vain(tmp_path: Path) -> None:
    async def scenario() -> None:
        clock = ManualClock()
        with opened(tmp_path, KEY, clock=clock) as kernel:
            desk = kernel.for_tenant()
            worker = Worker(kernel, kernel.services)
            await desk.schedules.add(
                "daily", every="1d", goal=f"look after {WORDS[0]}", model="m", solo=True, subject=SUBJECT
            )
            changed = await desk.schedules.change("daily", goal=f"look after {WORDS[1]}")
            assert WORDS[1] in str(changed)
            clock.advance(24 * 3600 + 1)
            await worker.once(until_us=clock.now_us())
            (run,) = (await desk.runs())["items"]
            assert WORDS[1] in str(await desk.show(run["id"]))

            done = await desk.erase(subject=SUBJECT)

            assert done.runs == (run["id"],)
            assert WORDS[1] not in str(await desk.schedules.get("daily"))
            for _ in range(2):
                clock.advance(24 * 3600)
                await worker.once(until_us=clock.now_us())
            assert len((await desk.runs())["items"]) == 1
            failed = [
                event.plain() for event in await kernel.store.read_all() if event.kind == "schedule.failed"
            ]
            assert {one["code"] for one in failed} == {"erased"}
            assert (await desk.schedules.remove("daily")) is None
            assert kernel.verify().ok
        assert_nowhere(tmp_path, WORDS)

    play(scenario(), within_s=120)


def test_an_agent_is_carried_away_without_what_was_erased(tmp_path: Path) -> None:
    steps = (tool_call("remember", {"text": WORDS[0]}), "noted", "nothing", "anew")

    async def scenario() -> None:
        with opened(tmp_path, {}, *steps) as kernel:
            desk, agent, file = kernel.for_tenant(), assistant(kernel), tmp_path / "a.artelier"
            await agent.run(run_id="r17", model="m", prompt="who?", subject=SUBJECT)
            await agent.run(run_id="plain", model="m", prompt=OTHERS)
            await desk.erase(subject=SUBJECT)

            with pytest.raises(Erased, match="without-memory"):
                await desk.export_agent("helper", file)
            assert not file.exists()
            done = await desk.export_agent("helper", file, without_memory=True)

            assert done.runs == ("plain",)
            with Kernel.open(tmp_path / "other" / "s.db", environ={}) as other:
                await other.for_tenant().import_agent(file)
                assert OTHERS in str(await other.for_tenant().show("plain"))
                assert other.verify().ok
        assert_nowhere(tmp_path, WORDS)

    play(scenario(), within_s=60)
