"""Every attempt is billed, whatever came of it: at the usage that is known, else at its input's estimate."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from artelier import Kernel, ModelReply, ModelRequest, Run, Tenant
from artelier.errors import ArtelierError, ModelRefusedCall, ModelTimeout, RateLimited
from artelier.ports.model import Delta, Part, Usage
from artelier.testing import ManualClock, ScriptedModel
from artelier.tokens import estimate_tokens
from tests.kernel.stage import (
    ACME,
    PRICE,
    GateModel,
    ask,
    assert_conserved,
    billed,
    drive,
    events,
    open_kernel,
    play,
    user,
)


async def bills(kernel: Kernel, run_id: str = "r", tenant: str = "acme") -> list[dict[str, Any]]:
    """The events of a run that billed something, as `{kind, cost, ...}`."""
    return [
        {"kind": event.kind, **event.plain()}
        for event in await events(kernel, run_id, tenant=tenant)
        if "cost" in event.plain()
    ]


class Broken:
    """A provider that is broken in one way, for ever."""

    price = PRICE

    def __init__(self, reply: Any = None) -> None:
        self.reply = reply
        self.requests: list[ModelRequest] = []

    async def complete(self, request: ModelRequest, /) -> Any:
        self.requests.append(request)
        if isinstance(self.reply, Exception):
            raise self.reply
        if self.reply is None:
            await asyncio.Event().wait()
        return self.reply


async def call(run: Run) -> str:
    return await ask(run, "What is the weather in Paris?", timeout_s=0.01)


@pytest.mark.parametrize(
    ("reply", "code"),
    [
        (None, "model_timeout"),
        ("no reply", "model_reply_broken"),
        (KeyError("choices"), "KeyError"),
        (ModelTimeout("late"), "model_timeout"),
        (ModelReply(text="a\ud800", usage=Usage(input_tokens=70, output_tokens=5)), "known"),
    ],
    ids=["silent", "broken", "raises", "late", "known_usage"],
)
def test_calls_that_time_out_or_break_are_billed(tmp_path: Path, reply: Any, code: str) -> None:
    async def scenario() -> None:
        model = Broken(reply)
        with open_kernel(tmp_path, model) as kernel:
            runs = kernel.for_tenant(ACME)
            with suppress(KeyError):
                await drive(runs, call)
            found = await bills(kernel)
            estimate = estimate_tokens(model.requests[0].canonical())
            each = 80 if code == "known" else estimate
            assert [one["cost"] for one in found] == [each] * len(model.requests)
            assert all(one.get("estimated", False) == (code != "known") for one in found)
            assert found[-1]["kind"] == "model.failed"
            assert len(found) == (1 if code == "KeyError" else 4)
            spent = (await assert_conserved(kernel, "acme"))["spent"]
            assert spent == each * len(model.requests) == (await runs.cost("r"))["cost_microusd"]
            assert kernel.verify().ok

    play(scenario())


@pytest.mark.parametrize("error", [RateLimited("429"), ModelRefusedCall("bad key")])
def test_what_a_provider_turns_away_is_not_billed(tmp_path: Path, error: ArtelierError) -> None:
    async def scenario() -> None:
        with open_kernel(tmp_path, Broken(error)) as kernel:
            await drive(kernel.for_tenant(ACME), call)
            assert await bills(kernel) == []
            assert (await assert_conserved(kernel, "acme"))["tenant"] == 5_000_000

    play(scenario())


def test_four_calls_that_the_program_cancels_are_billed(tmp_path: Path) -> None:
    async def scenario() -> None:
        gate = GateModel()
        gate.price = PRICE
        with open_kernel(tmp_path, gate) as kernel:
            runs = kernel.for_tenant(ACME)

            async def code(run: Run) -> str:
                for number in range(4):
                    work = asyncio.create_task(ask(run, f"x{number}", key=f"k{number}"))
                    await gate.asked(f"x{number}")
                    work.cancel()
                    await asyncio.wait((work,))
                return "gave up"

            assert await drive(runs, code) == "completed"
            estimates = [estimate_tokens(request.canonical()) for request in gate.requests]
            assert len(estimates) == 4
            assert (await assert_conserved(kernel, "acme"))["spent"] == sum(estimates)
            steps = (await runs.cost("r"))["steps"]
            assert [(one["cost_microusd"], one["estimated"]) for one in steps] == [
                (estimate, True) for estimate in estimates
            ]
            assert kernel.verify().ok

    play(scenario())


def test_a_hold_is_topped_up_before_a_retry_or_the_retry_waits_for_a_higher_budget(tmp_path: Path) -> None:
    steps = [ModelTimeout("late"), ModelTimeout("late"), billed("at last", inputs=10, outputs=10)]

    async def small(run: Run) -> str:
        return await ask(run, "x", max_output_tokens=1_024)

    async def scenario() -> None:
        model = ScriptedModel(steps, price=PRICE)
        with open_kernel(tmp_path, model) as kernel:
            bound = await _bound(kernel)
            runs = kernel.for_tenant(Tenant("t", budget_usd=f"{(bound + 20) / 1_000_000:.6f}"))
            assert await drive(runs, small) == "budget_exhausted"
            spent = (await assert_conserved(kernel, "t"))["spent"]
            (found,) = await bills(kernel, tenant="t")
            assert (found["kind"], found["code"]) == ("model.failed", "model_timeout")
            assert spent == found["cost"] > 0

            await kernel.tenants.update("t", budget_usd="1.00")
            assert await drive(kernel.for_tenant("t"), small) == "completed"
            assert (await assert_conserved(kernel, "t"))["spent"] == 2 * spent + 30
        model.assert_done()

    async def _bound(kernel: Kernel) -> int:
        """What the call holds, as another tenant is shown it."""
        probe = ScriptedModel(["x"], price=PRICE)
        with open_kernel(tmp_path / "probe", probe) as other:
            await drive(other.for_tenant(ACME), small)
            (asked,) = [e for e in await events(other, tenant="acme") if e.kind == "model.requested"]
            return asked.plain()["postings"][0][3]

    (tmp_path / "probe").mkdir()
    play(scenario())


def test_usage_beyond_anything_possible_is_billed_and_marked(tmp_path: Path) -> None:
    async def scenario() -> None:
        reply = ModelReply(text="x", usage=Usage(input_tokens=2**70, output_tokens=3))
        with open_kernel(tmp_path, Broken(reply)) as kernel:
            runs = kernel.for_tenant(ACME)
            assert await drive(runs, call) == "completed"
            (found,) = await bills(kernel)
            assert (found["cost"], found["suspicious"]) == (10**12 + 6, True)
            assert await drive(runs, call, "s") == "budget_exhausted"
            await assert_conserved(kernel, "acme")
            assert kernel.verify().ok

    play(scenario())


@pytest.mark.parametrize(
    ("usage", "suspicious"),
    [
        (Usage(input_tokens=500, output_tokens=1000), False),
        (Usage(input_tokens=500, output_tokens=1001), True),
        (Usage(input_tokens=10**9, output_tokens=1), True),
    ],
)
def test_ten_times_more_than_the_request_allows_is_billed_as_claimed_and_marked(
    tmp_path: Path, usage: Usage, suspicious: bool
) -> None:
    async def scenario() -> None:
        with open_kernel(tmp_path, Broken(ModelReply(text="x", usage=usage))) as kernel:
            await drive(kernel.for_tenant(ACME), lambda run: ask(run, "x", max_output_tokens=100))
            (found,) = await bills(kernel)
            assert found["cost"] == usage.input_tokens + 2 * usage.output_tokens
            assert found.get("suspicious", False) is suspicious

    play(scenario())


@pytest.mark.parametrize(
    "usage", [Usage(cached_input_tokens=10**13), Usage(input_tokens=1, cache_write_input_tokens=10**13)]
)
def test_cached_tokens_beyond_the_input_are_billed_up_to_the_bound_and_marked(
    tmp_path: Path, usage: Usage
) -> None:
    async def scenario() -> None:
        with open_kernel(tmp_path, Broken(ModelReply(usage=usage))) as kernel:
            await drive(kernel.for_tenant(ACME), lambda run: ask(run, "x", max_output_tokens=100))
            (found,) = await bills(kernel)
            assert (found["cost"], found["suspicious"]) == (10**12, True)

    play(scenario())


def test_the_bytes_of_a_picture_say_nothing_of_its_tokens(tmp_path: Path) -> None:
    picture = Part(type="image", data={"url": "https://example.com/a.png"})
    message = {"role": "user", "content": [{"type": "text", "text": "Look."}, picture]}

    async def scenario() -> None:
        usage = Usage(input_tokens=100_000, output_tokens=1)
        with open_kernel(tmp_path, Broken(ModelReply(text="x", usage=usage))) as kernel:

            async def code(run: Run) -> str:
                return (await run.step_model(model="m", messages=[message])).text

            assert await drive(kernel.for_tenant(ACME), code) == "completed"
            (found,) = await bills(kernel)
            assert (found["cost"], "suspicious" in found) == (100_002, False)

    play(scenario())


class Pieces:
    """A stream of given pieces, which ends with its reply or an error."""

    price = PRICE

    def __init__(self, pieces: list[str], end: Exception | None = None) -> None:
        self.pieces = pieces
        self.end = end
        self.sent = 0

    async def complete(self, request: ModelRequest, /) -> ModelReply:
        raise AssertionError("streamed")

    async def stream(self, request: ModelRequest, /) -> AsyncIterator[Delta | ModelReply]:
        for piece in self.pieces:
            self.sent += 1
            yield Delta(text=piece)
        if self.end is not None:
            raise self.end
        yield billed("".join(self.pieces))


async def streamed(run: Run) -> str:
    items = run.stream_model(model="m", messages=[user("x")], max_output_tokens=100)
    whole = [item async for item in items][-1]
    return getattr(whole, "finish_reason", "")


@pytest.mark.parametrize(
    ("pieces", "sent", "reason"),
    [(list("a" * 390), 390, "stop"), (["a" * 400] * 50, 2, "cut"), (["word "] * 1_000, 105, "cut")],
    ids=["letters", "pages", "words"],
)
def test_a_stream_is_cut_by_tokens_not_by_pieces(
    tmp_path: Path, pieces: list[str], sent: int, reason: str
) -> None:
    async def scenario() -> None:
        model = Pieces(pieces)
        with open_kernel(tmp_path, model) as kernel:
            runs = kernel.for_tenant(ACME)
            async with runs.run("r") as run:
                assert await streamed(run) == reason
            assert model.sent == sent
            (found,) = await bills(kernel)
            assert found.get("estimated", False) is (reason == "cut")
            await assert_conserved(kernel, "acme")

    play(scenario())


def test_a_stream_that_breaks_off_is_billed_for_its_input_and_for_what_came(tmp_path: Path) -> None:
    async def scenario() -> None:
        with open_kernel(tmp_path, Pieces(["a" * 80], RateLimited("later"))) as kernel:
            assert await drive(kernel.for_tenant(ACME), streamed) == "failed: rate_limited"
            (found,) = await bills(kernel)
            (asked,) = [e for e in await events(kernel, tenant="acme") if e.kind == "model.requested"]
            assert found["estimated"] is True
            assert found["cost"] == asked.plain()["input_cost"] + 2 * 20
            await assert_conserved(kernel, "acme")

    play(scenario())


def test_tokens_of_a_call_that_timed_out_count_under_a_limit_of_tokens(tmp_path: Path) -> None:
    from artelier.kernel import Limits

    async def scenario() -> None:
        model = Broken()
        with open_kernel(tmp_path, model) as kernel:
            runs = kernel.for_tenant(ACME)
            await drive(runs, call, limits=Limits(tokens=100_000))
            rows = await kernel.store.query(
                "SELECT reserved, used FROM limits WHERE scope = 'run:r' AND unit = 'tokens'"
            )
            estimate = estimate_tokens(model.requests[0].canonical())
            assert rows == [(0, 4 * estimate)]

    play(scenario())


def test_a_call_whose_process_died_is_billed_when_it_is_asked_again(tmp_path: Path) -> None:
    from tests.kernel.crashes import Deaths
    from tests.kernel.stage import World

    async def scenario() -> None:
        deaths = Deaths(tmp_path / "s.db", World(), skip=("commit.before", "commit.after"))
        model, clock = ScriptedModel(lambda _: billed("a"), price=PRICE), ManualClock()
        with open_kernel(tmp_path, model, fault=deaths, clock=clock) as kernel:
            await drive(kernel.for_tenant(ACME), call)
            assert [one["cost"] for one in await bills(kernel)] == [30]
        dead = next(d.path for d in deaths.found if d.point == "model.requested")
        clock.advance(60)
        with Kernel.open(dead, models=model, clock=clock) as kernel:
            assert await drive(kernel.for_tenant(ACME), call) == "completed"
            lost, reply = await bills(kernel)
            assert (lost["kind"], lost["code"], lost["estimated"]) == ("model.attempted", "interrupted", True)
            assert lost["cost"] == estimate_tokens(model.requests[0].canonical())
            assert reply["cost"] == 30
            found = await assert_conserved(kernel, "acme")
            assert found["spent"] == lost["cost"] + 30
            (told,) = (await kernel.for_tenant(ACME).cost("r"))["steps"]
            assert (told["cost_microusd"], told["estimated"]) == (found["spent"], True)
            assert kernel.verify().ok

    play(scenario())


def test_costs_of_a_run_say_what_is_an_estimate_and_what_is_suspicious(tmp_path: Path) -> None:
    replies = [ModelTimeout("late"), billed("a"), *[ModelTimeout("late")] * 4, billed("c", outputs=50_000)]

    async def code(run: Run) -> None:
        await ask(run, "a", max_output_tokens=100)
        with suppress(ModelTimeout):
            await ask(run, "b", max_output_tokens=100)
        await ask(run, "c", max_output_tokens=100)

    async def scenario() -> None:
        with open_kernel(tmp_path, ScriptedModel(replies, price=PRICE)) as kernel:
            runs = kernel.for_tenant(ACME)
            assert await drive(runs, code) == "completed"
            told = await runs.cost("r")
            first, second, third = told["steps"]
            attempt = (await bills(kernel))[0]["cost"]
            assert (first["cost_microusd"], first["estimated"]) == (attempt + 30, True)
            assert (second["cost_microusd"], second["estimated"]) == (4 * attempt, True)
            assert (third["cost_microusd"], third["suspicious"]) == (100_010, True)
            assert told["cost_microusd"] == sum(step["cost_microusd"] for step in told["steps"])

    play(scenario())
