"""The shapes that all wire models share: requests, answers, pages and errors."""

from __future__ import annotations

import ast
import inspect
import re
import sys
from collections.abc import Callable, Collection, Mapping
from difflib import get_close_matches
from itertools import islice, pairwise
from types import UnionType
from typing import (
    Annotated,
    Any,
    Generic,
    Literal,
    NotRequired,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

from fastapi import Query
from pydantic import BaseModel, ConfigDict, Field, RootModel, create_model, model_validator
from pydantic_core import PydanticCustomError

from artelier.ports.media import ATTACHMENTS_MAX


def schema_title(model: type) -> str:
    """Return the name of a model in the OpenAPI document: that of its class without `Out` or `In`.

    A class ends so where the plain name is that of another class in Artelier: `RunOut` describes a `Run`.
    """
    return re.sub(r"(?<=[a-z])(Out|In)$", "", model.__name__)


UNKNOWN_LOOKS_MAX = 3
"""Unknown fields of a body for which the nearest known one is looked for: a body may have a million."""


class RequestBody(BaseModel):
    """Body of a request: a field that nobody knows is a mistake."""

    model_config = ConfigDict(
        extra="forbid", use_attribute_docstrings=True, model_title_generator=schema_title
    )

    @model_validator(mode="before")
    @classmethod
    def _name_nearest(cls, given: object) -> object:
        """Say what was meant by a field that nobody knows, where one has nearly that name."""
        stated = cast("dict[str, object]", given) if isinstance(given, dict) else {}
        unknown = (name for name in stated if name not in cls.model_fields)
        for name in islice(unknown, UNKNOWN_LOOKS_MAX):
            if near := get_close_matches(name[:80], cls.model_fields, n=1):
                facts = {"name": name[:80], "near": near[0]}
                raise PydanticCustomError(
                    "unknown_field", "there is no field '{name}'; did you mean '{near}'?", facts
                )
        return cast("object", given)

    def given_fields(self, *without: str) -> dict[str, Any]:
        """Return the fields that were in the body, null ones too."""
        return {name: getattr(self, name) for name in self.model_fields_set if name not in without}


class AttachmentAsk(RootModel[Annotated[str, Field(min_length=1)]]):
    """An image, a sound, a PDF or a text that a model is shown: its content as a data URL
    (`data:image/png;base64,...`), or the ref of an artifact that holds it (`uploads/chart.png@1`)."""

    model_config = ConfigDict(model_title_generator=schema_title)


Attachments = Annotated[
    list[AttachmentAsk], Field(default_factory=list[AttachmentAsk], max_length=ATTACHMENTS_MAX)
]
"""Media that come with a goal or with something that is said, in one form for all doors."""


class ResponseModel(BaseModel):
    """Part of an answer; it is read from values of the kernel by the names of its fields."""

    model_config = ConfigDict(
        use_attribute_docstrings=True, from_attributes=True, model_title_generator=schema_title
    )


class ResponseBody(BaseModel):
    """A response: what a newer kernel knows besides is let through."""

    model_config = ConfigDict(extra="allow", model_title_generator=schema_title)


Model = TypeVar("Model", bound=BaseModel)
_MODELS: dict[object, type[BaseModel]] = {}
"""The model of each record that has one."""


def describe_record(record: type, *, without: Collection[str] = ()) -> Callable[[type[Model]], type[Model]]:
    """Give a model the fields of a record, with the types and docstrings that stand there.

    A field that the model declares replaces that of the record, or comes after all of them. Models of
    records inside a record are defined before it. Where a docstring says None, JSON has null.
    """

    def build(model: type[Model]) -> type[Model]:
        own = {name: model.model_fields[name] for name in model.__annotations__ if name in model.model_fields}
        inherited = cast("type[BaseModel]", model.__bases__[0]).model_fields
        texts = _docstrings(record)
        fields: dict[str, Any] = {
            name: (_as_json(hint), Field(description=texts.get(name)))
            for name, hint in get_type_hints(record, include_extras=True).items()
            if name not in without and (name in own or name not in inherited)
        }
        fields |= {name: (field.annotation, field) for name, field in own.items()}
        made = cast(
            "type[Model]",
            create_model(
                model.__name__,
                __base__=model.__bases__,
                __config__=ConfigDict(use_attribute_docstrings=False),
                __doc__=model.__doc__,
                __module__=model.__module__,
                **fields,
            ),
        )
        # The search for docstrings is slow, and would find nothing more; below this class it does.
        made.model_config["use_attribute_docstrings"] = model.model_config.get(
            "use_attribute_docstrings", False
        )
        _MODELS[record] = made
        return made

    return build


def _as_json(hint: Any) -> Any:
    """Return the type of a field as JSON has it: a model for a record, a list for a tuple."""
    if hint in _MODELS:
        return _MODELS[hint]
    origin, args = get_origin(hint), get_args(hint)
    if origin is Literal or not args:
        return hint
    if origin is tuple or origin is NotRequired:
        return list[_as_json(args[0])] if origin is tuple else _as_json(args[0])
    if origin is Annotated:
        return Annotated[_as_json(args[0]), *args[1:]]
    inner = tuple(map(_as_json, args))
    if origin is Union or origin is UnionType:
        return Union[inner]  # noqa: UP007 - of as many types as there are
    generic: Any = dict if origin is Mapping else origin
    return generic[inner]


def _docstrings(record: type) -> dict[str, str]:
    """Return the text below each field of a record, those of its parents included."""
    found: dict[str, str] = {}
    for parent in cast("tuple[Any, ...]", getattr(record, "__orig_bases__", record.__bases__)):
        if inspect.isclass(parent) and parent.__module__.startswith("artelier."):
            found |= _docstrings(parent)
    # Only the class is parsed: `inspect.getsource` of a class would parse its whole module each time.
    source = inspect.getsource(sys.modules[record.__module__])
    lines = re.search(rf"^class {record.__name__}\b.*?(?=^[\w@#]|\Z)", source, re.M | re.S)
    assert lines is not None, f"{record} stands in no file"
    for field, below in pairwise(cast("ast.ClassDef", ast.parse(lines[0]).body[0]).body):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
            if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant):
                text = inspect.cleandoc(str(below.value.value))
                found[field.target.id] = re.sub(r"\bNone\b", "null", text)
    return found


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
