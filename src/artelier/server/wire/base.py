"""The shapes that all wire models share: requests, answers, pages and errors."""

from __future__ import annotations

import re
from typing import Annotated, Any, Generic, Literal, TypeVar

from fastapi import Query
from pydantic import BaseModel, ConfigDict, Field


def schema_title(model: type) -> str:
    """Return the name of a model in the OpenAPI document: that of its class without `Out` or `In`.

    A class ends so where the plain name is that of another class in Artelier: `RunOut` describes a `Run`.
    """
    return re.sub(r"(?<=[a-z])(Out|In)$", "", model.__name__)


class RequestBody(BaseModel):
    """Body of a request: a field that nobody knows is a mistake."""

    model_config = ConfigDict(
        extra="forbid", use_attribute_docstrings=True, model_title_generator=schema_title
    )

    def given_fields(self, *without: str) -> dict[str, Any]:
        """Return the fields that were in the body, null ones too."""
        return {name: getattr(self, name) for name in self.model_fields_set if name not in without}


class ResponseModel(BaseModel):
    """Part of an answer; it is read from values of the kernel by the names of its fields."""

    model_config = ConfigDict(
        use_attribute_docstrings=True, from_attributes=True, model_title_generator=schema_title
    )


class ResponseBody(BaseModel):
    """A response: what a newer kernel knows besides is let through."""

    model_config = ConfigDict(extra="allow", model_title_generator=schema_title)


class FaultOut(ResponseModel):
    """The error of a failed request."""

    code: str = Field(description="Stable; what programs compare.")
    message: str
    expected: str | int | bool | None = None
    got: str | int | bool | None = None
    hint: str | None = Field(default=None, description="What to do next.")


class ErrorAnswer(BaseModel):
    """The one shape of every error."""

    error: FaultOut


PAGE_MAX = 500
"""Rows of one answer."""

ID_CHARS_MAX = 600
"""Above the longest id there is, so that an answer never repeats a novel."""

Item = TypeVar("Item")


class Page(ResponseModel, Generic[Item]):
    """One page of a list."""

    # Each `Page[X]` would be searched for in the sources of everybody on the stack, and is in none.
    model_config = ConfigDict(use_attribute_docstrings=False)

    items: list[Item]
    next: str | int | None = Field(
        default=None, description="Give it as `after` for the next page; null at the end."
    )

    @classmethod
    def model_parametrized_name(cls, params: tuple[Any, ...]) -> str:
        """Return `Page[Run]` for a page of `RunOut`."""
        return f"{cls.__name__}[{', '.join(map(schema_title, params))}]"


class ParamsIn(RequestBody):
    """Parameters of model calls; null takes one back."""

    temperature: float | None = None
    max_output_tokens: int | None = Field(default=None, ge=1)
    top_p: float | None = None
    top_k: int | None = Field(default=None, ge=0)
    min_p: float | None = None
    seed: int | None = Field(default=None, ge=0)
    stop: str | list[str] | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    thinking: bool | Literal["minimal", "low", "medium", "high", "xhigh", "max"] | None = None
    verbosity: Literal["low", "medium", "high"] | None = None
    service_tier: Literal["auto", "default", "flex", "priority"] | None = None
    extra: dict[str, Any] | None = None
    """What only one provider knows, as its body has it."""
    timeout_s: float | None = Field(default=None, gt=0)


class Nothing(RequestBody):
    """An empty body."""


Limit = Annotated[int, Query(ge=1, le=PAGE_MAX, description="Rows at most.")]
After = Annotated[str | None, Query(max_length=ID_CHARS_MAX, description="Go on after a page's `next`.")]
AfterNumber = Annotated[
    int, Query(ge=0, le=2**53, description="Go on after a page's `next`; 0: from the beginning.")
]
Id = Annotated[str, Field(max_length=ID_CHARS_MAX)]
Micro = Annotated[int, Field(description="Micro-dollars.")]
