"""`artelier step`: one cycle of a paused run, told and recorded under the person's name."""

from __future__ import annotations

import asyncio

import pytest

from artelier import Kernel, RunSuspended
from tests.cli.conftest import Shell


def _paused(shell: Shell) -> None:
    async def work() -> None:
        with Kernel.open(shell.folder / ".artelier" / "state.db", environ={}) as kernel:
            runs = kernel.for_tenant()
            with pytest.raises(RunSuspended):
                async with runs.run("r", on_wait="suspend") as run:
                    await runs.pause("r")
                    run.finish("done")

    asyncio.run(work())


def test_a_step_is_told_and_waits_for_who_drives_the_run(shell: Shell) -> None:
    shell("db", "migrate")
    _paused(shell)

    stepped = shell("step", "r")
    told = shell("runs", "tail", "r")
    shown = shell("runs", "step", "r", "--json")

    assert (stepped.code, stepped.out) == (0, "r steps; it is pending\n")
    assert "waits for somebody to drive it, for one step" in told.out
    assert shown.json["status"] == "pending"


def test_a_run_that_has_ended_takes_no_step(shell: Shell) -> None:
    shell("db", "migrate")
    _paused(shell)
    shell("cancel", "r")

    refused = shell("step", "r", "--json")

    assert (refused.code, refused.error["code"]) == (1, "conflict")
