"""What is told about actions comes from the classes that read them."""

from __future__ import annotations

import json

import pytest

from artelier.errors import InvalidRequest
from artelier.world.actions import ACTIONS, actions_page, actions_prompt
from artelier.world.actions.action import schema_of
from tests.repository.sources import ROOT


def test_the_page_is_the_one_the_classes_give() -> None:
    assert (ROOT / "docs" / "actions.md").read_text("utf-8") == actions_page()


def test_all_sixteen_actions_are_in_every_telling() -> None:
    names = (
        "noop read write edit delete invoke transfer subscribe_artifact unsubscribe_artifact "
        "configure search offer accept cancel_offer bid message"
    ).split()

    assert list(ACTIONS) == names
    for name in names:
        assert schema_of(name)["properties"]["action"]["enum"] == [name]
        assert f"- `{name}(" in actions_prompt()
        assert f"| `{name}` |" in actions_page()


def test_a_schema_needs_no_reference_and_allows_nothing_else() -> None:
    for schema in map(schema_of, ACTIONS):
        assert "$ref" not in json.dumps(schema)
        assert schema["type"] == "object"
        assert schema["additionalProperties"] is False
        assert {"action", "reasoning"} <= set(schema["properties"])


def test_a_schema_is_the_callers_own_copy() -> None:
    schema_of("noop")["properties"].clear()

    assert schema_of("noop")["properties"]


def test_a_part_of_the_actions_can_be_shown() -> None:
    text = actions_prompt(["read", "noop"])

    assert "- `noop()`: " in text and "- `read(ref, price_max?)`: " in text
    assert "transfer" not in text
    with pytest.raises(InvalidRequest, match="no such action"):
        actions_prompt(["steal"])
