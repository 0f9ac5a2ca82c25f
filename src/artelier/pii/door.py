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
        self._vaults: dict[str, tuple[bytes, Vault]] = {}
        """By tenant, with its secret. Runs at work hold a scrubber: what replaces it shares the vault, which
        knows what is not stored yet."""
        self._patterns: dict[str, list[Row]] = {}
        """Of each scrubber: the patterns of its tenant that it was made with."""
        self._changed = 0
        """How often keys or values have gone; counted up from any thread."""
        self._seen: dict[str, int] = {}
        store.keyring.scrub_of = self._net_of
        store.on_keys.append(self._keys_changed)

    def _keys_changed(self) -> None:
        self._changed += 1

    def scrubber_of(self, tenant: str) -> Scrubber:
        """The tenant's scrubber. Its key must have been asked for before (opening a tenant does)."""
        found = self._current(tenant)
        patterns = self._store.look(PATTERNS_SQL, (tenant,))
        if found is None or patterns != self._patterns.get(tenant):
            more = [pattern(kind, expression) for kind, expression in patterns]
            found = Scrubber((*self._detectors, *more), self._vault(tenant))
            self._scrubbers[tenant], self._patterns[tenant] = found, patterns
        return found

    def _current(self, tenant: str) -> Scrubber | None:
        """The scrubber made last, if its key still counts; what it remembers of erased values is dropped."""
        found, now = self._scrubbers.get(tenant), self._changed
        if found is not None and self._seen.get(tenant) != now:
            vault = found.vault
            found.forget()
            if self._vault(tenant) is not vault:
                found = None
        self._seen[tenant] = now
        return found

    def _vault(self, tenant: str) -> Vault:
        rows = self._store.look(
            "SELECT key_id, secret FROM keys WHERE tenant = ? AND subject IS NULL"
            " ORDER BY key_id LIMIT 1",
            (tenant,),
        )
        secret = self._store.keyring.secret_of(tenant, rows[0][1])
        known = self._vaults.get(tenant)
        if known is not None and known[0] == secret:
            return known[1]
        vault = Vault(tenant, DataKey(rows[0][0], secret), self._sealer, self._store.look)
        self._vaults[tenant] = secret, vault
        return vault

    def _net_of(self, tenant: str, key: DataKey) -> Scrub:
        def net(content: bytes) -> tuple[bytes, tuple[Secret, ...]]:
            return (self._current(tenant) or self.scrubber_of(tenant)).net(content)

        return net
