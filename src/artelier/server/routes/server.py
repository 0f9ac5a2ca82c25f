"""`/server`: how this server was started, and its tools. Paths, keys and addresses stay out of it."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import PurePath

from fastapi import Request

from artelier.agents.launch import tools_of
from artelier.ids import VERSION
from artelier.loops.cycle import host_tools
from artelier.ports.tool import ToolPort
from artelier.server.deps import Core, Desk, Door, Setup, Who
from artelier.server.routes import resource
from artelier.server.security.identity import Identity
from artelier.server.security.users import Users
from artelier.server.wire.base import Page
from artelier.server.wire.server import LagShown, ServerShown, ToolShown, UserShown
from artelier.tools.mcp.tool import McpTool

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


@router.get("/tools", operation_id="server_tools")
async def list_tools(desk: Desk) -> Page[ToolShown]:
    """Tools that agents may be given, over the tenant's workspace too if it has one: risk, grant, schema."""
    services = desk.services
    brought = host_tools(services)
    root = services.workspaces.root(desk.id)
    tools = tools_of(services, desk.id, root, host_tools=brought) if root else None
    listed = list(services.tools.values()) if tools is None else tools
    return Page(items=[_shown(tool, is_brought=tool.name in brought) for tool in listed])


def _shown(tool: ToolPort, *, is_brought: bool) -> ToolShown:
    if isinstance(tool, McpTool):
        source = tool.server
    else:
        source = "program" if is_brought else "artelier"
    return ToolShown(
        name=tool.name,
        description=tool.description,
        source=source,
        risk=tool.risk,
        grant=tool.grant or f"tools:{tool.name}",
        side_effect=tool.side_effect,
        idempotent=tool.idempotent,
        parameters=tool.schema.parameters,
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
