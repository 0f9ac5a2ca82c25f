"""A model adapter that raises `CancelledError` by itself, and a tick that somebody does cancel."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from artelier.errors import ProviderUnavailable
from artelier.world.mind.model_calls import all_of
from tests.world.places import add, events, world_at
from tests.world.speaking import NOOP, Speaking


def test_a_call_that_cancels_itself_ends_the_tick_with_an_error_and_the_next_goes_on(tmp_path: Path) -> None:
    speaking = Speaking({"ana": [asyncio.CancelledError(), NOOP]})

    async def scenario() -> None:
        async with world_at(tmp_path, models=speaking.model, config={"model": "m"}) as w:
            await add(w, ana={"system_prompt": "Rest."}, bob={"system_prompt": "Rest."})
            with pytest.raises(ProviderUnavailable, match="cancelled from within"):
                await w.tick()
            assert await w.tick_now() == 0
            passed = await w.tick()
            assert (passed.tick, passed.rejected) == (1, 0)
            assert len(speaking.shown("bob")) == 1  # its answer of the first time stands
            assert len(await events(w, "action.taken")) == 2

    asyncio.run(scenario())


def test_work_beside_it_comes_to_its_end_and_no_more_is_begun() -> None:
    ended: list[int] = []

    async def work(item: int) -> Any:
        if item == 0:
            raise asyncio.CancelledError
        await asyncio.sleep(0)
        ended.append(item)

    async def scenario() -> None:
        with pytest.raises(ProviderUnavailable):
            await all_of(work, range(5), at_once=2)
        assert ended == [1]

    asyncio.run(scenario())


def test_who_cancels_all_of_it_is_obeyed() -> None:
    async def scenario() -> None:
        task = asyncio.create_task(all_of(lambda _: asyncio.Event().wait(), range(3)))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(scenario())
