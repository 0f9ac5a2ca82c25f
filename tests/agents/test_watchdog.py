"""The watchdog: a run whose drives die at the same place is paused, and a person decides."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import pytest

from artelier import Kernel
from artelier.kernel.queries.reports import RunDetail
from tests.agents.crowd_of_doomed import LAST
from tests.agents.doomed import open_doomed
from tests.agents.family import CHILD, statuses, work
from tests.kernel.stage import play
from tests.processes import PATIENCE_S, run_warm


def killed(folder: Path, at: str, run: str = "r") -> bool:
    """Drive a run in a process of its own; whether that was killed."""
    ended = run_warm(
        [sys.executable, "-m", "tests.agents.doomed", str(folder), run, at],
        timeout=PATIENCE_S,
        check=False,
        capture_output=True,
    )
    assert ended.returncode in (0, -signal.SIGKILL), ended.stderr.decode()
    return ended.returncode != 0


async def shown(folder: Path, run: str = "r") -> RunDetail:
    kernel, _ = open_doomed(folder)
    with kernel:
        return await kernel.for_tenant().show(run)


@pytest.mark.slow
def test_a_run_that_kills_two_drives_at_one_step_is_parked_with_the_step(tmp_path: Path) -> None:
    # The first drive gets somewhere: it records the step at which it dies.
    assert [killed(tmp_path, "boss 0") for _ in range(4)] == [True, True, True, False]

    run = play(shown(tmp_path))

    assert run["status"] == "paused"
    assert run["reason"] == "two drives ended without progress at step c1/model"


@pytest.mark.slow
def test_resuming_a_parked_run_counts_from_the_start_and_lets_it_end(tmp_path: Path) -> None:
    while killed(tmp_path, "boss 0"):
        pass

    async def scenario() -> tuple[str, str]:
        kernel, agent = open_doomed(tmp_path)
        with kernel:
            still = await work(agent)
            await kernel.for_tenant().resume("r")
            return still.status, (await work(agent)).status

    assert play(scenario()) == ("paused", "completed")


@pytest.mark.slow
def test_drives_that_get_further_each_time_are_never_counted(tmp_path: Path) -> None:
    places = ["boss 0", "boss 0", "worker 0", "worker 0", "worker 1", "worker 1", "boss 1", "boss 1"]

    assert all(killed(tmp_path, at) for at in places)
    assert not killed(tmp_path, "")

    assert play(shown(tmp_path))["status"] == "completed"


@pytest.mark.slow
def test_the_child_that_ends_its_process_is_parked_and_not_its_parent(tmp_path: Path) -> None:
    while killed(tmp_path, "worker 1"):
        pass

    async def scenario() -> dict[str, str]:
        kernel, _ = open_doomed(tmp_path)
        with kernel:
            return await statuses(kernel)

    assert play(scenario()) == {"r": "waiting", CHILD: "paused"}
    assert "at step" in play(shown(tmp_path, CHILD))["reason"]

    async def go_on() -> str:
        kernel, agent = open_doomed(tmp_path)
        with kernel:
            await kernel.for_tenant().resume(CHILD)
            return (await work(agent)).status

    assert play(go_on()) == "completed"


@pytest.mark.slow
def test_runs_beside_the_one_that_ends_its_process_are_not_parked_with_it(tmp_path: Path) -> None:
    """All three have stalled when process 3 begins; it takes them up one after the other."""
    for number in range(1, LAST + 1):
        ended = run_warm(
            [sys.executable, "-m", "tests.agents.crowd_of_doomed", str(tmp_path), str(number)],
            timeout=PATIENCE_S,
            check=False,
            capture_output=True,
        )
        assert ended.returncode == (0 if number == LAST else -signal.SIGKILL), ended.stderr.decode()

    async def scenario() -> dict[str, str]:
        with Kernel.open(tmp_path / "s.db") as kernel:
            return await statuses(kernel)

    assert play(scenario()) == {"bad": "paused", "calm-1": "completed", "calm-2": "completed"}
