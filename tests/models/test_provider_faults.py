"""Everything a provider can do wrong becomes one of our errors, within 0.3 s and without the key."""

from __future__ import annotations

import asyncio
import gzip
import json
import socket
from typing import Any

import pytest

from artelier.errors import (
    ContextTooLong,
    External,
    ModelRefusedCall,
    ModelReplyBroken,
    ModelTimeout,
    ProviderUnavailable,
    RateLimited,
    TransientError,
)
from artelier.models.http_client import REPLY_BYTES_MAX
from artelier.models.provider import openai_compatible
from artelier.ports.model import Delta, ModelRequest, ToolSchema
from artelier.testing.openai_server import Fault, OpenAIServer, Slow
from artelier.testing.providers.bills import server_sent
from artelier.testing.providers.openai import completion_events

from .wire_requests import KEY, ask, port

QUICK = {"max_output_tokens": 100, "timeout_s": 0.3}
STREAMED = pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])


async def call(server: OpenAIServer, request: ModelRequest, *, streamed: bool) -> Any:
    model = port(server)
    if not streamed:
        return await model.complete(request)
    return [item async for item in model.stream(request)]  # type: ignore[attr-defined]


def failure(step: Any, *, streamed: bool = False, requests: int = 1, **fields: Any) -> External:
    """The error of one call that the server answers with `step`, sent exactly `requests` times."""
    fields.setdefault("params", {"max_output_tokens": 100})

    async def main() -> External:
        async with OpenAIServer([step], repeat_last=True) as server:
            with pytest.raises(External) as caught:
                await call(server, ask(**fields), streamed=streamed)
            assert len(server.requests) == requests
            return caught.value

    return asyncio.run(main())


@STREAMED
def test_a_rate_limit_says_how_long_to_wait_and_is_not_retried_here(streamed: bool):
    error = failure(Fault.rate_limited(retry_after_s=7), streamed=streamed)

    assert isinstance(error, RateLimited)
    assert error.retry_after_s == 7


def test_a_rate_limit_may_not_say_how_long():
    error = failure(Fault.rate_limited())

    assert isinstance(error, RateLimited) and error.retry_after_s is None


def test_an_empty_account_is_no_rate_limit():
    error = failure(Fault.status(429, "You exceeded your quota", error_code="insufficient_quota"))

    assert isinstance(error, ModelRefusedCall)
    assert "billing" in str(error)


@STREAMED
@pytest.mark.parametrize("status", [500, 502, 503, 504, 529])
def test_a_server_error_may_pass(status: int, streamed: bool):
    error = failure(Fault.status(status, "overloaded"), streamed=streamed)

    assert type(error) is ProviderUnavailable
    assert f"HTTP {status}" in str(error) and "overloaded" in str(error)


@STREAMED
@pytest.mark.parametrize(
    "fault",
    [
        Fault.context_too_long(),
        Fault.status(400, "prompt is too long: 210000 tokens > 200000 maximum"),
        Fault.status(413, "Please reduce the length of the messages."),
    ],
)
def test_a_prompt_that_does_not_fit_is_told_apart(fault: Fault, streamed: bool):
    assert type(failure(fault, streamed=streamed)) is ContextTooLong


@pytest.mark.parametrize(
    ("status", "words"),
    [(400, "no such thing"), (404, "name of the model"), (422, "no such thing"), (418, "HTTP 418")],
)
def test_any_other_refusal_is_final_and_explained(status: int, words: str):
    error = failure(Fault.status(status, "no such thing"))

    assert type(error) is ModelRefusedCall
    assert words in str(error)


@STREAMED
@pytest.mark.parametrize("status", [401, 403])
def test_a_refused_key_is_named_by_its_variable_and_never_shown(status: int, streamed: bool):
    error = failure(Fault.status(status, f"Incorrect API key: {KEY}"), streamed=streamed)

    assert type(error) is ModelRefusedCall
    assert "OPENAI_API_KEY" in str(error)
    assert KEY not in everything_said(error)


@pytest.mark.parametrize("status", [400, 404, 429, 500])
def test_no_error_shows_the_key_even_if_the_server_does(status: int):
    error = failure(Fault.status(status, f"bad header Authorization: Bearer {KEY}"))

    assert KEY not in everything_said(error)
    assert "[key]" in str(error)


def everything_said(error: BaseException) -> str:
    """An error as a log would print it, with its facts and what it shows as its cause."""
    assert error.__cause__ is None and error.__suppress_context__
    return f"{error} {error!r} {vars(error)}"


@STREAMED
def test_a_connection_that_is_reset_may_come_back(streamed: bool):
    assert type(failure(Fault.reset(), streamed=streamed)) is ProviderUnavailable


def test_a_server_that_is_not_there_may_come_back():
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{closed.getsockname()[1]}/v1"

    with pytest.raises(ProviderUnavailable, match="could not be reached"):
        asyncio.run(openai_compatible(url).complete(ask(params=QUICK)))


@STREAMED
def test_a_cut_off_reply_is_broken_and_never_passed_on(streamed: bool):
    assert type(failure(Fault.truncated(), streamed=streamed)) is ModelReplyBroken


def test_a_stream_that_ends_early_but_politely_is_broken_too():
    error = failure(Fault.truncated("a long answer " * 10, clean=True), streamed=True)

    assert type(error) is ModelReplyBroken


@STREAMED
@pytest.mark.parametrize(
    "fault",
    [
        Fault.raw(b'{"id": "x", "choices": [{"ind'),
        Fault.raw(b"<html>gateway</html>", content_type="text/html"),
        Fault.raw(b"hello", content_type="text/plain"),
        Fault.raw(b"\xff\xfe\x00"),
        Fault.raw(b"[]"),
        Fault.raw(b"null"),
        Fault.raw(b"{}"),
        Fault.raw(b'{"choices": []}'),
        Fault.raw(b'{"choices": [{"message": 7, "finish_reason": "stop", "index": 0}]}'),
        Fault.raw(b"[" * 100_000),
        Fault.raw(b""),
        Fault.raw(b"data: {broken\n\n", content_type="text/event-stream"),
        Fault.raw(b"zipped, it says", headers={"Content-Encoding": "gzip"}),
        Fault.raw(b"squeezed", headers={"Content-Encoding": "br"}),
    ],
    ids=lambda fault: fault.body[:20].decode("latin-1"),
)
def test_garbage_is_a_broken_reply(fault: Fault, streamed: bool):
    assert type(failure(fault, streamed=streamed)) is ModelReplyBroken


def test_an_error_inside_a_stream_is_no_reply():
    body = b'data: {"error": {"message": "The server had an error", "type": "server_error"}}\n\n'

    error = failure(Fault.raw(body, content_type="text/event-stream"), streamed=True)

    assert isinstance(error, TransientError)


@STREAMED
def test_a_slow_reply_is_given_up_in_time(streamed: bool):
    error = failure(Slow(step="late", delay_s=30), streamed=streamed, params=QUICK)

    assert type(error) is ModelTimeout
    assert "0.3 seconds" in str(error)


def test_a_stream_that_trickles_is_given_up_in_time():
    """Each piece arrives well within any read timeout; the whole does not."""
    error = failure(Slow(step="x" * 1_000, between_s=0.05), streamed=True, params=QUICK)

    assert type(error) is ModelTimeout


def test_a_caller_who_takes_their_time_over_a_stream_is_not_timed_out():
    async def main() -> str:
        text = ""
        async with OpenAIServer([Slow(step="x" * 64, between_s=0.02)]) as server:
            async for item in port(server).stream(ask(params=QUICK)):  # type: ignore[attr-defined]
                if not text:
                    await asyncio.sleep(0.35)  # longer than the whole call may take
                text += item.text if isinstance(item, Delta) else ""
        return text

    assert asyncio.run(main()) == "x" * 64


def test_cancelling_a_call_closes_its_connection():
    async def main() -> tuple[int, bool]:
        async with OpenAIServer([Slow(step="late", delay_s=30)]) as server:
            task = asyncio.ensure_future(port(server).complete(ask()))
            await asyncio.to_thread(server.wait_until, lambda s: len(s.requests) == 1)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            closed = await asyncio.to_thread(server.wait_until, lambda s: s.connections_open == 0)
            return server.aborted, closed

    assert asyncio.run(main()) == (1, True)


def test_closing_a_stream_closes_its_connection():
    async def main() -> tuple[int, bool]:
        async with OpenAIServer([Slow(step="x" * 10_000, between_s=0.01)]) as server:
            stream = port(server).stream(ask())  # type: ignore[attr-defined]
            await anext(stream)
            await stream.aclose()
            closed = await asyncio.to_thread(server.wait_until, lambda s: s.connections_open == 0)
            return server.aborted, closed

    assert asyncio.run(main()) == (1, True)


def test_no_connection_outlives_its_call_on_a_plain_server():
    """Else an event loop that ends would leave sockets behind for the collector to complain of."""

    async def main() -> tuple[int, bool]:
        async with OpenAIServer(["a", "b"]) as server:
            await port(server).complete(ask())
            closed = await asyncio.to_thread(server.wait_until, lambda s: s.connections_open == 0)
            return server.connections_total, closed

    assert asyncio.run(main()) == (1, True)


def completion(text: str) -> bytes:
    message = {"role": "assistant", "content": text}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    body = {"id": "x", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}
    return json.dumps(body).encode()


def streamed_completion(text: str) -> Fault:
    return server_sent([*completion_events(json.loads(completion(text)))])


def test_a_reply_of_ten_megabytes_is_read():
    async def main() -> int:
        async with OpenAIServer([streamed_completion("x" * 10_000_000)]) as server:
            return len((await port(server).complete(ask())).text)

    assert asyncio.run(main()) == 10_000_000


def test_a_compressed_reply_is_read():
    body = gzip.compress(streamed_completion("hello").body)
    zipped = Fault.raw(body, content_type="text/event-stream", headers={"Content-Encoding": "gzip"})

    async def main() -> str:
        async with OpenAIServer([zipped]) as server:
            return (await port(server).complete(ask())).text

    assert asyncio.run(main()) == "hello"


@pytest.mark.parametrize("zipped", [False, True], ids=["plain", "gzip bomb"])
def test_a_reply_without_end_is_given_up_with_a_clear_final_error(zipped: bool):
    body = b" " * (REPLY_BYTES_MAX + 1)
    if zipped:
        fault = Fault.raw(gzip.compress(body, 1), headers={"Content-Encoding": "gzip"})
    else:
        fault = Fault.raw(body)

    error = failure(fault)

    assert not isinstance(error, TransientError)
    assert f"at most {REPLY_BYTES_MAX} bytes" in str(error)


def test_a_redirect_takes_the_key_nowhere():
    async def main() -> int:
        async with OpenAIServer(["stolen"]) as thief:
            away = Fault.raw(b"", status_code=307, headers={"Location": f"{thief.base_url}/chat/completions"})
            async with OpenAIServer([away]) as server:
                with pytest.raises(ModelRefusedCall, match="redirects"):
                    await port(server).complete(ask())
            return len(thief.requests)

    assert asyncio.run(main()) == 0


def test_a_server_that_lies_about_usage_earns_no_negative_cost():
    body = json.loads(completion("hi"))
    body["usage"] = {
        "prompt_tokens": 5,
        "completion_tokens": 1,
        "total_tokens": 6,
        "prompt_tokens_details": {"cached_tokens": 999},
    }

    async def main() -> Any:
        async with OpenAIServer([server_sent([*completion_events(body)])]) as server:
            return (await port(server).complete(ask())).usage

    usage = asyncio.run(main())

    assert 0 <= usage.cached_input_tokens <= usage.input_tokens


@STREAMED
@pytest.mark.parametrize(
    "fields",
    [
        {"tools": (ToolSchema(name="t", description="", parameters={"properties": 7}),)},
        {"output_schema": {"type": "object", "properties": {"a": "b"}}},
    ],
    ids=["tool", "output"],
)
def test_a_schema_that_is_none_is_refused_for_good(fields: dict[str, Any], streamed: bool):
    async def main() -> int:
        async with OpenAIServer(["never"]) as server:
            with pytest.raises(ModelRefusedCall, match="Invalid JSON Schema"):
                await call(server, ask(**fields), streamed=streamed)
            return len(server.requests)

    assert asyncio.run(main()) == 0
