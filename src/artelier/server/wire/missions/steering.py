"""Steering: the puck, hard limits, tool switches, and what they come to."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from artelier.server.wire.models import CheckedRequestBody, Told

Safety = Literal["open", "approve_high", "approve_medium", "read_only"]


class Puck(Told):
    """The position of the puck, each from 0 to 1."""

    x: float
    y: float


class Axes(Told):
    """Names of the ends of each axis: at 0 and at 1."""

    x: list[str]
    y: list[str]


class Sliders(Told):
    """Hard limits, which the kernel keeps."""

    budget_usd: str | None
    """null for none of its own."""
    iterations: int
    delegation_depth: int
    safety: Safety
    output_bytes: int


class Document(Told):
    """The content of a steering artifact."""

    xy: Puck
    axes: Axes
    sliders: Sliders
    tools: dict[str, bool]
    """Tools that were switched; one that is not named is on."""


class Policy(Told):
    """The policy that the puck sets: constraints in words, and parameters."""

    text: str
    """As it stands in prompts."""
    temperature: float
    alternatives: int
    """Actions to weigh before one is chosen."""
    breadth: int | None
    """Tools that are listed at most; null for all that are on."""
    sources_min: int
    words_target: int


class InForceFrom(Told):
    """The first iteration of a task that goes by this steering, if it is changed now."""

    agent: str
    task: str
    iteration: int
    is_begun: bool
    """Whether a run works on the task already."""


class SteeringShown(Document):
    """Steering of an agent or of a membrane."""

    id: str
    about: str
    """The agent or membrane."""
    version: int
    """0: nobody has steered yet, so these are the defaults."""
    policy: Policy
    """What its own puck asks for."""
    in_force: Document
    """Of an agent: together with its membranes; the strictest counts."""
    policy_in_force: Policy
    from_iteration: list[InForceFrom]
    """From where on a change counts, for each agent that it concerns; empty if none has a task."""
    changed_us: int | None
    changed_by: str | None
    """Who wrote this version."""


class SteeringPatch(CheckedRequestBody):
    """A JSON merge patch of the document: what is left out stays, null puts a default back."""

    xy: dict[str, Any] | None = None
    """`{x, y}`, each from 0 to 1."""
    axes: dict[str, Any] | None = None
    """`{x: [at 0, at 1], y: ...}`."""
    sliders: dict[str, Any] | None = None
    """`{budget_usd, iterations, delegation_depth, safety, output_bytes}`."""
    tools: dict[str, bool | None] | None = Field(default=None, max_length=500)
    """Whether each is on."""
    expected_version: int | None = Field(default=None, ge=0, le=2**53)
    """Refused with 409 if somebody has changed it since."""
