"""Leases over the ends of kernels and over clocks that disagree: nobody is locked out, nobody is robbed."""

from __future__ import annotations

import asyncio
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from artelier import Kernel, ToolContext, tool
from artelier.errors import LeaseHeld
from artelier.kernel.run.services import Services
from artelier.process import holder, is_dead, retire, uptime_us
from artelier.testing import ManualClock
from tests.kernel.stage import open_kernel, play


class SkewedClock:
    """A clock of somebody else's making, an hour ahead (or behind, with a negative skew)."""

    def __init__(self, skew_s: int) -> None:
        self._skew_us = skew_s * 1_000_000

    def now_us(self) -> int:
        import time

        return time.time_ns() // 1000 + self._skew_us

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


def test_an_opening_cancelled_at_any_instant_leaves_no_lease_behind(tmp_path: Path) -> None:
    async def scenario(turns: int) -> None:
        """Cancel the opening after some turns of the loop, and close."""
        with open_kernel(tmp_path) as kernel:

            async def drive() -> None:
                async with kernel.run(f"r{turns}"):
                    await asyncio.Event().wait()

            driving = asyncio.create_task(drive())
            for _ in range(turns):
                await asyncio.sleep(0)
            driving.cancel()
            # The kernel is closed at once: what the cancelled opening has begun is still on its way.
        await asyncio.gather(driving, return_exceptions=True)

        with open_kernel(tmp_path) as kernel:
            async with kernel.run(f"r{turns}") as run:
                assert run.status == "running"

    for turns in range(12):
        play(scenario(turns))


def test_a_kernel_that_is_closed_while_it_drives_a_run_gives_the_run_back(tmp_path: Path) -> None:
    async def scenario() -> None:
        kernel = open_kernel(tmp_path)
        opening = kernel.run("r")
        await opening.__aenter__()
        kernel.close()

        with open_kernel(tmp_path) as other:
            rows = await other.store.query("SELECT holder FROM leases")
            assert rows == []
            async with other.run("r") as run:
                run.finish("done")

    play(scenario())


def test_a_closed_kernel_of_this_process_is_known_to_be_gone() -> None:
    name = holder()
    assert not is_dead(name)
    assert not is_dead(f"{name}/command")

    retire(name)

    assert is_dead(name)
    assert is_dead(f"{name}/command")


def test_a_lease_that_could_not_be_given_back_at_the_end_is_recognised(tmp_path: Path) -> None:
    """Another program holds the file locked while the kernel closes, so that its lease stays."""
    import sqlite3

    async def scenario() -> None:
        kernel = open_kernel(tmp_path)
        await kernel.run("r").__aenter__()
        lock = sqlite3.connect(tmp_path / "s.db", isolation_level=None)
        lock.execute("BEGIN IMMEDIATE")
        kernel.close()
        assert lock.execute("SELECT count(*) FROM leases").fetchone() == (1,)
        lock.execute("ROLLBACK")
        lock.close()

        with open_kernel(tmp_path) as other:
            async with other.run("r") as run:
                run.finish("done")

    play(scenario())


_DRIVER = """
import asyncio, sys
from artelier import Kernel, ToolContext, tool

async def main():
    with Kernel.open(sys.argv[1], environ={}) as kernel:
        async with kernel.run("r"):
            print("driving", flush=True)
            await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)

asyncio.run(main())
"""


def test_a_killed_process_is_gone_before_its_parent_takes_note(tmp_path: Path) -> None:
    """As of a sweep: the parent of its processes was killed with it, and whoever inherits them is slow."""
    path = tmp_path / "s.db"
    Kernel.open(path, environ={}).close()
    with subprocess.Popen(
        [sys.executable, "-c", _DRIVER, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as driver:
        assert driver.stdout is not None
        assert driver.stdout.readline() == "driving\n"
        driver.kill()
        assert driver.stdout.read() == ""  # its files are closed; that it has ended, nobody has asked

        async def take_over() -> None:
            with open_kernel(tmp_path) as kernel:
                async with kernel.run("r") as run:
                    run.finish("done")

        play(take_over())


def test_a_process_that_cannot_open_a_file_takes_no_living_lease(tmp_path: Path) -> None:
    """What it could not read of another one was taken for its end: a payment was made twice."""
    path = tmp_path / "s.db"
    Kernel.open(path, environ={}).close()

    async def take_over() -> None:
        with open_kernel(tmp_path) as kernel:
            with pytest.raises(LeaseHeld):  # and the store is at work
                async with kernel.run("r"):
                    pass
            limits = resource.getrlimit(resource.RLIMIT_NOFILE)
            held: list[int] = []
            resource.setrlimit(resource.RLIMIT_NOFILE, (min(256, limits[1]), limits[1]))
            try:
                with pytest.raises(OSError, match="Too many open files"):
                    while True:
                        held.append(os.open(os.devnull, os.O_RDONLY))
                with pytest.raises(LeaseHeld):
                    async with kernel.run("r"):
                        pass
            finally:
                for one in held:
                    os.close(one)
                resource.setrlimit(resource.RLIMIT_NOFILE, limits)

    with subprocess.Popen(
        [sys.executable, "-c", _DRIVER, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as driver:
        assert driver.stdout is not None
        assert driver.stdout.readline() == "driving\n"
        play(take_over())
        driver.kill()


@pytest.mark.parametrize("skew_s", [3600, -3600])
def test_a_process_whose_clock_is_wrong_takes_no_living_lease(tmp_path: Path, skew_s: int) -> None:
    path = tmp_path / "s.db"
    Kernel.open(path, environ={}).close()
    with subprocess.Popen(
        [sys.executable, "-c", _DRIVER, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as driver:
        assert driver.stdout is not None
        assert driver.stdin is not None
        assert driver.stdout.readline() == "driving\n"

        async def steal() -> None:
            with Kernel.open(path, clock=SkewedClock(skew_s), environ={}) as kernel:
                async with kernel.run("r"):
                    pass

        with pytest.raises(LeaseHeld, match="driven by another process"):
            play(steal())

        driver.stdin.close()
        assert driver.wait() == 0


def test_a_lease_of_another_machine_ends_by_the_time_of_day(tmp_path: Path) -> None:
    """Nothing is known of its uptime, nor whether its process lives."""

    async def scenario() -> None:
        with open_kernel(tmp_path) as kernel:
            services: Services = kernel.services
            now_us = services.clock.now_us()
            assert uptime_us("elsewhere|boot|1|2|key") is None
            assert services.is_driving("elsewhere|boot|1|2|key", (now_us + 60_000_000, 5))
            assert not services.is_driving("elsewhere|boot|1|2|key", (now_us - 1, 10**15))

    play(scenario())


def test_a_side_effect_begins_a_second_before_its_lease_ends_at_the_latest(tmp_path: Path) -> None:
    """Who takes the run over goes by another clock, which differs a little."""
    clock, left_us = ManualClock(), list[int]()

    async def pay() -> str:
        "Pay."
        ((expires_us,),) = kernel.store.look("SELECT expires_us FROM leases")
        left_us.append(expires_us - clock.now_us())
        return "paid"

    async def scenario() -> None:
        async with kernel.run("r") as run:
            for _ in range(3):
                await run.step_tool("pay", {})
                clock.advance(14.75)

    with open_kernel(tmp_path, clock=clock, tools=[tool(side_effect=True)(pay)]) as kernel:
        play(scenario())

    assert left_us == [30_000_000, 15_250_000, 30_000_000]


def test_a_tool_is_told_a_number_that_grows_with_each_takeover(tmp_path: Path) -> None:
    """So that the outside can refuse a call of a process that was stopped before it made it."""
    told: list[int] = []

    async def pay(ctx: ToolContext) -> str:
        "Pay."
        told.append(ctx.fencing_token)
        return "paid"

    async def drive(*, payments: int, done: asyncio.Event) -> None:
        with open_kernel(tmp_path, tools=[tool(side_effect=True)(pay)]) as kernel:
            async with kernel.run("r") as run:
                for _ in range(payments):
                    await run.step_tool("pay", {})
                done.set()
                await asyncio.Event().wait()

    async def drive_until_cancelled(*, payments: int) -> None:
        done = asyncio.Event()
        driving = asyncio.ensure_future(drive(payments=payments, done=done))
        await done.wait()
        driving.cancel()
        await asyncio.gather(driving, return_exceptions=True)

    for payments in (2, 3):
        play(drive_until_cancelled(payments=payments))

    first, again, second = told
    assert 0 < first == again < second
