"""Fallback: a model that fails is followed by the next one, each with a manifest and a hold of its own."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from artelier import AutonomousAgent, Kernel, Policy
from artelier.errors import (
    InvalidRequest,
    ModelRefusedCall,
    ProviderUnavailable,
    TransientError,
    UnknownModel,
)
from artelier.kernel import events as ev
from artelier.testing import ManualClock, ScriptedModel
from tests.kernel.stage import events, pass_time, until

HI = [{"role": "user", "content": "hi"}]


def open_with(directory: Path, **models: ScriptedModel) -> Kernel:
    return Kernel.open(directory / "s.db", models=models, policy=Policy(backoff_s=0, attempts_max=2))


@pytest.mark.parametrize(
    ("error", "calls"), [(ProviderUnavailable("down"), 2), (ModelRefusedCall("no quota"), 1)]
)
def test_the_second_model_answers_when_the_first_one_fails_and_a_replay_calls_nothing(
    tmp_path: Path, error: Exception, calls: int
) -> None:
    first, second = ScriptedModel([error] * calls), ScriptedModel(["from b"])

    async def code(run: Any) -> str:
        result = await run.step_model(models=["a", "b"], messages=HI, key="k")
        return f"{result.key}: {result.text}"

    async def main() -> None:
        with open_with(tmp_path, a=first, b=second) as kernel:
            async with kernel.run("r") as run:
                assert await code(run) == "k/fallback-1: from b"
            runs = kernel.for_tenant()
            assert (await runs.manifest("r", "k")).model == "openai:a"
            assert (await runs.manifest("r", "k/fallback-1")).model == "openai:b"
            told = [one.decode() for one in await events(kernel, "r")]
            attempted = [one.model for one in told if isinstance(one, ev.ModelAttempted)]
            assert attempted == ["openai:a"] * (calls - 1)
            async with kernel.run("r") as run:
                assert await code(run) == "k/fallback-1: from b"

    asyncio.run(main())

    assert (len(first.requests), len(second.requests)) == (calls, 1)


def test_an_agent_goes_on_with_the_second_model_and_replays(tmp_path: Path) -> None:
    first, second = ScriptedModel([ProviderUnavailable("down")] * 2), ScriptedModel(["done"])

    async def main() -> None:
        with open_with(tmp_path, a=first, b=second) as kernel:
            agent = AutonomousAgent(kernel=kernel, identity="You answer.")
            result = await agent.run(run_id="r", models=["a", "b"], prompt="Hello?")
            assert (result.status, result.text) == ("completed", "done")
            assert (await kernel.for_tenant().replay("r", agent.drive)).status == "completed"

    asyncio.run(main())


@pytest.mark.parametrize("up", ["a", "b"])
def test_after_all_have_failed_a_retry_asks_from_the_first_one_on(tmp_path: Path, up: str) -> None:
    models = {
        name: ScriptedModel([ProviderUnavailable("down")] * (2 if name == up else 4) + ["done"])
        for name in ("a", "b")
    }

    async def main() -> None:
        with open_with(tmp_path, **models) as kernel:
            agent, desk = AutonomousAgent(kernel=kernel, identity="You answer."), kernel.for_tenant()
            failed = await agent.run(run_id="r", models=["a", "b"], prompt="Hello?")
            assert (failed.status, failed.reason) == ("failed", "provider_unavailable")
            await desk.retry("r")
            assert (await agent.resume("r")).text == "done"
            assert (await desk.replay("r", agent.drive)).status == "completed"

    asyncio.run(main())

    assert [len(one.requests) for one in models.values()] == ([3, 2] if up == "a" else [4, 3])


def test_when_all_fail_the_last_failure_is_raised(tmp_path: Path) -> None:
    models = {name: ScriptedModel([ProviderUnavailable(f"{name} is down")] * 2) for name in "ab"}

    async def main() -> None:
        with open_with(tmp_path, **models) as kernel:
            async with kernel.run("r") as run:
                with pytest.raises(TransientError, match="b is down"):
                    await run.step_model(models=["a", "b"], messages=HI)

    asyncio.run(main())


@pytest.mark.parametrize("models", [[], ["a", "openai:a"], [f"m{n}" for n in range(9)], "a"])
def test_a_list_of_models_that_is_none_is_refused(tmp_path: Path, models: Any) -> None:
    async def main() -> None:
        with open_with(tmp_path, a=ScriptedModel([])) as kernel:
            async with kernel.run("r") as run:
                with pytest.raises(InvalidRequest):
                    await run.step_model(models=models, messages=HI)

    asyncio.run(main())


def test_an_agents_fallback_that_nobody_knows_is_said_before_anything_runs(tmp_path: Path) -> None:
    model = ScriptedModel(["done"])

    async def main() -> None:
        with open_with(tmp_path, a=model) as kernel:
            agent = AutonomousAgent(kernel=kernel, identity="You answer.")
            with pytest.raises(UnknownModel):
                await agent.run(run_id="r", models=["a", "nobody:knows"], prompt="Hello?")

    asyncio.run(main())

    assert model.requests == []


def test_a_failed_attempt_is_in_the_log_while_the_next_one_waits(tmp_path: Path) -> None:
    """Who watches sees which attempt failed, and when the next one comes."""
    model = ScriptedModel([ProviderUnavailable("down"), "up again"])

    async def main() -> None:
        clock = ManualClock()
        policy = Policy(backoff_s=20, attempts_max=2)
        with Kernel.open(tmp_path / "s.db", models={"a": model}, policy=policy, clock=clock) as kernel:

            async def work() -> str:
                async with kernel.run("r") as run:
                    return (await run.step_model(model="a", messages=HI)).text

            task = asyncio.create_task(work())

            async def found() -> list[Any]:
                return [one for one in await events(kernel, "r") if one.kind == "model.attempted"]

            async def is_there() -> bool:
                return bool(await found())

            await until(is_there)
            (attempted,) = [one.decode() for one in await found()]
            assert (attempted.attempt, attempted.wait_ms, attempted.model) == (1, 20_000, "openai:a")
            assert attempted.attempts_max == policy.attempts_max
            assert not task.done()
            assert await pass_time(clock, task) == "up again"

    asyncio.run(main())
