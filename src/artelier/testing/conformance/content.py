"""Blobs: stored once per tenant, exactly as given, hidden from other tenants, named by a key."""

from __future__ import annotations

import os

from artelier.errors import InvalidArguments, InvalidRequest, NotFound
from artelier.log import Batch, Store, StreamAppend, blob_name, make_blob
from artelier.testing.conformance.stage import StoreHarness, noted_draft, refuses, stream


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
