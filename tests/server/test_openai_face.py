"""`/v1` by the official client, over a real port: models, chats, streams, tools, errors, repeated runs."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest
from openai import AsyncOpenAI

from artelier import ModelReply, ToolCall
from artelier.kernel import Policy
from artelier.ports.media import MediaRules
from artelier.ports.model import Price, Usage
from artelier.server.security.users import ProgramTokens
from artelier.testing import ScriptedMediaModel
from artelier.tokens.estimate import IMAGES, PDFS
from tests.media.samples import pdf, png
from tests.server.house import House, house, on_a_port

MODEL = "scripted:one"
SAID: list[Any] = [{"role": "user", "content": "How many?"}]
WEATHER: Any = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "Look at the sky.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
    },
}


def _calling(*arguments: str) -> dict[str, Any]:
    calls = [
        {"id": f"c{n}", "type": "function", "function": {"name": "weather", "arguments": one}}
        for n, one in enumerate(arguments)
    ]
    return {"role": "assistant", "tool_calls": calls}


@asynccontextmanager
async def served(
    tmp_path: Path, *replies: Any, headers: dict[str, str] | None = None, **options: Any
) -> AsyncIterator[tuple[House, AsyncOpenAI]]:
    """A server on a port, and the official client with a token of its own."""
    file = tmp_path / "tokens"
    file.unlink(missing_ok=True)
    token = ProgramTokens(file).add("test", now_us=1)
    async with house(tmp_path, *replies, tokens_file=file, **options) as made, on_a_port(made.app) as address:
        client = AsyncOpenAI(base_url=f"{address}/v1", api_key=token, default_headers=headers or {})
        async with client:
            yield made, client


def test_a_completion_is_a_step_of_a_run_with_usage_and_a_manifest(tmp_path: Path) -> None:
    async def main() -> None:
        reply = ModelReply(text="Seven.", usage=Usage(input_tokens=9, cached_input_tokens=4, output_tokens=2))
        async with served(tmp_path, reply) as (made, client):
            answer = await client.chat.completions.create(
                model=MODEL, messages=SAID, temperature=0.5, max_tokens=100, user="somebody"
            )
            assert answer.choices[0].message.content == "Seven."
            assert answer.choices[0].finish_reason == "stop"
            assert answer.model == MODEL
            assert answer.usage is not None
            assert (answer.usage.prompt_tokens, answer.usage.completion_tokens) == (9, 2)
            assert answer.usage.prompt_tokens_details is not None
            assert answer.usage.prompt_tokens_details.cached_tokens == 4
            assert made.model.requests[0].params["temperature"] == 0.5
            assert made.model.requests[0].params["max_output_tokens"] == 100
            facts: Any = (answer.model_extra or {})["artelier"]
            manifest = await made.desk.manifest(facts["run_id"], facts["step"])
            assert manifest is not None

    asyncio.run(main())


def test_a_stream_brings_pieces_usage_and_an_end(tmp_path: Path) -> None:
    async def main() -> None:
        async with served(tmp_path, ModelReply(text="one two", usage=Usage(output_tokens=2))) as (_, client):
            chunks = [
                chunk
                async for chunk in await client.chat.completions.create(
                    model=MODEL, messages=SAID, stream=True, stream_options={"include_usage": True}
                )
            ]
            text = "".join(one.choices[0].delta.content or "" for one in chunks if one.choices)
            assert text == "one two"
            assert [one.choices[0].finish_reason for one in chunks if one.choices][-1] == "stop"
            assert chunks[-1].usage is not None
            assert chunks[-1].usage.completion_tokens == 2

    asyncio.run(main())


def test_calls_of_tools_go_out_and_their_results_come_back(tmp_path: Path) -> None:
    call = ToolCall(id="c1", name="weather", arguments={"city": "Graz"})

    async def main() -> None:
        replies = (ModelReply(tool_calls=(call,)), "Sunny.", ModelReply(tool_calls=(call,)))
        async with served(tmp_path, *replies) as (made, client):
            first = await client.chat.completions.create(model=MODEL, messages=SAID, tools=[WEATHER])
            message = first.choices[0].message
            assert first.choices[0].finish_reason == "tool_calls"
            assert message.tool_calls is not None
            asked: Any = message.tool_calls[0]
            assert json.loads(asked.function.arguments) == {"city": "Graz"}
            done = {"role": "tool", "tool_call_id": asked.id, "content": "clear"}
            again: list[Any] = [*SAID, message.model_dump(exclude_none=True), done]
            second = await client.chat.completions.create(model=MODEL, messages=again, tools=[WEATHER])
            assert second.choices[0].message.content == "Sunny."
            sent = made.model.requests[1]
            assert sent.tools[0].name == "weather"
            assert sent.messages[1].tool_calls == (call,)
            assert (sent.messages[2].role, sent.messages[2].text) == ("tool", "clear")
            stream = await client.chat.completions.create(
                model=MODEL, messages=SAID, tools=[WEATHER], stream=True, tool_choice="auto"
            )
            deltas = [one.choices[0].delta async for one in stream if one.choices]
            streamed: Any = [one for delta in deltas for one in delta.tool_calls or ()]
            assert json.loads(streamed[0].function.arguments) == {"city": "Graz"}

    asyncio.run(main())


def test_an_answer_with_a_schema_is_json_and_one_that_misfits_is_given_as_it_came(tmp_path: Path) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    wanted: Any = {"type": "json_schema", "json_schema": {"name": "number", "schema": schema}}

    async def main() -> None:
        good, bad = ModelReply(text='{"n": 7}'), ModelReply(text='{"n": "many"}')
        async with served(tmp_path, good, bad) as (made, client):
            asked = {"model": MODEL, "messages": SAID, "response_format": wanted}
            first = await client.chat.completions.create(**asked)
            assert json.loads(first.choices[0].message.content or "") == {"n": 7}
            assert made.model.requests[0].output_schema == schema
            second = await client.chat.completions.create(**asked)
            assert second.choices[0].message.content == '{"n": "many"}'

    asyncio.run(main())


@pytest.mark.parametrize("headers", [{}, {"Artelier-Run": "r"}])
def test_an_answer_with_a_schema_is_streamed(tmp_path: Path, headers: dict[str, str]) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    wanted: Any = {"type": "json_schema", "json_schema": {"name": "number", "schema": schema}}

    async def main() -> None:
        async with served(tmp_path, ModelReply(text='{"n": 7}'), headers=headers) as (made, client):
            asked = {"model": MODEL, "messages": SAID, "response_format": wanted, "stream": True}
            chunks = [chunk async for chunk in await client.chat.completions.create(**asked)]
            text = "".join(one.choices[0].delta.content or "" for one in chunks if one.choices)
            assert json.loads(text) == {"n": 7}
            assert made.model.requests[0].output_schema == schema

    asyncio.run(main())


def test_a_second_run_of_a_program_calls_nothing(tmp_path: Path) -> None:
    async def program(client: AsyncOpenAI, session: str) -> list[str | None]:
        found: list[str | None] = []
        for text in ("one", "one", "two"):
            answer = await client.with_options(
                default_headers={"Artelier-Run": "nightly", "Artelier-Session": session}
            ).chat.completions.create(model=MODEL, messages=[{"role": "user", "content": text}])
            found.append(answer.choices[0].message.content)
        stream = await client.chat.completions.create(
            model=MODEL, messages=SAID, stream=True, extra_headers={"Artelier-Run": "nightly"}
        )
        found.append("".join([one.choices[0].delta.content or "" async for one in stream]))
        return found

    async def main() -> None:
        async with served(tmp_path, "a", "b", "c", "d") as (made, client):
            first = await program(client, "s1")
            assert first == ["a", "b", "c", "d"], "equal calls of one session are two calls"
            assert await program(client, "s2") == first
            assert len(made.model.requests) == 4
            whole = await client.chat.completions.create(
                model=MODEL, messages=SAID, extra_headers={"Artelier-Run": "nightly"}
            )
            assert whole.choices[0].message.content == "d", "how it comes is no part of what is asked"
            assert (whole.model_extra or {})["artelier"]["replayed"] is True
        async with served(tmp_path) as (made, client):  # another process, later
            assert await program(client, "s1") == first
            assert not made.model.requests

    asyncio.run(main())


def test_a_failed_call_is_asked_again_and_an_answer_is_not(tmp_path: Path) -> None:
    from artelier.errors import ModelRefusedCall

    async def main() -> None:
        async with served(tmp_path, ModelRefusedCall("no"), "yes", headers={"Artelier-Run": "r"}) as (
            made,
            client,
        ):
            with pytest.raises(openai.BadRequestError):
                await client.chat.completions.create(model=MODEL, messages=SAID)
            for _ in range(2):
                answer = await client.chat.completions.create(model=MODEL, messages=SAID)
                assert answer.choices[0].message.content == "yes"
            assert len(made.model.requests) == 2

    asyncio.run(main())


def test_responses_without_a_memory(tmp_path: Path) -> None:
    call = ToolCall(id="c1", name="weather", arguments={"city": "Graz"})
    tool: Any = {"type": "function", "name": "weather", "parameters": {"type": "object", "properties": {}}}

    async def main() -> None:
        replies = (
            ModelReply(text="Hi.", usage=Usage(input_tokens=3)),
            ModelReply(tool_calls=(call,)),
            "Sunny.",
        )
        async with served(tmp_path, *replies, "one two") as (made, client):
            plain = await client.responses.create(
                model=MODEL,
                input="Hello",
                instructions="Be short.",
                include=["reasoning.encrypted_content"],
                reasoning={"summary": "auto"},
                store=False,
            )
            assert plain.output_text == "Hi."
            assert plain.usage is not None
            assert plain.usage.input_tokens == 3
            assert [one.role for one in made.model.requests[0].messages] == ["system", "user"]
            asks = await client.responses.create(model=MODEL, input="Sky?", tools=[tool])
            wish: Any = asks.output[0]
            assert (wish.type, wish.call_id) == ("function_call", "c1")
            given: list[Any] = [
                {"role": "user", "content": "Sky?"},
                wish.model_dump(exclude_none=True),
                {"type": "function_call_output", "call_id": "c1", "output": "clear"},
            ]
            done = await client.responses.create(model=MODEL, input=given, tools=[tool])
            assert done.output_text == "Sunny."
            assert made.model.requests[2].messages[2].tool_call_id == "c1"
            stream = await client.responses.create(model=MODEL, input="Count.", stream=True)
            events: list[Any] = [one async for one in stream]
            assert (
                "".join(one.delta for one in events if one.type == "response.output_text.delta") == "one two"
            )
            assert events[-1].type == "response.completed"
            assert events[-1].response.output_text == "one two"
            with pytest.raises(openai.BadRequestError, match="nothing can be included"):
                await client.responses.create(
                    model=MODEL, input="x", include=["message.output_text.logprobs"]
                )
            with pytest.raises(openai.BadRequestError, match="previous_response_id"):
                await client.responses.create(model=MODEL, input="x", previous_response_id="resp_1")

    asyncio.run(main())


def test_a_chat_is_talked_to_by_its_name(tmp_path: Path) -> None:
    from artelier.chat import Session

    async def main() -> None:
        async with served(tmp_path, "First.", "Second.") as (made, client):
            await Session.open(made.desk, "desk", model="scripted")
            names = [one.id async for one in client.models.list()]
            assert "artelier/desk" in names
            answer = await client.chat.completions.create(model="artelier/desk", messages=SAID)
            assert answer.choices[0].message.content == "First."
            stream = await client.chat.completions.create(model="artelier/desk", messages=SAID, stream=True)
            text = "".join([one.choices[0].delta.content or "" async for one in stream if one.choices])
            assert text == "Second."
            turns = await Session(made.desk, "desk", branch="main").turns()
            assert len(turns) == 2, "the chat keeps its conversation"
            with pytest.raises(openai.NotFoundError):
                await client.chat.completions.create(model="artelier/nobody", messages=SAID)

    asyncio.run(main())


@pytest.mark.parametrize(
    ("more", "param"),
    [
        ({"n": 2}, "n"),
        ({"logprobs": True}, "logprobs"),
        ({"tool_choice": {"type": "function", "function": {"name": "x"}}, "tools": [WEATHER]}, "tool_choice"),
        ({"tool_choice": "required"}, "tool_choice"),
        ({"tool_choice": "weather", "tools": [WEATHER]}, "tool_choice"),
        ({"tool_choice": {"type": "mcp", "server_label": "x"}, "tools": [WEATHER]}, "tool_choice"),
        ({"response_format": {"type": "grammar"}}, "response_format"),
        ({"extra_body": {"models": ["a", "b"]}}, "models"),
        ({"temperature": 9}, "temperature"),
        ({"reasoning_effort": "immense"}, "reasoning_effort"),
        ({"max_tokens": 1 << 70}, "max_tokens"),
        ({"max_completion_tokens": 1 << 70}, "max_completion_tokens"),
        ({"stop": [""]}, "stop"),
        ({"extra_body": {"route": "x" * 70_000}}, "route"),
        ({"messages": [{"role": "user", "content": 5}]}, "messages.0.content"),
        ({"messages": [{"role": "user", "content": [{"text": "hi"}]}]}, "messages.0.content.0.type"),
        ({"messages": []}, "messages"),
        ({"model": "artelier/"}, "model"),
        ({"messages": [{"role": "tool", "content": "x"}]}, "messages.0.tool_call_id"),
        ({"messages": [_calling("1," * 30_000, "[" * 30_000)]}, "messages"),
        (
            {
                "messages": [
                    {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:,x"}}]}
                ]
            },
            "messages.0.content.0",
        ),
    ],
)
def test_what_cannot_be_passed_on_is_refused_by_its_name(
    tmp_path: Path, more: dict[str, Any], param: str
) -> None:
    async def main() -> None:
        async with served(tmp_path) as (made, client):
            with pytest.raises(openai.BadRequestError) as told:
                await client.chat.completions.create(**{"model": MODEL, "messages": SAID, **more})
            assert told.value.param == param
            assert not made.model.requests

    asyncio.run(main())


def test_a_tool_that_is_chosen_by_its_name_is_the_only_one_shown(tmp_path: Path) -> None:
    clock: Any = {"type": "function", "function": {"name": "clock", "parameters": {"type": "object"}}}
    named: Any = {"type": "function", "function": {"name": "weather"}}
    some: Any = {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [named]}}
    flat: list[Any] = [{"type": "function", **one["function"]} for one in (WEATHER, clock)]

    async def main() -> None:
        async with served(tmp_path, *["Sunny."] * 4) as (made, client):
            for choice in (named, some):
                await client.chat.completions.create(
                    model=MODEL, messages=SAID, tools=[WEATHER, clock], tool_choice=choice
                )
            await client.responses.create(
                model=MODEL, input="How?", tools=flat, tool_choice={"type": "function", "name": "weather"}
            )
            chosen: Any = {"type": "allowed_tools", "mode": "required", "tools": flat}
            await client.responses.create(model=MODEL, input="How?", tools=flat, tool_choice=chosen)
            shown = [
                ([tool.name for tool in one.tools], one.params["tool_choice"]) for one in made.model.requests
            ]
            assert shown[0] == shown[2] == (["weather"], "required")
            assert shown[1] == (["weather"], "auto")
            assert shown[3] == (["weather", "clock"], "required")

    asyncio.run(main())


def test_what_openai_does_not_know_goes_to_the_provider_as_it_stands(tmp_path: Path) -> None:
    from artelier.chat import Session

    more = {"top_k": 20, "min_p": 0.1, "repetition_penalty": 1.1, "chat_template_kwargs": {"think": False}}

    async def main() -> None:
        async with served(tmp_path, *["now"] * 2) as (made, client):
            await client.chat.completions.create(
                model=MODEL, messages=SAID, verbosity="low", service_tier="flex", user="me", extra_body=more
            )
            text: Any = {"verbosity": "high"}
            await client.responses.create(model=MODEL, input="How?", text=text, truncation="disabled")
            params, others = (one.params for one in made.model.requests)
            assert params["extra"] == {"repetition_penalty": 1.1, "chat_template_kwargs": {"think": False}}
            assert (params["top_k"], params["min_p"], params["verbosity"]) == (20, 0.1, "low")
            assert params["service_tier"] == "flex"
            assert (others["verbosity"], "extra" in others) == ("high", False)
            await Session.open(made.desk, "desk", model="scripted")
            with pytest.raises(openai.BadRequestError) as told:
                await client.chat.completions.create(
                    model="artelier/desk", messages=SAID, extra_body={"provider": {"only": ["together"]}}
                )
            assert told.value.param == "provider"

    asyncio.run(main())


def test_errors_have_the_shape_of_openai(tmp_path: Path) -> None:
    async def main() -> None:
        async with served(tmp_path, policy=Policy(models=("scripted:*",))) as (made, client):
            with pytest.raises(openai.AuthenticationError) as nobody:
                await client.with_options(api_key="at-wrong").models.list()
            assert nobody.value.code == "invalid_api_key"
            with pytest.raises(openai.PermissionDeniedError):
                await client.chat.completions.create(model="openai:gpt-5-mini", messages=SAID)
            with pytest.raises(openai.BadRequestError) as misfit:
                await client.post("/chat/completions", body={"model": 3}, cast_to=httpx.Response)
            assert misfit.value.param == "model"
            with pytest.raises(openai.BadRequestError) as no_json:
                await client.post("/responses", content=b"{", cast_to=httpx.Response)
            assert no_json.value.param is None
            with pytest.raises(openai.BadRequestError) as effort:
                await client.responses.create(model=MODEL, input="Hi", reasoning={"effort": "immense"})  # type: ignore[arg-type]
            assert effort.value.param == "reasoning.effort"
            with pytest.raises(openai.NotFoundError):
                await client.get("/embeddings/none", cast_to=httpx.Response)
            assert not made.model.requests

    asyncio.run(main())


@pytest.mark.parametrize("headers", [{}, {"Artelier-Run": "r"}])
def test_a_spent_budget_is_a_quota_until_it_is_raised(tmp_path: Path, headers: dict[str, str]) -> None:
    async def main() -> None:
        async with served(tmp_path, "now", headers=headers) as (made, client):
            await made.kernel.tenants.update("default", budget_usd="0.000001")
            made.model.price = Price(input=Decimal(1_000), output=Decimal(1_000))
            with pytest.raises(openai.RateLimitError) as told:
                await client.chat.completions.create(model=MODEL, messages=SAID)
            assert told.value.code == "insufficient_quota"
            assert not made.model.requests
            await made.kernel.tenants.update("default", budget_usd="1000")
            answer = await client.chat.completions.create(model=MODEL, messages=SAID, max_tokens=100)
            assert answer.choices[0].message.content == "now"

    asyncio.run(main())


def test_addresses_of_programs_that_are_not_there_are_json(tmp_path: Path) -> None:
    async def main() -> None:
        async with house(tmp_path) as made:
            for path in ("/api/nothing", "/v1/nothing", "/v1", "/.well-known/agent.json"):
                answer = await made.client.get(path)
                assert answer.status_code == 404, path
                assert answer.headers["content-type"] == "application/json", path
                assert "error" in answer.json()
            for path in ("/api/v1/nothing", "/v1/embeddings", "/v1/completions", "/.well-known/nothing"):
                answer = await made.client.post(path, json={"model": MODEL, "input": "a"})
                assert (answer.status_code, answer.json()["error"]["code"]) == (404, "not_found"), path
            for method, path in (("GET", "/v1/chat/completions"), ("DELETE", "/v1/chat/completions")):
                answer = await made.client.request(method, path)
                assert (answer.status_code, answer.headers["allow"]) == (405, "POST"), method
                assert answer.json()["error"]["code"] == "method_not_allowed"

    asyncio.run(main())


def test_a_revoked_token_is_worth_nothing_at_once(tmp_path: Path) -> None:
    async def main() -> None:
        async with served(tmp_path) as (_, client):
            await client.models.list()
            ProgramTokens(tmp_path / "tokens").revoke("test")
            with pytest.raises(openai.AuthenticationError):
                await client.models.list()

    asyncio.run(main())


def test_a_client_that_leaves_ends_its_call_and_one_that_comes_back_finds_its_answer(tmp_path: Path) -> None:
    async def main() -> None:
        words = "one two three four five six seven eight nine"
        async with served(tmp_path, words, words) as (made, client):
            kept = {"Artelier-Run": "r"}
            for headers in ({}, kept):
                stream = await client.chat.completions.create(
                    model=MODEL, messages=SAID, stream=True, extra_headers=headers
                )
                async for _ in stream:
                    break
                await stream.close()
            answer = await client.chat.completions.create(model=MODEL, messages=SAID, extra_headers=kept)
            assert answer.choices[0].message.content == words
            assert len(made.model.requests) == 2
            runs = (await made.desk.runs())["items"]
            assert all(one["status"] in ("completed", "cancelled", "running") for one in runs)

    asyncio.run(main())


def shown(url: str, kind: str = "image_url") -> list[Any]:
    piece = (
        {"type": kind, "image_url": {"url": url}} if kind == "image_url" else {"type": kind, "image_url": url}
    )
    return [{"role": "user", "content": [{"type": "text", "text": "What is it?"}, piece]}]


def data_url(content: bytes, media_type: str = "image/png") -> str:
    return f"data:{media_type};base64,{base64.b64encode(content).decode()}"


@asynccontextmanager
async def seeing(
    tmp_path: Path, *replies: Any
) -> AsyncIterator[tuple[ScriptedMediaModel, House, AsyncOpenAI]]:
    """The same with a model that takes images and PDFs."""
    rules = MediaRules(types=IMAGES | PDFS, bound=lambda medium: 1_000)
    model = ScriptedMediaModel(list(replies), rules=rules)
    async with served(tmp_path, model=model) as (made, client):
        yield model, made, client


def test_images_and_pdfs_reach_the_model_and_the_log_holds_no_base64(tmp_path: Path) -> None:
    paper = {
        "type": "file",
        "file": {"filename": "a.pdf", "file_data": data_url(pdf("a"), "application/pdf")},
    }

    async def main() -> None:
        async with seeing(tmp_path, "a dot", "two", "three") as (model, made, client):
            said = shown(data_url(png(5, 5)))
            said[0]["content"].append(paper)
            answer = await client.chat.completions.create(model=MODEL, messages=said)
            assert answer.choices[0].message.content == "a dot"
            assert [len(one) for one in model.media] == [2] and model.media[0][0] == png(5, 5)
            assert b"iVBOR" not in model.requests[0].canonical()
            spoken = await client.responses.create(
                model=MODEL,
                input=[
                    {
                        "role": "user",
                        "content": [
                            {"type": "input_text", "text": "And this?"},
                            {"type": "input_image", "image_url": data_url(png(6, 6)), "detail": "auto"},
                        ],
                    }
                ],
            )
            assert (spoken.output_text, model.media[1]) == ("two", (png(6, 6),))
            for _ in range(2):  # the program's second run calls nothing
                again = await client.chat.completions.create(
                    model=MODEL, messages=shown(data_url(png(7, 7))), extra_headers={"Artelier-Run": "look"}
                )
                assert again.choices[0].message.content == "three"
            assert len(model.media) == 3
            assert (await made.kernel.collect(dry=True)).blobs == 0

    asyncio.run(main())


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("https://example.org/a.png", "addresses are not fetched"),
        ("file:///etc/passwd", "comes as a data URL"),
        ("data:image/png,abc", "comes as a data URL"),
        ("data:image/png;base64,?", "no base64"),
        (f"data:image/png;base64,{'A' * (2**20 - 1)}={'AAAA' * 9}", "no base64"),
        (f"data:image/png;base64,{'A' * (2**20 + 1)}", "no base64"),
        (data_url(png()[:-6]), "this PNG is broken"),
        (data_url(png(), "image/jpeg"), "another type"),
        (data_url(b"hello"), "no image, sound, PDF or text"),
        (data_url(pdf("a", password="x"), "application/pdf"), "has a password"),
    ],
)
def test_an_image_that_cannot_be_sent_is_refused_by_its_place(tmp_path: Path, url: str, words: str) -> None:
    async def main() -> None:
        async with seeing(tmp_path) as (model, _, client):
            with pytest.raises(openai.BadRequestError, match=words) as told:
                await client.chat.completions.create(model=MODEL, messages=shown(url))
            assert told.value.param == "messages.0.content.1"
            assert not model.requests

    asyncio.run(main())


def test_a_model_that_reads_text_alone_refuses_an_image(tmp_path: Path) -> None:
    async def main() -> None:
        async with served(tmp_path, "never") as (made, client):
            with pytest.raises(openai.BadRequestError, match="takes no image/png"):
                await client.chat.completions.create(model=MODEL, messages=shown(data_url(png())))
            assert not made.model.requests

    asyncio.run(main())
