"""One more cycle, then hold: what the command `step` asks of a run."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SingleStep:
    """The progress of a `step` command in a run at work; by default no step was requested.

    A run of a built-in loop holds after its next cycle, a hand-written one after its next step. It holds at
    the boundary that follows, so a run that ends with that cycle simply ends.
    """

    command: int = 0
    """Seq of the command in force; 0 for none."""
    since: int = 0
    """Cycles or steps that this drive had done when it took effect."""
    holding: int = 0
    """Seq of the command whose cycle is done: the run is to be paused."""

    @classmethod
    def from_stored(cls, stored: int) -> SingleStep:
        """Return the state stored as a command's seq in the view, negative if its cycle is done already."""
        return cls(command=abs(stored), since=-1 if stored < 0 else 0)

    def is_over(self, done: int) -> bool:
        """Return True if the cycle that was asked for is done."""
        return bool(self.command) and done > self.since
