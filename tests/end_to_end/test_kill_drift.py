"""Code that changes under runs, while processes are killed with `kill -9` at each instant.

Whatever the instant, a run goes on in one fork and no other, under the version that it began with, and does
nothing twice.
"""

from __future__ import annotations

from pathlib import Path
from shutil import copytree
from typing import Any

import pytest

from artelier import Kernel, Run
from tests.end_to_end.lives import STORE, Life, instants, lived, outside, shop
from tests.end_to_end.test_kill_undo import settling, unknown
from tests.kernel.stage import EAGER, ask, drive, echo, events, kinds, play, result_of

pytestmark = pytest.mark.slow

DRIFT: dict[str, Any] = {"replay": "fork_on_drift", "on_wait": "suspend"}


async def old(run: Run) -> Any:
    """The code as it was: it pays, asks, pays again, and waits."""
    await run.step_tool("pay", {"to": "ann"}, key="first")
    await ask(run, "old")
    await run.step_tool("pay", {"to": "bob"}, key="late")
    return await run.wait_for("go")


async def new(run: Run) -> Any:
    """The code after its change: another question, another payee; then all is taken back."""
    await run.step_tool("pay", {"to": "ann"}, key="first")
    said = await ask(run, "new")
    await run.step_tool("pay", {"to": "cid"}, key="late")
    return [said, list((await run.compensate()).undone)]


async def newer(run: Run) -> Any:
    """Changed once more, in the part that `new` shared with `old`."""
    await run.step_tool("pay", {"to": "eve"}, key="first")
    return [await ask(run, "newer"), list((await run.compensate()).undone)]


async def drive_old(life: Life) -> None:
    with life.open() as kernel:
        await drive(kernel.for_tenant(), old, on_wait="suspend")


async def drive_new(life: Life) -> None:
    with life.open() as kernel:
        await drive(kernel.for_tenant(), new, **DRIFT)


async def drive_newer(life: Life) -> None:
    with life.open() as kernel:
        await drive(kernel.for_tenant(), newer, **DRIFT)


def opened(folder: Path) -> Kernel:
    return Kernel.open(folder / STORE, models=echo(), tools=shop(Life(folder, 0)), policy=EAGER, environ={})


def status_of(folder: Path, run: str) -> str:
    async def look() -> str:
        with opened(folder) as kernel:
            return (await kernel.for_tenant().show(run))["status"]

    return play(look())


def to_the_end(scenario: Any, folder: Path) -> None:
    """Live on until nothing is unknown any more; nobody dies now."""
    for _ in range(9):
        assert lived(scenario, folder)
        if unknown(folder):
            assert lived(settling, folder)
        else:
            return
    pytest.fail("it comes to no end")


NEW = ["re: new", ["late", "r:late", "r:first"]]
NEW_DONE = [
    "pay ann default/r:first",
    "pay bob default/r:late",
    "pay cid default/r.drift-1:late",
    "undo cid default/r.drift-1:late/undo",
    "undo bob default/r:r:late/undo",
    "undo ann default/r:r:first/undo",
]


def assert_whole(folder: Path, run_id: str, code: Any, result: Any, why: object) -> None:
    """The log verifies, and a strict replay of the newest fork gives the same and calls nothing."""
    before = outside(folder)

    async def check() -> None:
        with opened(folder) as kernel:
            report = kernel.verify()
            assert report.ok, (why, report.findings)
            runs = kernel.for_tenant()
            assert await runs.goes_on_as("r") == run_id, why
            assert await result_of(runs, run_id) == result, why
            replayed = await runs.replay(run_id, code)
            assert (replayed.result, replayed.model_calls, replayed.tool_calls) == (result, 0, 0)

    play(check())
    assert outside(folder) == before, why


async def left_behind(folder: Path) -> tuple[str, str, set[str]]:
    """What became of the run that drifted, and all runs there are."""
    with opened(folder) as kernel:
        runs = kernel.for_tenant()
        shown = await runs.show("r")
        assert (await kinds(kernel, "r")).count("run.drifted") == 1
        names = {run["id"] for run in (await runs.runs())["items"]}
        return shown["status"], shown["reason"], names


async def newest(folder: Path) -> tuple[str, Any]:
    """The run in which it goes on, and its result."""
    with opened(folder) as kernel:
        runs = kernel.for_tenant()
        name = await runs.goes_on_as("r")
        return name, await result_of(runs, name)


def test_a_run_that_drifts_is_killed_at_each_instant(tmp_path: Path) -> None:
    begun, deaths, forked = tmp_path / "begun", 0, 0
    begun.mkdir()
    assert lived(drive_old, begun)
    for deadly in instants():
        folder = copytree(begun, tmp_path / f"drift-{deadly}")
        if lived(drive_new, folder, deadly=deadly):
            break
        deaths += 1
        forked += status_of(folder, "r") == "cancelled"
        to_the_end(drive_new, folder)

        assert outside(folder) == NEW_DONE, deadly
        assert_whole(folder, "r.drift-1", new, NEW, deadly)
        assert play(left_behind(folder)) == ("cancelled", "drifted", {"r", "r.drift-1"}), deadly
    assert forked > 2


def test_a_run_is_killed_under_its_old_code_and_goes_on_under_the_new(tmp_path: Path) -> None:
    """A side effect of the old code without a known outcome is settled before the run goes elsewhere."""
    deaths, ends = 0, set[str]()
    for deadly in instants():
        folder = tmp_path / f"drift-{deadly}"
        folder.mkdir()
        if lived(drive_old, folder, deadly=deadly):
            break
        deaths += 1
        to_the_end(drive_new, folder)

        done = outside(folder)
        assert len(done) == len(set(done)), (deadly, done)
        paid = {line.split()[1] for line in done if line.startswith("pay")}
        taken_back = {line.split()[1] for line in done if line.startswith("undo")}
        assert paid == taken_back >= {"ann", "cid"}, (deadly, done)

        name, result = play(newest(folder))
        ends.add(name)
        assert_whole(folder, name, new, result, deadly)
    assert deaths > 1
    assert ends <= {"r", "r.drift-1"}


def test_code_that_changes_twice_goes_on_in_one_fork_after_the_other(tmp_path: Path) -> None:
    begun, deaths = tmp_path / "begun", 0
    begun.mkdir()
    assert lived(drive_old, begun)
    assert not lived(drive_new, begun, deadly=20)  # in the middle of the first fork
    to_the_end(settling, begun)
    for deadly in instants():
        folder = copytree(begun, tmp_path / f"drift-{deadly}")
        if lived(drive_newer, folder, deadly=deadly):
            break
        deaths += 1
        to_the_end(drive_newer, folder)

        done = outside(folder)
        assert len(done) == len(set(done)), (deadly, done)
        assert {line.split()[1] for line in done if line.startswith("undo")} == {
            line.split()[1] for line in done if line.startswith("pay")
        }, (deadly, done)
        assert_whole(folder, "r.drift-2", newer, play(newest(folder))[1], deadly)
    assert deaths > 1


# Versions


async def versioned(run: Run, latest: int) -> Any:
    """What is paid depends on the version that the run goes by."""
    await ask(run, "start")
    number = await run.version("payee", latest)
    await run.step_tool("pay", {"to": f"v{number}"}, key="pay")
    await ask(run, f"done {number}")
    return [number, await run.version("payee", latest)]


async def drive_versioned(life: Life) -> None:
    """Each life has newer code than the one before."""
    counter = life.folder / "lives.txt"
    number = int(counter.read_text()) + 1 if counter.exists() else 1
    counter.write_text(str(number))
    with life.open() as kernel:
        await drive(kernel.for_tenant(), lambda run: versioned(run, number), on_wait="suspend")


async def recorded(folder: Path) -> int:
    with opened(folder) as kernel:
        (found,) = [e for e in await events(kernel) if e.kind == "version.recorded"]
        return found.plain()["version"]


def test_a_run_goes_by_the_version_that_it_recorded_wherever_it_is_killed(tmp_path: Path) -> None:
    versions = set[int]()
    for deadly in instants():
        folder = tmp_path / f"drift-{deadly}"
        folder.mkdir()
        if lived(drive_versioned, folder, deadly=deadly):
            break
        to_the_end(drive_versioned, folder)

        number = play(recorded(folder))
        versions.add(number)
        assert outside(folder) == [f"pay v{number} default/r:pay"], deadly
        assert_whole(folder, "r", lambda run: versioned(run, 99), [number, number], deadly)
    assert versions == {1, 2}, "some were killed before the line, some behind it"
