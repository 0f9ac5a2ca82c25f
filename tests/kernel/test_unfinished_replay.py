"""What a replay that comes to an unrecorded step advises depends on how the run stands."""

from __future__ import annotations

from pathlib import Path

import pytest

from artelier import Run, RunSuspended
from artelier.errors import RunEnded
from artelier.testing import ScriptedModel
from tests.kernel.stage import open_kernel, play


async def _waits(run: Run) -> str:
    await run.step("one", lambda: 1)
    await run.approve("sure?")
    await run.step("two", lambda: 2)
    return "done"


async def _more(run: Run) -> str:
    await _waits(run)
    await run.step("three", lambda: 3)
    return "done"


async def _fails(run: Run) -> str:
    await run.step("one", lambda: 1)
    raise KeyError("no such region")


async def _goes_on(run: Run) -> str:
    await run.step("one", lambda: 1)
    await run.step("two", lambda: 2)
    return "done"


def test_the_hint_of_a_replay_fits_how_the_run_stands(tmp_path: Path) -> None:
    async def scenario() -> None:
        with open_kernel(tmp_path, ScriptedModel([])) as kernel:
            runs = kernel.for_tenant()

            async def hint(run_id: str, code: object) -> str:
                with pytest.raises(RunEnded) as ended:
                    await runs.replay(run_id, code)  # pyright: ignore[reportArgumentType]
                return str(ended.value.hint)

            with pytest.raises(RunSuspended):
                async with runs.run("w", on_wait="suspend") as run:
                    await _waits(run)
            await runs.approve("w")
            unfinished = await hint("w", _waits)
            assert "artelier resume w" in unfinished and "retry" not in unfinished

            async with runs.run("w") as run:
                run.finish(await _waits(run))
            completed = await hint("w", _more)
            assert "artelier fork w" in completed
            assert "retry" not in completed and "resume" not in completed

            with pytest.raises(KeyError):
                async with runs.run("f") as run:
                    await _fails(run)
            assert "artelier retry f" in await hint("f", _goes_on)

    play(scenario())
