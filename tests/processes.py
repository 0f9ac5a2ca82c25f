"""Processes that tests start: none outlives its test, whatever goes wrong."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

PATIENCE_S = 60.0
"""How long a test waits for what takes moments; only a process that hangs takes it all."""


@contextmanager
def killed_at_last(process: subprocess.Popen[Any]) -> Iterator[None]:
    """Kill a process that still runs when its test has left the block: waiting for it would have no end."""
    try:
        yield
    finally:
        if process.poll() is None:
            process.kill()
