"""A person at a terminal: asked right there, answered in one key, and never trapped."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Shell
from tests.cli.terminal import Seen, on_terminal
from tests.processes import PATIENCE_S, WarmPython, killed_at_last

pytestmark = pytest.mark.slow

ASKS = "l = later"


@pytest.fixture(autouse=True)
def flows(shell: Shell) -> None:
    shutil.copy(Path(__file__).with_name("flows.py"), shell.folder / "flows.py")


def pays(shell: Shell, *typed: tuple[str, str]) -> Seen:
    words = ["run", "flows.py:pays", "--run-id", "r1"]
    return on_terminal(words, folder=shell.folder, typed=typed)


def test_yes_lets_the_run_go_on_at_once(shell: Shell) -> None:
    seen = pays(shell, (ASKS, "y\n"))

    assert seen.code == 0
    assert "? pay Ana?" in seen.text
    assert "amount: 4" in seen.text
    assert '"paid": "ana"' in seen.text


def test_no_asks_why_and_keeps_it(shell: Shell) -> None:
    seen = pays(shell, (ASKS, "n\n"), ("why?", "too much\n"))

    assert seen.code == 0
    assert '"denied": "too much"' in seen.text


def test_a_slip_of_the_finger_is_asked_again(shell: Shell) -> None:
    seen = pays(shell, (ASKS, "yy\n"), (ASKS, "\n"), (ASKS, "n\n"), ("why?", "\n"))

    assert seen.code == 0
    assert seen.text.count(ASKS) == 3
    assert '"denied": ""' in seen.text


def test_edited_arguments_are_used_once_they_are_json(shell: Shell) -> None:
    seen = pays(shell, (ASKS, "e\n"), ("JSON >", "{amount\n"), (ASKS, "e\n"), ("JSON >", '{"amount": 9}\n'))

    assert seen.code == 0
    assert "not JSON" in seen.text
    assert '"amount": 9' in seen.text


@pytest.mark.parametrize("key", ["l\n", "\x04"], ids=["later", "ctrl-d"])
def test_later_leaves_the_run_waiting_and_says_how_to_answer(shell: Shell, key: str) -> None:
    seen = pays(shell, (ASKS, key))
    answered = pays(shell, (ASKS, "y\n"))

    assert seen.code == 3
    assert "artelier approve r1 2" in seen.text
    assert answered.code == 0


def test_ctrl_c_leaves_the_run_resumable(shell: Shell) -> None:
    seen = pays(shell, (ASKS, "\x03"))
    again = pays(shell, (ASKS, "y\n"))

    assert seen.code == 130
    assert "go on with: artelier run flows.py:pays --run-id r1" in seen.text
    assert "Traceback" not in seen.text
    assert again.code == 0


def test_an_answer_from_elsewhere_ends_the_question(shell: Shell) -> None:
    words = [sys.executable, "-m", "artelier", "approve", "r1"]
    shell.write(
        "elsewhere.py",
        "import subprocess, asyncio\n"
        "import flows\n"
        "async def main(run):\n"
        f"    asking = asyncio.create_task(run.approve('now?', key='q'))\n"
        "    await asyncio.sleep(0)\n"
        "    while run.status != 'waiting_approval':\n"
        "        await asyncio.sleep(0.01)\n"
        f"    await asyncio.to_thread(subprocess.run, {words!r}, check=True)\n"
        "    return (await asking).by\n",
    )

    seen = on_terminal(["run", "elsewhere.py:main", "--run-id", "r1"], folder=shell.folder)

    assert seen.code == 0
    assert "answered elsewhere" in seen.text
    assert "user:kim" in seen.text


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM], ids=["ctrl-c", "sigterm"])
def test_an_interrupted_run_is_resumable_and_says_how(shell: Shell, stop: signal.Signals) -> None:
    shell.write("long.py", "async def main(run):\n    return await run.wait_for('go')\n")
    words = [sys.executable, "-m", "artelier", "run", "long.py:main", "--run-id", "w1"]

    with (
        WarmPython(words, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as run,
        killed_at_last(run),
    ):
        assert run.stderr is not None
        said = ""
        while "waits for the signal go" not in said:
            line = run.stderr.readline()
            assert line, f"it ended: {said}"
            said += line
        run.send_signal(stop)
        out, rest = run.communicate(timeout=PATIENCE_S)

    assert run.returncode == 130
    assert out == ""
    assert "go on with: artelier run long.py:main --run-id w1" in rest
    assert shell("runs", "show", "w1", "--json").json["status"] in ("waiting", "pending")
    shell("signal", "w1", "go", "42")
    assert shell("run", "long.py:main", "--run-id", "w1").out == "42\n"


def test_commands_reach_a_run_that_another_process_drives(shell: Shell) -> None:
    shell.write("long.py", "async def main(run):\n    return await run.wait_for('go')\n")
    words = [sys.executable, "-m", "artelier", "run", "long.py:main", "--run-id", "w1"]

    with WarmPython(words, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as run:
        assert run.stderr is not None
        while "waits for the signal go" not in run.stderr.readline():
            assert run.poll() is None
        second = shell("run", "long.py:main", "--run-id", "w1")
        shown = shell("runs", "show", "w1")
        paused = shell("pause", "w1")
        resumed = shell("resume", "w1")
        cancelled = shell("cancel", "w1", "--note", "wrong year")
        told = run.communicate(timeout=30)[1]

    assert (second.code, paused.code, resumed.code, cancelled.code) == (1, 0, 0, 0)
    assert "driven by another process" in second.err
    assert f":{run.pid}" in shown.out
    assert "goes on in the process that drives it" in resumed.out
    assert "paused by user:kim" in told and "cancelled by user:kim" in told
    assert run.returncode == 1


def test_a_worker_ends_cleanly_on_sigterm(shell: Shell) -> None:
    shell("db", "migrate")
    words = [sys.executable, "-m", "artelier", "worker"]

    with WarmPython(words, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as run:
        assert run.stderr is not None
        assert "worker on" in run.stderr.readline()
        run.send_signal(signal.SIGTERM)
        out, rest = run.communicate(timeout=30)

    assert run.returncode == 0
    assert out == ""
    assert "Traceback" not in rest


def test_a_pipe_that_closes_early_is_no_traceback(shell: Shell) -> None:
    for number in range(30):
        shell("run", "flows.py:rests", "--run-id", f"r{number}")
    words = f"{sys.executable} -m artelier runs list | head -1"

    ran = subprocess.run(["bash", "-c", words], capture_output=True, text=True, check=True)

    assert ran.stdout.startswith("run")
    assert "Traceback" not in ran.stderr and "Exception ignored" not in ran.stderr


def test_commands_in_advice_carry_the_database_and_tenant(shell: Shell) -> None:
    ran = shell("run", "flows.py:pays", "--run-id", "r1", "--db", "my data.db", "--tenant", "acme")

    assert "artelier approve r1 2 --db 'my data.db' --tenant acme" in ran.err
