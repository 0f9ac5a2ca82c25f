"""The records of what a task reads of the outside: as they are journaled, and as prompts show them."""

from __future__ import annotations

from typing import Any, Protocol

from msgspec import Struct


class SeenInput(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An input with what fits of its content; of one that is gone, or may not be read, the ref alone."""

    ref: str
    """With its version."""
    gone: bool = False
    kind: str | None = None
    title: str | None = None
    owner: str | None = None
    bytes: int | None = None
    """Size of the whole content as UTF-8."""
    text: str | None = None
    cut: bool = False
    """True if the middle of the content was left out."""


class SeenArtifact(Struct, frozen=True, kw_only=True):
    """An artifact that the agent may read, without its content."""

    ref: str
    """With its version."""
    kind: str
    title: str
    owner: str
    bytes: int
    """Size of the content as UTF-8."""
    first: str
    """Its first words."""


class SeenTool(Struct, frozen=True, kw_only=True):
    """A tool that is on, as it is told to the model."""

    name: str
    description: str
    schema: dict[str, Any]
    """JSON schema of its arguments."""
    trust: str


class UnitsLeft(Struct, frozen=True, kw_only=True):
    """The rest under the caps of a run."""

    unit: str
    """usd, tokens or steps."""
    left: int
    """At least 0; dollars in micro-dollars."""


class AttachedMemory(Struct, frozen=True, kw_only=True):
    """A block of the memory that is attached to an agent."""

    label: str
    text: str


class DecisionReadings(Protocol):
    """Readings of the iteration at hand; a list is empty where nothing was read."""

    @property
    def tools(self) -> list[SeenTool]: ...

    @property
    def inputs(self) -> list[SeenInput]: ...

    @property
    def artifacts(self) -> list[SeenArtifact]: ...

    @property
    def budget(self) -> list[UnitsLeft]: ...

    @property
    def memory(self) -> list[AttachedMemory] | None:
        """None if nobody has attached one."""
        ...
