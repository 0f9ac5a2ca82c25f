"""Prompts are cached where a provider bills by prefix: a double refuses and bills as the real API."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from artelier import AutonomousAgent, CompactionStrategy, ContextBuilder, Kernel, tool
from artelier.cli import main
from artelier.testing import tool_call
from artelier.testing.openai_server import OpenAIServer
from artelier.testing.providers import StrictAnthropic

MODEL = "anthropic:claude-sonnet-4-6"


@tool(side_effect=False)
def look(page: int) -> str:
    """Read a page."""
    return f"Page {page}: " + "the quick brown fox jumps over the lazy dog. " * 60


def pages(count: int) -> Callable[[dict[str, Any]], Any]:
    """A script that reads so many pages, one a call, and then is done."""
    state = {"page": 0}

    def answer(body: dict[str, Any]) -> Any:
        state["page"] += 1
        return "done" if state["page"] >= count else tool_call("look", {"page": state["page"]})

    return answer


def run_agent(
    directory: Path,
    monkeypatch: pytest.MonkeyPatch,
    strict: StrictAnthropic,
    *,
    prompt: str = "Read all pages.",
) -> Any:
    """One agent with a section that changes in each cycle; what it cost is in the double."""

    def clock(context: Any) -> str:
        return f"It is cycle {context.cycle}. " + "These facts hold now. " * 20

    builder = ContextBuilder(identity="You read pages. " * 600, extra_sections=[clock])

    async def main(kernel: Kernel) -> Any:
        agent = AutonomousAgent(
            kernel=kernel,
            context_builder=builder,
            compaction=CompactionStrategy(trigger_at_messages=None),
            max_iterations=60,
        )
        return await agent.run(run_id="one", model=MODEL, prompt=prompt)

    with OpenAIServer(strict) as server:
        monkeypatch.setenv("ANTHROPIC_API_KEY", "test")
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.base_url.removesuffix("/v1"))
        with Kernel.open(directory / "s.db", tools=[look]) as kernel:
            return asyncio.run(main(kernel))


def test_an_agent_of_fifty_calls_pays_a_fifth_of_the_uncached_input_at_most(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    strict = StrictAnthropic(pages(50))

    result = run_agent(tmp_path, monkeypatch, strict)

    assert (result.status, result.reason) == ("completed", "")
    assert strict.refusals == []
    assert len(strict.bills) == 50
    assert strict.uncached_ratio <= 0.2


def test_the_tail_of_a_prompt_is_written_to_no_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    strict = StrictAnthropic(pages(4))

    run_agent(tmp_path, monkeypatch, strict)

    for body in strict.bodies:
        *_, marked, tail = body["messages"][-1]["content"]
        assert marked["cache_control"]["type"] == "ephemeral"
        assert tail["text"].startswith("It is cycle") and "cache_control" not in tail
    assert strict.bills[3].written_tokens < strict.bills[3].read_tokens


def test_a_call_with_more_results_than_the_look_back_still_reads_what_was_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Thirty calls at once are sixty blocks: three times what Anthropic looks back from a mark."""
    steps: list[Any] = [
        tool_call("look", {"page": 1}),
        [tool_call("look", {"page": n}) for n in range(30)],
        "done",
    ]
    strict = StrictAnthropic(steps)

    run_agent(tmp_path, monkeypatch, strict)

    before, after = strict.bills[1], strict.bills[2]
    assert strict.refusals == []
    assert after.read_tokens == before.read_tokens + before.written_tokens


def test_a_question_that_is_asked_once_is_not_written_to_a_cache(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    strict = StrictAnthropic(["hello"])

    async def ask(kernel: Kernel) -> None:
        messages = [{"role": "system", "content": "Be brief. " * 1000}, {"role": "user", "content": "Hello?"}]
        async with kernel.run("one") as run:
            await run.step_model(model=MODEL, messages=messages)

    with OpenAIServer(strict) as server:
        monkeypatch.setenv("ANTHROPIC_API_KEY", "test")
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.base_url.removesuffix("/v1"))
        with Kernel.open(tmp_path / "s.db") as kernel:
            asyncio.run(ask(kernel))

    assert strict.bills[0].written_tokens == 0


def input_cost(use: Any) -> float:
    """The price of a prompt in that of a fresh token, at Anthropic's rates."""
    return use.fresh_tokens + 0.1 * use.read_tokens + 1.25 * use.written_tokens


def test_a_manifest_foretells_what_a_call_reads_and_writes_within_five_percent_of_the_bill(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    strict = StrictAnthropic(pages(12))
    run_agent(tmp_path, monkeypatch, strict)

    async def forecasts(kernel: Kernel) -> list[Any]:
        runs = kernel.for_tenant()
        steps = [step["key"] for step in await runs.steps("one") if step["kind"] == "model"]
        return [await runs.cache_forecast("one", key) for key in steps]

    with Kernel.open(tmp_path / "s.db", tools=[look]) as kernel:
        found = asyncio.run(forecasts(kernel))

    assert len(found) == 12
    for forecast, bill in list(zip(found, strict.bills, strict=True))[1:]:
        assert forecast.billed.read_tokens == bill.read_tokens > 0
        assert forecast.expected.read_tokens == pytest.approx(bill.read_tokens, rel=0.05)
        assert forecast.expected.written_tokens == pytest.approx(bill.written_tokens, rel=0.05)
        assert input_cost(forecast.expected) == pytest.approx(input_cost(bill), rel=0.05)

    main(["--db", str(tmp_path / "s.db"), "manifest", "show", "one:c3/model"])
    shown = capsys.readouterr().out
    assert "expected in the provider's cache" in shown and "billed by the provider" in shown
