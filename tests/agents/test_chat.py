"""A conversation over many runs: each turn knows what was said, sessions never meet."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from artelier import AutonomousAgent, CompactionStrategy, Kernel, ModelRequest, tool
from artelier.errors import Conflict, InvalidRequest, NotFound
from artelier.testing import ScriptedModel, tool_call
from tests.processes import WarmPython


def echo(request: ModelRequest) -> Any:
    """Replies with how many user messages it was shown, and the last one."""
    if "Task: summarise" in request.messages[0].text:
        return "They talked."
    said = [message.text for message in request.messages if message.role == "user"]
    return f"{len(said)}: {said[-1]}"


def test_each_turn_is_a_run_that_knows_what_was_said(tmp_path: Path) -> None:
    model = ScriptedModel(echo)

    async def scenario() -> None:
        path = tmp_path / "s.db"
        with Kernel.open(path, models={"m": model}) as kernel:
            chat = AutonomousAgent(kernel=kernel).chat("support-42", model="m")
            assert (await chat.send("My name is Ada.")).text == "1: My name is Ada."
            second = await chat.send("What is my name?")
            assert second.text == "2: What is my name?"
            assert second.run_id == "support-42/000002"
        with Kernel.open(path, models={"m": model}) as kernel:  # another process goes on
            agent = AutonomousAgent(kernel=kernel)
            third = await agent.chat("support-42", model="m").send("And now?")
            assert third.text == "3: And now?"
            texts = [message.text for message in model.requests[-1].messages[1:]]
            assert texts == [
                "My name is Ada.",
                "1: My name is Ada.",
                "What is my name?",
                "2: What is my name?",
                "And now?",
            ]
            desk = kernel.for_tenant()
            for run in ("support-42/000001", "support-42/000002", "support-42/000003"):
                replayed = await desk.replay(run, agent.drive)
                assert replayed.status == "completed"
                rendered = await desk.render(run, "c1/model")
                assert rendered.canonical() in {r.canonical() for r in model.requests}
            assert len(model.requests) == 3

    asyncio.run(scenario())


def test_sessions_never_answer_for_each_other(tmp_path: Path) -> None:
    """Hole 17."""

    async def scenario() -> None:
        with Kernel.open(tmp_path / "s.db", models={"m": ScriptedModel(echo)}) as kernel:
            agent = AutonomousAgent(kernel=kernel)
            chats = {name: agent.chat(name, model="m") for name in ("a", "a.b", "a-", "ab")}
            for round_ in (1, 2):
                replies = await asyncio.gather(*(chat.send(f"I am {name}") for name, chat in chats.items()))
                for name, reply in zip(chats, replies, strict=True):
                    assert reply.text == f"{round_}: I am {name}"

    asyncio.run(scenario())


def test_a_long_conversation_is_compacted_and_goes_on(tmp_path: Path) -> None:
    model = ScriptedModel(echo)
    strategy = CompactionStrategy(trigger_at_messages=12, keep_recent_messages=4)

    async def scenario() -> None:
        with Kernel.open(tmp_path / "s.db", models={"m": model}) as kernel:
            agent = AutonomousAgent(kernel=kernel, compaction=strategy)
            chat = agent.chat("long", model="m")
            for turn in range(30):
                reply = await chat.send(f"turn {turn}")
                assert reply.text.endswith(f"turn {turn}")
            assert max(len(request.messages) for request in model.requests) <= 13
            last = model.requests[-1].messages
            assert any(m.text.startswith("Past Events Summary: ") for m in last)
            replayed = await kernel.for_tenant().replay(reply.run_id, agent.drive)
            assert replayed.status == "completed"

    asyncio.run(scenario())


def test_a_turn_with_tools_keeps_its_calls_together_in_the_next_one(tmp_path: Path) -> None:
    @tool(side_effect=False)
    def look(at: str) -> str:
        """Look."""
        return f"saw {at}"

    model = ScriptedModel([tool_call("look", {"at": "sea"}), "I saw the sea.", "As I said."])

    async def scenario() -> None:
        with Kernel.open(tmp_path / "s.db", models={"m": model}, tools=[look]) as kernel:
            chat = AutonomousAgent(kernel=kernel).chat("s", model="m")
            await chat.send("Look!")
            await chat.send("What did you see?")

        roles = [message.role for message in model.requests[-1].messages[1:]]
        assert roles == ["user", "assistant", "tool", "assistant", "user"]

    asyncio.run(scenario())


def test_a_turn_that_has_not_ended_is_said(tmp_path: Path) -> None:
    async def scenario() -> None:
        with Kernel.open(tmp_path / "s.db", models={"m": ScriptedModel(["a", "b"])}) as kernel:
            agent = AutonomousAgent(kernel=kernel)
            chat = agent.chat("s", model="m")
            async with kernel.run("s/000001", loop="agent", agent="agent", settings={}) as run:
                with pytest.raises(Conflict, match="has not ended"):
                    await chat.send("hello")
                run.finish("x")
            assert (await chat.send("hello")).run_id == "s/000002"

    asyncio.run(scenario())


@pytest.mark.parametrize("session", ["", "a/b", "a b", "x" * 200, "é"])
def test_a_session_that_no_run_can_be_named_after_is_refused(tmp_path: Path, session: str) -> None:
    with Kernel.open(tmp_path / "s.db") as kernel:
        with pytest.raises(InvalidRequest, match="session"):
            AutonomousAgent(kernel=kernel).chat(session, model="m")


def test_words_are_needed(tmp_path: Path) -> None:
    with Kernel.open(tmp_path / "s.db") as kernel:
        chat = AutonomousAgent(kernel=kernel).chat("s", model="m")
        with pytest.raises(InvalidRequest, match="words"):
            asyncio.run(chat.send("  \n"))


RACE = """
import asyncio, sys, time
from artelier import AutonomousAgent, Kernel
from artelier.errors import Conflict, LeaseHeld
from artelier.testing import ScriptedModel

async def main():
    path, word, at = sys.argv[1], sys.argv[2], float(sys.argv[3])
    model = ScriptedModel(lambda request: "said " + request.messages[-1].text)
    with Kernel.open(path, models={"m": model}) as kernel:
        chat = AutonomousAgent(kernel=kernel).chat("g", model="m")
        time.sleep(max(0, at - time.time()))
        for _ in range(5):
            try:
                result = await chat.send(word)
            except (Conflict, LeaseHeld):
                print("refused")
            else:
                print(result.text)

asyncio.run(main())
"""


@pytest.mark.slow
def test_two_processes_never_take_one_turn_for_each_others(tmp_path: Path) -> None:
    import subprocess
    import sys
    import time

    program = tmp_path / "race.py"
    program.write_text(RACE)
    path = str(tmp_path / "s.db")

    async def begin() -> None:
        with Kernel.open(path, models={"m": ScriptedModel(["said hi"])}) as kernel:
            await AutonomousAgent(kernel=kernel).chat("g", model="m").send("hi")

    asyncio.run(begin())
    at = str(time.time() + 1.5)
    started = {
        word: WarmPython([sys.executable, str(program), path, word, at], stdout=subprocess.PIPE, text=True)
        for word in ("dog", "cat")
    }
    lines = {word: process.communicate(timeout=60)[0].split("\n") for word, process in started.items()}

    for word, said in lines.items():
        assert set(said) <= {f"said {word}", "refused", ""}, lines
        assert len(said) == 6

    async def count() -> int:
        with Kernel.open(path) as kernel:
            return len((await kernel.for_tenant().runs())["items"])

    done = sum(line.startswith("said") for said in lines.values() for line in said)
    assert asyncio.run(count()) == 1 + done


def test_a_turn_that_was_cut_off_is_resumed(tmp_path: Path) -> None:
    model = ScriptedModel([asyncio.CancelledError(), "Hello, Ada.", "Still Ada."])

    async def scenario() -> None:
        with Kernel.open(tmp_path / "s.db", models={"m": model}) as kernel:
            chat = AutonomousAgent(kernel=kernel).chat("s", model="m")
            with pytest.raises(NotFound, match="nothing was said"):
                await chat.resume()
            with pytest.raises(asyncio.CancelledError):
                await chat.send("I am Ada.")
            with pytest.raises(Conflict, match="has not ended"):
                await chat.send("Who am I?")
            assert (await chat.resume()).text == "Hello, Ada."
            assert (await chat.resume()).text == "Hello, Ada."
            assert (await chat.send("And now?")).text == "Still Ada."

    asyncio.run(scenario())
