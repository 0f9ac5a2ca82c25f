"""The one place that gives each tenant its scrubber, and hangs it where content is named."""

from __future__ import annotations

from collections.abc import Sequence

from artelier.log import DataKey, SqliteStore
from artelier.log.blobs import Scrub
from artelier.pii.scrubber import Scrubber
from artelier.pii.vault import Vault
from artelier.ports.pii import Detector


class PersonalData:
    """Scrubbers of the tenants of a store. Every blob passes one before it is named."""

    def __init__(self, store: SqliteStore, detectors: Sequence[Detector]) -> None:
        """`store` has a vault key."""
        self._store = store
        assert store.keyring.sealer is not None
        self._sealer = store.keyring.sealer
        self._detectors = tuple(detectors)
        self._scrubbers: dict[str, Scrubber] = {}
        store.keyring.scrub_of = self._net_of

    def scrubber_of(self, tenant: str) -> Scrubber:
        """The tenant's scrubber. Its key must have been asked for before (opening a tenant does)."""
        found = self._scrubbers.get(tenant)
        if found is None:
            rows = self._store.look(
                "SELECT key_id, secret FROM keys WHERE tenant = ? AND subject IS NULL"
                " ORDER BY key_id LIMIT 1",
                (tenant,),
            )
            secret = self._store.keyring.secret_of(tenant, rows[0][1])
            vault = Vault(tenant, DataKey(rows[0][0], secret), self._sealer, self._store.look)
            found = self._scrubbers[tenant] = Scrubber(self._detectors, vault)
        return found

    def _net_of(self, tenant: str, key: DataKey) -> Scrub:
        return lambda content: self.scrubber_of(tenant).net(content)

    def forget(self, tenant: str) -> None:
        """Values of this tenant were erased."""
        self._scrubbers.pop(tenant, None)
