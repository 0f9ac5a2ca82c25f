"""Live events: nothing is missed and nothing comes twice, whoever writes, however slow one reads."""

from __future__ import annotations

import asyncio
import json
import socket
import sys
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from random import Random
from typing import Any, cast

import httpx
import pytest

from artelier.errors import QueueFull
from artelier.server.event_encoder import SLICE_EVENTS, Encoder, Filter
from artelier.server.http_server import Server, address_of, bind
from artelier.server.live_hub import HEARTBEAT_S, QUEUE_BYTES_MAX, Hub, StreamClient
from artelier.testing import ManualClock
from tests.server.house import PATIENCE_S, House, asking, assert_fault, frames_of, house, on_a_port, until
from tests.server.test_sessions import login, people

ENDLESS = 10**9
"""A position that no test comes to."""

WRITER = """
import asyncio, sys
from artelier.app import Kernel

async def main(path, name):
    with Kernel.open(path, environ={}) as kernel:
        for number in range(20):
            async with kernel.run(f"{name}{number}") as run:
                await run.step("one", lambda: number)

asyncio.run(main(*sys.argv[1:]))
"""


class Listener:
    """A browser's EventSource, as far as it matters: reads frames and remembers the last id."""

    def __init__(self, address: str, home: House, **wanted: Any) -> None:
        self._address = address
        self.cookie = "; ".join(f"{name}={value}" for name, value in home.client.cookies.items())
        self._headers = {"Cookie": self.cookie, "Accept": "text/event-stream"}
        self._wanted = wanted
        self.events: list[dict[str, Any]] = []
        self.text = ""

    @property
    def positions(self) -> list[int]:
        return [event["position"] for event in self.events]

    @asynccontextmanager
    async def connected(self) -> AsyncIterator[AsyncIterator[str]]:
        headers = dict(self._headers)
        if self.events:
            headers["Last-Event-ID"] = str(self.events[-1]["position"])
        async with (
            httpx.AsyncClient(base_url=self._address, timeout=PATIENCE_S, verify=False) as client,
            client.stream("GET", "/api/v1/events", params=self._wanted, headers=headers) as answer,
        ):
            assert answer.status_code == 200
            assert answer.headers["content-type"].startswith("text/event-stream")
            yield answer.aiter_text()

    async def read_to(self, position: int) -> None:
        """Read until the event at a position, then hang up."""
        async with self.connected() as pieces, asyncio.timeout(PATIENCE_S):
            rest = ""
            async for piece in pieces:
                self.text += piece
                whole, _, rest = (rest + piece).rpartition("\n\n")
                self.events += frames_of(whole)
                if self.events and self.events[-1]["position"] >= position:
                    return


async def head(home: House) -> int:
    return (await home.kernel.store.root())[0]


async def stored(home: House) -> list[int]:
    return [event.position async for event in home.kernel.events()]


def test_a_stream_gives_what_is_stored_and_then_what_comes(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with house(tmp_path) as home, on_a_port(home.app) as address:
            await asking(home.kernel, "m1")
            listener, upto = Listener(address, home), await head(home)
            reading = asyncio.create_task(listener.read_to(upto + 3))
            await until(lambda: len(listener.events) == upto)
            await home.client.post("/api/v1/runs/m1/inject", json={"note": "one"})
            await home.client.post("/api/v1/runs/m1/inject", json={"note": "two"})
            await reading
            assert listener.positions == (await stored(home))[: len(listener.positions)]
            assert listener.events[-1]["position"] >= upto + 3

    asyncio.run(scenario())


def test_a_stream_that_breaks_is_resumed_without_gap_or_duplicate(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with house(tmp_path) as home, on_a_port(home.app) as address:
            listener = Listener(address, home)
            for number in range(6):
                await asking(home.kernel, f"m{number}")
                await listener.read_to(await head(home) - number % 3)
            await listener.read_to(await head(home))
            assert listener.positions == await stored(home)

    asyncio.run(scenario())


def test_events_of_other_processes_arrive_without_gap_or_duplicate(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with house(tmp_path) as home, on_a_port(home.app) as address:
            await asking(home.kernel, "m1")
            database = str(tmp_path / "state.db")
            early, joined = Listener(address, home), Listener(address, home)
            first = asyncio.create_task(early.read_to(ENDLESS))
            writers = [
                await asyncio.create_subprocess_exec(sys.executable, "-c", WRITER, database, name)
                for name in ("a", "b")
            ]
            await until(lambda: len(early.events) > 10)
            second = asyncio.create_task(joined.read_to(ENDLESS))  # while they write
            for number in range(5):
                await asking(home.kernel, f"own{number}")
            assert [await writer.wait() for writer in writers] == [0, 0]
            expected = await stored(home)
            for listener in (early, joined):
                await until(lambda one=listener: one.positions[-1:] == expected[-1:])
                assert listener.positions == expected
            for task in (first, second):
                task.cancel()
            await asyncio.gather(first, second, return_exceptions=True)

    asyncio.run(scenario())


def test_a_stream_is_filtered_and_of_one_tenant(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with house(tmp_path) as home, on_a_port(home.app) as address:
            for tenant, run_id in (("default", "m1"), ("acme", "m1/canary"), ("default", "m2")):
                await asking(home.kernel, run_id, tenant=tenant)
            await asking(home.kernel, "m1/figures")
            listener = Listener(address, home, prefix="m1", kind="run.started")
            last = [e async for e in home.kernel.events() if e.kind == "run.started"][-1]
            await listener.read_to(last.position)
            assert [event["stream"] for event in listener.events] == ["run:m1", "run:m1/figures"]
            assert "canary" not in listener.text

    asyncio.run(scenario())


def test_streams_that_catch_up_together_read_one_page_of_their_tenant_in_a_pass(tmp_path: Path) -> None:
    async def scenario() -> Counter[int]:
        async with house(tmp_path) as home:
            await asking(home.kernel, "m0")
            reads, passes = Counter[int](), 0

            class Watched:
                def __getattr__(self, name: str) -> Any:
                    return getattr(home.kernel.store, name)

                async def read_all(self, **wanted: Any) -> Any:
                    reads[passes] += 1
                    return await home.kernel.store.read_all(**wanted)

            async def count() -> None:
                nonlocal passes
                while True:
                    passes += 1
                    await asyncio.sleep(0)

            encoder = Encoder(cast(Any, Watched()), "default")
            counting = asyncio.ensure_future(count())
            pages = await asyncio.gather(*(encoder.read(after=0, limit=100) for _ in range(20)))
            counting.cancel()
            assert all(page == pages[0] and page for page in pages)
            return reads

    reads = asyncio.run(scenario())

    assert sum(reads.values()) == 20
    assert max(reads.values()) <= 2


def test_a_slow_client_is_dropped_and_resumes_where_it_was(tmp_path: Path) -> None:
    """It stops reading; a second client on the same feed shows that everybody else goes on."""

    async def scenario() -> None:
        async with house(tmp_path, queue_max=20) as home:
            hub: Hub = home.app.state.hub
            wants = Filter(tenant="default")
            slow, quick = await hub.stream(wants, after=0), await hub.stream(wants, after=0)
            seen: list[bytes] = [await anext(slow)]
            taken = b"" + await anext(quick)
            await asking(home.kernel, "m0")
            while len(frames_of(b"".join(seen).decode())) < await head(home):
                seen.append(await anext(slow))
            waiting = asyncio.ensure_future(anext(slow))  # it has all, and waits for what comes
            await asking(home.kernel, "m00")
            seen.append(await waiting)
            for number in range(1, 21):
                await asking(home.kernel, f"m{number}")
                while len(frames_of(taken.decode())) < await head(home):
                    taken += await anext(quick)
            seen += [frame async for frame in slow]
            assert hub.dropped == 1
            assert seen[-1].startswith(b"event: dropped\n")
            early = [event["position"] for event in frames_of(b"".join(seen).decode())]
            rest = await hub.stream(wants, after=early[-1])
            late: list[int] = []
            while len(early) + len(late) < await head(home):
                late += [one["position"] for one in frames_of((await anext(rest)).decode())]
            assert early + late == await stored(home)
            assert [one["position"] for one in frames_of(taken.decode())] == await stored(home)
            for stream in (quick, rest):
                await stream.aclose()  # type: ignore[attr-defined] - a generator

    asyncio.run(scenario())


@pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="only Linux tells what is read")
def test_a_stream_that_nobody_reads_is_closed_and_goes_on_where_it_was(tmp_path: Path) -> None:
    """The connection is full on both sides. Whoever opens it again gets what it has not seen."""

    async def scenario() -> None:
        async with house(tmp_path) as home:
            await results(home, count=100, size=1000)
            bound = bind("127.0.0.1", 0)
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
            server = Server(home.app, unread_s=0.2)
            task = asyncio.create_task(server.serve(sockets=[bound]))
            await until(lambda: server.started)
            address = address_of(bound, home.app.state.settings)
            listener = Listener(address, home)
            reader = socket.socket()
            reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
            reader.connect(bound.getsockname())
            reader.sendall(
                b"GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n"
                b"Cookie: %s\r\n\r\n" % listener.cookie.encode()
            )
            connections = server.server_state.connections
            await until(lambda: len(connections) == 1)
            await until(lambda: not connections)  # it has read nothing
            seen = b""
            with reader, suppress(ConnectionError):
                while piece := reader.recv(65536):
                    seen += piece
            frames = seen.partition(b"\r\n\r\n")[2].rpartition(b"\n\n")[0]
            listener.events = frames_of(b"\n".join(frames.split(b"\r\n")).decode())
            last = await head(home)
            assert all(position < last for position in listener.positions)
            await listener.read_to(last)
            assert listener.positions == await stored(home)
            server.should_exit = True
            await asyncio.wait_for(task, PATIENCE_S)
            bound.close()

    asyncio.run(scenario())


async def results(home: House, *, count: int, size: int) -> None:
    """A run whose steps give much to tell of each."""
    async with home.kernel.run("large") as run:
        for number in range(count):
            await run.step(f"s{number}", lambda: 1)
            await home.desk.inject("large", "x" * size)


def test_a_client_s_backlog_is_bounded_in_bytes(tmp_path: Path) -> None:
    frame = b"x" * (QUEUE_BYTES_MAX // 3)
    client = StreamClient(Filter(tenant="default"), user="", after=0, queue_max=1000)
    for _ in range(3):
        client.push(frame)
    assert not client.is_over
    client.push(frame)
    assert client.is_over
    assert asyncio.run(client.take()) == b""


@pytest.mark.parametrize("seed", range(3))
def test_pages_of_any_size_are_the_log_without_gap_or_duplicate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Whatever ends a page: its count, its bytes, a filter that finds little, the end of the log."""

    async def scenario() -> None:
        chance = Random(seed)
        async with house(tmp_path) as home:
            await results(home, count=40, size=900)
            await asking(home.kernel, "beside", tenant="acme")
            wanted = [e.position async for e in home.kernel.events() if e.stream.tenant == "default"]
            notes = [e.position async for e in home.kernel.events() if e.kind == "note.injected"]
            assert len(notes) == 40
            for _ in range(12):
                monkeypatch.setattr("artelier.server.live_hub.PAGE", chance.randint(1, 60))
                most_bytes = chance.choice((1, 3_000, 20_000, 10**9))
                monkeypatch.setattr("artelier.server.live_hub.PAGE_BYTES", most_bytes)
                monkeypatch.setattr("artelier.server.live_hub.SCANNED_MAX", chance.choice((1, 30, 10**4)))
                monkeypatch.setattr("artelier.log.database_store.SCANNED_AT_ONCE", chance.randint(1, 90))
                kinds = chance.choice(((), ("note.injected",)))
                seen: list[int] = []
                after: int | None = 0
                while after is not None:
                    asked = {"after": after, "limit": chance.randint(1, 90), "kind": list(kinds)}
                    told = (await home.client.get("/api/v1/events", params=asked)).json()
                    assert told["next"] is None or told["next"] > after
                    bodies = [len(json.dumps(one)) for one in told["items"][:-1]]
                    assert sum(bodies) < most_bytes * 2  # spaces that the server leaves out
                    seen += [one["position"] for one in told["items"]]
                    after = told["next"]
                assert seen == (notes if kinds else wanted)
                stream = await home.app.state.hub.stream(
                    Filter(tenant="default", kinds=frozenset(kinds)), after=0
                )
                live: list[int] = []
                while live[-1:] != seen[-1:]:
                    live += [one["position"] for one in frames_of((await anext(stream)).decode())]
                await stream.aclose()
                assert live == seen

    asyncio.run(scenario())


def test_a_page_of_few_events_encodes_no_others(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with house(tmp_path) as home:
            await results(home, count=30, size=10)
            hub: Hub = home.app.state.hub
            encoder = hub._encoder("default")  # pyright: ignore[reportPrivateUsage] - what it costs
            await hub.page(Filter(tenant="default"), after=0, limit=5)
            assert encoder.encoded == 5
            await hub.page(Filter(tenant="default", kinds=frozenset(("none.such",))), after=0, limit=5)
            assert encoder.encoded == 5

    asyncio.run(scenario())


def test_others_have_a_turn_while_many_ask_for_one_tenant_s_events(tmp_path: Path) -> None:
    """Between two turns of anybody else, no more than a slice is encoded, however many ask."""

    async def scenario() -> None:
        async with house(tmp_path) as home:
            await results(home, count=80, size=900)
            hub: Hub = home.app.state.hub
            encoder = hub._encoder("default")  # pyright: ignore[reportPrivateUsage] - what it costs
            asked = [
                asyncio.ensure_future(hub.page(Filter(tenant="default"), after=after, limit=200))
                for after in (0, 60, 120, 0)
            ]
            before, most = 0, 0
            while not all(one.done() for one in asked):
                await asyncio.sleep(0)
                most, before = max(most, encoder.encoded - before), encoder.encoded
            assert 0 < most <= SLICE_EVENTS
            assert encoder.encoded == len({e.position for one in asked for e in one.result()[0]})

    asyncio.run(scenario())


def test_each_event_is_encoded_once_for_all_who_listen(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with house(tmp_path) as home, on_a_port(home.app) as address:
            await asking(home.kernel, "m1")
            listeners = [Listener(address, home) for _ in range(8)]
            reading = [asyncio.create_task(one.read_to(await head(home) + 2)) for one in listeners]
            await until(lambda: all(one.events for one in listeners))
            [feed] = home.app.state.hub._feeds.values()
            await home.client.post("/api/v1/runs/m1/inject", json={"note": "one"})
            await asyncio.gather(*reading)
            assert feed.encoder.encoded == len(await stored(home))

    asyncio.run(scenario())


def test_a_quiet_stream_has_a_heart_that_beats_by_the_kernel_s_clock(tmp_path: Path) -> None:
    async def scenario() -> None:
        clock = ManualClock()
        async with house(tmp_path, clock=clock) as home, on_a_port(home.app) as address:
            listener = Listener(address, home)
            async with listener.connected() as pieces, asyncio.timeout(PATIENCE_S):
                async for piece in pieces:
                    listener.text += piece
                    if ": still here" in listener.text:
                        break
                    if "tenant.created" in listener.text:
                        clock.advance(HEARTBEAT_S)

    asyncio.run(scenario())


def test_the_end_of_the_server_ends_its_streams(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with house(tmp_path) as home:
            listener = Listener("", home)
            async with on_a_port(home.app) as address:
                listener = Listener(address, home)
                reading = asyncio.create_task(listener.read_to(ENDLESS))
                await until(lambda: len(listener.events) > 0)
            await asyncio.wait_for(asyncio.gather(reading, return_exceptions=True), PATIENCE_S)

    asyncio.run(scenario())


def test_only_so_many_listen_at_once(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with house(tmp_path, clients_max=1) as home:
            hub: Hub = home.app.state.hub
            first = await hub.stream(Filter(tenant="default"), after=0)
            await anext(first)
            full = await home.client.get("/api/v1/events/stream")
            assert (full.status_code, full.json()["error"]["code"]) == (503, "queue_full")
            await first.aclose()  # type: ignore[attr-defined] - a generator
            second = await hub.stream(Filter(tenant="default"), after=0)
            await second.aclose()  # type: ignore[attr-defined] - a generator

    asyncio.run(scenario())


def test_one_user_and_one_tenant_leave_places_to_others(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with house(tmp_path, users=people(), user_clients_max=2, tenant_clients_max=3) as home:
            hub: Hub = home.app.state.hub
            await home.desk.state()
            await home.kernel.for_tenant("acme").state()
            mine, theirs = Filter(tenant="default"), Filter(tenant="acme")
            open_ = [await hub.stream(mine, after=0, user="vic") for _ in range(3)]
            assert [await anext(one, b"") != b"" for one in open_] == [True, True, False]
            await login(home, "vic")
            for path in ("/api/v1/events/stream", "/api/v1/graph/stream", "/api/v1/agui"):
                full = await home.client.get(path)
                assert "of this user" in assert_fault(full, 429, "too_many_at_once")["message"]
            open_.append(await hub.stream(mine, after=0, user="ada"))
            assert await anext(open_[-1])
            with pytest.raises(QueueFull, match="of this tenant"):
                await hub.stream(mine, after=0, user="kim")
            open_.append(await hub.stream(theirs, after=0, user="ada"))
            assert await anext(open_[-1])
            await open_[0].aclose()  # type: ignore[attr-defined] - a generator
            open_.append(await hub.stream(mine, after=0, user="vic"))
            assert await anext(open_[-1])
            for one in open_:
                await one.aclose()  # type: ignore[attr-defined] - a generator

    asyncio.run(scenario())


def test_a_position_of_another_database_is_taken_for_its_end(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with house(tmp_path) as home, on_a_port(home.app) as address:
            await asking(home.kernel, "m1")
            listener, upto = Listener(address, home, after=10**9), await head(home)
            reading = asyncio.create_task(listener.read_to(upto + 1))
            await until(lambda: any(feed.clients for feed in home.app.state.hub._feeds.values()))
            await home.client.post("/api/v1/runs/m1/inject", json={"note": "one"})
            await reading
            assert listener.positions[0] == upto + 1

    asyncio.run(scenario())


def test_a_broken_last_event_id_is_refused(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with house(tmp_path) as home:
            for given in ("x", "-1", "1e3", "9" * 20):
                headers = {"Last-Event-ID": given}
                answer = await home.client.get("/api/v1/events/stream", headers=headers)
                assert answer.json()["error"]["code"] == "invalid_request"

    asyncio.run(scenario())
