"""The work that every peer does: a model that calls one tool, turn after turn, and then says that it is done.

The model is a function, so that only the runtimes cost time. It reads the number of its turn from the last
message, and so goes on where a killed process has stopped.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field

TASK = "Note the numbers, one after another."
LATER = 5
"""Turns that are left when a process kills itself."""
DIES = 9
"""Exit code of a process that kills itself."""


def note(number: int) -> str:
    """Note a number."""
    return f"noted {number}"


def following(last: str) -> int:
    """Return the number that comes after what the last message says; 1 for the task."""
    word = last.strip().strip('"').rpartition(" ")[2]
    return int(word) + 1 if word.isdecimal() else 1


@dataclass(slots=True)
class Watch:
    """The moments at which a model was asked, in CPU and wall time of this process."""

    die_at: int = 0
    """The turn at which the process kills itself instead of an answer; 0 for never."""
    first_s: tuple[float, float] | None = None
    last_s: tuple[float, float] = (0.0, 0.0)
    asked: int = field(default=0)

    def note_asked(self, turn: int) -> None:
        """Note that the model is asked for a turn."""
        if turn == self.die_at:
            os._exit(DIES)
        now = (time.process_time(), time.perf_counter())
        self.first_s = self.first_s or now
        self.last_s = now
        self.asked += 1
