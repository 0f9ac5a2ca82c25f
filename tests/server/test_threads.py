"""Threads that all users of a server share: whatever one of them has it do, others find a thread."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from artelier import AutonomousAgent, Kernel, Tenant, tool
from artelier.agents import Worker
from artelier.server.http_server import make_executor
from artelier.testing import ScriptedModel, tool_call
from artelier.threads import (
    REST_S,
    SMALL_SIZE,
    OwnerThreads,
    PlaceTurns,
    content_owner,
    give_way,
    run_in_content_thread,
)
from tests.server.house import house, on_a_port

PATIENCE_S = 60


class Hold:
    """Work that takes until it is let go."""

    def __init__(self) -> None:
        self.begun = threading.Semaphore(0)
        self.count = 0
        self._go = threading.Event()

    def __call__(self) -> None:
        self.count += 1
        self.begun.release()
        assert self._go.wait(PATIENCE_S)

    def wait(self, count: int) -> None:
        """Wait until so many have begun."""
        for _ in range(count):
            assert self.begun.acquire(timeout=PATIENCE_S)

    def let_go(self) -> None:
        self._go.set()


@contextmanager
def held(threads: OwnerThreads) -> Iterator[Hold]:
    hold = Hold()
    try:
        yield hold
    finally:
        hold.let_go()
        threads.shutdown()


def test_others_find_a_thread_while_one_owner_has_more_work_than_there_are() -> None:
    threads = OwnerThreads(4, name="test", owner_max=2)
    with held(threads) as hold:
        asked = [threads.put(owner="a", call=hold) for _ in range(9)]
        hold.wait(2)

        assert threads.put(owner="b", call=lambda: "done").result(PATIENCE_S) == "done"
        assert hold.count == 2

    assert [one.result(0) for one in asked] == [None] * 9
    assert hold.count == 9


def test_others_find_a_thread_whatever_all_users_of_one_group_do() -> None:
    threads = OwnerThreads(3, name="test", owner_max=1, group_max=2)
    with held(threads) as hold:
        asked = [threads.put(owner=owner, group="a", call=hold) for owner in "uvwxyz"]
        hold.wait(2)

        assert threads.put(owner="b", call=lambda: "done").result(PATIENCE_S) == "done"
        assert hold.count == 2

    assert [one.result(0) for one in asked] == [None] * 6


def test_what_is_small_finds_a_thread_whatever_is_large() -> None:
    threads, large = OwnerThreads(3, name="test", owner_max=1, kept_for_small=1), SMALL_SIZE + 1
    with held(threads) as hold:
        asked = [threads.put(owner=owner, call=hold, size=large) for owner in "abcd"]
        hold.wait(2)

        assert threads.put(owner="e", call=lambda: "done", size=SMALL_SIZE).result(PATIENCE_S) == "done"
        assert hold.count == 2

    assert [one.result(0) for one in asked] == [None] * 4


def test_what_is_small_is_read_while_that_of_three_tenants_is_large() -> None:
    release = threading.Event()

    async def read(owner: str, size: int, work: Callable[[], object]) -> None:
        content_owner.set(owner)
        await run_in_content_thread(size, work)

    async def main() -> None:
        held = [asyncio.create_task(read(owner, 30_000_000, lambda: release.wait(30))) for owner in "abc"]
        await asyncio.wait_for(asyncio.create_task(read("d", 1_000, lambda: None)), PATIENCE_S / 4)
        assert not any(one.done() for one in held)
        release.set()
        await asyncio.gather(*held)

    asyncio.run(main())


def test_a_server_has_threads_for_others_whatever_the_users_of_a_tenant_have_it_do() -> None:
    threads = make_executor()
    with held(threads) as hold:
        for owner in "uvwxyz" * 8:
            threads.put(owner=owner, group="a", call=hold)
        hold.wait(1)

        assert threads.put(owner="b", group="b", call=lambda: "done").result(PATIENCE_S) == "done"
        assert threads.put(owner="", call=lambda: "done").result(PATIENCE_S) == "done"


def test_the_group_of_which_least_runs_comes_first() -> None:
    threads, order = OwnerThreads(2, name="test", owner_max=1), list[str]()
    with held(threads) as hold:
        asked = [threads.put(owner=owner, group="a", call=hold) for owner in "uv"]
        hold.wait(2)
        names = [("w", "a"), ("x", "a"), ("b", "b")]
        asked += [
            threads.put(owner=owner, group=group, call=lambda owner=owner: order.append(owner))
            for owner, group in names
        ]
        hold.let_go()
        for one in asked:
            one.result(PATIENCE_S)

    assert order[0] == "b"


def test_what_the_process_does_for_itself_finds_a_thread_whatever_all_users_do() -> None:
    threads = OwnerThreads(4, name="test", owner_max=2, kept=1)
    with held(threads) as hold:
        asked = [threads.put(owner=owner, call=hold) for owner in "aabbccdd"]
        hold.wait(3)

        assert threads.put(owner="", call=lambda: "done").result(PATIENCE_S) == "done"
        assert hold.count == 3

    assert all(one.done() for one in asked)


def test_the_owner_comes_first_of_whom_least_runs_and_then_of_whom_least_was_done() -> None:
    threads, order, first = OwnerThreads(2, name="test"), list[str](), threading.Event()
    with held(threads) as hold:
        threads.put(owner="a", call=hold)
        threads.put(owner="b", call=lambda: first.wait(PATIENCE_S))
        hold.wait(1)
        asked = [
            threads.put(owner=name[0], call=lambda name=name: order.append(name))
            for name in ("a1", "a2", "b1", "b2", "c1", "b3")
        ]
        first.set()
        for one in asked:
            one.result(PATIENCE_S)

    assert order == ["b1", "c1", "b2", "b3", "a1", "a2"], "for a another thread is at work"


def test_what_is_cancelled_before_it_has_begun_is_not_done_and_takes_no_turn() -> None:
    threads = OwnerThreads(3, name="test", owner_max=1)
    with held(threads) as hold:
        asked = [threads.put(owner="a", call=hold) for _ in range(5)]
        hold.wait(1)
        assert [one.cancel() for one in asked] == [False, True, True, True, True]

    assert hold.count == 1


def test_a_shutdown_waits_for_what_waits_and_cancels_it_where_it_is_asked_to() -> None:
    done = list[int]()
    threads = OwnerThreads(3, name="test", owner_max=1)
    for number in range(20):
        threads.put(owner="a", call=lambda number=number: done.append(number))
    threads.shutdown()
    assert done == list(range(20))
    with pytest.raises(RuntimeError):
        threads.submit(print)

    threads = OwnerThreads(3, name="test", owner_max=1)
    hold = Hold()
    asked = [threads.put(owner="a", call=hold) for _ in range(5)]
    hold.wait(1)
    threads.shutdown(wait=False, cancel_futures=True)
    hold.let_go()
    threads.shutdown()
    assert [one.cancelled() for one in asked] == [False, True, True, True, True]


def test_an_error_ends_the_turn_of_its_owner() -> None:
    threads = OwnerThreads(2, name="test", owner_max=1)
    failed = threads.put(owner="a", call=lambda: 1 // 0)
    assert threads.put(owner="a", call=lambda: "done").result(PATIENCE_S) == "done"
    with pytest.raises(ZeroDivisionError):
        failed.result(PATIENCE_S)
    threads.shutdown()


def test_a_user_of_a_server_is_answered_while_another_has_it_do_sixty_slow_things(tmp_path: Path) -> None:
    """Six threads did what had come first: who came later got no answer in 40 seconds."""

    async def scenario() -> None:
        async with house(tmp_path) as home, on_a_port(home.app) as address:
            hold = Hold()
            content_owner.set("somebody else")
            asked = [asyncio.create_task(asyncio.to_thread(hold)) for _ in range(60)]
            try:
                async with httpx.AsyncClient(
                    base_url=address, cookies=dict(home.client.cookies), timeout=PATIENCE_S
                ) as client:
                    token = (await client.get("/api/v1/me")).json()["csrf_token"]
                    answer = await client.post(
                        "/api/v1/profiles/validate",
                        json={"profile": {"profile_id": "x", "operations": []}},
                        headers={"X-CSRF-Token": token},
                    )
                assert answer.status_code == 200, answer.text
                assert 0 < hold.count < 60
                content_owner.set("")
                assert await asyncio.get_running_loop().getaddrinfo("localhost", 80)
            finally:
                hold.let_go()
                await asyncio.gather(*asked)

    asyncio.run(scenario())


def test_what_a_worker_does_for_a_tenant_takes_turns_in_that_name(tmp_path: Path) -> None:
    """It was all done in the name of the process, so that the agents of one tenant came before all users."""
    owners = list[str]()

    @tool(side_effect=False)
    async def look() -> str:
        """Look."""
        owners.append(content_owner.get())
        if len(owners) == 1:
            await kernel.for_tenant("t").pause("r")
        return "seen"

    async def scenario() -> None:
        await kernel.tenants.open(Tenant("t", grants={"tools:*"}))
        agent = AutonomousAgent(kernel=kernel)
        await agent.run(run_id="r", model="m", prompt="look", tenant="t", on_wait="return")
        await kernel.for_tenant("t").resume("r")
        assert await Worker(kernel, kernel.services).once() == 1

    model = ScriptedModel([*[tool_call("look", {})] * 2, "done"])
    with Kernel.open(tmp_path / "s.db", models=model, tools=[look], environ={}) as kernel:
        asyncio.run(scenario())
    assert owners == ["", "tenant t"]


def test_while_content_of_one_user_is_read_that_of_others_is() -> None:
    release, order = threading.Event(), list[str]()

    def hold() -> None:
        assert release.wait(30)
        order.append("first")

    async def read(owner: str, work: Callable[[], None]) -> None:
        content_owner.set(owner)
        await run_in_content_thread(1, work)

    async def main() -> None:
        held = asyncio.create_task(read("a", hold))
        second = asyncio.create_task(read("a", lambda: order.append("second")))
        await asyncio.create_task(read("b", lambda: order.append("other")))
        release.set()
        await asyncio.gather(held, second)

    asyncio.run(main())
    assert order == ["other", "first", "second"]


def test_a_content_thread_rests_while_the_event_loop_is_at_work() -> None:
    ended = threading.Event()
    took_s = list[float]()

    def work() -> None:
        began_s = time.perf_counter()
        for _ in range(20):
            give_way()
        took_s.append(time.perf_counter() - began_s)
        ended.set()

    async def main() -> None:
        reading = asyncio.create_task(run_in_content_thread(1, work))
        await asyncio.sleep(0)
        while not ended.is_set():
            sum(range(1000))  # takes the interpreter, as a loop that is at work does
        await reading

    asyncio.run(main())
    assert took_s[0] >= 10 * REST_S


def test_places_that_one_owner_has_not_are_free_for_others() -> None:
    order, release = list[str](), asyncio.Event()

    async def main() -> None:
        places = PlaceTurns(2, owner_max=1)

        async def work(owner: str) -> None:
            async with places.turn(owner):
                order.append(owner)
                await release.wait()

        many = [asyncio.create_task(work("many")) for _ in range(5)]
        await asyncio.sleep(0.01)
        other = asyncio.create_task(work("other"))
        await asyncio.sleep(0.01)
        assert order == ["many", "other"]
        many[1].cancel()
        release.set()
        await asyncio.gather(*many, other, return_exceptions=True)
        assert len(order) == 5

    asyncio.run(main())
