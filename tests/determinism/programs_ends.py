"""Programs that shield, leave streams, clean up, and come to odd ends; and those that the guide excludes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from artelier import ModelResult, Run
from tests.determinism.harness import Outside
from tests.determinism.programs import ask, compute, excluded, first, look, program, read, spawn
from tests.kernel.stage import user

# shield


@program
async def shielded_steps_beside_others(run: Run, out: Outside) -> Any:
    kept = asyncio.ensure_future(ask(run, "kept"))

    async def guard() -> str:
        return await asyncio.shield(kept)

    found = await first(*spawn(guard(), ask(run, "b")))
    return [found, await ask(run, "after"), await kept]


@program
async def shielded_step_that_nobody_waits_for(run: Run, out: Outside) -> Any:
    try:
        async with run.timeout(0.7):
            return await asyncio.shield(ask(run, "a"))
    except TimeoutError:
        return "left alone"


@program
async def shield_in_a_finally(run: Run, out: Outside) -> Any:
    async def work() -> None:
        try:
            await ask(run, "work")
        finally:
            await asyncio.shield(ask(run, "cleanup"))

    task = asyncio.ensure_future(work())
    await ask(run, "other")
    task.cancel()
    await asyncio.wait((task,))
    return ["cancelled" if task.cancelled() else "done", await ask(run, "after")]


@program
async def shielded_step_goes_on(run: Run, out: Outside) -> Any:
    inner = asyncio.ensure_future(ask(run, "a"))
    try:
        async with run.timeout(0.7, key="limit"):
            early = await asyncio.shield(inner)
    except TimeoutError:
        early = "late"
    return [early, await inner]


# Streams


@program
async def stream_read_to_the_end(run: Run, out: Outside) -> Any:
    return (await read(run, "a b c"))[-1]


@program
async def stream_left_by_break(run: Run, out: Outside) -> Any:
    return [await read(run, "a b c", upto=2), await ask(run, "after")]


@program
async def stream_left_at_the_end_of_the_run(run: Run, out: Outside) -> Any:
    return await read(run, "a b c", upto=1)


@program
async def stream_left_by_an_exception(run: Run, out: Outside) -> Any:
    got: list[str] = []
    try:
        async for item in run.stream_model(model="m", messages=[user("a b")], key="s"):
            assert not isinstance(item, ModelResult)
            got.append(item.text)
            if len(got) == 3:
                raise LookupError("enough")
    except LookupError:
        pass
    return [got, await ask(run, "after")]


@program
async def stream_in_a_timeout(run: Run, out: Outside) -> Any:
    got: list[str] = []
    try:
        await asyncio.wait_for(read(run, "a b c d", into=got), 2.2)
    except TimeoutError:
        return ["late", got, await ask(run, "after")]
    return await ask(run, "in time")


@program
async def streams_side_by_side_and_the_first_wins(run: Run, out: Outside) -> Any:
    async def one(name: str) -> str:
        return (await read(run, name))[-1]

    return [await first(*spawn(one("a"), one("b"))), await ask(run, "after")]


@program
async def stream_left_when_another_step_is_done(run: Run, out: Outside) -> Any:
    other = asyncio.ensure_future(ask(run, "other"))
    got: list[str] = []
    async for item in run.stream_model(model="m", messages=[user("a b c d")], key="s"):
        if isinstance(item, ModelResult) or other.done():
            break
        got.append(item.text)
    return [await other, await ask(run, "after")]


@program
async def stream_with_steps_between_pieces(run: Run, out: Outside) -> Any:
    got: list[Any] = []
    async for item in run.stream_model(model="m", messages=[user("a")], key="s"):
        if isinstance(item, ModelResult) or len(got) == 2:
            break
        got.append(await compute(run, out, f"piece {len(got)}"))
    return [got, await ask(run, "after")]


# finally


@program
async def step_in_a_finally(run: Run, out: Outside) -> Any:
    got: list[str] = []

    async def work() -> None:
        try:
            got.append(await ask(run, "work"))
        finally:
            got.append(await ask(run, "cleanup"))

    with suppress(TimeoutError):
        await asyncio.wait_for(work(), 0.7)
    return [got, await ask(run, "after")]


@program
async def step_in_a_finally_of_the_main_task(run: Run, out: Outside) -> Any:
    got: list[str] = []
    try:
        async with asyncio.timeout(0.7):
            try:
                got.append(await ask(run, "work"))
            finally:
                got.append(await ask(run, "cleanup"))
    except TimeoutError:
        got.append("late")
    return got


@program
async def exception_in_a_finally(run: Run, out: Outside) -> Any:
    async def work() -> None:
        try:
            await ask(run, "work")
        finally:
            await compute(run, out, "cleanup")
            raise LookupError("in finally")

    task = asyncio.ensure_future(work())
    await look(run, "other")
    task.cancel()
    await asyncio.wait((task,))
    # Cut off in the cleanup itself, where the work was the first to end.
    how = "CancelledError" if task.cancelled() else type(task.exception()).__name__
    return [how, await ask(run, "after")]


@program
async def exception_in_a_finally_ends_the_run(run: Run, out: Outside) -> Any:
    try:
        await asyncio.wait_for(ask(run, "work"), 0.7)
    finally:
        await ask(run, "cleanup")
        raise LookupError("in finally")


@program
async def cancellation_that_is_swallowed(run: Run, out: Outside) -> Any:
    async def stubborn() -> str:
        with suppress(asyncio.CancelledError):
            return await ask(run, "first")
        return await ask(run, "second")

    task = asyncio.ensure_future(stubborn())
    other = await ask(run, "other")
    task.cancel()
    return [other, await task, await ask(run, "after")]


@program
async def cancelled_before_it_began(run: Run, out: Outside) -> Any:
    task = asyncio.ensure_future(ask(run, "never"))
    task.cancel()
    await asyncio.wait((task,))
    return [task.cancelled(), await ask(run, "after")]


@program
async def computation_that_cancels_itself(run: Run, out: Outside) -> Any:
    async def odd() -> None:
        await out.work("odd")
        raise asyncio.CancelledError

    try:
        await run.step("odd", odd, key="odd")
    except asyncio.CancelledError:
        return await ask(run, "after")


# Other shapes


@program
async def queue_of_workers(run: Run, out: Outside) -> Any:
    queue: asyncio.Queue[str] = asyncio.Queue()
    for name in "abcdefg":
        queue.put_nowait(name)
    done: list[str] = []

    async def worker(number: int) -> None:
        while not queue.empty():
            name = queue.get_nowait()
            done.append(f"{number} {await ask(run, name)}")

    await asyncio.gather(*map(worker, range(3)))
    return done


@program
async def race_for_a_lock(run: Run, out: Outside) -> Any:
    lock, order = asyncio.Lock(), list[str]()

    async def one(name: str) -> None:
        await ask(run, name)
        async with lock:
            order.append(await compute(run, out, f"{name} locked"))

    await asyncio.gather(*map(one, "abcd"))
    return order


@program
async def event_that_another_task_sets(run: Run, out: Outside) -> Any:
    ready, order = asyncio.Event(), list[str]()

    async def waiter(name: str) -> None:
        await ready.wait()
        order.append(await ask(run, name))

    async def setter() -> None:
        order.append(await ask(run, "set"))
        ready.set()

    await asyncio.gather(waiter("a"), waiter("b"), setter(), waiter("c"))
    return order


# Programs that docs/guides/asyncio.md excludes: nothing that is recorded tells what they have seen.


@excluded
async def plain_timer_around_a_shield(run: Run, out: Outside) -> Any:
    inner = asyncio.ensure_future(ask(run, "a"))
    try:
        early = await asyncio.wait_for(asyncio.shield(inner), 0.7)
    except TimeoutError:
        early = "late"
    return [early, await inner]


@excluded
async def plain_timer_that_sets_a_flag(run: Run, out: Outside) -> Any:
    seen: list[str] = []
    asyncio.get_running_loop().call_later(0.7, seen.append, "rang")
    return [await ask(run, "a"), list(seen)]


@excluded
async def look_at_the_clock(run: Run, out: Outside) -> Any:
    began = asyncio.get_running_loop().time()
    await ask(run, "a")
    return round(asyncio.get_running_loop().time() - began, 1)


@excluded
async def outside_without_a_step(run: Run, out: Outside) -> Any:
    await out.delay()
    return [await ask(run, "a"), out.rng.random()]


CHECKS: dict[str, Callable[[Any], bool]] = {
    "wait_for_a_model": lambda got: got in ("re: a", "re: late"),
    "gather_models": lambda got: got == [f"re: {name}" for name in "abcdef"],
    "gather_in_order_of_completion": lambda got: sorted(got) == list("abcdef"),
    "group_of_models": lambda got: got == [f"re: {name}" for name in "abcd"],
    "as_completed_all": lambda got: sorted(got) == [f"re: {name}" for name in "abcde"],
    "first_of_two_models": lambda got: 1 <= len(got) <= 2,
    "stream_left_by_break": lambda got: got == [["re: ", "a "], "re: after"],
    "stream_left_at_the_end_of_the_run": lambda got: got == ["re: "],
    "cancelled_before_it_began": lambda got: got == [True, "re: after"],
    "computation_that_cancels_itself": lambda got: got == "re: after",
    "event_that_another_task_sets": lambda got: got[0] == "re: set" and len(got) == 4,
}
"""What the results of some programs must look like, whatever comes first."""
