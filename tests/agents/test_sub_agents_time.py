"""Deadlines of a tree of agents, and the workers that drive it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from artelier import Kernel, Limits
from artelier.agents import SubAgentFactory, Worker
from artelier.errors import InvalidRequest
from artelier.testing import ScriptedModel, tool_call
from tests.agents.family import (
    CHILD,
    Bank,
    Gate,
    all_in,
    asking,
    at_work,
    boss,
    hand,
    open_family,
    statuses,
    work,
    worker,
)
from tests.kernel.stage import kinds, play

# Time


@pytest.mark.parametrize("whose", ["parent", "child"])
def test_time_that_is_up_stops_the_tree_until_there_is_more(tmp_path: Path, whose: str) -> None:
    gate = Gate()
    models = {"boss": ScriptedModel([hand("a"), "end"]), "worker": ScriptedModel([gate, "second try"])}
    short = Limits(wall_s=0.3)

    async def scenario() -> None:
        with open_family(tmp_path, models) as kernel:
            agent = boss(kernel, worker(kernel, limits=short if whose == "child" else None))
            first = await work(agent, limits=short if whose == "parent" else None)
            assert first.status == "budget_exhausted"
            assert all_in(await statuses(kernel), "budget_exhausted")

            run_id = "r" if whose == "parent" else CHILD
            await kernel.for_tenant().limit(run_id, unit="ms", cap=60_000)
            assert (await work(agent)).text == "end"
            assert all_in(await statuses(kernel), "completed")

    play(scenario())


def test_time_that_is_up_in_a_side_effect_is_recorded_by_the_child_that_made_it(tmp_path: Path) -> None:
    bank = Bank()
    models = {
        "boss": ScriptedModel([hand("a"), "end"]),
        "worker": ScriptedModel([tool_call("pay", {"to": "ana"}), "worked"]),
    }

    async def scenario() -> None:
        with open_family(tmp_path, models) as kernel:
            agent = boss(kernel, worker(kernel, tools=[bank.tool()]))
            first = await work(agent, limits=Limits(wall_s=0.3))
            child = await kernel.for_tenant().show(CHILD)

            assert (first.status, first.reason) == ("unknown_outcome", CHILD)
            assert child["unknown_outcomes"] == ["c1/tool/0"]
            assert (await kinds(kernel, CHILD)).count("tool.unresolved") == 1
            assert bank.paid == []

    play(scenario())


# Workers


class Later:
    """A kernel that is opened after the tools that delegate in it were made."""

    kernel: Kernel

    def for_tenant(self, tenant: Any = None) -> Any:
        return self.kernel.for_tenant(tenant)


def test_a_worker_drives_the_parent_of_an_answered_child_and_never_the_child(tmp_path: Path) -> None:
    models = {
        "boss": ScriptedModel([hand("a", to="lead"), "end"]),
        "lead": ScriptedModel([hand("b"), "led"]),
        "worker": ScriptedModel([tool_call("sure"), "worked"]),
    }
    driven: list[str] = []

    async def scenario() -> None:
        later = Later()
        factory = SubAgentFactory(kernel=later)
        low = factory.create(name="worker", description=".", model="worker", tools=[asking()])
        lead = factory.create(name="lead", description=".", model="lead", tools=[low])
        with open_family(tmp_path, models, tools=[lead]) as kernel:
            later.kernel = kernel
            worker_ = Worker(kernel, kernel.services, report=lambda _, run_id, __: driven.append(run_id))
            assert (await work(boss(kernel, lead))).status == "waiting_approval"
            assert await worker_.due() == []
            (asked,) = await kernel.for_tenant().approvals()
            await kernel.for_tenant().approve(asked["run_id"])
            found = await statuses(kernel)
            assert sorted(found.values()) == ["pending", "waiting_approval", "waiting_approval"]

            assert await worker_.due() == [("default", "r")]
            assert await worker_.once() == 1
            assert driven == ["r"]
            assert all_in(await statuses(kernel), "completed")
            assert await worker_.due() == []

    play(scenario())


def test_a_worker_without_the_code_of_the_tools_says_so_once(tmp_path: Path) -> None:
    gate = Gate()
    models = {"boss": ScriptedModel([hand("a"), "end"]), "worker": ScriptedModel([gate, "x"])}
    reports: list[tuple[str, Any]] = []

    async def scenario() -> None:
        with open_family(tmp_path, models) as kernel:
            agent = boss(kernel, worker(kernel))
            task = await at_work(kernel, agent, gate.asked)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

            worker_ = Worker(kernel, kernel.services, report=lambda _, run, said: reports.append((run, said)))
            for _ in range(3):
                await worker_.once()

            ((run_id, said),) = reports
            assert run_id == "r"
            assert isinstance(said, InvalidRequest)
            assert "worker" in str(said.got)
            assert all_in(await statuses(kernel), "pending")
            assert (await work(agent)).text == "end"

    play(scenario())


def test_a_paused_parent_keeps_its_answered_child_waiting(tmp_path: Path) -> None:
    models = {
        "boss": ScriptedModel([hand("a"), "end"]),
        "worker": ScriptedModel([tool_call("sure"), "worked"]),
    }

    async def scenario() -> None:
        with open_family(tmp_path, models) as kernel:
            runs = kernel.for_tenant()
            await work(boss(kernel, worker(kernel, tools=[asking()])))
            await runs.pause("r")
            await runs.resume(CHILD)

            assert await Worker(kernel, kernel.services).due() == []

    play(scenario())
