"""A run whose tools are in code, capped from the command line: the cap is raised, the program goes on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from artelier import AutonomousAgent, Kernel, Limits, tool
from artelier.cli import main
from artelier.testing import ScriptedModel, tool_call
from tests.kernel.stage import EAGER, play


@tool(side_effect=False)
async def look() -> str:
    """Look."""
    return "seen"


def _work(folder: Path, model: ScriptedModel, **more: Any) -> Any:
    async def scenario() -> Any:
        with Kernel.open(folder / "s.db", models={"s": model}, policy=EAGER) as kernel:
            agent = AutonomousAgent(kernel=kernel, tools=[look], agent_id="ana")
            return await agent.run(run_id="r", model="s", prompt="Look.", on_wait="return", **more)

    return play(scenario())


@pytest.fixture
def shell(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    def run(*words: str) -> tuple[int, str, str]:
        capsys.readouterr()
        code = main(["--db", str(tmp_path / "s.db"), *words])
        out, err = capsys.readouterr()
        return code, out, err

    return run


def test_a_cap_is_raised_before_it_is_said_that_the_program_has_to_go_on(tmp_path: Path, shell: Any) -> None:
    model = ScriptedModel([tool_call("look"), "done"])
    assert _work(tmp_path, model, limits=Limits(steps=1)).status == "budget_exhausted"
    _, _, before = shell("runs", "show", "r")
    assert "raise its cap: artelier resume r" in before and "--limit steps=CAP" in before
    assert "then go on: run the program that started it again, with run_id='r'" in before

    code, out, told = shell("resume", "r", "--limit", "steps=20")

    assert code == 0
    assert "capped at steps=20" in out
    assert "run the program that started it again" in told
    assert _work(tmp_path, model).text == "done"


def test_without_a_cap_the_refusal_says_who_can_go_on(tmp_path: Path, shell: Any) -> None:
    model = ScriptedModel([tool_call("look"), "done"])
    _work(tmp_path, model, limits=Limits(steps=1))

    code, out, _ = shell("resume", "r", "--json")

    assert code != 0
    error = json.loads(out)["error"]
    assert "code that is not loaded here" in error["message"]
    assert "the program that started it" in error["hint"]
