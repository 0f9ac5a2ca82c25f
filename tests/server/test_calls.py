"""The model calls at work, over HTTP: the attempt, the time, what has come, the wait for the next attempt."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from artelier.app import Kernel
from artelier.errors import ProviderUnavailable
from artelier.kernel import Policy
from artelier.models import openai_compatible
from artelier.ports.model import FREE, ModelReply, ModelRequest
from artelier.server.wire.runs import calls_at_work
from artelier.testing import ManualClock
from artelier.testing.faults import Slow
from artelier.testing.openai_server import OpenAIServer
from tests.kernel.stage import pass_time
from tests.server.house import assert_fault, house, until

HI = [{"role": "user", "content": "hi"}]


class Busy:
    """A model that is out of reach once, and then answers."""

    price = FREE

    def __init__(self) -> None:
        self.calls = 0

    async def complete(self, request: ModelRequest, /) -> ModelReply:
        self.calls += 1
        if self.calls == 1:
            raise ProviderUnavailable("down", retry_after_s=30)
        return ModelReply(text="up")


def test_a_streaming_call_shows_its_signs_of_life_and_is_gone_at_its_end(tmp_path: Path) -> None:
    async def scenario() -> None:
        words = Slow(step="word " * 60, between_s=0.02)
        async with OpenAIServer([words]) as server:
            port = openai_compatible(server.base_url)
            with Kernel.open(tmp_path / "own.db", models={"m": port}) as kernel:
                async with kernel.run("r") as run:
                    asking = asyncio.ensure_future(run.step_model(model="m", messages=HI, key="k"))
                    services = kernel.for_tenant().services

                    def seen(now_s: float = 0.0) -> Any:
                        return calls_at_work(services, "default", "r", now_s=now_s)

                    await until(lambda: bool(seen()) and seen()[0].output_tokens > 0)
                    call = seen()[0]
                    last_at_s = services.active["default", "r"].sendings["k"].last_at_s
                    assert last_at_s is not None
                    later = seen(last_at_s + 7)[0]
                    await asking
                    assert seen() == []
                assert (call.key, call.attempt, call.retry_in_s) == ("k", 1, None)
                assert later.silent_s == 7.0 <= later.elapsed_s
                assert later.first_piece_s is not None

    asyncio.run(scenario())


def test_a_call_that_waits_for_its_next_attempt_counts_down(tmp_path: Path) -> None:
    clock = ManualClock()

    async def scenario() -> None:
        with Kernel.open(
            tmp_path / "s.db", models={"m": Busy()}, clock=clock, policy=Policy(attempts_max=2)
        ) as kernel:
            async with kernel.run("r") as run:
                asking = asyncio.ensure_future(run.step_model(model="m", messages=HI, key="k"))
                services = kernel.for_tenant().services
                await until(
                    lambda: any(c.retry_in_s for c in calls_at_work(services, "default", "r", now_s=0))
                )
                (call,) = calls_at_work(services, "default", "r", now_s=0)
                await pass_time(clock, asking)
            assert (call.attempt, call.retry_in_s, call.silent_s) == (1, 30.0, None)

    asyncio.run(scenario())


def test_the_route_answers_for_runs_of_the_tenant_alone(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with house(tmp_path, "hello") as home:
            async with home.kernel.run("r") as run:
                await run.step_model(model="m", messages=HI)
            found = await home.client.get("/api/v1/runs/r/calls")
            assert (found.status_code, found.json()) == (200, {"items": [], "next": None})
            assert_fault(await home.client.get("/api/v1/runs/other/calls"), 404, "not_found")

    asyncio.run(scenario())
