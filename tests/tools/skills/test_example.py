"""Worked examples: whatever the schema says, the tool itself accepts them."""

from __future__ import annotations

from enum import Enum
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field

from artelier.ports.tool import ToolPort
from artelier.tools import Tool
from artelier.tools.skills.listing import example_of, worked_example
from artelier_lab.skills_fixture import fifty_tools


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Part(BaseModel):
    name: str = Field(min_length=12, max_length=20)
    count: int = Field(ge=5, multiple_of=5)
    below: list[Part] = []


def flat(a: int, b: float, c: bool, d: str, e: None, f: Any) -> None: ...
def bounded(
    a: Annotated[int, Field(gt=7)],
    b: Annotated[int, Field(lt=-3)],
    c: Annotated[float, Field(ge=0.25, le=0.5)],
    d: Annotated[str, Field(max_length=2)],
) -> None: ...
def chosen(a: Literal["x", "y"], b: Colour, c: Literal[3], d: int | str, e: str | None) -> None: ...
def nested(part: Part, parts: list[Part], by_name: dict[str, Part], pair: tuple[int, str]) -> None: ...
def optional(a: int = 4, b: str | None = None, c: Colour = Colour.BLUE) -> None: ...
def nothing() -> None: ...
def many(tags: Annotated[list[str], Field(min_length=3)]) -> None: ...


FUNCTIONS = [flat, bounded, chosen, nested, optional, nothing, many]


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda one: one.__name__)
def test_the_example_of_a_function_is_accepted_by_it(function: Any):
    subject = Tool(function)

    example = worked_example(subject)

    assert example is not None
    assert subject.validate(example) == example
    assert set(subject.schema.parameters.get("required", [])) <= set(example)


@pytest.mark.parametrize("subject", fifty_tools(), ids=lambda one: one.name)
def test_the_example_of_a_described_tool_is_accepted_by_it(subject: ToolPort):
    example = worked_example(subject)

    assert example is not None
    assert subject.validate(example) == example


def test_the_same_schema_gives_the_same_example():
    assert worked_example(Tool(nested)) == worked_example(Tool(nested))


def test_a_schema_that_contains_itself_ends():
    schema = {
        "$defs": {
            "node": {"type": "object", "required": ["next"], "properties": {"next": {"$ref": "#/$defs/node"}}}
        },
        "$ref": "#/$defs/node",
    }

    assert isinstance(example_of(schema), dict)


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#/nowhere"},
        {"$ref": "#"},
        {"type": "array", "minItems": 10**9, "items": {"type": "string"}},
        {"type": ["null"]},
        {"anyOf": []},
        {"type": "object", "required": ["gone"], "properties": {}},
        {"enum": []},
        {"type": "no such type"},
    ],
    ids=str,
)
def test_odd_schemas_end_with_some_value(schema: dict[str, Any]):
    example_of(schema)


def test_a_tool_that_accepts_nothing_has_no_example():
    class Refusing(Tool[..., Any]):
        def validate(self, arguments: Any) -> dict[str, Any]:
            from artelier.errors import InvalidArguments

            raise InvalidArguments("never")

    assert worked_example(Refusing(flat)) is None
