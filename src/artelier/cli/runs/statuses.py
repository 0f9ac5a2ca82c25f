"""The statuses that a run can have, for options that name one."""

from __future__ import annotations

from artelier.errors import InvalidRequest
from artelier.kernel.run.status import FINAL, RESUMABLE


def check_status(status: str | None) -> None:
    """Errors: `InvalidRequest` for a status that no run can have."""
    known = sorted(FINAL | RESUMABLE)
    if status is not None and status not in known:
        raise InvalidRequest("no run has such a status", expected=", ".join(known), got=repr(status))
