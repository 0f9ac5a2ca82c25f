"""Public names that have moved: they are what they were, and warn."""

from __future__ import annotations

import importlib

import pytest

MOVED = [
    ("artelier.operations", "Session", "artelier.chat"),
    ("artelier.operations", "Turn", "artelier.chat"),
    ("artelier.operations", "Variant", "artelier.chat"),
    ("artelier.operations", "TurnResult", "artelier.chat"),
    ("artelier.operations", "RunEvent", "artelier.chat"),
    ("artelier.operations.validation", "parse_profile", "artelier.operations.profile.operation_profile"),
    ("artelier.operations.casting", "cast_character", "artelier.operations.lore.character_import"),
    ("artelier.agents", "Chat", "artelier.chat"),
    ("artelier.agents.launching", "launch_of", "artelier.agents.launch"),
]


@pytest.mark.parametrize(("old", "name", "new"), MOVED)
def test_a_name_that_has_moved_is_the_same_object_and_warns(old: str, name: str, new: str) -> None:
    with pytest.warns(DeprecationWarning, match=f"is now {new}"):
        found = getattr(importlib.import_module(old), name)
    assert found is getattr(importlib.import_module(new), name)


def test_a_name_that_was_changed_is_the_same_object_and_warns() -> None:
    with pytest.warns(DeprecationWarning, match="is now DetectedValue"):
        found = importlib.import_module("artelier.ports.pii").Found
    assert found is importlib.import_module("artelier.ports.pii").DetectedValue
