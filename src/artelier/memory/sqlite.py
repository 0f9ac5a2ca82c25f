"""Memories in a file of their own: the same implementation over a complete Artelier database."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from artelier.artifacts import MOVING as ARTIFACT_MOVING
from artelier.artifacts import artifacts_view
from artelier.clock import Clock, SystemClock
from artelier.errors import InvalidConfig, StoreClosed
from artelier.kernel import CAPPING, MOVING, kernel_view
from artelier.kernel.policy import ScrubberOf
from artelier.kernel.tenants.view import erasure_view
from artelier.ledger import MoneyTransferred, ledger_view
from artelier.log import Batch, DataKey, Receipt, SqliteStore, Store, View
from artelier.memory.blocks import DEFAULT_BLOCKS
from artelier.memory.store import MAX_ENTRIES, LogMemory, LogMemoryStore
from artelier.memory.view import memory_view
from artelier.pii.vault import sealer_from
from artelier.ports.memory import Embedder
from artelier.tools.skills.view import skills_view

if TYPE_CHECKING:
    from artelier.kernel.policy import ScrubberOf
    from artelier.kernel.run.services import Services
    from artelier.log.blobs import Scrub


# --------------------------------------------------------------------------- sealed sidecar store
# A file of memories beside a kernel: sealed under its vault key, with placeholders of its vault.
# What a placeholder stands for is durable in the kernel's store before the file names it, so that whoever
# may see values there sees those of memories, too.


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


# --------------------------------------------------------------------------- sqlite


VIEWS: tuple[View, ...] = (
    ledger_view([*MOVING, *ARTIFACT_MOVING, MoneyTransferred], CAPPING),
    kernel_view,
    artifacts_view,
    skills_view,
    memory_view,
    erasure_view,
)
"""Some of a kernel's store, in its order, so that its commands read, verify and show such a file as well."""


class SQLiteMemoryStore:
    """The memories of agents in one SQLite file, which several processes may share.

    It is opened on first use and holds the log of every change; `artelier verify --db FILE` checks it. With
    a vault key (that of the kernel whose agents remember here, else ARTELIER_VAULT_KEY) it is sealed.
    """

    def __init__(
        self,
        db_path: str | Path = "agent_memory.db",
        *,
        embedder: Embedder | str = "hashing",
        clock: Clock | None = None,
        blocks: Mapping[str, int] = DEFAULT_BLOCKS,
        max_entries: int = MAX_ENTRIES,
        auto_prune: str = "oldest",
    ) -> None:
        """See `LogMemoryStore` for what the options mean."""
        self.path = Path(db_path)
        self._embedder = embedder
        self._clock = clock or SystemClock()
        self._blocks = blocks
        self._max_entries = max_entries
        self._auto_prune = auto_prune
        self._opened: tuple[SqliteStore, LogMemoryStore] | None = None
        self._closed = False
        self._lock = threading.Lock()
        self._beside: tuple[SqliteStore, ScrubberOf | None] | None = None

    def beside(self, store: Store, scrubber_of: ScrubberOf | None) -> None:
        """Keep what the agents of a kernel remember as its `store` keeps it: sealed, personal data replaced.

        `scrubber_of` is None where its policy does not ask for that. Errors: `InvalidConfig` for memories
        that are in use elsewhere, where nothing or something else is replaced.
        """
        if not isinstance(store, SqliteStore):
            return
        with self._lock:
            home, had = self._beside or (None, None)
            if home is store:
                return
            if had is None and scrubber_of is None:
                self._beside = self._beside or (store, None)
                return
            if self._opened is not None and home is not None and home.is_closed:
                self._opened[0].close()  # with its kernel
                self._opened = None
            if self._opened is None:
                self._beside = (store, scrubber_of)
                return
        raise InvalidConfig(
            "these memories are in use elsewhere, and personal data is to be replaced in them",
            expected="a SQLiteMemoryStore for each kernel, given to an agent before its first use",
            got=str(self.path),
        )

    def _open(self) -> LogMemoryStore:
        with self._lock:
            if self._closed:
                raise StoreClosed("this memory store is closed", got=str(self.path))
            if self._opened is None:
                store = self._store()
                memories = LogMemoryStore(
                    store,
                    self._clock,
                    embedder=self._embedder,
                    blocks=self._blocks,
                    max_entries=self._max_entries,
                    auto_prune=self._auto_prune,
                    is_apart=True,
                )
                self._opened = (store, memories)
            return self._opened[1]

    def _store(self) -> SqliteStore:
        home, scrubber_of = self._beside or (None, None)
        if home is None:
            return SqliteStore(self.path, VIEWS, sealer=sealer_from(os.environ))
        if scrubber_of is None:
            return SqliteStore(self.path, VIEWS, sealer=home.keyring.sealer)
        return StoreBeside(self.path, VIEWS, home=home, scrubber_of=scrubber_of)

    def settings(self) -> dict[str, Any]:
        """JSON data by which another process finds the same memories."""
        named = self._embedder
        name = named if isinstance(named, str) else named.name
        blocks = dict(self._blocks)
        return {"sqlite": str(self.path.absolute()), "embedder": name, "blocks": blocks}

    @property
    def store(self) -> Store:
        """The log behind it."""
        return self._open().store

    def for_agent(self, tenant: str, agent_id: str) -> LogMemory:
        """The memory of an agent. Errors: `InvalidRequest`; those of opening a store."""
        return self._open().for_agent(tenant, agent_id)

    async def agents(self, tenant: str, *, limit: int = 1_000) -> list[tuple[str, int]]:
        """`(agent id, living entries)` of every memory that was opened, by agent id."""
        return await self._open().agents(tenant, limit=limit)

    def close(self) -> None:
        """Commit what is queued and close the file. Closing twice is harmless."""
        with self._lock:
            self._closed = True
            opened, self._opened = self._opened, None
        if opened is not None:
            opened[0].close()

    def __enter__(self) -> SQLiteMemoryStore:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
