"""Code can change under runs that are at work: `run.version` says which version of a change a run goes by."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from artelier import Run
from artelier.errors import InvalidRequest
from tests.kernel.crashes import Deaths
from tests.kernel.stage import Code, World, ask, drive, echo, kinds, open_kernel, play, result_of


async def before(run: Run) -> list[Any]:
    """The code before it was changed: it asks `old`, then waits."""
    return [await ask(run, "start"), await ask(run, "old"), await run.wait_for("go")]


def after(latest: int = 1, *, default: int = 0) -> Code:
    """The changed code asks `new <n>` instead where its run goes by version n."""

    async def code(run: Run) -> list[Any]:
        first = await ask(run, "start")
        number = await run.version("friendlier", latest, default=default)
        assert await run.version("friendlier", latest, default=default) == number
        text = f"new {number}" if number else "old"
        return [first, await ask(run, text), await run.wait_for("go")]

    return code


def test_a_run_that_was_past_the_point_keeps_the_old_code_and_a_new_one_takes_the_new(tmp_path: Path) -> None:
    model = echo()

    async def scenario() -> None:
        with open_kernel(tmp_path, model) as kernel:
            runs = kernel.for_tenant()
            assert await drive(runs, before, on_wait="suspend") == "waiting"

            assert await drive(runs, after(), on_wait="suspend") == "waiting"  # resumed under new code
            assert await drive(runs, after(), "new", on_wait="suspend") == "waiting"

            for run_id in ("r", "new"):
                await runs.signal(run_id, "go")
                assert await drive(runs, after(2), run_id) == "completed"  # the code has changed again
            assert (await result_of(runs))[:2] == ["re: start", "re: old"]
            assert (await result_of(runs, "new"))[:2] == ["re: start", "re: new 1"]
            assert len(model.requests) == 4
            assert (await kinds(kernel, "new")).count("version.recorded") == 1
            assert await drive(runs, after(2), "newest", on_wait="suspend") == "waiting"
            assert "new 2" in model.requests[-1].messages[-1].text
            # A strict replay, of code that knows the change and of code that does not ask any more.
            assert (await runs.replay("new", after(2))).result == await result_of(runs, "new")

            async def without(run: Run) -> list[Any]:
                return [await ask(run, "start"), await ask(run, "new 1"), await run.wait_for("go")]

            assert (await runs.replay("new", without)).result == await result_of(runs, "new")
            assert (await runs.replay("r", before)).result == await result_of(runs)

    play(scenario())


def test_a_run_that_has_not_come_to_the_point_takes_the_newest(tmp_path: Path) -> None:
    async def short(run: Run) -> list[Any]:
        first = await ask(run, "start")
        raise KeyboardInterrupt(first)

    async def scenario() -> None:
        with open_kernel(tmp_path) as kernel:
            runs = kernel.for_tenant()
            with pytest.raises(KeyboardInterrupt):
                await drive(runs, short)
            await drive(runs, after(3), on_wait="suspend")
            await runs.signal("r", "go")
            assert await drive(runs, after(4)) == "completed"
            assert (await result_of(runs))[1] == "re: new 3"

    play(scenario())


def test_a_fork_goes_by_what_its_origin_had_recorded_before_it(tmp_path: Path) -> None:
    async def scenario() -> None:
        with open_kernel(tmp_path) as kernel:
            runs = kernel.for_tenant()
            await drive(runs, after(1), on_wait="suspend")
            events = [event async for event in kernel.events() if event.stream.id == "r"]
            (recorded,) = [event.seq for event in events if event.kind == "version.recorded"]

            late = await runs.fork("r", at=recorded)
            early = await runs.fork("r", at=recorded - 1)

            for name in (late, early):
                await drive(runs, after(2), name, on_wait="suspend")
                await runs.signal(name, "go")
                await drive(runs, after(2), name)
            assert (await result_of(runs, late))[1] == "re: new 1"
            assert (await result_of(runs, early))[1] == "re: new 2"

    play(scenario())


def test_it_is_the_same_version_after_a_crash_at_any_point(tmp_path: Path) -> None:
    from artelier import Kernel
    from artelier.testing import ManualClock
    from tests.kernel.stage import EAGER

    async def code(run: Run) -> list[Any]:
        first = await ask(run, f"v{await run.version('a', 1)}")
        return [first, await ask(run, f"v{await run.version('b', 2)}")]

    deaths = Deaths(tmp_path / "s.db", World())

    async def scenario() -> None:
        clock = ManualClock()
        with open_kernel(tmp_path, fault=deaths, clock=clock) as kernel:
            await drive(kernel.for_tenant(), code)
        for death in deaths.found:
            later = ManualClock()
            later.advance(3600)
            with Kernel.open(death.path, models=echo(), policy=EAGER, clock=later) as kernel:
                runs = kernel.for_tenant()
                assert await drive(runs, code) == "completed", death
                assert await result_of(runs) == ["re: v1", "re: v2"], death

    play(scenario(), within_s=60)


@pytest.mark.parametrize("wrong", ["", "x" * 201, "a\nb", 3])
def test_a_change_has_a_name_and_versions_are_numbers(tmp_path: Path, wrong: Any) -> None:
    async def code(run: Run) -> None:
        with pytest.raises(InvalidRequest):
            await run.version(wrong)
        with pytest.raises(InvalidRequest):
            await run.version("a", -1)
        with pytest.raises(InvalidRequest):
            await run.version("a", True)

    async def scenario() -> None:
        with open_kernel(tmp_path) as kernel:
            assert await drive(kernel.for_tenant(), code) == "completed"

    play(scenario())
