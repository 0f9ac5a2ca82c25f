"""Keys can be dropped and garbage can go: content with them, in every process, and nothing else."""

from __future__ import annotations

import os
from collections.abc import Sequence

from artelier.errors import Erased, InvalidArguments, InvalidRequest, LeaseHeld, NotFound
from artelier.log import (
    Batch,
    Blob,
    ContentErased,
    DataKey,
    Draft,
    Erasing,
    LeaseRequest,
    Store,
    StreamAppend,
    Tx,
    blob_name,
    make_blob,
    tenant_stream,
)
from artelier.log.blobs import Secret
from artelier.log.queries import sealed_values
from artelier.testing.conformance.stage import StoreHarness, noted_draft, refuses, stream
from artelier.testing.conformance.view import TALLY

ANA, BEN = "customer-ana", "customer-ben"
PLACEHOLDERS = ("<EMAIL_ANAANA>", "<EMAIL_BENBEN>")


async def keep_content(
    store: Store,
    content: bytes,
    *,
    subject: str | None = None,
    tenant: str = "acme",
    local: str = "run:a",
    vault: Sequence[Secret] = (),
) -> Blob:
    """Content that an event refers to."""
    ref, blob = make_blob(tenant, await store.data_key(tenant, subject), content)
    append = StreamAppend(stream(local, tenant=tenant), (noted_draft(content=ref),))
    await store.append(Batch(appends=(append,), blobs=(blob._replace(vault=tuple(vault)),)))
    return blob


async def key_id_of(store: Store, subject: str | None, *, tenant: str = "acme") -> int:
    key_id = (await store.data_key(tenant, subject)).key_id
    assert key_id is not None
    return key_id


def record(wanted: Erasing) -> Batch:
    """Return what an erasure is recorded with."""
    data = ContentErased(keys=wanted.keys, whole=wanted.whole, values=len(wanted.placeholders), upto_key=100)
    append = StreamAppend(tenant_stream(wanted.tenant), (Draft(data, 1_000, "operator"),))
    return Batch(appends=(append,))


class ErasingPromises(StoreHarness):
    def test_each_subject_has_a_key_that_stays(self, where: str) -> None:
        seen: list[list[DataKey]] = []

        async def story(store: Store) -> None:
            keys = [await store.data_key("acme", subject) for subject in (None, ANA, BEN)]
            keys.append(await store.data_key("other", ANA))
            seen.append(keys)
            assert len({key.key_id for key in keys}) == len({key.secret for key in keys}) == 4
            assert await store.key_by_id("acme", keys[1].key_id) == keys[1]
            assert await store.key_by_id("acme", 10_000) is None
            assert await store.key_by_id("acme", None) == DataKey(None, b"")

        self.tell(where, story, story)

        assert seen[0] == seen[1]

    def test_a_blob_says_which_key_and_which_subject_it_is_of(self, where: str) -> None:
        async def story(store: Store) -> None:
            plain, ana = await keep_content(store, b"plain"), await keep_content(store, b"ana", subject=ANA)
            key = await store.data_key("acme", ANA)

            assert await store.key_of("acme", plain.name) == await store.data_key("acme")
            assert await store.key_of("acme", ana.name) == key
            assert await store.subject_key_of("acme", ana.name) == key
            for tenant, name in (("acme", plain.name), ("other", ana.name), ("acme", bytes(32))):
                assert await store.subject_key_of(tenant, name) is None
            assert await store.key_of("other", ana.name) is None

        self.tell(where, story)

    def test_what_is_erased_goes_with_its_key_and_nothing_else_does(self, where: str) -> None:
        names: dict[str, bytes] = {}

        async def erase(store: Store) -> None:
            secrets = [
                Secret("acme", placeholder, bytes([n]) * 32, 0, None, b"sealed")
                for n, placeholder in enumerate(PLACEHOLDERS)
            ]
            ana = [await keep_content(store, f"ana {n}".encode(), subject=ANA) for n in range(3)]
            ben = await keep_content(store, b"ben", subject=BEN, vault=secrets)
            names.update(ana=ana[0].name, ben=ben.name)
            names["other"] = (await keep_content(store, b"ana", subject=ANA, tenant="other")).name
            events = await store.read_all()
            keys = (await key_id_of(store, ANA),)
            wanted = Erasing(tenant="acme", keys=keys, placeholders=PLACEHOLDERS[:1])
            would, count = await store.measure(wanted), store.erasures()

            done = await store.erase(wanted, record=record(wanted))

            assert done == would
            assert (done.keys, done.blobs, done.size_bytes, done.values) == (1, 3, 15, 1)
            assert store.erasures() > count
            assert await store.read_all() == [*events, (await store.read(tenant_stream("acme")))[0]]
            await store.shred()

        async def look(store: Store) -> None:
            with refuses(Erased):
                await store.blob("acme", names["ana"])
            assert await store.blobs("acme", [names["ana"], names["ben"]]) == {names["ben"]: b"ben"}
            assert await store.key_of("acme", names["ana"]) is None
            assert await store.subject_key_of("acme", names["ana"]) is None
            assert await store.blob("other", names["other"]) == b"ana"
            sealed = sealed_values(store.look, "acme", PLACEHOLDERS)
            assert [sealed[placeholder] for placeholder in PLACEHOLDERS] == [None, b"sealed"]
            fresh = await keep_content(store, b"ana 0", subject=ANA)
            assert fresh.name != names["ana"]
            assert await store.blob("acme", fresh.name) == b"ana 0"

        self.tell(where, erase, look)

    def test_a_whole_tenant_goes_and_begins_anew(self, where: str) -> None:
        async def story(store: Store) -> None:
            gone = [await keep_content(store, b"plain"), await keep_content(store, b"ana", subject=ANA)]
            theirs = await keep_content(store, b"plain", tenant="other")

            upto_key = max(blob.key_id or 0 for blob in gone)
            wanted = Erasing(tenant="acme", whole=True, upto_key=upto_key)
            await store.data_key("acme", BEN)  # made since: it is not reached
            event = ContentErased(whole=True, upto_key=upto_key)
            append = StreamAppend(tenant_stream("acme"), (Draft(event, 1_000, "operator"),))

            done = await store.erase(wanted, record=Batch(appends=(append,)))

            assert (done.keys, done.blobs) == (2, 2)
            for blob in gone:
                with refuses(Erased):
                    await store.blob("acme", blob.name)
            assert await store.blob("other", theirs.name) == b"plain"
            again = await keep_content(store, b"plain")
            assert again.name != gone[0].name
            assert await store.blob("acme", again.name) == b"plain"

        self.tell(where, story)

    def test_an_erasure_that_is_refused_takes_nothing(self, where: str) -> None:
        def at_work(tx: Tx) -> None:
            raise LeaseHeld("somebody is at work")

        async def story(store: Store) -> None:
            blob = await keep_content(store, b"ana", subject=ANA)
            wanted = Erasing(tenant="acme", keys=(await key_id_of(store, ANA),))
            count = store.erasures()
            with refuses(LeaseHeld):
                await store.erase(wanted, record=Batch(guard=at_work))
            with refuses(InvalidArguments):
                await store.erase(
                    wanted, record=Batch(appends=(StreamAppend(stream("erasures"), (noted_draft(-1),)),))
                )

            assert store.erasures() == count
            assert await store.blob("acme", blob.name) == b"ana"
            assert not await store.read(tenant_stream("acme"))

        self.tell(where, story)

    def test_nothing_is_stored_under_a_key_that_is_gone(self, where: str) -> None:
        async def story(store: Store) -> None:
            key = await store.data_key("acme", ANA)
            _, late = make_blob("acme", key, b"late")
            await keep_content(store, b"early", subject=ANA)
            events = await store.read(stream("run:a"))
            wanted = Erasing(tenant="acme", keys=(await key_id_of(store, ANA),))
            await store.erase(wanted, record=record(wanted))

            append = StreamAppend(stream("run:a"), (noted_draft(),))
            with refuses(Erased):
                await store.append(Batch(appends=(append,), blobs=(late,)))

            assert await store.read(stream("run:a")) == events
            with refuses(NotFound):
                await store.blob("acme", late.name)

        self.tell(where, story)

    def test_another_opener_learns_of_it_at_once(self, where: str) -> None:
        async def story(one: Store) -> None:
            two = self.make_store(where, (TALLY,))
            try:
                blob = await keep_content(two, b"ana", subject=ANA)
                key = await two.data_key("acme", ANA)
                assert await two.blob("acme", blob.name) == b"ana"
                count, told = two.erasures(), [0]
                two.on_keys.append(lambda: told.append(1))
                wanted = Erasing(tenant="acme", keys=(await key_id_of(one, ANA),))
                await one.erase(wanted, record=record(wanted))

                with refuses(Erased):
                    await two.blob("acme", blob.name)
                assert two.erasures() > count and len(told) > 1
                with refuses(Erased):
                    await two.append(Batch(blobs=(make_blob("acme", key, b"late")[1],)))
                assert (await two.data_key("acme", ANA)).key_id != key.key_id
            finally:
                two.close()

        self.tell(where, story)

    def test_a_new_subject_is_no_erasure(self, where: str) -> None:
        async def story(store: Store) -> None:
            await store.data_key("acme")
            count, told = store.erasures(), [0]
            store.on_keys.append(lambda: told.append(1))
            await keep_content(store, b"ana", subject=ANA)
            await keep_content(store, b"plain")
            below = await store.data_key("acme", ANA)
            (part,) = await store.part_keys("acme", below, count=1)
            assert part.key_id != below.key_id
            await store.data_key("acme")
            assert store.erasures() == count and told == [0]

        self.tell(where, story)

    def test_each_part_has_a_key_of_its_own_and_none_comes_below_one_that_is_gone(self, where: str) -> None:
        async def story(one: Store) -> None:
            two = self.make_store(where, (TALLY,))
            try:
                below, other = await one.data_key("acme", ANA), await one.data_key("acme")
                made: list[DataKey] = []
                for store in (one, two, one, two):
                    for count in (1, 2, 40):
                        found = await store.part_keys("acme", below, count=count)
                        assert len(found) == count
                        made += found
                made += await one.part_keys("acme", other, count=3)
                assert len({key.key_id for key in made}) == len(made)
                wanted = Erasing(tenant="acme", keys=(await key_id_of(one, ANA),))
                await one.erase(wanted, record=record(wanted))
                for store in (one, two):
                    with refuses(Erased):
                        await store.part_keys("acme", below, count=1)
                    assert len(await store.part_keys("acme", other, count=1)) == 1
            finally:
                two.close()

        self.tell(where, story)

    def test_keys_that_another_opener_makes_are_no_erasure(self, where: str) -> None:
        async def story(one: Store) -> None:
            two = self.make_store(where, (TALLY,))
            try:
                await keep_content(one, b"ana", subject=ANA)
                await two.data_key("acme")
                count, told = two.erasures(), [0]
                two.on_keys.append(lambda: told.append(1))
                await one.part_keys("acme", await one.data_key("acme", ANA), count=3)
                await two.data_key("acme")
                await keep_content(two, b"plain")
                assert two.erasures() == count and told == [0]

                wanted = Erasing(tenant="acme", keys=(await key_id_of(one, ANA),))
                await one.erase(wanted, record=record(wanted))
                await keep_content(two, b"plain again")
                assert two.erasures() > count and len(told) > 1
            finally:
                two.close()

        self.tell(where, story)


class CollectingPromises(StoreHarness):
    def test_garbage_goes_and_what_is_referred_to_stays(self, where: str) -> None:
        async def story(store: Store) -> None:
            key = await store.data_key("acme")
            deep_ref, deep = make_blob("acme", key, b"deep")
            mid_ref, middle = make_blob("acme", key, b'{"at": "%s"}' % deep_ref.encode())
            await store.append(Batch(blobs=(deep, middle)))
            root = await keep_content(store, b'["%s"]' % mid_ref.encode())
            _, garbage = make_blob("acme", key, b"nobody needs this")
            _, foreign = make_blob("other", await store.data_key("other"), b"nor this")
            await store.append(Batch(blobs=(garbage, foreign)))
            events = await store.read_all()

            would = await store.collect(now_us=2_000, dry=True)
            assert await store.blob("acme", garbage.name) == b"nobody needs this"
            done = await store.collect(now_us=2_000)

            assert would.blobs == done.blobs == 2 and would.size_bytes == done.size_bytes > 0
            for tenant, name in (("acme", garbage.name), ("other", foreign.name)):
                with refuses(NotFound):
                    await store.blob(tenant, name)
            for blob in (root, middle, deep):
                assert await store.blob("acme", blob.name) == blob.content
            assert await store.read_all() == events
            assert (await store.collect(now_us=2_000)).blobs == 0

        self.tell(where, story)

    def test_garbage_of_a_tenant_at_work_is_left(self, where: str) -> None:
        async def story(store: Store) -> None:
            _, garbage = make_blob("acme", await store.data_key("acme"), b"not yet referred to")
            wanted = LeaseRequest(stream=stream("run:a"), holder="h", now_us=1_000, ttl_us=1_000_000)
            await store.append(Batch(blobs=(garbage,), acquire=wanted))

            found = await store.collect(now_us=2_000)
            assert (found.blobs, found.busy) == (0, ("acme",))
            assert await store.blob("acme", garbage.name) == b"not yet referred to"
            assert (await store.collect(now_us=2_000, is_driving=lambda holder, end: False)).blobs == 1

        self.tell(where, story)


# Blobs: stored once per tenant, exactly as given, hidden from other tenants, named by a key


class ContentPromises(StoreHarness):
    def test_content_comes_back_exactly(self, where: str) -> None:
        contents = [b"", b"x", b"\x00\xff" * 10, b"text " * 10_000, os.urandom(50_000)]

        async def write(store: Store) -> None:
            key = await store.data_key("acme")
            blobs = [make_blob("acme", key, content)[1] for content in contents]
            await store.append(Batch(blobs=blobs))
            await store.append(Batch(blobs=blobs))

        async def read(store: Store) -> None:
            key = await store.data_key("acme")
            for content in contents:
                ref, blob = make_blob("acme", key, content)
                assert blob_name(ref) == blob.name
                assert await store.blob("acme", blob.name) == content

        self.tell(where, write, read)

    def test_the_same_bytes_have_one_address_within_a_tenant_only(self, where: str) -> None:
        async def story(store: Store) -> None:
            mine, theirs = await store.data_key("acme"), await store.data_key("other")
            first, again = make_blob("acme", mine, b"same"), make_blob("acme", mine, b"same")

            assert first == again
            assert first[0] != make_blob("other", theirs, b"same")[0]
            assert await store.data_key("acme") == mine

        self.tell(where, story)

    def test_another_tenants_content_is_not_there(self, where: str) -> None:
        async def story(store: Store) -> None:
            _, blob = make_blob("acme", await store.data_key("acme"), b"secret")
            await store.append(Batch(blobs=(blob,)))

            for tenant, name in (("other", blob.name), ("acme", bytes(32)), ("", blob.name)):
                with refuses(NotFound):
                    await store.blob(tenant, name)

        self.tell(where, story)

    def test_content_of_a_refused_batch_is_not_kept(self, where: str) -> None:
        async def story(store: Store) -> None:
            _, blob = make_blob("acme", await store.data_key("acme"), b"x")
            with refuses(InvalidArguments):
                await store.append(
                    Batch(appends=(StreamAppend(stream("run:a"), (noted_draft(-1),)),), blobs=(blob,))
                )

            with refuses(NotFound):
                await store.blob("acme", blob.name)

        self.tell(where, story)

    def test_a_key_is_made_once_however_many_ask(self, where: str) -> None:
        keys: list[object] = []

        async def story(store: Store) -> None:
            import asyncio

            keys.extend(await asyncio.gather(*(store.data_key("acme") for _ in range(20))))

        self.tell(where, story, story)

        assert len(set(keys)) == 1

    def test_what_is_no_reference_is_refused(self, where: str) -> None:
        good = "b:" + "A" * 43
        assert blob_name(good) == bytes(32)
        for ref in ("", "b:", "b:" + "A" * 42, "b:" + "*" * 43, "b:" + "é" * 43, "c" + good[1:]):
            with refuses(InvalidRequest):
                blob_name(ref)
