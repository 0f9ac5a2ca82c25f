"""Strangers: connections and requests of nobody who is signed in."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import suppress

from artelier_lab.availability.client import Answer, Client
from artelier_lab.availability.inputs.builders import counted, many
from artelier_lab.availability.neighbour import ADDRESS
from artelier_lab.availability.scene import Input, Scene
from artelier_lab.availability.served import ATTACKER, NEIGHBOUR, PASSWORD

HELD_S = 3.0
"""How long connections are held open that send nothing, or next to nothing."""


async def _hold(scene: Scene, count: int, said: Callable[[int], Iterator[bytes]]) -> str:
    """Hold connections open, each saying something now and then."""
    loop = asyncio.get_running_loop()
    until_s = loop.time() + HELD_S
    refused = 0

    async def one(number: int) -> None:
        nonlocal refused
        try:
            _, writer = await scene.stranger.connect()
        except OSError:
            refused += 1
            return
        try:
            with suppress(OSError):
                for piece in said(number):
                    writer.write(piece)
                    await writer.drain()
                    await asyncio.sleep(0.2)
                    if loop.time() >= until_s:
                        break
            await asyncio.sleep(max(0.0, until_s - loop.time()))
        finally:
            writer.close()

    await asyncio.gather(*(one(number) for number in range(count)))
    return f"{count - refused} held"


def _nothing(number: int) -> Iterator[bytes]:
    return iter(())


def _headers(number: int) -> Iterator[bytes]:
    yield b"GET /api/v1/me HTTP/1.1\r\nHost: 127.0.0.1\r\n"
    for line in range(1_000):
        yield b"X-%d: %d\r\n" % (line, number)


def _body(number: int) -> Iterator[bytes]:
    yield b"POST /api/v1/login HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 4000\r\n\r\n"
    for _ in range(4_000):
        yield b" "


async def _served(scene: Scene) -> bool:
    """A stranger gets the page, and the attacker's user is told who it is."""
    page, me = await scene.stranger.get("/"), await scene.attacker.get("/me")
    return page.is_good and me.is_good


def _held(name: str, count: int, said: Callable[[int], Iterator[bytes]]) -> Input:
    async def attack(scene: Scene) -> str:
        return await _hold(scene, count, said)

    return Input(name=name, attack=attack, twin=_served)


async def _login(client: Client, user: str, password: str) -> Answer:
    return await client.post("/login", {"user": user, "password": password})


async def _guess_passwords(scene: Scene) -> str:
    return counted(
        await many(200, lambda number: _login(scene.stranger, ATTACKER, f"guess {number}"), at_once=50)
    )


async def _large_login(scene: Scene) -> str:
    return counted(await many(20, lambda number: _login(scene.stranger, ATTACKER, "x" * 1_000_000)))


async def _sign_in(scene: Scene) -> bool:
    """Somebody else, elsewhere, signs in."""
    elsewhere = Client(scene.stranger.port, address=ADDRESS)
    return (await _login(elsewhere, NEIGHBOUR, PASSWORD)).is_good


async def _guess_tokens(scene: Scene) -> str:
    async def one(number: int) -> Answer:
        return await scene.stranger.get("/me", headers={"Authorization": f"Bearer {number:043}"})

    return counted(await many(1_000, one, at_once=50))


async def _large_headers(scene: Scene) -> str:
    async def one(number: int) -> Answer:
        return await scene.stranger.get("/me", headers={f"X-{n}": "x" * 1_000 for n in range(200)})

    return counted(await many(50, one))


async def _short_headers(scene: Scene) -> str:
    async def one(number: int) -> Answer:
        return await scene.stranger.get("/me", headers={f"a{n}": "b" for n in range(8_000)})

    return counted(await many(200, one, at_once=40))


async def _quoted_cookies(scene: Scene) -> str:
    """Python's parser of cookies takes the square of such a value's length."""

    async def one(number: int) -> Answer:
        return await scene.stranger.get("/me", headers={"Cookie": 'a="' + '\\"' * 29_000 + '"'})

    return counted(await many(20, one, at_once=20))


async def _crumbs(scene: Scene) -> str:
    """A body in chunks of one byte: 64 KiB of them are 10,000 events of the parser."""

    async def one(number: int) -> Answer:
        return await scene.stranger.ask(
            "POST",
            "/login",
            body=b"1\r\n{\r\n" * 100_000,
            headers={"Transfer-Encoding": "chunked"},
            within_s=10.0,
        )

    return counted(await many(20, one, at_once=20))


async def _broken(scene: Scene) -> str:
    pieces = (b"\x16\x03\x01\x02\x00\x01" * 200, b"GET\r\n\r\n" * 200, b"GET / HTTP/9.9\r\n\r\n" * 200)

    async def one(number: int) -> Answer:
        try:
            reader, writer = await scene.stranger.connect()
            writer.write(pieces[number % 3])
            with suppress(OSError, TimeoutError):
                async with asyncio.timeout(5):
                    await reader.read(65_536)
            writer.close()
        except OSError:
            return Answer(0)
        return Answer(400)

    await many(300, one, at_once=30)
    return "300 sent"


async def _pipe(scene: Scene) -> str:
    """Ask many times on each of many connections without waiting for an answer, for a while."""
    loop = asyncio.get_running_loop()
    until_s = loop.time() + HELD_S
    asked = scene.stranger.head("GET", "/api/v1/me", {}) * 100
    answered = 0

    async def ask(writer: asyncio.StreamWriter) -> None:
        while True:
            writer.write(asked)
            await writer.drain()

    async def one() -> None:
        nonlocal answered
        with suppress(OSError, TimeoutError):
            reader, writer = await scene.stranger.connect()
            asking = asyncio.ensure_future(ask(writer))
            try:
                async with asyncio.timeout_at(until_s):
                    while content := await reader.read(65_536):
                        answered += content.count(b"HTTP/1.1 401")
            finally:
                asking.cancel()
                await asyncio.gather(asking, return_exceptions=True)
                writer.transport.abort()

    await asyncio.gather(*(one() for _ in range(400)))
    return f"{answered} refused"


async def _ask_from_afar(scene: Scene) -> str:
    """Ask once on each of many connections, from 200 addresses, with much behind the request."""
    opened: list[asyncio.StreamWriter] = []

    async def one(number: int) -> Answer:
        address = f"127.0.{2 + number % 200 // 100}.{1 + number % 100}"
        try:
            _, writer = await Client(scene.stranger.port, address=address).connect()
        except OSError:
            return Answer(0)
        opened.append(writer)
        writer.write(scene.stranger.head("GET", "/api/v1/me", {}) + b"x" * 250_000)
        return Answer(200)

    try:
        answers = await many(3_000, one, at_once=100)
        await asyncio.sleep(1.0)
        return counted(answers)
    finally:
        for writer in opened:
            writer.transport.abort()


INPUTS = (
    Input(name="pipelined-strangers", attack=_pipe, twin=_served),
    Input(name="strangers-of-200-addresses", attack=_ask_from_afar, twin=_served),
    _held("idle-connections", 1_050, _nothing),
    _held("slow-headers", 200, _headers),
    _held("slow-bodies", 200, _body),
    Input(name="large-headers", attack=_large_headers, twin=_served),
    Input(name="short-headers", attack=_short_headers, twin=_served),
    Input(name="cookies-quoted", attack=_quoted_cookies, twin=_served),
    Input(name="body-in-crumbs", attack=_crumbs, twin=_sign_in),
    Input(name="broken-requests", attack=_broken, twin=_served),
    Input(name="login-flood", attack=_guess_passwords, twin=_sign_in),
    Input(name="large-logins", attack=_large_login, twin=_sign_in),
    Input(name="token-guesses", attack=_guess_tokens, twin=_served),
)
