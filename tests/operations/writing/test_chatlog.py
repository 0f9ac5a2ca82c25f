"""Chats of other programs: turns, wordings and system messages as they stood."""

from __future__ import annotations

import json
import time
from typing import Any

import msgspec
import pytest

from artelier.errors import InvalidImport
from artelier.operations.lore import (
    ChatLogMessage,
    ChatLogTurn,
    ChatLogVariant,
    ImportedChat,
    read_chat,
    write_chat,
)

HEAD: dict[str, Any] = {
    "user_name": "Bob",
    "character_name": "Ada",
    "create_date": "2024-1-2@03h04m05s",
    "chat_metadata": {"note_prompt": "x", "variables": {"hp": 3}},
}
GREETING: dict[str, Any] = {
    "name": "Ada",
    "is_user": False,
    "is_system": False,
    "send_date": "January 2, 2024 3:04am",
    "mes": "Hi {{user}}",
    "swipes": ["Hello", "Hi {{user}}"],
    "swipe_id": 1,
    "swipe_info": [{"send_date": "a", "extra": {}}, {"send_date": "b", "extra": {"model": "m"}}],
    "extra": {"model": "m", "reasoning": "greet"},
    "force_avatar": "x.png",
}


def said(name: str, text: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "is_user": name == "Bob", "is_system": False, "mes": text, **more}


def lines(*values: Any) -> bytes:
    return b"\n".join(json.dumps(value).encode() for value in values)


def test_a_chat_is_read_as_turns() -> None:
    chat = read_chat(
        lines(HEAD, GREETING, said("Bob", "How are you?"), said("Ada", "Well."), said("Bob", "Good."))
    )

    assert (chat.user, chat.char, chat.created_at) == ("Bob", "Ada", "2024-1-2@03h04m05s")
    assert chat.extensions["chat_metadata"] == HEAD["chat_metadata"]
    assert [turn.user for turn in chat.turns] == [None, "How are you?", "Good."]
    assert [turn.variants for turn in chat.turns] == [("Hello", "Hi {{user}}"), ("Well.",), ()]
    assert [turn.selected for turn in chat.turns] == [1, 0, 0]
    greeting = chat.turns[0].reply
    assert greeting is not None
    assert [variant.sent_at for variant in greeting.variants] == ["a", "January 2, 2024 3:04am"]
    assert greeting.variants[1].reasoning == "greet"
    assert greeting.extensions == {"force_avatar": "x.png"}


def test_system_messages_are_kept_as_such() -> None:
    chat = read_chat(
        lines(
            HEAD,
            said("System", "Welcome", is_system=True),
            said("Bob", "hi"),
            said("Narrator", "Night falls.", extra={"type": "narrator"}),
            said("Ada", "hello"),
            said("Bob", "secret", is_system=True),
            said("Bob", "bye"),
        )
    )

    assert [(turn.user, turn.variants) for turn in chat.turns] == [
        ("hi", ("hello",)),
        ("secret", ()),
        ("bye", ()),
    ]
    assert [(note.text, note.hidden) for note in chat.turns[0].system] == [
        ("Welcome", True),
        ("Night falls.", False),
    ]
    assert [note.role for note in chat.turns[0].messages] == ["system", "user", "system", "assistant"]
    assert chat.turns[1].messages[0].hidden, "a hidden message of a person is theirs"


def test_several_in_a_row_make_turns_of_their_own() -> None:
    chat = read_chat(lines(HEAD, *(said(name, name) for name in ("Bob", "Bob", "Ada", "Eve", "Bob", "Eve"))))

    assert [(turn.user, turn.variants) for turn in chat.turns] == [
        ("Bob", ()),
        ("Bob", ("Ada",)),
        (None, ("Eve",)),
        ("Bob", ("Eve",)),
    ]


@pytest.mark.parametrize(
    ("message", "variants", "selected"),
    [
        ({"mes": "a"}, ("a",), 0),
        ({"mes": "a", "swipes": []}, ("a",), 0),
        ({"mes": "b", "swipes": ["a", "b"]}, ("a", "b"), 1),
        ({"mes": "b", "swipes": ["a", "b"], "swipe_id": 0}, ("a", "b"), 1),
        ({"mes": "b", "swipes": ["a", "b"], "swipe_id": 99}, ("a", "b"), 1),
        ({"mes": "b", "swipes": ["b", "b"], "swipe_id": 1}, ("b", "b"), 1),
        ({"mes": "edited", "swipes": ["a", "b"], "swipe_id": 1}, ("a", "b", "edited"), 2),
        ({"mes": None, "swipes": ["a", "b"], "swipe_id": 1}, ("a", "b"), 1),
        ({"swipes": ["a", None], "swipe_id": -1}, ("a", ""), 0),
        ({"mes": ""}, ("",), 0),
        ({"mes": "a", "swipes": None, "swipe_id": None, "swipe_info": 3, "extra": None}, ("a",), 0),
    ],
)
def test_what_stands_in_the_chat_is_what_is_selected(
    message: dict[str, Any], variants: tuple[str, ...], selected: int
) -> None:
    chat = read_chat(lines(HEAD, {"name": "Ada", "is_user": False, **message}))

    assert (chat.turns[0].variants, chat.turns[0].selected) == (variants, selected)


def test_names_come_from_the_messages_where_the_head_has_none() -> None:
    messages = [said("Ada", "hi"), said("Bob", "ho")]

    unused = read_chat(
        lines({"chat_metadata": {}, "user_name": "unused", "character_name": "unused"}, *messages)
    )
    headless = read_chat(b"\xef\xbb\xbf" + lines(*messages).replace(b"\n", b"\r\n\r\n"))
    empty = read_chat(lines({"chat_metadata": {}}))

    assert (unused.user, unused.char) == (headless.user, headless.char) == ("Bob", "Ada")
    assert len(headless.turns) == 2
    assert (empty.user, empty.char, empty.turns) == ("User", "Character", ())


def test_text_stays_text_on_one_line_each() -> None:
    hostile = "{{ 1 }}{% x %}<script>\u2028\u0085\r\n\x00</script>"

    chat = read_chat(write_chat(read_chat(lines(HEAD, said("Bo\nb", hostile, is_user=True)))))

    assert chat.turns[0].user == hostile
    assert chat.turns[0].messages[0].name == "Bo b"


def test_a_chat_that_was_written_is_read_as_it_was() -> None:
    chat = read_chat(
        lines(
            HEAD,
            GREETING,
            said("Bob", "a", send_date=1700000000000, unknown={"x": 1}),
            said("Ada", "edited", swipes=["x", "y"], swipe_id=0),
            said("N", "note", is_system=True, is_user=True),
            said("N", "n", extra={"type": "comment"}),
        )
    )

    again = read_chat(write_chat(chat))

    assert again == msgspec.structs.replace(chat, warnings=again.warnings)
    assert [note for note in again.warnings if "date" not in note] == [
        "line 4: mes: none of the swipes; it became one more"
    ]
    assert "none of the swipes" in chat.warnings[0]


def test_a_chat_made_here_can_be_written() -> None:
    chat = ImportedChat(
        user="Bob",
        char="Ada",
        turns=(
            ChatLogTurn(
                messages=(
                    ChatLogMessage(role="user", name="Bob", variants=(ChatLogVariant(text="hi"),)),
                    ChatLogMessage(
                        role="assistant",
                        name="Ada",
                        selected=1,
                        variants=(ChatLogVariant(text="a"), ChatLogVariant(text="b")),
                    ),
                )
            ),
        ),
    )

    assert read_chat(write_chat(chat)).turns == chat.turns


BAD = {
    "empty": (b"", "this is no chat"),
    "blank": (b"\n\n  \n", "this is no chat"),
    "no json": (b"hello", "line 1 is no JSON"),
    "a list": (b"[]", "line 1: left out: expected an object"),
    "a card": (b'{"name": "x", "description": "y"}', "expected a message or the head"),
    "text that is none": (lines(HEAD, {"mes": 3}), "line 2: left out: mes, swipes: expected text"),
    "a text of another type": (lines(HEAD, {"mes": False}), "expected text"),
    "a wording that is none": (lines(HEAD, {"mes": "a", "swipes": [{}]}), "expected text"),
    "a flag that is none": (lines(HEAD, said("x", "y", is_system="very")), "is_system: expected true"),
    "too many wordings": (lines(HEAD, said("x", "y", swipes=["y"] * 501)), "at most 500 swipes"),
    "too long a text": (lines(HEAD, said("x", "y" * 200_001)), "200,000 characters"),
}


@pytest.mark.parametrize(("data", "expected"), BAD.values(), ids=BAD.keys())
def test_what_is_no_chat_is_refused(data: bytes, expected: str) -> None:
    with pytest.raises(InvalidImport, match=expected):
        read_chat(data)


LEFT_OUT = {
    "cut off": (lines(GREETING)[:-9], "line 3 is no JSON"),
    "a list": (b"[]", "line 3: left out: expected an object"),
    "no text": (lines({"name": "x"}), "line 3: left out: expected `mes`"),
    "too long a line": (lines(said("x", "y" * (4 * 1024 * 1024))), "4,194,304"),
    "too deep": (b'{"mes":"x","a":' + b"[" * 9_999 + b"]" * 9_999 + b"}", "line 3"),
}


@pytest.mark.parametrize(("line", "warning"), LEFT_OUT.values(), ids=LEFT_OUT.keys())
def test_a_line_that_cannot_be_read_is_left_out_and_named(line: bytes, warning: str) -> None:
    chat = read_chat(lines(HEAD, GREETING) + b"\n" + line + b"\n" + lines(said("Bob", "hi")))

    assert [turn.user for turn in chat.turns] == [None, "hi"]
    assert any(warning in one for one in chat.warnings), chat.warnings


def test_lines_that_are_left_out_are_named_up_to_a_number() -> None:
    chat = read_chat(lines(HEAD, GREETING) + b"\nx\n[]\n" + b"y\n" * 2_000)

    assert "line 3 is no JSON" in chat.warnings[0]
    assert "line 4: left out: expected an object" in chat.warnings[1]
    assert len(chat.warnings) == 51 and chat.warnings[-1].endswith("more")


def test_pictures_beside_a_text_are_left_out() -> None:
    chat = read_chat(lines(HEAD, said("Ada", "look", extra={"image": "x" * 70_000, "model": "m"})))

    assert chat.turns[0].messages[0].variants[0].extensions == {"model": "m"}
    assert "line 2: image: 70,002 bytes, left out" in chat.warnings


def test_a_line_of_many_fields_costs_as_much_as_it_is_long() -> None:
    fields = {f"field {number}": "x" * 9 for number in range(30_000)}
    data = lines(said("Ada", "Look.", **fields))

    began_s = time.process_time()
    [turn] = read_chat(data).turns

    assert turn.reply is not None
    assert sum(len(msgspec.json.encode(one)) for one in turn.reply.extensions.values()) <= 64 * 1024
    assert time.process_time() - began_s < 2  # 24 where all that is left is added up for each


def test_lines_together_have_so_many_items() -> None:
    """Each alone is small: 32 MB of them took 800 MB of memory and eleven seconds."""
    line = b'{"mes":"hi","extra":{"reasoning":"hm, so, so","a":[' + b"[]," * 19_999 + b"[]]}}\n"

    [turn] = read_chat(line).turns

    assert turn.messages[0].variants[0].extensions == {"reasoning": "hm, so, so"}
    assert "line 1: a: 40,002 items, left out" in read_chat(line).warnings
    with pytest.raises(InvalidImport, match="too many items; expected at most 1,500,000"):
        read_chat(line * 80)
    with pytest.raises(InvalidImport, match="too long; expected at most 100,000 wordings"):
        read_chat((lines(said("Ada", "a", swipes=["a"] * 500)) + b"\n") * 201)


def test_of_a_very_long_chat_what_a_model_thought_is_kept() -> None:
    extra = {f"field {number}": number for number in range(14)} | {"reasoning": "Hm, well, yes."}
    count = 7_000

    chat = read_chat(lines(HEAD, *[said("Ada", "Hi.", extra=extra)] * count))

    found = [turn.messages[0].variants[0].extensions for turn in chat.turns]
    assert len(found) == count and chat.extensions["chat_metadata"] == HEAD["chat_metadata"]
    assert found[0] == extra and found[-1] == {"reasoning": "Hm, well, yes."}
    assert chat.warnings == ("of the fields beside the texts 100,000 are kept, and what a model thought",)
