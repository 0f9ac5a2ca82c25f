"""The shapes that all wire models share: requests, answers, pages and errors."""

from __future__ import annotations

from typing import Annotated, Any, Generic, TypeVar

from fastapi import Query
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


PAGE_MAX = 500
"""Rows of one answer."""

ID_CHARS_MAX = 600
"""Above the longest id there is, so that an answer never repeats a novel."""

Item = TypeVar("Item")


class Told(BaseModel):
    """Part of an answer; it is read from values of the kernel by the names of its fields."""

    model_config = ConfigDict(use_attribute_docstrings=True, from_attributes=True)


class CheckedRequestBody(RequestBody):
    """Body of a request: a field that nobody knows is a mistake."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    def given_fields(self, *without: str) -> dict[str, Any]:
        """The fields that were in the body, null ones too."""
        return {name: getattr(self, name) for name in self.model_fields_set if name not in without}


class Page(Told, Generic[Item]):
    """One page of a list."""

    items: list[Item]
    next: str | int | None = Field(
        default=None, description="Give it as `after` for the next page; null at the end."
    )


class Nothing(CheckedRequestBody):
    """An empty body."""


Limit = Annotated[int, Query(ge=1, le=PAGE_MAX, description="Rows at most.")]
After = Annotated[str | None, Query(max_length=ID_CHARS_MAX, description="Go on after a page's `next`.")]
AfterNumber = Annotated[
    int, Query(ge=0, le=2**53, description="Go on after a page's `next`; 0: from the beginning.")
]
Id = Annotated[str, Field(max_length=ID_CHARS_MAX)]
Micro = Annotated[int, Field(description="Micro-dollars.")]
