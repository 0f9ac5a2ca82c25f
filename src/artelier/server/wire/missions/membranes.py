"""Membranes: who is a member, what is shared."""

from __future__ import annotations

from pydantic import Field

from artelier.missions.membranes.membranes import NAME_CHARS_MAX
from artelier.server.wire.models import CheckedRequestBody, Id, Micro, Told


class MembraneLine(Told):
    """A membrane of a list."""

    id: str
    name: str
    version: int
    members: list[str]
    """Agents."""
    shared_count: int
    steering: str | None
    """Id of its steering; null if nobody has steered it."""
    budget_usd: str | None
    """Of all members' work together; null for none."""
    used_microusd: Micro
    """What counts against the budget by now."""


class Shared(Told):
    """An artifact that the members may read."""

    id: str
    kind: str
    version: int
    owner: str
    title: str | None = None


class MembraneShown(MembraneLine):
    """A membrane with the first of what it shares."""

    shared: list[Shared]
    shared_next: str | None
    """Where `GET /membranes/{id}/shared?after=` goes on; null if this is all."""


# Requests

Budget = Field(default=None, pattern=r"^\d{1,9}(\.\d{1,6})?$", description="Such as 1.50.")
Name = Field(min_length=1, max_length=NAME_CHARS_MAX)


class MembraneNew(CheckedRequestBody):
    """A membrane to be made."""

    name: str = Name
    mission: Id | None = None
    """The mission that it is named after."""
    id: Id | None = None
    """Without it one is made from the name."""
    members: list[Id] = Field(default_factory=list[str], max_length=100)
    """Agents."""
    budget_usd: str | None = Budget


class MembraneChange(CheckedRequestBody):
    """A change to a membrane; fields that are left out stay."""

    name: str | None = Field(default=None, min_length=1, max_length=NAME_CHARS_MAX)
    budget_usd: str | None = Budget
    """null: none."""
    expected_version: int | None = Field(default=None, ge=1, le=2**53)
    """Refused with 409 if somebody has changed it since."""


class Member(CheckedRequestBody):
    agent: Id = Field(min_length=1)


class SharedOne(CheckedRequestBody):
    artifact: Id = Field(min_length=1)
    """Its id, without a version."""
