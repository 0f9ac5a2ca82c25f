"""The routes of the API, made after the first page was served or when somebody asks for one of them.

They and their models are most of what a start costs. A page that opens does not wait for them. What the first
turn of a chat and the first tick of a world would import in the event loop is loaded after them.
"""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Callable

from fastapi import FastAPI
from starlette.types import ASGIApp, Receive, Scope, Send

from artelier.server import pages, routes
from artelier.server.security.guard import API

LAST = (
    "artelier.missions.membranes.membranes",
    "artelier_offline",
    "genai_prices.data",
    "artelier.operations.kinds.guard",
    "artelier.operations.templates.compiler",
    "artelier.operations.kinds.compute",
    "artelier.operations.kinds.rag",
    "artelier.operations.kinds.template",
    "artelier.operations.kinds.transform",
    "artelier.operations.transforms.transform",
    "artelier.chat.turn.turn_loop",
    "artelier.agents.schedules.api",
    "artelier.world.figures.tables",
)
"""What is loaded after the routes: half a second in which nobody would be served."""


class LateRoutes:
    """The routes of one application; `app.state.late`."""

    def __init__(self, app: FastAPI) -> None:
        self._app = app
        self._loading: asyncio.Task[None] | None = None
        self.loading_last: asyncio.Task[None] | None = None
        """What is still to come when the routes are there."""
        self.on_included: Callable[[], None] = _nothing
        """Called when the routes are there, and when all is."""
        self.is_included = False

    def include(self) -> None:
        """Add the routes if they are not there yet, before that of the pages, which takes every address."""
        if self.is_included:
            return
        routers = routes.load()
        self._app.router.routes.pop()
        for router in routers:
            # `include_router` would make each route again for this application, in the event loop and at
            # the first request for it: most of a second in all.
            self._app.router.routes.extend(router.routes)
        pages.install(self._app)
        self.is_included = True
        self.on_included()

    def begin(self) -> asyncio.Task[None]:
        """Load them in a thread, so that others are served meanwhile; once, however many ask."""
        if self._loading is None or (self._loading.done() and not self.is_included):
            self._loading = asyncio.get_running_loop().create_task(self._load())
        return self._loading

    async def _load(self) -> None:
        await asyncio.to_thread(routes.load)
        self.include()
        self.loading_last = asyncio.get_running_loop().create_task(self._load_last())

    async def _load_last(self) -> None:
        await asyncio.to_thread(_import_last)
        self.on_included()


class IncludeLate:
    """ASGI middleware behind the guard: a request for the API waits for its routes."""

    def __init__(self, app: ASGIApp, *, late: LateRoutes) -> None:
        self._app = app
        self._late = late

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or self._late.is_included:
            await self._app(scope, receive, send)
            return
        if scope["path"].startswith(API):
            await asyncio.shield(self._late.begin())
        await self._app(scope, receive, send)
        self._late.begin()


def _import_last() -> None:
    for name in LAST:
        importlib.import_module(name)


def _nothing() -> None:
    """Do nothing: nobody wants to know."""
