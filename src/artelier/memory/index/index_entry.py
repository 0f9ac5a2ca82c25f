"""The index's record of one memory entry."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One entry as it is searched: text and fields. The store keeps everything else."""

    id: str
    text: str
    speaker: str = ""
    """Who said it; a name in a question favours what that person said."""
    date: str = ""
    """When it was said, as free text or ISO 8601; empty if nobody knows."""
    tags: tuple[str, ...] = ()
    importance: float = 0.5
    """From 0 to 1."""
    tick: int = 0
    """When it was written: any integer that grows with time (a tick, microseconds)."""
    trust: str = "trusted"
    caption: str = ""
    """What an attached picture or file shows."""
