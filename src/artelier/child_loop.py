"""The other end of `child.py`: the loop of a helper process, which answers one line of JSON after another.

A worker module calls `serve`. Read next: the three workers (`pii/worker`, `tools/worker`,
`operations/transforms/worker`), which say what is asked and what is answered.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import select
import signal
import sys
from collections.abc import Callable
from typing import Any

IDLE_S = 600
"""Seconds without a question after which the process ends; the next question starts another."""

GRACE_S = 5
"""Seconds by which a question may overrun its time before the process ends itself, if its parent died."""

MIB = 1024 * 1024


def serve(answer: Callable[[dict[str, Any]], tuple[bytes, bool]], *, memory_bytes_max: int) -> None:
    """Answer each line of the standard input with a line, until the input ends or nobody asks any more.

    `answer` takes the question and returns one line of JSON and whether the process may go on: False where
    something may have been stopped half-way, in this process or in a library's cache.
    Units: `memory_bytes_max` bounds the address space.
    """
    bound_memory(memory_bytes_max)
    while select.select([sys.stdin], [], [], IDLE_S)[0]:
        line = sys.stdin.buffer.readline()
        if not line:
            return
        message: dict[str, Any] = json.loads(line)
        signal.alarm(int(message["timeout_s"]) + GRACE_S)
        content, is_sound = answer(message)
        signal.alarm(0)
        sys.stdout.buffer.write(content + b"\n")
        sys.stdout.buffer.flush()
        if not is_sound:
            os._exit(0)


def bound_memory(bytes_max: int) -> None:
    """Bound the address space of this process, if the system lets it; no core is written."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    if hard == resource.RLIM_INFINITY or hard > bytes_max:
        # Not every system lets a process bound its address space.
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_AS, (bytes_max, hard))
