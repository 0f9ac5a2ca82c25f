"""Several openers of one store: what one commits the others see soon, and nobody overwrites."""

from __future__ import annotations

import asyncio
import time

from artelier.errors import SequenceConflict
from artelier.log import Receipt, Store
from artelier.testing.conformance.stage import TALLY, StoreHarness, batch, refuses, settle_all, stream, total

NOTICED_WITHIN_S = 0.2
"""Promised of commits by another process."""

PATIENCE_S = 5.0
"""How long a test waits for what must come; a machine at work elsewhere may take longer than promised."""


class PeerPromises(StoreHarness):
    def test_listeners_learn_of_commits_here_and_abroad(self, where: str) -> None:
        async def story(one: Store) -> None:
            two = self.make_store(where, (TALLY,))
            try:
                heard: list[tuple[int, bool]] = []
                undo = one.listen(lambda position, abroad: heard.append((position, abroad)))
                await one.append(batch("run:a", 1))
                await self._until(lambda: any(position == 1 for position, _ in heard))
                took_s = [await self._heard_abroad(two, heard, 2 + n) for n in range(5)]
                undo()
                undo()
                count = len(heard)
                await one.append(batch("run:a", 1))

                assert min(took_s) < NOTICED_WITHIN_S
                assert len(heard) == count
            finally:
                two.close()

        self.tell(where, story)

    async def _heard_abroad(self, abroad: Store, heard: list[tuple[int, bool]], position: int) -> float:
        await abroad.append(batch("run:b", 1))
        start = time.perf_counter()
        await self._until(lambda: (position, True) in heard)
        return time.perf_counter() - start

    async def _until(self, condition: object) -> None:
        assert callable(condition)
        end = time.perf_counter() + PATIENCE_S
        while not condition():
            if time.perf_counter() > end:
                raise AssertionError("it never came")
            await asyncio.sleep(0.005)

    def test_a_listener_that_fails_harms_nobody(self, where: str) -> None:
        async def story(store: Store) -> None:
            heard: list[int] = []

            def broken(position: int, abroad: bool) -> None:
                raise RuntimeError("Event loop is closed")

            store.listen(broken)
            store.listen(lambda position, abroad: heard.append(position))
            for n in range(3):
                await store.append(batch("run:a", 1, expected=n))
            await self._until(lambda: 3 in heard)

        self.tell(where, story)

    def test_two_openers_interleave_without_gaps(self, where: str) -> None:
        async def story(one: Store) -> None:
            two = self.make_store(where, (TALLY,))
            try:
                results = await settle_all(
                    [(one if n % 2 else two).submit(batch(f"run:{n % 3}", 1)) for n in range(60)]
                )
                assert all(isinstance(result, Receipt) for result in results)
                for n in range(10):  # strictly by turns, so that every cache is stale each time
                    await (one if n % 2 else two).append(batch("run:t", 1, expected=n))
                with refuses(SequenceConflict):
                    await one.append(batch("run:t", 1, expected=9))

                events = await one.read_all()
                assert [e.position for e in events] == list(range(1, 71))
                assert events == await two.read_all()
                assert await one.root() == await two.root()
                for n in range(3):
                    assert await total(one, f"run:{n}") == 20
                    assert (await two.head(stream(f"run:{n}")))[0] == 20
            finally:
                two.close()

        self.tell(where, story)
