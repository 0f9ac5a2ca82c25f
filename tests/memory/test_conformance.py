"""Both shipped memory stores keep every promise of a memory store."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from artelier.app import VIEWS
from artelier.clock import SystemClock
from artelier.log import SqliteStore
from artelier.memory import LogMemoryStore, SQLiteMemoryStore
from artelier.testing.memory_conformance import MemoryConformance


class TestOverTheKernelsStore(MemoryConformance):
    @pytest.fixture
    def where(self, tmp_path: Path) -> str:
        return str(tmp_path / "state.db")

    def open_memories(self, where: str, *, embedder: Any = "hashing", **options: Any) -> LogMemoryStore:
        store = SqliteStore(where, VIEWS)
        return LogMemoryStore(store, SystemClock(), embedder=embedder, **options)

    def close_memories(self, memories: LogMemoryStore) -> None:
        store = memories.store
        assert isinstance(store, SqliteStore)
        store.close()


class TestInAFileOfItsOwn(MemoryConformance):
    @pytest.fixture
    def where(self, tmp_path: Path) -> str:
        return str(tmp_path / "agent_memory.db")

    def open_memories(self, where: str, *, embedder: Any = "hashing", **options: Any) -> SQLiteMemoryStore:
        return SQLiteMemoryStore(where, embedder=embedder, **options)

    def close_memories(self, memories: SQLiteMemoryStore) -> None:
        memories.close()
