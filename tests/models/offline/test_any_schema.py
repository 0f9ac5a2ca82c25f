"""Structured output of any schema, without data: valid, the same each time, and no figure made up."""

from __future__ import annotations

import random
from typing import Any

import jsonschema
import pytest

from artelier.errors import OfflineCannot
from artelier.models.offline.patterns import text_for
from tests.models.offline.conftest import Open
from tests.models.offline.talking import answer

PROMPT = "Analyze the Q3 sales data and write a report."
TEXT = {"type": "string"}
NUMBER = {"type": "number"}


def thing(required: Any = None, /, **properties: Any) -> dict[str, Any]:
    names = list(properties) if required is None else required
    return {"type": "object", "properties": properties, "required": names}


REPORT = thing(title=TEXT, summary=TEXT, findings={"type": "array", "items": TEXT})


def valid(value: Any, schema: dict[str, Any]) -> Any:
    checker = jsonschema.Draft202012Validator.FORMAT_CHECKER
    jsonschema.Draft202012Validator(schema, format_checker=checker).validate(value)
    return value


def test_a_report_without_tools_says_what_was_not_looked_at() -> None:
    reply = answer(PROMPT, schema=REPORT)

    output = valid(reply.output, REPORT)
    assert not reply.tool_calls
    assert "Q3 sales data" in output["title"]
    assert "No data was looked at" in output["summary"]
    assert len(output["findings"]) == 1
    assert "No data was looked at" in output["findings"][0]
    assert not any(one.isdigit() for one in "".join(output["findings"]))


NODE: dict[str, Any] = {
    "type": "object",
    "properties": {
        "name": TEXT,
        "children": {"type": "array", "items": {"$ref": "#/$defs/Node"}},
        "parent": {"anyOf": [{"$ref": "#/$defs/Node"}, {"type": "null"}]},
    },
    "required": ["name", "children", "parent"],
}
SCHEMAS: dict[str, dict[str, Any]] = {
    "report": REPORT,
    "bounds": thing(a=NUMBER | {"minimum": 3, "maximum": 9}, b={"type": "integer", "exclusiveMinimum": 0}),
    "below zero": thing(a=NUMBER | {"maximum": -2.5}, b=NUMBER | {"minimum": -5, "maximum": -1}),
    "between": thing(a=NUMBER | {"exclusiveMinimum": 0, "exclusiveMaximum": 1}),
    "steps": thing(a={"type": "integer", "multipleOf": 7, "minimum": 1}, b=NUMBER | {"multipleOf": 0.5}),
    "enum": thing(mood={"enum": ["happy", "sad"]}, level={"type": "integer", "enum": [3, 5]}),
    "const": thing(kind={"const": "report"}, version={"const": 2}),
    "lengths": thing(code=TEXT | {"minLength": 5, "maxLength": 8}, summary=TEXT | {"minLength": 400}),
    "short": thing(title=TEXT | {"maxLength": 3}, x=TEXT | {"maxLength": 0}),
    "items": thing(tags={"type": "array", "items": TEXT, "minItems": 3, "maxItems": 4}),
    "unique": thing(
        ids={"type": "array", "items": {"type": "integer"}, "minItems": 4, "uniqueItems": True},
        days={"type": "array", "items": {"enum": ["mo", "tu", "we"]}, "minItems": 3, "uniqueItems": True},
        texts={"type": "array", "items": TEXT, "minItems": 3, "uniqueItems": True},
        flags={"type": "array", "items": {"type": "boolean"}, "minItems": 2, "uniqueItems": True},
    ),
    "tuple": thing(pair={"type": "array", "prefixItems": [TEXT, NUMBER], "minItems": 2, "maxItems": 2}),
    "contains": thing(a={"type": "array", "contains": {"type": "integer", "minimum": 5}}),
    "formats": thing(
        **{
            name.replace("-", "_"): TEXT | {"format": name}
            for name in ("date", "date-time", "time", "email", "uri", "uuid", "ipv4", "duration")
        }
    ),
    "patterns": thing(
        sku=TEXT | {"pattern": r"^[A-Z]{3}-\d{4}$"},
        version=TEXT | {"pattern": r"^v?\d+\.\d+(\.\d+)?$"},
        choice=TEXT | {"pattern": "^(yes|no)$"},
        colour=TEXT | {"pattern": "^#(?:[0-9a-fA-F]{3}){1,2}$"},
        slug=TEXT | {"pattern": "^[a-z0-9]+(?:-[a-z0-9]+)*$", "minLength": 1},
        not_digit=TEXT | {"pattern": r"^[^\d]+$"},
    ),
    "nested": thing(a=thing(b=thing(c=thing(d=NUMBER, e={"type": "array", "items": NODE | {}}))))
    | {"$defs": {"Node": NODE}},
    "recursive": {"$ref": "#/$defs/Node", "$defs": {"Node": NODE}},
    "optional": thing([], a=NUMBER, b=TEXT, c={"type": "boolean"}),
    "nullable": thing(a={"type": ["number", "null"]}, b={"anyOf": [TEXT, {"type": "null"}]}),
    "unions": thing(
        a={"anyOf": [NUMBER, TEXT]},
        b={"oneOf": [thing(kind={"const": "x"}), thing(kind={"const": "y"})]},
        c={"type": ["integer", "string"]},
        d={"oneOf": [{"type": "integer"}, NUMBER | {"minimum": 2}]},
    ),
    "all of": {
        "allOf": [thing(a=TEXT), thing(b=NUMBER | {"minimum": 1}), {"required": ["c"]}],
        "properties": {"c": {"type": "boolean"}},
    },
    "closed": thing(a=TEXT) | {"additionalProperties": False},
    "map": {"type": "object", "additionalProperties": NUMBER},
    "map with entries": {"type": "object", "additionalProperties": NUMBER, "minProperties": 2},
    "undescribed": {"type": "object", "required": ["a", "b"]},
    "anything": {},
    "any field": thing(a={}, b=True),
    "a text": TEXT,
    "a list": {"type": "array", "items": REPORT, "minItems": 2},
    "a number": NUMBER,
    "not": thing(a=NUMBER | {"not": {"const": 0}}, b=TEXT | {"not": {"const": "Not determined."}}),
    "conditional": thing(a={"type": "boolean"}, b=TEXT)
    | {"if": {"properties": {"a": {"const": True}}}, "then": {"required": ["c"]}},
    "depending": thing(a=TEXT, b=TEXT) | {"dependentRequired": {"a": ["b"]}},
    "escaped ref": thing(a={"$ref": "#/$defs/a~1b"}) | {"$defs": {"a/b": NUMBER | {"minimum": 4}}},
    "ref beside": thing(a={"$ref": "#/$defs/N", "maximum": 9}) | {"$defs": {"N": NUMBER | {"minimum": 4}}},
    "odd names": thing(**{"": TEXT, "a.b": NUMBER, "ü": TEXT, "title/": TEXT, "$ref2": TEXT}),
    "many": thing(**{f"field_{at}": NUMBER for at in range(300)}, notes=TEXT),
}


@pytest.mark.parametrize("name", SCHEMAS)
def test_every_schema_gets_a_valid_instance_that_is_always_the_same(name: str) -> None:
    schema = SCHEMAS[name]

    replies = [answer(PROMPT, schema=schema) for _ in range(2)]

    valid(replies[0].output, schema)
    assert replies[0].canonical() == replies[1].canonical()


def test_numbers_that_nobody_gave_are_zero_or_null_and_are_named() -> None:
    schema = thing(
        summary=TEXT, total=NUMBER, share={"anyOf": [NUMBER, {"type": "null"}]}, done={"type": "boolean"}
    )

    output = valid(answer(PROMPT, schema=schema).output, schema)

    assert output["total"] == 0
    assert output["share"] is None
    assert "placeholders: total, done" in output["summary"]


def test_what_the_prompt_states_is_taken_from_it() -> None:
    schema = thing(
        name=TEXT,
        email=TEXT | {"format": "email"},
        age={"type": "integer"},
        born=TEXT | {"format": "date"},
        order=TEXT | {"pattern": r"^[A-Z]{2}-\d+$"},
        priority={"enum": ["low", "high"]},
        phone={"anyOf": [TEXT, {"type": "null"}]},
    )
    prompt = (
        "Extract the person. Name: Ada Lovelace. She was born 1815-12-10, her age is 36, write to"
        " ada@example.org about order AB-77, which has high priority."
    )

    assert valid(answer(prompt, schema=schema).output, schema) == {
        "name": "Ada Lovelace",
        "email": "ada@example.org",
        "age": 36,
        "born": "1815-12-10",
        "order": "AB-77",
        "priority": "high",
        "phone": None,
    }


def test_identifiers_after_a_name_are_taken_and_words_are_not() -> None:
    schema = thing(number=TEXT, customer=TEXT, total=NUMBER)
    prompt = "Extract the invoice: number INV-7 of customer unclear, total 310.50 EUR."

    assert answer(prompt, schema=schema).output == {
        "number": "INV-7",
        "customer": "Not determined.",
        "total": 310.5,
    }


def test_neutral_choices_come_before_the_first_one() -> None:
    schema = thing(status={"enum": ["approved", "rejected", "unknown"]})

    assert answer("Check the contract.", schema=schema).output == {"status": "unknown"}


@pytest.mark.parametrize(
    "schema",
    [
        thing(a=False),
        thing(a={"$ref": "#/nowhere"}),
        thing(a={"$ref": "#/properties/a"}),
        thing(a=NUMBER | {"minimum": 3, "maximum": 2}),
        thing(a={"enum": []}),
        thing(a=TEXT | {"minLength": 5, "maxLength": 2}),
        thing(a={"$ref": "#"}),
        {"not": {}},
    ],
    ids=lambda schema: str(schema)[:60],
)
def test_what_no_value_fits_is_refused(schema: dict[str, Any]) -> None:
    with pytest.raises(OfflineCannot):
        answer(PROMPT, schema=schema)


def test_a_partly_answered_schema_names_what_is_missing(open_world: Open) -> None:
    _, workspace = open_world("shop")
    schema = thing(summary=TEXT, count={"type": "integer"}, margin=NUMBER, mood=TEXT)

    output = valid(workspace.ask("How many orders are there?", schema=schema).reply.output, schema)

    assert output["count"] == 450
    assert "450" in output["summary"]
    assert output["margin"] == 0
    assert "margin" in output["summary"]
    assert output["mood"] == "Not determined."


def test_a_question_that_cannot_be_read_is_said_in_the_output(open_world: Open) -> None:
    _, workspace = open_world("shop")

    output = valid(workspace.ask("Why did orders fall?", schema=REPORT).reply.output, REPORT)

    assert "could not be answered" in output["summary"]
    assert "why" in output["summary"].lower()
    with pytest.raises(OfflineCannot, match="why"):
        workspace.ask("Why did orders fall?", schema=thing(count={"type": "integer"}))


def test_an_analysis_with_data_holds_the_figures_that_were_found(open_world: Open) -> None:
    world, workspace = open_world("shop")
    rows = [row for row in world["orders"] if row["order_date"].year == 2024]
    wanted = sum(row["amount"] or 0 for row in rows)

    output = valid(
        workspace.ask("Analyze the orders of 2024 and write a report.", schema=REPORT).reply.output, REPORT
    )

    assert f"{wanted:.2f}" in output["summary"]
    assert len(output["findings"]) >= 3
    assert "No data" not in output["summary"]


def _drawn(chance: random.Random, depth: int) -> dict[str, Any]:
    """A random schema that some value fits."""
    kind = chance.choice(["object", "array", "number", "integer", "string", "boolean", "enum", "union"])
    if depth > 3 and kind in ("object", "array", "union"):
        kind = "string"
    if kind == "object":
        names = [chance.choice("title summary count notes items when owner".split()) for _ in range(4)]
        properties = {name: _drawn(chance, depth + 1) for name in names}
        required = [name for name in properties if chance.random() < 0.7]
        extra = chance.choice([{}, {"additionalProperties": False}])
        return {"type": "object", "properties": properties, "required": required, **extra}
    if kind == "array":
        low = chance.randrange(3)
        return {"type": "array", "items": _drawn(chance, depth + 1), "minItems": low, "maxItems": low + 2}
    if kind in ("number", "integer"):
        low = chance.randrange(-50, 50)
        step = {"multipleOf": 3} if chance.random() < 0.3 else {}
        return {"type": kind, "minimum": low, "maximum": low + chance.randrange(6, 90), **step}
    if kind == "string":
        low = chance.randrange(0, 30)
        return {"type": "string", "minLength": low, "maxLength": low + chance.randrange(1, 60)}
    if kind == "enum":
        return {"enum": chance.sample(["a", "b", 3, None, "unknown", True], 3)}
    if kind == "union":
        return {"anyOf": [_drawn(chance, depth + 1), chance.choice([{"type": "null"}, {"type": "boolean"}])]}
    return {"type": "boolean"}


@pytest.mark.parametrize("seed", range(60))
def test_random_schemas_get_valid_instances(seed: int) -> None:
    schema = _drawn(random.Random(seed), 0)

    valid(answer(PROMPT, schema=schema).output, schema)


@pytest.mark.parametrize("pattern", [r"(?=a)b", r"(a)\1", "[", "(", "a{9999}", r"\p{L}", "(((((", "{", "a{2"])
def test_patterns_that_are_not_understood_give_nothing_or_a_text(pattern: str) -> None:
    assert text_for(pattern) is None or isinstance(text_for(pattern), str)


def test_a_schema_that_grows_by_itself_ends() -> None:
    inner = {"type": "array", "items": {"$ref": "#/$defs/L"}, "minItems": 9}
    schema = thing(a={"$ref": "#/$defs/L"}) | {"$defs": {"L": inner}}

    with pytest.raises(OfflineCannot):
        answer(PROMPT, schema=schema)
