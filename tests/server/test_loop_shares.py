"""Each user has a share of the event loop, whatever others do and however they end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from time import perf_counter
from typing import Any

import anyio
import pytest

from artelier.server.loop_shares import SHARE_S, LoopShares
from artelier.threads import content_group, content_owner

Order = list[str]


def _long() -> None:
    """Take more than a share."""
    end_s = perf_counter() + 1.5 * SHARE_S
    while perf_counter() < end_s:
        pass


async def _steps(owner: str, count: int, order: Order, *, work: Callable[[], None] = _long) -> None:
    content_owner.set(owner)
    for _ in range(count):
        await asyncio.sleep(0)
        work()
        order.append(owner)


def _run(main: Callable[[], Coroutine[Any, Any, None]]) -> None:
    async def shared() -> None:
        loop = asyncio.get_running_loop()
        shares = LoopShares(loop)
        loop.set_task_factory(shares)
        await asyncio.create_task(main())
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert not shares._shares, "a share is forgotten with the last task"

    asyncio.run(asyncio.wait_for(shared(), 30))


def test_between_two_long_steps_of_one_user_everybody_else_has_a_turn() -> None:
    order = Order()

    async def main() -> None:
        many = [asyncio.create_task(_steps("many", 3, order)) for _ in range(20)]
        one = asyncio.create_task(_steps("one", 5, order))
        await one
        assert order.count("many") <= 2 * 5 + 2, "one of many's for each turn of the loop"
        await asyncio.gather(*many)
        assert order.count("many") == 60

    _run(main)


def test_short_steps_have_no_turns_of_the_loop_for_themselves() -> None:
    turns = 0

    async def main() -> None:
        order = Order()
        many = [asyncio.create_task(_steps("many", 1, order, work=lambda: None)) for _ in range(10)]
        nonlocal turns
        while not all(task.done() for task in many):
            await asyncio.sleep(0)
            turns += 1

    _run(main)
    assert turns < 10


@pytest.mark.parametrize("when", ["waits", "woken"])
def test_a_task_that_is_cancelled_passes_its_turn_on(when: str) -> None:
    order = Order()

    async def main() -> None:
        tasks = [asyncio.create_task(_steps("many", 3, order)) for _ in range(6)]
        other = asyncio.create_task(_steps("other", 400, Order(), work=lambda: None))
        for number, task in enumerate(tasks[:5]):
            for _ in range(number + 1):
                await asyncio.sleep(0)
            if when == "woken":
                waiter: Any = getattr(task, "_fut_waiter", None)
                while waiter is not None and not waiter.done() and not task.done():
                    await asyncio.sleep(0)
            task.cancel()
        ended = await asyncio.gather(*tasks, return_exceptions=True)
        assert ended[5] is None and not other.cancelled()
        await other

    _run(main)
    assert order.count("many") >= 3


def test_what_the_process_does_for_itself_has_no_bound() -> None:
    order = Order()

    async def main() -> None:
        await asyncio.gather(*(_steps("", 2, order) for _ in range(4)))

    _run(main)
    assert len(order) == 8


def test_tasks_in_groups_and_scopes_end_as_they_do_without_shares() -> None:
    async def fails() -> None:
        content_owner.set("many")
        await asyncio.sleep(0)
        _long()
        raise LookupError("no")

    async def main() -> None:
        content_owner.set("many")
        with pytest.raises(BaseExceptionGroup) as failed:
            async with anyio.create_task_group() as group:
                group.start_soon(_steps, "many", 100, Order())
                group.start_soon(fails)
        assert failed.group_contains(LookupError)
        with anyio.move_on_after(0.02) as scope:
            await _steps("many", 10_000, Order())
        assert scope.cancelled_caught
        assert await asyncio.create_task(_value()) == 5

    _run(main)


async def _value() -> int:
    return 5


def test_a_task_that_never_began_is_cancelled_without_a_warning(recwarn: pytest.WarningsRecorder) -> None:
    async def main() -> None:
        content_owner.set("many")
        task = asyncio.create_task(_value())
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    _run(main)
    assert not list(recwarn)


def test_a_group_has_one_share_together_in_which_its_users_take_turns() -> None:
    order = Order()

    async def grouped(owner: str, count: int) -> None:
        content_group.set("group")
        await _steps(owner, count, order)

    async def main() -> None:
        many = [asyncio.create_task(grouped("many", 3)) for _ in range(20)]
        few = asyncio.create_task(grouped("few", 5))
        await asyncio.create_task(_steps("one", 5, order))
        assert len(order) - order.count("one") <= 2 * 5 + 2
        await few
        assert order.count("many") <= 2 * 5 + 2, "many has one task after the other in its turns"
        await asyncio.gather(*many)

    _run(main)
