"""Looking at runs: pages, events, trees, costs."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from artelier import ModelReply, Usage
from tests.cli.conftest import Provider, Shell
from tests.processes import run_warm


@pytest.fixture(autouse=True)
def flows(shell: Shell) -> None:
    shutil.copy(Path(__file__).with_name("flows.py"), shell.folder / "flows.py")


def test_list_comes_in_pages_and_by_status(shell: Shell) -> None:
    for number in range(3):
        shell("run", "flows.py:rests", "--run-id", f"r{number}")
    shell("run", "flows.py:pays", "--run-id", "asks")

    first = shell("runs", "list", "--limit", "2", "--json").json
    second = shell("runs", "list", "--after", str(first["next"]), "--json").json
    waiting = shell("runs", "list", "--status", "waiting_approval", "--json").json

    assert [run["id"] for run in first["items"]] == ["r0", "r1"]
    assert [run["id"] for run in second["items"]] == ["r2", "asks"]
    assert second["next"] is None
    assert [run["id"] for run in waiting["items"]] == ["asks"]
    assert "more: --after" in shell("runs", "list", "--limit", "2").err
    assert "no runs that are failed" in shell("runs", "list", "--status", "failed").err


def test_runs_of_another_tenant_are_not_there(shell: Shell) -> None:
    shell("run", "flows.py:rests", "--run-id", "r1", "--tenant", "acme")

    assert shell("runs", "list", "--json").json["items"] == []
    assert shell("runs", "show", "r1").code == 6
    assert shell("runs", "tail", "r1").code == 6
    assert shell("runs", "show", "r1", "--tenant", "acme").code == 0


DIES = """\
import os, signal, subprocess, sys

async def dies(run):
    def end():
        listed = subprocess.run([sys.executable, "-m", "artelier", "runs", "list"], capture_output=True)
        with open("driven.txt", "wb") as file:
            file.write(listed.stdout)
        os.kill(os.getpid(), signal.SIGKILL)
    await run.step("end", end)
"""


def test_a_run_whose_process_was_killed_is_shown_as_driven_by_nobody(shell: Shell) -> None:
    shell.write("dies.py", DIES)
    command = [sys.executable, "-m", "artelier", "run", "dies.py:dies", "--run-id", "r1"]
    killed = run_warm(command, cwd=shell.folder, check=False, capture_output=True)

    listed = shell("runs", "list")
    shown = shell("runs", "show", "r1")
    tree = shell("runs", "tree", "r1")

    assert killed.returncode == -9
    while_driven = (shell.folder / "driven.txt").read_text()
    assert "running" in while_driven and "nobody" not in while_driven
    for ran in (listed, shown, tree):
        assert "running (nobody drives it)" in ran.out
    assert "artelier run dies.py:dies --run-id r1" in listed.err
    assert "artelier run dies.py:dies --run-id r1" in shown.err
    assert shell("runs", "show", "r1", "--json").json["status"] == "running"


def test_show_tells_what_to_do_next(shell: Shell) -> None:
    shell("run", "flows.py:pays", "--run-id", "r1")

    ran = shell("runs", "show", "r1")

    assert "waiting_approval" in ran.out
    assert "flows.py:pays" in ran.out
    assert "artelier approve r1 2" in ran.err


def test_tail_shows_the_newest_events_and_goes_on_from_a_seq(shell: Shell) -> None:
    shell("run", "flows.py:pays", "--run-id", "r1", "--yes")
    every = shell("runs", "tail", "r1", "--after", "0", "--json").json["items"]

    later = shell("runs", "tail", "r1", "--after", "3", "--json").json["items"]

    assert [event["seq"] for event in every] == list(range(1, len(every) + 1))
    assert later == every[3:]
    assert every[0]["kind"] == "run.started"
    assert every[-1]["kind"] == "run.completed"
    assert every[1]["actor"] == "user:kim"


def test_tail_follow_prints_a_line_per_event_and_ends_with_the_run(shell: Shell) -> None:
    shell("run", "flows.py:pays", "--run-id", "r1", "--yes")

    ran = shell("runs", "tail", "r1", "--follow", "--json", "--after", "0")

    assert ran.code == 0
    lines = ran.out.splitlines()
    assert len(lines) > 5
    assert all(line.startswith("{") and line.endswith("}") for line in lines)


def test_tail_knows_tools_that_were_called_before_the_first_line(shell: Shell) -> None:
    shell("run", "flows.py:pays", "--run-id", "r1", "--yes")
    events = shell("runs", "tail", "r1", "--after", "0", "--json").json["items"]
    called = next(event["seq"] for event in events if event["kind"] == "tool.requested")

    ran = shell("runs", "tail", "r1", "--after", str(called))

    assert "3  pay: " in ran.out


def test_cost_lists_each_call_of_a_model(shell: Shell, sales: str, provider: Provider) -> None:
    provider.says(ModelReply(text="South.", usage=Usage(input_tokens=1000, output_tokens=100)))
    shell("do", "Which region?", "--solo", "--workspace", sales, "--run-id", "d1")

    found = shell("runs", "cost", "d1", "--json").json
    shown = shell("runs", "cost", "d1").out

    assert [step["key"] for step in found["steps"]] == ["c1/model"]
    assert found["cost_microusd"] == sum(step["cost_microusd"] for step in found["steps"]) > 0
    assert found["held_microusd"] == 0
    assert f"{found['cost_usd']} USD" in shown
    assert "1,000" in shown


def test_steps_lists_keys_in_order(shell: Shell) -> None:
    shell("run", "flows.py:pays", "--run-id", "r1", "--yes")

    found = shell("runs", "steps", "r1", "--json").json["items"]

    assert [(step["key"], step["kind"]) for step in found] == [
        ("1", "compute"),
        ("2", "approval"),
        ("3", "tool"),
    ]
    assert "approval" in shell("runs", "steps", "r1").out


def test_tree_shows_children_below_their_parent(shell: Shell) -> None:
    shell.write(
        "family.py",
        "from pathlib import Path\n"
        "from artelier import Kernel\n"
        "async def main(run):\n"
        "    with Kernel.open('.artelier/state.db') as kernel:\n"
        "        async with kernel.run('child', parent=run) as child:\n"
        "            await child.step('one', lambda: 1)\n",
    )
    ran = shell("run", "family.py:main", "--run-id", "parent")

    found = shell("runs", "tree", "parent", "--json").json
    shown = shell("runs", "tree", "parent").out

    assert ran.code == 0, ran.err
    assert [child["id"] for child in found["children"]] == ["child"]
    assert "└─ child" in shown
