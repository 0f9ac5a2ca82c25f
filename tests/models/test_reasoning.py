"""Reasoning is kept with its signature, sent back unmodified to its own provider, and shown in no text."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from artelier import AutonomousAgent, Kernel, ModelReply, Policy, tool
from artelier.kernel.prompt.manifest import message_of_reply
from artelier.ports.model import ChatMessage, Delta, Part, ToolCall, data_of
from artelier.server.prompt_inspector import readable
from artelier.testing import ScriptedModel, tool_call
from artelier.testing.openai_server import OpenAIServer
from artelier.testing.providers import StrictAnthropic, StrictOpenAIResponses, StrictProvider

HAIKU, GPT = "anthropic:claude-haiku-4-5", "openai-responses:gpt-5-mini"


@tool(side_effect=False)
def look(page: int) -> str:
    """Read a page."""
    return f"page {page}"


def thoughts(message: ChatMessage) -> list[Part]:
    content = () if isinstance(message.content, str) else message.content
    return [part for part in content if part.type == "reasoning"]


def script(count: int) -> Any:
    state = {"page": 0}

    def answer(body: dict[str, Any]) -> Any:
        state["page"] += 1
        return "done" if state["page"] >= count else tool_call("look", {"page": state["page"]})

    return answer


def point_at(server: OpenAIServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
    monkeypatch.setenv("ANTHROPIC_API_KEY", "k")
    monkeypatch.setenv("ANTHROPIC_BASE_URL", server.base_url.removesuffix("/v1"))


@pytest.mark.parametrize(
    ("model", "strict", "thought"),
    [
        (HAIKU, StrictAnthropic(script(4)), "Let me think about that."),
        (GPT, StrictOpenAIResponses(script(4)), ""),
    ],
)
def test_a_strict_provider_takes_its_reasoning_back_over_a_run_with_tools_and_a_replay_calls_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, model: str, strict: StrictProvider, thought: str
) -> None:
    async def scenario() -> None:
        async with OpenAIServer(strict) as server:
            point_at(server, monkeypatch)
            with Kernel.open(tmp_path / "s.db", tools=[look]) as kernel:
                agent = AutonomousAgent(kernel=kernel, identity="You read.", params={"thinking": "low"})
                result = await agent.run(run_id="r", model=model, prompt="Read.")
                assert (result.status, result.text) == ("completed", "done"), result
                runs = kernel.for_tenant()
                assert (await runs.replay("r", agent.drive)).status == "completed"
                request = await runs.render("r", "c4/model")
                kept = [part for one in request.messages for part in thoughts(one)]
                assert [data_of(part)["text"] for part in kept] == [thought] * 3
                assert all(data_of(part)["signature"] for part in kept)
                if thought:
                    assert thought in readable(request)
                    assert all(thought not in one.text for one in request.messages)
        assert strict.refusals == []
        assert len(strict.bodies) == 4
        assert all(bill.reasoning_tokens for bill in strict.bills)

    asyncio.run(scenario())


def test_reasoning_is_streamed_before_the_answer_as_its_provider_sends_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        async with OpenAIServer(StrictAnthropic(["done"])) as server:
            point_at(server, monkeypatch)
            with Kernel.open(tmp_path / "s.db") as kernel:
                agent = AutonomousAgent(kernel=kernel, params={"thinking": "low"})
                items = [item async for item in agent.stream(run_id="r", model=HAIKU, prompt="Read.")]
        pieces = [(one.reasoning, one.text) for one in items if isinstance(one, Delta)]
        assert "".join(thought for thought, _ in pieces) == "Let me think about that."
        assert "".join(text for _, text in pieces) == "done"
        assert pieces[0][0] and not any(thought and text for thought, text in pieces)

    asyncio.run(scenario())


def test_another_provider_is_not_sent_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = StrictAnthropic(script(9)), StrictOpenAIResponses(["done"])

    def route(body: dict[str, Any]) -> Any:
        return first(body) if "claude" in body["model"] else second(body)

    async def scenario() -> None:
        async with OpenAIServer(route) as server:
            point_at(server, monkeypatch)
            with Kernel.open(tmp_path / "s.db", tools=[look]) as kernel:
                async with kernel.run("r", params={"thinking": "low"}) as run:
                    talk = run.conversation("talk")
                    talk.append({"role": "user", "content": "Read."})
                    one = await run.step_model(model=HAIKU, messages=talk, tools=["look"], key="a")
                    assert one.reasoning == "Let me think about that."
                    assert one.usage.reasoning_tokens > 0
                    talk.append(one)
                    call = one.tool_calls[0]
                    talk.append(await run.step_tool("look", call.arguments, call=call))
                    two = await run.step_model(model=GPT, messages=talk, tools=["look"], key="b")
                    assert two.text == "done"
        assert (first.refusals, second.refusals) == ([], [])
        assert "Let me think" not in str(second.bodies[0]["input"])

    asyncio.run(scenario())


def thinking_reply(text: str) -> ModelReply:
    data = {"text": text, "provider": "anthropic", "signature": "sig: 4111 1111 1111 1111"}
    call = ToolCall(id="t1", name="look", arguments={"page": 1})
    parts = (
        Part(type="reasoning", data=data),
        Part(text="I look."),
        Part(type="tool_ref", data={"call": 0, "provider": "anthropic", "id": "x"}),
    )
    return ModelReply(text="I look.", tool_calls=(call,), finish_reason="tool_calls", parts=parts)


@pytest.mark.parametrize(
    ("said", "kept", "is_changed"),
    [("Page one.", "Page one.", None), ("Ask anna@example.com.", "Ask <EMAIL_", True)],
)
def test_scrubbing_leaves_signatures_alone_and_takes_them_from_what_it_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str, kept: str, is_changed: bool | None
) -> None:
    import base64
    import os

    monkeypatch.setenv("ARTELIER_VAULT_KEY", base64.b64encode(os.urandom(32)).decode())
    model = ScriptedModel([thinking_reply(said)])

    async def scenario() -> ModelReply:
        with Kernel.open(
            tmp_path / "s.db", models={"m": model}, tools=[look], policy=Policy(pii=True)
        ) as kernel:
            async with kernel.run("r") as run:
                asked = [{"role": "user", "content": "Hi"}]
                result = await run.step_model(model="m", messages=asked, tools=["look"], key="a")
            assert result.reply is not None
            return result.reply

    reply = asyncio.run(scenario())

    data = data_of(reply.parts[0])
    assert data["text"].startswith(kept) and data.get("changed") is is_changed
    assert data.get("signature") == (None if is_changed else "sig: 4111 1111 1111 1111")
    assert data_of(reply.parts[2]).get("id") == (None if is_changed else "x")
    assert message_of_reply(reply).text == "I look."


def test_a_reply_of_0_1_and_one_without_reasoning_become_the_message_they_always_were() -> None:
    plain = message_of_reply(ModelReply(text="hi"))

    assert plain == ChatMessage(role="assistant", content="hi")
