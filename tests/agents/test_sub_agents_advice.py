"""What the command line says of a tree of agents that waits for a person."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from artelier import Kernel, RunSuspended
from artelier.cli.tree import root_command
from artelier.errors import NotFound
from artelier.testing import ScriptedModel, tool_call
from tests.agents.family import asking, boss, hand, open_family, work, worker
from tests.kernel.stage import play


def _family(kernel: Kernel) -> Any:
    lead = worker(kernel, name="lead", model="lead", tools=[worker(kernel, tools=[asking()])])
    return boss(kernel, lead)


def _waiting(folder: Path) -> str:
    """A boss whose lead's worker asks a person; gives the id of the worker's run."""
    models = {
        "boss": ScriptedModel([hand("a", to="lead"), "end"]),
        "lead": ScriptedModel([hand("b"), "led"]),
        "worker": ScriptedModel([tool_call("sure"), "worked"]),
    }

    async def scenario() -> str:
        with open_family(folder, models) as kernel:
            assert (await work(_family(kernel))).status == "waiting_approval"
            (asked,) = await kernel.for_tenant().approvals()
            with pytest.raises(NotFound, match="of its own") as refused:
                await kernel.for_tenant().approve("r")
            hint = str(refused.value.hint)
            assert f"artelier approve {shlex.join([asked['run_id'], asked['step']])}" in hint
            return asked["run_id"]

    return play(scenario())


def _shell(folder: Path, *words: str) -> Any:
    ran = CliRunner().invoke(root_command(), ["--db", str(folder / "s.db"), *words])
    assert ran.exit_code == 0, ran.output
    return ran


def test_a_parent_names_the_child_it_waits_for_and_advice_is_to_go_on_with_the_root(tmp_path: Path) -> None:
    child = _waiting(tmp_path)

    shown = json.loads(_shell(tmp_path, "runs", "show", "r", "--json").stdout)
    assert [asked["run_id"] for asked in shown["waits_for"]] == [child]
    assert json.loads(_shell(tmp_path, "runs", "show", child, "--json").stdout)["root"] == "r"
    text = _shell(tmp_path, "runs", "show", "r")
    assert f"{child} at " in text.stdout
    assert f"approve {shlex.quote(child)}" in text.stderr

    after = _shell(tmp_path, "approve", child).stderr
    assert "run_id='r'" in after and "resume" not in after
    assert json.loads(_shell(tmp_path, "runs", "show", "r", "--json").stdout)["waits_for"] == []


def test_a_run_that_nothing_below_waits_for_is_told_so_without_a_hint(tmp_path: Path) -> None:
    models = {"boss": ScriptedModel(["end"])}

    async def scenario() -> None:
        with open_family(tmp_path, models) as kernel:
            await work(boss(kernel))
            with pytest.raises(NotFound, match="waits for no approval") as refused:
                await kernel.for_tenant().approve("r")
            assert refused.value.hint is None
            with pytest.raises(NotFound, match="nobody"):
                await kernel.for_tenant().approve("nobody")

    play(scenario())


def test_the_advice_for_a_child_of_own_code_is_to_run_the_code_of_its_root(tmp_path: Path) -> None:
    async def scenario() -> None:
        with open_family(tmp_path, {}) as kernel:
            runs = kernel.for_tenant()
            with pytest.raises(RunSuspended):
                async with runs.run("root", agent="flow.py:flow", on_wait="suspend") as run:
                    async with runs.run("kid", parent=run, on_wait="suspend") as kid:
                        await kid.approve("sure?")

    play(scenario())

    assert "run flow.py:flow --run-id root" in _shell(tmp_path, "approve", "kid").stderr
