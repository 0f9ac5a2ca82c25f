"""Work beside the answer: a tenant has its share of the places, and what finds none is not recorded."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from artelier.errors import TooManyAtOnce
from artelier.server import background_tasks
from artelier.server.background_tasks import Errands
from tests.server.house import house


def test_a_tenant_takes_its_share_of_the_places_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background_tasks, "OF_TENANT_MAX", 2)

    async def scenario() -> None:
        errands, gate = Errands(), asyncio.Event()
        first = [errands.start(("world", "a", str(number)), gate.wait()) for number in range(2)]
        with pytest.raises(TooManyAtOnce):
            errands.start(("world", "a", "more"), gate.wait())
        errands.start(("world", "b", "0"), gate.wait())
        await asyncio.sleep(0)

        first[0].task.cancel()
        await asyncio.gather(first[0].task, return_exceptions=True)
        await asyncio.sleep(0)
        errands.start(("world", "a", "next"), gate.wait())
        with pytest.raises(TooManyAtOnce):
            errands.start(("world", "a", "more"), gate.wait())
        await asyncio.sleep(0)
        await errands.close()

    asyncio.run(scenario())


def test_tenants_that_take_all_they_may_leave_a_place_to_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background_tasks, "OF_TENANT_MAX", 8)
    monkeypatch.setattr(background_tasks, "AT_ONCE_MAX", 32)

    async def scenario() -> None:
        errands, gate = Errands(), asyncio.Event()
        held: list[int] = []
        for tenant in "abcdef":
            taken = 0
            with pytest.raises(TooManyAtOnce):
                while True:
                    errands.start(("world", tenant, str(taken)), gate.wait())
                    taken += 1
            held.append(taken)
        assert held == [8, 8, 8, 4, 2, 1]
        errands.start(("world", "late", "0"), gate.wait())
        await asyncio.sleep(0)
        await errands.close()

    asyncio.run(scenario())


def test_a_turn_that_finds_no_place_is_not_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background_tasks, "OF_TENANT_MAX", 0)

    async def scenario() -> None:
        async with house(tmp_path, "never") as home:
            made = await home.client.post("/api/v1/sessions", json={"id": "c", "model": "m"})
            assert made.status_code == 201
            refused = await home.client.post("/api/v1/sessions/c/turns", json={"text": "We ride north."})
            assert refused.status_code == 429, refused.text
            shown = await home.client.get("/api/v1/sessions/c")
            assert "north" not in shown.text

    asyncio.run(scenario())
