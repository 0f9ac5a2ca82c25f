"""`/server`: how this server was started. Paths, keys and addresses stay out of it."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import PurePath

from fastapi import Request

from artelier.ids import VERSION
from artelier.server.deps import Core, Desk, Door, Setup, Who
from artelier.server.routes import resource
from artelier.server.security.identity import Identity
from artelier.server.security.users import Users
from artelier.server.wire.server import LagShown, ServerShown, UserShown

router = resource("server")


@router.get("", operation_id="server_show")
async def show(who: Who, desk: Desk, kernel: Core, setup: Setup, door: Door, request: Request) -> ServerShown:
    """Version, model, database, workspace, limits and lag; for admins also the tenant's users."""
    return ServerShown(
        version=VERSION,
        model=setup.model,
        database=kernel.store.path.name,
        workspace=PurePath(kernel.services.workspaces.root(desk.id)).name,
        has_worker=setup.has_worker,
        upload_bytes_max=setup.upload_max_bytes,
        models=kernel.models.keys(),
        lag=LagShown(**asdict(request.app.state.lag.show())),
        users=_users(who, door.users, tenant=desk.id),
    )


def _users(who: Identity, users: Users | None, *, tenant: str) -> list[UserShown] | None:
    if users is None or who.tenants is None or not who.may("admin"):
        return None
    return [
        UserShown(
            name=user.name,
            role=user.role,
            tenants=[tenant for tenant in user.tenants if tenant in who.tenants],
        )
        for user in users.of(tenant)
    ]
