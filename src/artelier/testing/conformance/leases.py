"""Leases and fences: one holder, tokens that never come back, nothing written by who lost it."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace

from artelier.errors import LeaseHeld, LeaseLost, SequenceConflict
from artelier.log import Batch, Fence, LeaseEnd, LeaseRequest, Receipt, Store, StreamAppend, Tx
from artelier.testing.conformance.stage import StoreHarness, batch, noted_draft, refuses, settle_all, stream
from artelier.testing.conformance.view import TALLY, total

RUN = stream("run:a")


def request(holder: str, *, now_us: int = 0, ttl_us: int = 100, dead: str = "") -> LeaseRequest:
    return LeaseRequest(
        stream=RUN, holder=holder, now_us=now_us, ttl_us=ttl_us, is_dead=lambda other: other == dead
    )


async def acquire(store: Store, wanted: LeaseRequest) -> int:
    token = (await store.append(Batch(acquire=wanted))).lease_token
    assert token is not None
    return token


def fenced_batch(token: int, *numbers: int) -> Batch:
    return Batch(
        appends=(StreamAppend(RUN, tuple(map(noted_draft, numbers))),), fence=Fence(stream=RUN, token=token)
    )


class LeasePromises(StoreHarness):
    def test_a_lease_is_held_until_it_ends_is_released_or_its_holder_dies(self, where: str) -> None:
        async def story(store: Store) -> None:
            token = await acquire(store, request("one", now_us=0))
            with refuses(LeaseHeld) as caught:
                await acquire(store, request("two", now_us=99))
            assert caught.error.facts["holder"] == "one"

            tokens = [
                token,
                await acquire(store, request("two", now_us=100)),
                await acquire(store, request("three", now_us=101, dead="two")),
                await acquire(store, request("three", now_us=102)),
            ]
            await store.append(Batch(release=Fence(stream=RUN, token=tokens[-1])))
            tokens.append(await acquire(store, request("four", now_us=103)))

            assert tokens == sorted(set(tokens))

        self.tell(where, story)

    def test_a_stale_token_writes_nothing(self, where: str) -> None:
        async def story(store: Store) -> None:
            old = await acquire(store, request("one"))
            assert isinstance(await store.append(fenced_batch(old, 1)), Receipt)
            new = await acquire(store, request("two", now_us=100))

            with refuses(LeaseLost):
                await store.append(fenced_batch(old, 2))
            await store.append(fenced_batch(new, 3))
            await store.append(Batch(release=Fence(stream=RUN, token=old)))  # not its to release
            await store.append(fenced_batch(new, 4))
            await store.append(Batch(release=Fence(stream=RUN, token=new)))
            for token in (old, new, 0, -1, new + 1):
                with refuses(LeaseLost):
                    await store.append(fenced_batch(token, 5))

            numbers = [e.plain()["number"] for e in await store.read(RUN)]
            assert numbers == [1, 3, 4]

        self.tell(where, story)

    def test_tokens_never_come_back_after_release_and_reopening(self, where: str) -> None:
        tokens: list[int] = []

        async def take_and_release(store: Store) -> None:
            for _ in range(3):
                token = await acquire(store, request("one"))
                tokens.append(token)
                await store.append(Batch(release=Fence(stream=RUN, token=token)))

        self.tell(where, take_and_release, take_and_release)

        assert tokens == sorted(set(tokens))

    def test_taking_writing_and_giving_back_in_one_batch(self, where: str) -> None:
        async def story(store: Store) -> None:
            once = Batch(
                appends=(StreamAppend(RUN, (noted_draft(1),)),),
                acquire=request("one"),
                release=Fence(stream=RUN, token=0),
            )
            await store.append(once)
            await acquire(store, request("two"))
            with refuses(LeaseHeld):
                await store.append(once)

            assert (await store.head(RUN))[0] == 1

        self.tell(where, story)

    def test_a_refused_batch_takes_no_lease(self, where: str) -> None:
        async def story(store: Store) -> None:
            results = await settle_all(
                store.submit_all(
                    [
                        Batch(acquire=request("one"), appends=batch("run:a", -1).appends),
                        Batch(acquire=request("two")),
                        batch("run:b", 1),
                    ]
                )
            )

            assert [isinstance(result, Receipt) for result in results] == [False, True, True]

        self.tell(where, story)

    def test_renewing_holds_every_lease_of_a_holder(self, where: str) -> None:
        async def story(store: Store) -> None:
            token = await acquire(store, request("one", ttl_us=100))
            await store.renew("one", until=LeaseEnd(1_000))

            with refuses(LeaseHeld):
                await acquire(store, request("two", now_us=999))
            await store.append(fenced_batch(token, 1))
            await acquire(store, request("two", now_us=1_000))
            await store.renew("one", until=LeaseEnd(9_000))
            await acquire(store, request("three", now_us=1_100))

        self.tell(where, story)

    def test_renewing_some_leases_lets_the_others_end(self, where: str) -> None:
        async def story(store: Store) -> None:
            other = stream("run:b")
            await acquire(store, request("one", ttl_us=100))
            await acquire(store, replace(request("one", ttl_us=100), stream=other))
            await store.renew("one", until=LeaseEnd(1_000), streams=[other])

            await acquire(store, request("two", now_us=101))
            with refuses(LeaseHeld):
                await acquire(store, replace(request("two", now_us=101), stream=other))

        self.tell(where, story)

    def test_leases_and_appends_do_not_race(self, where: str) -> None:
        """Hole 13: of many takers one holds at a time, and each write is by who held then."""

        async def story(store: Store) -> None:
            async def worker(name: str) -> int:
                written = 0
                for turn in range(8):
                    try:
                        token = await acquire(store, request(name, now_us=turn, ttl_us=1))
                        await store.append(fenced_batch(token, 1))
                        written += 1
                    except (LeaseHeld, LeaseLost):
                        continue
                return written

            written = await asyncio.gather(*(worker(f"w{n}") for n in range(10)))

            assert (await store.head(RUN))[0] == sum(written) > 0

        self.tell(where, story)

    def test_two_openers_see_each_others_leases(self, where: str) -> None:
        async def story(one: Store) -> None:
            two = self.make_store(where, (TALLY,))
            try:
                old = await acquire(one, request("one"))
                await one.append(fenced_batch(old, 1))
                with refuses(LeaseHeld):
                    await acquire(two, request("two"))
                new = await acquire(two, request("two", now_us=100))
                with refuses(LeaseLost):
                    await one.append(fenced_batch(old, 2))
                await two.append(fenced_batch(new, 3))
            finally:
                two.close()

        self.tell(where, story)

    def test_holders_that_vanish_without_progress_are_counted(self, where: str) -> None:
        """Progress, a release and a new claim of the same holder end or keep the count."""

        async def story(store: Store) -> None:
            done, excused, turn = [0], set[str](), [0]

            async def stalled(holder: str) -> int:
                def progress(tx: Tx) -> int:
                    return done[0]

                def is_excused(tx: Tx, other: str) -> bool:
                    return other in excused

                turn[0] += 1000
                wanted = request(holder, now_us=turn[0])
                wanted = replace(wanted, progress=progress, is_excused=is_excused)
                receipt = await store.append(Batch(acquire=wanted))
                tokens.append(receipt.lease_token or 0)
                return receipt.stalled

            tokens: list[int] = []
            counts = [await stalled(holder) for holder in ("one", "two", "two", "three")]
            done[0] += 1
            counts += [await stalled("four"), await stalled("five")]
            excused.add("five")
            counts += [await stalled("six"), await stalled("seven")]
            await store.append(Batch(release=Fence(stream=RUN, token=tokens[-1])))
            counts.append(await stalled("eight"))

            assert counts == [0, 1, 1, 2, 0, 1, 1, 2, 0]

        self.tell(where, story)


# Several openers of one store: what one commits the others see soon, and nobody overwrites


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
