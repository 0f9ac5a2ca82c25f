"""The price of an agent's prompts with a provider's cache, billed by a strict double of Anthropic's API."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from artelier.agents import AutonomousAgent
from artelier.app import Kernel
from artelier.context import CompactionStrategy, ContextBuilder
from artelier.models import ModelRegistry, tool_call
from artelier.testing.openai_server import OpenAIServer
from artelier.testing.providers import StrictAnthropic
from artelier.tools import tool

MODEL = "anthropic:claude-sonnet-4-6"
CALLS = 50


def bench_caching(directory: Path) -> float:
    """Return what the input of 50 calls of an agent costs, over the same without a cache."""

    @tool(side_effect=False)
    def look(page: int) -> str:
        """Read a page."""
        return f"Page {page}: " + "the quick brown fox jumps over the lazy dog. " * 60

    def changing(context: Any) -> str:
        return f"It is cycle {context.cycle}. " + "These facts hold now. " * 20

    steps = [*(tool_call("look", {"page": page}) for page in range(CALLS - 1)), "done"]
    strict = StrictAnthropic(steps)

    async def main(kernel: Kernel) -> None:
        agent = AutonomousAgent(
            kernel=kernel,
            context_builder=ContextBuilder(identity="You read pages. " * 600, extra_sections=[changing]),
            compaction=CompactionStrategy(trigger_at_messages=None),
            max_iterations=CALLS + 10,
        )
        await agent.run(run_id="cached", model=MODEL, prompt="Read all pages.")

    with OpenAIServer(strict) as server:
        url = server.base_url.removesuffix("/v1")
        registry = ModelRegistry(environ={"ANTHROPIC_API_KEY": "test", "ANTHROPIC_BASE_URL": url})
        models = {MODEL: registry.resolve(MODEL).port}
        with Kernel.open(directory / "caching.db", models=models, tools=[look]) as kernel:
            asyncio.run(main(kernel))
    assert len(strict.bills) == CALLS and not strict.refusals
    return strict.uncached_ratio
