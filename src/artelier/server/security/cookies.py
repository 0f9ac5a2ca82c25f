"""The attributes of a session's cookie: it is valid for this site only, and scripts cannot read it."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from artelier.server.security.login_sessions import SESSION_S


def keep_session(response: Response, request: Request, name: str, value: str) -> None:
    """Let the browser keep a session."""
    response.set_cookie(
        name,
        value,
        max_age=SESSION_S,
        path="/",
        httponly=True,
        samesite="strict",
        secure=request.url.scheme == "https",
    )
