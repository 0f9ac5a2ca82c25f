"""Programs as people write them with asyncio, each with what its result must look like."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

from artelier import ModelResult, Run
from tests.determinism.harness import Outside, Program
from tests.kernel.stage import user

PROGRAMS: dict[str, Program] = {}


def program(code: Program) -> Program:
    name: str = code.__name__  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType, reportUnknownVariableType]
    PROGRAMS[name] = code
    return code


EXCLUDED: dict[str, Program] = {}


def excluded(code: Program) -> Program:
    name: str = code.__name__  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType, reportUnknownVariableType]
    EXCLUDED[name] = code
    return code


async def ask(run: Run, text: str, **more: Any) -> str:
    more.setdefault("key", text)
    return (await run.step_model(model="m", messages=[user(text)], **more)).text


async def look(run: Run, at: str) -> str:
    return (await run.step_tool("look", {"at": at}, key=f"look {at}")).value


async def put(run: Run, what: str) -> str:
    return (await run.step_tool("put", {"what": what}, key=f"put {what}")).value


async def read(run: Run, text: str, *, upto: int = 100, into: list[str] | None = None) -> list[str]:
    """The first so many pieces of a stream."""
    got = [] if into is None else into
    async for item in run.stream_model(model="m", messages=[user(text)], key=text):
        if isinstance(item, ModelResult):
            return [*got, f"whole {item.text}"]
        got.append(item.text)
        if len(got) >= upto:
            break
    return got


async def compute(run: Run, out: Outside, name: str) -> str:
    return await run.step(name, out.work, name, key=name)


async def first(*tasks: asyncio.Task[str]) -> list[str]:
    done, left = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in left:
        task.cancel()
    await asyncio.gather(*left, return_exceptions=True)
    return sorted(task.result() for task in done)


def spawn(*work: Any) -> list[asyncio.Task[str]]:
    return [asyncio.ensure_future(one) for one in work]


# wait_for


@program
async def wait_for_a_model(run: Run, out: Outside) -> Any:
    try:
        return await asyncio.wait_for(ask(run, "a"), 1.0)
    except TimeoutError:
        return await ask(run, "late")


@program
async def wait_for_without_any_step_after_it(run: Run, out: Outside) -> Any:
    try:
        return await asyncio.wait_for(ask(run, "a"), 1.0)
    except TimeoutError:
        return "late"


@program
async def wait_for_a_tool(run: Run, out: Outside) -> Any:
    try:
        return await asyncio.wait_for(look(run, "a"), 0.7)
    except TimeoutError:
        return [await look(run, "b"), await ask(run, "c")]


@program
async def wait_for_a_computation(run: Run, out: Outside) -> Any:
    try:
        return await asyncio.wait_for(compute(run, out, "a"), 0.7)
    except TimeoutError:
        return await compute(run, out, "b")


@program
async def wait_for_with_retries(run: Run, out: Outside) -> Any:
    for attempt in range(4):
        with suppress(TimeoutError):
            return await asyncio.wait_for(ask(run, f"a{attempt}"), 0.7)
    return "gave up"


@program
async def wait_for_nested(run: Run, out: Outside) -> Any:
    async def inner() -> Any:
        try:
            return await asyncio.wait_for(ask(run, "a"), 1.0)
        except TimeoutError:
            return await ask(run, "b")

    try:
        return await asyncio.wait_for(inner(), 2.0)
    except TimeoutError:
        return await ask(run, "c")


@program
async def wait_for_each_of_several(run: Run, out: Outside) -> Any:
    async def one(name: str) -> str:
        try:
            return await asyncio.wait_for(ask(run, name), 1.0)
        except TimeoutError:
            return f"late {name}"

    return await asyncio.gather(*map(one, "abcd"))


@program
async def wait_for_a_sleep_of_the_run(run: Run, out: Outside) -> Any:
    try:
        await asyncio.wait_for(run.sleep(50, key="nap"), 5.0)
    except TimeoutError:
        return await ask(run, "awake")
    return "slept"


@program
async def wait_for_an_answer_that_nobody_gives(run: Run, out: Outside) -> Any:
    try:
        return (await asyncio.wait_for(run.approve("may I?", key="q"), 5.0)).decision
    except TimeoutError:
        return await ask(run, "then not")


@program
async def timeout_block(run: Run, out: Outside) -> Any:
    got: list[str] = []
    try:
        async with asyncio.timeout(1.2):
            for name in "abc":
                got.append(await ask(run, name))
    except TimeoutError:
        got.append("late")
    got.append(await ask(run, "end"))
    return got


@program
async def timeout_around_a_durable_one(run: Run, out: Outside) -> Any:
    """The plain timer has cancelled the run's own task; the durable one is up while its code cleans up."""
    said = "in time"
    try:
        async with asyncio.timeout(0.3):
            async with run.timeout(0.85, key="limit"):
                try:
                    await run.sleep(2.5, key="long")
                finally:
                    said = ",".join(await read(run, "cleaning up slowly"))
    except TimeoutError:
        said += " too late"
    return [said, await ask(run, "after")]


@program
async def timeout_that_fails_the_run(run: Run, out: Outside) -> Any:
    async with asyncio.timeout(1.2):
        await ask(run, "a")
        return await ask(run, "b")


# gather


@program
async def gather_models(run: Run, out: Outside) -> Any:
    return await asyncio.gather(*(ask(run, name) for name in "abcdef"))


@program
async def gather_in_order_of_completion(run: Run, out: Outside) -> Any:
    order: list[str] = []

    async def one(name: str) -> None:
        await ask(run, name)
        order.append(name)

    await asyncio.gather(*map(one, "abcdef"))
    return order


@program
async def gather_mixed_kinds(run: Run, out: Outside) -> Any:
    order: list[str] = []

    async def noted(name: str, work: Any) -> None:
        order.append(f"{name} {await work}")

    await asyncio.gather(
        noted("model", ask(run, "a")),
        noted("tool", look(run, "b")),
        noted("compute", compute(run, out, "c")),
        noted("sync", run.step("d", len, "four", key="d")),
    )
    return order


@program
async def gather_with_a_failure(run: Run, out: Outside) -> Any:
    tasks = [asyncio.ensure_future(ask(run, name)) for name in ("a", "!b", "c")]
    try:
        return await asyncio.gather(*tasks)
    except ZeroDivisionError:
        for task in tasks:
            task.cancel()
        done = await asyncio.gather(*tasks, return_exceptions=True)
        return [await ask(run, "after"), [type(one).__name__ for one in done]]


@program
async def gather_exceptions_as_values(run: Run, out: Outside) -> Any:
    done = await asyncio.gather(ask(run, "a"), ask(run, "!b"), look(run, "!c"), return_exceptions=True)
    return [str(one) for one in done]


@program
async def gather_of_chains(run: Run, out: Outside) -> Any:
    order: list[str] = []

    async def chain(name: str) -> None:
        for number in range(3):
            order.append(await ask(run, f"{name}{number}"))

    await asyncio.gather(*map(chain, "abc"))
    return order


@program
async def gather_of_the_run(run: Run, out: Outside) -> Any:
    order: list[str] = []

    async def one(branch: Run, name: str) -> str:
        text = (await branch.step_model(model="m", messages=[user(name)])).text
        order.append(name)
        return text

    return [await run.gather(*(lambda b, n=name: one(b, n) for name in "abcd")), order]  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]


@program
async def gather_that_shares_a_list(run: Run, out: Outside) -> Any:
    seen: list[str] = []

    async def one(name: str) -> str:
        await compute(run, out, name)
        seen.append(name)
        return await ask(run, f"after {'-'.join(seen)}", key=f"{name} after")

    return await asyncio.gather(*map(one, "abcd"))


@program
async def gather_with_plain_sleeps_between(run: Run, out: Outside) -> Any:
    order: list[str] = []

    async def one(name: str, seconds: float) -> None:
        await asyncio.sleep(seconds)
        order.append(await ask(run, name))

    await asyncio.gather(one("a", 0.2), one("b", 0.6), one("c", 0.6), one("d", 2.0))
    return order


# as_completed


@program
async def as_completed_all(run: Run, out: Outside) -> Any:
    return [await one for one in asyncio.as_completed([ask(run, name) for name in "abcde"])]


@program
async def as_completed_with_steps_between(run: Run, out: Outside) -> Any:
    found: list[str] = []
    for number, one in enumerate(asyncio.as_completed([ask(run, name) for name in "abcd"])):
        found.append(await one)
        found.append(await compute(run, out, f"step {number}"))
    return found


@program
async def as_completed_until_enough(run: Run, out: Outside) -> Any:
    tasks = [asyncio.ensure_future(ask(run, name)) for name in "abcde"]
    found: list[str] = []
    for one in asyncio.as_completed(tasks):
        found.append(await one)
        if len(found) == 2:
            break
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return [found, await ask(run, "+".join(found), key="end")]


@program
async def as_completed_with_a_timeout(run: Run, out: Outside) -> Any:
    tasks = [asyncio.ensure_future(ask(run, name)) for name in "abcd"]
    found: list[str] = []
    try:
        for one in asyncio.as_completed(tasks, timeout=1.2):
            found.append(await one)
    except TimeoutError:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    return [found, await ask(run, "end")]


@program
async def as_completed_of_tools(run: Run, out: Outside) -> Any:
    found = [await one for one in asyncio.as_completed([look(run, name) for name in "abcd"])]
    return await ask(run, " ".join(found), key="summary")


@program
async def as_completed_with_failures(run: Run, out: Outside) -> Any:
    found: list[str] = []
    for one in asyncio.as_completed([ask(run, name) for name in ("a", "!b", "c", "!d")]):
        try:
            found.append(await one)
        except ZeroDivisionError as error:
            found.append(f"failed {error}")
    return found


# TaskGroup


@program
async def group_of_models(run: Run, out: Outside) -> Any:
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(ask(run, name)) for name in "abcd"]
    return [task.result() for task in tasks]


@program
async def group_with_a_failure_goes_on(run: Run, out: Outside) -> Any:
    order: list[str] = []

    async def one(name: str) -> None:
        order.append(await ask(run, name))

    try:
        async with asyncio.TaskGroup() as group:
            for name in ("a", "!b", "c", "d"):
                group.create_task(one(name))
    except* ZeroDivisionError:
        order.append("failed")
    return [order, await ask(run, "end")]


@program
async def group_with_a_failure_ends_the_run(run: Run, out: Outside) -> Any:
    async with asyncio.TaskGroup() as group:
        for name in ("a", "!b", "c"):
            group.create_task(ask(run, name))


@program
async def group_that_raises_itself(run: Run, out: Outside) -> Any:
    tasks: list[asyncio.Task[str]] = []
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(ask(run, name)) for name in "ab"]
            await ask(run, "own")
            raise LookupError("enough")
    except* LookupError:
        pass
    return ["cancelled" if task.cancelled() else task.result() for task in tasks]


@program
async def group_in_a_timeout(run: Run, out: Outside) -> Any:
    order: list[str] = []

    async def one(name: str) -> None:
        order.append(await ask(run, name))

    try:
        async with asyncio.timeout(1.2), asyncio.TaskGroup() as group:
            for name in "abcd":
                group.create_task(one(name))
    except TimeoutError:
        order.append("late")
    return [order, await ask(run, "end")]


@program
async def group_in_a_group(run: Run, out: Outside) -> Any:
    order: list[str] = []

    async def leaf(name: str) -> None:
        order.append(await ask(run, name))

    async def inner(name: str) -> None:
        async with asyncio.TaskGroup() as group:
            for number in range(2):
                group.create_task(leaf(f"{name}{number}"))

    async with asyncio.TaskGroup() as group:
        for name in "abc":
            group.create_task(inner(name))
    return order


@program
async def group_that_grows(run: Run, out: Outside) -> Any:
    order: list[str] = []

    async with asyncio.TaskGroup() as group:

        async def one(name: str) -> None:
            order.append(await ask(run, name))
            if len(name) < 3:
                group.create_task(one(name + "x"))

        for name in "ab":
            group.create_task(one(name))
    return order


@program
async def group_with_one_cancelled_by_another(run: Run, out: Outside) -> Any:
    async with asyncio.TaskGroup() as group:
        victim = group.create_task(ask(run, "victim"))

        async def killer() -> None:
            await ask(run, "killer")
            victim.cancel()

        group.create_task(killer())
    return "cancelled" if victim.cancelled() else victim.result()
