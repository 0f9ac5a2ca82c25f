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
from artelier.models import vendors
from artelier.models.http_client import MediaBody, put_media_into, sending_media
from artelier.models.provider import ProviderModel
from artelier.ports.media import Medium
from artelier.ports.model import ChatMessage, ModelRequest, Part, Sending, sending

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
    build: vendors.Build, provider: Provider, model: str, *messages: ChatMessage
) -> tuple[Exception, bytes]:
    """Ask a provider that refuses; its error, and the body as it is recorded."""

    async def load(medium: Medium) -> bytes:
        return CONTENTS[medium.blob]

    async def main() -> tuple[Exception, bytes]:
        endpoint = vendors.Endpoint(provider="any", api_key="k", base_url=provider.url)
        port = ProviderModel(build, endpoint, key_name="KEY")
        sent = Sending()
        before = sending.set(sent)
        try:
            with pytest.raises(ArtelierError) as refused:
                await port.with_media(load).complete(ModelRequest(model=model, messages=messages))
        finally:
            sending.reset(before)
            await port.aclose()
        assert sent.body is not None
        return refused.value, sent.body

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


def test_no_piece_is_large() -> None:
    async def pieces_of(request: httpx2.Request) -> list[bytes]:
        await put_media_into(request)
        assert isinstance(request.stream, httpx2.AsyncByteStream)
        return [piece async for piece in request.stream]

    async def main() -> None:
        content = bytes(20_000_000)
        body = MediaBody({FIRST: content}, [FIRST])
        said = base64.b64encode(body.stand_ins[FIRST]).decode()
        request = httpx2.Request("POST", "http://x", json={"image": said})
        with sending_media(body):
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
        body = MediaBody({FIRST: b"abc"}, [FIRST])
        said = base64.b64encode(body.stand_ins[FIRST]).decode()
        request = httpx2.Request("POST", "http://x", json={"image": change(said)})
        with sending_media(body), pytest.raises(InvalidRequest, match="Nothing was sent"):
            await put_media_into(request)
        assert isinstance(body.refusal, InvalidRequest)

    asyncio.run(main())
