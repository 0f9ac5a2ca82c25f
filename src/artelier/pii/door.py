"""The one place that gives each tenant its scrubber, and hangs it where content is named."""

from __future__ import annotations

from collections.abc import Sequence

from artelier.log import DataKey, SqliteStore
from artelier.log.blobs import Scrub, Secret
from artelier.log.contract import Row
from artelier.pii.detectors import pattern
from artelier.pii.scrubber import Scrubber
from artelier.pii.vault import PATTERNS_SQL, Vault
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
        self._patterns: dict[str, list[Row]] = {}
        """Of each scrubber: the patterns of its tenant that it was made with."""
        store.keyring.scrub_of = self._net_of
        store.on_keys.append(self._scrubbers.clear)

    def scrubber_of(self, tenant: str) -> Scrubber:
        """The tenant's scrubber. Its key must have been asked for before (opening a tenant does)."""
        found = self._scrubbers.get(tenant)
        patterns = self._store.look(PATTERNS_SQL, (tenant,))
        if found is None or patterns != self._patterns.get(tenant):
            rows = self._store.look(
                "SELECT key_id, secret FROM keys WHERE tenant = ? AND subject IS NULL"
                " ORDER BY key_id LIMIT 1",
                (tenant,),
            )
            secret = self._store.keyring.secret_of(tenant, rows[0][1])
            vault = Vault(tenant, DataKey(rows[0][0], secret), self._sealer, self._store.look)
            more = [pattern(kind, expression) for kind, expression in patterns]
            found = self._scrubbers[tenant] = Scrubber((*self._detectors, *more), vault)
            self._patterns[tenant] = patterns
        return found

    def _net_of(self, tenant: str, key: DataKey) -> Scrub:
        def net(content: bytes) -> tuple[bytes, tuple[Secret, ...]]:
            scrubber = self._scrubbers.get(tenant) or self.scrubber_of(tenant)
            return scrubber.net(content)

        return net

    def forget(self, tenant: str) -> None:
        """Values of this tenant were erased."""
        self._scrubbers.pop(tenant, None)
