"""The body of a call with media is made while it is sent: the same bytes, never a medium as one string."""

from __future__ import annotations

import asyncio
import base64
import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import httpx2
import pytest

from artelier.errors import ArtelierError, InvalidRequest, ModelRefusedCall
from artelier.models import http_client, vendors
from artelier.models.http_client import BodyContents, put_contents_into, sending_contents
from artelier.models.provider import ProviderModel
from artelier.ports.media import Medium
from artelier.ports.model import ChatMessage, ModelRequest, Part, Sending, ToolCall, ToolSchema, sending

FIRST, SECOND = "b:" + "a" * 43, "b:" + "c" * 43
CONTENTS = {FIRST: b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 4_000, SECOND: b"\xff\xfe\xfd" * 33 + b"?"}


def medium(ref: str) -> Part:
    return Medium(blob=ref, media_type="image/png", size_bytes=len(CONTENTS[ref]), pixels=(2, 2)).part


def text(words: str) -> Part:
    return Part(type="text", text=words)


class Provider:
    """An HTTP server that keeps what it is sent and answers with one status."""

    def __init__(self, status: int) -> None:
        bodies: list[bytes] = []

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
                self.send_response(status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self.bodies = bodies
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = Thread(target=self._server.serve_forever)

    def __enter__(self) -> Provider:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def ask(
    build: vendors.Build, provider: Provider, model: str, *messages: ChatMessage, **fields: Any
) -> tuple[Exception, bytes]:
    """Ask a provider that refuses; its error, and the body as it is recorded."""

    async def load(medium: Medium) -> bytes:
        return CONTENTS[medium.blob]

    async def main() -> tuple[Exception, bytes]:
        endpoint = vendors.Endpoint(provider="any", api_key="k", base_url=provider.url)
        port = ProviderModel(build, endpoint, key_name="KEY")
        recorded: list[bytes] = []
        sent = Sending(lambda *pieces: recorded.append(b"".join(pieces)) or "")
        before = sending.set(sent)
        try:
            with pytest.raises(ArtelierError) as refused:
                await port.with_media(load).complete(ModelRequest(model=model, messages=messages, **fields))
        finally:
            sending.reset(before)
            await port.aclose()
        return refused.value, recorded[-1]

    return asyncio.run(main())


VENDORS = [
    (vendors.anthropic, "anthropic:claude-sonnet-4-6"),
    (vendors.openai_chat, "openai-chat:gpt-4o"),
    (vendors.openai_responses, "openai-responses:gpt-4o"),
    (vendors.google, "google:gemini-2.5-flash"),
    (vendors.mistral, "mistral:pixtral-large"),
]


@pytest.mark.parametrize(("build", "model"), VENDORS)
def test_each_sdk_sends_what_the_messages_show(build: vendors.Build, model: str) -> None:
    with Provider(401) as provider:
        refused, recorded = ask(
            build,
            provider,
            model,
            ChatMessage(role="user", content=(text("one"), medium(FIRST), text("two"), medium(SECOND))),
            ChatMessage(role="assistant", content="seen"),
            ChatMessage(
                role="user", content=(medium(FIRST), text(base64.b64encode(CONTENTS[SECOND]).decode()))
            ),
        )

    (body,) = provider.bodies
    json.loads(body)
    first, second = (base64.b64encode(CONTENTS[ref]) for ref in (FIRST, SECOND))
    assert body.count(first) == 2 and body.count(second) == 2  # one of them is text
    assert recorded == body.replace(first, FIRST.encode()).replace(second, SECOND.encode(), 1)
    assert isinstance(refused, ModelRefusedCall) and "401" in str(refused)


def test_the_same_call_is_recorded_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    with Provider(500) as provider:
        message = ChatMessage(role="user", content=(medium(FIRST),))
        bodies = {ask(vendors.openai_chat, provider, "openai-chat:gpt-4o", message)[1] for _ in range(2)}

    assert len(bodies) == 1 and len(set(provider.bodies)) == 1


LONG = 'He said "yes" \\ and\tno: \u00fc \U0001f600\x1f\x7f\u2028\n' * 3_000
LOOK = ToolSchema(name="look", description="Look.", parameters={"type": "object", "properties": {}})
TALK = (
    ChatMessage(role="system", content=f"system {LONG}"),
    ChatMessage(
        role="user", content=(text(f"first {LONG}"), medium(FIRST), text("short"), text(f"third {LONG}"))
    ),
    ChatMessage(role="assistant", content=f"thought {LONG}", tool_calls=(ToolCall(id="c1", name="look"),)),
    ChatMessage(role="tool", content=f"seen {LONG}", tool_call_id="c1"),
    ChatMessage(role="system", content=f"late {LONG}"),
    ChatMessage(role="user", content=f"last {LONG}"),
    ChatMessage(role="assistant", content=" " * 2_000),
    ChatMessage(role="user", content="go on"),
)


@pytest.mark.parametrize(("build", "model"), VENDORS)
def test_each_sdk_sends_long_texts_as_it_would_itself(
    build: vendors.Build, model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[int] = []
    split = BodyContents.split

    def watched(contents: BodyContents, body: bytes) -> list[bytes | str]:
        written.append(len(body))
        return split(contents, body)

    monkeypatch.setattr(BodyContents, "split", watched)
    with Provider(401) as provider:
        recorded = [ask(build, provider, model, *TALK, tools=(LOOK,))[1:]]
        monkeypatch.setattr(http_client, "TEXT_CHARS_MIN", 10**9)
        recorded.append(ask(build, provider, model, *TALK, tools=(LOOK,))[1:])

    held, whole = provider.bodies
    assert json.loads(held) == json.loads(whole)
    for word in ("system", "thought", "seen", "late", "last"):
        assert f"{word} He said".encode() in held
    if build not in (vendors.google, vendors.mistral):  # their SDKs escape what is not ASCII
        assert held == whole and recorded[0] == recorded[1]
    assert len(written) == 2 and written[0] < 10_000 < 900_000 < written[1]


def test_a_text_that_an_sdk_escapes_otherwise_is_not_sent() -> None:
    async def main() -> None:
        body = BodyContents({}, [])
        said = body.hold(LONG)
        request = httpx2.Request("POST", "http://x", json={"arguments": json.dumps({"text": said})})
        with sending_contents(body), pytest.raises(InvalidRequest, match="Nothing was sent"):
            await put_contents_into(request)
        assert isinstance(body.refusal, InvalidRequest)

    asyncio.run(main())


def test_no_piece_of_a_long_text_is_large() -> None:
    async def main() -> None:
        body = BodyContents({}, [])
        texts = ["\U0001f600" * 1_000_000, "short", *(f"{number} " + "x" * 1_500 for number in range(500))]
        request = httpx2.Request("POST", "http://x", json={"texts": [body.hold(one) for one in texts]})
        with sending_contents(body):
            await put_contents_into(request)
        assert isinstance(request.stream, httpx2.AsyncByteStream)
        pieces = [piece async for piece in request.stream]
        assert max(map(len, pieces)) <= 128 * 1024 and len(pieces) < 80
        whole = b"".join(pieces)
        assert json.loads(whole)["texts"] == texts
        assert int(request.headers["Content-Length"]) == len(whole)

    asyncio.run(main())


def test_no_piece_is_large() -> None:
    async def pieces_of(request: httpx2.Request) -> list[bytes]:
        await put_contents_into(request)
        assert isinstance(request.stream, httpx2.AsyncByteStream)
        return [piece async for piece in request.stream]

    async def main() -> None:
        content = bytes(20_000_000)
        body = BodyContents({FIRST: content}, [FIRST])
        said = base64.b64encode(body.stand_ins[FIRST]).decode()
        request = httpx2.Request("POST", "http://x", json={"image": said})
        with sending_contents(body):
            pieces = await pieces_of(request)
        assert max(map(len, pieces)) <= 128 * 1024
        whole = b"".join(pieces)
        assert json.loads(whole)["image"] == base64.b64encode(content).decode()
        assert int(request.headers["Content-Length"]) == len(whole)

    asyncio.run(main())


@pytest.mark.parametrize(
    "change", [lambda said: "", lambda said: said + said, lambda said: said[:-4] + "????"]
)
def test_a_body_that_an_sdk_made_otherwise_is_not_sent(change: Any) -> None:
    async def main() -> None:
        body = BodyContents({FIRST: b"abc"}, [FIRST])
        said = base64.b64encode(body.stand_ins[FIRST]).decode()
        request = httpx2.Request("POST", "http://x", json={"image": change(said)})
        with sending_contents(body), pytest.raises(InvalidRequest, match="Nothing was sent"):
            await put_contents_into(request)
        assert isinstance(body.refusal, InvalidRequest)

    asyncio.run(main())
