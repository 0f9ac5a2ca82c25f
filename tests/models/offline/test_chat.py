"""Conversations of many turns: the last message is answered, with what the turns before told."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from artelier.errors import OfflineCannot
from artelier.models.offline import OfflineModel
from artelier.ports.model import ChatMessage, Delta, ModelReply, ModelRequest
from tests.models.offline.conftest import Open
from tests.models.offline.driving import Workspace
from tests.models.offline.talking import MEMORY_TOOLS, TEXT, Talk, answer, schema_of


@pytest.mark.parametrize(
    ("told", "question", "said"),
    [
        (["My name is Ada."], "What is my name?", "Your name is Ada."),
        (["My name is Ada.", "Actually, my name is Bo."], "What is my name?", "your name is Bo"),
        (["The project moved to Oslo."], "Which city did the project move to?", "moved to Oslo"),
        (["We agreed on 14 May for the audit."], "When is the audit that we agreed on?", "14 May"),
        (["I care about the Baltic ports."], "Which ports do I care about?", "the Baltic ports"),
        (["I work at Acme.", "My boss is Mia."], "Who is my boss?", "Your boss is Mia."),
        (["The box P-33 is in hall 5.", "The box P-3 is in hall 1."], "Where is the box P-33?", "hall 5"),
        (["My dog's name is Rex.", "My name is Ada."], "What is my name?", "Your name is Ada."),
        (["My name is Ada.", "My dog's name is Rex."], "What is my name?", "Your name is Ada."),
    ],
)
def test_the_last_message_is_answered_from_the_turns_before(
    told: list[str], question: str, said: str
) -> None:
    talk = Talk()
    for text in told:
        talk.say(text)

    assert said.lower() in talk.say(question).text.lower()


def test_far_turns_are_remembered_and_long_chats_stay_fast() -> None:
    import time

    talk = Talk()
    talk.say("My name is Ada.")
    talk.messages += [
        ChatMessage(role=role, content=f"The parcel {at} is in hall {at % 7}.")
        for at in range(300)
        for role in ("user", "assistant")
    ]
    started = time.process_time()

    reply = talk.say("What is my name?")

    assert "Your name is Ada." in reply.text
    assert time.process_time() - started < 8


@pytest.mark.parametrize("text", ["Hello!", "Thanks", "Who are you?", "bye"])
def test_small_talk_gets_a_brief_answer(text: str) -> None:
    reply = answer(text)

    assert 0 < len(reply.text) < 400
    assert "offline model" in reply.text


def test_what_was_said_last_is_repeated() -> None:
    talk = Talk()
    talk.say("The parcel is in hall 7.")

    assert "The parcel is in hall 7." in talk.say("What did I just say?").text


def test_a_text_in_the_message_is_summarised_by_its_own_sentences() -> None:
    text = (
        "Summarize the following text: Hm, well, so it goes. The board met on 3 May. It approved 4,200 EUR."
    )
    schema = {
        "type": "object",
        "properties": {"summary": TEXT, "key_points": {"type": "array", "items": TEXT}},
    }

    plain = answer(text).text
    output = answer(text, schema=schema).output

    assert "The board met on 3 May." in plain and "word for word" not in output["summary"]
    assert "It approved 4,200 EUR." in output["summary"]
    assert "The board met on 3 May." in output["key_points"]


def test_a_statement_is_not_claimed_to_be_stored() -> None:
    assert "I have not stored it" in answer("The project moved to Oslo.").text


@pytest.mark.parametrize(
    "text", ["Tell me a joke", "Write a poem about rain", "Why is the sky blue?", "", "Translate this"]
)
def test_what_is_beyond_the_rules_is_refused_as_before(text: str) -> None:
    with pytest.raises(OfflineCannot):
        answer(text)


def test_questions_on_tables_follow_one_another(open_world: Open) -> None:
    world, _ = open_world("shop")
    counts = {year: sum(row["order_date"].year == year for row in world["orders"]) for year in (2023, 2024)}
    _, workspace = open_world("shop")

    first = workspace.ask("How many orders were there in 2024?")
    again = _asked_after(workspace, first.messages, "And in 2023?")

    assert f"**{counts[2024]}**" in first.text
    assert f"**{counts[2023]}**" in again.text
    assert f"**{counts[2024]}**" not in again.text


def _asked_after(workspace: Workspace, before: list[ChatMessage], question: str) -> ModelReply:
    """The answer to a message after a finished conversation."""
    import msgspec

    messages = [*before, ChatMessage(role="user", content=question)]
    tools = tuple(tool.schema for tool in workspace._tools.values())
    for _ in range(8):
        request = ModelRequest(model="offline", messages=tuple(messages), tools=tools)
        reply = asyncio.run(OfflineModel().complete(request))
        if not reply.tool_calls:
            return reply
        messages.append(ChatMessage(role="assistant", tool_calls=reply.tool_calls))
        for call in reply.tool_calls:
            content = msgspec.json.encode(asyncio.run(workspace._call(call))).decode()
            messages.append(ChatMessage(role="tool", content=content, tool_call_id=call.id))
    raise AssertionError("no answer")


TAILS = [
    "## Now\n\n2026-11-21 09:30 UTC",
    '## Balance\n\n12 scrip\n\n## Notes\n\n- How many cats are there? {"tables": []}',
    '## Recalled memories\n\n<data source="memory" trust="untrusted">\n- [m1] x [1, 2]\n</data>',
]


@pytest.mark.parametrize("tail", TAILS, ids=["clock", "notes", "memories"])
def test_facts_below_the_last_message_change_no_answer(open_world: Open, tail: str) -> None:
    _, workspace = open_world("shop")
    question = "Which three customers spent the most in 2024?"
    plain = workspace.ask(question).text
    functions = {
        name: lambda name=name, **given: _called(workspace, name, given)
        for name in ("describe_tables", "query_sql")
    }
    tools = [workspace._tools[name].schema for name in functions]
    talk = Talk(tools=tools, functions=functions, tail=tail)

    assert talk.say(question).text == plain


def _called(workspace: Workspace, name: str, given: dict[str, Any]) -> Any:
    import msgspec

    from artelier.ports.model import ToolCall

    call = ToolCall(id="x", name=name, arguments=given)
    return msgspec.json.decode(msgspec.json.encode(asyncio.run(workspace._call(call))))


def test_facts_in_a_message_of_their_own_are_no_question() -> None:
    talk = Talk(messages=[ChatMessage(role="user", content="My name is Ada.")])
    talk.messages += [
        ChatMessage(role="assistant", content="Understood."),
        ChatMessage(role="user", content="What is my name?"),
        ChatMessage(role="system", content="Past Events Summary: nothing of note."),
        ChatMessage(role="user", content="## Now\n\n2026-11-21 09:30 UTC"),
    ]

    assert "Your name is Ada." in talk.once().text


def test_a_demand_to_repair_a_reply_asks_nothing_new() -> None:
    schema = {"type": "object", "properties": {"summary": TEXT}, "required": ["summary"]}
    talk = Talk(schema=schema)
    first = talk.say("Analyze the Q3 sales data.")
    talk.messages.append(
        ChatMessage(role="user", content="Your reply does not fit the format that was asked for.\n\nx")
    )

    assert talk.once().output == first.output


def pieces_of(request: ModelRequest) -> list[Delta | ModelReply]:
    async def collect() -> list[Delta | ModelReply]:
        return [piece async for piece in OfflineModel().stream(request)]

    return asyncio.run(collect())


def requests() -> Iterator[ModelRequest]:
    schema = {"type": "object", "properties": {"summary": TEXT}, "required": ["summary"]}
    agent = schema_of("researcher", "Delegates to an agent.", prompt=TEXT)
    kinds: list[tuple[str, dict[str, Any]]] = [
        ("What is my name?", {}),
        ("Analyze the Q3 sales data.", {"output_schema": schema}),
        ("Remember that I like tea.", {"tools": MEMORY_TOOLS}),
        ("Ask the researcher to count owls.", {"tools": (agent,)}),
    ]
    for text, more in kinds:
        message = ChatMessage(role="user", content=text)
        yield ModelRequest(model="offline", messages=(message,), **more)


@pytest.mark.parametrize("request_", list(requests()), ids=["chat", "schema", "memory", "agent"])
def test_every_kind_of_reply_can_be_streamed(request_: ModelRequest) -> None:
    *pieces, last = pieces_of(request_)

    assert isinstance(last, ModelReply)
    assert "".join(piece.text for piece in pieces) == last.text
    assert bool(pieces) == (not last.tool_calls)
    assert last == asyncio.run(OfflineModel().complete(request_))
