"""Strangers who open connections and send nothing, or send slowly, lock nobody out and fill no log."""

from __future__ import annotations

import asyncio
import json
import os
import resource
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing, contextmanager, suppress
from pathlib import Path

import httpx
import pytest

from artelier.server import loop_shares
from artelier.server.http_server import Server, bind
from artelier.server.loop_shares import STRANGERS
from artelier.server.security.connection_limits import (
    ARRIVING_MAX,
    HEAD_LINES_MAX,
    PIECES_MAX,
    READ_BYTES,
    WAITING_PER_ADDRESS_MAX,
    GuardedConnection,
    _Exchanges,
)
from artelier.server.settings import ServerSettings
from tests.server.house import PATIENCE_S, House, house, until


@asynccontextmanager
async def served(home: House, *, headers_s: float) -> AsyncIterator[tuple[Server, int]]:
    bound = bind("127.0.0.1", 0)
    server = Server(home.app, headers_s=headers_s)
    task = asyncio.create_task(server.serve(sockets=[bound]))
    try:
        await until(lambda: server.started)
        yield server, bound.getsockname()[1]
    finally:
        server.should_exit = True
        await asyncio.wait_for(task, PATIENCE_S)
        bound.close()


@contextmanager
def half_open(port: int, count: int, said: bytes = b"") -> Iterator[list[socket.socket]]:
    """Connections that say no more than `said`."""
    opened: list[socket.socket] = []
    try:
        for _ in range(count):
            opened.append(socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S))
            if said:
                opened[-1].sendall(said)
        yield opened
    finally:
        for one in opened:
            one.close()


async def ask(port: int) -> int:
    address = f"http://127.0.0.1:{port}"
    async with httpx.AsyncClient(base_url=address, timeout=PATIENCE_S, verify=False) as client:
        return (await client.get("/api/v1/me")).status_code


def test_whoever_is_known_is_no_stranger_from_the_first_byte(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    groups: list[str] = []
    take = GuardedConnection.data_received

    def spy(connection: GuardedConnection, data: bytes) -> None:
        groups.append(connection.group)
        take(connection, data)

    monkeypatch.setattr(GuardedConnection, "data_received", spy)

    async def scenario() -> None:
        async with house(tmp_path) as home, served(home, headers_s=600) as (_, port):
            cookies = dict(home.client.cookies)
            async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", cookies=cookies) as known:
                assert (await known.get("/api/v1/me")).status_code == 200
                known.cookies.clear()  # as by a proxy, which has one connection for several users
                assert (await known.get("/api/v1/me")).status_code == 401
            assert await ask(port) == 401

    asyncio.run(scenario())

    assert groups == ["operator", STRANGERS, STRANGERS]


def test_what_comes_of_many_strangers_at_once_is_read_in_turns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    passes, read = 0, Counter[int]()
    take = GuardedConnection.data_received

    def spy(connection: GuardedConnection, data: bytes) -> None:
        read[passes] += 1
        take(connection, data)

    def count() -> None:  # no task: it would be one of these strangers
        nonlocal passes
        passes += 1
        asyncio.get_running_loop().call_soon(count)

    async def scenario() -> None:
        async with house(tmp_path) as home, served(home, headers_s=600) as (server, port):
            opened = [await asyncio.open_connection("127.0.0.1", port) for _ in range(50)]
            await until(lambda: len(server.connections) == 50)
            monkeypatch.setattr(loop_shares, "SHARE_S", 0.0)
            monkeypatch.setattr(GuardedConnection, "data_received", spy)
            count()
            for _, writer in opened:
                writer.write(b"GET /api/v1/me HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            answers = await asyncio.gather(*(reader.read() for reader, _ in opened))
            for _, writer in opened:
                writer.close()
            assert all(answer.startswith(b"HTTP/1.1 401") for answer in answers)

    asyncio.run(scenario())

    assert read.total() == 50
    assert max(read.values()) <= 2


def test_little_is_read_behind_a_request_that_is_not_answered_yet(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with house(tmp_path) as home, served(home, headers_s=600) as (server, port):
            cookies = "; ".join(f"{name}={value}" for name, value in home.client.cookies.items())
            head = f"GET /api/v1/events/stream HTTP/1.1\r\nHost: localhost\r\nCookie: {cookies}\r\n\r\n"
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(head.encode() + b"GET / HTTP/1.1\r\n" * 60_000)
            assert (await reader.readline()).startswith(b"HTTP/1.1 200")
            held = [one for one in server.server_state.connections if isinstance(one, GuardedConnection)]
            await until(lambda: any(one.conn.trailing_data[0] for one in held))
            assert all(len(one.conn.trailing_data[0]) <= 2 * READ_BYTES for one in held)
            writer.close()

    asyncio.run(scenario())


@pytest.mark.parametrize("said", [b"", b"GET / HTTP/1.1\r\nHost: local"])
def test_half_open_connections_of_one_address_lock_nobody_out(tmp_path: Path, said: bytes) -> None:
    async def scenario() -> None:
        async with house(tmp_path) as home, served(home, headers_s=600) as (server, port):
            with await asyncio.to_thread(_entered, port, 3 * WAITING_PER_ADDRESS_MAX, said) as _:
                await until(lambda: len(server.waiting) == WAITING_PER_ADDRESS_MAX)
                assert await ask(port) == 401
                assert len(server.waiting) <= WAITING_PER_ADDRESS_MAX
            await until(lambda: len(server.waiting) == 0)

    asyncio.run(scenario())


class _entered:
    """`half_open` that was entered in a thread, since connecting blocks the loop that accepts."""

    def __init__(self, port: int, count: int, said: bytes) -> None:
        self._context = half_open(port, count, said)
        self._context.__enter__()

    def __enter__(self) -> None:
        return None

    def __exit__(self, *_: object) -> None:
        self._context.__exit__(None, None, None)


@pytest.mark.parametrize(
    "said",
    [b"", b"GET / HTTP/1.1\r\n", b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\nGET / HT"],
    ids=["nothing", "half a request", "half of the second request"],
)
def test_a_request_that_does_not_arrive_is_given_up(tmp_path: Path, said: bytes) -> None:
    async def scenario() -> None:
        async with house(tmp_path) as home, served(home, headers_s=0.05) as (server, port):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(said)
            async with asyncio.timeout(PATIENCE_S):
                try:
                    while await reader.read(65536):
                        pass
                except ConnectionError:
                    pass
            writer.close()
            assert len(server.waiting) == 0

    asyncio.run(scenario())


def test_a_request_that_arrives_is_not_given_up(tmp_path: Path) -> None:
    """The deadline is for headers alone: a live stream that says nothing for longer stays."""

    async def scenario() -> None:
        async with house(tmp_path) as home, served(home, headers_s=0.05) as (server, port):
            cookies = dict(home.client.cookies)
            async with httpx.AsyncClient(
                base_url=f"http://127.0.0.1:{port}", cookies=cookies, timeout=PATIENCE_S
            ) as client:
                async with client.stream("GET", "/api/v1/events") as live:
                    assert live.status_code == 200, await live.aread()
                    started = asyncio.get_running_loop().time()
                    await until(lambda: asyncio.get_running_loop().time() - started > 0.2)
                    assert await ask(port) == 401
                    assert not live.is_closed
                    assert len(server.waiting) == 0

    asyncio.run(scenario())


def test_a_body_that_comes_too_slowly_is_refused(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with house(tmp_path, body_s=0.05) as home, served(home, headers_s=60) as (_, port):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(
                b"POST /api/v1/login HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                b'Content-Length: 60\r\n\r\n{"user": "bo'
            )
            async with asyncio.timeout(PATIENCE_S):
                answer = await reader.read()
            writer.close()
            assert answer.startswith(b"HTTP/1.1 408"), answer
            assert b'"too_slow"' in answer

    asyncio.run(scenario())


LOGIN = b"POST /api/v1/login HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
CHUNKED = LOGIN + b"Transfer-Encoding: chunked\r\n\r\n"


async def talk(port: int, *pieces: bytes) -> bytes:
    """Say one piece after the other, each after an answer to the one before; return all answers."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    answers = b""
    try:
        async with asyncio.timeout(PATIENCE_S):
            for piece in pieces:
                writer.write(piece)
                answers += await reader.read(4096)
            return answers + await reader.read()
    except ConnectionResetError:
        return answers
    finally:
        writer.close()


def test_a_body_in_crumbs_is_refused_long_before_its_end(tmp_path: Path) -> None:
    """64 KiB of chunks of one byte hold the loop for a fifth of a second, and a stranger can send many."""

    async def scenario() -> None:
        async with house(tmp_path) as home, served(home, headers_s=60) as (_, port):
            answer = await talk(port, CHUNKED + b"1\r\n{\r\n" * (PIECES_MAX + 100))
            assert answer.startswith(b"HTTP/1.1 400"), answer
            refused = json.loads(answer.partition(b"\r\n\r\n")[2])["error"]
            assert refused["code"] == "invalid_request" and refused["hint"] == "Send larger ones."
            assert refused["expected"] == f"at most {PIECES_MAX}, and one more for each 64 bytes"
            answer = await talk(port, b"no request\r\n\r\n")
            assert answer.startswith(b"HTTP/1.1 400"), answer
            assert json.loads(answer.partition(b"\r\n\r\n")[2])["error"]["code"] == "invalid_request"

    asyncio.run(scenario())


@pytest.mark.parametrize(
    "before", [b"", LOGIN + b"Content-Length: 2\r\n\r\n{}"], ids=["first", "behind another"]
)
def test_a_request_of_too_many_headers_is_refused_before_they_are_read(tmp_path: Path, before: bytes) -> None:
    """13,000 of them held the loop for up to 67 ms, and a stranger can send many such requests."""

    async def scenario() -> None:
        async with house(tmp_path) as home, served(home, headers_s=60) as (_, port):
            many = b"a:b\r\n" * HEAD_LINES_MAX
            answer = await talk(port, before + LOGIN + many + b"\r\n")
            assert f"at most {HEAD_LINES_MAX} lines".encode() in answer, answer
            answer = await talk(port, LOGIN + b"a:b\r\n" * 100 + b"Connection: close\r\n\r\n")
            assert b"too many headers" not in answer and answer.startswith(b"HTTP/1.1 4"), answer

    asyncio.run(scenario())


def test_a_body_in_pieces_of_some_size_or_in_few_small_ones_is_read(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with house(tmp_path) as home, served(home, headers_s=60) as (_, port):
            body = b'{"user": "bo", "password": "' + b"x" * (PIECES_MAX - 100) + b'"}'
            crumbs = b"".join(b"1\r\n%c\r\n" % one for one in body)
            answer = await talk(port, CHUNKED + crumbs + b"0\r\n\r\n")
            assert b'"error"' in answer and not answer.startswith(b"HTTP/1.1 400"), answer
            large = b"40\r\n" + b"x" * 64 + b"\r\n"
            answer = await talk(port, CHUNKED + large * (PIECES_MAX + 500) + b"0\r\n\r\n")
            assert answer.startswith(b"HTTP/1.1 413"), answer

    asyncio.run(scenario())


def test_no_http_behind_an_answer_closes_the_connection_and_writes_no_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        async with house(tmp_path) as home, served(home, headers_s=60) as (_, port):
            answer = await talk(port, CHUNKED + b"2000\r\n" + b"x" * 0x2000 + b"\r\n", b"no chunk\r\n")
            assert answer.startswith(b"HTTP/1.1 413"), answer
            assert await ask(port) == 401

    asyncio.run(scenario())

    assert caplog.text == ""


def test_a_body_is_read_no_further_than_its_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten strangers who sent logins in pieces of 64 bytes held up everybody for eight seconds."""
    events = list[object]()
    read = _Exchanges.next_event

    def next_event(self: _Exchanges) -> object:
        events.append(self)
        return read(self)

    monkeypatch.setattr(_Exchanges, "next_event", next_event)

    async def scenario() -> None:
        async with house(tmp_path) as home, served(home, headers_s=2) as (_, port):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(CHUNKED + b"1388\r\n" + b"x" * 5000 + b"\r\n")
            assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 413")
            before = len(events)
            for _ in range(50):
                writer.write((b"40\r\n" + b"x" * 64 + b"\r\n") * 100)
                await writer.drain()
            with suppress(ConnectionResetError):
                await reader.read()  # until the server ends it
            assert len(events) - before < 200, "of 5,000 pieces"
            writer.close()

    asyncio.run(scenario())


def test_bodies_that_do_not_come_make_room_for_others(tmp_path: Path) -> None:
    """1,100 half bodies, each from a stranger, took all descriptors: nobody else was answered."""

    async def scenario() -> None:
        async with house(tmp_path) as home, served(home, headers_s=60) as (_, port):
            talks = list[tuple[asyncio.StreamReader, asyncio.StreamWriter]]()
            for _ in range(ARRIVING_MAX + 1):
                talks.append(await asyncio.open_connection("127.0.0.1", port))
                talks[-1][1].write(LOGIN + b"Content-Length: 4000\r\n\r\n{")
                await talks[-1][1].drain()
                await asyncio.sleep(0.002)
            soon_s = ServerSettings().body_s / 2  # before its time is up
            first = await asyncio.wait_for(talks[0][0].read(), soon_s)  # answered, and closed
            assert b'"too_slow"' in first, first
            whole = await talk(port, LOGIN + b"Content-Length: 2\r\nConnection: close\r\n\r\n{}")
            assert whole.startswith(b"HTTP/1.1 422"), whole
            for reader, writer in talks[1:]:
                assert not reader.at_eof()
                writer.transport.abort()
            talks[0][1].close()

    asyncio.run(scenario())


def test_a_query_has_as_many_fields_as_an_address_may_have(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with house(tmp_path) as home:
            for query in ("&".join(["a"] * 201), f"q={'x' * 16_400}"):
                for path in ("/api/v1/runs", "/"):
                    answer = await home.client.get(f"{path}?{query}")
                    assert answer.status_code in (400, 422), answer
            fine = await home.client.get(f"/api/v1/runs?{'&'.join(['limit=5'] * 150)}")
            assert fine.status_code == 200

    asyncio.run(scenario())


def test_many_mistakes_of_a_large_body_are_counted_and_few_are_named(tmp_path: Path) -> None:
    """Each mistake is an object: 24 bodies of 49,000 held up everybody for two seconds."""

    async def scenario() -> None:
        async with house(tmp_path) as home:
            asked = {"id": "d", "kind": "document", "content": "x" * 100_000}
            prices = dict.fromkeys(map(str, range(20_000)), "x")
            many = await home.client.post("/api/v1/artifacts", json={**asked, "prices": prices})
            assert many.status_code == 422 and "20,000 mistakes" in many.json()["error"]["message"]
            few = await home.client.post("/api/v1/artifacts", json={**asked, "prices": {"read": "x"}})
            assert few.status_code == 422 and "prices.read" in few.json()["error"]["message"]
            assert (await home.client.post("/api/v1/artifacts", json=asked)).status_code == 201

    asyncio.run(scenario())


def test_a_login_is_small(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with house(tmp_path) as home, home.stranger() as stranger:
            large = {"user": "bo", "password": "x" * 5000}
            answer = await stranger.post("/api/v1/login", json=large)
            assert answer.status_code == 413

    asyncio.run(scenario())


@pytest.mark.slow
def test_spent_descriptors_lock_nobody_out_and_fill_no_log(tmp_path: Path) -> None:
    """A real `up` that may open few files, and somebody who opens 1,050 connections and goes on."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < 2000:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(4000, hard), hard))
    log = tmp_path / "log"
    with closing(bind("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with (
        log.open("wb") as errors,
        subprocess.Popen(
            [sys.executable, "-m", "artelier", "up", "--port", str(port), "--db", str(tmp_path / "s.db")],
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env={**os.environ, "HOME": str(tmp_path)},
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256)),
        ) as server,
    ):
        try:
            assert server.stdout is not None
            assert server.stdout.readline().startswith("http://")
            with half_open(port, 1050):
                for _ in range(3):
                    assert _status(f"http://127.0.0.1:{port}/api/v1/me") == 401
        finally:
            server.send_signal(signal.SIGINT)
            server.communicate(timeout=PATIENCE_S)
    assert log.stat().st_size < 20_000, log.read_bytes()[:2000]


def _status(url: str) -> int:
    try:
        with urllib.request.urlopen(url, timeout=PATIENCE_S) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code
