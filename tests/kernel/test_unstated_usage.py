"""A reply whose provider does not say what it used is no free one: it is billed by estimate, and marked."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from artelier import Kernel, Limits, ModelReply, ModelRequest, Run, Tenant
from artelier.ports.model import Delta, ToolCall, Usage
from artelier.testing import ManualClock
from artelier.testing.openai_server import OpenAIServer
from artelier.testing.providers.bills import server_sent
from artelier.tokens import estimate_tokens
from tests.kernel.stage import PRICE, assert_conserved, drive, events, open_kernel, play, user
from tests.models.wire_requests import port

TEXT = "a reply of some length that somebody has to pay for"


class Silent:
    """A port of one's own that answers and says nothing of its usage, or not all."""

    price = PRICE

    def __init__(self, reply: ModelReply) -> None:
        self.reply = reply
        self.requests: list[ModelRequest] = []

    async def complete(self, request: ModelRequest, /) -> ModelReply:
        self.requests.append(request)
        return self.reply


class Streaming(Silent):
    async def stream(self, request: ModelRequest, /) -> AsyncIterator[Delta | ModelReply]:
        self.requests.append(request)
        yield Delta(text=self.reply.text)
        yield self.reply


async def _ends(kernel: Kernel, tenant: str = "acme") -> list[dict[str, Any]]:
    found = await events(kernel, tenant=tenant)
    return [event.plain() for event in found if event.kind == "model.completed"]


CALL = ToolCall(id="1", name="look", arguments={"at": "moon"})


@pytest.mark.parametrize(
    ("reply", "written"),
    [
        (ModelReply(text=TEXT), estimate_tokens(TEXT)),
        (ModelReply(tool_calls=(CALL,)), estimate_tokens(CALL.canonical())),
        (ModelReply(output={"n": 1}), estimate_tokens('{"n":1}')),
        (ModelReply(text=TEXT * 100), 100),  # no more than was asked for
        (ModelReply(), 0),
    ],
)
def test_a_reply_without_usage_is_billed_by_estimate_and_replays(
    tmp_path: Path, reply: ModelReply, written: int
) -> None:
    async def code(run: Run) -> int:
        return (await _asked(run)).usage.output_tokens

    async def scenario() -> None:
        model = Silent(reply)
        with open_kernel(tmp_path, model) as kernel:
            runs = kernel.for_tenant(Tenant("acme", budget_usd="5.00"))
            assert await drive(runs, code) == "completed"
            read = estimate_tokens(model.requests[0].canonical())
            (end,) = await _ends(kernel)
            assert (end["input_tokens"], end.get("output_tokens", 0)) == (read, written)
            assert (end["cost"], end["estimated"]) == (read + 2 * written, True)
            assert (await assert_conserved(kernel, "acme"))["spent"] == end["cost"]
            (step,) = (await runs.cost("r"))["steps"]
            assert (step["cost_microusd"], step["estimated"]) == (end["cost"], True)
            assert (await runs.replay("r", code)).result == written

    play(scenario())


async def _asked(run: Run) -> Any:
    return await run.step_model(model="m", messages=[user("x")], max_output_tokens=100)


@pytest.mark.parametrize(
    ("usage", "estimated"),
    [
        (Usage(input_tokens=7), True),
        (Usage(cached_input_tokens=7), True),
        (Usage(output_tokens=5), False),
        (Usage(input_tokens=7, output_tokens=5), False),
    ],
)
def test_what_a_provider_does_say_counts_as_it_says(tmp_path: Path, usage: Usage, estimated: bool) -> None:
    """Zero tokens for a text are none that somebody has counted."""

    async def scenario() -> None:
        with open_kernel(tmp_path, Silent(ModelReply(text=TEXT, usage=usage))) as kernel:
            runs = kernel.for_tenant(Tenant("acme", budget_usd="5.00"))
            assert await drive(runs, _text) == "completed"
            (end,) = await _ends(kernel)
            written = usage.output_tokens or estimate_tokens(TEXT)
            assert end["cost"] == usage.prompt_tokens + 2 * written
            assert end.get("estimated", False) is estimated

    play(scenario())


async def _text(run: Run) -> str:
    return (await _asked(run)).text


def test_a_stream_without_usage_is_billed_by_estimate(tmp_path: Path) -> None:
    async def code(run: Run) -> None:
        async for _ in run.stream_model(model="m", messages=[user("x")], max_output_tokens=100):
            pass

    async def scenario() -> None:
        model = Streaming(ModelReply(text=TEXT))
        with open_kernel(tmp_path, model) as kernel:
            assert await drive(kernel.for_tenant("acme"), code) == "completed"
            (end,) = await _ends(kernel)
            read = estimate_tokens(model.requests[0].canonical())
            assert (end["cost"], end["estimated"]) == (read + 2 * estimate_tokens(TEXT), True)

    play(scenario())


def test_tokens_that_nobody_states_count_towards_a_limit(tmp_path: Path) -> None:
    async def code(run: Run) -> None:
        for _ in range(1000):
            await _asked(run)

    async def scenario() -> None:
        model = Silent(ModelReply(text=TEXT))
        with open_kernel(tmp_path, model, clock=ManualClock()) as kernel:
            runs = kernel.for_tenant("acme")
            assert await drive(runs, code, limits=Limits(tokens=5_000)) == "budget_exhausted"
            assert len(model.requests) < 1000

    play(scenario())


def test_an_openai_server_that_reports_no_usage_is_marked(tmp_path: Path) -> None:
    piece = {"index": 0, "finish_reason": "stop", "delta": {"role": "assistant", "content": TEXT}}
    said = {"id": "1", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [piece]}
    silent = server_sent([(None, said), (None, "[DONE]")])

    async def scenario() -> None:
        async with OpenAIServer([silent, "good day"]) as server:
            models = {"m": port(server, "openai:gpt-4o-mini")}
            with Kernel.open(tmp_path / "s.db", models=models, environ={}) as kernel:
                runs = kernel.for_tenant(Tenant("acme", allow_unknown_price=True))
                for _ in range(2):
                    await drive(runs, _twice)
                unstated, stated = await _ends(kernel)
                assert unstated["estimated"] and unstated["output_tokens"] == estimate_tokens(TEXT)
                assert "estimated" not in stated

    async def _twice(run: Run) -> None:
        await _asked(run)
        await _asked(run)

    play(scenario())
