"""What a run may be asked to answer in the form of: schemas that say something, and replies that fit them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pydantic
import pytest

from artelier import AutonomousAgent, Kernel, ModelReply, Run
from artelier.errors import InvalidRequest, OutputInvalid
from artelier.kernel.steps.structured_output import check_json, schema_of
from artelier.patterns import compile_pattern
from artelier.testing import ScriptedModel
from tests.kernel.stage import EAGER, open_kernel, play, user


class Val(pydantic.BaseModel):
    x: int


@dataclass
class Pair:
    x: int


class Node(msgspec.Struct):
    name: str
    kids: list[Node] = []


def _deep(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(levels):
        schema = {"type": "array", "items": schema}
    return schema


def _shared(levels: int) -> dict[str, Any]:
    """Small in memory, endless when walked."""
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(levels):
        schema = {"anyOf": [schema, schema]}
    return schema


CYCLE: dict[str, Any] = {"type": "object"}
CYCLE["properties"] = {"self": CYCLE}

NONSENSE: list[tuple[Any, str]] = [
    ({"type": "banana"}, r"\$\.type"),
    ({"type": ["string", "banana"]}, r"\$\.type"),
    ({"type": []}, r"\$\.type"),
    ({"type": 5}, r"\$\.type"),
    ({"answer": "string"}, r"at \$;"),
    ({"type": "object", "properties": {"n": {"type": "int"}}}, r"\$\.properties\.n\.type"),
    ({"type": "object", "properties": {"n": "integer"}}, r"\$\.properties\.n"),
    ({"type": "object", "properties": ["n"]}, r"\$\.properties"),
    ({"type": "array", "items": "string"}, r"\$\.items"),
    ({"type": "array", "items": {"kind": "string"}}, r"\$\.items"),
    ({"anyOf": {"type": "string"}}, r"\$\.anyOf"),
    ({"anyOf": []}, r"\$\.anyOf"),
    ({"oneOf": [{"type": "string"}, 5]}, r"\$\.oneOf\[1\]"),
    ({"allOf": [{"type": "none"}]}, r"\$\.allOf\[0\]\.type"),
    ({"enum": "a"}, r"\$\.enum"),
    ({"enum": []}, r"\$\.enum"),
    ({"type": "object", "required": "n"}, r"\$\.required"),
    ({"type": "object", "required": [1]}, r"\$\.required"),
    ({"$ref": "https://example.com/s.json"}, r"\$\.\$ref"),
    ({"$ref": "#/$defs/No", "$defs": {"Yes": {"type": "string"}}}, r"\$\.\$ref"),
    ({"$ref": "#"}, r"\$"),
    ({"anyOf": [{"$ref": "#"}, {"type": "null"}]}, r"\$"),
    ({"$defs": {"A": {"type": "text"}}, "type": "object"}, r"\$\.\$defs\.A\.type"),
    ({"type": "integer", "minimum": "3"}, r"\$\.minimum"),
    ({"type": "string", "maxLength": -1}, r"\$\.maxLength"),
    ({"type": "string", "pattern": "["}, r"\$\.pattern"),
    ({"type": "string", "pattern": "a" * 2_000}, r"\$\.pattern"),
    ({"type": "object", "properties": {1: {"type": "string"}}}, r"\$\.properties"),
    ({"type": "string", "default": object()}, r"\$"),
    ({"enum": ["x" * 300_000]}, r"\$"),
    (_deep(100), "levels"),
    (_shared(60), "schemas in all"),
    (CYCLE, "levels"),
]


@pytest.mark.parametrize(("schema", "where"), NONSENSE)
def test_a_schema_that_makes_no_sense_is_refused_with_its_place(schema: dict[str, Any], where: str) -> None:
    with pytest.raises(InvalidRequest, match=where):
        schema_of(schema)


@pytest.mark.parametrize("output", [Val(x=7), Pair(x=7), Node(name="a"), 7, "str"])
def test_an_instance_is_no_type(output: Any) -> None:
    with pytest.raises(InvalidRequest):
        schema_of(output)


def test_a_run_is_not_begun_for_a_nonsense_schema(tmp_path: Path) -> None:
    async def scenario() -> None:
        model = ScriptedModel(["anything"])
        with Kernel.open(tmp_path / "s.db", models={"m": model}, policy=EAGER) as kernel:
            agent = AutonomousAgent(kernel=kernel)
            for wish in ({"type": "banana"}, Val(x=7)):
                with pytest.raises(InvalidRequest):
                    await agent.run(run_id="r", model="m", prompt="Say.", output_schema=wish)
            assert (await kernel.for_tenant().runs())["items"] == []
            assert model.requests == []

    play(scenario())


def _plain(schema: Mapping[str, Any]) -> dict[str, Any]:
    return msgspec.json.decode(msgspec.json.encode(schema), type=dict[str, Any])


@pytest.mark.parametrize(
    "output", [Val, Pair, Node, str, int | None, dict[str, int], tuple[int, str], list[Node]]
)
def test_the_schema_of_a_type_is_one_that_may_be_given(output: Any) -> None:
    """A run that another process goes on with has its type's schema alone."""
    schema = schema_of(output)
    assert schema is not None
    assert schema_of(_plain(schema)) == schema


S: dict[str, Any] = {"type": "string"}
NODE = schema_of(Node) or {}
FITTING: list[tuple[dict[str, Any], Any, Any]] = [
    (NODE, {"name": "a", "kids": [{"name": "b"}]}, {"name": "a", "kids": [{"kids": []}]}),
    ({"anyOf": [S, {"type": "null"}]}, None, 5),
    ({"oneOf": [S, {"const": "a"}]}, "b", "a"),
    ({"allOf": [S, {"minLength": 2}]}, "ab", "a"),
    ({"not": S}, 5, "a"),
    ({"type": ["string", "null"]}, None, 5),
    ({"type": "integer", "minimum": 3}, 3, 2),
    ({"type": "number", "maximum": 3}, 3, 3.5),
    ({"type": "number", "exclusiveMinimum": 3}, 4, 3),
    ({"type": "number", "exclusiveMaximum": 3}, 2, 3),
    ({"type": "array", "minItems": 1}, [1], []),
    ({"type": "array", "maxItems": 1}, [1], [1, 2]),
    ({"type": "string", "minLength": 2}, "ab", "a"),
    ({"type": "string", "maxLength": 2}, "ab", "abc"),
    ({"type": "string", "pattern": "^a+$"}, "aa", "ab"),
    ({"type": "string", "pattern": "^a+$"}, "aa", "a" * 10_000),
    ({"const": 1}, 1, True),
    ({"enum": [1, "a"]}, 1, True),
    ({"type": "object", "additionalProperties": S}, {"a": "b"}, {"a": 1}),
    ({"type": "array", "prefixItems": [S], "items": False}, ["a"], ["a", "b"]),
    ({"type": "object", "minProperties": 1}, {"a": 1}, {}),
]


@pytest.mark.parametrize(("schema", "good", "bad"), FITTING)
def test_a_reply_is_checked_by_what_its_schema_says(schema: dict[str, Any], good: Any, bad: Any) -> None:
    schema_of(schema)
    assert check_json(good, schema) == good
    with pytest.raises(OutputInvalid, match=r"\$"):
        check_json(bad, schema)


ENDLESS = ("(a+)+b", "^(a+)+$", "^(a|a)*$", "^((a)*)*$", "^(a{1,9}){1,99}$", "a*a*a*a*a*a*b")
"""Patterns on which an engine that goes back takes for ever, or the seventh power."""


@pytest.mark.parametrize("pattern", ENDLESS)
def test_a_pattern_with_repeats_in_repeats_is_checked_in_linear_time(pattern: str) -> None:
    schema = {"type": "string", "pattern": pattern}
    schema_of(schema)

    assert compile_pattern(pattern).is_linear
    assert check_json("a" * 400 + "b", {**schema, "pattern": pattern.replace("$", "b$")})
    with pytest.raises(OutputInvalid, match="does not match its pattern"):
        check_json("a" * 4_000 + "!", schema)


@pytest.mark.parametrize("pattern", [r"^(?=(a+)+$)", r"^(a*)*\1$"])
def test_a_pattern_that_no_linear_engine_can_match_is_stopped(pattern: str) -> None:
    schema = {"type": "string", "pattern": pattern}
    schema_of(schema)

    assert not compile_pattern(pattern).is_linear
    with pytest.raises(OutputInvalid, match=r"cannot be checked: .* was given up"):
        check_json("a" * 40 + "!", schema)


def test_a_pattern_that_only_looks_ahead_is_checked() -> None:
    schema = {"type": "string", "pattern": r"^(?!draft)(\w)\1"}
    schema_of(schema)

    assert check_json("aa", schema) == "aa"
    with pytest.raises(OutputInvalid, match="does not match its pattern"):
        check_json("draft", schema)


def test_a_pattern_of_another_dialect_is_not_tried() -> None:
    schema = {"type": "string", "pattern": r"^\p{L}+$"}
    schema_of(schema)

    assert check_json("5", schema) == "5"


def test_a_check_ends_however_often_its_schema_branches() -> None:
    twice = {"type": "array", "items": {"oneOf": [{"$ref": "#"}, {"$ref": "#"}]}}
    schema_of(twice)
    value: list[Any] = []
    for _ in range(40):
        value = [value]
    with pytest.raises(OutputInvalid):
        check_json(value, twice)


@pytest.mark.parametrize("output", [str, {"type": "string"}])
@pytest.mark.parametrize(
    ("reply", "text"),
    [
        ("Hello there.", "Hello there."),
        ('"Hello"', "Hello"),
        ("5", "5"),
        (ModelReply(output="Hello"), "Hello"),
    ],
)
def test_plain_text_fits_a_text(tmp_path: Path, output: Any, reply: Any, text: str) -> None:
    async def code(run: Run) -> Any:
        return (await run.step_model(model="m", messages=[user("x")], output=output)).output

    async def scenario() -> None:
        with open_kernel(tmp_path, ScriptedModel([reply])) as kernel:
            async with kernel.run("r") as run:
                run.finish(await code(run))
            assert (await kernel.for_tenant().replay("r", code)).result == text

    play(scenario())


def test_no_text_at_all_is_none(tmp_path: Path) -> None:
    async def scenario() -> None:
        with open_kernel(tmp_path, ScriptedModel([" "])) as kernel:
            with pytest.raises(OutputInvalid):
                async with kernel.run("r") as run:
                    await run.step_model(model="m", messages=[user("x")], output=str)

    play(scenario())
