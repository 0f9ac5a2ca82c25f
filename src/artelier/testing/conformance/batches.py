"""Batches: whole or not at all, in order, without gaps, refused alone, durable, cancellable."""

from __future__ import annotations

import asyncio

from artelier.errors import (
    ArtelierError,
    InvalidArguments,
    InvalidEvent,
    SequenceConflict,
    StoreClosed,
    UnknownEvent,
)
from artelier.log import GENESIS, Batch, Draft, RawDraft, Receipt, Store, StreamAppend, Tx
from artelier.testing.conformance.stage import StoreHarness, batch, noted_draft, refuses, settle_all, stream
from artelier.testing.conformance.view import Grown, Noted, total, total_in


class BatchPromises(StoreHarness):
    def test_a_batch_over_several_streams_is_whole(self, where: str) -> None:
        async def story(store: Store) -> None:
            receipt = await store.append(
                Batch(
                    appends=(
                        StreamAppend(stream("run:a"), (noted_draft(1), noted_draft(2)), 0),
                        StreamAppend(stream("run:b"), (noted_draft(3),), 0),
                        StreamAppend(stream("run:a"), (noted_draft(4),), 2),
                    )
                )
            )

            assert (receipt.seqs, receipt.position) == ((2, 1, 3), 4)
            events = await store.read_all()
            assert [(e.stream.local, e.seq, e.position) for e in events] == [
                ("run:a", 1, 1),
                ("run:a", 2, 2),
                ("run:b", 1, 3),
                ("run:a", 3, 4),
            ]
            assert [e.decode() for e in events] == [Noted(number=n) for n in (1, 2, 3, 4)]
            assert (await total(store, "run:a"), await total(store, "run:b")) == (7, 3)

        self.tell(where, story)

    def test_a_batch_with_one_refused_part_is_not_there_at_all(self, where: str) -> None:
        async def story(store: Store) -> None:
            await store.append(batch("run:b", 1))
            for last, kind in (
                (StreamAppend(stream("run:b"), (noted_draft(1),), 0), SequenceConflict),
                (StreamAppend(stream("run:b"), (noted_draft(-9),)), InvalidArguments),
            ):
                with refuses(kind):
                    await store.append(
                        Batch(appends=(StreamAppend(stream("run:a"), (noted_draft(5),)), last))
                    )

            assert await store.head(stream("run:a")) == (0, GENESIS)
            assert await total(store, "run:a") is None
            assert len(await store.read_all()) == 1
            assert (await store.append(batch("run:a", 1, expected=0))).position == 2

        self.tell(where, story)

    def test_an_append_without_events_makes_no_stream_and_checks_its_sequence(self, where: str) -> None:
        async def story(store: Store) -> None:
            nothing = Batch(appends=(StreamAppend(stream("run:a"), (), 0),))
            assert (await store.append(nothing)).seqs == (0,)
            await store.append(batch("run:a", 1, expected=0))

            with refuses(SequenceConflict):
                await store.append(nothing)
            assert (await store.append(Batch())).position == 1

        self.tell(where, story)

    def test_a_stale_sequence_is_refused_with_both_numbers(self, where: str) -> None:
        async def story(store: Store) -> None:
            await store.append(batch("run:a", 1, 2, 3, expected=0))

            for expected in (0, 2, 4):
                with refuses(SequenceConflict) as caught:
                    await store.append(batch("run:a", 4, expected=expected))
                assert (caught.error.expected, caught.error.got) == (expected, 3)
            assert (await store.append(batch("run:a", 4, expected=3))).seqs == (4,)

        self.tell(where, story)

    def test_a_refused_batch_fails_alone_among_its_neighbours(self, where: str) -> None:
        async def story(store: Store) -> None:
            def never(tx: Tx) -> None:
                raise InvalidArguments("the guard says no")

            guarded = Batch(appends=batch("run:c", 1).appends, guard=never)
            results = await settle_all(
                store.submit_all(
                    [
                        batch("run:a", 1, expected=0),
                        batch("run:a", 1, expected=0),
                        batch("run:b", -1),
                        guarded,
                        batch("run:b", 2, expected=0),
                        batch("run:a", 1, expected=1),
                    ]
                )
            )

            kinds = [type(result) for result in results]
            assert kinds == [Receipt, SequenceConflict, InvalidArguments, InvalidArguments, Receipt, Receipt]
            assert [e.position for e in await store.read_all()] == [1, 2, 3]
            assert (await total(store, "run:a"), await total(store, "run:b")) == (2, 2)

        self.tell(where, story)

    def test_a_guard_reads_what_earlier_batches_wrote(self, where: str) -> None:
        async def story(store: Store) -> None:
            seen: list[int] = []

            def look(tx: Tx) -> None:
                sum_now = total_in(tx, stream("run:a"))
                seen.append(-1 if sum_now is None else sum_now)

            await settle_all(store.submit_all([batch("run:a", 7), Batch(guard=look), batch("run:a", 1)]))
            await store.append(Batch(guard=look))

            assert seen == [7, 8]

        self.tell(where, story)

    def test_batches_apply_in_the_order_of_their_submission(self, where: str) -> None:
        async def story(store: Store) -> None:
            results = await settle_all([store.submit(batch("run:a", n)) for n in range(200)])

            assert [r.seqs[0] for r in results if isinstance(r, Receipt)] == list(range(1, 201))
            numbers = [e.plain().get("number", 0) for e in await store.read_all()]
            assert numbers == list(range(200))

        self.tell(where, story)

    def test_fifty_appenders_at_once_leave_no_gap(self, where: str) -> None:
        async def story(store: Store) -> None:
            async def appender(n: int) -> None:
                for turn in range(6):
                    local = f"run:{(n + turn) % 7}"
                    try:
                        expected = turn if turn % 3 == 2 else None
                        number = -1000 if turn == 4 else 1
                        await store.append(batch(local, number, 1, expected=expected))
                    except ArtelierError:
                        continue

            await asyncio.gather(*(appender(n) for n in range(50)))

            events = await store.read_all()
            assert [e.position for e in events] == list(range(1, len(events) + 1))
            for local in {e.stream.local for e in events}:
                history = await store.read(stream(local))
                assert [e.seq for e in history] == list(range(1, len(history) + 1))
                before = [GENESIS, *(e.hash for e in history)]
                assert [e.prev_hash for e in history] == before[:-1]
                assert await total(store, local) == len(history)
            assert len(events) >= 50 * 3 * 2

        self.tell(where, story)

    def test_what_was_appended_is_there_after_reopening(self, where: str) -> None:
        kept: list[object] = []

        async def write(store: Store) -> None:
            await store.append(batch("run:a", 1, 2))
            kept.extend([await store.read_all(), await store.root(), await store.head(stream("run:a"))])

        async def read(store: Store) -> None:
            assert [await store.read_all(), await store.root(), await store.head(stream("run:a"))] == kept
            assert (await store.append(batch("run:a", 3, expected=2))).position == 3
            assert await total(store, "run:a") == 6

        self.tell(where, write, read)

    def test_a_cancelled_append_leaves_the_store_usable(self, where: str) -> None:
        """Hole 13. Whether the cancelled batch is there is open; that it is whole is not."""

        async def story(store: Store) -> None:
            for n in range(20):
                waiting = asyncio.ensure_future(store.append(batch("run:a", 1, 1)))
                for _ in range(n % 4):
                    await asyncio.sleep(0)
                waiting.cancel()
                await asyncio.gather(waiting, return_exceptions=True)
                await store.append(batch("run:b", 1, expected=n))

            seq, _ = await store.head(stream("run:a"))
            assert seq % 2 == 0
            assert await total(store, "run:a") == (seq or None)
            assert (await store.head(stream("run:b")))[0] == 20

        self.tell(where, story)

    def test_a_batch_outlives_the_event_loop_that_asked(self, where: str) -> None:
        async def ask(store: Store) -> None:
            store.submit(batch("run:a", 1))

        async def look(store: Store) -> None:
            await store.append(batch("run:b", 1))
            assert (await store.head(stream("run:a")))[0] == 1

        self.tell(where, ask, look)

    def test_a_closed_store_says_so_and_closes_twice(self, where: str) -> None:
        async def story(store: Store) -> None:
            await store.append(batch("run:a", 1))
            store.close()
            store.close()

            with refuses(StoreClosed):
                await store.append(batch("run:a", 1))
            with refuses(StoreClosed):
                await store.read(stream("run:a"))

        self.tell(where, story)

    def test_a_quiet_tenant_is_read_in_order_between_thousands_of_others(self, where: str) -> None:
        async def story(store: Store) -> None:
            placed, newest = list[int](), 0
            for _ in range(4):
                placed.append((await store.append(batch("run:a", 1))).position)
                for n in range(3):
                    events = (noted_draft(1) for _ in range(400))
                    other = StreamAppend(stream("run:b", tenant=f"other{n}"), tuple(events))
                    newest = (await store.append(Batch(appends=[other]))).position
            assert [e.position for e in await store.read_all(tenant="acme")] == placed
            for after in (0, placed[0], placed[1] - 1, placed[1], placed[2] + 7, placed[3]):
                page = await store.read_all(tenant="acme", after=after, limit=2)
                assert [e.position for e in page] == [p for p in placed if p > after][:2]
            rest = await store.read_all(tenant="other2", after=placed[3], limit=10_000)
            assert [e.position for e in rest] == list(range(newest - 399, newest + 1))

        self.tell(where, story)

    def test_reading_goes_in_pages_and_by_tenant(self, where: str) -> None:
        async def story(store: Store) -> None:
            for n in range(10):
                await store.append(batch("run:a", n, tenant="acme" if n % 2 else "other"))

            first = await store.read_all(limit=4)
            rest = await store.read_all(after=first[-1].position)
            assert [e.position for e in first + rest] == list(range(1, 11))
            mine = await store.read_all(tenant="acme", limit=3)
            assert [e.position for e in mine] == [2, 4, 6]
            more = await store.read_all(tenant="acme", after=6)
            assert [(e.stream.tenant, e.position) for e in more] == [("acme", 8), ("acme", 10)]
            assert await store.read_all(tenant="nobody") == []
            page = await store.read(stream("run:a"), after=1, limit=2)
            assert [e.seq for e in page] == [2, 3]
            assert await store.read(stream("run:gone")) == []

        self.tell(where, story)

    def test_an_event_keeps_all_its_fields(self, where: str) -> None:
        async def story(store: Store) -> None:
            draft = Draft(Noted(number=2**60), -5, "agent:ü", "run:z@3")
            await store.append(Batch(appends=(StreamAppend(stream("run:a", space="world:w"), (draft,)),)))

            (event,) = await store.read(stream("run:a", space="world:w"))
            assert (event.kind, event.version) == ("conformance.noted", 1)
            assert (event.at_us, event.actor, event.cause) == (-5, "agent:ü", "run:z@3")
            assert event.data == b'{"number":1152921504606846976}'
            assert await store.read(stream("run:a")) == []

        self.tell(where, story)

    def test_what_cannot_be_stored_is_refused_clearly_and_alone(self, where: str) -> None:
        async def story(store: Store) -> None:
            bad = [
                Draft(Noted(), 0, "\ud800"),
                Draft(Noted(), 2**70, "tester"),
                Draft(Noted(number=2**70), 0, "tester"),
                RawDraft("conformance.noted", 1, b'{"number":"x"}', 0, "tester"),
                RawDraft("conformance.noted", 1, b"{", 0, "tester"),
                RawDraft("conformance.unknown", 1, b"{", 0, "tester"),
                RawDraft("conformance.unknown", 1, b'{"b": 1, "a": 2}', 0, "tester"),
                RawDraft("conformance.unknown", 1, b"\xff", 0, "tester"),
            ]
            batches = [Batch(appends=(StreamAppend(stream("run:bad"), (d,)),)) for d in bad]
            results = await settle_all(store.submit_all([*batches, batch("run:good", 1)]))

            assert [isinstance(result, ArtelierError) for result in results] == [True] * 8 + [False]
            assert isinstance(results[0], InvalidEvent)
            assert [e.stream.local for e in await store.read_all()] == ["run:good"]

        self.tell(where, story)

    def test_an_unknown_event_is_kept_and_says_so_when_it_is_read(self, where: str) -> None:

        async def story(store: Store) -> None:
            drafts = (
                RawDraft("conformance.unknown", 7, b'{"a":1,"b":[]}', 5, "tester"),
                RawDraft("conformance.noted", 99, b"{}", 5, "tester"),
                noted_draft(1),
            )
            await store.append(Batch(appends=(StreamAppend(stream("run:a"), drafts, 0),)))

            unknown, newer, known = await store.read(stream("run:a"))
            assert unknown.plain() == {"a": 1, "b": []}
            assert newer.version == 99
            for event in (unknown, newer):
                with refuses(UnknownEvent):
                    event.decode()
            assert known.decode() == Noted(number=1)
            assert await total(store, "run:a") == 1

        self.tell(where, story)

    def test_an_old_version_is_upcast_when_it_is_read_and_stored_as_it_came(self, where: str) -> None:
        async def story(store: Store) -> None:
            old = RawDraft("conformance.grown", 1, b'{"size":7}', 5, "tester")
            await store.append(Batch(appends=(StreamAppend(stream("run:a"), (old,)),)))

            (event,) = await store.read(stream("run:a"))
            assert event.decode() == Grown(size_bytes=7)
            assert (event.version, event.data) == (1, b'{"size":7}')

        self.tell(where, story)
