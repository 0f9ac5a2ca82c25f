"""One user's requests take their turns, however many they are: another user's are not behind all of them."""

from __future__ import annotations

import asyncio
from pathlib import Path

import httpx
import pytest

from artelier.errors import TooManyAtOnce
from artelier.server.security.connection_limits import OPEN_MAX, Admission
from artelier.server.security.users import User, Users, token_hash
from tests.server.house import house

MANY = 60


def test_a_request_of_another_user_is_answered_before_a_flood_that_came_first(tmp_path: Path) -> None:
    users = Users(
        User(name=name, role="admin", tenants=(name,), tokens=(token_hash(name * 43),)) for name in ("a", "b")
    )
    answered: list[str] = []

    async def ask(client: httpx.AsyncClient, name: str) -> None:
        response = await client.get("/api/v1/runs/none", headers={"Authorization": "Bearer " + name * 43})
        assert response.status_code == 404
        answered.append(name)

    async def scenario() -> None:
        async with house(tmp_path, users=users) as home:
            for tenant in ("a", "b"):
                await home.kernel.tenants.open(tenant)
            async with home.stranger() as client:
                await ask(client, "b")
                answered.clear()
                flood = [asyncio.ensure_future(ask(client, "a")) for _ in range(MANY)]
                await asyncio.gather(*flood, asyncio.ensure_future(ask(client, "b")))

    asyncio.run(scenario())

    assert answered.count("a") == MANY
    assert answered.index("b") < MANY // 2


def test_who_holds_a_turn_and_waits_for_something_else_keeps_nobody_out() -> None:
    async def scenario() -> None:
        admission = Admission(at_once_max=2, turn_s=0.0)
        for _ in range(10):
            await admission.take("a")  # none of them is given back

    asyncio.run(scenario())


def test_a_turn_that_its_request_no_longer_waits_for_goes_to_the_next() -> None:
    async def scenario() -> None:
        admission = Admission(at_once_max=1, turn_s=600.0)
        first = await admission.take("a")
        left, second = (asyncio.ensure_future(admission.take("a")) for _ in range(2))
        await asyncio.sleep(0)
        first()
        left.cancel()  # in the moment in which it has its turn
        give_back = await second
        give_back()
        give_back()
        (await admission.take("a"))()

    asyncio.run(scenario())


@pytest.mark.parametrize("turn_s", [600.0, 0.0])
def test_more_requests_than_may_be_open_are_refused_and_others_are_not(turn_s: float) -> None:
    async def scenario() -> None:
        admission = Admission(turn_s=turn_s)
        waiting = [asyncio.ensure_future(admission.take("a")) for _ in range(OPEN_MAX)]
        await asyncio.sleep(0)
        with pytest.raises(TooManyAtOnce):
            await admission.take("a")
        (await admission.take("b"))()
        for one in waiting:
            one.cancel()
        for end in await asyncio.gather(*waiting, return_exceptions=True):
            if not isinstance(end, BaseException):
                end()
        (await admission.take("a"))()

    asyncio.run(scenario())
