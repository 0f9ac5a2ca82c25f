"""What the vault keeps of values in memory: only what is not stored yet, however many there were."""

from __future__ import annotations

import asyncio
from pathlib import Path

from artelier import Kernel
from artelier.log import make_blob
from artelier.log.contract import Batch
from artelier.pii.vault import PENDING_MAX, Vault

KEY = {"ARTELIER_VAULT_KEY": "a vault key for tests"}


def test_rows_that_are_stored_are_not_kept_for_ever(tmp_path: Path) -> None:
    async def scenario() -> None:
        with Kernel.open(tmp_path / "state.db", environ=KEY) as kernel:
            store = kernel.store
            key = await store.data_key("acme")
            sealer = store.keyring.sealer
            assert sealer is not None
            vault = Vault("acme", key, sealer, store.look)
            named = [
                vault.placeholder_of("EMAIL", f"a{n}@example.org", f"a{n}@example.org")
                for n in range(PENDING_MAX)
            ]
            _, blob = make_blob("acme", key, b'"all of them"')
            rows = vault.unstored_rows(named[1:])
            await store.append(Batch(blobs=[blob._replace(vault=rows)]))

            late = vault.placeholder_of("EMAIL", "late@example.org", "late@example.org")

            assert len(rows) == PENDING_MAX - 1
            assert vault.count_waiting() == 2, "the one that was never stored, and the newest"
            for one, value in ((named[0], "a0"), (named[5], "a5"), (late, "late")):
                assert vault.value_of(one) == f"{value}@example.org"

    asyncio.run(scenario())
