"""A run that has ended goes with its last reference: it leaves no garbage, which stops everybody."""

from __future__ import annotations

import asyncio
import gc
import weakref
from pathlib import Path
from typing import Any

import pytest

from artelier import Kernel, Policy, Run, tool
from artelier.errors import RunEnded
from artelier.testing import ScriptedModel
from tests.kernel.stage import play, user


@tool
async def look(at: str) -> str:
    """Look."""
    return at


async def work(run: Run) -> Any:
    conversation = run.conversation()
    conversation.append(user("look"))
    await run.step_model(model="m", messages=conversation, key="a")
    await run.step_model(model="m", messages=[user("hi")], key="b")
    await asyncio.gather(*(run.step_tool("look", {"at": str(n)}, key=f"t{n}") for n in range(3)))
    await run.sleep(0, key="s")
    return conversation


@pytest.mark.parametrize("pii", [False, True])
def test_a_run_that_has_ended_is_no_garbage(tmp_path: Path, pii: bool) -> None:
    async def scenario() -> None:
        models = {"m": ScriptedModel(lambda _: "done")}
        environ = {"ARTELIER_VAULT_KEY": "f" * 64}
        path = tmp_path / "s.db"
        with Kernel.open(
            path, models=models, tools=[look], policy=Policy(pii=pii), environ=environ
        ) as kernel:
            gc.disable()
            try:
                async with kernel.run("r") as run:
                    conversation = await work(run)
                core = weakref.ref(run.core)
                del run
                for _ in range(5):  # callbacks of the loop that hold it
                    await asyncio.sleep(0)
                assert core() is None
            finally:
                gc.enable()
            assert len(conversation) == 1
            with pytest.raises(RunEnded, match="gone"):
                conversation.append(user("more"))

    play(scenario())
