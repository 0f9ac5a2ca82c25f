"""Named regressions: what sub-agents of predecessors did wrong, by the number of the hole."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from artelier import ContextBuilder, Price, Tenant
from artelier.agents import SubAgentFactory
from artelier.errors import StoreFull
from artelier.memory import SQLiteMemoryStore
from artelier.ports.model import ModelReply, Usage
from artelier.testing import ManualClock, ScriptedModel, tool_call
from tests.agents.crew import Crew
from tests.agents.family import CHILD, Bank, Gate, boss, hand, open_family, statuses, told, work, worker
from tests.kernel.crashes import Death, Deaths
from tests.kernel.stage import World, assert_conserved, play
from tests.processes import WarmPython

ROOT = Path(__file__).parents[2]


# 2. Parallel sub-agents share one idempotency key


def test_hole_2_equal_children_side_by_side_pay_under_keys_of_their_own(tmp_path: Path) -> None:
    bank = Bank()
    bank.opened.set()
    models = {
        "boss": ScriptedModel([[hand("pay ana")] * 4, "end"]),
        "worker": ScriptedModel(
            lambda request: "paid" if request.messages[-1].role == "tool" else tool_call("pay", {"to": "ana"})
        ),
    }

    async def scenario() -> None:
        with open_family(tmp_path, models) as kernel:
            await work(boss(kernel, worker(kernel, tools=[bank.tool()])))

            children = sorted(name for name in await statuses(kernel) if name != "r")
            assert children == [f"r::sub_agent::default/r:c1/tool/{n}" for n in range(4)]
            assert sorted(bank.paid) == [f"default/{child}:c1/tool/0" for child in children]

    play(scenario())


# 7. A sub-agent spends the limit again


def test_hole_7_a_tree_of_agents_has_one_budget(tmp_path: Path) -> None:
    """Three generations of 0.40 under a limit of 1.00: the third one is never asked."""
    each = Price(input=Decimal(0), output=Decimal(400))

    def asks(to: str) -> Any:
        return ModelReply(
            tool_calls=(hand("go on", to=to),),
            finish_reason="tool_calls",
            usage=Usage(input_tokens=1, output_tokens=1_000),
        )

    models = {
        "boss": ScriptedModel([asks("lead")], price=each),
        "lead": ScriptedModel([asks("worker")], price=each),
        "worker": ScriptedModel([], price=each),
    }

    async def scenario() -> None:
        with open_family(tmp_path, models) as kernel:
            await kernel.tenants.open(Tenant("acme", budget_usd="1.00"))
            lead = worker(kernel, name="lead", model="lead", tools=[worker(kernel)])
            result = await work(boss(kernel, lead), tenant="acme")

            assert result.status == "budget_exhausted"
            assert (await kernel.tenants.show("acme"))["spent_usd"] == "0.80"
            assert set((await statuses(kernel, "acme")).values()) == {"budget_exhausted"}
            await assert_conserved(kernel, "acme")

    play(scenario())


# 8. A sub-agent rebinds its parent's memory


def remember(text: str) -> Any:
    return tool_call("core_memory_append", {"content": text})


@pytest.mark.parametrize("kind", ["log", "file"])
def test_hole_8_each_agent_of_a_tree_has_a_memory_of_its_own(tmp_path: Path, kind: str) -> None:
    models = {
        "boss": ScriptedModel(
            [
                remember("boss first"),
                [hand("a", to="lead"), remember("boss beside")],
                remember("boss after"),
                "end",
            ]
        ),
        "lead": ScriptedModel([remember("lead fact"), hand("b"), remember("lead after"), "led"]),
        "worker": ScriptedModel([remember("worker fact"), "worked"]),
    }

    async def scenario() -> None:
        with open_family(tmp_path, models) as kernel:
            store = kernel.memory if kind == "log" else SQLiteMemoryStore(db_path=tmp_path / "m.db")
            shared = {"memory_store": store}
            lead = worker(kernel, shared, name="lead", model="lead", tools=[worker(kernel, shared)])
            agent = boss(kernel, lead, context_builder=ContextBuilder(identity="Boss.", memory_store=store))
            assert (await work(agent)).text == "end"

            async def text_of(agent_id: str) -> str:
                blocks = await store.for_agent("default", agent_id).blocks()
                return "\n".join(block.text for block in blocks).strip()

            assert await text_of("boss") == "boss first\nboss beside\nboss after"
            assert await text_of("boss/lead") == "lead fact\nlead after"
            assert await text_of("boss/lead/worker") == "worker fact"
            for model in ("boss", "lead", "worker"):
                others = {"boss", "lead", "worker"} - {model}
                for request in models[model].requests:
                    shown = "\n".join(m.text for m in request.messages if m.role == "system")
                    assert not any(f"{other} fact" in shown for other in others)
                    assert model == "boss" or "boss first" not in shown

    play(scenario())


def test_hole_8_one_sub_agent_of_two_parents_keeps_their_matters_apart(tmp_path: Path) -> None:
    """The tool is made before its parents are, and once."""
    models = {
        "boss": ScriptedModel([hand("a"), "end", hand("b"), "end"]),
        "worker": ScriptedModel([remember("of ana"), "x", remember("of ben"), "x"]),
    }

    async def scenario() -> None:
        with open_family(tmp_path, models) as kernel:
            helper = worker(kernel, {"memory_store": kernel.memory})
            await work(boss(kernel, helper, agent_id="ana"), "r1")
            await work(boss(kernel, helper, agent_id="ben"), "r2")

            for name in ("ana", "ben"):
                (block,) = [
                    block
                    for block in await kernel.memory.for_agent("default", f"{name}/worker").blocks()
                    if block.text
                ]
                assert block.text == f"of {name}"
            assert len({id(m) for m in models["worker"].requests}) == 4
            second = "\n".join(m.text for m in models["worker"].requests[2].messages)
            assert "of ana" not in second

    play(scenario())


def test_hole_8_a_named_parent_is_whose_memory_it_is(tmp_path: Path) -> None:
    models = {"boss": ScriptedModel([hand("a"), "end"]), "worker": ScriptedModel(["x"])}

    async def scenario() -> None:
        with open_family(tmp_path, models) as kernel:
            factory = SubAgentFactory(kernel=kernel, parent_id="team", model="worker")
            await work(boss(kernel, factory.create(name="worker", description=".")))

            assert (await kernel.for_tenant().show(CHILD))["agent"] == "team/worker"

    play(scenario())


# 9. A crash in a child blocks the parent


def hang(folder: Path, point: str) -> None:
    """Work in another process until the child hangs at a point, and kill -9 it there."""
    process = WarmPython(
        [sys.executable, "-W", "error", "-m", "tests.agents.crew", str(folder), point],
        cwd=ROOT,
        env=dict(os.environ),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    deadline = time.monotonic() + 60
    try:
        while not (folder / point).exists():
            assert process.poll() is None, process.communicate()[0]
            assert time.monotonic() < deadline, "the child never came to the point"
            time.sleep(0.01)
    finally:
        process.send_signal(signal.SIGKILL)
        process.communicate()
    assert process.returncode == -signal.SIGKILL


def world_of(folder: Path) -> World:
    return World((folder / "world").read_text().splitlines())


def assert_once(world: World) -> None:
    """Whatever was done and recorded was done once, and the payment by all means."""
    assert len([deed for deed in world.done if deed.startswith("pay ")]) == 1
    assert world.done.count("boss model 0") == 1
    assert world.done.count("worker model 0") == 1
    assert world.done[-1] == "boss model 1"


@pytest.mark.parametrize("point", ["model", "look", "pay"])
def test_hole_9_a_killed_child_goes_on_with_its_parent(tmp_path: Path, point: str) -> None:
    hang(tmp_path, point)
    world = world_of(tmp_path)
    before = list(world.done)

    async def scenario() -> None:
        kernel, agent = Crew(world).open(tmp_path / "s.db")
        with kernel:
            assert set((await statuses(kernel)).values()) == {"running"}
            result = await work(agent)
            assert (result.status, result.text) == ("completed", "all done")
            assert set((await statuses(kernel)).values()) == {"completed"}
            assert kernel.verify().ok

    play(scenario())
    assert_once(world)
    assert all(world.done.count(deed) == 1 for deed in before)


def test_hole_9_a_killed_tree_that_is_killed_again_still_ends(tmp_path: Path) -> None:
    for point in ("look", "model"):
        hang(tmp_path, point)
    world = world_of(tmp_path)

    async def scenario() -> None:
        kernel, agent = Crew(world).open(tmp_path / "s.db")
        with kernel:
            assert (await work(agent)).text == "all done"

    play(scenario())
    assert_once(world)


def test_hole_9_a_death_at_any_instant_repeats_no_step_of_the_tree(tmp_path: Path) -> None:
    path, world = tmp_path / "s.db", World()
    deaths = Deaths(path, world)

    async def alive() -> None:
        kernel, agent = Crew(world).open(path, fault=deaths, clock=ManualClock())
        with kernel:
            assert (await work(agent)).text == "all done"

    async def resumed(death: Death) -> None:
        clock = ManualClock()
        clock.advance(3600)  # the dead process's leases are over
        kernel, agent = Crew(death.world).open(death.path, clock=clock)
        with kernel:
            runs = kernel.for_tenant()
            known = await statuses(kernel)
            recorded = {
                (run, step["key"]): step["completed_seq"]
                for run in known
                for step in await runs.steps(run)
                if step["status"] == "completed"
            }
            result = await work(agent)

            assert (result.status, result.text) == ("completed", "all done"), death
            assert set((await statuses(kernel)).values()) == {"completed"}
            after = {
                (run, step["key"]): step["completed_seq"]
                for run in await statuses(kernel)
                for step in await runs.steps(run)
            }
            assert recorded.items() <= after.items(), death
            assert kernel.verify().ok

    async def scenario() -> None:
        await alive()
        for death in deaths.found:
            await resumed(death)

    play(scenario(), within_s=120)
    assert len(deaths.found) > 10  # equal states are copied once, whichever point came first
    for death in deaths.found:
        paid = [deed for deed in death.world.done if deed.startswith("pay ")]
        assert len(paid) == len(set(paid)) == 1, death


def test_hole_9_a_child_that_another_process_still_holds_is_waited_for(tmp_path: Path) -> None:
    """A lease outlives its process for a while; that is no result of the child."""
    gate = Gate()
    models = {"boss": ScriptedModel([hand("a"), "end"]), "worker": ScriptedModel([gate, "worked"])}

    async def scenario() -> None:
        with open_family(tmp_path, models) as first, open_family(tmp_path, models) as second:
            task = asyncio.ensure_future(work(boss(first, worker(first))))
            await gate.asked.wait()
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            resumed: list[asyncio.Future[Any]] = []
            with pytest.raises(asyncio.CancelledError):
                async with first.for_tenant().run(CHILD):
                    resumed.append(asyncio.ensure_future(work(boss(second, worker(second)))))
                    while second.services.driver("default", "r") is None:
                        await asyncio.sleep(0.005)
                    await asyncio.sleep(0.1)
                    assert not resumed[0].done()
                    raise asyncio.CancelledError  # what a process does that is asked to leave
            assert (await resumed[0]).text == "end"
            assert told(models["boss"]) == ["worked"]

    play(scenario())


class Hiccup:
    """A fault hook under which one commit, the n-th, finds the disk full."""

    def __init__(self, number: int) -> None:
        self._left = number

    def __call__(self, point: str) -> None:
        if point == "commit.before":
            self._left -= 1
            if self._left == 0:
                raise StoreFull("the disk is full; nothing was written")


def test_hole_9_a_store_that_fails_a_child_is_no_outcome_of_its_parent(tmp_path: Path) -> None:
    ends: list[str] = []

    async def scenario(number: int) -> None:
        world = World()
        path = tmp_path / f"s{number}.db"
        kernel, agent = Crew(world).open(path, fault=Hiccup(number))
        with kernel:
            try:
                ends.append((await work(agent)).status)
            except StoreFull:
                ends.append("raised")
        kernel, agent = Crew(world).open(path)
        with kernel:
            result = await work(agent)

            assert (result.status, result.text) == ("completed", "all done"), number
            assert set((await statuses(kernel)).values()) == {"completed"}
            last = await kernel.for_tenant().render("r", "c2/model")
            assert [m.text for m in last.messages if m.role == "tool"] == ["paid"]
            assert len([deed for deed in world.done if deed.startswith("pay ")]) == 1
            assert kernel.verify().ok

    # A whole run takes 14 commits, or 15: which batches share one is up to the threads.
    for number in range(2, 18):
        play(scenario(number))
    assert {"pending", "raised", "completed"} <= set(ends)


def test_hole_9_a_key_that_is_missing_at_a_resume_is_no_outcome_either(tmp_path: Path) -> None:
    gate = Gate()
    models: dict[str, Any] = {
        "boss": ScriptedModel([hand("a"), "end"]),
        "openai:x": ScriptedModel([gate, "worked"]),
    }

    async def scenario() -> None:
        with open_family(tmp_path, models) as kernel:
            task = asyncio.ensure_future(work(boss(kernel, worker(kernel, model="openai:x"))))
            await gate.asked.wait()
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        keyless = {"boss": models["boss"]}
        with open_family(tmp_path, keyless, environ={}) as kernel:
            held = await work(boss(kernel, worker(kernel, model="openai:x")))
            assert (held.status, held.reason) == ("pending", f"missing_key in {CHILD}")
        with open_family(tmp_path, models) as kernel:
            assert (await work(boss(kernel, worker(kernel, model="openai:x")))).text == "end"
            assert told(models["boss"]) == ["worked"]

    play(scenario())
