"""Quotas: how much of a shared server one tenant may take, so that others find room beside it.

They are settings of whoever runs the server; what a tenant has stored is counted from its
content. Who is at a quota may still read, delete and end work.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from artelier.errors import InvalidConfig, QuotaReached
from artelier.ids import check_tenant
from artelier.log import Store
from artelier.log.queries import content_size

GIB = 1024**3


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """The quotas of one tenant."""

    stored_bytes_max: int = 20 * GIB
    """Of content: messages, artifacts, results. Compression is not counted off (the figure is a guess)."""
    streams_max: int = 500
    """Live streams at one time."""
    ticks_max: int = 100_000
    """Ticks of a world that one request may pass."""
    uploads_max: int = 8
    """Uploads at one time: each is held in memory."""

    def __post_init__(self) -> None:
        """Errors: `InvalidConfig`."""
        for name, value in asdict(self).items():
            if type(value) is not int or value < 0:
                raise InvalidConfig(f"quota {name}", expected="a whole number from 0", got=repr(value))


class Quotas:
    """The quotas of all tenants."""

    def __init__(self, default: Quota | None = None, *, tenants: Mapping[str, Quota] | None = None) -> None:
        """`tenants` have their own; every other one has `default`."""
        self._default = default or Quota()
        self._tenants: dict[str, Quota] = {
            check_tenant(tenant): quota for tenant, quota in (tenants or {}).items()
        }
        self._counted: dict[str, tuple[int, int]] = {}
        """Of each tenant: the last blob that was counted, and the bytes up to it."""

    def of(self, tenant: str) -> Quota:
        return self._tenants.get(tenant, self._default)

    async def stored_bytes(self, store: Store, tenant: str, *, anew: bool = False) -> int:
        """Return the size of a tenant's content. Cost: a look at what is new; `anew` counts all of it."""
        seen, total = (0, 0) if anew else self._counted.get(tenant, (0, 0))
        last, size = await content_size(store, tenant, after=seen)
        counted = (last or seen, total + size)
        self._counted[tenant] = counted
        return counted[1]

    async def check_stored(self, store: Store, tenant: str, *, more: int = 0) -> None:
        """Errors: `QuotaReached` if a tenant has stored what it may, or would with `more` bytes."""
        most = self.of(tenant).stored_bytes_max
        if await self.stored_bytes(store, tenant) + more <= most:
            return
        stored = await self.stored_bytes(store, tenant, anew=True)  # some may have been erased
        if stored + more > most:
            raise QuotaReached(
                f"tenant {tenant} has stored as much as it may",
                expected=f"at most {most} bytes",
                got=f"{stored + more} bytes",
                hint="Erase or collect what is not needed, or ask whoever runs the server for more"
                " ([quotas] in the settings).",
            )

    async def describe(self, store: Store, tenant: str) -> dict[str, Any]:
        """Return `{stored_bytes, stored_bytes_max, streams_max, ticks_max, uploads_max}`."""
        stored = await self.stored_bytes(store, tenant, anew=True)
        return {"stored_bytes": stored, **asdict(self.of(tenant))}
