"""Exit codes: what a script can tell from a command that ended."""

from __future__ import annotations

from artelier.errors import (
    ArtelierError,
    Corrupt,
    Exhausted,
    InvalidExport,
    InvalidRequest,
    MissingKey,
    NotFound,
)

COMPLETED = 0
FAILED = 1
USAGE = 2
WAITING = 3
BUDGET = 4
UNKNOWN_OUTCOME = 5
NOT_FOUND = 6
CORRUPT = 7
INTERRUPTED = 130

MEANINGS: dict[int, str] = {
    COMPLETED: "completed",
    FAILED: "failed, cancelled or refused",
    USAGE: "wrong arguments, settings, or a missing key",
    WAITING: "the run waits: for a person, a signal, a time, or for somebody to drive it",
    BUDGET: "a budget or limit is used up",
    UNKNOWN_OUTCOME: "a side effect's outcome is unknown: `artelier reconcile`",
    NOT_FOUND: "what was named is not there",
    CORRUPT: "the database or export is damaged, foreign, or from a newer version",
    INTERRUPTED: "interrupted by Ctrl-C or SIGTERM; runs stay resumable",
}

_FAMILIES: tuple[tuple[type[ArtelierError], int], ...] = (
    (MissingKey, USAGE),
    (InvalidExport, CORRUPT),
    (InvalidRequest, USAGE),
    (NotFound, NOT_FOUND),
    (Exhausted, BUDGET),
    (Corrupt, CORRUPT),
)

_STATUSES: dict[str, int] = {
    "completed": COMPLETED,
    "failed": FAILED,
    "blocked": FAILED,
    "cancelled": FAILED,
    "budget_exhausted": BUDGET,
    "unknown_outcome": UNKNOWN_OUTCOME,
}


def of_error(error: BaseException) -> int:
    """The exit code of an error."""
    for family, code in _FAMILIES:
        if isinstance(error, family):
            return code
    return FAILED


def of_status(status: str) -> int:
    """The exit code of a run that stands at `status`."""
    return _STATUSES.get(status, WAITING)
