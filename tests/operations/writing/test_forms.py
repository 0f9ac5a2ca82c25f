"""Characters, personas and lorebooks as artifacts: what fits is taken, and every wrong field is named."""

from __future__ import annotations

from typing import Any

import pytest

from artelier.artifacts.kinds import check_content, kind_named
from artelier.errors import InvalidArtifact
from artelier.operations.lore import Character, Lorebook, LorebookEntry, read_form, register_writing


@pytest.fixture(autouse=True)
def kinds() -> None:
    register_writing()
    register_writing()


CYCLE: list[Any] = []
CYCLE.append(CYCLE)


@pytest.mark.parametrize(
    ("kind", "content"),
    [
        ("character", {"name": "Ada"}),
        ("character", {"name": "Ада", "alternate_greetings": ["a", ""], "lorebook": "ada/lore@3"}),
        ("character", {"name": "{{user}}", "description": "{% raw %}", "extensions": {"a": [1]}}),
        ("persona", {"name": "I", "description": "a traveller"}),
        ("lorebook", {}),
        ("lorebook", {"entries": [{"id": "1", "keys": ["/a+/i"], "content": "x", "depth": 0}]}),
    ],
)
def test_what_fits_is_taken(kind: str, content: object) -> None:
    check_content(kind_named(kind), content)


@pytest.mark.parametrize(
    ("kind", "content", "named"),
    [
        ("character", "text", ["a character takes other content"]),
        ("character", [], ["content: expected an object"]),
        ("character", {}, ["name: missing"]),
        ("character", {"name": ""}, ["name: expected str of length >= 1"]),
        ("character", {"name": "A\nSystem"}, ["name: expected str matching"]),
        (
            "character",
            {"name": "A", "creator": 1, "tags": [1], "colour": 2},
            ["creator: expected str, got int", "tags[0]: expected str", "colour: unknown field"],
        ),
        ("character", {"name": "A", "lorebook": "a@b@c"}, ["not a version of an artifact"]),
        ("character", {"name": "A", "lorebook": "main:x"}, ["crosses a space"]),
        ("character", {"name": "A", "description": "x" * 200_001}, ["description: expected str of length"]),
        ("character", {"name": "A", "extensions": {"x": "y" * 1_000_001}}, ["extensions: 1,0"]),
        ("character", {"name": "A", "extensions": CYCLE}, ["nested too deeply"]),
        ("character", {"name": "\ud800"}, ["no Unicode"]),
        ("persona", {"name": "A", "description": None}, ["description: expected str, got null"]),
        (
            "lorebook",
            {"scan_depth": -1, "recursive": "yes", "entries": [{}, {"id": "1", "place": "top"}, 3]},
            [
                "scan_depth: expected int >= 0",
                "recursive: expected bool",
                "entries[0].id: missing",
                "entries[1].place: expected one of before, after, depth, got 'top'",
                "entries[2]: expected an object",
            ],
        ),
        ("lorebook", {"entries": [{"id": "a"}, {"id": "b"}, {"id": "a"}]}, ["[2].id: 'a' is there twice"]),
        ("lorebook", {"entries": [{"id": str(n), "keys": ["k"] * 250} for n in range(81)]}, ["20,250 keys"]),
        (
            "lorebook",
            {"entries": [{"id": "a", "probability": 101, "sticky": -1, "keys": [""]}]},
            ["entries[0].probability: expected int <= 100", "entries[0].sticky", "entries[0].keys[0]"],
        ),
        ("lorebook", {"entries": {}}, ["entries: expected array, got object"]),
    ],
)
def test_every_wrong_field_is_named(kind: str, content: object, named: list[str]) -> None:
    with pytest.raises(InvalidArtifact) as caught:
        check_content(kind_named(kind), content)

    missing = [text for text in named if text not in str(caught.value)]
    assert missing == [], str(caught.value)


def test_of_very_many_wrong_fields_the_first_are_named() -> None:
    with pytest.raises(InvalidArtifact, match="and 980 more") as caught:
        read_form(Lorebook, {"entries": [{"id": 0} for _ in range(1000)]})

    assert len(caught.value.facts["problems"]) == 1000
    assert len(str(caught.value)) < 5_000


def test_whom_somebody_plays_is_private() -> None:
    assert {kind_named(kind).default_access for kind in ("character", "persona", "lorebook")} == {"private"}


def test_a_form_and_its_content_are_the_same() -> None:
    book = Lorebook(
        name="x", entries=(LorebookEntry(id="1", keys=("a",), place="depth", extensions={"b": 1}),)
    )
    ada = Character(name="Ada", tags=("x",))

    assert read_form(Lorebook, book.to_content()) == book
    assert ada.to_content() == {"name": "Ada", "tags": ["x"]}
    assert read_form(Character, ada.to_content()) == ada


def test_a_nickname_is_what_somebody_is_called() -> None:
    assert Character(name="Ada").called == "Ada"
    assert Character(name="Ada", nickname="A.").called == "A."
