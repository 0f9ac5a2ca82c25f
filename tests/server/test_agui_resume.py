"""AG-UI: an agent's questions to people end a request as interrupts, and `resume` answers them."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from asyncio.subprocess import PIPE
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from artelier import Policy
from artelier.testing import tool_call
from artelier.tools import tool
from tests.server.house import House, on_a_port
from tests.server.test_agui_agents import (
    AGUI_CLIENT,
    PICK,
    WEB,
    body,
    calls,
    gives,
    post,
    says,
    served,
    text_of,
)

ASKS = Policy(approve_risk="high")
AGENT: dict[str, Any] = {"tools": [], "forwardedProps": {"agent": True}}
RUN = "agui.t-1/000001"
SENDS = tool_call("send", {"text": "hello"})


def answer(interrupt: Any, payload: object = None, status: str = "resolved") -> dict[str, Any]:
    return {"interruptId": interrupt.id, "status": status, "payload": payload}


def play(path: Path, *replies: Any, part: Callable[[House, list[str]], Awaitable[None]]) -> None:
    sent: list[str] = []

    @tool(side_effect=True, risk="high")
    def send(text: str) -> str:
        """Send a mail."""
        sent.append(text)
        return f"sent {text}"

    async def main() -> None:
        async with served(path, *replies, policy=ASKS, tools=[send]) as made:
            await part(made, sent)

    asyncio.run(main())


async def interrupted(made: House, **more: Any) -> Any:
    events = await post(made.client, body([says("Send it.")], **{**AGENT, **more}))
    [interrupt] = events[-1].outcome.interrupts
    return interrupt


def test_an_approval_is_an_interrupt_and_a_resume_lets_the_agent_go_on(tmp_path: Path) -> None:
    async def part(made: House, sent: list[str]) -> None:
        interrupt = await interrupted(made)
        assert interrupt.id.startswith(f"{RUN}#") and interrupt.reason == "waiting_approval"
        assert interrupt.response_schema["required"] == ["approved"]
        assert interrupt.metadata["details"]["arguments"] == {"text": "hello"}
        assert sent == []

        resume = [answer(interrupt, {"approved": True})]
        asked = body([says("Send it.")], tools=[], resume=resume)  # no wish for an agent: the id says it
        events = await post(made.client, asked)
        assert (text_of(events), events[-1].outcome.type, sent) == ("Done.", "success", ["hello"])
        [result] = [one.content for one in events if one.type == "TOOL_CALL_RESULT"]
        assert result == "sent hello"

        again = await made.client.post("/api/v1/agui", json=asked)
        assert again.status_code == 409 and "answered already" in again.json()["error"]["message"]
        given = [event async for event in made.kernel.events() if event.kind == "approval.given"]
        assert [event.plain()["decision"] for event in given] == ["approve"]

    play(tmp_path, SENDS, "Done.", part=part)


@pytest.mark.parametrize(
    ("payload", "status", "sent_then"),
    [
        ({"approved": False, "note": "not today"}, "resolved", []),
        (False, "resolved", []),
        (None, "cancelled", []),
        (True, "resolved", ["hello"]),
        ({"approved": True, "arguments": {"text": "bye"}}, "resolved", ["bye"]),
        ({"approved": True, "editedArgs": {"text": "bye"}}, "resolved", ["bye"]),
    ],
)
def test_what_a_payload_says_is_done(
    tmp_path: Path, payload: object, status: str, sent_then: list[str]
) -> None:
    async def part(made: House, sent: list[str]) -> None:
        resume = [answer(await interrupted(made), payload, status)]
        events = await post(made.client, body([says("Send it.")], **AGENT, resume=resume))
        assert (text_of(events), sent) == ("Well.", sent_then)
        if isinstance(payload, dict) and payload.get("note"):
            assert "not today" in made.model.requests[1].messages[-1].text

    play(tmp_path, SENDS, "Well.", part=part)


@pytest.mark.parametrize(
    ("entry", "status", "named"),
    [
        ({"interruptId": "agui.other/000001#c1", "payload": True}, 422, "no interrupt of this thread"),
        ({"interruptId": f"{RUN}#", "payload": True}, 422, "no interrupt of this thread"),
        ({"interruptId": "agui.t-1/" + "x" * 3_000, "payload": True}, 422, "no interrupt of this thread"),
        ({"interruptId": f"{RUN}#never", "payload": True}, 404, "ever open"),
        ({"interruptId": "agui.t-1/000009#c1", "payload": True}, 404, "no run"),
        ({}, 422, "the payload of a resume"),
        ({"payload": {"approved": "perhaps"}}, 422, "approved"),
        ({"payload": {"arguments": 1}}, 422, "approved"),
        ({"payload": {"approved": True, "else": 1}}, 422, "else"),
        ({"payload": {"approved": True, "note": "x" * 20_000}}, 422, "note"),
    ],
)
def test_a_resume_that_does_not_fit_is_refused_and_nothing_is_answered(
    tmp_path: Path, entry: dict[str, Any], status: int, named: str
) -> None:
    async def part(made: House, sent: list[str]) -> None:
        interrupt = await interrupted(made)
        good = answer(interrupt, True)
        wrong = {"interruptId": interrupt.id, "status": "resolved", **entry}
        resume = [good, wrong] if wrong["interruptId"] != interrupt.id else [wrong]
        refused = await made.client.post(
            "/api/v1/agui", json=body([says("Send it.")], **AGENT, resume=resume)
        )
        assert refused.status_code == status, refused.text
        assert named in refused.json()["error"]["message"]
        assert len(await made.desk.approvals(RUN)) == 1 and sent == []

    play(tmp_path, SENDS, "never", part=part)


def test_one_interrupt_is_answered_once_in_a_request(tmp_path: Path) -> None:
    async def part(made: House, sent: list[str]) -> None:
        interrupt = await interrupted(made)
        for resume in ([answer(interrupt, True)] * 2, [answer(interrupt, True)] * 101):
            asked = body([says("Send it.")], **AGENT, resume=resume)
            assert (await made.client.post("/api/v1/agui", json=asked)).status_code == 422
        assert sent == []

    play(tmp_path, SENDS, "never", part=part)


def test_a_paused_turn_goes_on_by_its_own_interrupt(tmp_path: Path) -> None:
    async def part(made: House, sent: list[str]) -> None:
        interrupt = await interrupted(made)
        await made.desk.pause(RUN)
        await post(made.client, body([says("Send it.")], **AGENT, resume=[answer(interrupt, True)]))
        assert (await made.desk.show(RUN))["status"] == "paused"
        resume = [{"interruptId": RUN, "status": "resolved"}]
        events = await post(made.client, body([says("Send it.")], **AGENT, resume=resume))
        assert (text_of(events), sent) == ("Done.", ["hello"])

    play(tmp_path, SENDS, "Done.", part=part)


def test_a_call_of_the_clients_tool_and_a_question_are_answered_together(tmp_path: Path) -> None:
    async def part(made: House, sent: list[str]) -> None:
        events = await post(made.client, body([says("Both.")], forwardedProps={"agent": True}))
        [(call_id, _, _)] = calls(events)
        wrong = [{"interruptId": f"{call_id}/ask/1", "status": "resolved", "payload": True}]
        refused = await made.client.post("/api/v1/agui", json=body([says("Both.")], resume=wrong))
        assert refused.status_code == 422
        assert "a call of a client's tool" in refused.json()["error"]["message"]

        messages = [says("Both."), gives(call_id, "red")]
        while events[-1].outcome.type == "interrupt" or not text_of(events):
            waits = events[-1].outcome.interrupts if events[-1].outcome.type == "interrupt" else []
            resume = [answer(one, True) for one in waits]
            events = await post(made.client, body(messages, **({"resume": resume} if resume else {})))
        assert (text_of(events), sent) == ("Both done.", ["hello"])

    replies = ([tool_call("pick_colour", {"kind": "warm"}), SENDS], "Both done.")
    play(tmp_path, *replies, part=part)


def test_the_official_client_answers_an_interrupt(tmp_path: Path) -> None:
    if not (WEB / "node_modules/@ag-ui/client").exists() or shutil.which("node") is None:
        told = "needs Node and the packages of the page (make setup)"
        if os.environ.get("CI"):
            pytest.fail(told)
        pytest.skip(told)

    async def part(made: House, sent: list[str]) -> None:
        async with on_a_port(made.app) as address:
            cookies = "; ".join(f"{name}={value}" for name, value in made.client.cookies.items())
            asked = {
                "url": f"{address}/api/v1/agui",
                "headers": {"Cookie": cookies, "X-CSRF-Token": made.client.headers["X-CSRF-Token"]},
                "tools": [PICK],
                "answers": {"pick_colour": "red"},
                "forwardedProps": {"agent": True},
                "payload": {"approved": True, "editedArgs": {"text": "bye"}},
            }
            node = await asyncio.create_subprocess_exec(
                "node", str(AGUI_CLIENT), json.dumps(asked), stdout=PIPE, stderr=PIPE
            )
            said, wrong = await asyncio.wait_for(node.communicate(), 60)
            assert node.returncode == 0, wrong.decode()
            found = json.loads(said)
            [interrupt] = found["interrupts"]
            assert interrupt["reason"] == "waiting_approval" and "send" in interrupt["message"]
            assert found["messages"][-1]["content"] == "Sent, in red."
            assert sent == ["bye"]

    replies = (SENDS, tool_call("pick_colour", {"kind": "warm"}), "Sent, in red.")
    play(tmp_path, *replies, part=part)
