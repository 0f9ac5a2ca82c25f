"""Skills as the API shows and decides them."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from artelier.server.wire.models import CheckedRequestBody, Told

Status = Literal["active", "parked", "refused"]


class SkillLine(Told):
    """A skill of a list."""

    id: str
    """`<source>/<name>`: what the other addresses take; `skill` will do if only one has it."""
    skill: str
    """As models call it."""
    source: str
    name: str
    """As its source calls it."""
    origin: str
    status: Status
    hash: str
    """Of the newest definition."""
    active_hash: str | None
    """Of the one that could last be used; null for none."""
    decided_by: str
    changed_us: int


class SkillShown(SkillLine):
    """A skill with its newest definition."""

    reasons: list[str]
    """Why it is parked."""
    note: str | None
    """Of whoever decided."""
    usable: bool
    """Whether it can be approved at all."""
    definition: str
    """Characters that nobody can see are written out."""


class FileChange(Told):
    """A file beside a skill that is other than it was."""

    path: str
    change: str
    """`changed`, `new` or `gone`."""


class SkillDiff(Told):
    """The changes of a skill since it could last be used."""

    diff: str
    """Empty if nothing did."""
    files: list[FileChange]


class SkillDecision(CheckedRequestBody):
    """A person's decision."""

    hash: str = Field(min_length=8, max_length=64)
    """The definition that was looked at, whole or its first characters: no other one is decided on."""
    note: str = Field(default="", max_length=10_000)
