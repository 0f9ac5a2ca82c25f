"""The base models of all request and response bodies. Descriptions stand under the fields."""

from __future__ import annotations

from typing import Annotated, Any, Generic, TypeVar

from fastapi import Query
from pydantic import BaseModel, ConfigDict, Field

from artelier.server.wire import base

PAGE_MAX = 500
"""Rows of one answer."""

ID_CHARS_MAX = 600
"""Above the longest id there is, so that an answer never repeats a novel."""

Item = TypeVar("Item")


class Told(BaseModel):
    """Part of an answer; it is read from values of the kernel by the names of its fields."""

    model_config = ConfigDict(use_attribute_docstrings=True, from_attributes=True)


class CheckedRequestBody(base.RequestBody):
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
