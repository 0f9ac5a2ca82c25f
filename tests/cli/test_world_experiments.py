"""`world sweep` and `world describe` from the command line: real processes, killed and told to stop."""

from __future__ import annotations

import csv
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import duckdb
import pytest

from artelier.cli import exit_codes
from tests.cli.conftest import Shell
from tests.processes import WarmPython, killed_at_last

RULES = """
def give(facts):
    print("rule agents may print")
    return {"action": "transfer", "to": "trader_1", "amount": 1 + facts["seed"] % 3}

POLICIES = {"give": give}
"""

# The first run ends, then nothing goes on as long as there is a gate.
GATED = """
import time
from pathlib import Path

def give(facts):
    while Path("gate").exists() and any(Path("r.sweep").glob("*/row.json")):
        time.sleep(0.01)
    return {"action": "transfer", "to": "trader_1", "amount": 1 + facts["seed"] % 3}

POLICIES = {"give": give}
"""

WORLD = """
settle = false

[world]
seed = 5

[[agents]]
id = "trader_{n}"
count = 2
policy = "give"
"""

THINKER = """
settle = false

[[agents]]
id = "ana"
defaults = false
"""

PRICE = """
[prices."offline"]
input = "0"
output = "0"
request = "0.01"
"""

WAIT_S = 60.0


def swept(shell: Shell, *more: str, out: str = "r.csv") -> Any:
    return shell("world", "sweep", "w.toml", "--out", out, "--jobs", "2", *more)


def table(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture
def rules(shell: Shell) -> Shell:
    shell.write("w.toml", WORLD)
    shell.write("rules.py", RULES)
    return shell


def test_a_sweep_writes_a_row_for_each_run_and_does_nothing_twice(rules: Shell) -> None:
    words = ("--param", "agents=2,3", "--seeds", "2", "--ticks", "4", "--policies", "rules.py")

    first = swept(rules, *words)
    kept = {path: path.stat().st_mtime_ns for path in rules.folder.glob("r.sweep/*/*")}
    again = swept(rules, *words, "--json", out="r.parquet")

    rows = table(rules.folder / "r.csv")
    assert first.code == again.code == exit_codes.COMPLETED and "r.csv: 4 runs" in first.out
    assert [(row["agents"], row["seed"], row["ticks"]) for row in rows] == [
        ("2", "5", "4"),
        ("2", "6", "4"),
        ("3", "5", "4"),
        ("3", "6", "4"),
    ]
    assert [row["actions"] for row in rows] == ["8", "8", "12", "12"]
    assert len({row["hash"] for row in rows}) == 4
    assert again.json["done_before"] == again.json["runs"] == 4
    assert {path: path.stat().st_mtime_ns for path in kept if path.name == "row.json"} == {
        path: at for path, at in kept.items() if path.name == "row.json"
    }
    read = duckdb.execute("SELECT run, agents, hash FROM read_parquet('r.parquet')").fetchall()
    assert read == [(row["run"], int(row["agents"]), row["hash"]) for row in rows]


def test_the_world_of_a_run_is_that_of_world_new_and_can_be_looked_into(rules: Shell) -> None:
    swept(rules, "--ticks", "3", "--policies", "rules.py")
    rules("world", "new", "alone", "--file", "w.toml")
    rules("world", "run", "alone", "--ticks", "3", "--policies", "rules.py")

    (row,) = table(rules.folder / "r.csv")
    shown = rules("world", "show", "world", "--db", f"r.sweep/{row['run']}/state.db", "--json")

    assert row["hash"] == rules("world", "hash", "alone", "--json").json["sha256"]
    assert shown.json["tick"] == 3 and shown.json["agents"] == 2


def test_a_changed_world_is_run_anew(rules: Shell) -> None:
    swept(rules, "--ticks", "2", "--policies", "rules.py")
    before = table(rules.folder / "r.csv")
    rules.write("w.toml", WORLD.replace("count = 2", "count = 4"))

    told = swept(rules, "--ticks", "2", "--policies", "rules.py", "--json").json

    after = table(rules.folder / "r.csv")
    assert told["done_before"] == 0 and len(after) == 1
    assert before[0]["actions"] == "4" and after[0]["actions"] == "8"


def test_a_sweep_that_was_killed_goes_on(shell: Shell) -> None:
    shell.write("w.toml", WORLD)
    shell.write("rules.py", GATED)
    gate = shell.write("gate", "")
    words = ["--seeds", "5", "--ticks", "6", "--policies", "rules.py"]
    process = WarmPython(
        [
            sys.executable,
            "-m",
            "artelier",
            "world",
            "sweep",
            "w.toml",
            "--out",
            "r.csv",
            "--jobs",
            "2",
            *words,
        ],
        cwd=shell.folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        until = time.monotonic() + WAIT_S
        while len(begun := list(shell.folder.glob("r.sweep/*/state.db"))) < 3:
            assert process.poll() is None and time.monotonic() < until
            time.sleep(0.02)
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.wait(WAIT_S)
    done = {path: path.stat().st_ino for path in shell.folder.glob("r.sweep/*/row.json")}
    assert 1 <= len(done) < len(begun) and not (shell.folder / "r.csv").exists()

    gate.unlink()
    ran = swept(shell, *words, "--json")
    shell.write("elsewhere/none", "")
    whole = swept(shell, *words, "--json", out="elsewhere/r.csv")

    assert ran.code == exit_codes.COMPLETED
    # A process that stood at the gate may end its run before it sees that nobody asks it any more.
    assert len(done) <= ran.json["done_before"] <= len(begun)
    assert whole.json["done_before"] == 0
    assert {path: path.stat().st_ino for path in done} == done
    assert table(shell.folder / "r.csv") == table(shell.folder / "elsewhere/r.csv")
    assert len(table(shell.folder / "r.csv")) == 5


def test_processes_end_with_the_sweep_that_started_them(shell: Shell) -> None:
    """A second sweep gets the folder only when the processes of the killed one are gone."""
    shell.write("w.toml", WORLD)
    shell.write("rules.py", GATED)
    shell.write("gate", "")
    words = ["--seeds", "4", "--ticks", "2", "--policies", "rules.py"]
    process = WarmPython(
        [
            sys.executable,
            "-m",
            "artelier",
            "world",
            "sweep",
            "w.toml",
            "--out",
            "r.csv",
            "--jobs",
            "2",
            *words,
        ],
        cwd=shell.folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    with killed_at_last(process):
        until = time.monotonic() + WAIT_S
        while not list(shell.folder.glob("r.sweep/*/row.json")):
            assert process.poll() is None and time.monotonic() < until
            time.sleep(0.02)
        refused = shell("world", "sweep", "w.toml", "--out", "r.csv", *words, "--json")
        process.send_signal(signal.SIGINT)
        code = process.wait(WAIT_S)
    assert refused.code == exit_codes.FAILED and refused.error["code"] == "conflict"
    assert code == exit_codes.INTERRUPTED

    (shell.folder / "gate").unlink()

    assert swept(shell, *words).code == exit_codes.COMPLETED


def test_the_cap_holds_over_all_runs_and_a_higher_one_goes_on(shell: Shell) -> None:
    shell.write("w.toml", THINKER)
    shell.write("artelier.toml", PRICE)
    words = ("--seeds", "3", "--ticks", "4", "--jobs", "3", "--json")

    stopped = swept(shell, *words, "--max-usd", "0.10")
    some = table(shell.folder / "r.csv")
    still = swept(shell, *words, "--max-usd", "0.10")
    gone_on = swept(shell, *words, "--max-usd", "0.12")
    rows = table(shell.folder / "r.csv")
    lower = swept(shell, *words, "--max-usd", "0.01")

    assert stopped.code == still.code == exit_codes.BUDGET
    assert stopped.error["code"] == "limit_reached" and "of 3 runs" in stopped.error["message"]
    assert stopped.error["got"].startswith("0.10 USD")
    assert still.error["got"].startswith("0.10 USD")
    assert 1 <= len(some) <= 2 and {row["model_cost_microusd"] for row in some} == {"40000"}
    assert gone_on.code == lower.code == exit_codes.COMPLETED
    assert gone_on.json["model_cost_usd"] == "0.12"
    assert [row["model_cost_microusd"] for row in rows] == ["40000"] * 3


def test_a_rule_agent_that_raises_ends_the_sweep_and_names_the_run(shell: Shell) -> None:
    shell.write("w.toml", WORLD)
    shell.write(
        "rules.py", "def give(facts):\n    raise ValueError('no\\x1b[2J idea')\nPOLICIES = {'give': give}\n"
    )

    ran = swept(shell, "--param", "agents=2", "--policies", "rules.py")

    assert ran.code == exit_codes.FAILED
    assert "agents=2, seed=5" in ran.err and "ValueError: no" in ran.err and "\x1b" not in ran.err
    assert table(shell.folder / "r.csv") == []


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("w.toml", "--out", "r.xlsx"), exit_codes.USAGE, "FILE.csv or FILE.parquet"),
        (("w.toml", "--out", "nowhere/r.csv"), exit_codes.NOT_FOUND, "no such folder"),
        (("none.toml", "--out", "r.csv"), exit_codes.NOT_FOUND, "no such world file"),
        (("w.toml", "--out", "r.csv", "--jobs", "0"), exit_codes.USAGE, "--jobs"),
        (("w.toml", "--out", "r.csv", "--max-usd", "-1"), exit_codes.USAGE, "amount in USD"),
        (("w.toml", "--out", "r.csv", "--param", "x=1"), exit_codes.USAGE, "mint.every"),
        (("w.toml", "--out", "r.csv", "--policies", "none.py"), exit_codes.USAGE, "none.py"),
    ],
)
def test_what_cannot_be_swept_is_said_before_anything_begins(
    rules: Shell, words: tuple[str, ...], code: int, said: str
) -> None:
    ran = rules("world", "sweep", *words, "--json")

    assert ran.code == code and said.split()[0] in ran.out
    assert not list(rules.folder.glob("*.sweep"))


def test_describe_prints_what_the_world_is(rules: Shell) -> None:
    rules("world", "new", "w", "--file", "w.toml")
    rules("world", "run", "w", "--ticks", "2", "--policies", "rules.py")

    ran = rules("world", "describe", "w")
    as_json = rules("world", "describe", "w", "--json").json

    assert ran.code == exit_codes.COMPLETED and ran.out.startswith("# World `w`")
    assert "| policy | `give@1` | 4 |" in ran.out
    assert as_json["world"] == "w" and as_json["markdown"].strip() == ran.out.strip()
    assert rules("world", "describe", "none", "--json").error["code"] == "not_found"
