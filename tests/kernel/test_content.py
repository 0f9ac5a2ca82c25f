"""Content is stored with the event that names it, whatever became of an earlier event that named it too."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from artelier import Kernel, Run, Tenant, tool
from artelier.errors import InvalidRequest
from artelier.kernel import Policy
from tests.kernel.stage import PRICE, GateModel, ask, drive, open_kernel, play, user


@tool(side_effect=True, risk="high")
async def send(to: str) -> str:
    """Send something."""
    return to


def test_arguments_that_a_person_replaced_are_kept(tmp_path: Path) -> None:
    async def scenario() -> list[str]:
        kernel = open_kernel(tmp_path, tools=[send], policy=Policy(approve_risk="high"))
        runs = kernel.for_tenant()

        async def code(run: Run) -> Any:
            return (await run.step_tool("send", {"to": "nobody else knows this"})).value

        assert await drive(runs, code, on_wait="suspend") == "waiting_approval"
        await runs.approve("r", arguments={"to": "another"})
        assert await drive(runs, code) == "completed"
        findings = kernel.verify().findings
        kernel.close()
        return findings

    assert play(scenario()) == []


def test_content_of_a_request_that_waits_for_money_is_stored_by_the_one_that_overtakes_it(
    tmp_path: Path,
) -> None:
    """Three branches share their instructions: one holds money, one waits for it, one needs little."""

    async def scenario() -> list[str]:
        gate = GateModel()
        gate.price = PRICE
        kernel = open_kernel(tmp_path, model=gate)
        runs = kernel.for_tenant(Tenant("acme", budget_usd="0.012"))

        def branch(text: str, system: str) -> Any:
            async def work(run: Run) -> str:
                messages = [{"role": "system", "content": system}, user(text)]
                result = await run.step_model(model="m", messages=messages, max_output_tokens=5)
                return result.text

            return work

        long = "long " * 2_000

        async def code(run: Run) -> Any:
            return await run.gather(
                branch("hold", "Alone."), branch(long, "Together."), branch("short", "Together.")
            )

        driven = asyncio.ensure_future(drive(runs, code))
        await gate.asked("hold")
        await gate.asked("short")
        findings = kernel.verify().findings
        for text in ("short", "hold", long):
            gate.answer(text, "yes")
        assert await driven == "completed"
        kernel.close()
        return findings

    assert play(scenario()) == []


def test_content_that_repeats_is_stored_once(tmp_path: Path) -> None:
    async def scenario() -> int:
        kernel = open_kernel(tmp_path)

        async def code(run: Run) -> Any:
            for number in range(5):
                await ask(run, "the same question", key=f"k{number}")

        await drive(kernel.for_tenant(), code)
        rows = await kernel.store.query("SELECT count(*) FROM blobs")
        kernel.close()
        return rows[0][0]

    blobs = play(scenario())

    assert blobs <= 6, "head, question, reply, result, and what opened the run"


@pytest.mark.parametrize("wrong", ["\ud800", {"a": "\udfff"}, {"f": object()}])
def test_a_command_that_has_no_form_as_json_is_refused_clearly(tmp_path: Path, wrong: Any) -> None:
    async def scenario() -> None:
        with Kernel.open(tmp_path / "s.db") as kernel:
            async with kernel.run("r") as run:
                with pytest.raises(InvalidRequest):
                    await kernel.for_tenant().signal("r", "go", wrong)
                run.finish("on it goes")
            assert (await kernel.for_tenant().show("r"))["status"] == "completed"

    asyncio.run(scenario())
