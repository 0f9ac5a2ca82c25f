"""The pages that a browser loads: the built web application, and the link that signs a person in.

Any path that is neither a file nor an address of the API returns `index.html`, whose own router goes on from
there.
"""

from __future__ import annotations

import unicodedata
from pathlib import Path
from typing import cast

from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, RedirectResponse, Response

from artelier.errors import NotFound
from artelier.server.security.identity import LOCAL_STAMP, IdentityGate
from artelier.server.security.login_sessions import keep_session
from artelier.server.settings import ServerSettings

FOREVER = "public, max-age=31536000, immutable"
"""For files whose name holds a hash of their content."""

PROGRAMS = ("/api/", "/v1/", "/.well-known/")
"""Addresses of programs: what is not there is said in JSON, and never by a page."""

PLAIN = """<!doctype html><html lang="en"><meta charset="utf-8"><title>Artelier</title>
<body><h1>{title}</h1><p>{text}</p></body></html>"""


def install(app: FastAPI) -> None:
    """Serve pages for every address that no route has; call it after the routes."""
    app.add_route("/{path:path}", _page, methods=["GET", "HEAD"], include_in_schema=False)


async def _page(request: Request) -> Response:
    """A file of the build, the application itself, or the way in. Errors: `NotFound`."""
    path, settings = request.url.path, cast(ServerSettings, request.app.state.settings)
    if f"{path}/".startswith(PROGRAMS):
        raise NotFound("there is no such address", hint="/api/v1/openapi.json lists those there are.")
    if any(unicodedata.category(one) == "Cc" for one in request.scope["path"]):  # a URL drops some
        raise NotFound("there is no such address")
    # Only what a person opens uses a link up: previews and checkers of links ask by HEAD.
    if path == "/" and "token" in request.query_params and request.method == "GET":
        return _sign_in(request)
    file = _file(settings.static, request.path_params["path"])
    if file is not None:
        is_hashed = file.parent.name == "assets"
        return FileResponse(file, headers={"Cache-Control": FOREVER if is_hashed else "no-cache"})
    if path.startswith("/assets/"):
        raise NotFound("there is no such file")
    index = settings.static / "index.html"
    if not index.is_file():
        return _plain(
            503,
            "The web application is not built",
            "Run <code>make setup</code> in the checkout,"
            " then reload. The API under <code>/api/v1</code> works without it.",
        )
    return FileResponse(index, headers={"Cache-Control": "no-cache"})


def _file(folder: Path, path: str) -> Path | None:
    """A file inside the folder of the build; None for anything else, wherever it points."""
    if not path or "\0" in path or len(path) > 500:
        return None
    root = folder.resolve()
    try:
        found = (root / path).resolve()
        is_inside = found.is_relative_to(root) and not any(
            part.startswith(".") for part in found.relative_to(root).parts
        )
        return found if is_inside and found.is_file() else None
    except (OSError, ValueError):  # a name that no file can have
        return None


def _sign_in(request: Request) -> Response:
    """Use up the link; the address that stays in the browser has no token."""
    gate = cast(IdentityGate, request.app.state.gate)
    tokens = request.query_params.getlist("token")
    if gate.users is None and len(tokens) == 1 and gate.sessions.use_link(tokens[0]):
        response = RedirectResponse("/", status_code=303, headers={"Cache-Control": "no-store"})
        cookie = gate.sessions.begin("", LOCAL_STAMP)
        keep_session(response, request, gate.sessions.cookie, cookie)
        return response
    headers = {key: value for key, value in request.headers.items() if key == "cookie"}
    if gate.identify(headers) is not None:  # used before, in this browser: it is signed in
        return RedirectResponse("/", status_code=303, headers={"Cache-Control": "no-store"})
    return _plain(
        401,
        "This link is used up",
        "A link signs in once, within an hour. Start"
        " <code>artelier up</code> again, or press Enter where it runs, for a new one.",
    )


def _plain(status: int, title: str, text: str) -> HTMLResponse:
    """A page of our own words alone."""
    page = PLAIN.format(title=title, text=text)
    return HTMLResponse(page, status_code=status, headers={"Cache-Control": "no-store"})
