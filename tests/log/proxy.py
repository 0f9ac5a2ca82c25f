"""Stores whose connections lead over a proxy in which they break at the worst moments."""

from __future__ import annotations

import asyncio
from contextlib import closing, suppress

from artelier.errors import StoreUnavailable
from artelier.log.places import open_store, verify_place
from artelier.testing.conformance.stage import batch, stream
from artelier.testing.conformance.view import TALLY, total
from artelier_lab.postgres_proxy import PostgresProxy


def check_commits_in_doubt(proxy: PostgresProxy, *, through: str, direct: str, cut: str, count: int) -> None:
    """Append so often through a proxy that cuts each commit; each ends in a receipt, or in nothing.

    `through`: the address of the store that leads over the proxy, `direct` one that does not.
    """
    told: list[int] = []
    is_armed = False

    def fault(instant: str) -> None:
        if instant == "commit.before" and is_armed:
            proxy.cut = cut

    async def append() -> None:
        nonlocal is_armed
        with closing(open_store(through, (TALLY,), fault=fault)) as store:
            await store.append(batch("run:a", 1))
            is_armed = True
            for number in range(2, count + 2):
                with suppress(StoreUnavailable):
                    await store.append(batch("run:a", number, expected=len(told) + 1))
                    told.append(number)

    async def check() -> None:
        with closing(open_store(direct, (TALLY,))) as store:
            numbers = [event.plain()["number"] for event in await store.read(stream("run:a"))]
            assert numbers == [1, *told]
            assert await total(store, "run:a") == sum(numbers)

    asyncio.run(append())
    asyncio.run(check())
    assert proxy.cuts == count
    assert len(told) == (count if cut == "after" else 0)
    assert verify_place(direct, (TALLY,)).findings == []
