"""Events as clients see them; `server/live/event_encoder.py` writes them without these models, once for all
clients."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, Field


class Event(BaseModel):
    """One fact. Fields of `data` that hold their default are left out."""

    position: int = Field(description="Its place in the log; goes into `after`.")
    stream: str = Field(description="Such as run:m1/figures, artifact:notes, world:w, tenant:t.")
    space: str = Field(description="main, or world:<id>.")
    seq: int
    kind: str
    at_us: int = Field(description="In a world's stream the tick.")
    actor: str
    cause: str | None
    data: dict[str, Any]
    texts: dict[str, str] = Field(description="Content that fields of data name, shortened.")


class EventPage(BaseModel):
    items: list[Event]
    next: int | None = Field(description="Goes into `after`; null at the end of the log.")
    head: int = Field(description="Position of the newest event of the store.")
