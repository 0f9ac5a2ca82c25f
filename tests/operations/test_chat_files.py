"""Chats of other programs: what becomes of what stands beside the words, and that the rest is named."""

from __future__ import annotations

import json
from typing import Any

import pytest

from artelier.chat.conversation_files import ForeignTurn, TakenChat, parse_chat


def message(name: str, text: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "is_user": name == "Kim", "mes": text, **more}


def taken(*lines: dict[str, Any], **metadata: Any) -> TakenChat:
    head = {"user_name": "Kim", "character_name": "Mira", "chat_metadata": metadata}
    return parse_chat("\n".join(json.dumps(line) for line in (head, *lines)).encode())


def test_a_chat_without_anything_beside_its_words_is_taken_without_a_note() -> None:
    chat = taken(message("Mira", "Hello."), message("Kim", "Hi."), message("Mira", "Sit."))

    assert [(turn.user, turn.variants) for turn in chat.turns] == [(None, ("Hello.",)), ("Hi.", ("Sit.",))]
    assert (chat.note, chat.warnings) == ({}, ())


def test_what_a_narrator_says_is_seen_by_the_model_and_what_is_hidden_is_not() -> None:
    narrator = message("Narrator", "A candle goes out.", extra={"type": "narrator"})
    comment = message("Note", "Mind the stair.", is_system=True, extra={"type": "comment"})

    chat = taken(narrator, message("Kim", "Who is there?"), message("Mira", "I am."), comment, narrator)

    assert [turn.variants for turn in chat.turns] == [
        ("A candle goes out.",),
        ("I am.",),
        ("Mind the stair.",),
        ("A candle goes out.",),
    ]
    assert [turn.hidden for turn in chat.turns] == [(), (), ("assistant",), ()]
    assert chat.warnings == (
        "messages of a narrator stand as replies",
        "messages of the program stand as replies that no prompt shows",
    )


def test_the_authors_note_of_a_file_is_the_chats() -> None:
    chat = taken(
        message("Mira", "Hello."), note_prompt="Tone: dusk.", note_depth=2, note_role=1, note_position=1
    )

    assert chat.note == {"prompt": "Tone: dusk.", "depth": 2, "role": "user"}
    assert chat.warnings == ()


def test_a_note_that_makes_no_sense_has_the_usual_place_and_its_rhythm_is_named() -> None:
    chat = taken(
        message("Mira", "Hello."),
        note_prompt="Tone.",
        note_depth=-1,
        note_role="x",
        note_position=0,
        note_interval=3,
    )

    assert chat.note == {"prompt": "Tone.", "depth": 4, "role": "system"}
    assert [note.partition(":")[0] for note in chat.warnings] == ["note_position", "note_interval"]


def test_whatever_is_not_taken_over_is_named_once() -> None:
    chat = taken(
        message("Otto", "Who?", send_date="2025-01-01T00:00:00Z", extra={"reasoning": "A visitor."}),
        message("Kim", "Me.", swipes=["I.", "Me."], swipe_id=1),
        {"name": "The Stowaway", "is_user": True, "mes": "And me."},
        scenario="On fire.",
        variables={"candles": 3},
        world_info="Town",
        persona="kim.png",
    )

    assert (chat.scenario, chat.variables) == ("On fire.", {"candles": "3"})
    assert chat.warnings == (
        "no date: line 3, 4; they have the time of now",
        "kept of chat_metadata, but not followed: persona, world_info",
        "kept, but not shown: other wordings of 1 messages of the person",
    )


def test_a_turn_of_a_file_is_still_read_by_name() -> None:
    turn = ForeignTurn(user="Hi", variants=("Hello",))
    with pytest.warns(DeprecationWarning, match="turn.user"):
        assert turn["user"] == "Hi"
    with pytest.raises(KeyError):
        turn["nodes"]
