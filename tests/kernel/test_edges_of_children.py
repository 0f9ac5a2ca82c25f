"""Runs below a run: what its code may open, and what caps above them mean, wherever they are set."""

from __future__ import annotations

import asyncio
import os
import random
import sys
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from artelier import Kernel, ModelReply, ModelRequest, RunStopped, RunSuspended, ToolContext, tool
from artelier.errors import Conflict
from artelier.kernel import Run
from artelier.kernel.queries.runs import used_below
from artelier.ledger.queries import scope_limits
from artelier.ports.model import Price, Usage
from artelier.testing import ScriptedModel
from tests.kernel.stage import play
from tests.processes import WarmPython


async def until(is_there: Callable[[], bool]) -> None:
    """Wait for what another task or process does; the scenario's own time is the bound."""
    while not is_there():
        await asyncio.sleep(0.01)


DEAR = Price(input=Decimal(1000), output=Decimal(0))


def _bank(paid: list[str]) -> Any:
    @tool(side_effect=True)
    async def pay(how: str) -> str:
        """Pay."""
        paid.append(how)
        if how == "card":
            await asyncio.sleep(60)
        return "paid"

    return pay


async def _child_pays(kernel: Kernel, run: Run) -> None:
    async with kernel.run(f"{run.id}/kid", parent=run) as kid:
        await kid.step_tool("pay", {"how": "bank"})


async def _after_an_unknown_payment(kernel: Kernel, run: Run) -> None:
    try:
        await asyncio.wait_for(run.step_tool("pay", {"how": "card"}, key="card"), 0.1)
    except (TimeoutError, RunSuspended):
        await _child_pays(kernel, run)


async def _after_a_question(kernel: Kernel, run: Run) -> None:
    try:
        await run.approve("may I pay?")
    except RunSuspended:
        await _child_pays(kernel, run)


async def _after_a_cancel(kernel: Kernel, run: Run) -> None:
    await kernel.for_tenant().cancel(run.id)
    await until(lambda: run.core.cancelled_reason is not None)
    await _child_pays(kernel, run)


async def _after_a_pause(kernel: Kernel, run: Run) -> None:
    await kernel.for_tenant().pause(run.id)
    await until(lambda: run.core.paused)
    await asyncio.wait_for(_child_pays(kernel, run), 0.3)


@pytest.mark.parametrize(
    ("program", "paid", "status"),
    [
        (_after_an_unknown_payment, ["card"], "unknown_outcome"),
        (_after_a_question, [], "waiting_approval"),
        (_after_a_cancel, [], "cancelled"),
        (_after_a_pause, [], "failed"),  # by its own TimeoutError
    ],
)
def test_no_child_pays_for_code_that_may_take_no_step(
    tmp_path: Path, program: Any, paid: list[str], status: str
) -> None:
    async def scenario() -> None:
        seen = list[str]()
        with Kernel.open(tmp_path / "s.db", tools=[_bank(seen)]) as kernel:
            with pytest.raises((RunSuspended, RunStopped, TimeoutError)):
                async with kernel.run("r", on_wait="suspend") as run:
                    await program(kernel, run)
            assert (seen, (await kernel.for_tenant().show("r"))["status"]) == (paid, status)

    play(scenario())


class _Slow:
    price = DEAR

    def __init__(self) -> None:
        self.calls = 0

    async def complete(self, request: ModelRequest, /) -> ModelReply:
        self.calls += 1
        await asyncio.sleep(60)
        raise AssertionError


@pytest.mark.parametrize("within_s", [0.2, 0.02, 0.0005])
def test_a_call_that_was_cut_before_a_child_waits_is_billed_once_at_most(
    tmp_path: Path, within_s: float
) -> None:
    """Each resume billed a call that nobody made, and held the money of another."""

    async def drive(kernel: Kernel) -> None:
        async with kernel.run("r", on_wait="suspend") as run:
            try:
                async with run.timeout(within_s):
                    said = [{"role": "user", "content": "long " * 300}]
                    await run.step_model(model="m", messages=said, max_output_tokens=10)
            except TimeoutError:
                pass
            async with kernel.run("kid", parent=run, on_wait="suspend") as kid:
                await kid.wait_for("never")

    async def scenario() -> None:
        model, spent = _Slow(), list[str]()
        for _ in range(4):
            with Kernel.open(tmp_path / "s.db", models={"m": model}) as kernel:
                with pytest.raises(RunSuspended):
                    await drive(kernel)
                books = await kernel.tenants.show("default")
                spent.append(books["spent_usd"])
                assert books["held_usd"] == "0.00"
        assert model.calls <= 1
        assert len(set(spent)) == 1 and float(spent[0]) == pytest.approx(0.416 * model.calls)

    play(scenario())


def test_a_tool_whose_inner_run_was_cancelled_has_an_unknown_outcome(tmp_path: Path) -> None:
    async def scenario() -> None:
        paid = list[str]()

        @tool(side_effect=True)
        async def pay(how: str) -> str:
            """Pay, and have somebody confirm it in a run of its own."""
            paid.append(how)
            async with kernel.run(f"receipt-{how}") as receipt:
                await receipt.approve("send it?")
            return "paid"

        with Kernel.open(tmp_path / "s.db", tools=[pay]) as kernel:
            desk = kernel.for_tenant()

            async def cancel() -> None:
                while not await desk.approvals():
                    await asyncio.sleep(0.01)
                await desk.cancel("receipt-card")

            person = asyncio.create_task(cancel())
            with pytest.raises(RunSuspended, match="unknown_outcome"):
                async with kernel.run("order", on_wait="suspend") as run:
                    try:
                        await run.step_tool("pay", {"how": "card"}, key="card")
                    except RunStopped:
                        await run.step_tool("pay", {"how": "bank"}, key="bank")
            await person
            assert paid == ["card"]
            assert [(one["key"], one["status"]) for one in await desk.steps("order")] == [("card", "unknown")]

    play(scenario())


def test_a_run_cannot_take_the_id_that_an_imported_run_names_as_its_parent(tmp_path: Path) -> None:
    """Its budget would pay for what was imported, and to undo it would undo that."""

    async def scenario() -> None:
        undone = list[str]()

        async def cancel(arguments: Any, result: Any, context: ToolContext) -> None:
            undone.append(arguments["what"])

        @tool(side_effect=True, compensate=cancel)
        async def book(what: str) -> str:
            """Book."""
            return what

        with Kernel.open(tmp_path / "a.db", tools=[book]) as kernel:
            async with kernel.run("root") as run, kernel.run("kid", parent=run) as kid:
                await kid.step_tool("book", {"what": "hotel"})
            await kernel.for_tenant().export("kid", tmp_path / "kid.jsonl")
        with Kernel.open(tmp_path / "b.db", tools=[book]) as kernel:
            await kernel.for_tenant().import_(tmp_path / "kid.jsonl")
            with pytest.raises(Conflict, match="there are runs below that id"):
                async with kernel.run("root"):
                    pass
            async with kernel.run("another") as run:
                await run.compensate()
            with pytest.raises(Conflict, match="there are runs below that id"):
                await kernel.for_tenant().fork("another", new_id="root")
        assert undone == []

    play(scenario())


# A cap that another process sets


SPENDER = """
import asyncio, sys
from pathlib import Path
from tests.kernel.test_edges_of_children import spend
asyncio.run(spend(Path(sys.argv[1])))
"""


def _model() -> ScriptedModel:
    reply = ModelReply(text="x", usage=Usage(input_tokens=10, output_tokens=100))
    return ScriptedModel(lambda _: reply, price=Price(output=Decimal(100)))


async def spend(folder: Path) -> None:
    """Go on with the child, in a process of its own, until its money is used up."""
    with Kernel.open(folder / "s.db", models={"m": _model()}) as kernel:
        try:
            async with kernel.run("child", on_wait="suspend") as run:
                await run.wait_for("go")
                for number in range(1_000):
                    (folder / "calls").write_text(str(number))
                    said = [{"role": "user", "content": str(number)}]
                    await run.step_model(model="m", messages=said, max_output_tokens=100)
                    await asyncio.sleep(0.01)
        except RunSuspended as suspended:
            (folder / "end").write_text(str(suspended))


def test_a_child_in_another_process_obeys_the_first_cap_above_it(tmp_path: Path) -> None:
    async def scenario() -> None:
        with Kernel.open(tmp_path / "s.db", models={"m": _model()}) as kernel:
            desk = kernel.for_tenant()
            with pytest.raises(RunSuspended):
                async with kernel.run("root", on_wait="suspend") as root:
                    async with kernel.run("child", parent=root, on_wait="suspend") as child:
                        await child.wait_for("go")
            await desk.signal("child", "go", 1)
            environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
            spender = WarmPython([sys.executable, "-c", SPENDER, str(tmp_path)], env=environ)
            try:
                await until(
                    lambda: (tmp_path / "calls").exists() and int((tmp_path / "calls").read_text() or 0) > 20
                )
                await desk.limit("root", unit="usd", cap="0.50")
                await until(lambda: (tmp_path / "end").exists())
            finally:
                spender.kill()
                spender.wait()
            assert "budget_exhausted" in (tmp_path / "end").read_text()
            spent = (await kernel.tenants.show("default"))["spent_usd"]
            assert 0.40 < float(spent) <= 0.51, "one call was in flight at most"

    play(scenario(), within_s=90)


async def _counted(kernel: Kernel, run_id: str) -> tuple[int, int]:
    """What the cap on a run has counted, and what it and those below it have cost; micro-dollars."""
    (row,) = await scope_limits(kernel.store, "default", f"run:{run_id}")
    assert row.reserved == 0
    return row.used, (await used_below(kernel.store, "default", run_id))["usd"]


@pytest.mark.parametrize("is_child", [False, True])
def test_a_call_that_is_answered_counts_under_the_first_cap_set_behind_it(
    tmp_path: Path, is_child: bool
) -> None:
    """Its outcome was noted and not yet written. Before, one in three such runs spent beyond its cap."""

    async def work(kernel: Kernel, run: Run, capped: str) -> None:
        for number in range(2):
            said = [{"role": "user", "content": str(number)}]
            await run.step_model(model="m", messages=said, max_output_tokens=100)
            await kernel.for_tenant().limit(capped, unit="usd", cap="0.015")

    async def scenario() -> None:
        model = _model()
        with Kernel.open(tmp_path / "s.db", models={"m": model}) as kernel:
            for name in [f"top{number}" for number in range(20)]:
                with pytest.raises(RunSuspended) as suspended:
                    async with kernel.run(name, on_wait="suspend") as top:
                        if not is_child:
                            await work(kernel, top, name)
                        async with kernel.run(f"{name}/c", parent=top, on_wait="suspend") as child:
                            await work(kernel, child, name)
                assert suspended.value.status == "budget_exhausted"
                assert await _counted(kernel, name) == (10_000, 10_000)
            assert len(model.requests) == 20

    play(scenario())


@pytest.mark.parametrize(("elsewhere", "is_idle"), [(False, False), (True, False), (False, True)])
def test_a_first_cap_counts_what_is_used_while_it_is_set(
    tmp_path: Path, elsewhere: bool, is_idle: bool
) -> None:
    """Also what is in flight, and where nobody drives the run itself, but one below it."""
    seed = random.randrange(1 << 30)
    draw = random.Random(seed)

    async def answer(_: ModelRequest) -> ModelReply:
        await asyncio.sleep(draw.random() * 0.01)
        return ModelReply(text="x", usage=Usage(input_tokens=10, output_tokens=100))

    async def work(run: Run, branch: int) -> None:
        for number in range(1_000):
            said = [{"role": "user", "content": f"{branch} {number}"}]
            key = f"{branch}/{number}"
            await run.step_model(model="m", messages=said, max_output_tokens=100, key=key)

    async def family(kernel: Kernel, name: str) -> None:
        async with (
            kernel.run(name, on_wait="suspend") as top,
            kernel.run(f"{name}/c", parent=top, on_wait="suspend") as child,
        ):
            if is_idle:
                await child.wait_for("go")
            await asyncio.gather(*(work(run, n) for n, run in enumerate((top, top, child, child))))

    async def only_below(kernel: Kernel, name: str) -> None:
        with pytest.raises(RunSuspended):
            await family(kernel, name)
        await kernel.for_tenant().signal(f"{name}/c", "go")
        async with kernel.run(f"{name}/c", on_wait="suspend") as child:
            await child.wait_for("go")
            await asyncio.gather(*(work(child, n) for n in range(4)))

    async def scenario() -> None:
        model = ScriptedModel(answer, price=Price(output=Decimal(100)))
        path = tmp_path / "s.db"
        with Kernel.open(path, models={"m": model}) as kernel, Kernel.open(path) as operator:
            for name in [f"top{number}" for number in range(6)]:
                model.requests.clear()  # of the family before
                at_work = asyncio.ensure_future((only_below if is_idle else family)(kernel, name))
                while len(model.requests) < 4:
                    await asyncio.sleep(0)
                await asyncio.sleep(0.02 + draw.random() * 0.08)
                desk = (operator if elsewhere else kernel).for_tenant()
                await desk.limit(name, unit="usd", cap="0.25")
                with pytest.raises(RunSuspended):
                    await at_work
                used, cost = await _counted(kernel, name)
                assert used == cost, f"seed {seed}, {name}"

    play(scenario())
