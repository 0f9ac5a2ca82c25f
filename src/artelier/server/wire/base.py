"""Shapes that all resources share."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field


class RequestBody(BaseModel):
    """A request body: a field that is not there is an error."""

    model_config = ConfigDict(extra="forbid")


class ResponseBody(BaseModel):
    """A response: what a newer kernel knows besides is let through."""

    model_config = ConfigDict(extra="allow")


class Fault(BaseModel):
    """The error of a failed request."""

    code: str = Field(description="Stable; what programs compare.")
    message: str
    expected: str | int | bool | None = None
    got: str | int | bool | None = None
    hint: str | None = Field(default=None, description="What to do next.")


class ErrorAnswer(BaseModel):
    """The one shape of every error."""

    error: Fault


class PageBody(ResponseBody):
    """A part of a list."""

    items: list[dict[str, Any]]
    next: int | None = Field(description="Goes into `after` for the next page; null at the end.")
