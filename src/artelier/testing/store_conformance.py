"""The promises of every store, as one test class; SQLite and PostgreSQL pass it.

class TestMyStore(StoreConformance):
    @pytest.fixture
    def where(self, tmp_path):                       # a fresh place for each test
        return str(tmp_path / "state.db")

    def make_store(self, where, views):
        return MyStore(where, views)
"""

from __future__ import annotations

from artelier.testing.conformance.batches import BatchPromises
from artelier.testing.conformance.erasure import CollectingPromises, ContentPromises, ErasingPromises
from artelier.testing.conformance.leases import LeasePromises, PeerPromises
from artelier.testing.conformance.views import TurnPromises, ViewPromises


class StoreConformance(
    BatchPromises,
    LeasePromises,
    ContentPromises,
    ErasingPromises,
    CollectingPromises,
    TurnPromises,
    ViewPromises,
    PeerPromises,
):
    """Inherit it, define `make_store`, and give a fixture `where` that names a fresh place."""


__all__ = ["StoreConformance"]
