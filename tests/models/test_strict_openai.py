"""An agent against strict doubles of OpenAI's two APIs: what it sends is taken, cached and billed."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from openai.types.chat import ChatCompletionMessageParam
from openai.types.responses import ResponseInputItemParam
from pydantic import TypeAdapter

from artelier import AutonomousAgent, CompactionStrategy, ContextBuilder, Kernel, tool
from artelier.models.vendors import VENDORS, Endpoint
from artelier.testing import tool_call
from artelier.testing.openai_server import OpenAIServer
from artelier.testing.providers import StrictOpenAIChat, StrictOpenAIResponses, StrictProvider


@tool(side_effect=False)
def look(page: int) -> str:
    """Read a page."""
    return f"Page {page}: " + "the quick brown fox jumps over the lazy dog. " * 60


def run_agent(
    directory: Path, monkeypatch: pytest.MonkeyPatch, strict: StrictProvider, *, model: str
) -> list[Any]:
    def clock(context: Any) -> str:
        return f"It is cycle {context.cycle}. " + "These facts hold now. " * 20

    async def main(kernel: Kernel) -> list[Any]:
        agent = AutonomousAgent(
            kernel=kernel,
            context_builder=ContextBuilder(identity="You read pages. " * 600, extra_sections=[clock]),
            compaction=CompactionStrategy(trigger_at_messages=None),
        )
        result = await agent.run(run_id="one", model=model, prompt="Read all pages.")
        assert (result.status, strict.refusals) == ("completed", [])
        runs = kernel.for_tenant()
        steps = [step["key"] for step in await runs.steps("one") if step["kind"] == "model"]
        return [await runs.cache_forecast("one", key) for key in steps]

    with OpenAIServer(strict) as server:
        monkeypatch.setenv("OPENAI_API_KEY", "test")
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        with Kernel.open(directory / "s.db", tools=[look]) as kernel:
            return asyncio.run(main(kernel))


def steps(count: int) -> list[Any]:
    return [*(tool_call("look", {"page": number}) for number in range(count - 1)), "done"]


@pytest.mark.parametrize(
    ("model", "double", "messages", "form"),
    [
        ("openai-chat:gpt-4o", StrictOpenAIChat, "messages", ChatCompletionMessageParam),
        ("openai-chat:gpt-5.6-sol", StrictOpenAIChat, "messages", ChatCompletionMessageParam),
        ("openai-responses:gpt-5.6-sol", StrictOpenAIResponses, "input", ResponseInputItemParam),
    ],
)
def test_an_agent_reads_its_prompts_from_the_cache_and_foretells_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, model: str, double: Any, messages: str, form: Any
):
    strict = double(steps(8))

    forecasts = run_agent(tmp_path, monkeypatch, strict, model=model)

    assert len(strict.bills) == 8
    assert strict.bills[-1].read_tokens > 0.8 * strict.bills[-1].input_tokens
    for forecast, bill in list(zip(forecasts, strict.bills, strict=True))[2:]:
        assert forecast.billed.read_tokens == bill.read_tokens
        assert forecast.expected.read_tokens == pytest.approx(bill.read_tokens, rel=0.05)
    for body in strict.bodies:
        for item in body[messages]:
            TypeAdapter(form).validate_python(item)


def test_openai_means_the_responses_api_and_another_server_chat_completions():
    here = Endpoint(provider="openai", api_key="k", base_url="https://api.openai.com/v1")
    there = Endpoint(provider="openai", api_key="k", base_url="http://localhost:1/v1", is_custom=True)

    async def names() -> list[str]:
        import httpx2

        async with httpx2.AsyncClient() as http:
            build = VENDORS["openai"].build
            return [type(build("gpt-5.6-sol", endpoint, http)).__name__ for endpoint in (here, there)]

    assert asyncio.run(names()) == ["OpenAIResponsesModel", "OpenAIChatModel"]


@pytest.mark.parametrize("double", [StrictOpenAIChat, StrictOpenAIResponses])
def test_a_result_without_its_call_is_refused(double: Any):
    bodies = {
        StrictOpenAIChat: {"messages": [{"role": "tool", "tool_call_id": "x", "content": "y"}]},
        StrictOpenAIResponses: {"input": [{"type": "function_call_output", "call_id": "x", "output": "y"}]},
    }
    strict = double(["hello"])

    strict({"model": "gpt-4o", **bodies[double]})

    assert len(strict.refusals) == 1 and strict.bills == []
