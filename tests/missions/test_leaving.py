"""Rights that are taken while a task decides hold for what it is shown next."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from artelier import Kernel, ModelRequest
from artelier.app import TenantKernel
from artelier.missions.task.task_runner import drive_task
from tests.missions.task_stage import (
    AGENT,
    REPORT,
    Actor,
    look,
    make_task,
    opened,
    play,
    replayed,
    text_of,
    write,
)
from tests.missions.test_task_acts import agent

POOL, OTHER, SECRET = "m/pool", "m/other", "m/secret"
CANARY = "the canary sings at dawn"


async def share(desk: TenantKernel) -> None:
    """Another agent shares a document in a membrane of both."""
    await agent(desk)
    await agent(desk, OTHER)
    await desk.membranes.create(POOL, name="Pool", members=[AGENT, OTHER])
    access = {"allow": {"read": ["operator", f"membrane:{POOL}"]}}
    await desk.as_principal(OTHER).artifacts.write(SECRET, kind="document", content=CANARY, access=access)


async def again(kernel: Kernel) -> int:
    """How many readings after a decision are recorded."""
    rows = await kernel.store.query(
        "SELECT count(*) FROM events WHERE kind = 'step.completed' AND data LIKE '%/read-again/%'"
    )
    return rows[0][0]


@pytest.mark.parametrize("inputs", [(), (SECRET,)])
def test_who_leaves_a_membrane_while_it_decides_writes_without_what_is_shared_there(
    tmp_path: Path, inputs: tuple[str, ...]
) -> None:
    async def scenario() -> None:
        async def leave(_: ModelRequest) -> Any:
            await desk.membranes.leave(POOL, AGENT, "user:bo")
            return write()

        actor = Actor(look(), leave)
        with opened(tmp_path, actor) as kernel:
            desk = kernel.for_tenant()
            await share(desk)
            job = await make_task(desk, inputs=list(inputs))
            result = await drive_task(desk, job.task, job, on_wait="return")

            assert result.status == "done"
            for decision in actor.requests():
                assert CANARY in text_of(decision)
            (content,) = actor.requests("content")
            assert CANARY not in text_of(content)
            assert await again(kernel) == 1 + len(inputs)
            assert (await replayed(desk)).status == "completed"
            made = await desk.as_principal("operator").artifacts.read("m/report")
            assert f"{SECRET}@1" in made.provenance.derived_from  # its decision was made with it

    play(scenario())


def test_a_task_that_was_cut_off_goes_on_with_what_it_was_shown(tmp_path: Path) -> None:
    async def scenario() -> None:
        is_asked = asyncio.Event()

        async def leave(_: ModelRequest) -> Any:
            await desk.membranes.leave(POOL, AGENT, "user:bo")
            return write()

        async def hang(_: ModelRequest) -> Any:
            is_asked.set()
            await asyncio.Event().wait()

        actor = Actor(look(), leave, content=[hang, REPORT])
        with opened(tmp_path, actor) as kernel:
            desk = kernel.for_tenant()
            await share(desk)
            job = await make_task(desk)
            driven = asyncio.create_task(drive_task(desk, job.task, job, on_wait="return"))
            await is_asked.wait()
            driven.cancel()
            await asyncio.gather(driven, return_exceptions=True)
            await desk.membranes.join(POOL, AGENT, "user:bo")
            result = await drive_task(desk, job.task, job, on_wait="return")

            assert result.status == "done"
            first, second = actor.requests("content")
            assert text_of(first) == text_of(second)
            assert CANARY not in text_of(second)
            assert (await replayed(desk)).status == "completed"

    play(scenario())


def test_what_has_not_changed_since_the_decision_is_not_recorded_again(tmp_path: Path) -> None:
    async def scenario() -> None:
        actor = Actor(look(), write())
        with opened(tmp_path, actor) as kernel:
            desk = kernel.for_tenant()
            await share(desk)
            job = await make_task(desk, inputs=[SECRET])
            result = await drive_task(desk, job.task, job, on_wait="return")

            assert result.status == "done"
            assert CANARY in text_of(actor.requests("content")[0])
            assert await again(kernel) == 0
            assert (await replayed(desk)).status == "completed"

    play(scenario())
