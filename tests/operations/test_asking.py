"""`session.ask`: a turn that waits for whoever drives it, in this process or another."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import pytest

from artelier import Session
from artelier.agents import Worker
from artelier.errors import Conflict, InvalidRequest, NotFound
from tests.operations.chats import opened, play
from tests.processes import run_warm


def test_a_turn_that_is_asked_for_is_driven_by_whoever_resumes_it(tmp_path: Path) -> None:
    async def scenario() -> None:
        with opened(tmp_path) as kernel:
            session = await Session.open(kernel, "c", model="m")
            run_id = await session.ask("a")
            assert run_id == "c/r000001"
            assert (await session.branches())[0]["status"] == "asked"
            with pytest.raises(NotFound):
                await kernel.for_tenant().show(run_id)
            with pytest.raises(Conflict):
                await session.ask("b")
        with opened(tmp_path) as kernel:
            session = await Session.open(kernel, "c")
            result = await session.resume()
            assert (result.run_id, result.text) == (run_id, "re: a")
            again = await session.ask(trigger="regenerate")
            assert (await session.resume()).variant == 2 and again == "c/r000002"

    play(scenario())


def test_what_cannot_be_asked_for_leaves_nothing(tmp_path: Path) -> None:
    async def scenario() -> None:
        with opened(tmp_path) as kernel:
            session = await Session.open(kernel, "c", model="m")
            for text, trigger in (("a", "continue"), ("", "resume"), ("", "none"), ("  ", "generate")):
                with pytest.raises(InvalidRequest):
                    await session.ask(text, trigger=trigger)
            assert (await session.branch_row()).run == ""

    play(scenario())


KILLED = """
import asyncio, os, signal, sys
from artelier import Kernel, Session
from artelier.testing import ScriptedModel

def fault(point):
    if point == "turn.asked" and armed:
        os.kill(os.getpid(), signal.SIGKILL)

armed = []

async def main():
    with Kernel.open(sys.argv[1], models={"m": ScriptedModel(["re"] * 3)}, environ={}, fault=fault) as kernel:
        session = await Session.open(kernel, "c", model="m")
        await session.generate("first")
        armed.append(1)
        await session.generate("a")

asyncio.run(main())
"""


def killed_while_asking(folder: Path) -> None:
    """A chat whose process is killed between `turn.asked` and the first event of the run."""
    done = run_warm([sys.executable, "-c", KILLED, str(folder / "state.db")], check=False)
    assert done.returncode == -signal.SIGKILL


@pytest.mark.slow
def test_a_turn_whose_process_was_killed_before_it_began_is_replied_to_before_the_next(
    tmp_path: Path,
) -> None:
    killed_while_asking(tmp_path)

    async def scenario() -> None:
        with opened(tmp_path) as kernel:
            session = await Session.open(kernel, "c")
            assert (await session.branches())[0]["status"] == "asked"
            result = await session.generate("b")
            assert (result.turn, result.text) == (3, "re: b")
            said = [(turn.user, turn.text) for turn in await session.turns()]
            assert said == [("first", "re"), ("a", "re: a"), ("b", "re: b")]

    play(scenario())


@pytest.mark.slow
def test_a_worker_begins_what_a_killed_process_had_asked_for_and_leaves_to_others_what_is_theirs(
    tmp_path: Path,
) -> None:
    killed_while_asking(tmp_path)

    async def scenario() -> None:
        with opened(tmp_path) as kernel:
            mine = await Session.open(kernel, "mine", model="m")
            await mine.ask("x")  # this process will drive it
            worker = Worker(kernel, kernel.services)
            assert await worker.once() == 1
            session = await Session.open(kernel, "c")
            assert (await session.turn()).text == "re: a"
            assert (await session.branches())[0]["status"] == "completed"
            assert (await mine.branches())[0]["status"] == "asked"
            assert (await mine.resume()).text == "re: x"
            assert await Worker(kernel, kernel.services).once() == 0

    play(scenario())
