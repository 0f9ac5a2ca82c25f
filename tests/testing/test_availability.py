"""`torture --availability`: a server under attack, and what another tenant notices of it.

How many milliseconds that is, is judged by the command on a machine of its own, and not here.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from artelier_lab.availability import trial
from artelier_lab.availability.processes import rss_bytes
from artelier_lab.availability.session import INPUTS, run_availability
from artelier_lab.availability.trial import RSS_MB_MAX, Result
from tests.cli.conftest import Shell, shell

__all__ = ["shell"]

SMALL = (
    "slow-headers",
    "artifact-card-digits",
    "upload-zip",
    "check-counted-repeats",
    "result-deep",
    "streams-unread",
)
"""One of each way in: connections, bodies, uploads, checks beside the loop, results, live streams."""


@pytest.fixture(scope="module")
def tried() -> tuple[dict[str, Any], list[Result]]:
    """One server: these inputs, then a run that freezes it."""
    seen: list[Result] = []
    return run_availability(SMALL, measured_s=0.5, told=seen.append), seen


def test_sixty_inputs_have_names_of_their_own() -> None:
    assert len({one.name for one in INPUTS}) == len(INPUTS) >= 60


@pytest.mark.slow
def test_hostile_inputs_leave_the_other_tenant_and_the_server_as_they_were(
    tried: tuple[dict[str, Any], list[Result]],
) -> None:
    found, seen = tried

    print(json.dumps([{"input": one.input, "ms_max": one.ms_max} for one in seen]))  # noqa: T201
    wrong = [(one.input, one.left, one.answered, one.failed) for one in seen if not one.is_correct]
    assert wrong == []
    assert found["inputs"] == found["twins_ok"] == len(SMALL)
    assert found["rss_mb_max"] <= RSS_MB_MAX


@pytest.mark.slow
def test_a_run_that_freezes_its_server_is_parked_and_the_page_opens_each_time(
    tried: tuple[dict[str, Any], list[Result]],
) -> None:
    found, _ = tried

    life = found["life"]
    assert found["parked"] == 1
    assert life["kills"] == len(life["opened_s"]) == len(life["progress"])
    assert life["reason"].startswith("two drives ended without progress at step c1/")
    # Not one drive later and not one earlier than after two in a row that got no further.
    got = life["progress"]
    assert [len(set(got[at : at + 3])) == 1 for at in range(len(got) - 2)] == [
        at == len(got) - 3 for at in range(len(got) - 2)
    ]


@pytest.mark.slow
def test_a_pattern_that_an_outsider_runs_on_the_loop_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    # Nobody answers any more: there is nothing to wait long for.
    monkeypatch.setattr(trial, "ATTACK_S_MAX", 5.0)
    monkeypatch.setattr(trial, "GIVEN_UP_S", 3.0)

    found: dict[str, Any] = run_availability(
        ["queries-long"], plant="unbounded-pattern", freezes=False, measured_s=0.5
    )

    assert found["ok"] is False
    assert found["lines"][0]["frozen"] is True


HELD = """
import os, subprocess, sys
held = b"x" * 64 * 2**20
if not os.fork():
    sys.stdin.read()
    os._exit(0)
program = "import sys; held = b'x' * 32 * 2**20; print(); sys.stdin.read()"
subprocess.Popen([sys.executable, "-c", program]).wait()
"""


def test_the_memory_of_a_child_counts_once_it_runs_a_program_of_its_own() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HELD], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as held:
        assert held.stdout is not None
        held.stdout.readline()  # all three are there
        found_mb = rss_bytes(held.pid) / 2**20
        held.communicate()

    assert 64 + 32 <= found_mb < 2 * 64 + 32


def test_the_command_refuses_names_that_are_no_input_and_no_plant(shell: Shell) -> None:
    assert shell("torture", "--availability", "--only", "rain").code == 2
    assert shell("torture", "--availability", "--plant", "roses").code == 2
