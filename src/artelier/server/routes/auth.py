"""Signing in and out, and who one is."""

from __future__ import annotations

import asyncio
from typing import cast

from fastapi import Request, Response

from artelier.errors import NotFound
from artelier.ids import VERSION
from artelier.server.deps import Core, Desk, Door, Setup, Who, tenants_of
from artelier.server.errors import NotSignedIn
from artelier.server.routes import resource
from artelier.server.security.identity import TENANT_COOKIE
from artelier.server.security.login_sessions import SESSION_S, Attempts, keep_session
from artelier.server.wire.server import Choice, Login, Me, SignedIn, SignedOut

router = resource("auth", prefix="")


@router.get("/me")
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


@router.patch("/me")
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


@router.post("/login")
async def login(asked: Login, response: Response, request: Request, door: Door) -> SignedIn:
    """Sign in by name and password; the answer sets the session's cookie."""
    attempts = cast(Attempts, request.app.state.attempts)
    address = request.client.host if request.client is not None else ""
    attempts.begin(asked.user, address)
    users = door.users
    async with attempts.checking:
        user = await asyncio.to_thread(users.with_password, asked.user, asked.password) if users else None
    if user is None:
        raise NotSignedIn(
            "name or password is wrong" if users else "this server has no users",
            hint=None if users else "Open the link that `artelier up` printed.",
        )
    attempts.note_success(asked.user, address)
    keep_session(response, request, door.sessions.cookie, door.sessions.begin(user.name, user.stamp))
    return SignedIn(name=user.name)


@router.post("/logout")
async def logout(response: Response, who: Who, door: Door) -> SignedOut:
    """End this session, also for copies of its cookie."""
    if who.session is not None:
        await asyncio.to_thread(door.sessions.end, who.session)
    response.delete_cookie(door.sessions.cookie)
    response.delete_cookie(TENANT_COOKIE)
    return SignedOut()
