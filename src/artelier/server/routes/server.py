"""`/server`: how this server was started, and its tools; no paths, keys, addresses. `/me`: signing in."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from pathlib import PurePath
from typing import cast

from fastapi import Request, Response

from artelier.agents.launch import tools_of
from artelier.errors import NotFound
from artelier.ids import VERSION
from artelier.loops.cycle import host_tools
from artelier.ports.tool import ToolPort
from artelier.server.deps import Core, Desk, Door, Setup, Who, tenants_of
from artelier.server.errors import NotSignedIn
from artelier.server.routes import resource
from artelier.server.security.identity import TENANT_COOKIE, Identity
from artelier.server.security.login_sessions import SESSION_S, Attempts, keep_session
from artelier.server.security.users import Users
from artelier.server.wire.base import Page
from artelier.server.wire.server import (
    Choice,
    LagShown,
    Login,
    Me,
    ServerShown,
    SignedIn,
    SignedOut,
    ToolShown,
    UserShown,
)
from artelier.tools.mcp.tool import McpTool

router = resource("server")


@router.get("", operation_id="server_show")
async def show(who: Who, desk: Desk, kernel: Core, setup: Setup, door: Door, request: Request) -> ServerShown:
    """Version, model, database, workspace, limits and lag; for admins also the tenant's users."""
    return ServerShown(
        version=VERSION,
        model=setup.model,
        database=kernel.store.label,
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


auth_router = resource("auth", prefix="")


@auth_router.get("/me")
async def me(who: Who, desk: Desk, kernel: Core, door: Door, setup: Setup) -> Me:
    """The signed-in user, the tenants to choose from, and the token for changes."""
    return Me(
        name=who.name,
        role=who.role,
        actor=who.actor,
        tenant=desk.id,
        tenants=await tenants_of(kernel, setup, who),
        csrf_token=None if who.session is None else door.sessions.csrf(who.session),
        features=list(setup.features),
        version=VERSION,
    )


@auth_router.patch("/me")
async def choose(
    asked: Choice, response: Response, request: Request, who: Who, kernel: Core, setup: Setup
) -> Choice:
    """Choose the tenant of this browser's next requests."""
    if asked.tenant not in await tenants_of(kernel, setup, who):
        raise NotFound("there is no such tenant", hint="GET /api/v1/me lists yours.")
    response.set_cookie(
        TENANT_COOKIE,
        asked.tenant,
        max_age=SESSION_S,
        httponly=True,
        samesite="strict",
        secure=request.url.scheme == "https",
    )
    return asked


@auth_router.post("/login")
async def login(asked: Login, response: Response, request: Request, door: Door) -> SignedIn:
    """Sign in by name and password; the answer sets the session's cookie."""
    attempts = cast(Attempts, request.app.state.attempts)
    address = request.client.host if request.client is not None else ""
    attempts.begin(asked.user, address)
    users = door.users
    async with attempts.turn(address):
        user = await asyncio.to_thread(users.with_password, asked.user, asked.password) if users else None
    if user is None:
        raise NotSignedIn(
            "name or password is wrong" if users else "this server has no users",
            hint=None if users else "Open the link that `artelier up` printed.",
        )
    attempts.note_success(asked.user, address)
    keep_session(response, request, door.sessions.cookie, door.sessions.begin(user.name, user.stamp))
    return SignedIn(name=user.name)


@auth_router.post("/logout")
async def logout(response: Response, who: Who, door: Door) -> SignedOut:
    """End this session, also for copies of its cookie."""
    if who.session is not None:
        await asyncio.to_thread(door.sessions.end, who.session)
    response.delete_cookie(door.sessions.cookie)
    response.delete_cookie(TENANT_COOKIE)
    return SignedOut()
