"""AG-UI: an agent that a client drives with tools of its own."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from ag_ui import core as agui
from jsonschema import Draft202012Validator
from pydantic import TypeAdapter

from artelier.app import Kernel
from artelier.errors import InvalidRequest
from artelier.kernel.policy import Workspaces
from artelier.server.agui.run_input import read_input, wishes_of
from artelier.server.app import create_app
from artelier.server.openapi import document
from artelier.server.settings import ServerSettings
from artelier.testing import ScriptedModel, tool_call
from artelier.tools import tool
from tests.repository.sources import ROOT
from tests.server.house import House, nobody, on_a_port

WEB = ROOT / "web"
EVENT: TypeAdapter[Any] = TypeAdapter(agui.Event)
PICK = {
    "name": "pick_colour",
    "description": "Let the person pick a colour.",
    "parameters": {"type": "object", "properties": {"kind": {"type": "string"}}, "required": ["kind"]},
}


@tool
def weather(city: str) -> str:
    """Tell the weather."""
    return f"sun in {city}"


@asynccontextmanager
async def served(path: Path, *replies: Any, **settings: Any) -> AsyncIterator[House]:
    model = ScriptedModel(list(replies))
    opened = {name: settings.pop(name) for name in ("workspaces", "policy", "tools") if name in settings}
    kernel = Kernel.open(path / "state.db", models=model, environ={}, **{"tools": [weather], **opened})
    settings = {
        "has_worker": False,
        "secret_file": path / "sessions",
        "model": "openai:gpt-4o-mini",
        **settings,
    }
    try:
        app = create_app(kernel, settings=ServerSettings(**settings))
        async with app.router.lifespan_context(app):
            made = House(kernel, app, nobody(), model)
            made.client = await made.signed_in()
            try:
                yield made
            finally:
                await made.client.aclose()
    finally:
        await kernel.aclose()


def body(messages: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    given: dict[str, Any] = {
        "threadId": "t-1",
        "runId": f"run-{len(messages)}",
        "state": None,
        "messages": messages,
        "tools": [PICK],
        "context": [],
        "forwardedProps": {},
    }
    return {**given, **more}


def says(text: str) -> dict[str, Any]:
    return {"id": f"u-{text}", "role": "user", "content": text}


def gives(call_id: str, content: Any, **more: Any) -> dict[str, Any]:
    return {"id": f"t-{call_id}", "role": "tool", "toolCallId": call_id, "content": content, **more}


async def post(client: httpx.AsyncClient, asked: dict[str, Any]) -> list[Any]:
    answer = await client.post("/api/v1/agui", json=asked)
    assert answer.status_code == 200, answer.text
    found = [line.removeprefix("data: ") for line in answer.text.split("\n") if line.startswith("data: ")]
    return [EVENT.validate_json(line) for line in found]


def types(events: list[Any]) -> list[str]:
    return [event.type.value for event in events]


def calls(events: list[Any]) -> list[tuple[str, str, Any]]:
    """Id, name and arguments of the calls in a stream."""
    names = {one.tool_call_id: one.tool_call_name for one in events if one.type == "TOOL_CALL_START"}
    return [
        (one.tool_call_id, names[one.tool_call_id], json.loads(one.delta))
        for one in events
        if one.type == "TOOL_CALL_ARGS"
    ]


def text_of(events: list[Any]) -> str:
    return "".join(one.delta for one in events if one.type == "TEXT_MESSAGE_CONTENT")


def test_a_client_runs_its_own_tool_and_the_agent_goes_on(tmp_path: Path) -> None:
    async def main() -> None:
        replies = (tool_call("pick_colour", {"kind": "warm"}), "Red it is.")
        async with served(tmp_path, *replies) as made:
            history = [says("Which colour?")]
            first = await post(made.client, body(history))
            [(call_id, name, arguments)] = calls(first)

            assert types(first) == [
                "RUN_STARTED", "TOOL_CALL_START", "TOOL_CALL_ARGS", "TOOL_CALL_END", "RUN_FINISHED",
            ]  # fmt: skip
            assert (name, arguments) == ("pick_colour", {"kind": "warm"})
            assert first[-1].outcome.type == "success"

            second = await post(made.client, body([*history, gives(call_id, "red")]))
            assert text_of(second) == "Red it is."
            assert types(second)[-1] == "RUN_FINISHED"
            assert made.model.requests[1].messages[-1].text == "red"
            row = await made.desk.show("agui.t-1/000001")
            assert row["status"] == "completed"

    asyncio.run(main())


def test_the_answer_may_come_to_another_process_and_brings_no_tools(tmp_path: Path) -> None:
    history = [says("Which colour?")]

    async def first() -> str:
        async with served(tmp_path, tool_call("pick_colour", {"kind": "warm"})) as made:
            return calls(await post(made.client, body(history)))[0][0]

    async def second(call_id: str) -> None:
        async with served(tmp_path, "Blue.") as made:
            asked = body(
                [*history, gives(call_id, '{"colour": "blue"}')], tools=[], forwardedProps={"agent": True}
            )
            assert text_of(await post(made.client, asked)) == "Blue."
            assert json.loads(made.model.requests[0].messages[-1].text) == {"colour": "blue"}

    asyncio.run(second(asyncio.run(first())))


def test_two_calls_are_answered_one_after_the_other_or_at_once(tmp_path: Path) -> None:
    async def main() -> None:
        both = [tool_call("pick_colour", {"kind": "warm"}), tool_call("pick_colour", {"kind": "cold"})]
        async with served(tmp_path, both, "Red and blue.") as made:
            history: list[dict[str, Any]] = [says("Two colours?")]
            events = await post(made.client, body(history))
            asked = dict.fromkeys(id_ for id_, _, _ in calls(events))
            while types(events)[-1] == "RUN_FINISHED" and not text_of(events):
                history += [gives(id_, "red") for id_ in asked]
                events = await post(made.client, body(history))
                asked = dict.fromkeys(id_ for id_, _, _ in calls(events))
                assert len(history) < 6
            assert text_of(events) == "Red and blue."

    asyncio.run(main())


def test_an_error_of_the_client_is_told_to_the_model(tmp_path: Path) -> None:
    async def main() -> None:
        async with served(tmp_path, tool_call("pick_colour", {"kind": "warm"}), "Never mind.") as made:
            history = [says("Which colour?")]
            [(call_id, _, _)] = calls(await post(made.client, body(history)))
            events = await post(made.client, body([*history, gives(call_id, "", error="no palette")]))

            assert text_of(events) == "Never mind."
            assert "no palette" in made.model.requests[1].messages[-1].text

    asyncio.run(main())


def test_tools_of_the_server_are_told_with_their_results(tmp_path: Path) -> None:
    async def main() -> None:
        async with served(tmp_path, tool_call("weather", {"city": "Oslo"}), "Sun.") as made:
            events = await post(
                made.client, body([says("Weather?")], forwardedProps={"agent": True}, tools=[])
            )

            assert [name for _, name, _ in calls(events)] == ["weather"]
            [result] = [one for one in events if one.type == "TOOL_CALL_RESULT"]
            assert result.content == "sun in Oslo"
            assert text_of(events) == "Sun."

    asyncio.run(main())


def test_the_agent_reads_the_workspace_of_its_tenant_on_both_sides_of_an_answer(tmp_path: Path) -> None:
    folder = tmp_path / "desk"
    folder.mkdir()
    (folder / "note.txt").write_text("The answer is seven.")
    replies = (
        tool_call("pick_colour", {"kind": "warm"}),
        tool_call("read_file", {"path": "note.txt"}),
        "Seven, in blue.",
    )

    async def main() -> None:
        async with served(tmp_path, *replies, workspaces=Workspaces(default=str(folder))) as made:
            first = await post(made.client, body([says("What is the answer?")]))
            [(call_id, name, _)] = calls(first)
            assert name == "pick_colour"
            then = await post(made.client, body([says("What is the answer?"), gives(call_id, "blue")]))

            assert text_of(then) == "Seven, in blue."
            asked = made.model.requests
            assert {"read_file", "weather", "pick_colour"} <= {tool.name for tool in asked[0].tools}
            assert "The answer is seven." in asked[-1].messages[-1].text

    asyncio.run(main())


def test_a_thread_is_a_conversation(tmp_path: Path) -> None:
    async def main() -> None:
        async with served(tmp_path, "Hello Ada.", "Ada.") as made:
            await post(made.client, body([says("I am Ada.")]))
            await post(made.client, body([says("I am Ada."), says("Who am I?")]))

            texts = [message.text for message in made.model.requests[1].messages]
            assert "I am Ada." in texts and "Hello Ada." in texts

    asyncio.run(main())


def test_a_profile_keeps_a_turn_a_chat(tmp_path: Path) -> None:
    """A front end that sends its tools with everything still talks to chats."""

    async def main() -> None:
        async with served(tmp_path, "Hi.", "Hi again.") as made:
            await post(made.client, body([says("Hello.")], tools=[]))
            await post(made.client, body([says("Hello."), says("Again.")]))

            runs = [one["id"] for one in (await made.desk.runs())["items"]]
            assert runs == ["t-1/r000001", "t-1/r000002"]

    asyncio.run(main())


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"tools": [{**PICK, "name": "a b"}]}, "name"),
        ({"tools": [PICK, PICK]}, "two tools"),
        ({"tools": [{**PICK, "name": "weather"}]}, "two tools"),
        ({"tools": [{**PICK, "parameters": []}]}, "parameters"),
        ({"tools": [{**PICK, "parameters": {"type": "string"}}]}, "cannot be used"),
        ({"tools": [{**PICK, "description": "x" * 40_000}]}, "too large"),
        ({"tools": [{**PICK, "name": f"t{n}"} for n in range(65)]}, "too many"),
        ({"messages": []}, "nobody"),
        ({"messages": [gives("elsewhere#c1/t1", "x")]}, "no call of this thread"),
        ({"messages": [gives("agui.t-1/000009#c1/t1", "x")]}, "no run"),
        ({"threadId": "a/b"}, "chat"),
        ({"threadId": ""}, ""),
        ({"forwardedProps": {"agent": True, "profile": "p"}}, "profile"),
        ({"forwardedProps": {"agent": True, "budget_usd": "lots"}}, ""),
    ],
)
def test_what_does_not_fit_is_refused_before_anything_is_asked(
    tmp_path: Path, change: dict[str, Any], named: str
) -> None:
    async def main() -> None:
        async with served(tmp_path, "never") as made:
            answer = await made.client.post("/api/v1/agui", json={**body([says("Hello.")]), **change})

            assert answer.status_code in (404, 422), answer.text
            assert named in answer.json()["error"]["message"]
            assert made.model.requests == []

    asyncio.run(main())


def test_an_answer_is_taken_once(tmp_path: Path) -> None:
    async def main() -> None:
        async with served(tmp_path, tool_call("pick_colour", {"kind": "warm"}), "Red.") as made:
            history = [says("Which?")]
            [(call_id, _, _)] = calls(await post(made.client, body(history)))
            asked = body([*history, gives(call_id, "red")])
            await post(made.client, asked)
            again = await made.client.post("/api/v1/agui", json=asked)

            assert again.status_code == 404
            assert "waits for this answer" in again.json()["error"]["message"]

    asyncio.run(main())


SAID: dict[str, Any] = {"id": "1", "role": "user", "content": "Which colour?"}
ANSWERED: dict[str, Any] = {"id": "2", "role": "tool", "toolCallId": "c", "content": "red"}


@pytest.mark.parametrize(
    ("messages", "more", "is_taken"),
    [
        ([SAID], {}, True),
        ([SAID, ANSWERED], {}, True),
        ([SAID], {"forwardedProps": {"agent": True, "model": "offline", "own": 1}}, True),
        ([SAID], {"forwardedProps": None}, True),
        ([SAID], {"forwardedProps": {"agent": "perhaps"}}, False),
        ([SAID], {"forwardedProps": {"model": ""}}, False),
        ([{"role": "user", "content": "no id"}], {}, False),
        ([{**SAID, "role": "king"}], {}, False),
        ([SAID], {"tools": [{"name": "a"}]}, False),
        ([SAID], {"threadId": 5}, False),
    ],
)
def test_the_openapi_document_says_what_a_request_may_hold(
    messages: list[dict[str, Any]], more: dict[str, Any], is_taken: bool
) -> None:
    described = json.loads(document())
    asked = described["paths"]["/api/v1/agui"]["post"]["requestBody"]["content"]["application/json"]
    schema = {**asked["schema"], "components": described["components"]}
    given = body(messages, **more)

    assert Draft202012Validator(schema).is_valid(given) is is_taken
    if is_taken:
        wishes_of(read_input(json.dumps(given).encode()))
        return
    with pytest.raises(InvalidRequest):
        wishes_of(read_input(json.dumps(given).encode()))


AGUI_CLIENT = WEB / "tests/aguiClient.mjs"


def test_the_official_client_runs_its_tool_and_reads_the_reply(tmp_path: Path) -> None:
    if not (WEB / "node_modules/@ag-ui/client").exists() or shutil.which("node") is None:
        told = "needs Node and the packages of the page (make setup)"
        if os.environ.get("CI"):
            pytest.fail(told)
        pytest.skip(told)

    async def main() -> None:
        replies = (tool_call("pick_colour", {"kind": "warm"}), "Red it is.")
        async with served(tmp_path, *replies) as made, on_a_port(made.app) as address:
            cookies = "; ".join(f"{name}={value}" for name, value in made.client.cookies.items())
            asked = {
                "url": f"{address}/api/v1/agui",
                "headers": {"Cookie": cookies, "X-CSRF-Token": made.client.headers["X-CSRF-Token"]},
                "tools": [PICK],
                "answers": {"pick_colour": "red"},
                "forwardedProps": {"budget_usd": "1"},
            }
            node = await asyncio.create_subprocess_exec(
                "node", str(AGUI_CLIENT), json.dumps(asked), stdout=PIPE, stderr=PIPE
            )
            said, wrong = await asyncio.wait_for(node.communicate(), 60)
            assert node.returncode == 0, wrong.decode()

            messages = json.loads(said)
            assert [one["role"] for one in messages] == ["user", "assistant", "tool", "assistant"]
            assert messages[1]["toolCalls"][0]["function"] == {
                "name": "pick_colour",
                "arguments": '{"kind":"warm"}',
            }
            assert messages[3]["content"] == "Red it is."
            assert made.model.requests[1].messages[-1].text == "red"
            assert (await made.desk.show("agui.npm-1/000001"))["status"] == "completed"

    asyncio.run(main())
