"""The kernel bound to one tenant, as the packages above the kernel need it.

`artelier.app.TenantKernel` is the implementation; each package declares what it adds to that in a Protocol
of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from artelier.kernel.tenants.registry import Tenant

if TYPE_CHECKING:
    from artelier.artifacts import Space
    from artelier.kernel.export.transfer import KeyStore
    from artelier.kernel.run.lifecycle import OpenRun
    from artelier.kernel.run.results import Limits
    from artelier.kernel.run.services import Services, TenantState
    from artelier.log import EventData


TenantRef = Tenant | str | None
"""A tenant, its id, or None for the default tenant."""


class TenantScope(Protocol):
    """One tenant's kernel: nothing of another tenant is reached through it."""

    @property
    def id(self) -> str:
        """The tenant's id."""
        ...

    @property
    def services(self) -> Services: ...

    @property
    def keys(self) -> KeyStore:
        """The store that keeps the keys of imported content."""
        ...

    async def state(self) -> TenantState:
        """Return the stored tenant, created on first use."""
        ...

    def keep_alive(self) -> None: ...

    def as_principal(self, principal: str, *, world: str | None = None) -> Space:
        """Return the artifacts as one principal may reach them."""
        ...

    def run(self, run_id: str, **opening: Any) -> OpenRun: ...

    async def cancel(self, run_id: str, *, by: str = "operator", note: str = "") -> EventData: ...

    async def resume(
        self,
        run_id: str,
        *,
        note: str = "",
        limits: Limits | None = None,
        max_iterations: int | None = None,
        stuck_after: int | None = None,
        by: str = "operator",
    ) -> EventData: ...

    async def signal(
        self, run_id: str, name: str, data: object = None, *, by: str = "operator"
    ) -> EventData: ...


class TenantScopes(Protocol):
    """A kernel: it gives scopes, each bound to one tenant."""

    def for_tenant(self, tenant: TenantRef = None) -> TenantScope: ...
