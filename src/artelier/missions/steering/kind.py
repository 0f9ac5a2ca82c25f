"""The kind `steering` as missions need it: checked in full when it is written, and never deleted.

Imported with the handle, so it loads nothing of the kernel before something is checked.
"""

from __future__ import annotations

from typing import Any

from artelier.artifacts import Kind, register_kind
from artelier.artifacts.content import Media
from artelier.errors import InvalidArtifact, InvalidRequest

_JSON: frozenset[Media] = frozenset(("json",))


def register_steering() -> None:
    """Twice is once. Stored artifacts are not touched: an older one with mistakes stays readable."""
    register_kind(
        Kind(
            name="steering",
            media=_JSON,
            check=_check,
            default_access="private",
            lasting="Its limits hold while it stands. Change it: null puts a default back.",
        ),
        replace=True,
    )


def _check(content: Any) -> None:
    from artelier.missions.steering.document import Steering

    try:
        Steering.parse(content)
    except InvalidRequest as error:
        raise InvalidArtifact(
            error.message, expected=error.expected, got=error.got, hint=error.hint
        ) from None
