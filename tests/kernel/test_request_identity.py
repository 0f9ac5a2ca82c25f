"""The identity and size of a request: by message, the same for lists and conversations, exact to the byte."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from artelier import ChatMessage, ModelRequest
from artelier.kernel.prompt.manifest import Content, FixedPart, Joint, Measure, Prompt, compose
from artelier.kernel.prompt.request import (
    MeasuredRequest,
    MessageMeter,
    body_hash,
    is_same_request,
    measure_messages,
)
from artelier.log.blobs import DataKey
from artelier.ports.model import ToolCall, ToolSchema
from artelier.tokens import estimate_tokens, tokens_of_counts
from tests.kernel.stage import drive, echo, open_kernel, play, user

KEY = DataKey(None, b"k" * 32)

texts = st.text(st.characters(exclude_categories=("Cs",)), max_size=20)
calls = st.builds(ToolCall, id=texts, name=texts, arguments=st.dictionaries(texts, st.integers(), max_size=2))
messages = st.builds(
    ChatMessage,
    role=st.sampled_from(("system", "user", "assistant", "tool")),
    content=texts,
    tool_calls=st.lists(calls, max_size=2).map(tuple),
)
several = st.lists(messages, min_size=1, max_size=5).map(tuple)
more: Any = st.lists(st.one_of(several, texts, st.builds(Joint, texts)), max_size=6)
tools = st.lists(st.builds(ToolSchema, name=texts, description=texts, parameters=st.just({})), max_size=2)


def request_of(contents: list[Content], *, params: dict[str, Any] | None = None) -> ModelRequest:
    schema = {"type": "object", "description": "größer"}
    return compose(model="m", params=params or {}, tools=(), output_schema=schema, contents=contents)


@given(several, more, tools.map(tuple), st.dictionaries(texts, st.integers() | texts, max_size=2))
def test_the_size_of_a_request_is_that_of_its_canonical_body_to_the_byte(
    first: tuple[ChatMessage, ...], rest: list[Content], tools: tuple[ToolSchema, ...], params: dict[str, Any]
) -> None:
    contents = [first, *rest]
    request = compose(model="größe", params=params, tools=tools, output_schema=None, contents=contents)
    known = [measure_messages(one) if isinstance(one, tuple) else None for one in contents]
    body = request.canonical()
    for measured in (
        MeasuredRequest.of(request),
        MeasuredRequest.composed(request, contents, known),
        MeasuredRequest.composed(request, contents, [None] * len(contents)),
    ):
        assert measured.size_bytes == len(body)
        chars = measured.size_bytes - measured.extra_bytes
        assert tokens_of_counts(chars, measured.extra_bytes) == estimate_tokens(body)
        assert measured.identity(KEY) == MeasuredRequest.of(request).identity(KEY)


@given(several, several)
def test_requests_are_the_same_exactly_if_their_bytes_are(
    one: tuple[ChatMessage, ...], other: tuple[ChatMessage, ...]
) -> None:
    left, right = MeasuredRequest.of(request_of([one])), MeasuredRequest.of(request_of([other]))
    same = left.request.canonical() == right.request.canonical()
    assert is_same_request(left.identity(KEY), right, KEY) == same
    assert is_same_request(body_hash(KEY, left.request.canonical()), right, KEY) == same
    split = MeasuredRequest.of(request_of([one[:1], one[1:]]))
    assert split.identity(KEY) == left.identity(KEY)
    assert MeasuredRequest.of(request_of([one], params={"seed": 1})).identity(KEY) != left.identity(KEY)


@given(several, several, st.integers(0, 4))
def test_a_range_measures_what_its_messages_measure(
    one: tuple[ChatMessage, ...], other: tuple[ChatMessage, ...], dropped: int
) -> None:
    meter, dropped = MessageMeter(), min(dropped, len(one))
    meter.add(one)
    meter.drop(dropped)
    meter.add(other)
    left = (*one[dropped:], *other)
    assert len(meter) == len(left)
    for start in range(len(left)):
        for stop in range(start, len(left) + 1):
            measured, fresh = meter.measure(start, stop), measure_messages(left[start:stop])
            assert measured[:4] == fresh[:4] and measured.call_ids >= fresh.call_ids


def test_an_empty_range_measures_nothing() -> None:
    assert measure_messages(()) == Measure(b"", 0, 0, 0)


def test_a_list_and_a_conversation_of_the_same_bytes_are_the_same_request(tmp_path: Path) -> None:
    async def with_list(run: Any) -> Any:
        first = await run.step_model(model="m", messages=[user("a")])
        said = [user("a"), ChatMessage(role="assistant", content=first.text), user("b")]
        return (await run.step_model(model="m", messages=said)).text

    async def with_conversation(run: Any) -> Any:
        conversation = run.conversation()
        conversation.append(user("a"))
        conversation.append(await run.step_model(model="m", messages=conversation))
        conversation.append(user("b"))
        return (await run.step_model(model="m", messages=conversation)).text

    async def scenario() -> None:
        with open_kernel(tmp_path, model := echo()) as kernel:
            runs = kernel.for_tenant()
            await drive(runs, with_list)
            assert (await runs.replay("r", with_conversation)).result == "re: b"
            assert len(model.requests) == 2
            manifests = [await runs.manifest("r", key) for key in ("1", "2")]
            assert all(one.request.startswith("h2:") for one in manifests)

    play(scenario())


def test_a_range_with_other_messages_than_its_conversation_gave_is_measured_anew(tmp_path: Path) -> None:
    async def code(run: Any) -> Any:
        conversation = run.conversation()
        for text in ("a", "b", "c"):
            conversation.append(user(text))
        part = conversation.all()
        cut = msgspec.structs.replace(part, start=2, messages=part.messages[1:])
        note = FixedPart(tag="note", text="mind this", attach=True)
        return (await run.step_model(model="m", messages=Prompt(parts=(cut, note)))).text

    async def scenario() -> None:
        with open_kernel(tmp_path, model := echo()) as kernel:
            runs = kernel.for_tenant()
            await drive(runs, code)
            assert (await runs.render("r", "1")).canonical() == model.requests[0].canonical()
            assert (await runs.replay("r", code)).result == "re: c\n\nmind this"

    play(scenario())
