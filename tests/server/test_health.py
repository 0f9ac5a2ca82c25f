"""What supervisors ask: whether a process lives, whether it takes work, and figures; nothing of anybody."""

from __future__ import annotations

import asyncio
import json
import re
import sqlite3
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, closing
from pathlib import Path

import pytest

from artelier import Kernel
from artelier.errors import ArtelierError, InvalidConfig, InvalidRequest
from artelier.kernel.events import RunStarted
from artelier.log import Batch, Draft, StreamAppend, run_stream
from artelier.server import health
from artelier.server.health import SAMPLE_S, parse_address, serving
from tests.kernel.stage import play


class Port:
    """The port of a process, as a supervisor reaches it."""

    def __init__(self, kernel: Kernel, url: str) -> None:
        self.kernel = kernel
        self.number = int(url.rpartition(":")[2])

    async def send(self, request: bytes) -> bytes:
        """Everything that is answered until the connection is closed."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.number)
        try:
            writer.write(request)
            return await reader.read()
        except ConnectionError:
            return b""
        finally:
            writer.close()

    async def get(self, path: str, *, method: str = "GET") -> tuple[int, str]:
        """Status and body."""
        answer = await self.send(f"{method} {path} HTTP/1.1\r\nHost: h\r\n\r\n".encode())
        head, _, body = answer.partition(b"\r\n\r\n")
        return int(head.split()[1]), body.decode()


@asynccontextmanager
async def opened(folder: Path, *, slots: int = 16) -> AsyncGenerator[Port]:
    with Kernel.open(folder / "s.db") as kernel:
        async with serving(kernel, "0", slots=slots) as url:
            yield Port(kernel, url)


async def _begun(kernel: Kernel, tenant: str, run_id: str) -> None:
    draft = Draft(RunStarted(loop="agent"), kernel.services.clock.now_us(), "kernel")
    await kernel.store.append(Batch(appends=[StreamAppend(run_stream(tenant, run_id), [draft])]))


def test_a_process_that_works_is_alive_ready_and_shows_its_figures(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with opened(tmp_path, slots=7) as port:
            await _begun(port.kernel, "tenant-of-a-customer", "secret-run")

            assert await port.get("/livez") == (200, '{"status": "alive"}\n')
            status, body = await port.get("/readyz?verbose=1")
            assert (status, json.loads(body)) == (
                200,
                {"status": "ready", "store": "ok", "schema": "ok", "draining": False, "backlog": 1},
            )
            status, body = await port.get("/metrics")
            figures = dict(re.findall(r"^(artelier_\w+) (\S+)$", body, re.MULTILINE))
            assert status == 200
            assert {name: figures[f"artelier_{name}"] for name in ("ready", "runs_due", "worker_slots")} == {
                "ready": "1",
                "runs_due": "1",
                "worker_slots": "7",
            }
            assert int(figures["artelier_process_resident_bytes"]) > 1_000_000
            assert "customer" not in body and "secret" not in body

    play(scenario())


def test_a_process_whose_loop_was_held_shows_for_how_long(tmp_path: Path) -> None:
    def lag_of(body: str) -> dict[str, float]:
        shown = re.findall(r"^artelier_loop_lag_(\w+)_seconds (\S+)$", body, re.MULTILINE)
        return {name: float(value) for name, value in shown}

    async def scenario() -> None:
        async with opened(tmp_path) as port:
            before = lag_of((await port.get("/metrics"))[1])
            time.sleep(SAMPLE_S + 0.5)  # as whatever computes on the loop does
            await asyncio.sleep(0)

            after = lag_of((await port.get("/metrics"))[1])
            assert set(before) == set(after) == {"p99", "max"}
            assert after["max"] >= 0.4 and after["max"] >= before["max"]

    play(scenario())


def test_a_process_that_drains_is_alive_and_not_ready(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with opened(tmp_path) as port:
            port.kernel.services.draining.begin()

            status, body = await port.get("/readyz")
            assert (status, json.loads(body)["draining"]) == (503, True)
            assert (await port.get("/livez"))[0] == 200
            assert "artelier_draining 1" in (await port.get("/metrics"))[1]

    play(scenario())


@pytest.mark.corrupts
def test_a_process_whose_store_a_newer_version_has_taken_over_is_not_ready(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with opened(tmp_path) as port:
            with closing(sqlite3.connect(tmp_path / "s.db")) as db:
                db.execute("PRAGMA user_version = 99")

            status, body = await port.get("/readyz")
            assert (status, json.loads(body)["schema"]) == (503, "newer")

            with closing(sqlite3.connect(tmp_path / "s.db")) as db:
                db.execute(f"PRAGMA user_version = {port.kernel.store.schema_version}")

    play(scenario())


def test_a_process_whose_store_is_closed_says_which_error_that_is(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with opened(tmp_path) as port:
            port.kernel.close()

            status, body = await port.get("/readyz")
            assert (status, json.loads(body)["store"]) == (503, "store_closed")

    play(scenario())


def test_the_store_is_asked_once_a_second_however_many_ask(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with opened(tmp_path) as port:
            await port.get("/readyz")
            await _begun(port.kernel, "acme", "r")
            answers = await asyncio.gather(*(port.get("/readyz") for _ in range(20)))
            assert {json.loads(body)["backlog"] for _, body in answers} == {0}

    play(scenario())


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", 404),
        (b"GET /metrics/../api/v1/runs HTTP/1.1\r\n\r\n", 404),
        (b"POST /livez HTTP/1.1\r\n\r\n", 405),
        (b"\x16\x03\x01\x02\x00\x01\r\n\r\n", 400),
        (b"GET\r\n\r\n", 400),
        (b"GET /livez HTTP/1.1\r\nX: " + b"a" * 100_000 + b"\r\n\r\n", 400),
    ],
)
def test_anything_else_is_refused(tmp_path: Path, request_: bytes, status: int) -> None:
    async def scenario() -> None:
        async with opened(tmp_path) as port:
            answer = await port.send(request_)
            # Who goes on sending when all is said may not get to read it.
            assert not answer or answer.startswith(f"HTTP/1.1 {status} ".encode())
            assert (await port.get("/livez"))[0] == 200

    play(scenario())


def test_head_gives_no_body(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with opened(tmp_path) as port:
            assert await port.get("/livez", method="HEAD") == (200, "")

    play(scenario())


def test_who_says_nothing_is_closed_and_holds_up_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health, "HEAD_S", 0.2)

    async def scenario() -> None:
        async with opened(tmp_path) as port:
            silent = [
                await asyncio.open_connection("127.0.0.1", port.number)
                for _ in range(health.AT_ONCE_MAX + 10)
            ]
            for reader, writer in silent:
                assert await reader.read() == b""
                writer.close()
            assert (await port.get("/livez"))[0] == 200

    play(scenario())


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("9090", ("127.0.0.1", 9090)),
        ("0.0.0.0:1", ("0.0.0.0", 1)),
        ("[::1]:80", ("::1", 80)),
        (":7", ("127.0.0.1", 7)),
    ],
)
def test_an_address_is_a_port_or_a_host_with_one(text: str, address: tuple[str, int]) -> None:
    assert parse_address(text) == address


@pytest.mark.parametrize("text", ["", "http", "65536", "-1", "1e3", "٣", "host:", "a" * 300])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequest, match="address for health"):
        parse_address(text)


def test_a_port_in_use_is_refused(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with opened(tmp_path) as port:
            with pytest.raises(InvalidConfig, match="health cannot be served"):
                async with serving(port.kernel, str(port.number), slots=1):
                    raise AssertionError
            with pytest.raises(ArtelierError):
                async with serving(port.kernel, "no such host:80", slots=1):
                    raise AssertionError

    play(scenario())
