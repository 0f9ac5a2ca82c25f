"""The facts that the server gives about itself: names only, no path and no key."""

from __future__ import annotations

from artelier.server.security.users import Role
from artelier.server.wire.models import Told


class UserShown(Told):
    """Somebody who may sign in."""

    name: str
    role: Role
    tenants: list[str]
    """Those of the user that the asking admin has too."""


class LagShown(Told):
    """The lag of the event loop behind its timers: every tenant waits that long."""

    p99_ms: int
    """Of the last minute, as the next is."""
    max_ms: int
    worst_ms: int
    """The largest since the server began."""


class ServerShown(Told):
    """The settings that this server was started with."""

    version: str
    model: str
    """Of whatever names none."""
    database: str
    """Name of the file, without its folder."""
    workspace: str
    """Name of the folder that the tools of new missions work on; empty for none."""
    has_worker: bool
    """Whether it drives runs that nobody else drives."""
    upload_bytes_max: int
    """Of one request with files."""
    models: dict[str, bool]
    """Each provider that needs a key, and whether the server has one."""
    lag: LagShown
    users: list[UserShown] | None
    """Those of the tenant, for an admin of it; null for others, and if nobody has to sign in by name."""
