"""Limits said again of a run that exists, and the one unit of time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from artelier import Price, Run
from artelier.errors import Conflict, InvalidRequest
from artelier.kernel import Limits
from artelier.testing import ManualClock, ScriptedModel
from tests.kernel.stage import ACME, PRICE, ask, billed, drive, open_kernel, play

ALL = Limits(usd="0.50", tokens=20_000, steps=2, wall_s=60.5)


async def code(run: Run) -> Any:
    return [await ask(run, str(number)) for number in range(3)]


def _model(price: Price = PRICE) -> ScriptedModel:
    return ScriptedModel(lambda _: billed("a"), price=price)


def test_a_program_that_restarts_goes_on_under_the_limits_that_an_operator_has_raised(tmp_path: Path) -> None:
    async def scenario() -> None:
        with open_kernel(tmp_path, _model()) as kernel:
            runs = kernel.for_tenant(ACME)
            assert await drive(runs, code, limits=ALL) == "budget_exhausted"
            assert await drive(runs, code, limits=ALL) == "budget_exhausted"
            await runs.limit("r", unit="steps", cap=3)
        with open_kernel(tmp_path, _model()) as kernel:
            runs = kernel.for_tenant(ACME)
            assert await drive(runs, code, limits=ALL) == "completed"
            assert await drive(runs, code, limits=Limits(steps=1)) == "completed", "a replay"

    play(scenario())


@pytest.mark.parametrize(
    "said", [None, Limits(), Limits(steps=2), Limits(steps=3), Limits(usd="0.50", wall_s=60.5)]
)
def test_what_it_was_opened_with_or_what_holds_may_be_said_again(tmp_path: Path, said: Limits | None) -> None:
    async def scenario() -> None:
        with open_kernel(tmp_path, _model()) as kernel:
            runs = kernel.for_tenant(ACME)
            assert await drive(runs, code, limits=ALL) == "budget_exhausted"
            await runs.limit("r", unit="steps", cap=3)
            assert await drive(runs, code, limits=said) == "completed"

    play(scenario())


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (Limits(steps=9), "expected steps=2; got steps=9"),
        (Limits(usd="0.60"), "expected usd=0.50; got usd=0.60"),
        (Limits(usd="0.50", wall_s=61), "expected wall_s=60.5; got wall_s=61"),
    ],
)
def test_other_limits_are_refused_and_nothing_is_recorded(
    tmp_path: Path, said: Limits, expected: str
) -> None:
    async def scenario() -> None:
        with open_kernel(tmp_path, _model()) as kernel:
            runs = kernel.for_tenant(ACME)
            assert await drive(runs, code, limits=ALL) == "budget_exhausted"
            before = await kernel.store.root()
            with pytest.raises(Conflict, match=expected):
                async with runs.run("r", limits=said):
                    raise AssertionError("not opened")
            assert await kernel.store.root() == before
            await runs.limit("r", unit="steps", cap=None)
            assert await drive(runs, code) == "completed", "its lease was not taken"

    play(scenario())


def test_a_limit_that_a_run_was_opened_without_is_refused(tmp_path: Path) -> None:
    async def scenario() -> None:
        with open_kernel(tmp_path, _model()) as kernel:
            runs = kernel.for_tenant(ACME)
            assert await drive(runs, code, limits=Limits(steps=2)) == "budget_exhausted"
            with pytest.raises(Conflict, match="expected no such limit; got tokens=5"):
                await drive_raising(runs, Limits(tokens=5))

    async def drive_raising(runs: Any, limits: Limits) -> None:
        async with runs.run("r", limits=limits):
            raise AssertionError("not opened")

    play(scenario())


def test_an_agents_limits_may_be_said_again_after_they_were_raised(tmp_path: Path) -> None:
    from artelier import AutonomousAgent

    async def scenario() -> None:
        model = ScriptedModel([billed("done", inputs=100, outputs=900)], price=PRICE)
        with open_kernel(tmp_path, model) as kernel:
            runs = kernel.for_tenant(ACME)
            agent = AutonomousAgent(kernel=kernel)

            async def work() -> str:
                result = await agent.run(
                    run_id="r", tenant=ACME, model="m", prompt="Go.", limits=Limits(usd="0.0001")
                )
                return result.status

            assert await work() == "budget_exhausted"
            await runs.limit("r", unit="usd", cap="1.00")
            assert await work() == "completed"

    play(scenario())


@pytest.mark.parametrize(
    ("unit", "cap"), [("wall_s", 10), ("wall_s", 10.0), ("wall_s", "10"), ("ms", 10_000)]
)
def test_time_has_one_unit_and_its_older_name_still_works(tmp_path: Path, unit: str, cap: Any) -> None:
    async def late(run: Run) -> None:
        clock.advance(11)
        await ask(run, "a")

    clock = ManualClock()

    async def scenario() -> None:
        with open_kernel(tmp_path, _model(), clock=clock) as kernel:
            runs = kernel.for_tenant(ACME)
            async with runs.run("r") as run:
                await runs.limit("r", unit=unit, cap=cap)
                assert run.core.left_s() == 10
            rows = await kernel.store.query("SELECT unit, cap FROM limits WHERE scope = 'run:r'")
            assert rows == [("ms", 10_000)]

    play(scenario())


@pytest.mark.parametrize("cap", ["soon", float("nan"), -1, True, "1e400"])
def test_a_time_that_is_none_is_refused(tmp_path: Path, cap: Any) -> None:
    async def scenario() -> None:
        with open_kernel(tmp_path) as kernel:
            runs = kernel.for_tenant("t")
            await drive(runs, lambda run: ask(run, "x"))
            with pytest.raises(InvalidRequest):
                await runs.limit("r", unit="wall_s", cap=cap)

    play(scenario())
