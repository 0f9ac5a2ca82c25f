"""`kernel.run_sync`: scripts without an event loop of their own."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from artelier import AutonomousAgent, Kernel, Session
from artelier.errors import InvalidRequest
from artelier.testing import ScriptedModel


def test_a_script_runs_agents_and_chats_one_after_the_other(tmp_path: Path) -> None:
    with Kernel.open(
        tmp_path / "state.db", models=ScriptedModel(["one", "two", "three"]), environ={}
    ) as kernel:
        agent = AutonomousAgent(kernel=kernel)
        for run_id, said in (("r1", "one"), ("r2", "two"), ("r1", "one")):
            result = kernel.run_sync(agent.run(run_id=run_id, model="scripted", prompt="Count."))
            assert (result.status, result.text) == ("completed", said)
        chat = kernel.run_sync(Session.open(kernel, "c", model="scripted"))
        assert kernel.run_sync(chat.generate("Go on.")).text == "three"
        detached = kernel.step_model(run_id="d", model="scripted", messages=[], key="k")
        with pytest.raises(Exception):  # noqa: B017 - whatever it says: the loop and the kernel live on
            kernel.run_sync(detached)
        assert kernel.run_sync(kernel.for_tenant().show("r2"))["status"] == "completed"


def test_inside_a_running_loop_it_refuses_and_says_what_to_do(tmp_path: Path) -> None:
    async def main() -> None:
        kernel = Kernel.open(tmp_path / "state.db")
        with pytest.raises(InvalidRequest, match="Await"):
            kernel.run_sync(kernel.for_tenant().state())
        await kernel.aclose()

    asyncio.run(main())
