"""Arguments are checked against a stranger's schema, and the stranger cannot make the check run for ever."""

from __future__ import annotations

import time
from typing import Any

import pytest

from artelier.errors import InvalidArguments
from artelier.tools.mcp.schema import ArgumentSchema, Unfit

BOUND_S = 20.0
"""Of processor time: what is bounded takes a second or two, what is not takes for ever."""


def object_of(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


FITTING: list[tuple[dict[str, Any], Any]] = [
    ({"type": "object"}, {"anything": [1, {"a": None}]}),
    ({}, {}),
    (object_of(a={"type": "integer"}), {}),
    (object_of(a={"type": "integer"}), '{"a": 1}'),
    (object_of(a={"type": "integer"}), ""),
    (object_of(a={"$ref": "#/$defs/x"}) | {"$defs": {"x": {"type": "string"}}}, {"a": "b"}),
    (object_of(title={"type": "string"}, pattern={"type": "string"}), {"title": "a", "pattern": "("}),
    ({"$schema": "http://json-schema.org/draft-07/schema#"} | object_of(a={"items": [{}]}), {"a": []}),
]

MISFITS: list[tuple[dict[str, Any], Any, str]] = [
    (object_of(a={"type": "integer"}), {"a": "1"}, r"\$\.a: '1' is not of type 'integer'"),
    (object_of() | {"required": ["a"]}, {}, "'a' is a required property"),
    (object_of() | {"additionalProperties": False}, {"b": 1}, "was unexpected"),
    (object_of(a={"pattern": r"^\d{4}-\d{2}$"}), {"a": "12-34"}, "does not match"),
    (object_of(a={"pattern": r"^[^@ ]+@[^@ ]+$"}), {"a": "kim at home"}, "does not match"),
    (object_of(a={"enum": ["x", "y"]}), {"a": "z"}, "is not one of"),
    (object_of(a={"uniqueItems": True}), {"a": [1, 1]}, "non-unique"),
    (object_of(a={"minLength": 3}), {"a": "x"}, "is too short"),
    (object_of(a={"oneOf": [{"type": "null"}, {"type": "string"}]}), {"a": 1}, "not valid under"),
    ({"type": "object"}, [1], "are not an object"),
    ({"type": "object"}, "{", "are not JSON data"),
    ({"type": "object"}, {"a": float("nan")}, "are not JSON data"),
    ({"type": "object"}, {"a": "x" * 1_100_000}, "too large"),
    (
        {"$schema": "http://json-schema.org/draft-07/schema#"} | object_of(a={"items": [{"type": "string"}]}),
        {"a": [1]},
        "is not of type 'string'",
    ),
]


@pytest.mark.parametrize(("schema", "arguments"), FITTING)
def test_arguments_that_fit_pass(schema: dict[str, Any], arguments: Any) -> None:
    checked = ArgumentSchema(schema).check(arguments, tool="t")

    assert isinstance(checked, dict)


@pytest.mark.parametrize(("schema", "arguments", "said"), MISFITS)
def test_arguments_that_do_not_fit_are_said_by_path(
    schema: dict[str, Any], arguments: Any, said: str
) -> None:
    with pytest.raises(InvalidArguments, match=said) as refused:
        ArgumentSchema(schema).check(arguments, tool="t")

    assert len(str(refused.value)) < 3_000


def test_a_misfit_of_a_megabyte_is_said_in_a_line() -> None:
    with pytest.raises(InvalidArguments) as refused:
        ArgumentSchema(object_of(a={"type": "integer"})).check({"a": "x" * 900_000}, tool="t")

    assert len(str(refused.value)) < 500
    assert "is not of type 'integer'" in str(refused.value)


def doubling(levels: int) -> dict[str, Any]:
    defs: dict[str, Any] = {
        f"d{level}": {"allOf": [{"$ref": f"#/$defs/d{level + 1}"}] * 2} for level in range(levels)
    }
    return object_of(a={"$ref": "#/$defs/d0"}) | {"$defs": {**defs, f"d{levels}": {}}}


COSTLY: list[tuple[str, dict[str, Any], Any]] = [
    ("doubling", doubling(40), {"a": 1}),
    ("itself", object_of(a={"$ref": "#/$defs/a"}) | {"$defs": {"a": {"$ref": "#/$defs/a"}}}, {"a": 1}),
    ("complaints", object_of(a={"anyOf": [{"type": "null"}] * 3_000}), {"a": "x" * 900_000}),
    ("nothing", object_of(a={"$ref": "#/nowhere"}), {"a": 1}),
]


@pytest.mark.parametrize(("schema", "arguments"), [row[1:] for row in COSTLY], ids=[r[0] for r in COSTLY])
def test_a_schema_that_never_ends_is_a_no(schema: dict[str, Any], arguments: Any) -> None:
    subject, start = ArgumentSchema(schema), time.process_time()

    with pytest.raises(InvalidArguments, match="cannot be checked"):
        subject.check(arguments, tool="t")

    assert time.process_time() - start < BOUND_S


LEFT_TO_THE_SERVER = [r"(a)\1+", "(?=a+)b", "(" * 90, "[a", "a" * 600]


@pytest.mark.parametrize("pattern", LEFT_TO_THE_SERVER)
def test_patterns_that_may_take_long_are_left_to_the_server(pattern: str) -> None:
    text = "a" * 60 + "!"

    names = {"type": "object", "patternProperties": {pattern: {}}}
    for schema, arguments in (
        (object_of(x={"pattern": pattern}), {"x": text}),
        (names | {"additionalProperties": False}, {text: 1}),
        (names | {"unevaluatedProperties": False}, {text: 1}),
    ):
        try:
            subject = ArgumentSchema(schema)
        except Unfit:
            continue
        assert subject.check(arguments, tool="t") == arguments


ENDLESS = ["^(a+)+$", "(a|a)*b", "a*a*a*a*b", "(a|a)?" * 30 + "b"]
"""Those on which an engine that goes back takes for ever."""


@pytest.mark.parametrize("pattern", [*ENDLESS, "^[a-z0-9-]{1,64}$", "^(red|green)$", r"^\S+$"])
def test_patterns_are_checked_here_in_linear_time(pattern: str) -> None:
    subject = ArgumentSchema(object_of(x={"pattern": pattern}))

    with pytest.raises(InvalidArguments, match="does not match"):
        subject.check({"x": "a" * 60 + "! "}, tool="t")


def test_names_that_no_pattern_allows_are_found() -> None:
    schema = object_of() | {
        "patternProperties": {"^(a+)+$": {"type": "integer"}},
        "additionalProperties": False,
    }
    subject = ArgumentSchema(schema)

    assert subject.check({"a" * 60: 1}, tool="t") == {"a" * 60: 1}
    with pytest.raises(InvalidArguments, match="integer"):
        subject.check({"aa": "x"}, tool="t")
    with pytest.raises(InvalidArguments, match="!"):
        subject.check({"a" * 60 + "!": 1}, tool="t")


def test_many_texts_with_a_pattern_have_one_bound() -> None:
    """Each of them alone is quick; the check ends by its budget, not by their number."""
    pattern = "a*" * 12 + "b"
    subject = ArgumentSchema(object_of(x={"type": "array", "items": {"pattern": pattern}}))

    with pytest.raises(InvalidArguments, match=r"cannot be checked|does not match"):
        subject.check({"x": ["a" * 5_000] * 150}, tool="t")
