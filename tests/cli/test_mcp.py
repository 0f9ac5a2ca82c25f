"""`artelier mcp`, as a real process that clients of the protocol's own package, and our own, speak to."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from base64 import b64decode
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import httpx2
import pytest
from mcp import Client, MCPError, StdioServerParameters

from artelier import AutonomousAgent, ModelReply, ToolCall
from artelier.app import Kernel
from artelier.errors import RunSuspended, ToolFailed
from artelier.kernel import Limits
from artelier.kernel.queries.content import MEDIA_BYTES_MAX
from artelier.server.mcp import Face
from artelier.server.mcp.client_view import uri_of
from artelier.testing import ScriptedModel, tool_call
from artelier.tools.mcp import McpServer
from tests.cli.conftest import Provider, Shell
from tests.media.samples import painter, png
from tests.processes import WarmPython, killed_at_last, run_warm
from tests.tools.contexts import Recorder

GREETING: list[dict[str, Any]] = [
    {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "by hand", "version": "1"},
        },
    },
    {"jsonrpc": "2.0", "method": "notifications/initialized"},
]


def words(*options: str) -> list[str]:
    return [sys.executable, "-m", "artelier", "mcp", "--db", "state.db", *options]


@asynccontextmanager
async def served(shell: Shell, *options: str) -> AsyncIterator[Client]:
    """The protocol's own client, connected to a process of ours."""
    command = words("--principal", "user:kim", *options)
    parameters = StdioServerParameters(
        command=command[0], args=command[1:], env=dict(os.environ), cwd=shell.folder
    )
    async with Client(parameters, read_timeout_seconds=30) as client:
        yield client


@asynccontextmanager
async def at_hand(shell: Shell, **given: Any) -> AsyncIterator[Client]:
    """The same, for what does not depend on processes: the face of ours is in this one."""
    with Kernel.open(shell.folder / "state.db") as kernel:
        face = Face(kernel, tenant="default", principal="user:kim", model="offline", **given)
        try:
            async with Client(face.server, read_timeout_seconds=30) as client:
                yield client
        finally:
            await face.aclose()


async def call(client: Client, name: str, /, **arguments: Any) -> Any:
    """The data of a call's result, or its error."""
    result = await client.call_tool(name, arguments)
    assert isinstance(result.structured_content, dict)
    assert json.loads(result.content[0].text) == result.structured_content  # type: ignore[union-attr]
    assert result.is_error == ("error" in result.structured_content)
    return result.structured_content


async def ended(client: Client, run_id: str) -> Any:
    """The result of a run, when it has ended or stands still."""
    for _ in range(20):
        result = await call(client, "run_result", run_id=run_id, wait_s=2)
        if result["ended"] or not result["driven_here"] or result["asks"]:
            return result
    raise AssertionError(f"run {run_id} does not end: {result}")


# Streams


def test_stdout_carries_nothing_but_the_protocol(shell: Shell, sales: str) -> None:
    asked = [
        *GREETING,
        {"jsonrpc": "2.0", "id": 2, "method": "tools/list"},
        {
            "jsonrpc": "2.0",
            "id": 3,
            "method": "tools/call",
            "params": {
                "name": "start_run",
                "arguments": {"goal": "How many rows?", "run_id": "r1", "workspace": "."},
            },
        },
        {
            "jsonrpc": "2.0",
            "id": 4,
            "method": "tools/call",
            "params": {"name": "run_result", "arguments": {"run_id": "r1", "wait_s": 30}},
        },
        {"jsonrpc": "2.0", "id": 5, "method": "no/such"},
    ]
    with (
        WarmPython(
            words("--workspace", sales, "--json"),
            cwd=shell.folder,
            env=dict(os.environ),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process,
        killed_at_last(process),
    ):
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("this is no message\n\n{}\n[]\n")
        answers: dict[Any, Any] = {}
        for message in asked:
            process.stdin.write(json.dumps(message) + "\n")
            process.stdin.flush()
            while "id" in message and message["id"] not in answers:
                answer = json.loads(process.stdout.readline())  # every line is a message
                assert answer["jsonrpc"] == "2.0"
                answers[answer.get("id")] = answer
        rest, _ = process.communicate(timeout=60)

    assert process.returncode == 0
    assert rest == ""
    assert answers[4]["result"]["structuredContent"]["status"] == "completed"
    assert "error" in answers[5]


def test_a_signal_ends_it_while_the_client_is_still_there(shell: Shell) -> None:
    with (
        WarmPython(
            words(),
            cwd=shell.folder,
            env=dict(os.environ),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process,
        killed_at_last(process),
    ):
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(GREETING[0]) + "\n")
        process.stdin.flush()
        assert json.loads(process.stdout.readline())["id"] == 1

        process.send_signal(signal.SIGTERM)

        assert process.wait(30) == 0  # its stdin is still open
        assert process.stdout.read() == ""


NOISY = """
import asyncio, os, subprocess, sys
from artelier.app import Kernel
from artelier.server.mcp import Face, serve_stdio
def noise():
    print("noise of this process")
    os.write(1, b"noise of a library\\n")
    subprocess.run([sys.executable, "-c", "print('noise of a child', input('?'))"])
async def main():
    with Kernel.open(":memory:") as kernel:
        face = Face(kernel, tenant="default", principal="user:kim", model="offline")
        asyncio.get_running_loop().call_soon(noise)
        await serve_stdio(face)
asyncio.run(main())
"""


def test_what_prints_or_reads_meanwhile_does_not_meet_the_protocol(shell: Shell) -> None:
    given = "".join(json.dumps(message) + "\n" for message in GREETING)

    done = run_warm(
        [sys.executable, "-c", NOISY],
        cwd=shell.folder,
        input=given,
        text=True,
        capture_output=True,
        timeout=60,
        check=True,
    )

    assert [json.loads(line)["id"] for line in done.stdout.splitlines()] == [1]
    assert "noise of this process" in done.stderr
    assert "noise of a library" in done.stderr
    assert "EOFError" in done.stderr


def test_a_line_without_end_ends_the_conversation(shell: Shell) -> None:
    with (
        WarmPython(
            words(),
            cwd=shell.folder,
            env=dict(os.environ),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        ) as process,
        killed_at_last(process),
    ):
        assert process.stdin is not None
        with pytest.raises(BrokenPipeError):
            for _ in range(10_000):
                process.stdin.write(b"x" * 65_536)
        assert process.wait(30) == 0
        process.stdin.close()


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        (["--transport", "smoke"], 2, "stdio or http"),
        (["--workspace", "nowhere"], 6, "the workspace is not there"),
        (["--model", "no-such:model"], 2, "no-such"),
        (["--principal", "a b"], 2, "principal"),
        (["--budget-usd", "much"], 2, "not an amount"),
    ],
)
def test_what_is_wrong_is_said_on_stderr_alone(
    shell: Shell, options: list[str], code: int, said: str
) -> None:
    ran = shell("mcp", "--db", "state.db", *options, "--json")

    assert (ran.code, ran.out) == (code, "")
    assert said in ran.err


def test_without_the_extra_it_says_what_to_install(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mcp", None)

    ran = shell("mcp", "--db", "state.db")

    assert (ran.code, ran.out) == (2, "")
    assert 'pip install "artelier[mcp]"' in ran.err
    assert not (shell.folder / "state.db").exists()


# Artifacts


def test_a_client_sees_what_its_principal_may_read_and_nothing_else(shell: Shell) -> None:
    async def prepare() -> None:
        with Kernel.open(shell.folder / "state.db") as kernel:
            ours, theirs = kernel.for_tenant("default"), kernel.for_tenant("other")
            mine = ours.as_principal("user:kim").artifacts
            await mine.write("notes/a:b", kind="document", content="mine", access="private")
            await mine.write("data", kind="document", content={"n": [1, 2]}, access="private")
            await mine.write("data", content={"n": [3]})
            await mine.write("raw", kind="document", content=b"\0\1", access="private")
            lee = ours.as_principal("user:lee").artifacts
            await lee.write("secret", kind="document", content="lee's", access="private")
            await lee.write("shared", kind="document", content="to all", access="public")
            await lee.write("sold", kind="document", content="x", access="public", prices={"read": 3})
            away = theirs.as_principal("user:kim").artifacts
            await away.write("abroad", kind="document", content="elsewhere", access="public")

    async def work() -> None:
        await prepare()
        async with at_hand(shell) as client:
            listed = {one.name: str(one.uri) for one in (await client.list_resources()).resources}
            texts = {
                name: (await client.read_resource(uri)).contents[0]
                for name, uri in listed.items()
                if name != "sold"
            }
            older = await client.read_resource("artelier://artifacts/data@1")
            by_hand = await client.read_resource("artelier://artifacts/notes/a:b")
            refused = [
                await refusal(client, f"artelier://artifacts/{name}")
                for name in ("secret", "abroad", "none", "sold", "a@0", "%ff")
            ]
            outside = await refusal(client, "file:///etc/passwd")

        assert set(listed) == {"notes/a:b", "data", "raw", "shared", "sold"}
        assert listed["notes/a:b"] == "artelier://artifacts/notes%2Fa%3Ab"
        assert texts["notes/a:b"].text == by_hand.contents[0].text == "mine"  # type: ignore[union-attr]
        assert texts["data"].mime_type == "application/json"
        assert json.loads(older.contents[0].text) == {"n": [1, 2]}  # type: ignore[union-attr]
        assert texts["raw"].blob == "AAE="  # type: ignore[union-attr]
        codes = [wire["code"] for wire in refused]
        assert codes[0] in ("access_denied", "not_found")
        assert codes[1:3] == ["not_found", "not_found"]
        assert codes[3] == "access_denied"  # it has a price, and looking never spends
        assert codes[4:] == ["invalid_request", "invalid_request"]
        assert outside["code"] == "invalid_request"
        assert {"code", "message", "expected", "got", "hint"} == set(outside)
        assert "lee's" not in json.dumps(refused)

    asyncio.run(work())


async def refusal(client: Client, uri: str) -> dict[str, Any]:
    with pytest.raises(MCPError) as refused:
        await client.read_resource(uri)
    return refused.value.data


def test_resources_come_in_pages_and_foreign_cursors_are_refused(shell: Shell) -> None:
    async def work() -> None:
        with Kernel.open(shell.folder / "state.db") as kernel:
            mine = kernel.for_tenant("default").as_principal("user:kim").artifacts
            for number in range(150):
                await mine.write(f"a/{number}", kind="document", content="x", access="private")
        async with at_hand(shell) as client:
            first = await client.list_resources()
            second = await client.list_resources(cursor=first.next_cursor)
            names = [one.name for one in (*first.resources, *second.resources)]
            assert names == [f"a/{number}" for number in range(150)]
            assert second.next_cursor is None
            for cursor in ("?", "bm9uZQ==", "x" * 5_000):
                with pytest.raises(MCPError):
                    await client.list_resources(cursor=cursor)
            templates = (await client.list_resource_templates()).resource_templates
            assert [one.uri_template for one in templates] == ["artelier://artifacts/{id}"]

    asyncio.run(work())


# Runs


def test_a_run_is_started_watched_and_read(shell: Shell, sales: str) -> None:
    async def work() -> None:
        async with served(shell, "--workspace", ".", "--budget-usd", "1") as client:
            goal = {"goal": "Which region has the highest amount?", "run_id": "r1"}
            started = await call(client, "start_run", **goal, workspace=sales)
            result = await ended(client, "r1")
            again = await call(client, "start_run", **goal, workspace=sales)
            listed = await call(client, "list_runs", limit=1)
            report = await client.read_resource("artelier://artifacts/reports%2Fr1")

        assert started["run_id"] == "r1"
        assert started["status"] in ("pending", "running", "completed")
        assert result["status"] == again["status"] == "completed"
        assert "south" in result["text"]
        assert result["artifact"] == "reports/r1@1"
        assert report.contents[0].text == result["text"]  # type: ignore[union-attr]
        assert [one["id"] for one in listed["items"]] == ["r1"]

    asyncio.run(work())


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"goal": "x", "run_id": "r2", "workspace": "../.."}, "access_denied"),
    ({"goal": "x", "run_id": "r2", "workspace": "/"}, "access_denied"),
    ({"goal": "x", "run_id": "r2", "workspace": "way-out"}, "access_denied"),
    ({"goal": "x", "run_id": "r2", "workspace": "nowhere"}, "not_found"),
    ({"goal": "x", "run_id": "r2", "workspace": "a\0b"}, "invalid_arguments"),
    ({"goal": "x", "run_id": "r2", "budget_usd": "1.01"}, "invalid_arguments"),
    ({"goal": "x", "run_id": "r2", "budget_usd": "-1"}, "invalid_request"),
    ({"goal": "x", "run_id": "r2", "model": "offline"}, "invalid_arguments"),
    ({"goal": "x", "run_id": "r#2"}, "invalid_request"),
    ({"goal": ""}, "invalid_arguments"),
    ({"goal": "x" * 100_001}, "invalid_arguments"),
    ({}, "invalid_arguments"),
]


def test_what_a_run_has_shown_comes_as_images_of_its_result(shell: Shell) -> None:
    large = MEDIA_BYTES_MAX
    calls = [
        tool_call("paint", {"side": 5}),
        tool_call("paint", {"side": 6, "extra_bytes": large}),
        tool_call("paint", {"side": 5}),
    ]
    model = ScriptedModel([calls, "Squares."])

    async def work() -> None:
        with Kernel.open(
            shell.folder / "state.db", models={"m": model}, tools=[painter()], environ={}
        ) as kernel:
            face = Face(kernel, tenant="default", principal="user:kim", model="m")
            await AutonomousAgent(kernel=kernel, agent_id="assistant").run(
                run_id="r1", model="m", prompt="Paint."
            )
            async with Client(face.server, read_timeout_seconds=30) as client:
                result = await client.call_tool("run_result", {"run_id": "r1"})
                told: Any = result.structured_content
                shown = {one.type: one for one in result.content[1:]}

                assert [one["left_out"] for one in told["media"]] in ([True, False], [False, True])
                picture: Any = shown["image"]
                assert (picture.mime_type, b64decode(picture.data)) == ("image/png", png(5, 5))
                link: Any = shown["resource_link"]
                assert (link.mime_type, link.size) == ("image/png", len(png(6, 6)) + large)
                [small] = [one["artifact"] for one in told["media"] if not one["left_out"]]
                found = await client.read_resource(uri_of(small))
                assert found.contents[0].mime_type == "image/png"
            await face.aclose()

    asyncio.run(work())


def test_what_no_client_may_ask_is_refused_in_the_one_shape(shell: Shell) -> None:
    async def work() -> None:
        (shell.folder / "root").mkdir()
        (shell.folder / "root" / "way-out").symlink_to("/")
        async with at_hand(shell, workspace="root", limits=Limits(usd="1")) as client:
            for arguments, code in REFUSED:
                wire = (await call(client, "start_run", **arguments))["error"]
                assert (code, arguments) == (wire["code"], arguments)
                assert {"code", "message", "expected", "got", "hint"} == set(wire)
            for name in ("run_status", "run_result", "cancel_run"):
                assert (await call(client, name, run_id="r2"))["error"]["code"] == "not_found"
            assert (await call(client, "no_such_tool"))["error"]["code"] == "not_found"
            assert (await call(client, "list_runs"))["items"] == []

    asyncio.run(work())


def test_without_a_workspace_of_its_own_the_server_gives_none(shell: Shell) -> None:
    async def work() -> None:
        async with at_hand(shell) as client:
            wire = (await call(client, "start_run", goal="x", workspace="."))["error"]
            assert wire["code"] == "access_denied"
            assert "--workspace" in wire["hint"]

    asyncio.run(work())


def test_a_run_that_asks_is_answered_and_goes_on(shell: Shell, sales: str, provider: Provider) -> None:
    shell.write("artelier.toml", '[policy]\napprove_risk = "low"\n')
    provider.says(reads("2024.csv"), "South.")

    async def work() -> None:
        async with served(shell, "--approvals", "--workspace", sales) as client:
            await call(client, "start_run", goal="Which?", run_id="r1", workspace=".")
            asking = await ended(client, "r1")
            wrong = await call(client, "approve_run", run_id="r1", decision="edit")
            await call(client, "approve_run", run_id="r1", decision="approve", note="go")
            result = await ended(client, "r1")

        assert asking["status"] == "waiting_approval"
        assert asking["asks"][0]["question"] == "call read_file"
        assert wrong["error"]["code"] == "invalid_arguments"
        assert (result["status"], result["text"]) == ("completed", "South.")

    asyncio.run(work())


def test_a_killed_server_leaves_a_run_that_the_next_one_goes_on_with(
    shell: Shell, sales: str, provider: Provider
) -> None:
    shell.write("artelier.toml", '[policy]\napprove_risk = "low"\n')
    provider.says(reads("2024.csv"), "South.")

    async def first() -> None:
        async with served(shell, "--workspace", sales) as client:
            await call(client, "start_run", goal="Which?", run_id="r1", workspace=".")
            assert (await ended(client, "r1"))["status"] == "waiting_approval"

    async def second() -> None:
        async with served(shell, "--approvals", "--workspace", sales) as client:
            before = await call(client, "run_status", run_id="r1")
            assert (before["status"], before["driven_here"]) == ("waiting_approval", False)
            await call(client, "approve_run", run_id="r1", decision="approve")
            assert (await ended(client, "r1"))["text"] == "South."

    asyncio.run(first())
    asyncio.run(second())
    assert provider.calls == 2


def test_signals_and_cancels_reach_runs_of_other_programs(shell: Shell) -> None:
    async def work() -> None:
        with Kernel.open(shell.folder / "state.db") as kernel:
            for name in ("waits", "ends"):
                with pytest.raises(RunSuspended):
                    async with kernel.run(name, on_wait="suspend") as run:
                        await run.wait_for("bank-file")
        async with served(shell) as client:
            sent = await call(client, "signal_run", run_id="waits", name="bank-file", data={"n": 1})
            cancelled = await call(client, "cancel_run", run_id="ends", note="enough")
            twice = await call(client, "cancel_run", run_id="ends")
        with Kernel.open(shell.folder / "state.db") as kernel:
            async with kernel.run("waits") as run:
                given = await run.wait_for("bank-file")
                run.finish(given)
            actors = {event.kind: event.actor async for event in kernel.events()}

        assert sent["driven_here"] is False
        assert cancelled["status"] == "cancelled"
        assert twice["error"]["code"] == "conflict"
        assert given == {"n": 1}
        assert actors["run.cancelled"] == actors["signal.received"] == "user:kim"

    asyncio.run(work())


def test_clients_answer_nothing_unless_whoever_starts_the_server_says_so(shell: Shell) -> None:
    async def work() -> None:
        async with served(shell) as client:
            names = [tool.name for tool in (await client.list_tools()).tools]
            refused = await call(client, "approve_run", run_id="r1", decision="approve")
        assert names == ["start_run", "run_status", "run_result", "list_runs", "cancel_run", "signal_run"]
        assert refused["error"]["code"] == "access_denied"
        assert "--approvals" in refused["error"]["hint"]

    asyncio.run(work())


def reads(path: str) -> ModelReply:
    return ModelReply(tool_calls=(ToolCall(id="1", name="read_file", arguments={"path": path}),))


# HTTP


class Web:
    def __init__(self, url: str, token: str, process: subprocess.Popen[str]) -> None:
        self.url = url
        self.process = process
        self.headers = {"Authorization": f"Bearer {token}"}


@contextmanager
def on_the_web(shell: Shell, *options: str) -> Iterator[Web]:
    """A server over HTTP, ended by SIGTERM."""
    with (
        WarmPython(
            words("--transport", "http", "--principal", "user:kim", *options),
            cwd=shell.folder,
            env=dict(os.environ),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process,
        killed_at_last(process),
    ):
        assert process.stderr is not None
        url = process.stderr.readline().split()[1].rstrip(";")
        token = process.stderr.readline().split()[-1]
        try:
            yield Web(url, token, process)
        finally:
            process.send_signal(signal.SIGTERM)
            out, _ = process.communicate(timeout=60)
    assert (process.returncode, out) == (0, "")


def test_our_client_uses_our_server_over_http(shell: Shell, sales: str) -> None:
    async def work(web: Web) -> None:
        async with McpServer("artelier", url=web.url, headers=web.headers) as server:
            tools = {tool.name: tool for tool in await server.tools()}
            context = Recorder().context()
            assert server.refused == ()
            goal = {"goal": "How many rows?", "run_id": "r1", "workspace": "."}
            start = tools["start_run"]
            await start.call(start.validate(goal), context)
            result = await tools["run_result"].call({"run_id": "r1", "wait_s": 30}, context)
            assert result["status"] == "completed"
            with pytest.raises(ToolFailed, match="not_found"):
                await tools["run_status"].call({"run_id": "none"}, context)

    with on_the_web(shell, "--workspace", sales) as web:
        asyncio.run(work(web))


def test_a_token_that_was_made_before_lets_in_after_a_restart_until_it_is_revoked(shell: Shell) -> None:
    token = shell("token", "new", "desk", "--db", "state.db").out.strip()
    headers = {"Accept": "application/json, text/event-stream", "Authorization": f"Bearer {token}"}
    seen: list[int] = []
    for is_revoked in (False, False, True):
        with on_the_web(shell) as web, httpx2.Client(timeout=30) as client:
            if is_revoked:
                assert shell("token", "revoke", "desk", "--db", "state.db").code == 0
            seen.append(client.post(web.url, json=GREETING[0], headers=headers).status_code)

    assert seen == [200, 200, 401]


def test_http_lets_in_only_who_has_the_token_our_host_and_no_foreign_origin(shell: Shell) -> None:
    with on_the_web(shell) as web, httpx2.Client(timeout=30) as client:
        port = web.url.split(":")[2].split("/")[0]
        accept = {"Accept": "application/json, text/event-stream"}

        def asked(**headers: str) -> int:
            given = {name.replace("_", "-"): value for name, value in headers.items()}
            return client.post(web.url, json=GREETING[0], headers={**accept, **given}).status_code

        token = web.headers["Authorization"]
        assert web.url.startswith("http://127.0.0.1:")
        assert asked(Authorization=token) == 200
        assert asked(Authorization=token, Origin=f"http://localhost:{port}") == 200
        assert asked() == 401
        assert asked(Authorization=token + "x") == 401
        assert asked(Authorization=token, Host=f"evil.example:{port}") == 421
        assert asked(Authorization=token, Host="127.0.0.1") == 421
        assert asked(Authorization=token, Origin="http://evil.example") == 403
        assert asked(Authorization=token, Origin="null") == 403

        huge = client.post(
            web.url,
            content=b" " * (5 * 1024 * 1024),
            headers={**accept, **web.headers, "Content-Type": "application/json"},
        )
        assert huge.status_code == 413
        refused = client.post(web.url, json={}).json()
        assert refused["error"]["code"] == "access_denied"


def test_a_port_that_is_taken_is_said(shell: Shell) -> None:
    with on_the_web(shell) as web:
        port = web.url.split(":")[2].split("/")[0]
        ran = shell("mcp", "--db", "state.db", "--transport", "http", "--port", port)

    assert ran.code == 1
    assert "--port" in ran.err
