"""DBOS: a workflow whose steps are the calls of the model and of the tool, over SQLite."""

# pyright: basic, reportMissingImports=false, reportMissingModuleSource=false

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dbos import DBOS, SetWorkflowID

from artelier_lab.bench.peers.workload import TASK, Watch, following, note

PACKAGES = ("dbos",)

_watch = Watch()


@DBOS.step()
async def _ask(last: str, turns: int) -> dict[str, Any]:
    number = following(last)
    _watch.note_asked(number)
    return {"text": "done"} if number > turns else {"tool": "note", "number": number}


@DBOS.step()
async def _note(number: int) -> str:
    return note(number)


@DBOS.workflow()
async def _agent(turns: int) -> str:
    messages = [TASK]
    while "number" in (reply := await _ask(messages[-1], turns)):
        messages.append(await _note(reply["number"]))
    return str(reply["text"])


def launch(folder: Path) -> None:
    """Open the system database of a folder. What was at work when its process died is recovered at once."""
    url = f"sqlite:///{folder / 'dbos.db'}"
    DBOS(
        config={"name": "peers", "system_database_url": url, "log_level": "ERROR", "application_version": "1"}
    )
    DBOS.launch()


async def _run(run: str, turns: int) -> None:
    with SetWorkflowID(run):
        handle = await DBOS.start_workflow_async(_agent, turns)
    assert await handle.get_result() == "done"


async def _all(runs: Sequence[str], turns: int) -> None:
    await asyncio.gather(*(_run(run, turns) for run in runs))


def converse(folder: Path, turns: int, watch: Watch) -> None:
    """Run one agent for so many turns, or go on with it."""
    global _watch
    _watch = watch
    launch(folder)
    asyncio.run(_all(["r"], turns))
    DBOS.destroy()


def crowd(folder: Path, runs: int, watch: Watch) -> None:
    """Run so many agents at once, one turn each."""
    global _watch
    _watch = watch
    launch(folder)
    asyncio.run(_all([f"r{number}" for number in range(runs)], 1))
    DBOS.destroy()
