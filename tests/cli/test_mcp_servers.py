"""`.mcp.json` and `[mcp.servers]`: real servers of the launch folder, approved once."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from artelier import Kernel
from artelier.server.app import create_app
from artelier.server.settings import ServerSettings
from tests.cli.conftest import Provider, Ran, Shell
from tests.cli.terminal import on_terminal
from tests.cli.test_do import PLAN, TEXT, WRITE, decides, passes, says
from tests.cli.test_do_solo import calls

SHOP = Path(__file__).parents[1] / "tools" / "mcp" / "shop.py"
LOG = "calls.log"
USE = decides("use_tool", tool="add", input={"a": 2, "b": 3})
PLAN_WITH_ADD = {**PLAN, "agents": [{"slug": "analyst", "name": "Analyst", "tools": ["add", "ask_person"]}]}


@pytest.fixture
def provider(provider: Provider, shell: Shell) -> Provider:
    """A model that takes sampling parameters; those that reason warn that they ignore them."""
    shell.set("ARTELIER_MODEL", "openai:gpt-4o-mini")
    return provider


def write(shell: Shell, name: str = ".mcp.json", **servers: Any) -> None:
    shell.write(name, json.dumps({"mcpServers": servers}))


def shop(shell: Shell, *more: str, **facts: Any) -> dict[str, Any]:
    env = {"SHOP_LOG": str(shell.folder / LOG)}
    return {"command": "${PYTHON}", "args": [str(SHOP), *more], "env": env, **facts}


@pytest.fixture
def served(shell: Shell) -> Shell:
    shell.set("PYTHON", sys.executable)
    write(shell, shop=shop(shell))
    return shell


def do(shell: Shell, *more: str, run: str = "d1") -> Ran:
    return shell("do", "Add the numbers.", "--workspace", "sales", "--run-id", run, *more)


def test_the_tools_of_a_server_are_planned_with_called_and_there_after_a_restart(
    served: Shell, sales: str, provider: Provider
) -> None:
    question = decides("use_tool", tool="ask_person", input={"question": "Which?"})
    provider.says(says(PLAN_WITH_ADD), question)

    waits = do(served, "--approve-mcp")

    assert waits.code == 3, waits.err
    assert "MCP server shop of .mcp.json is not approved here yet" in waits.err
    assert "starts: '${PYTHON}' " in waits.err, "variables are shown by their names"
    assert "add: Add two numbers." in json.dumps(provider.server.requests[0].body), "planned with it"
    assert served("approve", "d1/answer", "--note", "2 and 3").code == 0
    provider.says(USE, WRITE, TEXT, passes())

    ran = served("resume", "d1")  # another process would: nothing is asked again

    assert (ran.code, ran.out) == (0, f"{TEXT}\n"), ran.err
    assert "not approved" not in ran.err
    assert "add 2 3" in (served.folder / LOG).read_text()


def test_a_server_that_nobody_approved_is_not_started(
    served: Shell, sales: str, provider: Provider, tmp_path: Path
) -> None:
    write(served, touch={"command": "touch", "args": ["started"]})

    ran = do(served, "--solo", "--json")

    assert ran.code != 0
    assert ran.error["code"] == "access_denied"
    assert "touch started" in ran.error["got"]
    assert "--approve-mcp" in ran.error["hint"]
    assert not (tmp_path / "started").exists()
    assert not (tmp_path / ".artelier").exists(), "nothing was begun"
    assert provider.calls == 0


def test_a_changed_command_asks_again(served: Shell, sales: str, provider: Provider) -> None:
    provider.says("Five.")
    assert do(served, "--solo", "--approve-mcp").code == 0
    provider.says("Five.")
    assert do(served, "--solo", run="d2").code == 0, "the yes holds"
    write(served, shop=shop(served, "--other"))

    changed = do(served, "--solo", run="d3")

    assert changed.code != 0
    assert "has changed since it was approved" in changed.err
    write(served, shop={**shop(served), "env": {"SHOP_LOG": "elsewhere"}})
    assert "has changed since it was approved" in do(served, "--solo", run="d3").err
    write(served, shop=shop(served))
    provider.says("Five.")
    assert do(served, "--solo", run="d3").code == 0, "a look at another command took nothing away"


def test_an_approval_is_for_the_folder_in_which_it_was_given(
    served: Shell, sales: str, provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    provider.says("Five.")
    assert do(served, "--solo", "--approve-mcp").code == 0
    write(served, "clone/.mcp.json", shop=shop(served))
    monkeypatch.chdir(served.folder / "clone")

    ran = served("do", "Add.", "--workspace", "../sales", "--solo")

    assert "is not approved here yet" in ran.err


def test_without_servers_a_run_goes_on_as_before(served: Shell, sales: str, provider: Provider) -> None:
    provider.says("Five.")

    ran = do(served, "--solo", "--no-mcp")

    assert ran.code == 0, ran.err
    assert "add" not in [tool["function"]["name"] for tool in provider.server.requests[0].body["tools"]]


def test_a_run_that_had_the_tools_names_them_when_they_are_left_out(
    served: Shell, sales: str, provider: Provider
) -> None:
    provider.says(calls("ask_person", question="Which?"))
    assert do(served, "--solo", "--approve-mcp").code == 3
    assert served("approve", "d1", "--note", "2 and 3").code == 0

    without = served("resume", "d1", "--no-mcp")

    assert without.code != 0
    assert "add" in without.err
    provider.says(calls("add", a=2, b=3), "Five.")
    ran = served("resume", "d1")
    assert (ran.code, ran.out) == (0, "Five.\n"), ran.err


def test_a_file_in_a_workspace_is_never_read(
    served: Shell, sales: str, provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    (Path(served.folder) / ".mcp.json").unlink()
    write(served, "sales/.mcp.json", evil={"command": "touch", "args": ["started"]})
    provider.says("Five.")

    ran = do(served, "--solo", "--approve-mcp")

    assert ran.code == 0, ran.err
    assert "is not read: agents can write there" in ran.err
    monkeypatch.chdir(served.folder / "sales")
    inside = served("do", "Add.", "--workspace", ".", "--solo", "--approve-mcp")
    assert inside.code != 0
    assert "stands in a workspace, where agents can write" in inside.err
    assert not list(Path(served.folder).rglob("started"))


@pytest.mark.parametrize(
    ("stated", "said"),
    [
        ("{", ".mcp.json:1: "),
        ("[]", "the whole"),
        ('{"servers": {}}', "there is no key mcpServers"),
        ('{"mcpServers": {"a": {}}}', "either command or url"),
        ('{"mcpServers": {"a": {"command": "x", "url": "http://y"}}}', "either command or url"),
        ('{"mcpServers": {"a": {"command": "x", "args": [1]}}}', "mcpServers.a.args.0"),
        ('{"mcpServers": {"a": {"command": "x", "cwd": "/"}}}', "'cwd', which is not supported"),
        ('{"mcpServers": {"a": {"type": "sse", "url": "http://y"}}}', "old transport sse"),
        ('{"mcpServers": {"a": {"command": "${NOWHERE}"}}}', "the variable NOWHERE is not set"),
        ('{"mcpServers": {"a": {"command": "${input:key}"}}}', "${input:key} is no variable"),
        ('{"mcpServers": {"a.b": {"command": "x"}, "a b": {"command": "y"}}}', "two servers are one name"),
        ('{"mcpServers": {"a": {"command": "no-such-program-anywhere"}}}', "program of an MCP server is not"),
        ('{"mcpServers": {"a": {"command": "false"}}}', "the server 'a' of .mcp.json"),
        ('{"mcpServers": {"a": {"url": "ftp://y"}}}', "expected  http"),
        ('{"mcpServers": {"a": {"url": "ftp://y"}}}', "the server 'a' of .mcp.json"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_before_anything_begins(
    shell: Shell, sales: str, provider: Provider, stated: str, said: str
) -> None:
    shell.write(".mcp.json", stated)

    ran = do(shell, "--solo", "--approve-mcp")

    assert ran.code != 0
    assert said in ran.err, ran.err
    assert provider.calls == 0
    assert not (shell.folder / ".artelier").exists()


def test_a_server_that_never_answers_is_named_after_its_time(
    shell: Shell, sales: str, provider: Provider
) -> None:
    write(shell, deaf={"command": "sleep", "args": ["600"]})
    shell.write("artelier.toml", "[mcp.servers.deaf]\ntimeout_s = 0.5\n")

    ran = do(shell, "--solo", "--approve-mcp")

    assert ran.code != 0
    assert "does not answer" in ran.err
    assert "the server 'deaf' of .mcp.json" in ran.err
    assert "--no-mcp" in ran.err


def test_settings_name_servers_add_trust_and_leave_servers_out(
    served: Shell, sales: str, provider: Provider
) -> None:
    write(served, shop=shop(served), broken={"command": "false"})
    served.write(
        "artelier.toml",
        '[mcp.servers.shop]\nread_only = ["add"]\n[mcp.servers.broken]\nenabled = false\n'
        f'[mcp.servers.second]\ncommand = ["{sys.executable}", "{SHOP}"]\n',
    )
    provider.says("Five.")

    ran = do(served, "--solo", "--approve-mcp")

    assert ran.code == 0, ran.err
    assert "believed that it reads only: add" in ran.err
    names = [tool["function"]["name"] for tool in provider.server.requests[0].body["tools"]]
    assert "add" in names
    assert "second_add" in names, "a name that is taken gets that of its server before it"


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ('[mcp.servers.x]\nread_only = ["a"]\n', "says nothing to start or to ask"),
        ('[mcp.servers.x]\ncommand = "a"\nurl = "http://b"\n', "either command or url"),
        ('[mcp.servers.x]\ncomand = "a"\n', "artelier.toml:2: unknown key mcp.servers.x.comand"),
    ],
)
def test_settings_of_a_server_that_say_nothing_useful_are_refused(
    shell: Shell, sales: str, table: str, said: str
) -> None:
    shell.write("artelier.toml", table)

    ran = do(shell, "--solo")

    assert ran.code != 0
    assert said in ran.err


def test_a_broken_file_of_approvals_approves_nothing(served: Shell, sales: str) -> None:
    served.write("state of kim/artelier/mcp_approvals.json", '{"approved": 3}')

    ran = do(served, "--solo")

    assert ran.code != 0
    assert "the approvals of MCP servers cannot be read" in ran.err


def test_the_api_tells_risk_grant_and_schema_of_every_tool(served: Shell, sales: str) -> None:
    import httpx

    from artelier.tools.mcp import McpServer

    async def listed() -> dict[str, Any]:
        async with McpServer("shop", command=[sys.executable, str(SHOP)], grant="shop:use") as server:
            kernel = Kernel.open(served.folder / "api.db", tools=await server.tools(), environ={})
            app = create_app(kernel, settings=ServerSettings(has_worker=False))
            async with app.router.lifespan_context(app):
                transport = httpx.ASGITransport(app=app)
                async with httpx.AsyncClient(transport=transport, base_url="http://localhost:8321") as client:
                    await client.get("/", params={"token": app.state.gate.sessions.link()})
                    items = (await client.get("/api/v1/server/tools")).json()["items"]
            await kernel.aclose()
            return {one["name"]: one for one in items}

    found = asyncio.run(listed())

    assert found["add"]["source"] == "mcp:shop"
    assert found["add"]["risk"] == "high"
    assert found["add"]["grant"] == "shop:use"
    assert found["add"]["parameters"]["required"] == ["a", "b"]


def test_a_server_of_many_tools_hides_none_of_the_workspace(
    served: Shell, sales: str, provider: Provider
) -> None:
    provider.says(USE, WRITE, TEXT, passes())

    served("do", "How many were sold?", "--workspace", "sales", "--run-id", "d1", "--approve-mcp")

    asked = json.dumps(provider.server.requests[0].body)
    for name in ("add", "pay", "list_dir", "read_file", "query_sql"):
        assert f"### {name}" in asked, name


def test_a_person_at_the_terminal_is_asked_once(served: Shell, sales: str) -> None:
    words = ["do", "Add.", "--workspace", "sales", "--solo"]

    refused = on_terminal(words, folder=served.folder, typed=[("[y/N]", "n\n")])
    agreed = on_terminal(words, folder=served.folder, typed=[("[y/N]", "y\n")])
    again = on_terminal(words, folder=served.folder)

    assert "shop is left out this time" in refused.text
    assert "MCP server shop: " in agreed.text
    assert "[y/N]" not in again.text
    assert "MCP server shop: " in again.text
