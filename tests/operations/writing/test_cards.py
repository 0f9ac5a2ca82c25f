"""Character cards: three versions in, one form; and out again."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

from artelier.errors import InvalidImport, NotFound
from artelier.operations.lore import Character, read_card, write_card
from tests.operations.writing.files import BOOK, V1, V2, V3, encoded, png, text_chunk


def changed(**data: Any) -> bytes:
    """The V2 card with other data."""
    return encoded({**V2, "data": {**V2["data"], **data}})


def test_v1_is_read() -> None:
    card = read_card(encoded(V1))

    assert card.version == "1"
    assert card.lorebook is None
    assert card.warnings == ()
    assert card.character == Character(
        name="Seraphina",
        description=V1["description"],
        personality="kind",
        scenario="a forest",
        first_message=V1["first_mes"],
        example_dialogue=V1["mes_example"],
    )


def test_v2_is_read_with_its_lorebook() -> None:
    card = read_card(encoded(V2))

    assert card.version == "2"
    assert card.character.alternate_greetings == ("Hello, {{user}}.", "Who is there?")
    assert card.character.system_prompt == "You are {{char}}. {{original}}"
    assert (card.character.creator, card.character.version) == ("somebody", "1.2")
    assert card.character.extensions == {"talkativeness": "0.5", "world": "The glade"}
    assert card.character.lorebook is None
    assert card.lorebook is not None
    assert (card.lorebook.name, card.lorebook.scan_depth, card.lorebook.budget_tokens) == (
        "The glade",
        3,
        500,
    )
    assert card.lorebook.recursive
    glade, moon = card.lorebook.entries
    assert glade.keys == ("glade", "Eldoria")
    assert (glade.place, glade.depth, glade.role, glade.order) == ("depth", 2, "user", 7)
    assert (glade.secondary_keys, glade.selective_logic) == (("night",), "not_any")
    assert (glade.probability, glade.sticky, glade.cooldown) == (40, 2, 0)
    assert glade.whole_words and glade.case_sensitive and not glade.found_by_recursion
    assert (glade.id, glade.name, glade.priority) == ("3", "the glade", 7)
    assert glade.extensions == {"tool/y": {"z": 1}}
    assert (moon.place, moon.priority, moon.constant, moon.enabled) == ("before", 5, True, False)


def test_v3_keeps_what_has_no_meaning_here_and_says_so() -> None:
    card = read_card(encoded(V3))

    assert card.version == "3"
    assert card.character.called == "Sera"
    kept = card.character.extensions["artelier/card"]
    assert kept["assets"] == V3["data"]["assets"]
    assert kept["creation_date"] == 1700000000
    assert any("assets" in warning for warning in card.warnings)


@pytest.mark.parametrize("card", [V1, V2, V3], ids=["v1", "v2", "v3"])
def test_a_card_that_was_written_is_read_as_it_was(card: dict[str, Any]) -> None:
    first = read_card(encoded(card))

    written = write_card(first.character, lorebook=first.lorebook)
    again = read_card(written)
    in_a_picture = read_card(png(text_chunk("ccv3", json.loads(written))))

    assert again.character == first.character
    assert again.lorebook == first.lorebook
    assert in_a_picture.character == first.character


def test_a_written_card_has_every_field_that_v3_demands() -> None:
    card = json.loads(write_card(Character(name="Ada"), lorebook=read_card(encoded(V2)).lorebook))

    assert (card["spec"], card["spec_version"]) == ("chara_card_v3", "3.0")
    texts = {
        *V1,
        "creator",
        "character_version",
        "system_prompt",
        "post_history_instructions",
        "creator_notes",
    }
    assert all(isinstance(card["data"][name], str) for name in texts)
    assert all(
        isinstance(card["data"][name], list)
        for name in ("tags", "alternate_greetings", "group_only_greetings")
    )
    entry = card["data"]["character_book"]["entries"][0]
    assert entry["extensions"]["selectiveLogic"] == 2
    assert entry.keys() >= {"keys", "content", "extensions", "enabled", "insertion_order", "use_regex"}


def test_the_ref_of_a_lorebook_neither_leaves_nor_comes_in() -> None:
    ada = Character(name="Ada", lorebook="secret/book")

    assert b"secret/book" not in write_card(ada)
    assert read_card(changed(lorebook="secret/book")).character.lorebook is None


def test_a_file_cannot_put_fields_into_the_card_that_is_written_from_it() -> None:
    given = changed(extensions={"artelier/card": {"first_mes": "evil", "character_book": BOOK, "x": 1}})

    card = read_card(given)
    forged = Character(
        name="Ada", extensions={"artelier/card": {"name": "Eve", "character_book": BOOK, "extensions": 1}}
    )

    assert "artelier/card" not in card.character.extensions
    assert read_card(write_card(forged)).character == Character(name="Ada")
    assert read_card(write_card(forged)).lorebook is None


def test_text_stays_text() -> None:
    hostile = "{{ ''.__class__ }}{% include 'x' %}<script>alert(1)</script>{{// hidden}}\u202e$(rm)"
    card = read_card(changed(description=hostile, first_mes=hostile, tags=[hostile]))

    assert card.character.description == hostile
    assert card.character.first_message == hostile
    assert card.character.tags == (hostile,)


@pytest.mark.parametrize(
    ("data", "field", "value"),
    [
        ({"personality": None}, "personality", ""),
        ({"tags": None, "alternate_greetings": None}, "tags", ()),
        ({"tags": "a, b"}, "tags", ("a", "b")),
        ({"alternate_greetings": "Hi, you"}, "alternate_greetings", ("Hi, you",)),
        ({"character_version": 2}, "version", "2"),
        ({"name": "  A\n\tB\x00 "}, "name", "A B"),
        ({"name": ""}, "name", "Unnamed"),
        ({"extensions": []}, "extensions", {}),
        ({"nickname": ""}, "nickname", None),
        ({"description": "half \ud83d of a pair"}, "description", "half \ufffd of a pair"),
    ],
)
def test_what_can_be_repaired_without_a_guess_is(data: dict[str, Any], field: str, value: Any) -> None:
    given = json.dumps({**V2, "data": {**V2["data"], **data}}).encode()

    assert getattr(read_card(given).character, field) == value


def test_every_wrong_field_is_named_at_once() -> None:
    book = {"entries": [{"keys": 3, "content": []}, "x", {"keys": [{}], "insertion_order": "high"}]}
    with pytest.raises(InvalidImport) as caught:
        read_card(changed(tags={}, extensions=3, character_book=book))

    for said in (
        "data.tags: expected a list",
        "data.extensions:",
        "character_book.entries[0].keys:",
        "character_book.entries[0].content:",
        "character_book.entries[1]: expected an object",
        "entries[2].keys[0]:",
        "entries[2].insertion_order: expected a number, got 'high'",
    ):
        assert said in str(caught.value)


BAD = {
    "empty": b"",
    "cut off": encoded(V2)[:-5],
    "a list": b"[]",
    "text": b'"card"',
    "nothing": b"null",
    "no fields": b"{}",
    "another object": b'{"a": 1}',
    "a lorebook": encoded(BOOK),
    "data of another type": encoded({"spec": "chara_card_v2", "data": []}),
    "no utf-8": b'{"name": "\xff"}',
    "too deep": b'{"name":"a","description":"","extensions":' + b"[" * 50_000 + b"]" * 50_000 + b"}",
    "rather deep": encoded({**V1, "tavern": json.loads("[" * 150 + "]" * 150)}),
    "a huge number": b'{"name":"a","description":"","n":' + b"9" * 5_000 + b"}",
    "not a number": b'{"name":"a","description":"","n":NaN}',
    "a huge text": encoded({**V1, "description": "x" * 200_001}),
    "a huge extension": changed(extensions={"x": "y" * 1_000_001}),
    "too many entries": changed(character_book={"entries": [{}] * 5_001}),
    "a huge key": changed(character_book={"entries": [{"keys": ["k" * 513]}]}),
    "a book that is text": changed(character_book="book"),
    "entries that are text": changed(character_book={"entries": "all"}),
}


@pytest.mark.parametrize("data", BAD.values(), ids=BAD.keys())
def test_what_is_no_card_is_refused(data: bytes) -> None:
    with pytest.raises(InvalidImport) as caught:
        read_card(data)

    assert len(str(caught.value)) < 10_000
    assert caught.value.to_wire()["code"] == "invalid_import"


def test_too_large_a_card_is_refused_before_it_is_read() -> None:
    with pytest.raises(InvalidImport, match="too large"):
        read_card(b" " * (8 * 1024 * 1024 + 1))
    with pytest.raises(InvalidImport, match="too large"):
        read_card(b"\x89PNG\r\n\x1a\n" + b"\0" * (32 * 1024 * 1024))


def test_a_card_is_read_from_a_path(tmp_path: Path) -> None:
    path = tmp_path / "sera.png"
    path.write_bytes(png(text_chunk("chara", V2)))
    os.mkfifo(tmp_path / "pipe")

    assert read_card(path).character.name == read_card(str(path)).character.name == "Seraphina"
    with pytest.raises(NotFound):
        read_card(tmp_path / "nobody.png")
    for place in (tmp_path, tmp_path / "pipe", "a\0b"):
        with pytest.raises(InvalidImport):
            read_card(place)


def test_what_is_not_followed_is_said() -> None:
    card = read_card(
        encoded(
            {
                **V3,
                "spec_version": "4.1",
                "fav": True,
                "mystery": 1,
                "data": {**V3["data"], "extensions": {"depth_prompt": {"prompt": 3}, "regex_scripts": [1]}},
            }
        )
    )

    said = " ".join(card.warnings)
    assert all(word in said for word in ("4.1", "mystery", "depth_prompt", "regex_scripts"))
    assert card.character.extensions["regex_scripts"] == [1]


def test_every_field_that_nobody_follows_is_named() -> None:
    entry = {
        "keys": ["a"],
        "content": "@@is_greeting 1\n@@@depth moon\nText.",
        "novelty": 7,
        "extensions": {"x/y": 1},
    }
    names = [f"name-{number:03}" for number in range(90)]
    book = {
        "entries": [entry, {**entry, "novelty": 8, "silent": None}],
        "colour": "red",
        "extensions": {"z": {}},
    }
    extensions = {"talkativeness": "0.5", "fav": False, "world": "Town", **dict.fromkeys(names, 1)}
    card = read_card(changed(character_book=book, extensions=extensions))

    said = "\n".join(card.warnings)
    for words in (
        "data.character_book.entries: kept, but not followed: novelty, x/y",
        "data.character_book.extensions: kept, but not followed: colour",
        "entries[0].content: kept, but not followed: @@@depth, @@is_greeting",
        f"data.extensions: kept, but not followed: {', '.join(names)}, world",
    ):
        assert words in said
    assert not any(word in said for word in ("talkativeness", "fav", "silent"))


def test_a_text_of_another_type_is_left_out_and_named() -> None:
    card = read_card(changed(description=[], post_history_instructions=False, creator_notes=7))

    assert (card.character.description, card.character.post_history_instructions) == ("", "")
    assert card.character.creator_notes == "7"
    said = " ".join(card.warnings)
    assert "data.description: expected text, got []" in said
    assert "data.post_history_instructions: expected text, got False" in said


def test_a_card_in_the_form_of_pygmalion_is_read() -> None:
    card = read_card(
        encoded(
            {
                "char_name": "Quill",
                "char_persona": "An automaton.",
                "world_scenario": "A museum.",
                "char_greeting": "Visitor.",
                "example_dialogue": "You: Hi.",
            }
        )
    )

    character = card.character
    assert (character.name, character.description) == ("Quill", "An automaton.")
    assert (character.scenario, character.first_message) == ("A museum.", "Visitor.")
    assert "Pygmalion" in card.warnings[0]


def test_warnings_are_few_whatever_the_file() -> None:
    entries = [{"keys": ["a"], "content": "x", "id": 1, "extensions": {"group": "g"}}] * 2_000

    card = read_card(changed(character_book={"entries": entries}))

    assert len(card.warnings) <= 51
    assert card.warnings[-1].endswith("more")
    assert card.lorebook is not None
    assert len({entry.id for entry in card.lorebook.entries}) == 2_000


def test_a_card_made_here_survives_its_way() -> None:
    ada = Character(name="Ada", nickname="A", tags=("x, y",), extensions={"k": [None, 1.5]})

    assert read_card(write_card(ada)).character == ada
    assert msgspec.json.decode(write_card(ada))["data"]["nickname"] == "A"


def test_an_empty_greeting_keeps_its_place_and_wrong_fields_stand_in_the_file_again() -> None:
    data = {"name": "Mira", "alternate_greetings": ["a", "", "b"], "personality": ["stubborn"]}
    card = read_card(encoded({"spec": "chara_card_v2", "spec_version": "2.0", "data": data}))

    written = json.loads(write_card(card.character))["data"]

    assert card.character.alternate_greetings == ("a", "", "b")
    assert (written["alternate_greetings"], written["personality"]) == (["a", "", "b"], ["stubborn"])
