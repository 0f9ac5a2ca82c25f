"""Rate limits: how fast providers are asked, over runs, tenants and processes; in virtual time."""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from collections.abc import Awaitable, Sequence
from pathlib import Path
from typing import Any

import pytest

from artelier import Kernel, ModelReply, ModelRequest, Policy, Price, Rate, RunSuspended, Tenant
from artelier.errors import InvalidRequest, LimitReached, NotGranted, RateLimited, RunStopped
from artelier.kernel import Limits
from artelier.kernel.queries.reports import RunDetail
from artelier.log import Batch
from artelier.ports.model import Usage
from artelier.testing import ManualClock
from tests.kernel.stage import PRICE, ask, assert_conserved, balances, last, play, user

MINUTE_US = 60_000_000


class Watched:
    """A model that notes when it was called and by what text."""

    def __init__(self, clock: ManualClock, *, price: Price | None = None, tokens: int = 20) -> None:
        self.price = price or Price()
        self.calls: list[tuple[int, str]] = []
        self.refusals: list[RateLimited] = []
        self._clock = clock
        self._tokens = tokens

    @property
    def texts(self) -> list[str]:
        return [text for _, text in self.calls]

    def most_in_a_minute(self) -> int:
        times = sorted(at for at, _ in self.calls)
        return max(sum(at <= one < at + MINUTE_US for one in times) for at in times)

    async def complete(self, request: ModelRequest, /) -> ModelReply:
        self.calls.append((self._clock.now_us(), last(request)))
        if self.refusals:
            raise self.refusals.pop(0)
        await asyncio.sleep(0)
        usage = Usage(input_tokens=self._tokens // 2, output_tokens=self._tokens - self._tokens // 2)
        return ModelReply(text=f"re: {last(request)}", usage=usage)


def opened(
    path: Path, clock: ManualClock, model: Any, *, rates: dict[str, Rate] | None = None, **policy: Any
) -> Kernel:
    return Kernel.open(
        path / "state.db", models=model, clock=clock, environ={}, policy=Policy(rates=rates or {}, **policy)
    )


async def in_virtual_time(clock: ManualClock, work: Sequence[Awaitable[Any]], *kernels: Kernel) -> list[Any]:
    """Run everything to its end; time moves only when nothing but time is waited for."""
    tasks = [asyncio.ensure_future(one) for one in work]
    before: Any = None
    still = 0
    while not all(task.done() for task in tasks):
        now = [await _state(kernel) for kernel in kernels]
        still = still + 1 if now == before else 0
        before = now
        if still >= 3:
            clock.advance_to_next()
            still = 0
    return [task.exception() or task.result() for task in tasks]


async def _state(kernel: Kernel) -> Any:
    """What is durable, after all that was on its way to the writer."""
    for _ in range(20):
        await asyncio.sleep(0)
    await kernel.store.append(Batch())
    for _ in range(20):
        await asyncio.sleep(0)
    position, _ = await kernel.store.root()
    return position, await kernel.store.query("SELECT scope, unit, at_us, used FROM rates")


async def one(kernel: Kernel, run_id: str, *texts: str, tenant: Any = None, **call: Any) -> str:
    params = {"max_output_tokens": 100, **call}
    async with kernel.run(run_id, tenant=tenant, on_wait="suspend") as run:
        for text in texts:
            await ask(run, text, **params)
    return "completed"


@pytest.mark.parametrize("name", ["openai", "*", "openai:m*", "m"])
def test_no_minute_holds_more_requests_than_the_rate(tmp_path: Path, name: str) -> None:
    clock = ManualClock()
    model = Watched(clock)

    async def scenario() -> None:
        with opened(tmp_path, clock, model, rates={name: Rate(requests=5)}) as kernel:
            runs = [one(kernel, f"r{n}", f"m{n}") for n in range(17)]
            assert await in_virtual_time(clock, runs, kernel) == ["completed"] * 17

    play(scenario())

    assert len(model.calls) == 17
    assert model.most_in_a_minute() == 5


def test_children_under_a_rate_and_a_budget_pass_neither_and_none_starves(tmp_path: Path) -> None:
    clock = ManualClock()
    model = Watched(clock, price=PRICE)
    acme = Tenant("acme", budget_usd="0.004")

    async def scenario() -> None:
        with opened(tmp_path, clock, model, rates={"*": Rate(requests=10, tokens=20_000)}) as kernel:
            children = [one(kernel, f"c{n}", f"child {n}", tenant=acme) for n in range(64)]
            ended = await in_virtual_time(clock, children, kernel)
            assert ended == ["completed"] * 64
            spent = (await balances(kernel, "acme"))["spent"]
            assert spent == 64 * 30 <= 4_000
            await assert_conserved(kernel, "acme")

    play(scenario(), within_s=120)

    assert Counter(model.texts) == Counter(f"child {n}" for n in range(64))
    assert model.most_in_a_minute() <= 10


def test_a_run_with_many_calls_does_not_keep_another_waiting(tmp_path: Path) -> None:
    clock = ManualClock()
    model = Watched(clock)

    async def crowd(kernel: Kernel) -> str:
        async with kernel.run("crowd") as run:
            await run.gather(
                *(lambda branch, n=n: ask(branch, f"crowd {n}", max_output_tokens=100) for n in range(12))
            )
        return "completed"

    async def scenario() -> None:
        with opened(tmp_path, clock, model, rates={"openai": Rate(requests=1)}) as kernel:
            await in_virtual_time(
                clock, [crowd(kernel), one(kernel, "single", "single 0", "single 1")], kernel
            )

    play(scenario(), within_s=120)

    assert model.texts.index("single 0") <= 2
    assert len(model.calls) == 14


def test_tenants_take_turns_however_many_runs_one_has(tmp_path: Path) -> None:
    clock = ManualClock()
    model = Watched(clock)

    async def scenario() -> None:
        with opened(tmp_path, clock, model, rates={"openai": Rate(requests=2)}) as kernel:
            many = [one(kernel, f"r{n}", f"big {n}", tenant="big") for n in range(10)]
            few = [one(kernel, f"r{n}", f"small {n}", tenant="small") for n in range(3)]
            await in_virtual_time(clock, [*many, *few], kernel)

    play(scenario(), within_s=120)

    # The first two may be gone before the others come; from then on each second one is theirs.
    assert sum(text.startswith("small") for text in model.texts[:8]) == 3


def test_a_tenants_own_rate_holds_beside_the_policys_and_slows_nobody_else(tmp_path: Path) -> None:
    clock = ManualClock()
    model = Watched(clock)

    async def scenario() -> None:
        with opened(tmp_path, clock, model, rates={"openai": Rate(requests=100)}) as kernel:
            await kernel.tenants.open("slow")
            shown = await kernel.tenants.update("slow", rates={"*": Rate(requests=1)})
            assert shown["rates"] == {"*": {"requests": 1, "tokens": None}}
            runs = [one(kernel, f"r{n}", f"slow {n}", tenant="slow") for n in range(3)]
            runs += [one(kernel, f"r{n}", f"fast {n}", tenant="fast") for n in range(9)]
            await in_virtual_time(clock, runs, kernel)
        with opened(tmp_path, clock, model) as kernel:  # it is stored
            assert (await kernel.tenants.show("slow"))["rates"]["*"]["requests"] == 1

    play(scenario(), within_s=120)

    start = model.calls[0][0]
    assert {text for at, text in model.calls if at < start + 1_000_000} >= {f"fast {n}" for n in range(9)}
    slow = sorted(at for at, text in model.calls if text.startswith("slow"))
    assert all(after - before >= MINUTE_US for before, after in itertools.pairwise(slow))


def test_tokens_are_reserved_as_a_bound_and_settled_to_what_was_used(tmp_path: Path) -> None:
    """Ten calls of 20 real tokens fit a minute in which two upper bounds would not."""
    clock = ManualClock()
    model = Watched(clock, tokens=20)

    async def scenario() -> None:
        rates = {"openai": Rate(tokens=3_000)}
        with opened(tmp_path, clock, model, rates=rates) as kernel:
            await in_virtual_time(
                clock, [one(kernel, "r", *(f"m{n}" for n in range(10)), max_output_tokens=1_500)], kernel
            )
            rows = await kernel.store.query("SELECT sum(used) FROM rates WHERE unit = 'tokens'")
            assert rows == [(200,)]

    play(scenario())

    assert model.calls[-1][0] - model.calls[0][0] < MINUTE_US


def test_a_rate_that_one_call_cannot_fit_is_an_error_and_no_endless_wait(tmp_path: Path) -> None:
    clock = ManualClock()
    model = Watched(clock)

    async def scenario() -> None:
        with opened(tmp_path, clock, model, rates={"openai": Rate(tokens=100)}) as kernel:
            with pytest.raises(LimitReached, match="lower max_output_tokens"):
                await one(kernel, "r", "too much", max_output_tokens=1_000)
            assert (await kernel.for_tenant().show("r"))["status"] == "failed"
            await assert_conserved(kernel, "default")

    play(scenario())

    assert model.calls == []


def test_a_waiting_call_obeys_cancel_and_holds_no_money(tmp_path: Path) -> None:
    clock = ManualClock()
    model = Watched(clock, price=PRICE)
    acme = Tenant("acme", budget_usd="1.00")

    async def scenario() -> None:
        with opened(tmp_path, clock, model, rates={"openai": Rate(requests=1)}) as kernel:
            await one(kernel, "first", "first", tenant=acme)
            waiting = asyncio.ensure_future(one(kernel, "second", "second", tenant=acme))
            await until_waiting(kernel)
            await assert_conserved(kernel, "acme")
            await kernel.for_tenant(acme).cancel("second")
            with pytest.raises(RunStopped):
                await waiting
            await in_virtual_time(clock, [one(kernel, "third", "third", tenant=acme)], kernel)

    play(scenario())

    assert model.texts == ["first", "third"]


def test_a_waiting_call_ends_with_the_time_of_its_run(tmp_path: Path) -> None:
    clock = ManualClock()
    model = Watched(clock)

    async def limited(kernel: Kernel) -> str:
        try:
            async with kernel.run("r", limits=Limits(wall_s=10)) as run:
                await ask(run, "late", max_output_tokens=100)
        except RunSuspended as suspended:
            return f"{suspended.status} ({suspended.reason})"
        return "completed"

    async def scenario() -> None:
        with opened(tmp_path, clock, model, rates={"openai": Rate(requests=1)}) as kernel:
            await one(kernel, "first", "first")
            ended = await in_virtual_time(clock, [limited(kernel)], kernel)
            assert ended == ["budget_exhausted (deadline)"]

    play(scenario())

    assert model.texts == ["first"]


def test_a_paused_run_takes_no_turn_until_it_goes_on(tmp_path: Path) -> None:
    clock = ManualClock()
    model = Watched(clock)

    async def waits(kernel: Kernel) -> str:
        async with kernel.run("paused") as run:
            return await ask(run, "paused", max_output_tokens=100)

    async def scenario() -> None:
        with opened(tmp_path, clock, model, rates={"openai": Rate(requests=1)}) as kernel:
            desk = kernel.for_tenant()
            await one(kernel, "first", "first")
            paused = asyncio.ensure_future(waits(kernel))
            await until_waiting(kernel)
            await desk.pause("paused")
            await in_virtual_time(clock, [one(kernel, "other", "other")], kernel)
            assert model.texts == ["first", "other"]
            await desk.resume("paused")
            assert await in_virtual_time(clock, [paused], kernel) == ["re: paused"]

    play(scenario())

    assert model.texts == ["first", "other", "paused"]


def test_a_provider_that_says_when_to_come_back_is_asked_then_and_each_attempt_counts(tmp_path: Path) -> None:
    clock = ManualClock()
    model = Watched(clock)
    model.refusals.append(RateLimited("slow down", retry_after_s=30))

    async def scenario() -> None:
        with opened(tmp_path, clock, model, rates={"openai": Rate(requests=2)}) as kernel:
            await in_virtual_time(clock, [one(kernel, "r", "a", "b")], kernel)

    play(scenario())

    times = [at - model.calls[0][0] for at, _ in model.calls]
    assert model.texts == ["a", "a", "b"]
    assert times[1] >= 30_000_000
    assert times[2] >= MINUTE_US, "the refused attempt took a request of the minute"


def test_two_kernels_on_one_store_share_the_windows(tmp_path: Path) -> None:
    clock = ManualClock()
    model = Watched(clock)
    rates = {"openai": Rate(requests=3)}

    async def scenario() -> None:
        with (
            opened(tmp_path, clock, model, rates=rates) as here,
            opened(tmp_path, clock, model, rates=rates) as there,
        ):
            runs = [one(here, f"h{n}", f"here {n}") for n in range(5)]
            runs += [one(there, f"t{n}", f"there {n}") for n in range(5)]
            assert await in_virtual_time(clock, runs, here, there) == ["completed"] * 10

    play(scenario(), within_s=60)

    assert model.most_in_a_minute() == 3


def test_a_large_call_is_not_starved_by_small_ones_of_another_process(tmp_path: Path) -> None:
    clock = ManualClock()
    model = Watched(clock, tokens=900)
    rates = {"openai": Rate(tokens=4_000)}

    async def scenario() -> None:
        with (
            opened(tmp_path, clock, model, rates=rates) as here,
            opened(tmp_path, clock, model, rates=rates) as there,
        ):
            small = [one(here, f"s{n}", *(f"small {n}" for _ in range(4))) for n in range(4)]
            large = one(there, "large", "large", max_output_tokens=3_000)
            await in_virtual_time(clock, [*small, large], here, there)

    play(scenario(), within_s=60)

    assert model.texts.index("large") < 12


def test_a_clock_that_was_set_back_closes_no_window_for_long(tmp_path: Path) -> None:
    clock = ManualClock(start_us=2_000_000_000_000_000)
    model = Watched(clock)
    rates = {"openai": Rate(requests=1)}

    async def scenario() -> None:
        with opened(tmp_path, clock, model, rates=rates) as kernel:
            await one(kernel, "first", "first")
        earlier = ManualClock()
        with opened(tmp_path, earlier, Watched(earlier), rates=rates) as kernel:
            await one(kernel, "second", "second")

    play(scenario())


@pytest.mark.parametrize(
    "given", [{"openai": 5}, {"": Rate(requests=1)}, [("openai", 1)], {"openai": {"requests": 1}}]
)
def test_what_is_no_rate_is_refused(given: Any) -> None:
    with pytest.raises(InvalidRequest):
        Policy(rates=given)


@pytest.mark.parametrize("given", [{}, {"requests": 0}, {"tokens": -1}, {"requests": True}])
def test_a_rate_limits_something(given: Any) -> None:
    with pytest.raises(InvalidRequest):
        Rate(**given)


def test_without_rates_the_store_holds_no_windows(tmp_path: Path) -> None:
    clock = ManualClock()

    async def scenario() -> None:
        with opened(tmp_path, clock, Watched(clock)) as kernel:
            await one(kernel, "r", "a", "b")
            assert kernel.services.turns is None
            assert await kernel.store.query("SELECT count(*) FROM rates") == [(0,)]

    play(scenario())


# The list of allowed models


@pytest.mark.parametrize(
    ("allowed", "asked", "passes"),
    [
        (("openai:*",), "gpt-5-mini", True),
        (("gpt-5-mini",), "openai:gpt-5-mini", True),
        (("openai:gpt-5*", "offline"), "openai:gpt-4o", False),
        (("offline",), "anthropic:claude", False),
        ((), "openai:gpt-5-mini", False),
    ],
)
def test_only_allowed_models_are_called(
    tmp_path: Path, allowed: tuple[str, ...], asked: str, passes: bool
) -> None:
    clock = ManualClock()
    model = Watched(clock, price=PRICE)

    async def scenario() -> None:
        with opened(tmp_path, clock, model, models=allowed) as kernel:
            async with kernel.run("r") as run:
                try:
                    await run.step_model(model=asked, messages=[{"role": "user", "content": "hi"}])
                except NotGranted as error:
                    assert "allow" in str(error)
            assert bool((await balances(kernel, "default")).get("spent")) == passes

    play(scenario())

    assert bool(model.calls) == passes


def test_a_model_that_is_not_allowed_is_refused_before_its_key_is_looked_for(tmp_path: Path) -> None:
    async def scenario() -> None:
        policy = Policy(models=("offline",))
        with Kernel.open(tmp_path / "state.db", environ={}, policy=policy) as kernel:
            with pytest.raises(NotGranted, match="not allowed here"):
                async with kernel.run("r") as run:
                    await run.step_model(model="openai:gpt-5-mini", messages=[user("hi")])

    play(scenario())


async def until_waiting(kernel: Kernel) -> None:
    """Wait until a call waits for its turn, as the store knows it."""
    async with asyncio.timeout(30):
        while not await kernel.store.query("SELECT 1 FROM rates WHERE unit LIKE 'turn:%'"):
            await asyncio.sleep(0.001)


def test_a_call_that_waits_for_its_rate_says_so_to_every_process(tmp_path: Path) -> None:
    clock = ManualClock()
    model = Watched(clock)

    async def scenario() -> None:
        with (
            opened(tmp_path, clock, model, rates={"openai": Rate(requests=1)}) as kernel,
            Kernel.open(tmp_path / "state.db", clock=clock, environ={}) as other,
        ):
            await one(kernel, "first", "a")
            assert (await other.for_tenant().show("first"))["rate_wait"] is None
            waiting = asyncio.ensure_future(one(kernel, "second", "b"))
            began_us = clock.now_us()
            waits = await _until_it_waits(other, "second")
            assert waits["status"] == "running"
            rate = waits["rate_wait"]
            assert rate is not None and rate["rate"] == "provider/openai"
            assert began_us < rate["until_us"] <= began_us + MINUTE_US
            assert await in_virtual_time(clock, [waiting], kernel) == ["completed"]
            assert (await other.for_tenant().show("second"))["rate_wait"] is None

    play(scenario())


async def _until_it_waits(kernel: Kernel, run_id: str) -> RunDetail:
    """The run once it tells what rate it waits for; the scenario's own bound ends this."""
    while True:
        await asyncio.sleep(0)
        runs = kernel.for_tenant()
        if any(run["id"] == run_id for run in (await runs.runs())["items"]):
            shown = await runs.show(run_id)
            if shown["rate_wait"] is not None:
                return shown
