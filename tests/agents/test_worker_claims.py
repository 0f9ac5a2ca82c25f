"""What a worker takes: what nobody drives however much is held, what its labels name, as far as slots go."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from artelier import Kernel
from artelier.agents import Worker
from artelier.errors import InvalidRequest
from artelier.kernel import events as ev
from artelier.kernel.queries.runs import DueLook, Labels
from artelier.log import Batch, Draft, LeaseRequest, StreamAppend, run_stream
from artelier.missions.queries import due_tasks
from artelier.testing import ScriptedModel, tool_call
from tests.agents.family import Gate, asking, boss, open_family, statuses
from tests.kernel.stage import play

ELSEWHERE = "a-machine-elsewhere"
HELD = 1_200
"""More than a look returns."""


async def _begun(
    kernel: Kernel, run_ids: Sequence[str], *, held: bool, tenant: str = "default", **started: Any
) -> None:
    """Runs that a process has begun; `held` says that a process of another machine drives them now."""
    now_us = kernel.services.clock.now_us()
    batches = list[Batch]()
    for run_id in run_ids:
        stream = run_stream(tenant, run_id)
        draft = Draft(ev.RunStarted(loop="agent", **started), now_us, "kernel")
        lease = LeaseRequest(stream=stream, holder=ELSEWHERE, now_us=now_us, ttl_us=30_000_000)
        batches.append(Batch(appends=[StreamAppend(stream, [draft])], acquire=lease if held else None))
    await asyncio.gather(*kernel.store.submit_all(batches))


async def _approved(
    kernel: Kernel, run_id: str, *, agent: str = "boss", tenant: str | None = None, model: str = "boss"
) -> None:
    """A run that stopped for a question, has its answer, and waits for a worker."""
    agent_ = boss(kernel, asking(), agent_id=agent)
    result = await agent_.run(
        run_id=run_id, tenant=tenant, model=model, prompt="Have it done.", on_wait="return"
    )
    assert result.status == "waiting_approval"
    await kernel.for_tenant(tenant).approve(run_id)


def test_a_run_is_found_behind_a_thousand_that_others_drive(tmp_path: Path) -> None:
    async def scenario() -> None:
        with open_family(tmp_path, {}) as kernel:
            await _begun(kernel, [f"held-{number:04d}" for number in range(HELD)], held=True)
            await _begun(kernel, ["last"], held=False)

            assert await Worker(kernel, kernel.services).due() == [("default", "last")]

    play(scenario())


def test_a_run_is_found_behind_a_thousand_that_cannot_be_driven_here(tmp_path: Path) -> None:
    async def scenario() -> None:
        models = {"boss": ScriptedModel([tool_call("sure"), "done"])}
        with open_family(tmp_path, models, tools=[asking()]) as kernel:
            await _begun(kernel, [f"strange-{number:04d}" for number in range(HELD)], held=False)
            await _approved(kernel, "last")
            worker = Worker(kernel, kernel.services, slots=1_000)
            await worker.once()
            assert len(await worker.due()) == HELD - 1_000 + 1, "those of the first look are left alone"
            await worker.once()

            assert (await kernel.for_tenant().show("last"))["status"] == "completed"

    play(scenario(), within_s=60)


def test_a_tenants_worker_finds_its_run_behind_a_thousand_of_others(tmp_path: Path) -> None:
    async def scenario() -> None:
        with open_family(tmp_path, {}) as kernel:
            await _begun(kernel, [f"other-{number:04d}" for number in range(HELD)], held=False)
            draft = Draft(ev.RunStarted(loop="agent"), kernel.services.clock.now_us(), "kernel")
            await kernel.store.append(Batch(appends=[StreamAppend(run_stream("acme", "own"), [draft])]))

            assert await Worker(kernel, kernel.services, tenant="acme").due() == [("acme", "own")]

    play(scenario())


def test_runs_of_a_tenant_are_found_before_the_second_of_another(tmp_path: Path) -> None:
    async def scenario() -> None:
        with open_family(tmp_path, {}) as kernel:
            await _begun(kernel, [f"other-{number:04d}" for number in range(HELD)], held=False)
            await _begun(kernel, ["a", "b"], held=False, tenant="acme")

            due = await Worker(kernel, kernel.services).due()

            assert due[:4] == [
                ("default", "other-0000"),
                ("acme", "a"),
                ("default", "other-0001"),
                ("acme", "b"),
            ]

    play(scenario())


def test_tasks_of_a_tenant_are_found_before_the_second_of_another(tmp_path: Path) -> None:
    async def scenario() -> None:
        with open_family(tmp_path, {}) as kernel:
            for tenant, count in (("a", 5), ("b", 1)):
                await kernel.tenants.open(tenant)
                artifacts = kernel.for_tenant(tenant).as_principal("operator").artifacts
                await artifacts.write("agents/boss", kind="agent", content={"name": "Boss"})
                for number in range(count):
                    await kernel.for_tenant(tenant).tasks.create(
                        goal="Do it.",
                        success_criteria="It is done.",
                        assigned_agent_id="agents/boss",
                        id=f"task-{number}",
                        model="boss",
                    )
            look = DueLook(now_us=kernel.services.clock.now_us(), limit=2)
            assert {tenant for tenant, _ in await due_tasks(kernel.store, look)} == {"a", "b"}

    play(scenario())


@pytest.mark.parametrize("spare", [False, True])
def test_a_tenant_has_one_run_driven_beside_those_that_hold_all_slots(tmp_path: Path, spare: bool) -> None:
    gate = Gate("done")

    async def scenario() -> None:
        models = {
            "boss": ScriptedModel([tool_call("sure")] * 2 + [gate]),
            "other": ScriptedModel([tool_call("sure")] * 2 + ["done"] * 2),
        }
        with open_family(tmp_path, models, tools=[asking()]) as kernel:
            await kernel.tenants.open("acme")
            await _approved(kernel, "held")
            for run_id in ("a", "b"):
                await _approved(kernel, run_id, tenant="acme", model="other")
            await _approved(kernel, "waits")
            worker = Worker(kernel, kernel.services, slots=1, spare=spare)
            working = asyncio.ensure_future(worker.forever())
            await gate.asked.wait()
            if spare:
                while set((await statuses(kernel, "acme")).values()) != {"completed"}:
                    await asyncio.sleep(0.01)
            else:
                await kernel.services.clock.sleep(0.6)  # another look
                assert await statuses(kernel, "acme") == {"a": "pending", "b": "pending"}
            assert await statuses(kernel) == {"held": "running", "waits": "pending"}
            working.cancel()
            await asyncio.gather(working, return_exceptions=True)

    play(scenario())


def test_a_lease_that_has_ended_hides_nothing(tmp_path: Path) -> None:
    async def scenario() -> None:
        with open_family(tmp_path, {}) as kernel:
            now_us = kernel.services.clock.now_us()
            await _begun(kernel, ["left"], held=False)
            request = LeaseRequest(
                stream=run_stream("default", "left"), holder=ELSEWHERE, now_us=now_us - 1_000, ttl_us=500
            )
            await kernel.store.append(Batch(acquire=request))

            assert await Worker(kernel, kernel.services).due() == [("default", "left")]

    play(scenario())


def test_a_worker_takes_what_its_labels_name(tmp_path: Path) -> None:
    async def scenario() -> None:
        with open_family(tmp_path, {}) as kernel:
            await _begun(kernel, ["a"], held=False, model="big", agent="ana")
            await _begun(kernel, ["b"], held=False, model="small", agent="ana")
            await _begun(kernel, ["c"], held=False, model="small", agent="bob")

            async def due(*labels: str) -> list[str]:
                worker = Worker(kernel, kernel.services, labels=Labels.parse(labels))
                return [run_id for _, run_id in await worker.due()]

            assert await due() == ["a", "b", "c"]
            assert await due("model=small") == ["b", "c"]
            assert await due("model=small", "agent=ana") == ["b"]
            assert await due("model=small", "model=big", "agent=ana") == ["a", "b"]
            assert await due("loop=task") == []

    play(scenario())


@pytest.mark.parametrize("text", ["", "gpu", "model=", "tenant=acme", "model=" + "m" * 201])
def test_a_label_that_names_nothing_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequest, match="what a run says of itself"):
        Labels.parse([text])


def test_too_many_labels_are_refused() -> None:
    with pytest.raises(InvalidRequest, match="too many labels"):
        Labels.parse(["model=m"] * 101)


@pytest.mark.parametrize("slots", [0, -1, 1_001])
def test_slots_out_of_range_are_refused(tmp_path: Path, slots: int) -> None:
    with open_family(tmp_path, {}) as kernel, pytest.raises(InvalidRequest, match="slots of a worker"):
        Worker(kernel, kernel.services, slots=slots)


def test_a_worker_drives_no_more_than_its_slots_and_the_next_as_soon_as_one_is_free(tmp_path: Path) -> None:
    """Runs that wait for a slot do not wait for the next look, which comes every half second."""
    gate = Gate("done")

    async def scenario() -> None:
        models = {"boss": ScriptedModel([tool_call("sure")] * 3 + [gate, "done", "done"])}
        with open_family(tmp_path, models, tools=[asking()]) as kernel:
            for run_id in ("a", "b", "c"):
                await _approved(kernel, run_id)
            worker = Worker(kernel, kernel.services, slots=1)
            working = asyncio.ensure_future(worker.forever())
            await gate.asked.wait()
            await kernel.services.clock.sleep(0.6)  # another look
            assert await statuses(kernel) == {"a": "running", "b": "pending", "c": "pending"}

            gate.opened.set()
            while set((await statuses(kernel)).values()) != {"completed"}:
                await asyncio.sleep(0.01)
            working.cancel()
            await asyncio.gather(working, return_exceptions=True)

    play(scenario())


def test_what_a_drained_worker_gives_back_another_takes_within_a_second(tmp_path: Path) -> None:
    gate = Gate("never seen")

    async def scenario() -> None:
        first = {"boss": ScriptedModel([tool_call("sure"), gate])}
        second = {"boss": ScriptedModel(["done"])}
        with (
            open_family(tmp_path, first, tools=[asking()]) as one,
            open_family(tmp_path, second, tools=[asking()]) as two,
        ):
            await _approved(one, "r")
            leaving, staying = Worker(one, one.services), Worker(two, two.services)
            tasks = [asyncio.ensure_future(leaving.forever())]
            await gate.asked.wait()
            tasks.append(asyncio.ensure_future(staying.forever()))

            await leaving.drain(within_s=1)
            released_us = one.services.clock.now_us()
            while (await statuses(two))["r"] != "completed":
                await asyncio.sleep(0.01)
            assert two.services.clock.now_us() - released_us < 1_000_000
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    play(scenario())
