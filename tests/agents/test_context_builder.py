"""Building contexts: order, subclasses, extra sections, journaled reads, rules, other processes."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from artelier import AutonomousAgent, Context, ContextBuilder, Kernel, Section, tool
from artelier.agents import resume_run
from artelier.agents.loop_registry import replay_run
from artelier.errors import InvalidRequest, ReplayMismatch
from artelier.testing import ScriptedModel, tool_call


@tool(side_effect=False)
def look(at: str) -> str:
    """Look."""
    return f"saw {at}"


def tags(manifest: Any) -> list[str]:
    return [part.tag for part in manifest.parts]


def run(path: Path, builder: ContextBuilder, script: list[Any], *, then: Any = None) -> ScriptedModel:
    model = ScriptedModel(script)

    async def scenario() -> None:
        with Kernel.open(path, models={"m": model}, tools=[look]) as kernel:
            agent = AutonomousAgent(kernel=kernel, context_builder=builder)
            result = await agent.run(run_id="r", model="m", prompt="Go.")
            assert result.status == "completed", result
            replayed = await kernel.for_tenant().replay("r", agent.drive)
            assert replayed.status == "completed"
            if then is not None:
                await then(kernel, agent)

    asyncio.run(scenario())
    return model


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        ("cache", ["identity", "personality", "rules", "skills", "memory", "task"]),
        ("seed", ["identity", "personality", "memory", "rules", "skills", "task"]),
    ],
)
def test_the_order_of_sections(tmp_path: Path, order: Any, expected: list[str]) -> None:
    async def check(kernel: Kernel, agent: AutonomousAgent) -> None:
        assert tags(await kernel.for_tenant().manifest("r", "c1/model")) == expected

    with Kernel.open(tmp_path / "memory.db") as other:
        builder = ContextBuilder(
            identity="You look.",
            personality="Dry humour.",
            rules=["Be brief."],
            order=order,
            memory_store=other.memory,
            progressive_skills=True,
        )
        run(tmp_path / "s.db", builder, ["done"], then=check)


def test_extra_sections_read_the_outside_once_and_replay_without_it(tmp_path: Path) -> None:
    asked: list[str] = []

    async def passages(context: Context) -> Section | None:
        async def search() -> Any:
            asked.append(context.query)
            return ["a passage", "another"] if "saw" in context.query else None

        found = await context.read("passages", search)
        if not found:
            return None
        return Section(tag="passages", text="\n".join(found), stability="volatile", sources=("vectors:docs",))

    def clock(context: Context) -> str:
        return f"cycle {context.cycle}"

    async def check(kernel: Kernel, agent: AutonomousAgent) -> None:
        assert len(asked) == 2  # once a cycle, and not by the replay
        second = await kernel.for_tenant().manifest("r", "c2/model")
        assert tags(second)[-2:] == ["passages", "clock"]
        assert second.parts[-2].src == ("vectors:docs",)

    builder = ContextBuilder(identity="You look.", extra_sections=[passages, clock])
    model = run(tmp_path / "s.db", builder, [tool_call("look", {"at": "x"}), "done"], then=check)

    assert model.requests[0].messages[-1].text == "Go.\n\ncycle 1"
    assert model.requests[1].messages[-1].text == "saw x\n\na passage\nanother\n\ncycle 2"


def test_a_subclass_adds_its_own_sections_without_touching_the_loop(tmp_path: Path) -> None:
    class Desk(ContextBuilder):
        async def sections(self, context: Context) -> list[Section]:
            base = await super().sections(context)
            note = Section(tag="desk", text=f"Desk of {context.agent_id}", stability="fixed")
            return [base[0], note, *base[1:]]

    async def check(kernel: Kernel, agent: AutonomousAgent) -> None:
        assert tags(await kernel.for_tenant().manifest("r", "c1/model"))[:2] == ["identity", "desk"]
        with pytest.raises(InvalidRequest, match="code"):
            await resume_run_anew(kernel)

    async def resume_run_anew(kernel: Kernel) -> None:
        from artelier.agents.loop_registry import settings_of

        settings = await settings_of(kernel, None, "r")
        await kernel.for_tenant().replay("r", lambda run: replay_run(run, settings))

    run(tmp_path / "s.db", Desk(identity="You look."), ["done"], then=check)


@pytest.mark.parametrize("wrong", [7, {"tag": "x"}, [3]])
def test_an_extra_section_that_is_none_is_said_by_name(tmp_path: Path, wrong: Any) -> None:
    def odd(context: Context) -> Any:
        return wrong

    async def scenario() -> None:
        with Kernel.open(tmp_path / "s.db", models={"m": ScriptedModel([])}) as kernel:
            builder = ContextBuilder(identity="x", extra_sections=[odd])
            agent = AutonomousAgent(kernel=kernel, context_builder=builder)
            result = await agent.run(run_id="r", model="m", prompt="Go.")

        assert (result.status, result.reason) == ("failed", "invalid_request")
        assert "'odd'" in result.text

    asyncio.run(scenario())


def test_a_changed_identity_is_a_mismatch_that_names_the_section(tmp_path: Path) -> None:
    async def scenario() -> None:
        path = tmp_path / "s.db"
        with Kernel.open(path, models={"m": ScriptedModel(["done"])}) as kernel:
            await AutonomousAgent(kernel=kernel, identity="You look.", agent_id="a").run(
                run_id="r", model="m", prompt="Go."
            )
            other = AutonomousAgent(kernel=kernel, identity="You listen.", agent_id="a")
            with pytest.raises(ReplayMismatch) as caught:
                await kernel.for_tenant().replay("r", other.drive)

        assert caught.value.facts["section"] == "identity"

    asyncio.run(scenario())


def test_rules_from_a_file_are_read_again_when_they_change_and_recorded(tmp_path: Path) -> None:
    rules = tmp_path / "AGENTS.md"
    rules.write_text("Rule one.")

    def change(request: Any) -> Any:
        rules.write_text("Rule two.")
        return tool_call("look", {"at": "x"})

    model = run(tmp_path / "s.db", ContextBuilder(identity="x", rules=rules), [change, "done"])

    assert "Rule one." in [m.text for m in model.requests[0].messages]
    assert "Rule two." in [m.text for m in model.requests[1].messages]


def test_rules_that_cannot_be_read_say_so(tmp_path: Path) -> None:
    async def scenario() -> None:
        with Kernel.open(tmp_path / "s.db", models={"m": ScriptedModel([])}) as kernel:
            builder = ContextBuilder(identity="x", rules=tmp_path / "missing.md")
            result = await AutonomousAgent(kernel=kernel, context_builder=builder).run(
                run_id="r", model="m", prompt="Go."
            )

        assert result.reason == "invalid_request" and "missing.md" in result.text

    asyncio.run(scenario())


def test_another_process_goes_on_with_memory_rules_and_skills(tmp_path: Path) -> None:
    """What `artelier resume` does: the builder is made again from what the run was started with."""
    folder = tmp_path / "house-style"
    folder.mkdir()
    (folder / "SKILL.md").write_text(
        "---\nname: house-style\ndescription: How reports look.\n---\nBegin with the total.\n"
    )
    note = tool_call("core_memory_append", {"content": "Noted."})
    seen: list[Any] = []

    def second(request: Any) -> Any:
        seen.append(request)
        return "done"

    async def scenario() -> None:
        path = tmp_path / "s.db"
        first = ScriptedModel([note, asyncio.CancelledError()])
        with Kernel.open(path, models={"m": first}) as kernel:
            builder = ContextBuilder(
                identity="You note.", rules="Be brief.", memory_store=kernel.memory, progressive_skills=True
            )
            agent = AutonomousAgent(kernel=kernel, context_builder=builder, agent_id="noter")
            with pytest.raises(asyncio.CancelledError):
                await agent.run(run_id="r", model="m", prompt="Go.")
        with Kernel.open(path, models={"m": ScriptedModel([second])}) as kernel:
            result = await resume_run(kernel, None, "r")
            assert (result.status, result.text) == ("completed", "done")
            assert seen[0].canonical() == first.requests[1].canonical()

    asyncio.run(scenario())


def test_a_fork_from_before_a_compaction_goes_its_own_way(tmp_path: Path) -> None:
    from artelier import CompactionStrategy

    turn = [0]

    def reply(request: Any) -> Any:
        if "Task: summarise" in request.messages[0].text:
            return "Looked."
        turn[0] += 1
        return tool_call("look", {"at": f"t{turn[0]}"}) if turn[0] % 9 else f"end {turn[0]}"

    async def scenario() -> None:
        with Kernel.open(tmp_path / "s.db", models={"m": ScriptedModel(reply)}, tools=[look]) as kernel:
            strategy = CompactionStrategy(trigger_at_messages=11, keep_recent_messages=3)
            agent = AutonomousAgent(kernel=kernel, identity="You look.", compaction=strategy)
            await agent.run(run_id="r", model="m", prompt="Go.")
            desk = kernel.for_tenant()
            (receipt, *_) = reversed(await desk.compactions("r"))
            stored = await kernel.store.read_all(after=0)
            at = next(e.seq for e in stored if e.kind == "context.compacted") - 4
            fork = await desk.fork("r", at=at)
            result = await agent.run(run_id=fork, model="m", prompt="Go.")

            assert result.status == "completed" and result.text == "end 18"
            replayed = await desk.replay(fork, agent.drive)
            assert replayed.status == "completed"
            assert receipt["step"] == "c6/compaction"

    asyncio.run(scenario())
