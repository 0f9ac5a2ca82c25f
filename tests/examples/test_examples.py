"""Every example runs as it stands, offline, and says what it promises."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.processes import run_warm

EXAMPLES = Path(__file__).parents[2] / "examples"

PROMISES = {
    "01_first_run.py": "calls to the model in this process: 1",
    "02_tools.py": "only 0 left",
    "03_kill_and_resume.py": "the bank's books: ['ana', 'ben', 'cleo']",
    "04_budget.py": "stopped before spending: budget_exhausted",
    "05_approval.py": "not published: two typos are left",
    "06_explain_a_prompt.py": "the same bytes: True",
    "07_artifacts.py": "access_denied",
    "08_long_conversations.py": "replayed without a call: True",
    "09_memory.py": "after the undo: []",
    "10_skills.py": 'the hostile one: {"error"',
    "11_sub_agents.py": "as much as the tenant has paid: True",
    "12_chat.py": "Your name is Ada.",
    "13_world.py": "the same world twice: True",
    "14_trading_minds.py": "ben's prompt of tick 4 haggles: True",
    "15_trading_memories.py": "ben remembers: Rosa cuts her prices",
    "16_chat.py": "the first variant has its own state: True",
    "17_mission.py": (
        "orders/oslo: done\norders/bergen: failed max_iterations\n"
        "orders/report: blocked dependency_failed orders/bergen\norders/survey: failed stuck"
    ),
    "18_undo_and_change.py": "ben: hotel\ncleo: hotel with breakfast",
    "19_personal_data.py": "the files hold the address: False",
    "21_pydantic_ai.py": "calls of the model: 3\ntimes the card was blocked: 1",
    "20_stream.py": "-> {'city': 'Oslo', 'degrees': 21}",
}


def run_example(name: str, folder: Path) -> str:
    done = run_warm(
        [sys.executable, "-W", "error", str(EXAMPLES / name)],
        cwd=folder,
        env={**os.environ, "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_example_is_tested() -> None:
    assert sorted(PROMISES) == sorted(path.name for path in EXAMPLES.glob("[0-9]*.py"))


@pytest.mark.parametrize("name", PROMISES)
def test_an_example_runs_and_keeps_its_promise(name: str, tmp_path: Path) -> None:
    assert PROMISES[name] in run_example(name, tmp_path)


def test_the_first_example_calls_nothing_the_second_time(tmp_path: Path) -> None:
    run_example("01_first_run.py", tmp_path)

    again = run_example("01_first_run.py", tmp_path)

    assert "replayed: True" in again
    assert "calls to the model in this process: 0" in again
