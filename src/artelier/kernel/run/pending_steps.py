"""Steps that the code of a run waits for, and the timeouts that it stands in."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Protocol

from artelier.kernel.history.step_history import Recorded
from artelier.log import Blob, BlobRef, EventData


class StreamReading(Protocol):
    """A stream that the code reads."""

    is_busy: bool
    """Whether a task waits for its next piece."""

    async def close(self) -> None:
        """Leave it."""
        ...


class TimeoutScope(Protocol):
    """A `run.timeout` that is entered."""

    is_over: bool
    """Whether it has timed out."""


scopes: ContextVar[tuple[TimeoutScope, ...]] = ContextVar("scopes", default=())
"""Timeouts that the current task stands in, the outermost first."""


@dataclass(slots=True, eq=False)
class AtWork:
    """A step that the code waits for."""

    key: str
    kind: str
    recorded: Recorded | None = None
    """What the log has of it, once that was looked up."""
    is_noted: bool = False
    """Whether this drive recorded its outcome."""
    is_beside: bool = False
    """Whether another step was at work at the same time."""
    is_held: bool = False
    """Whether the outcome of a computed step says so."""
    is_effect: bool = False
    """Whether it has dispatched a side effect: then cancelling it settles nothing."""
    name: str = ""
    came: Callable[[], tuple[BlobRef | None, list[Blob]]] | None = None
    """Keeps what came of it before it was cancelled."""
    cost: int = 0
    bill: Callable[[], None] | None = None
    """Settles a stream that its reader leaves."""
    task: asyncio.Task[object] | None = None
    asked: int | None = None
    """Requests and outcomes that this drive had recorded when it was asked for; None if unknown."""
    is_left: bool = False
    is_settled: bool = False
    """Whether its end has reached the code, or its cancellation was taken down."""

    @property
    def outcome(self) -> EventData | None:
        return self.recorded.outcome if self.recorded is not None else None

    @property
    def ended(self) -> int:
        """Position of its outcome in the history; 0 if it has none there.

        A call whose outcome is unknown, or that a person has told to be made again, has none: what this drive
        records of it comes last.
        """
        if self.recorded is not None and self.recorded.place and self.outcome is None:
            return self.recorded.place
        if self.recorded is None or self.outcome is None or self.is_noted:
            return 0
        return 0 if self.recorded.status in ("unknown", "retry") else self.recorded.ended
