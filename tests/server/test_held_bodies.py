"""Bodies that are held in memory: so many of one user, so many of all; the rest waits in the network."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from artelier.errors import TooManyAtOnce
from artelier.server.security.held_bodies import (
    ALL_LARGEST,
    STEP_BYTES,
    USER_LARGEST,
    WORK,
    HeldBodies,
    HeldBody,
)
from artelier.server.security.users import User, Users, token_hash
from tests.server.house import house, on_a_port


async def _settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def test_a_body_waits_until_another_of_its_user_is_let_go_of() -> None:
    async def scenario() -> None:
        bodies = HeldBodies(largest_bytes=100, own_bytes=0)
        held = [await bodies.take("a", 100) for _ in range(USER_LARGEST)]
        next_ = asyncio.ensure_future(bodies.take("a", 60))
        after = asyncio.ensure_future(bodies.take("a", 30))
        await _settle()
        assert not next_.done() and not after.done()
        (await bodies.take("b", 100)).give_back()  # another user's does not wait for them
        held[0].shrink(50)
        await _settle()
        assert not next_.done() and not after.done(), "none goes before another that came first"
        held[0].give_back()
        held[0].give_back()
        await _settle()
        assert next_.done() and after.done()

    asyncio.run(scenario())


def test_users_who_hold_all_there_is_leave_each_other_user_a_share_of_its_own() -> None:
    async def scenario() -> None:
        bodies = HeldBodies(largest_bytes=2 * STEP_BYTES, own_bytes=8, wait_s=0.01)
        for number in range(ALL_LARGEST // USER_LARGEST):
            for _ in range(USER_LARGEST):
                held = await bodies.take(f"hostile {number}", 2 * STEP_BYTES)
                await held.arrive(STEP_BYTES)
        arriving = await bodies.take("b", 2 * STEP_BYTES)
        await arriving.arrive(2 * STEP_BYTES)  # those that trickle leave room for it
        arriving.give_back()
        for number in range(ALL_LARGEST):
            await (await bodies.take(f"more {number}", 2 * STEP_BYTES)).arrive(STEP_BYTES)
        with pytest.raises(TooManyAtOnce, match="large bodies"):
            await (await bodies.take("b", 100)).arrive(100)
        own = [await bodies.take("b", 4) for _ in range(2)]
        with pytest.raises(TooManyAtOnce):
            await (await bodies.take("b", 1)).arrive(1)
        own[0].give_back()
        await bodies.take("b", 4)
        await bodies.take("hostile 0", 8)  # also to say that something is to end

    asyncio.run(scenario())


def test_bodies_that_become_objects_are_read_in_turn_and_files_beside_them() -> None:
    async def scenario() -> None:
        bodies = HeldBodies(largest_bytes=100, own_bytes=0)
        first = await bodies.take("a", 200 // WORK, is_parsed=True)
        second = asyncio.ensure_future(bodies.take("a", 10, is_parsed=True))
        await _settle()
        (await bodies.take("a", 100)).give_back()
        assert not second.done()
        first.shrink(200 // WORK - 10)
        await _settle()
        assert second.done()

    asyncio.run(scenario())


def test_bodies_of_wide_characters_of_a_user_are_read_one_by_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever way they are written; others of the user, and those of other users, do not wait."""
    taken = list[HeldBody]()
    take = HeldBody.take_wide

    async def noted(self: HeldBody) -> None:
        await take(self)
        taken.append(self)

    monkeypatch.setattr(HeldBody, "take_wide", noted)
    monkeypatch.setattr("artelier.server.security.guard.WIDE_BYTES", 100)

    async def scenario() -> None:
        bodies = HeldBodies(largest_bytes=100, own_bytes=0)
        first, second, other = [await bodies.take(user, 30) for user in ("a", "a", "b")]
        await first.take_wide()
        waiting = asyncio.ensure_future(second.take_wide())
        await other.take_wide()
        await _settle()
        assert not waiting.done()
        first.give_back()
        await waiting
        taken.clear()

        async with house(tmp_path) as home:
            for text in ("a" * 200, "\u00e9" * 200, "a" * 200 + "\U0001f600"):
                for escaped in (True, False):
                    body = json.dumps({"id": "n", "content": text}, ensure_ascii=escaped).encode()
                    await home.client.post("/api/v1/artifacts", content=body)
        assert len(taken) == 2

    asyncio.run(scenario())


def test_whoever_no_longer_waits_keeps_nothing() -> None:
    async def scenario() -> None:
        bodies = HeldBodies(largest_bytes=100, own_bytes=0)
        held = [await bodies.take("a", 100) for _ in range(USER_LARGEST)]
        gone, late, waiting = (asyncio.ensure_future(bodies.take("a", size)) for size in (100, 100, 100))
        await _settle()
        gone.cancel()
        await _settle()
        held[0].give_back()
        late.cancel()  # in the moment in which it has its place
        await _settle()
        assert isinstance(await waiting, HeldBody)
        for one in (held[1], waiting.result()):
            one.give_back()
        assert not bodies._lanes  # pyright: ignore[reportPrivateUsage] - no user is remembered
        for _ in range(USER_LARGEST):
            await asyncio.wait_for(bodies.take("a", 100), 60)

    asyncio.run(scenario())


TOKEN = "t" * 43


def test_a_server_reads_no_more_bodies_than_it_holds_and_answers_all(tmp_path: Path) -> None:
    """Forty imports of 63 MiB each were held at once: 2.8 GB."""
    users = Users([User(name="a", role="admin", tenants=("a",), tokens=(token_hash(TOKEN),))])
    size, many = 40_000_000, 6
    arrived, go = [0] * many, asyncio.Event()

    async def body(number: int) -> AsyncIterator[bytes]:
        for at in range(0, size, 1_000_000):
            if at == size - 1_000_000:
                await go.wait()
            yield b"x" * 1_000_000
            arrived[number] += 1_000_000

    async def scenario() -> None:
        async with house(tmp_path, users=users) as home, on_a_port(home.app) as address:
            await home.kernel.tenants.open("a")
            headers = {"Authorization": f"Bearer {TOKEN}", "content-length": str(size)}
            async with httpx.AsyncClient(base_url=address, headers=headers, timeout=60) as client:
                sent = [
                    asyncio.ensure_future(client.post("/api/v1/sessions/import", content=body(number)))
                    for number in range(many)
                ]
                full = 0
                while full < 3:
                    await asyncio.sleep(0.05)
                    full = sum(one >= size - 1_000_000 for one in arrived)
                await asyncio.sleep(0.3)
                began = [one for one in arrived if one > 10_000_000]
                assert len(began) == 3, "those of 120 of 128 MiB"
                go.set()
                answers = await asyncio.gather(*sent)
        assert {one.status_code for one in answers} == {422}, "none is a chat"

    asyncio.run(scenario())
