"""`artelier do` killed with a real `kill -9` at any moment; `artelier resume` gives the same result."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from artelier.cli import main
from tests.processes import WarmPython

GOAL = "Which two shops sold most, and what changed from Q1 to Q2? Write a report."
RUN = "killed"


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("workspace")
    rows = ["day,shop,amount"]
    for month in range(1, 7):
        for shop, factor in (("Oslo", 3), ("Bergen", 2), ("Narvik", 5), ("Molde", 1)):
            rows.append(f"2025-{month:02d}-11,{shop},{factor * 100 + month * factor}")
    (folder / "sales.csv").write_text("\n".join(rows) + "\n")
    return folder


def start(*arguments: str, cwd: Path) -> subprocess.Popen[str]:
    environ = {key: value for key, value in os.environ.items() if not key.startswith("ARTELIER_")}
    return WarmPython(
        [sys.executable, "-m", "artelier", *arguments],
        cwd=cwd,
        env=environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(*arguments: str, cwd: Path) -> dict[str, Any]:
    process = start(*arguments, "--json", cwd=cwd)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, f"{out}\n{err}"
    return json.loads(out)


def events(database: Path) -> int:
    try:
        with sqlite3.connect(f"{database.as_uri()}?mode=ro", uri=True, timeout=5) as db:
            return db.execute("SELECT count(*) FROM events").fetchone()[0]
    except sqlite3.Error:
        return 0


def kill_after(process: subprocess.Popen[str], database: Path, count: int) -> bool:
    """Kill -9 as soon as so many events are durable; False if the process was faster."""
    deadline = time.monotonic() + 60
    while process.poll() is None and time.monotonic() < deadline:
        if events(database) >= count:
            process.send_signal(signal.SIGKILL)
            break
        time.sleep(0.003)
    process.kill()  # whatever happened, it is waited for no longer
    process.communicate()
    return process.returncode == -signal.SIGKILL


@pytest.fixture(scope="module")
def undisturbed(workspace: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return finish(
        "do", GOAL, "--workspace", str(workspace), "--run-id", RUN, cwd=tmp_path_factory.mktemp("undisturbed")
    )


@pytest.fixture
def here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., dict[str, Any]]:
    """`finish` in this process: only what is killed needs one of its own."""
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("ARTELIER_")]:
        monkeypatch.delenv(name)

    def finish_here(*arguments: str) -> dict[str, Any]:
        capsys.readouterr()
        code = main([*arguments, "--json"])
        out, err = capsys.readouterr()
        assert code == 0, f"{out}\n{err}"
        return json.loads(out)

    return finish_here


@pytest.mark.slow
@pytest.mark.parametrize("count", [1, 9, 26])
def test_a_killed_job_resumes_to_the_same_result(
    workspace: Path,
    tmp_path: Path,
    undisturbed: dict[str, Any],
    here: Callable[..., dict[str, Any]],
    count: int,
) -> None:
    """That its database verifies is looked at after each test."""
    database = tmp_path / ".artelier" / "state.db"
    process = start("do", GOAL, "--workspace", str(workspace), "--run-id", RUN, cwd=tmp_path)
    kill_after(process, database, count)

    if events(database) < 3:  # killed before the run was there: starting it is all there is to do
        resumed = here("do", GOAL, "--workspace", str(workspace), "--run-id", RUN)
    else:
        resumed = here("resume", RUN)

    assert resumed["status"] == "completed"
    assert resumed["text"] == undisturbed["text"]
    report = tmp_path / "artelier-out" / f"{RUN}.md"
    assert report.read_text().strip() == undisturbed["text"].strip()


@pytest.mark.slow
def test_a_job_killed_again_and_again_still_ends(
    workspace: Path, tmp_path: Path, undisturbed: dict[str, Any]
) -> None:
    database = tmp_path / ".artelier" / "state.db"
    kills = 0
    for _ in range(40):
        process = start("do", GOAL, "--workspace", str(workspace), "--run-id", RUN, cwd=tmp_path)
        if not kill_after(process, database, events(database) + 12):
            break
        kills += 1

    ended = finish("resume", RUN, cwd=tmp_path)

    assert kills >= 2
    assert ended["text"] == undisturbed["text"]
