"""The memory of agents, in requests and answers of the API."""

from __future__ import annotations

from pydantic import Field

from artelier.server.wire.base import RequestBody, ResponseModel


class MemoryLine(ResponseModel):
    """An agent that has a memory."""

    agent: str
    entries: int
    """Living ones."""


class BlockOut(ResponseModel):
    """A labelled text of core memory, as it stands in every prompt."""

    label: str
    text: str
    limit_chars: int
    version: int
    """Of the artifact that holds it; 0 if nothing was ever written."""
    ref: str
    missing: str
    """Why the text cannot be read; empty if it can."""


class MemoryEntry(ResponseModel):
    """One entry of long-term memory."""

    id: str
    text: str
    tick: int
    """When it was written, in microseconds."""
    tags: list[str]
    importance: float
    """From 0 to 1."""
    speaker: str
    date: str
    trust: str
    run_id: str | None
    """The run that wrote it; null for people."""
    deduplicated: bool = False
    """It was known already: this is the entry that says so."""


class MemoryShown(ResponseModel):
    """The memory of an agent: its blocks, and a page of its entries."""

    agent: str
    blocks: list[BlockOut]
    items: list[MemoryEntry]
    """Entries, oldest first."""
    next: str | None = None
    """Give it as `after` for more entries; null at the end."""


class HitOut(ResponseModel):
    """Something that a search found."""

    where: str
    """`core:<label>`, `scratchpad` or `long-term`."""
    text: str
    score: float
    """Comparable among hits of one place only."""
    id: str
    trust: str


class MemoryChange(ResponseModel):
    """One change of a memory, which can be taken back."""

    id: int
    kind: str
    summary: str
    at_us: int
    by: str
    run_id: str | None
    undone_by: int | None
    """The change that took it back."""


class EntryNew(RequestBody):
    """Something to remember."""

    text: str = Field(min_length=1, max_length=100_000)
    tags: list[str] = Field(default=[], max_length=64)
    importance: float = Field(default=0.5, ge=0, le=1)
    speaker: str = Field(default="", max_length=200)
    date: str = Field(default="", max_length=100)


class BlockText(RequestBody):
    """Another text of a block."""

    text: str = Field(max_length=100_000)
