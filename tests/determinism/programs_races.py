"""Programs that race: whoever is first wins, and the rest is cancelled."""

from __future__ import annotations

import asyncio
from typing import Any

from artelier import Run
from tests.determinism.harness import Outside
from tests.determinism.programs import ask, compute, first, look, program, spawn
from tests.kernel.stage import user


@program
async def first_of_two_models(run: Run, out: Outside) -> Any:
    return await first(*spawn(ask(run, "a"), ask(run, "b")))


@program
async def first_of_two_then_a_step(run: Run, out: Outside) -> Any:
    found = await first(*spawn(ask(run, "a"), ask(run, "b")))
    return [found, await ask(run, f"after {found}", key="after")]


@program
async def first_of_model_tool_and_computation(run: Run, out: Outside) -> Any:
    found = await first(*spawn(ask(run, "a"), look(run, "b"), compute(run, out, "c")))
    return [found, await ask(run, "after")]


@program
async def first_of_model_and_sleep_of_the_run(run: Run, out: Outside) -> Any:
    async def nap() -> str:
        await run.sleep(1.2, key="nap")
        return "slept"

    return [await first(*spawn(ask(run, "a"), nap())), await ask(run, "after")]


@program
async def first_of_model_and_plain_sleep(run: Run, out: Outside) -> Any:
    async def nap() -> str:
        await asyncio.sleep(1.2)
        return "slept"

    return [await first(*spawn(ask(run, "a"), nap())), await ask(run, "after")]


@program
async def first_twice(run: Run, out: Outside) -> Any:
    one = await first(*spawn(ask(run, "a"), ask(run, "b")))
    two = await first(*spawn(ask(run, "c"), ask(run, f"d {one}", key="d")))
    return [one, two, await compute(run, out, "end")]


@program
async def first_of_five_at_once_with_a_step_each_time(run: Run, out: Outside) -> Any:
    left = set(spawn(*(ask(run, name) for name in "abcde")))
    rounds: list[list[str]] = []
    while left:
        done, left = await asyncio.wait(left, return_when=asyncio.FIRST_COMPLETED)
        rounds.append(sorted(task.result() for task in done))
        rounds.append([await ask(run, f"round {len(rounds)}")])
    return rounds


@program
async def first_with_losers_left_alone(run: Run, out: Outside) -> Any:
    """Nobody cancels the losers, and nobody waits for them."""
    done, _ = await asyncio.wait(
        spawn(ask(run, "a"), ask(run, "b"), look(run, "c")), return_when=asyncio.FIRST_COMPLETED
    )
    return sorted(task.result() for task in done)


@program
async def wait_with_a_timeout(run: Run, out: Outside) -> Any:
    tasks = spawn(*(ask(run, name) for name in "abcd"))
    done, left = await asyncio.wait(tasks, timeout=1.2)
    for task in left:
        task.cancel()
    await asyncio.gather(*left, return_exceptions=True)
    return [sorted(task.result() for task in done), await ask(run, "after")]


@program
async def wait_for_the_first_failure(run: Run, out: Outside) -> Any:
    tasks = spawn(ask(run, "a"), ask(run, "!b"), ask(run, "c"))
    done, left = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
    for task in left:
        task.cancel()
    await asyncio.gather(*left, return_exceptions=True)
    return [sorted(str(task.exception() or task.result()) for task in done), await ask(run, "x")]


@program
async def first_of_chains(run: Run, out: Outside) -> Any:
    async def chain(name: str, length: int) -> str:
        for number in range(length):
            await ask(run, f"{name}{number}")
        return name

    return [await first(*spawn(chain("a", 2), chain("b", 3), chain("c", 1))), await ask(run, "z")]


@program
async def durable_first(run: Run, out: Outside) -> Any:
    async def slow(branch: Run) -> str:
        await asyncio.sleep(1.0)
        return (await branch.step_model(model="m", messages=[user("slow")])).text

    found = await run.first(slow, lambda branch: ask(branch, "b"), lambda branch: ask(branch, "c"))
    return [found[0], found[1], await ask(run, "after")]


@program
async def durable_timeout(run: Run, out: Outside) -> Any:
    got: list[str] = []
    try:
        async with run.timeout(1.2):
            for name in "abc":
                got.append(await ask(run, name))
    except TimeoutError:
        got.append("late")
    got.append(await ask(run, "end"))
    return got


@program
async def durable_timeout_around_a_gather(run: Run, out: Outside) -> Any:
    got: list[str] = []

    async def one(name: str) -> None:
        got.append(await ask(run, name))

    try:
        async with run.timeout(1.2, key="limit"):
            await asyncio.gather(*map(one, "abcd"))
    except TimeoutError:
        got.append("late")
    return [got, await ask(run, "end")]


@program
async def durable_timeouts_nested(run: Run, out: Outside) -> Any:
    got: list[str] = []
    try:
        async with run.timeout(2.5, key="outer"):
            for name in "abc":
                try:
                    async with run.timeout(0.8, key=f"inner {name}"):
                        got.append(await ask(run, name))
                except TimeoutError:
                    got.append(f"late {name}")
    except TimeoutError:
        got.append("too late")
    return [got, await compute(run, out, "end")]


@program
async def durable_timeout_without_a_step_after_it(run: Run, out: Outside) -> Any:
    try:
        async with run.timeout(0.8):
            return await look(run, "a")
    except TimeoutError:
        return "late"


@program
async def a_computation_in_the_background_is_cancelled(run: Run, out: Outside) -> Any:
    """On resume it would be cancelled before it has begun, were the step beside it given too early."""
    slow = asyncio.ensure_future(compute(run, out, "slow"))
    found = [await ask(run, "a")]
    slow.cancel()
    await asyncio.gather(slow, return_exceptions=True)
    other = asyncio.ensure_future(compute(run, out, "other"))
    await asyncio.sleep(0.3)
    other.cancel()
    await asyncio.gather(other, return_exceptions=True)
    return [found, slow.cancelled(), other.cancelled(), await ask(run, "b")]
