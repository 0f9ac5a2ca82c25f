"""Nothing is reached around the guard: foreign hosts and pages, strangers, and bodies without end."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import MutableMapping
from pathlib import Path
from typing import Any

import pytest

from tests.server.house import ADDRESS, PATIENCE_S, asking, assert_fault, documented, house, on_a_port

FOREIGN = [
    "evil.example",
    "localhost.evil.example",
    "",
    "127.0.0.1.nip.io",
    "[::1",
    "[::2]",
    "evil.example@localhost",
    "evil:x@localhost:8321",
    "localhost/evil",
    "localhost?x",
    "localhost#x",
    "localhost:8321:1",
    "localhost:x",
    "localhost\\evil",
    "[localhost]",
    "localhost,evil.example",
]
OURS = ["localhost", "127.0.0.1:8321", "[::1]:8321", "LOCALHOST:1", "desk.example"]
ELSEWHERE = ["http://evil.example", "null", "http://localhost:9999", "file://localhost:8321"]


@pytest.mark.parametrize("host", FOREIGN)
def test_a_foreign_host_name_is_refused_even_with_a_session(tmp_path: Path, host: str) -> None:
    """DNS rebinding: a page of another site has its name point to this machine."""

    async def scenario() -> None:
        async with house(tmp_path) as home:
            for path in ("/", "/api/v1/runs"):
                answer = await home.client.get(path, headers={"Host": host})
                assert_fault(answer, 403, "access_denied")

    asyncio.run(scenario())


@pytest.mark.parametrize("host", OURS)
def test_names_of_this_machine_and_those_that_were_allowed_are_let_in(tmp_path: Path, host: str) -> None:
    async def scenario() -> None:
        async with house(tmp_path, hosts=("desk.example",)) as home:
            answer = await home.client.get("/api/v1/me", headers={"Host": host})
            assert answer.status_code == 200

    asyncio.run(scenario())


@pytest.mark.parametrize("origin", ELSEWHERE)
def test_a_page_of_another_origin_is_refused(tmp_path: Path, origin: str) -> None:
    async def scenario() -> None:
        async with house(tmp_path) as home:
            for method in ("GET", "POST"):
                answer = await home.client.request(method, "/api/v1/runs", headers={"Origin": origin})
                assert_fault(answer, 403, "access_denied")
                assert not [name for name in answer.headers if name.startswith("access-control")]
            own = await home.client.get("/api/v1/me", headers={"Origin": ADDRESS})
            assert own.status_code == 200

    asyncio.run(scenario())


def test_strangers_reach_nothing_of_the_api(tmp_path: Path) -> None:
    """Every address that the documentation lists, and some that it does not."""

    async def scenario() -> None:
        async with house(tmp_path) as home, home.stranger() as stranger:
            listed = documented()
            for path in (*listed, "/api/v1/openapi.json", "/api/v1/nothing"):
                for method in listed.get(path, {"get": None}):
                    if path == "/api/v1/login":
                        continue
                    answer = await stranger.request(method, path)
                    assert_fault(answer, 401, "not_signed_in")

    asyncio.run(scenario())


def test_a_change_with_a_cookie_needs_the_token_of_its_own_session(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with house(tmp_path) as home:
            await asking(home.kernel, "m1")
            other = await home.signed_in()
            foreign = other.headers["X-CSRF-Token"]
            await other.aclose()
            for token in ("", "x", foreign, "ä"):
                headers = {b"X-CSRF-Token": token.encode()}
                answer = await home.client.post("/api/v1/runs/m1/cancel", json={}, headers=headers)
                assert_fault(answer, 403, "access_denied")
            assert (await home.desk.show("m1"))["status"] == "waiting_approval"
            good = await home.client.post("/api/v1/runs/m1/cancel", json={})
            assert good.json() == {"run_id": "m1", "effect": "run.cancelled", "queued": False}

    asyncio.run(scenario())


COOKIE = 'a="' + '\\"' * 29_000 + '"'
"""Python's parser of cookies takes two seconds for it."""


def test_cookies_of_others_are_never_parsed(tmp_path: Path) -> None:
    """Browsers send those of every port of a host, and anybody may send what they like."""

    async def scenario() -> None:
        async with house(tmp_path) as home, home.stranger() as stranger:
            own = "; ".join(f"{name}={value}" for name, value in home.client.cookies.items())
            (name, _), *_ = home.client.cookies.items()
            began_s = time.process_time()
            for cookie in (f"{COOKIE}; {own}", f"@[broken; {own}", f"{own}; {COOKIE}"):
                answer = await stranger.get("/api/v1/me", headers={"Cookie": cookie})
                assert answer.status_code == 200, answer.text
            for cookie in (COOKIE, COOKIE.replace("a=", f"{name}=", 1)):
                answer = await stranger.get("/api/v1/me", headers={"Cookie": cookie})
                assert_fault(answer, 401, "not_signed_in")
            assert time.process_time() - began_s < 1.0

    asyncio.run(scenario())


def test_a_body_that_says_it_is_too_large_is_refused_before_it_is_read(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with house(tmp_path, body_max_bytes=1000) as home:
            await asking(home.kernel, "m1")
            note = {"note": "x" * 2000}
            answer = await home.client.post("/api/v1/runs/m1/pause", json=note)
            assert_fault(answer, 413, "too_large")
            broken = await home.client.post(
                "/api/v1/runs/m1/pause", content=b"{}", headers={"Content-Length": "99999999999999999"}
            )
            assert_fault(broken, 413, "too_large")

    asyncio.run(scenario())


def test_a_chunked_body_is_cut_off_at_the_limit(tmp_path: Path) -> None:
    """It announces nothing and never ends; over a real port."""

    async def scenario() -> None:
        async with house(tmp_path, body_max_bytes=10_000) as home, on_a_port(home.app) as address:
            host = address.removeprefix("http://")
            cookies = "; ".join(f"{name}={value}" for name, value in home.client.cookies.items())
            head = (
                f"POST /api/v1/runs/m1/pause HTTP/1.1\r\nHost: {host}\r\nCookie: {cookies}\r\n"
                f"X-CSRF-Token: {home.client.headers['X-CSRF-Token']}\r\n"
                "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
            )
            reader, writer = await asyncio.open_connection(*host.split(":"))
            writer.write(head.encode())

            async def endless() -> None:
                while True:
                    writer.write(b"3e8\r\n" + b"x" * 1000 + b"\r\n")
                    await writer.drain()

            sending = asyncio.create_task(endless())
            answer = await asyncio.wait_for(reader.readuntil(b"}}"), PATIENCE_S)
            sending.cancel()
            writer.close()
            assert answer.startswith(b"HTTP/1.1 413 ")
            assert b'"code":"too_large"' in answer

    asyncio.run(scenario())


def test_a_client_that_goes_away_in_its_request_is_no_failure(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    parts = [
        {"type": "http.request", "body": b'{"goal": "Wri', "more_body": True},
        {"type": "http.disconnect"},
    ]
    sent: list[MutableMapping[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return parts.pop(0)

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message)

    async def scenario() -> None:
        async with house(tmp_path) as home:
            cookies = "; ".join(f"{name}={value}" for name, value in home.client.cookies.items())
            headers = {
                "host": "localhost:8321",
                "content-length": "90",
                "cookie": cookies,
                "x-csrf-token": home.client.headers["X-CSRF-Token"],
            }
            scope = {
                "type": "http",
                "asgi": {"version": "3.0"},
                "http_version": "1.1",
                "method": "POST",
                "scheme": "http",
                "path": "/api/v1/tasks",
                "raw_path": b"/api/v1/tasks",
                "query_string": b"",
                "root_path": "",
                "client": ("127.0.0.1", 1),
                "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
                "server": ("127.0.0.1", 8321),
            }
            await home.app(scope, receive, send)

    asyncio.run(scenario())

    assert (parts, sent) == ([], [])
    assert [record.getMessage() for record in caplog.records] == []


def test_uploads_have_a_limit_of_their_own(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with house(tmp_path, body_max_bytes=1000, upload_max_bytes=5000) as home:
            for size, is_refused in ((3000, False), (6000, True)):
                files = {"file": ("a.txt", b"x" * size)}
                answer = await home.client.post("/api/v1/uploads", files=files)
                assert (answer.status_code == 413) == is_refused, answer.text

    asyncio.run(scenario())


def test_every_answer_has_the_security_headers(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with house(tmp_path) as home, home.stranger() as stranger:
            answers = [
                await home.client.get("/api/v1/runs"),
                await home.client.get("/"),
                await stranger.get("/api/v1/runs"),
                await home.client.get("/api/v1/nothing"),
                await stranger.get("/", headers={"Host": "evil.example"}),
            ]
            for answer in answers:
                policy = answer.headers["content-security-policy"]
                assert "default-src 'self'" in policy and "frame-ancestors 'none'" in policy
                assert "unsafe-inline" not in policy.split("script-src")[1].split(";")[0]
                assert answer.headers["x-content-type-options"] == "nosniff"
            assert answers[0].headers["cache-control"] == "no-store"

    asyncio.run(scenario())


def test_websockets_are_turned_away(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with house(tmp_path) as home:
            sent: list[object] = []

            async def receive() -> dict[str, object]:
                return {"type": "websocket.connect"}

            async def send(message: object) -> None:
                sent.append(message)

            scope = {"type": "websocket", "path": "/api/v1/events", "headers": []}
            await home.app(scope, receive, send)  # type: ignore[arg-type] - any mapping will do
            assert json.loads(json.dumps(sent)) == [{"type": "websocket.close", "code": 1008}]

    asyncio.run(scenario())
