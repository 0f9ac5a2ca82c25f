"""The model as a port: pure, free, countable, and resumable from its messages alone."""

from __future__ import annotations

import asyncio
import json
import math
from typing import Any

import pytest

from artelier.errors import OfflineCannot
from artelier.models.offline import OfflineModel
from artelier.models.offline.conversation import Ask, Desk, Wanted
from artelier.ports.model import (
    FREE,
    ChatMessage,
    Delta,
    ModelReply,
    ModelRequest,
    PricedModelPort,
    StreamingModelPort,
    ToolCall,
    ToolSchema,
)
from tests.models.offline.conftest import Open

QUESTION = "Which three customers spent the most in 2024?"


def requests_of(open_world: Open, question: str) -> list[ModelRequest]:
    """Every request of a finished conversation."""
    _, workspace = open_world("shop")
    messages = workspace.ask(question).messages
    starts = [at for at, one in enumerate(messages) if one.role == "assistant"]
    tools = tuple(
        ToolSchema(name=name, description="", parameters={}) for name in ("describe_tables", "query_sql")
    )
    return [ModelRequest(model="offline", messages=tuple(messages[:at]), tools=tools) for at in starts]


def test_the_model_is_a_free_streaming_port() -> None:
    model = OfflineModel()

    assert isinstance(model, StreamingModelPort)
    assert isinstance(model, PricedModelPort)
    assert model.price is FREE


def test_the_same_request_gives_the_same_bytes(open_world: Open) -> None:
    for request in requests_of(open_world, QUESTION):
        replies = {asyncio.run(OfflineModel().complete(request)).canonical() for _ in range(3)}

        assert len(replies) == 1


def test_usage_counts_a_token_per_four_characters(open_world: Open) -> None:
    request = requests_of(open_world, QUESTION)[-1]

    reply = asyncio.run(OfflineModel().complete(request))

    assert reply.usage.input_tokens == math.ceil(len(request.canonical().decode()) / 4)
    assert reply.usage.output_tokens == math.ceil(len(reply.text) / 4)
    assert reply.usage.cached_input_tokens == 0
    assert reply.finish_reason == "stop"


def test_calls_have_ids_that_count_on(open_world: Open) -> None:
    _, workspace = open_world("shop")

    ids = [call.id for call in workspace.ask(QUESTION).calls]

    assert ids == [f"call_{number}" for number in range(1, len(ids) + 1)]


def test_independent_queries_are_asked_in_one_reply(open_world: Open) -> None:
    _, workspace = open_world("shop")

    messages = workspace.ask("How many orders are there, and what is the total amount?").messages

    assert len([one for one in messages if len(one.tool_calls) > 1]) == 1


def test_the_stream_ends_with_the_whole_reply(open_world: Open) -> None:
    request = requests_of(open_world, QUESTION)[-1]

    async def collect() -> list[Delta | ModelReply]:
        return [piece async for piece in OfflineModel().stream(request)]

    *pieces, last = asyncio.run(collect())

    assert isinstance(last, ModelReply)
    assert "".join(piece.text for piece in pieces) == last.text
    assert last == asyncio.run(OfflineModel().complete(request))


def test_a_tight_limit_shortens_the_report_and_never_cuts_it(open_world: Open) -> None:
    _, workspace = open_world("shop")
    question = "orders by order date"
    roomy = workspace.ask("amount by month", params={"max_output_tokens": 4000}).text
    tight = workspace.ask("amount by month", params={"max_output_tokens": 300}).text

    assert "```sql" in roomy
    assert len(tight) <= 1200 < len(roomy)
    assert tight.rstrip().endswith("*")
    with pytest.raises(OfflineCannot, match="max_output_tokens of at least"):
        workspace.ask(question, params={"max_output_tokens": 20})


def test_a_large_result_is_read_on_from_its_artifact() -> None:
    whole = json.dumps({"tables": [], "padding": "x" * 30_000})
    preview = {"head": whole[:50], "tail": whole[-50:], "total_chars": len(whole), "ref": "r/1"}
    reader = ToolSchema(name="read_artifact", description="", parameters={})
    tool = ToolSchema(name="describe_tables", description="", parameters={})

    def desk(*pairs: tuple[ToolCall, Any]) -> Desk:
        calls = tuple(call for call, _ in pairs)
        answers = [
            ChatMessage(role="tool", tool_call_id=call.id, content=json.dumps(result))
            for call, result in pairs
        ]
        messages = (
            ChatMessage(role="user", content="x"),
            ChatMessage(role="assistant", tool_calls=calls),
            *answers,
        )
        return Desk(ModelRequest(model="offline", messages=messages, tools=(reader, tool)))

    first = (ToolCall(id="call_1", name="describe_tables"), preview)
    with pytest.raises(Wanted) as wanted:
        desk(first).ask(Ask(tool="describe_tables", arguments={}))
    asks = wanted.value.asks
    pages = [
        (
            ToolCall(id=f"page_{at}", name="read_artifact", arguments=dict(ask.arguments)),
            {"text": whole[ask.arguments["offset"] :][: ask.arguments["limit"]]},
        )
        for at, ask in enumerate(asks)
    ]

    (answer,) = desk(first, *pages).ask(Ask(tool="describe_tables", arguments={}))

    assert len(asks) == 2
    assert answer == json.loads(whole)


def test_the_last_message_of_the_user_is_the_question() -> None:
    tools = (
        ToolSchema(name="describe_tables", description="", parameters={}),
        ToolSchema(name="query_sql", description="", parameters={}),
    )
    messages = (
        ChatMessage(role="user", content="How many orders are there?"),
        ChatMessage(role="assistant", content="3"),
        ChatMessage(role="user", content="Show a chart of them."),
    )

    with pytest.raises(OfflineCannot, match="chart"):
        asyncio.run(OfflineModel().complete(ModelRequest(model="offline", messages=messages, tools=tools)))


SUMMARY = (
    ChatMessage(role="system", content="Summarise the conversation below."),
    ChatMessage(role="user", content="Please plan the trip. We decided on 14 May and room B-12."),
    ChatMessage(role="assistant", content="Fine. The budget must stay below 400 euros. Hm hm hm hm."),
    ChatMessage(role="user", content="Summarise this."),
)


def test_a_summary_is_an_extract_of_the_sentences_that_matter() -> None:
    reply = asyncio.run(OfflineModel().complete(ModelRequest(model="offline", messages=SUMMARY)))

    assert "We decided on 14 May and room B-12." in reply.text
    assert "The budget must stay below 400 euros." in reply.text
    assert "Hm hm" not in reply.text
    assert "offline model" in reply.text


def test_a_question_with_the_word_summary_is_still_a_question(open_world: Open) -> None:
    _, workspace = open_world("shop")

    assert "```sql" in workspace.ask("Give me a summary of total amount by product").text
