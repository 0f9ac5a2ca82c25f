"""The store on SQLite keeps every promise of a store."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from artelier.log import SqliteStore, View
from artelier.testing.store_conformance import StoreConformance


class TestSqlite(StoreConformance):
    @pytest.fixture
    def where(self, tmp_path: Path) -> str:
        return str(tmp_path / "state.db")

    def make_store(self, where: str, views: Sequence[View]) -> SqliteStore:
        return SqliteStore(where, views)
