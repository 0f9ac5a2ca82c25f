"""Structured output: filled from computed facts where names fit, refused by field where they do not."""

from __future__ import annotations

from typing import Any

import pytest

from artelier.errors import OfflineCannot
from tests.models.offline.conftest import Open
from tests.models.offline.oracle import best, by, total

QUESTION = "Which three customers spent the most in 2024?"


def schema(required: list[str] | None = None, **properties: Any) -> dict[str, Any]:
    names = list(properties) if required is None else required
    return {"type": "object", "properties": properties, "required": names}


TEXT = {"type": "string"}
NUMBER = {"type": "number"}


def test_texts_numbers_and_rows_are_filled_by_name(open_world: Open) -> None:
    world, workspace = open_world("shop")
    row = schema(["name", "total_amount"], rank={"type": "integer"}, name=TEXT, total_amount=NUMBER)
    wanted = schema(
        title=TEXT,
        summary=TEXT,
        report=TEXT,
        customers={"type": "array", "items": TEXT},
        rows={"type": "array", "items": row},
        sources={"type": "array", "items": TEXT},
    )
    rows = world.joined("orders", "customers", "customer_id")
    spent = {
        name: total(found, "amount", lambda one: one["order_date"].year == 2024)
        for name, found in by(rows, "name").items()
    }
    first = best(spent, 3)

    reply = workspace.ask(QUESTION, schema=wanted).reply

    output = reply.output
    assert output["customers"] == first
    assert [one["name"] for one in output["rows"]] == first
    assert [one["rank"] for one in output["rows"]] == [1, 2, 3]
    assert output["rows"][0]["total_amount"] == pytest.approx(spent[first[0]])
    assert output["report"].startswith("# ")
    assert output["title"] in output["report"]
    assert first[0] in output["summary"]
    assert set(output["sources"]) == {"orders.csv", "customers.csv"}


def test_the_text_of_the_reply_is_the_output_as_json(open_world: Open) -> None:
    import json

    _, workspace = open_world("shop")

    reply = workspace.ask("How many orders are there?", schema=schema(count={"type": "integer"})).reply

    assert json.loads(reply.text) == reply.output == {"count": 450}


@pytest.mark.parametrize("name", ["total_amount", "amount", "value", "answer", "result"])
def test_a_single_figure_fits_its_own_name_and_general_ones(open_world: Open, name: str) -> None:
    world, workspace = open_world("shop")

    output = workspace.ask("What is the total amount?", schema=schema(None, **{name: NUMBER})).reply.output

    assert output[name] == pytest.approx(total(world["orders"], "amount"))


def test_a_change_gives_its_four_figures(open_world: Open) -> None:
    world, workspace = open_world("shop")
    wanted = schema(change=NUMBER, change_percent=NUMBER)
    figures = {
        year: total(world["orders"], "amount", lambda one, year=year: one["order_date"].year == year)
        for year in (2023, 2024)
    }

    question = "How did the total amount change from 2023 to 2024?"
    output = workspace.ask(question, schema=wanted).reply.output

    change = figures[2024] - figures[2023]
    assert output["change"] == pytest.approx(change)
    assert output["change_percent"] == pytest.approx(100 * change / figures[2023])


def test_optional_fields_without_a_fact_are_left_out(open_world: Open) -> None:
    _, workspace = open_world("shop")
    wanted = schema(["count"], count={"type": "integer"}, mood=TEXT, confirmed={"type": "boolean"})

    assert workspace.ask("How many orders are there?", schema=wanted).reply.output == {"count": 450}


def test_references_and_nullable_fields_are_understood(open_world: Open) -> None:
    _, workspace = open_world("shop")
    wanted = {
        "$ref": "#/$defs/Report",
        "$defs": {
            "Report": schema(
                count={"anyOf": [{"type": "integer"}, {"type": "null"}]},
                mood={"anyOf": [TEXT, {"type": "null"}]},
            )
        },
    }

    output = workspace.ask("How many orders are there?", schema=wanted).reply.output

    assert output == {"count": 450, "mood": None}


@pytest.mark.parametrize(
    ("field", "inner"),
    [
        ("mood", TEXT),
        ("confirmed", {"type": "boolean"}),
        ("average_price", NUMBER),
        ("cities", {"type": "array", "items": TEXT}),
        ("rows", {"type": "array", "items": schema(colour=TEXT)}),
        ("title", {"type": "string", "maxLength": 3}),
        ("count", {"type": "integer", "minimum": 1000}),
        ("count", {"type": "string", "pattern": "^x$"}),
        ("answer", {"enum": ["yes", "no"]}),
        ("thing", {"$ref": "#/nowhere"}),
    ],
    ids=lambda value: str(value)[:40],
)
def test_a_required_field_without_a_fact_is_refused_by_name(
    open_world: Open, field: str, inner: dict[str, Any]
) -> None:
    _, workspace = open_world("shop")

    with pytest.raises(OfflineCannot, match=f"`{field}"):
        workspace.ask("How many orders are there?", schema=schema(None, **{field: inner}))


def test_passages_fill_lists_of_quotes(open_world: Open) -> None:
    _, workspace = open_world("library")
    wanted = schema(quotes={"type": "array", "items": TEXT}, sources={"type": "array", "items": TEXT})

    output = workspace.ask("What does the policy say about late returns?", schema=wanted).reply.output

    assert output["quotes"][0].startswith("Late returns cost 20 cents per day.")
    assert output["sources"] == ["policy.md"]
