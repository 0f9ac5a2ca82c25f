"""The pool: broken workers, busy workers, missing interpreters, closing, several loops."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from artelier.errors import InvalidRequest
from artelier.ports.sandbox import SandboxLimits
from artelier.sandbox import MontySandbox, SandboxError
from artelier.threads import content_group, content_owner
from tests.processes import children


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="finds workers in /proc")
def test_killed_worker_is_a_clear_error_and_is_replaced():
    async def scenario() -> tuple[str, object]:
        before = children()
        sandbox = MontySandbox(workers=1)
        await sandbox.run("1")
        (worker,) = children() - before
        idle = ticks(worker)
        looping = asyncio.create_task(sandbox.run("while True: pass", limits=SandboxLimits(time_ms=9_000)))
        while not looping.done():
            await asyncio.sleep(0.02)
            if ticks(worker) > idle + 2:
                os.kill(worker, signal.SIGKILL)
                break
        with pytest.raises(SandboxError) as caught:
            await looping
        after = await sandbox.run("1 + 1")
        await sandbox.close()
        return caught.value.reason, after.value

    def ticks(worker: int) -> int:
        """Processor time of the worker so far."""
        fields = Path(f"/proc/{worker}/stat").read_text().rpartition(")")[2].split()
        return int(fields[11]) + int(fields[12])

    assert asyncio.run(scenario()) == ("crashed", 2)


def test_busy_pool_refuses_after_its_wait():
    async def scenario() -> SandboxError:
        sandbox = MontySandbox(workers=1, wait_s=0.05)
        await sandbox.run("1")
        first = asyncio.create_task(sandbox.run("while True: pass", limits=SandboxLimits(time_ms=500)))
        await asyncio.sleep(0)
        with pytest.raises(SandboxError) as caught:
            await sandbox.run("1")
        with pytest.raises(SandboxError, match="longer than 500 ms"):
            await first
        assert (await sandbox.run("3")).value == 3
        await sandbox.close()
        return caught.value

    error = asyncio.run(scenario())
    assert error.reason == "timeout"
    assert "no sandbox worker was free" in str(error)


@pytest.mark.parametrize("users", ["a", "abc"])
def test_others_find_a_worker_while_a_tenant_has_endless_programs_run(users: str):
    """Two workers did what had come first: one of 14 ms waited five seconds behind twelve endless ones."""

    async def scenario() -> tuple[object, int]:
        sandbox, endless = MontySandbox(workers=1, wait_s=60), SandboxLimits(time_ms=2_000)
        content_group.set("a tenant")
        ahead = list[asyncio.Task[object]]()
        for user in users * (4 // len(users) + 1):
            content_owner.set(user)
            ahead.append(asyncio.create_task(sandbox.run("while True: pass", limits=endless)))
        await asyncio.sleep(0)
        content_owner.set("somebody")
        content_group.set("another tenant")
        value = (await sandbox.run("4")).value
        ended = sum(one.done() for one in ahead)
        for one in ahead:
            one.cancel()
        await asyncio.gather(*ahead, return_exceptions=True)
        await sandbox.close()
        return value, ended

    value, ended = asyncio.run(scenario())
    assert value == 4
    assert ended < 4, "it did not wait for them"


def test_cancelled_run_gives_its_worker_back():
    async def scenario() -> object:
        sandbox = MontySandbox(workers=1, wait_s=5)
        task = asyncio.create_task(sandbox.run("while True: pass", limits=SandboxLimits(time_ms=100)))
        await asyncio.sleep(0.02)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        value = (await sandbox.run("4")).value
        await sandbox.close()
        return value

    assert asyncio.run(scenario()) == 4


def test_workers_are_recycled():
    async def scenario() -> set[int]:
        before = children()
        sandbox = MontySandbox(workers=1, uses_max=2)
        seen: set[int] = set()
        for _ in range(6):
            await sandbox.run("1")
            seen |= children() - before
        await sandbox.close()
        return seen

    if not Path("/proc/self/task").exists():
        pytest.skip("finds workers in /proc")
    assert len(asyncio.run(scenario())) >= 2


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="finds workers in /proc")
def test_forgotten_sandbox_ends_its_workers():
    before = children()
    sandbox = MontySandbox()
    asyncio.run(sandbox.run("1"))
    started = children() - before

    del sandbox
    gc.collect()

    assert len(started) == 1
    deadline = time.monotonic() + 10  # a loaded machine lets a process end when it gets to it
    while any(lives(pid) for pid in started) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not any(lives(pid) for pid in started)


def lives(pid: int) -> bool:
    """Whether a process is there and no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_one_sandbox_serves_several_event_loops():
    sandbox = MontySandbox()
    values: list[object] = []

    def work() -> None:
        values.append(asyncio.run(sandbox.run("1")).value)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    asyncio.run(sandbox.close())

    assert values == [1] * 4


def test_closed_sandbox_runs_nothing():
    async def scenario() -> str:
        sandbox = MontySandbox()
        await sandbox.run("1")
        await sandbox.close()
        await sandbox.close()
        with pytest.raises(SandboxError, match="closed") as caught:
            await sandbox.run("1")
        return caught.value.reason

    assert asyncio.run(scenario()) == "crashed"


@pytest.mark.parametrize("content", [None, "#!/bin/sh\nexit 0\n", "#!/bin/sh\necho nonsense\n"])
def test_interpreter_that_does_not_start_is_an_error_and_nothing_runs(tmp_path: Path, content: str | None):
    """No fallback: the code would create a file if anything else ran it."""
    binary = tmp_path / "monty"
    if content is not None:
        binary.write_text(content)
        binary.chmod(0o755)
    owned = tmp_path / "owned"
    sandbox = MontySandbox(binary_path=binary)

    with pytest.raises(SandboxError) as caught:
        asyncio.run(sandbox.run(f"open({str(owned)!r}, 'w').write('x')"))
    asyncio.run(sandbox.close())

    assert caught.value.reason == "crashed"
    assert str(tmp_path) not in str(caught.value)
    assert not owned.exists()


def test_missing_library_is_an_error_and_nothing_runs():
    code = (
        "import asyncio, sys\n"
        "sys.modules['pydantic_monty'] = None\n"
        "from artelier.sandbox import MontySandbox, SandboxError\n"
        "try:\n"
        "    asyncio.run(MontySandbox().run('print(1)'))\n"
        "except SandboxError as error:\n"
        "    sys.stdout.write(error.reason + ' ' + str(error))\n"
    )
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert output.stdout.startswith("crashed the sandbox's interpreter is not installed")


def test_program_that_forgets_to_close_ends_cleanly():
    code = (
        "import asyncio\n"
        "from artelier.sandbox import MontySandbox\n"
        "async def main():\n"
        "    sandbox = MontySandbox()\n"
        "    for n in range(50): await sandbox.run('1')\n"
        "asyncio.run(main())\n"
    )
    for _ in range(3):
        output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        assert (output.returncode, output.stderr) == (0, "")


@pytest.mark.parametrize(
    "options", [{"workers": 0}, {"uses_max": 0}, {"wait_s": 0}, {"wait_s": float("nan")}]
)
def test_pool_without_bounds_is_refused(options: dict[str, float]):
    with pytest.raises(InvalidRequest):
        MontySandbox(**options)  # type: ignore[arg-type]
