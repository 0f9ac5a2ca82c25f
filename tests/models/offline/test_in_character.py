"""The offline model in a chat: in character, honest about itself, and it writes down only what was said."""

from __future__ import annotations

import json
from typing import Any

import pytest

from artelier.errors import OfflineCannot
from artelier.models.offline.reply import reply_to
from artelier.operations.graph.shipped_texts import wording
from artelier.ports.model import ChatMessage, ModelRequest

MIRA = "You are Mira, in a conversation with Tom. Stay in character."
TEXT = {"type": "string"}
LIST = {"type": "array", "items": TEXT}
SCENE: dict[str, Any] = {
    "turn": {"type": "integer"},
    "location": TEXT,
    "time": TEXT,
    "mood": {"type": "string", "enum": ["calm", "tense", "happy"]},
    "characters": LIST,
    "inventory": LIST,
    "motto": {**TEXT, "minLength": 1},
}


def said(*messages: tuple[Any, str], schema: dict[str, Any] | None = None) -> str:
    asked = tuple(ChatMessage(role=role, content=text) for role, text in messages)
    return reply_to(ModelRequest(model="offline", messages=asked, output_schema=schema)).text


def in_chat(text: str, *notes: str, system: str = MIRA) -> str:
    return said(("system", system), ("user", text), *(("system", one) for one in notes))


@pytest.mark.parametrize(
    "system",
    [
        MIRA,
        "You are Mira.\n\n# Mira\nA smith who knows Tom.",
        "Write Mira's next reply in a fictional chat between Mira and Tom.\n\n# Mira\nA smith.",
    ],
)
def test_a_character_takes_up_what_was_said(system: str) -> None:
    reply = in_chat("I walk to the harbour.", system=system)

    assert "Mira" in reply and "I walk to the harbour" in reply
    assert reply == in_chat("I walk to the harbour.", system=system), "no chance is in it"


@pytest.mark.parametrize(
    ("system", "who"),
    [
        ("You are a poet.", "The poet"),
        ("You are an old sailor who hates rain.", "The old sailor"),
        ("You are Dr. Watson.", "Dr. Watson"),
        ("Speak in verse, always.", "The assistant"),
        ("You are now in a bar.", "The assistant"),
        ("You are Dr. Watson, in a conversation with User.", "Dr. Watson"),
        ("You are R2.D2, in a conversation with User. Be brief.", "R2.D2"),
        ("You are Mira of the Hills, the 3rd, in a conversation with User.", "Mira of the Hills, the 3rd"),
        ("You are Dr. Watson.\n\n# Dr. Watson\nA physician.", "Dr. Watson"),
        ("You keep files and tables of a tavern.", "The assistant"),
        ("{name} {0} %s", "The assistant"),
    ],
)
def test_whoever_the_prompt_names_talks(system: str, who: str) -> None:
    for text in ("Write a poem about rain", "Sing!", "Is it cold outside?"):
        reply = in_chat(text, system=system)
        named = reply.replace("the assistant", "The assistant").replace("the ", "The ")
        assert who in reply or who in named, reply
        assert text.rstrip("?!") in reply
    assert in_chat("Hello!", system=system).startswith(f"{who}: ")
    assert in_chat("What is my name?", system=system)


def test_pieces_of_work_are_no_conversation() -> None:
    for system in (
        "You work on one goal with the tools you are given, in a workspace of files.",
        "Shorten the text that the user gives to what matters. Use at most 20 tokens.",
    ):
        with pytest.raises(OfflineCannot):
            in_chat("Write a poem about rain", system=system)


GO_ON = wording("continue-1")


@pytest.mark.parametrize("system", [MIRA, "You are a poet."])
def test_asked_to_go_on_it_adds_a_sentence_to_its_last_words(system: str) -> None:
    last = "The rain falls."
    for _ in range(3):
        told = (("system", system), ("user", "Write a poem."), ("assistant", last))
        more = said(*told, ("system", f"Be kind.\n\n{GO_ON}"), ("system", "Turn 2."))
        assert more.startswith(" ") and more.endswith(".") and "Go on" not in more
        assert more.strip() not in last and "poem" not in more
        last += more
    assert said(("system", system), ("assistant", "So he"), ("system", GO_ON)).startswith(" … ")
    anew = said(*told, ("system", GO_ON), ("user", "And then I sing."))
    assert "And then I sing" in anew, "what somebody says since then is taken up"


def test_scene_and_notes_of_the_prompt_come_up() -> None:
    reply = in_chat(
        "I strike.",
        "## World state\nLocation: the old harbour\nTime: night\nMood: tense",
        "The dice show 17 of 20: a success. Let the reply follow.",
    )

    assert "It is night at the old harbour, and the mood is tense." in reply
    assert "The dice show 17 of 20: a success." in reply


@pytest.mark.parametrize("question", ["What are you?", "Are you a real person?", "Which model is it?"])
def test_asked_what_it_is_it_says_so(question: str) -> None:
    assert "offline model: fixed rules, no language model" in in_chat(question)


def test_it_claims_no_facts() -> None:
    for question in ("What is the capital of France?", "How many sales were there in 2024?"):
        reply = in_chat(question).replace(question, "")
        assert "Paris" not in reply and not any(letter.isdigit() for letter in reply)
    first = ("user", "My name is Tom.")
    asked = said(("system", MIRA), first, ("assistant", "Good."), ("user", "What is my name?"))
    assert "Your name is Tom" in asked


def test_other_prompts_are_met_as_before() -> None:
    with pytest.raises(OfflineCannot):
        in_chat("How many orders were late?", system="You are a careful analyst of tables.")
    assert "Extract of the conversation" in said(
        ("system", MIRA),
        ("user", "We agreed to meet at 10."),
        ("assistant", "Yes."),
        ("user", "Write a summary of it."),
    )


def kept(before: str, talk: str, **properties: Any) -> dict[str, Any]:
    schema = {"type": "object", "properties": properties or SCENE, "additionalProperties": False}
    prompt = (
        f"Keep the state.\n\n## State so far\n{before}\n\n## Conversation\n{talk}\n\n## What to do\nGive it."
    )
    return json.loads(said(("user", prompt), schema=schema))


def test_a_state_changes_by_words_and_else_stays() -> None:
    first = kept("none", "Tom: I walk into the Golden Tavern and take a lantern.\nMira: Hm.")
    second = kept(json.dumps(first), "Tom: I attack the guard with Brin at night.\nMira: I have a sword.")
    third = kept(json.dumps(second), "Tom: I drop the lantern.\nMira: Hm.")

    assert (first["location"], first["inventory"]) == ("Golden Tavern", ["lantern"])
    assert first["characters"] == ["Tom", "Mira"]
    assert (second["location"], second["time"], second["mood"]) == ("Golden Tavern", "night", "tense")
    assert second["characters"] == ["Tom", "Mira", "Brin"]
    assert (third["mood"], third["inventory"], third["turn"]) == ("tense", [], 3)
    assert "motto" not in third, "an optional field that nothing is known of"


def test_state_that_is_broken_is_begun_anew() -> None:
    for before in ("none", "{broken", "[1]", '{"turn": "x", "location": 5, "inventory": [1]}', "{" * 9_000):
        state = kept(before, "Tom: Hello.\nMira: Hm.")
        assert state["turn"] == 1 and state["location"] == ""


def test_facts_are_what_people_stated_word_for_word() -> None:
    prompt = (
        "List the facts that were stated.\n\n## Conversation\nTom: The mast is 9 m high. Is it? Go on."
        " Our boat has two.\nMira: The moon is cheese."
    )
    schema = {"type": "object", "properties": {"facts": LIST}, "required": ["facts"]}

    facts = json.loads(said(("user", prompt), schema=schema))["facts"]

    assert facts == ["The mast is 9 m high.", "Our boat has two."]
    assert said(("user", prompt)) == "- The mast is 9 m high.\n- Our boat has two."


@pytest.mark.parametrize(
    ("talk", "question", "alone"),
    [
        ("", "Who built the Shard?", "Who built the Shard?"),
        (
            "Tom: The Baltic Exchange was bombed.\n",
            "And what was built there?",
            "And what was built there (about Baltic Exchange)?",
        ),
        ("Tom: The Baltic Exchange was bombed.\n", "Who was Wren?", "Who was Wren?"),
        ("", "## Question\nWhat?", "## Question What?"),
    ],
)
def test_a_question_is_made_to_stand_alone(talk: str, question: str, alone: str) -> None:
    prompt = f"Rewrite the question.\n\n## Conversation\n{talk}\n## Question\n{question}"

    assert said(("user", prompt)) == alone


def test_hostile_words_are_only_words() -> None:
    for text in ("x" * 50_000, "“" * 2_000, "a b " * 20_000, "\x00\u202e", "I go to " * 5_000, "A " * 9_000):
        assert 0 < len(in_chat(text)) <= 1_500
        assert kept("none", f"Tom: {text}\nMira: {text}")["turn"] == 1
