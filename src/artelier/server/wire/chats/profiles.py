"""Profiles of operations as the API shows and takes them."""

from __future__ import annotations

from typing import Any

from artelier.server.wire.models import CheckedRequestBody, Told


class ProfileLine(Told):
    """A profile of a list."""

    profile_id: str
    source: str
    """`shipped`, or the ref `id@version` of a stored one."""
    name: str
    version: int
    """As its author counts."""
    enabled: bool
    operations: int
    writes: list[str]
    """Tags of the artifacts that it may write."""


class ProfilesPage(Told):
    """Shipped profiles first, then those that are stored."""

    items: list[ProfileLine]
    next: str | None = None
    """Give it as `after` for the next page; null at the end."""
    invalid: list[str] = []
    """Refs of stored ones that today's rules do not let through."""


class ProfileShown(Told):
    """A profile as it is written."""

    profile_id: str
    source: str
    profile: dict[str, Any]


class Mistake(Told):
    """Something wrong with a profile."""

    path: str
    """Such as `operations[3].params.effects[0].tag`; empty for the whole."""
    code: str
    message: str


class Validated(Told):
    """All that is wrong with a profile."""

    valid: bool
    errors: list[Mistake]


class ProfileBody(CheckedRequestBody):
    """A profile to look at, or to store."""

    profile: Any
    """An object, or its JSON text."""


class ProfileSaved(Told):
    """The place where a profile is stored."""

    ref: str
    profile_id: str
