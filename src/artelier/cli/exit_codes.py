"""Exit codes: what a script can tell from a command that ended."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable
from typing import Any

from artelier.cli.display import json_text, safe
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


# Errors as people and scripts see them: what was expected, what came, what to do; no traceback unasked.

DEBUG = "ARTELIER_DEBUG"
"""Environment variable that asks for tracebacks."""


def report(error: BaseException, *, as_json: bool, marked: Callable[[str], str] = lambda text: text) -> int:
    """Show an error and give its exit code: on stdout as JSON, else on stderr as text.

    `marked` takes personal data out of what is said.
    """
    if os.environ.get(DEBUG):
        print(marked("".join(traceback.format_exception(error))), file=sys.stderr)
    told = _as_ours(error).to_wire()
    wire = {name: marked(one) if isinstance(one, str) else one for name, one in told.items()}
    if as_json:
        print(json_text({"error": wire}))
    else:
        print(text_of(wire), file=sys.stderr)
    return of_error(error)


def _as_ours(error: BaseException) -> ArtelierError:
    if isinstance(error, ArtelierError):
        return error
    told = ArtelierError(
        f"{type(error).__name__}: {error}",
        hint=f"This is a mistake of Artelier, not yours. Set {DEBUG}=1 to see where it comes from.",
    )
    told.code = "unexpected"
    return told


def text_of(wire: dict[str, Any]) -> str:
    """An error on a few lines."""
    lines = [f"error: {safe(str(wire['message']))}"]
    for name in ("expected", "got", "hint"):
        if wire.get(name) is not None:
            text = safe(str(wire[name])).replace("\n", "\n" + " " * 12)
            lines.append(f"  {name:<9} {text}")
    return "\n".join(lines)
