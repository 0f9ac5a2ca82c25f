"""Servers that die, hang, babble and lie: each ends in an error that says so, and nothing is repeated."""

from __future__ import annotations

import asyncio
import gc
import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from artelier.app import Kernel
from artelier.errors import ArtelierError, InvalidConfig, RunSuspended, ToolFailed
from artelier.kernel import Policy
from artelier.tools.function import ToolResultInvalid
from artelier.tools.mcp import CallLost, McpServer, ServerUnavailable
from artelier.tools.mcp.failures import ServerBroken
from tests.tools.mcp.conftest import HERE, Rogue, by_name, call

LOST = [
    ("dies", "it ended"),
    ("oversize", "more than 16777216 bytes"),
    ("babbles", "lines on its stdout are no messages"),
    ("malformed", "no result of the protocol"),
    ("internal", "broken in here"),
]
"""What a tool does, and what is said of it when it may have done something."""


@pytest.mark.parametrize(("name", "said"), LOST)
def test_a_call_whose_outcome_is_hidden_is_lost_and_not_repeated(
    rogue: Rogue, tmp_path: Path, name: str, said: str
) -> None:
    async def work() -> None:
        async with rogue() as server:
            tools = await by_name(server)

            with pytest.raises(CallLost, match=said):
                await call(tools[name])

            assert (tmp_path / "calls").read_text() == f"{name}\n"
            assert await call(tools["ok"]) == "fine"  # a new connection if need be

    asyncio.run(work())


@pytest.mark.parametrize("name", ["dies", "oversize", "babbles", "malformed"])
def test_a_lost_call_of_a_read_only_tool_may_be_repeated(rogue: Rogue, name: str) -> None:
    async def work() -> None:
        async with rogue(read_only=[name]) as server:
            with pytest.raises(ServerUnavailable):
                await call((await by_name(server))[name])

    asyncio.run(work())


def test_a_program_that_never_stops_talking_leaves_nothing_open() -> None:
    async def work() -> None:
        async with McpServer("yes", command=["yes"]) as server:
            with pytest.raises(ServerUnavailable, match="lines on its stdout are no messages"):
                await server.tools()

    asyncio.run(work())
    gc.collect()  # what is open now closes itself, in a loop that has ended


def test_a_server_that_says_that_it_did_not_begin_is_believed(rogue: Rogue) -> None:
    async def work() -> None:
        async with rogue(read_only=["internal"]) as server:
            tools = await by_name(server)
            with pytest.raises(ToolFailed, match="no such thing"):
                await call(tools["unknown"])
            with pytest.raises(ToolFailed, match="broken in here"):
                await call(tools["internal"])

    asyncio.run(work())


def test_a_hang_ends_after_the_timeout_and_the_next_call_gets_a_new_process(rogue: Rogue) -> None:
    async def work() -> None:
        async with rogue(timeout_s=1.0) as server:
            tools = await by_name(server)
            pid = await call(tools["pid"])

            with pytest.raises(CallLost, match="no answer within 1 s"):
                await call(tools["mute"])

            assert await call(tools["pid"]) != pid

    asyncio.run(work())


@pytest.mark.slow  # the package waits five seconds to tell the server that the call is given up
def test_a_server_that_does_not_read_does_not_hold_the_caller(rogue: Rogue) -> None:
    async def work() -> None:
        async with rogue(timeout_s=1.0) as server:
            tools = await by_name(server)
            assert await call(tools["deaf"]) == "what?"

            with pytest.raises(CallLost, match="no answer within 1 s"):
                await call(tools["ok"], text="x" * 500_000)

            assert await call(tools["ok"]) == "fine"

    asyncio.run(work())


def test_a_call_that_is_cancelled_leaves_the_connection_to_others(rogue: Rogue) -> None:
    async def work() -> None:
        async with rogue() as server:
            tools = await by_name(server)
            pid = await call(tools["pid"])
            waiting = asyncio.create_task(call(tools["mute"]))
            assert await call(tools["ok"]) == "fine"
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            assert await call(tools["pid"]) == pid

    asyncio.run(work())


def test_stray_lines_are_forgiven_and_numbers_that_json_lacks_are_not(rogue: Rogue) -> None:
    async def work() -> None:
        async with rogue() as server:
            tools = await by_name(server)
            assert await call(tools["banner"]) == "after a banner"
            with pytest.raises((ToolResultInvalid, CallLost)):
                await call(tools["nan"])

    asyncio.run(work())


@pytest.mark.parametrize(
    ("greeting", "said"),
    [
        ("exit", "no config for ***"),
        ("garbage", "lines on its stdout are no messages"),
        ("mute", "a greeting within 1 s"),
    ],
)
def test_a_server_that_does_not_greet_is_unavailable(rogue: Rogue, greeting: str, said: str) -> None:
    async def work() -> str:
        async with rogue({"greeting": greeting}, timeout_s=1.0, env={"ROGUE_KEY": "s3cret"}) as it:
            with pytest.raises(ServerUnavailable) as failed:
                await it.tools()
        return str(failed.value)

    message = asyncio.run(work())

    assert said in message
    assert "s3cret" not in message


def test_a_listing_without_end_is_refused(rogue: Rogue) -> None:
    async def work() -> None:
        async with rogue({"pages": True}) as server:
            with pytest.raises(ArtelierError, match=r"have no end|too many tools") as failed:
                await server.tools()
            assert failed.value.code in (ServerBroken.code, "limit_reached")

    asyncio.run(work())


def test_a_program_that_is_not_there_is_said_at_the_first_use() -> None:
    async def work() -> None:
        with pytest.raises(InvalidConfig, match="is not there"):
            await McpServer("x", command=["no-such-program-here", "--key", "s3cret"]).tools()

    asyncio.run(work())


# Through the kernel


def test_a_lost_side_effect_stops_the_run_until_a_person_says_what_happened(
    rogue: Rogue, tmp_path: Path
) -> None:
    async def work() -> None:
        async with rogue() as server:
            with Kernel.open(":memory:", tools=await server.tools()) as kernel:
                with pytest.raises(RunSuspended):
                    async with kernel.run("r", on_wait="suspend") as run:
                        await run.step_tool("dies", {})
                shown = await kernel.for_tenant().show("r")
        assert shown["status"] == "unknown_outcome"
        assert (tmp_path / "calls").read_text() == "dies\n"

    asyncio.run(work())


def test_the_kernel_repeats_a_lost_read_only_call_on_a_new_connection(rogue: Rogue, tmp_path: Path) -> None:
    async def work() -> None:
        async with rogue(read_only=["dies_once"]) as server:
            policy = Policy(backoff_s=0.01)
            with Kernel.open(":memory:", tools=await server.tools(), policy=policy) as kernel:
                async with kernel.run("r") as run:
                    result = await run.step_tool("dies_once", {})
                    run.finish("done")
        assert result.value == "second time"
        assert (tmp_path / "calls").read_text() == "dies_once\n" * 2

    asyncio.run(work())


def test_a_server_that_is_gone_before_the_call_leaves_nothing_unknown(rogue: Rogue, tmp_path: Path) -> None:
    async def work() -> None:
        server = rogue()
        tools = await by_name(server)
        await server.aclose()
        server._address = McpServer("x", command=["no-such-program-here"])._address

        with pytest.raises(ToolFailed, match="was not called"):
            await call(tools["ok"])

        assert not (tmp_path / "calls").exists()

    asyncio.run(work())


# Processes

PROGRAM = """
import asyncio, sys
sys.path.insert(0, {root!r})
from tests.tools.mcp.conftest import by_name, call
from artelier.tools.mcp import McpServer
async def main():
    server = McpServer("rogue", command=[sys.executable, "-S", {rogue!r}])
    print(*(await call((await by_name(server))["family"]))["pids"], flush=True)
    await asyncio.Event().wait()
asyncio.run(main())
"""


@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="watches processes by descriptor")
def test_no_process_is_left_when_the_program_is_killed() -> None:
    code = PROGRAM.format(root=str(HERE.parents[2]), rogue=str(HERE / "rogue.py"))
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as program:
        assert program.stdout is not None
        watched = [os.pidfd_open(int(pid)) for pid in program.stdout.readline().split()]
        program.send_signal(signal.SIGKILL)

    assert len(watched) == 2
    for descriptor in watched:
        ended, _, _ = select.select([descriptor], [], [], 10)
        os.close(descriptor)
        assert ended


@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="watches processes by descriptor")
def test_closing_ends_a_process_that_ignores_it_and_what_it_started(rogue: Rogue) -> None:
    async def work() -> list[int]:
        async with rogue() as server:
            pids = (await call((await by_name(server))["family"]))["pids"]
            return [os.pidfd_open(pid) for pid in pids]

    for descriptor in asyncio.run(work()):
        ended, _, _ = select.select([descriptor], [], [], 10)
        os.close(descriptor)
        assert ended
