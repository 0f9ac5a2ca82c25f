"""Tools of a real server, made with the protocol's own package: listing, calling, failing, changing."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from artelier.errors import InvalidArguments, ToolFailed
from artelier.kernel.tool_calls.compensation_plan import compensate_of
from artelier.tools.mcp import McpTool, definition_hash
from artelier.tools.skills.source import ToolSource
from tests.tools.contexts import Recorder
from tests.tools.mcp.conftest import Rogue, by_name, call


def test_tools_are_listed_called_and_checked(shop: Rogue, tmp_path: Path) -> None:
    async def work() -> None:
        log = tmp_path / "log"
        server = shop(
            env={"SHOP_KEY": "s3cret", "SHOP_LOG": str(log)}, read_only=["add"], idempotent=["greet"]
        )
        async with server:
            tools = await by_name(server)

            assert server.name == "mcp:shop"
            assert server.refused == ()
            assert tools["add"].description == "Add two numbers."
            assert tools["add"].schema.parameters["required"] == ["a", "b"]
            facts = {name: (tool.side_effect, tool.idempotent) for name, tool in tools.items()}
            assert facts["add"] == (False, True)
            assert facts["greet"] == (True, True)
            assert facts["pay"] == (True, False)
            assert {tool.trust for tool in tools.values()} == {"untrusted"}
            assert tools["pay"].grant is None

            assert await call(tools["add"], a=2, b=3) == {"result": 5}
            with pytest.raises(InvalidArguments, match="not of type 'integer'") as wrong:
                tools["add"].validate({"a": "2"})
            assert "'b' is a required property" in str(wrong.value)

            with pytest.raises(ToolFailed, match="no such account") as failed:
                await call(tools["refuse"])
            assert "\u200b" not in str(failed.value)

            picture = await call(tools["picture"])
            assert picture["content"][0] == {"type": "text", "text": "a picture"}
            assert picture["content"][1]["size_bytes"] == 3_004
            assert "data" not in picture["content"][1]

            recorder = Recorder()
            await tools["steps"].call({}, recorder.context())
            assert recorder.notes == ["half way"]

            known = await call(tools["environment"])
            assert known["SHOP_KEY"] == "s3cret"
            assert "PYTEST_CURRENT_TEST" not in known
            assert "s3cret" not in server.stderr
            assert "key ***" in server.stderr

            await call(tools["pay"], amount=3)
            await call(tools["pay"], amount=4)
        lines = [line.split() for line in log.read_text().splitlines()]
        keys = [line[2] for line in lines if line[0] == "pay"]
        assert len(keys[0]) == 64  # a digest: neither tenant nor run is told
        assert keys[0] == keys[1]  # of one step of one run, as the recorder makes contexts

    asyncio.run(work())


def test_a_changed_definition_is_not_called(shop: Rogue, tmp_path: Path) -> None:
    async def work() -> None:
        async with shop(env={"SHOP_LOG": str(tmp_path / "log")}) as server:
            before = await by_name(server)
            await call(before["rewrite"])

            with pytest.raises(ToolFailed, match="changed its definition"):
                await call(before["greet"], name="kim")
            after = await by_name(server)

            assert definition_hash(before["greet"]) != definition_hash(after["greet"])
            assert definition_hash(before["add"]) == definition_hash(after["add"])
            assert await call(after["greet"], a=1, b=1) == {"result": 2}
        assert (tmp_path / "log").read_text() == "add 1 1\n"

    asyncio.run(work())


def test_the_older_protocol_tells_changes_too(rogue: Rogue) -> None:
    async def work() -> None:
        async with rogue() as server:
            tools = await by_name(server)
            await call(tools["changes"])

            with pytest.raises(ToolFailed, match="changed its definition"):
                await call(tools["ok"])
            assert isinstance(tools["ok"], McpTool)
            assert await call((await by_name(server))["ok"]) == "fine"

    asyncio.run(work())


def test_a_definition_is_the_same_in_every_process(rogue: Rogue) -> None:
    async def marks() -> dict[str, str]:
        async with rogue() as server:
            return {name: definition_hash(tool) for name, tool in (await by_name(server)).items()}

    first, second = asyncio.run(marks()), asyncio.run(marks())

    assert first == second
    assert len(set(first.values())) == len(first)


def test_one_server_serves_several_event_loops_one_after_the_other(rogue: Rogue) -> None:
    server = rogue()

    async def pid() -> str:
        tools = await by_name(server)
        assert await call(tools["ok"]) == "fine"
        return await call(tools["pid"])

    first, second = asyncio.run(pid()), asyncio.run(pid())

    assert first != second


def test_calls_of_one_connection_run_side_by_side(rogue: Rogue) -> None:
    async def work() -> None:
        async with rogue() as server:
            tools = await by_name(server)
            results = await asyncio.gather(*(call(tools["pid"]) for _ in range(20)))

        assert len(set(results)) == 1

    asyncio.run(work())


def test_a_server_that_asks_back_is_refused(rogue: Rogue) -> None:
    async def work() -> None:
        async with rogue() as server:
            assert await call((await by_name(server))["asks"]) == "refused: True"

    asyncio.run(work())


def test_a_server_is_a_source_of_skills(rogue: Rogue) -> None:
    source: ToolSource = rogue()

    assert isinstance(source, ToolSource)
    assert source.name == "mcp:rogue"


def test_a_call_can_be_undone_if_the_developer_says_how(shop: Rogue) -> None:
    def refund(arguments: dict[str, object], result: object, context: object) -> object:
        return {"refunded": arguments, "of": result, "kept": refund}  # no JSON: it happened all the same

    async def work() -> None:
        async with shop(compensate={"pay": refund}) as server:
            tools = await by_name(server)
            assert compensate_of(tools["add"]) is None
            undo = compensate_of(tools["pay"])
            assert undo is not None
            assert await undo({"amount": 3}, {"id": 1}, Recorder().context()) is None

    asyncio.run(work())
