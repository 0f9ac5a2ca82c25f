"""Dependencies of routes, as annotated aliases: the kernel of the user's tenant, the user, the actor.

All are coroutines, also those that await nothing: the framework runs plain functions in threads, forty for
all tenants, and each hop costs as much as a small request.
"""

from __future__ import annotations

from typing import Annotated, cast

from fastapi import Depends, Query, Request

from artelier.app import Kernel, TenantKernel
from artelier.errors import AccessDenied, NotFound
from artelier.kernel.queries.tenants import tenant_ids
from artelier.server.live.hub import Hub
from artelier.server.security.identity import Identity, IdentityGate
from artelier.server.settings import ServerSettings

RELIEVING = frozenset(
    (
        "pause",
        "stop",
        "cancel",
        "pause-all",
        "stop-all",
        "compensate",
        "limit",
        "undo",
        "unshare",
        "leave",
        "refuse",
        "validate",
        "me",
        "erase",
    )
)
"""Last pieces of addresses by which a tenant may change something though its quota is reached."""


async def _kernel(request: Request) -> Kernel:
    return cast(Kernel, request.app.state.kernel)


async def _hub(request: Request) -> Hub:
    return cast(Hub, request.app.state.hub)


async def _gate(request: Request) -> IdentityGate:
    return cast(IdentityGate, request.app.state.gate)


async def _settings(request: Request) -> ServerSettings:
    return cast(ServerSettings, request.app.state.settings)


async def _who(request: Request) -> Identity:
    found: Identity | None = request.scope["state"].get("identity")
    assert found is not None, "the guard lets nobody else in"
    return found


async def _admin(who: Who) -> Identity:
    """Errors: `AccessDenied` for others."""
    if not who.may("admin"):
        raise AccessDenied("only admins may do this", expected="role admin", got=who.role)
    return who


async def _desk(request: Request, who: Who) -> TenantKernel:
    """The kernel of the tenant that the request is about. Errors: `NotFound` for one that is not theirs."""
    kernel, settings = await _kernel(request), await _settings(request)
    allowed = await tenants_of(kernel, settings, who)
    asked = who.asked_tenant or (
        settings.tenant if settings.tenant in allowed or who.is_local else allowed[0]
    )
    if asked not in allowed:
        raise NotFound("there is no such tenant", hint="GET /api/v1/me lists yours.")
    desk = kernel.for_tenant(asked)
    await desk.state()
    last = request.url.path.rpartition("/")[2]
    if request.method in ("POST", "PUT", "PATCH") and last not in RELIEVING:
        await kernel.services.quotas.check_stored(kernel.store, desk.id)
    return desk


async def tenants_of(kernel: Kernel, settings: ServerSettings, who: Identity) -> list[str]:
    """Every tenant that a user may choose."""
    if who.tenants is not None:
        return list(who.tenants)
    return sorted({settings.tenant, *await tenant_ids(kernel.store, limit=TENANTS_MAX)})


async def personal_desk_of(request: Request) -> TenantKernel | None:
    """The kernel of the request's tenant if personal data is replaced there; None before a login, too."""
    who: Identity | None = request.scope["state"].get("identity")
    if who is None or (await _kernel(request)).services.personal is None:
        return None
    try:
        return await _desk(request, who)
    except NotFound:
        return None  # the route says so, if it is about a tenant


async def _actor(who: Who) -> str:
    return who.actor


PAGE_MAX = 1000
TENANTS_MAX = 1000
"""From which somebody who may choose all can choose."""

Who = Annotated[Identity, Depends(_who)]
"""The signed-in user, with a role."""
Admin = Annotated[Identity, Depends(_admin)]
"""The same; others are refused."""
Desk = Annotated[TenantKernel, Depends(_desk)]
"""The kernel bound to the tenant of the request: nothing of another tenant is there."""
Actor = Annotated[str, Depends(_actor)]
"""Who acts, for `by=`: `user:<name>`, or `operator` in local mode."""
Core = Annotated[Kernel, Depends(_kernel)]
"""The unbound kernel; for what is about the store, never for one tenant's data."""
Live = Annotated[Hub, Depends(_hub)]
Door = Annotated[IdentityGate, Depends(_gate)]
Setup = Annotated[ServerSettings, Depends(_settings)]
Limit = Annotated[int, Query(ge=1, le=PAGE_MAX, description="Items of a page.")]
