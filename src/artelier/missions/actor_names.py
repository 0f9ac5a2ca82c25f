"""Names that agents, tasks and missions may not have: those that identify an actor.

The id of an agent is its principal and the actor of its actions. An agent called `operator` could read what
only people may read, one called `user:ada` would write in her name.
"""

from __future__ import annotations

from artelier.errors import InvalidRequest

_PEOPLE = ("operator", "system", "kernel", "host", "world")
"""Actors that are no id of anything."""

_PREFIXES = (
    "user:",
    "system:",
    "tenant:",
    "membrane:",
    "main:",
    "mission:",
    "chat:",
    "run:",
    "artifact:",
    "session:",
    "world:",
    "schedule:",
)
"""With which actors, groups and streams begin."""


def check_name(id: str, *, what: str) -> str:
    """The id itself. Errors: `InvalidRequest` for one that is somebody else's name."""
    if id in _PEOPLE or id.startswith(_PREFIXES):
        raise InvalidRequest(
            f"{what} cannot be called that: the name is reserved",
            got=id[:128],
            expected=f"none of {', '.join(_PEOPLE)}; no beginning {' '.join(_PREFIXES)}",
            hint="Ids like team/ana are free.",
        )
    return id
