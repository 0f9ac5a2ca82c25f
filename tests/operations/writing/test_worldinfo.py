"""World Info files and the lorebooks of cards: the same entries, whichever way they were written."""

from __future__ import annotations

import json
from typing import Any

import pytest

from artelier.errors import InvalidImport
from artelier.operations.lore import Lorebook, LorebookEntry, activate, read_world_info, write_lorebook
from artelier.operations.lore.schemas import CharacterFilter
from tests.operations.writing.files import BOOK, V2, encoded, world_info


def only(**fields: Any) -> LorebookEntry:
    """The entry of a World Info file with these fields."""
    (entry,) = read_world_info(world_info(a=fields)).entries
    return entry


def in_book(**fields: Any) -> LorebookEntry:
    """The entry of a `character_book` with these fields."""
    (entry,) = read_world_info(encoded({"entries": [{"keys": ["k"], "content": "c", **fields}]})).entries
    return entry


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"key": ["cat", " dog "]}, {"keys": ("cat", "dog")}),
        ({"key": "cat, dog"}, {"keys": ("cat", "dog")}),
        ({"keysecondary": ["x"]}, {"secondary_keys": ("x",), "selective_logic": "and_any"}),
        ({"keysecondary": ["x"], "selectiveLogic": 1}, {"selective_logic": "not_all"}),
        ({"keysecondary": ["x"], "selectiveLogic": 2}, {"selective_logic": "not_any"}),
        ({"keysecondary": ["x"], "selectiveLogic": 3}, {"selective_logic": "and_all"}),
        ({"keysecondary": ["x"], "selective": False}, {"secondary_keys": ()}),
        ({"comment": "the cat"}, {"name": "the cat"}),
        ({"content": "{{char}} <b>"}, {"content": "{{char}} <b>"}),
        ({"constant": True}, {"constant": True}),
        ({"disable": True}, {"enabled": False}),
        ({"order": 7}, {"order": 7, "priority": 7}),
        ({"order": "12"}, {"order": 12}),
        ({"position": 0}, {"place": "before"}),
        ({"position": 1}, {"place": "after"}),
        ({"position": 4, "depth": 2, "role": 2}, {"place": "depth", "depth": 2, "role": "assistant"}),
        ({"position": 4, "role": None}, {"place": "depth", "depth": 4, "role": "system"}),
        ({"position": 2}, {"place": "depth"}),
        ({"position": 5}, {"place": "after"}),
        ({"position": 7, "outletName": "x"}, {"enabled": False}),
        ({"sticky": 3, "cooldown": 2, "delay": 1}, {"sticky": 3, "cooldown": 2, "delay": 1}),
        ({"sticky": 1e9}, {"sticky": 10_000}),
        ({"caseSensitive": True, "matchWholeWords": True}, {"case_sensitive": True, "whole_words": True}),
        ({"caseSensitive": None, "matchWholeWords": None}, {"case_sensitive": False, "whole_words": False}),
        ({"probability": 30}, {"probability": 30}),
        ({"probability": 30, "useProbability": False}, {"probability": 100}),
        ({"scanDepth": 2}, {"scan_depth": 2}),
        ({"scanDepth": None}, {"scan_depth": None}),
        ({"excludeRecursion": True}, {"found_by_recursion": False}),
        ({"preventRecursion": True}, {"feeds_recursion": False}),
        ({"uid": 17}, {"id": "17"}),
        ({"uid": None}, {"id": "0"}),
        ({"myField": {"a": 1}}, {"extensions": {"my_field": {"a": 1}}}),
        ({"group": "a, b,a"}, {"groups": ("a", "b"), "extensions": {}}),
        ({"group": "", "groupWeight": 100, "useGroupScoring": None}, {"groups": (), "extensions": {}}),
        ({"groupWeight": 0, "groupOverride": True}, {"group_weight": 0, "group_first": True}),
        ({"useGroupScoring": True, "ignoreBudget": True}, {"group_scoring": True, "ignore_budget": True}),
        ({"delayUntilRecursion": True}, {"recursion_level": 1}),
        ({"delayUntilRecursion": False}, {"recursion_level": 0}),
        ({"delayUntilRecursion": 3}, {"recursion_level": 3}),
        ({"triggers": ["swipe"]}, {"triggers": ("swipe",)}),
        ({"matchScenario": True, "matchCreatorNotes": False}, {"also_scans": ("scenario",)}),
        (
            {"characterFilter": {"isExclude": True, "names": ["Mo"], "tags": []}},
            {"characters": CharacterFilter(exclude=True, names=("Mo",))},
        ),
        ({"characterFilter": {"isExclude": False, "names": [], "tags": []}}, {"characters": None}),
        ({}, {"extensions": {}}),
        ({"key": ["/ca+t/i"]}, {"keys": ("/ca+t/i",), "use_regex": True}),
    ],
)
def test_each_field_of_world_info_has_its_place(fields: dict[str, Any], expected: dict[str, Any]) -> None:
    entry = only(**fields)

    assert {name: getattr(entry, name) for name in expected} == expected


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"position": "before_char"}, {"place": "before"}),
        ({"position": "after_char"}, {"place": "after"}),
        ({}, {"place": "after", "enabled": True, "order": 100}),
        ({"insertion_order": 5, "priority": 9}, {"order": 5, "priority": 9}),
        ({"secondary_keys": ["x"], "selective": True}, {"secondary_keys": ("x",)}),
        ({"secondary_keys": ["x"]}, {"secondary_keys": (), "extensions": {"artelier/secondary_keys": ["x"]}}),
        ({"use_regex": False, "keys": ["/home/user/"]}, {"use_regex": False, "keys": ("/home/user/",)}),
        ({"use_regex": True, "keys": ["ca+t", "a/b", "/x/"]}, {"keys": ("/ca+t/i", r"/a\/b/i", "/x/")}),
        ({"use_regex": True, "keys": ["a.b"], "extensions": {"selectiveLogic": 0}}, {"keys": ("a.b",)}),
        ({"use_regex": True, "keys": ["a+"], "case_sensitive": True}, {"keys": ("/a+/",)}),
        ({"name": "n", "comment": "note"}, {"name": "n", "extensions": {"artelier/comment": "note"}}),
        ({"content": "@@depth 3\n@@role user\nL."}, {"content": "L.", "depth": 3, "role": "user"}),
        ({"content": "@@new\nL."}, {"content": "L.", "extensions": {"artelier/decorators": ["@@new"]}}),
        ({"content": "@@new 4\n@@@scan_depth 4\n\nL."}, {"content": "L.", "scan_depth": 4, "extensions": {}}),
        ({"content": "@@depth x\n@@role pope\nL."}, {"place": "after", "role": "system", "content": "L."}),
        ({"content": "@@activate\n@@dont_activate_after_match\nx"}, {"constant": True, "cooldown": 10_000}),
        ({"content": "@@exclude_keys a, b\nx"}, {"secondary_keys": ("a", "b"), "selective_logic": "not_any"}),
        ({"content": "@@depth 1\n@@depth 2\nx"}, {"depth": 1}),
        ({"content": "not @@depth 3"}, {"content": "not @@depth 3"}),
        ({"content": "@@" * 100_000}, {"content": ""}),
    ],
)
def test_each_field_of_a_character_book_has_its_place(
    fields: dict[str, Any], expected: dict[str, Any]
) -> None:
    entry = in_book(**fields)

    assert {name: getattr(entry, name) for name in expected} == expected


def test_lists_objects_and_v3_files_are_the_same_book() -> None:
    entries = [{"key": ["a"], "content": "x"}, {"key": ["b"], "content": "y"}]

    books = [
        read_world_info(encoded(shape))
        for shape in (
            entries,
            {"entries": entries},
            {"entries": {"0": entries[0], "9": entries[1]}},
            {"spec": "lorebook_v3", "data": {"entries": entries}},
        )
    ]

    assert {len(book.entries) for book in books} == {2}
    assert all(book == books[0] for book in books)


def test_what_is_changed_or_not_followed_is_said() -> None:
    warnings: list[str] = []

    read_world_info(
        world_info(a={"uid": 1, "sticky": 2, "order": 3.5}, b={"uid": 1, "position": 7, "vectorized": True}),
        warnings=warnings,
    )

    said = " ".join(warnings)
    for word in (
        "turns",
        "insertion_order: 3.5 became 3",
        "there twice",
        "7 is no place",
        "vectorized: kept",
    ):
        assert word in said


@pytest.mark.parametrize(
    "data",
    [
        world_info(
            a={"key": ["cat"], "keysecondary": ["x", "y"], "selectiveLogic": 3, "position": 4, "depth": 0},
            b={"key": ["/a\\/b+/s"], "position": 7, "group": "g", "comment": "line\nline", "sticky": 1},
            c={"constant": True, "content": "@@unknown 3\n@@depth 2\nLore", "position": 5},
            d={"keysecondary": ["z"], "selective": False, "probability": 3, "uid": "00x"},
            e={"disable": True, "preventRecursion": True, "caseSensitive": True, "scanDepth": 0},
            f={"group": "a,b", "groupWeight": 0, "groupOverride": True, "delayUntilRecursion": 2},
            g={"triggers": ["swipe"], "matchScenario": True, "ignoreBudget": True, "useGroupScoring": True},
            h={"characterFilter": {"isExclude": True, "names": ["Mo"], "tags": ["thief"]}},
        ),
        encoded(BOOK),
        encoded({"name": "empty", "entries": []}),
    ],
    ids=["world info", "character book", "empty"],
)
def test_a_book_that_was_written_is_read_as_it_was(data: bytes) -> None:
    book = read_world_info(data)

    again = read_world_info(write_lorebook(book))

    assert again == book
    assert write_lorebook(again) == write_lorebook(book)


def test_an_entry_that_was_moved_stands_where_it_was_moved_to() -> None:
    book = read_world_info(world_info(a={"position": 5}))
    moved = Lorebook(entries=(LorebookEntry(id="0", extensions=book.entries[0].extensions, place="before"),))

    assert read_world_info(write_lorebook(moved)).entries[0].place == "before"


NOVELAI_BOOK = {
    "lorebookVersion": 5,
    "categories": [{"name": "things"}],
    "entries": [
        {
            "text": "Glass rings.",
            "displayName": "Glass",
            "id": "0f1e",
            "keys": ["glass", "harbour&bell"],
            "searchRange": 1000,
            "enabled": True,
            "forceActivation": False,
            "contextConfig": {"prefix": "[", "budgetPriority": 400},
        },
        {
            "text": "Dry and bright.",
            "displayName": "Mood",
            "keys": [],
            "enabled": True,
            "forceActivation": True,
        },
    ],
}

AGNAI_BOOK = {
    "kind": "memory",
    "_id": "b7c1",
    "name": "Market",
    "scanDepth": 12,
    "tokenBudget": 350,
    "entries": [
        {
            "name": "Nails",
            "entry": "Nails are lucky.",
            "keywords": ["nail"],
            "secondaryKeys": ["bent"],
            "priority": 1,
            "weight": 9,
            "enabled": True,
        },
        {
            "name": "Stall",
            "entry": "never",
            "keywords": ["stall"],
            "priority": 0,
            "weight": 0,
            "enabled": False,
        },
    ],
}


def test_a_book_of_novelai_keeps_its_words_and_says_what_is_not_followed() -> None:
    warnings: list[str] = []

    book = read_world_info(encoded(NOVELAI_BOOK), warnings=warnings)

    glass, mood = book.entries
    assert (glass.name, glass.content, glass.keys) == ("Glass", "Glass rings.", ("glass", "harbour&bell"))
    assert (glass.order, glass.priority, glass.constant) == (400, 400, False)
    assert (mood.content, mood.constant) == ("Dry and bright.", True)
    assert glass.extensions["novelai"]["searchRange"] == 1000
    assert book.extensions["novelai"]["categories"] == [{"name": "things"}]
    (said,) = warnings
    assert said.startswith("a NovelAI lorebook: kept, but not followed")
    assert all(word in said for word in ("`&` in keys", "searchRange", "contextConfig", "categories"))
    assert read_world_info(write_lorebook(book)) == book


def test_a_book_of_agnai_has_its_secondary_keys_and_its_bounds() -> None:
    warnings: list[str] = []

    book = read_world_info(encoded(AGNAI_BOOK), warnings=warnings)

    nails, stall = book.entries
    assert (book.name, book.scan_depth, book.budget_tokens) == ("Market", 12, 350)
    assert (nails.content, nails.keys, nails.secondary_keys) == ("Nails are lucky.", ("nail",), ("bent",))
    assert (nails.order, nails.priority, stall.enabled) == (9, 1, False)
    assert warnings == []
    assert book.extensions["agnai"] == {"kind": "memory", "_id": "b7c1"}
    assert [one.entry.name for one in activate(book, ["a bent nail"], turn=1).entries] == ["Nails"]
    assert read_world_info(write_lorebook(book)) == book


@pytest.mark.parametrize(
    "data",
    [
        {"lorebookVersion": 5, "entries": "x"},
        {"lorebookVersion": 5, "entries": [3]},
        {"lorebookVersion": 5, "entries": [{"text": ["x"], "keys": ["a"]}]},
        {"kind": "memory", "entries": [{"entry": "x", "keywords": [[]]}]},
        {"kind": "memory", "entries": None},
    ],
)
def test_a_broken_book_of_another_program_is_refused(data: object) -> None:
    with pytest.raises(InvalidImport):
        read_world_info(encoded(data))


BAD = {
    "empty": b"",
    "text": b'"x"',
    "nothing": b"{}",
    "a card": encoded(V2),
    "entries of text": encoded({"entries": "x"}),
    "an entry that is none": encoded({"entries": [1]}),
    "a key that is none": encoded({"entries": [{"keys": [[]]}]}),
    "an order that is none": encoded({"entries": [{"key": [], "order": {}}]}),
    "an order without end": encoded({"entries": [{"key": [], "order": "nan"}]}),
    "a switch that is none": encoded({"entries": [{"key": [], "disable": "no"}]}),
    "a depth that is none": encoded({"entries": [], "scan_depth": "deep"}),
    "content without end": encoded({"entries": [{"key": [], "content": "x" * 200_001}]}),
    "too much content": encoded({"entries": [{"key": [], "content": "x" * 190_000}] * 43}),
    "too many keys": encoded({"entries": [{"keys": [f"{n}" for n in range(257)]}]}),
    "too many entries": encoded({"entries": [{}] * 5_001}),
    "too deep": encoded({"entries": [{"key": [], "x": json.loads("[" * 120 + "]" * 120)}]}),
}


@pytest.mark.parametrize("data", BAD.values(), ids=BAD.keys())
def test_what_is_no_lorebook_is_refused(data: bytes) -> None:
    with pytest.raises(InvalidImport) as caught:
        read_world_info(data)

    assert len(str(caught.value)) < 10_000


def test_an_imported_book_works() -> None:
    book = read_world_info(world_info(a={"key": ["cat"], "content": "Cats rule."}))

    assert [item.entry.content for item in activate(book, ["The cat!"], turn=1).entries] == ["Cats rule."]
