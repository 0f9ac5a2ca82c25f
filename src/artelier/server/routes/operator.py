"""The hand of a person: people act as `operator`, and events name who it was."""

from __future__ import annotations

from typing import Protocol

from artelier.artifacts import Artifacts, Space
from artelier.ids import OPERATOR


class Acting(Protocol):
    """The kernel bound to a tenant, as far as artifacts go."""

    def as_principal(self, principal: str, *, world: str | None = None) -> Space: ...


class Signed:
    """A tenant's kernel whose artifacts are written by a person, in the name of `operator`."""

    def __init__(self, desk: Acting, actor: str) -> None:
        self._desk = desk
        self._actor = actor

    def as_principal(self, principal: str, *, world: str | None = None) -> Space:
        space = self._desk.as_principal(principal, world=world)
        space.artifacts = space.artifacts.by(self._actor)
        return space


def artifacts_of(desk: Acting, actor: str, *, world: str | None = None) -> Artifacts:
    """Return what people of a tenant do with artifacts, in the main space or in a world."""
    return Signed(desk, actor).as_principal(OPERATOR, world=world).artifacts
