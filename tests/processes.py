"""Processes that tests start: none outlives its test, whatever goes wrong."""

from __future__ import annotations

import multiprocessing
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

PATIENCE_S = 60.0
"""How long a test waits for what takes moments; only a process that hangs takes it all."""

_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload(["tests.warm", "tests.server.house"])


def fork(work: Callable[..., None], *given: object) -> int | None:
    """Run a module's function in a process of its own that has imported Artelier; -9 if it is killed there.

    A test of many deaths would spend its time on imports. None if the process hangs, and is killed then.
    """
    process = _FORKS.Process(target=work, args=given)
    process.start()
    try:
        process.join(PATIENCE_S)
        return process.exitcode
    finally:
        process.kill()


@contextmanager
def killed_at_last(process: subprocess.Popen[Any]) -> Iterator[None]:
    """Kill a process that still runs when its test has left the block: waiting for it would have no end."""
    try:
        yield
    finally:
        if process.poll() is None:
            process.kill()


def children() -> set[int]:
    """Return the processes that this one started.

    The kernel lists them by thread, and hands those of a thread that ends to another one: a list counts if
    no thread has ended meanwhile.
    """
    tasks = Path("/proc/self/task")
    while True:
        before = set(tasks.iterdir())
        with suppress(FileNotFoundError, ProcessLookupError):
            found = {int(pid) for task in before for pid in (task / "children").read_text().split()}
            if before <= set(tasks.iterdir()):
                return found
