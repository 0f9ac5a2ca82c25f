"""Programs that cut off a side effect that may be repeated: what they gave up is recorded, as of any step."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

from artelier import Run
from tests.determinism.harness import Outside
from tests.determinism.programs import ask, compute, first, look, program, put, spawn


@program
async def repeatable_wait_for(run: Run, out: Outside) -> Any:
    try:
        found = await asyncio.wait_for(put(run, "a"), 0.7)
    except TimeoutError:
        found = "late"
    return [found, await ask(run, found, key="after")]


@program
async def repeatable_wait_for_with_retries(run: Run, out: Outside) -> Any:
    for number in range(4):
        with suppress(TimeoutError):
            return await asyncio.wait_for(put(run, f"a{number}"), 0.7)
    return "gave up"


@program
async def repeatable_durable_timeout(run: Run, out: Outside) -> Any:
    got: list[str] = []
    try:
        async with run.timeout(0.8):
            for name in "abc":
                got.append(await put(run, name))
    except TimeoutError:
        got.append("late")
    return [*got, await ask(run, "after")]


@program
async def repeatable_durable_timeout_without_a_step_after_it(run: Run, out: Outside) -> Any:
    try:
        async with run.timeout(0.8):
            return await put(run, "a")
    except TimeoutError:
        return "late"


@program
async def repeatable_first_of_two(run: Run, out: Outside) -> Any:
    found = await first(*spawn(put(run, "a"), put(run, "b")))
    return [found, await ask(run, f"after {found}", key="after")]


@program
async def repeatable_first_of_all_kinds(run: Run, out: Outside) -> Any:
    found = await first(*spawn(put(run, "a"), ask(run, "b"), look(run, "c"), compute(run, out, "d")))
    return [found, await put(run, "after")]


@program
async def repeatable_durable_first(run: Run, out: Outside) -> Any:
    index, found = await run.first(
        lambda branch: put(branch, "a"), lambda branch: ask(branch, "b"), lambda branch: put(branch, "c")
    )
    return [index, found, await ask(run, "after")]


@program
async def repeatable_durable_first_of_chains(run: Run, out: Outside) -> Any:
    async def chain(branch: Run, name: str) -> str:
        got = [await put(branch, f"{name}1"), await ask(branch, f"{name}2"), await put(branch, f"{name}3")]
        return " ".join(got)

    index, found = await run.first(lambda branch: chain(branch, "a"), lambda branch: chain(branch, "b"))
    return [index, found, await put(run, "after")]


@program
async def repeatable_in_a_group_that_fails(run: Run, out: Outside) -> Any:
    async def fail() -> None:
        await ask(run, "q")
        raise ValueError

    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(put(run, "a"))
            group.create_task(put(run, "b"))
            group.create_task(fail())
    except* ValueError:
        pass
    return await ask(run, "after")


@program
async def repeatable_cancelled_at_the_first_that_is_done(run: Run, out: Outside) -> Any:
    tasks = spawn(*(put(run, name) for name in "abcd"))
    left = set(tasks)
    rounds: list[Any] = []
    while left:
        done, left = await asyncio.wait(left, return_when=asyncio.FIRST_COMPLETED)
        rounds.append(sorted(task.result() for task in done))
        if left:
            loser = next(task for task in tasks if task in left)
            left.discard(loser)
            loser.cancel()
            await asyncio.gather(loser, return_exceptions=True)
            rounds.append(await ask(run, f"round {len(rounds)}"))
    return rounds


@program
async def repeatable_left_behind(run: Run, out: Outside) -> Any:
    """Nobody waits for it, or cancels it."""
    task = asyncio.ensure_future(put(run, "a"))
    found = [await ask(run, "b"), await ask(run, "c")]
    return [*found, task.done()]


@program
async def repeatable_beside_a_failure_of_the_code(run: Run, out: Outside) -> Any:
    await asyncio.gather(put(run, "a"), ask(run, "b"), ask(run, "!c"))
    return "never"
