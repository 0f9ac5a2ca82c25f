"""Connections of one address keep those of another out of nothing: neither of a turn nor of a place."""

from __future__ import annotations

import asyncio
import logging
import os
import resource
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from artelier.server.http_server import bind
from artelier.server.loop_shares import STRANGERS
from artelier.server.security.connections import OPENED_AT_ONCE, Acceptor, Connections
from tests.server.house import PATIENCE_S, until

MANY = 10 * OPENED_AT_ONCE


class Line(asyncio.Protocol):
    """A connection that tells where it comes from."""

    def __init__(self, opened: list[Line], connections: Connections) -> None:
        self._opened = opened
        self._connections = connections
        self.place = ""
        self.group = STRANGERS
        self.is_open = True

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        self.place = transport.get_extra_info("peername")[0]
        self._opened.append(self)
        self._connections.add(self)

    def drop(self) -> None:
        self._connections.remove(self)
        assert isinstance(self.transport, asyncio.Transport)
        self.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_open = False
        self._connections.remove(self)


def call(port: int, address: str) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), PATIENCE_S, source_address=(address, 0))


@asynccontextmanager
async def accepting(
    bound: socket.socket, *, most: int = 10 * MANY
) -> AsyncIterator[tuple[list[Line], Connections]]:
    opened, connections = list[Line](), Connections(most=most)
    acceptor = Acceptor(bound, lambda: Line(opened, connections), connections=connections)
    try:
        yield opened, connections
    finally:
        acceptor.close()
        for line in opened:
            line.drop()
        await asyncio.sleep(0)


def test_an_address_is_not_behind_all_connections_that_another_opened_before() -> None:
    async def scenario() -> list[str]:
        with bind("127.0.0.1", 0) as bound:
            port = bound.getsockname()[1]
            callers = [call(port, "127.0.0.1") for _ in range(MANY)]
            callers.append(call(port, "127.0.0.2"))
            async with accepting(bound) as (opened, connections):
                await until(lambda: len(opened) == MANY + 1)
                assert len(connections) == MANY + 1
                for one in callers:
                    one.close()
                await until(lambda: len(connections) == 0)
                return [line.place for line in opened]

    places = asyncio.run(scenario())

    assert places.index("127.0.0.2") < OPENED_AT_ONCE


def test_the_address_that_has_most_makes_room_for_others() -> None:
    async def scenario() -> None:
        with bind("127.0.0.1", 0) as bound:
            port = bound.getsockname()[1]
            async with accepting(bound, most=20) as (opened, connections):
                first = call(port, "127.0.0.2")
                await until(lambda: len(opened) == 1)
                callers = [call(port, "127.0.0.1") for _ in range(100)]
                await until(lambda: len(connections) == 20 and callers[-1].getsockname()[1] in _ports(opened))
                assert opened[0].is_open
                callers.append(call(port, "127.0.0.3"))
                await until(lambda: opened[-1].place == "127.0.0.3")
                assert opened[0].is_open and opened[-1].is_open
                assert len(connections) == 20
                for one in (first, *callers):
                    one.close()

    asyncio.run(scenario())


def _ports(opened: list[Line]) -> set[int]:
    """Return the ports of the callers whose connections are open."""
    return {line.transport.get_extra_info("peername")[1] for line in opened if line.is_open}


def test_strangers_make_room_for_those_who_are_known() -> None:
    async def scenario() -> None:
        with bind("127.0.0.1", 0) as bound:
            port = bound.getsockname()[1]
            async with accepting(bound, most=20) as (opened, connections):
                known = [call(port, "127.0.0.2") for _ in range(5)]
                await until(lambda: len(opened) == 5)
                for line in list(opened):
                    assert connections.remove(line)
                    line.group = "tenant a"
                    connections.add(line)
                strangers = [call(port, f"127.0.1.{number}") for number in range(1, 60)]
                await until(lambda: strangers[-1].getsockname()[1] in _ports(opened))
                strangers.append(call(port, "127.0.0.9"))
                await until(lambda: opened[-1].place == "127.0.0.9")
                assert all(line.is_open for line in opened[:5])
                opened[0].drop()
                assert not connections.remove(opened[0]), "it was forgotten"
                for one in (*known, *strangers):
                    one.close()

    asyncio.run(scenario())


def test_an_address_where_somebody_was_known_keeps_a_few_whatever_strangers_open() -> None:
    """14,000 addresses with one connection each: whoever came anew with two was the one that had most."""

    async def scenario() -> None:
        with bind("127.0.0.1", 0) as bound:
            port = bound.getsockname()[1]
            async with accepting(bound, most=30) as (opened, connections):
                callers = [call(port, "127.0.0.2")]
                await until(lambda: len(opened) == 1)
                assert connections.remove(opened[0])
                opened[0].group = "tenant a"
                connections.add(opened[0])
                callers += [call(port, "127.0.0.2") for _ in range(3)]
                await until(lambda: len(opened) == 4)
                callers += [call(port, f"127.0.1.{number}") for number in range(1, 100)]
                await until(lambda: callers[-1].getsockname()[1] in _ports(opened))
                assert [line.is_open for line in opened[:4]] == [True] * 4
                assert connections.is_familiar("127.0.0.2") and not connections.is_familiar("127.0.1.1")

                callers += [call(port, "127.0.0.2") for _ in range(40)]
                await until(lambda: callers[-1].getsockname()[1] in _ports(opened))
                callers.append(call(port, "127.0.0.9"))
                await until(lambda: opened[-1].place == "127.0.0.9")
                assert opened[-1].is_open and not opened[1].is_open
                for one in callers:
                    one.close()

    asyncio.run(scenario())


def test_whoever_is_not_known_yet_finds_a_place_whatever_one_tenant_has_open() -> None:
    async def scenario() -> None:
        with bind("127.0.0.1", 0) as bound:
            port = bound.getsockname()[1]
            async with accepting(bound, most=20) as (opened, connections):
                callers = [call(port, "127.0.0.2") for _ in range(20)]
                await until(lambda: len(opened) == 20)
                for line in list(opened):
                    assert connections.remove(line)
                    line.group = "tenant a"
                    connections.add(line)
                for address in ("127.0.0.9", "127.0.0.2"):
                    callers.extend([call(port, address) for _ in range(3)])
                    await until(lambda: callers[-1].getsockname()[1] in _ports(opened))
                assert all(line.is_open for line in opened[20:])
                for one in callers:
                    one.close()

    asyncio.run(scenario())


def test_spent_descriptors_are_said_once_and_waited_for(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("artelier.server.security.connections.REST_S", 0.01)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)

    async def scenario() -> None:
        with bind("127.0.0.1", 0) as bound, call(bound.getsockname()[1], "127.0.0.1"):
            async with accepting(bound) as (opened, _):
                tried = 0
                accept = bound.accept

                def counted() -> tuple[socket.socket, object]:
                    nonlocal tried
                    tried += 1
                    return accept()

                monkeypatch.setattr(socket.socket, "accept", lambda _: counted())
                resource.setrlimit(resource.RLIMIT_NOFILE, (_files_open(), hard))
                try:
                    await until(lambda: tried > 3)
                    assert not opened
                finally:
                    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
                await until(lambda: len(opened) == 1)

    with caplog.at_level(logging.ERROR, "artelier.server"):
        asyncio.run(scenario())

    assert [record.message for record in caplog.records] == [
        "no connection can be accepted: [Errno 24] Too many open files"
    ]


def _files_open() -> int:
    """Return a limit under which no file more can be opened."""
    probe = os.dup(0)
    os.close(probe)
    return probe
