"""The helper process: it ends with its owner, with its time, and when it is idle or broken."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from pathlib import Path

import pytest

from artelier.child import Child, ChildStopped
from artelier.errors import ToolFailed
from artelier.tools.worker.answers import LineHits
from artelier.tools.workspace.files import WorkspaceFolder
from artelier.tools.workspace.tables import tables_of

MATCH = {"ask": "match", "pattern": "a+$", "text": "b\naa", "hits_max": 5}
ENDLESS = {"ask": "match", "pattern": "(a+)+$", "text": "a" * 60 + "!", "hits_max": 5}


def ended(process: subprocess.Popen[bytes]) -> bool:
    return process.poll() is not None


def test_child_answers_one_question_after_the_other():
    child = Child()

    assert child.ask(MATCH, answer=LineHits, timeout_s=10) == LineHits(hits=[(2, "aa", 1)])
    long = child.ask({**MATCH, "text": "ä" * 1_000_000 + "a"}, answer=LineHits, timeout_s=10)
    assert isinstance(long, LineHits) and long.hits[0][0] == 1
    child.close()


def test_child_is_killed_when_its_time_is_over():
    child = Child()

    with pytest.raises(ChildStopped) as caught:
        child.ask(ENDLESS, answer=LineHits, timeout_s=0.3)

    assert caught.value.timed_out
    assert not child.alive
    with pytest.raises(ChildStopped):
        child.ask(MATCH, answer=LineHits, timeout_s=1)


def test_child_that_dies_is_noticed():
    child = Child()
    process = child._process  # pyright: ignore[reportPrivateUsage]
    process.kill()

    with pytest.raises(ChildStopped) as caught:
        child.ask(MATCH, answer=LineHits, timeout_s=10)

    assert not caught.value.timed_out
    assert ended(process)


def test_child_ends_with_its_owner():
    child = Child()
    child.ask(MATCH, answer=LineHits, timeout_s=10)
    process = child._process  # pyright: ignore[reportPrivateUsage]

    del child
    gc.collect()

    assert ended(process)


def test_child_ends_with_the_program():
    code = (
        "import sys\n"
        "from artelier.child import Child\n"
        "child = Child()\n"
        "child.ask({'ask': 'match', 'pattern': 'a', 'text': '', 'hits_max': 1}, answer=dict, timeout_s=10)\n"
        "sys.stdout.write(str(child._process.pid))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stderr == ""
    with pytest.raises(ProcessLookupError):
        os.kill(int(done.stdout), 0)


def test_child_that_cannot_start_is_a_clear_error(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "executable", "/nonexistent/python")

    with pytest.raises(ToolFailed, match="does not start"):
        Child()


def test_tools_over_one_folder_share_their_tables(tmp_path: Path):
    first = tables_of(WorkspaceFolder(tmp_path))

    assert tables_of(WorkspaceFolder(tmp_path)) is first
    (tmp_path / "other").mkdir()
    assert tables_of(WorkspaceFolder(tmp_path / "other")) is not first
