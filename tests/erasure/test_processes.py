"""A real second process erases while this one is at work: what is gone is refused, all else goes on."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from artelier import Kernel
from artelier.errors import Erased
from artelier.testing import ManualClock
from tests.erasure.test_subjects import SEALED, WORDS, assert_nowhere, history, look_up, work
from tests.kernel.stage import echo, play
from tests.processes import PATIENCE_S

pytestmark = pytest.mark.slow


async def erase(database: Path, environ: dict[str, str], subject: str) -> tuple[int, Any]:
    """`artelier erase` in a process of its own: its exit code, and what it says."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "artelier",
        "erase",
        "--tenant",
        "acme",
        "--subject",
        subject,
        "--yes",
        "--json",
        "--db",
        str(database),
        env={**os.environ, "ARTELIER_VAULT_KEY": "", **environ},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(PATIENCE_S):
        said, complaint = await process.communicate()
    assert said, complaint.decode()
    return process.returncode or 0, json.loads(said)


def opened(path: Path, environ: dict[str, str], **more: Any) -> Kernel:
    return Kernel.open(path / "s.db", models={"m": echo()}, tools=[look_up, history], environ=environ, **more)


@SEALED
def test_another_process_erases_while_runs_of_others_go_on(tmp_path: Path, environ: dict[str, str]) -> None:
    async def scenario() -> None:
        with opened(tmp_path, environ) as kernel:
            desk, database = kernel.for_tenant("acme"), tmp_path / "s.db"
            async with desk.run("r18", subject="customer-18") as other:
                await other.step_tool("look_up", {"customer": "before"})
                async with desk.run("r17", subject="customer-17") as run:
                    await work(run, WORDS[0])
                    code, said = await erase(database, environ, "customer-17")
                    assert code != 0 and said["error"]["code"] == "lease_held"
                    await run.step_tool("look_up", {"customer": WORDS[0]})
                    run.finish(WORDS[1])

                code, said = await erase(database, environ, "customer-17")

                assert (code, said["runs"], said["cleaned"]) == (0, ["r17"], True)
                with pytest.raises(Erased):
                    await desk.render("r17", "two")
                await other.step_tool("look_up", {"customer": "after"})
                await work(other, "quartz")
                async with desk.run("r19", subject="customer-17") as again:
                    await again.step_tool("look_up", {"customer": "anew"})
                    again.finish("anew")
                other.finish("done")
            assert (await desk.show("r18"))["status"] == "completed"
            assert (await desk.show("r19"))["status"] == "completed"
            assert "quartz" in (await desk.render("r18", "two")).messages[0].text
            assert kernel.verify().ok
        assert_nowhere(tmp_path, WORDS)

    play(scenario(), within_s=4 * PATIENCE_S)


@SEALED
def test_a_run_whose_process_slept_too_long_stores_nothing_under_its_old_key(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    """Its clock stands in the past, so that its lease is over for everybody else."""

    async def scenario() -> None:
        with opened(tmp_path, environ, clock=ManualClock()) as kernel:
            desk = kernel.for_tenant("acme")
            async with desk.run("r18", subject="customer-18") as other:
                with pytest.raises(Erased):
                    async with desk.run("r17", subject="customer-17") as run:
                        await work(run, WORDS[0])
                        code, said = await erase(tmp_path / "s.db", environ, "customer-17")
                        assert (code, said["cleaned"]) == (0, True)
                        await run.step_tool("look_up", {"customer": f"late {WORDS[1]}"})
                await other.step_tool("look_up", {"customer": "quartz"})
                other.finish("done")
            assert (await desk.show("r18"))["status"] == "completed"
            with pytest.raises(Erased):
                async with desk.run("r17"):
                    pass
            assert kernel.verify().ok
        assert_nowhere(tmp_path, WORDS)

    play(scenario(), within_s=4 * PATIENCE_S)
