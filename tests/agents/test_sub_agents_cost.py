"""What a run cost is told with all its descendants, wherever it is told."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from artelier import Price
from artelier.agents import SubAgentFactory
from artelier.cli.tree import root_command
from artelier.testing import ScriptedModel
from tests.agents.family import boss, hand, open_family, work, worker
from tests.kernel.stage import billed, play

PRICE = Price(input=Decimal(1), output=Decimal(1))


def _three_deep(folder: Path) -> Any:
    """A boss whose lead has a worker; each reply costs 1,500 micro-dollars. Gives the boss's result."""
    paid = billed("x", inputs=1_000, outputs=500)
    models = {
        "boss": ScriptedModel([hand("a", to="lead"), paid], price=PRICE),
        "lead": ScriptedModel([hand("b"), paid], price=PRICE),
        "worker": ScriptedModel([paid], price=PRICE),
    }

    async def scenario() -> Any:
        with open_family(folder, models) as kernel:
            lead = SubAgentFactory(kernel=kernel).create(
                name="lead", description=".", model="lead", tools=[worker(kernel)]
            )
            return await work(boss(kernel, lead)), await kernel.for_tenant().tree("r")

    return play(scenario())


def _shell(folder: Path, *words: str) -> str:
    ran = CliRunner().invoke(root_command(), ["--db", str(folder / "s.db"), *words])
    assert ran.exit_code == 0, ran.output
    return ran.stdout


def test_every_cost_of_a_parent_has_that_of_its_descendants(tmp_path: Path) -> None:
    result, tree = _three_deep(tmp_path)
    total, own = tree["total_cost_microusd"], tree["cost_microusd"]
    assert total >= own + 2 * 1_500

    assert result.cost_microusd == total
    assert result.usage.output_tokens >= 3 * 500
    cost = json.loads(_shell(tmp_path, "runs", "cost", "r", "--json"))
    shown = json.loads(_shell(tmp_path, "runs", "show", "r", "--json"))
    listed = json.loads(_shell(tmp_path, "runs", "list", "--json"))["items"]

    for found in (cost, shown, listed[0]):
        assert (found["total_cost_microusd"], found["cost_microusd"]) == (total, own)
    assert cost["runs"] == shown["runs"] == 3
    assert cost["total_usage"]["output_tokens"] == result.usage.output_tokens
    assert sum(step["cost_microusd"] for step in cost["steps"]) == own
    assert listed[2]["total_cost_microusd"] == listed[2]["cost_microusd"]


def test_totals_and_own_costs_are_both_printed(tmp_path: Path) -> None:
    _, tree = _three_deep(tmp_path)
    total, own = (f"{tree[name] / 1e6:.6f}" for name in ("total_cost_microusd", "cost_microusd"))

    shown = _shell(tmp_path, "runs", "show", "r")
    cost = {line.split()[0]: line for line in _shell(tmp_path, "runs", "cost", "r").splitlines()[-4:]}

    assert f"{total} USD with its children, {own} of it its own" in shown
    assert f" {total} USD" in cost["total"] and f" {own} USD" in cost["own"]
    assert total in _shell(tmp_path, "runs", "list")
