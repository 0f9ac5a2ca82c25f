"""A file of memories beside a kernel: sealed under its vault key, with placeholders of its vault.

What a placeholder stands for is durable in the kernel's store before the file names it, so that whoever may
see values there sees those of memories, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from artelier.log import Batch, DataKey, Receipt, SqliteStore, View

if TYPE_CHECKING:
    from artelier.kernel.policy import ScrubberOf
    from artelier.kernel.run.services import Services
    from artelier.log.blobs import Scrub


def keep_beside(services: Services, store: object) -> None:
    """Have memories in a file of their own kept as a kernel's store keeps content: sealed, and replaced."""
    beside = getattr(store, "beside", None)
    if beside is not None:
        beside(services.store, services.personal)


class StoreBeside(SqliteStore):
    """A store whose content and names pass the scrubbers of another."""

    def __init__(
        self, path: str | Path, views: Sequence[View], *, home: SqliteStore, scrubber_of: ScrubberOf
    ) -> None:
        """`home`: the kernel's store, which the scrubbers belong to."""
        super().__init__(path, views, sealer=home.keyring.sealer)
        self._home, self._scrubber_of = home, scrubber_of
        self.keyring.scrub_of = self._net_of

    def _net_of(self, tenant: str, key: DataKey) -> Scrub:
        from artelier.pii.scrubber_registry import (
            Net,  # as the kernel does where personal data is replaced alone
        )

        return Net(lambda: self._scrubber_of(tenant))

    async def data_key(self, tenant: str, subject: str | None = None) -> DataKey:
        await self._home.data_key(tenant)  # a scrubber needs it
        return await super().data_key(tenant, subject)

    async def append(self, batch: Batch) -> Receipt:
        if self._home.names is not None:
            batch = self._home.names.admit(batch)
        vault = [*batch.vault, *(secret for blob in batch.blobs for secret in blob.vault)]
        if vault:
            await self._home.append(Batch(vault=vault))
            blobs = [blob._replace(vault=()) for blob in batch.blobs]
            batch = replace(batch, blobs=blobs, vault=())
        return await super().append(batch)
