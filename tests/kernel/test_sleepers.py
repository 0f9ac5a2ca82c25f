"""A process that is stopped and goes on is not alone in the world any more."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.kernel.sleeper import open_paying, paying
from tests.kernel.stage import drive, play


@contextmanager
def _asleep(folder: Path) -> Generator[subprocess.Popen[str]]:
    """A process that has stopped itself (SIGSTOP) just before a payment whose request is durable."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.kernel.sleeper", str(folder)], stdout=subprocess.PIPE, text=True
    )
    try:
        _, status = os.waitpid(process.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status)
        yield process
    finally:
        process.kill()
        process.wait()


def _wake(process: subprocess.Popen[str]) -> str:
    process.send_signal(signal.SIGCONT)
    out, _ = process.communicate(timeout=30)
    return out.strip()


@pytest.mark.slow
def test_a_process_that_was_stopped_while_another_paid_does_not_pay_again(tmp_path: Path) -> None:
    async def take_over() -> None:
        with open_paying(tmp_path) as kernel:
            runs = kernel.for_tenant()
            assert await drive(runs, paying) == "running: lease_held"
            (tmp_path / "late").write_text("31")
            assert await drive(runs, paying) == "unknown_outcome"
            await runs.reconcile("r", "1", retry=True)
            assert await drive(runs, paying) == "completed"

    with _asleep(tmp_path) as process:
        play(take_over())

        assert _wake(process) == "lease_lost"
    assert (tmp_path / "paid").read_text() == "3\n"


@pytest.mark.slow
def test_a_process_that_was_stopped_for_long_and_was_not_missed_pays(tmp_path: Path) -> None:
    with _asleep(tmp_path) as process:
        (tmp_path / "late").write_text("3600")

        assert _wake(process) == "paid"
    assert (tmp_path / "paid").read_text() == "3\n"
