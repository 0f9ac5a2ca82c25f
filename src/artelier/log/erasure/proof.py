"""The proof of an erasure: what is gone is what the erasure events say, no more and no less.

A missing key, an emptied content and a value that the vault has lost are each looked up in the events
`content.erased` of their tenant. The chains say whether those events are what was written. Older events of
a whole tenant do not say up to which key they reached; what only they account for is counted as unchecked.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator

from artelier.log.erasure.content_removal import ErasureReach, reaches


class GoneKeys:
    """The keys that content names and that are not there."""

    def __init__(self, db: sqlite3.Connection, keys: Iterable[int]) -> None:
        """`keys` are those that are there."""
        made = db.execute("SELECT seq FROM sqlite_sequence WHERE name = 'keys'").fetchone()
        self._db = db
        self._keys = frozenset(keys)
        self._newest = made[0] if made else 0
        self._reach = reaches(db)
        self._unnamed: Counter[tuple[str, int]] = Counter()
        self._unsure: dict[tuple[str, int], int] = {}

    def content(self, tenant: str, key_id: int | None, where: str, *, is_empty: bool) -> Iterator[str]:
        """Yield what is wrong with one content whose key is gone, or that was emptied."""
        reach = self._reach.get(tenant, ErasureReach())
        if key_id is None:
            if not (is_empty and reach.is_whole):
                yield f"{where} is empty, and no erasure says so"
        elif key_id in self._keys:
            yield f"{where} is empty, and its key is here"
        elif not 0 < key_id <= self._newest:
            yield f"{where}: there never was a key {key_id}"
        elif reach.names(key_id):
            if not is_empty:
                yield f"{where} was erased, and its content is still in the file"
        elif reach.is_open:
            self._unsure[tenant, key_id] = self._unsure.get((tenant, key_id), 0) + 1
        else:
            self._unnamed[tenant, key_id] += 1

    def findings(self) -> Iterator[str]:
        """Yield what is wrong with keys and values, once all content was looked at."""
        for (tenant, key_id), count in sorted(self._unnamed.items()):
            yield (
                f"key {key_id} of {tenant} is missing, and no erasure names it: {count} contents under it"
                " cannot be read"
            )
        for key_id, tenant in self._db.execute("SELECT key_id, tenant FROM keys ORDER BY key_id"):
            if self._reach.get(tenant, ErasureReach()).names(key_id):
                yield f"key {key_id} of {tenant} was erased, says an event, and it is here"
        yield from self._values()

    def _values(self) -> Iterator[str]:
        lost = "SELECT tenant, count(*) FROM vault WHERE sealed IS NULL GROUP BY tenant"
        found: dict[str, int] = dict(self._db.execute(lost))
        for tenant in sorted(found.keys() | self._reach.keys()):
            said, count = self._reach.get(tenant, ErasureReach()).values, found.get(tenant, 0)
            if said is not None and said != count:
                yield (f"the vault of {tenant} has lost {count} values, and its erasures took {said}")

    def unchecked(self) -> Iterator[str]:
        """Yield what only events of an older version account for."""
        if self._unsure:
            contents = sum(self._unsure.values())
            yield (
                f"{contents} contents under {len(self._unsure)} missing keys: an erasure of a whole tenant"
                " by an older version does not say up to which key it reached"
            )
        lost = "SELECT DISTINCT tenant FROM vault WHERE sealed IS NULL ORDER BY tenant"
        for (tenant,) in self._db.execute(lost):
            if self._reach.get(tenant, ErasureReach()).values is None:
                yield f"values erased in {tenant}: an older version counted them before it took them"
