"""The ASGI application, its routes, which are loaded after the first page was served, and their document."""

from __future__ import annotations

import asyncio
import importlib
import re
from collections import Counter
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any, cast

import msgspec
from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from artelier.app import Kernel
from artelier.errors import InvalidConfig
from artelier.ids import VERSION
from artelier.kernel.policy import Workspaces
from artelier.server import errors, pages, routes
from artelier.server.background_tasks import Driver, errands_of
from artelier.server.health import LoopLag
from artelier.server.live.hub import Hub
from artelier.server.pages import PROGRAMS
from artelier.server.security.guard import Guard
from artelier.server.security.identity import IdentityGate
from artelier.server.security.login_sessions import Attempts, Sessions
from artelier.server.security.users import ProgramTokens
from artelier.server.settings import ServerSettings

LAST = (
    "artelier.missions.membranes",
    "artelier_offline",
    "genai_prices.data",
    "artelier.operations.kinds.guard",
    "artelier.operations.template_engine.compiler",
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
        if scope["path"].startswith(PROGRAMS):
            await asyncio.shield(self._late.begin())
        await self._app(scope, receive, send)
        self._late.begin()


def _import_last() -> None:
    for name in LAST:
        importlib.import_module(name)


def _nothing() -> None:
    """Do nothing: nobody wants to know."""


ABOUT = """Everything that Mission Control shows and does, for programs as well.

Ids are URL-encoded whole (`m1/figures` is `m1%2Ffigures`). Amounts are integers of micro-dollars, times
integers of microseconds since 1970. Every error is `{"error": {code, message, expected, got, hint}}`. Lists
are `{items, next}`: `next` goes into `after` for the next page."""


def create_app(kernel: Kernel, *, settings: ServerSettings | None = None) -> FastAPI:
    """The application. Its lifespan starts the reader of live events and the worker, and ends them.

    Serve it by any ASGI server whose lifespan is on, or mount it in an application of yours and enter
    `app.router.lifespan_context(app)` in that one's own. One process serves a kernel.

    The kernel stays the caller's to close. `app.state.gate.sessions.link()` gives a one-time token.
    Errors: `InvalidConfig`; `StoreUnavailable` for the file of the session key.
    """
    settings = settings or ServerSettings()
    check_workspaces(kernel.services.workspaces, settings)
    app = FastAPI(
        title="Artelier",
        version=VERSION,
        description=ABOUT,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        lifespan=_lifespan,
    )
    state = app.state
    state.kernel, state.settings = kernel, settings
    state.gate = IdentityGate(
        Sessions(kernel.services.clock, settings.secret_file),
        settings.users,
        tokens=ProgramTokens(settings.tokens_file) if settings.tokens_file is not None else None,
    )
    state.uploads = Counter[str]()
    state.attempts = Attempts(kernel.services.clock)
    state.hub = Hub(
        kernel,
        clients_max=settings.clients_max,
        queue_max=settings.queue_max,
        user_clients_max=settings.user_clients_max,
        tenant_clients_max=settings.tenant_clients_max,
    )
    state.driver = Driver(kernel) if settings.has_worker else None
    state.lag = LoopLag(kernel.services.telemetry)
    errors.install(app)
    app.add_route("/api/v1/openapi.json", OpenapiRoute(app).answer, include_in_schema=False)
    pages.install(app)
    state.late = LateRoutes(app)
    correct_openapi(app)
    app.add_middleware(IncludeLate, late=state.late)
    app.add_middleware(Guard, settings=settings, gate=state.gate)
    return app


def check_workspaces(workspaces: Workspaces, settings: ServerSettings) -> None:
    """Errors: `InvalidConfig` if people who sign in would share one workspace, or reach any folder."""
    if settings.users is not None and workspaces.default:
        raise InvalidConfig(
            "with users, a workspace belongs to a tenant",
            expected="--workspace TENANT=DIR, or --workspace-root DIR with a folder for each",
            got="one workspace for all",
        )


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncGenerator[None]:
    app.state.hub.start(tenant=app.state.settings.tenant)
    app.state.lag.start()
    if app.state.driver is not None:
        app.state.driver.start()
    try:
        yield
    finally:
        app.state.lag.stop()
        app.state.hub.close()
        services = app.state.kernel.services
        if services.draining.has_begun:  # by SIGTERM
            await services.draining.quiet(services.clock, within_s=app.state.settings.drain_s)
        await errands_of(app).close()
        if app.state.driver is not None:
            await app.state.driver.stop()


class OpenapiRoute:
    """The document over HTTP, made once, in a thread.

    On the event loop it would keep everybody waiting: half a second for the first answer, and then for as
    long as it takes to encode 600 KB whenever a stranger asks for it.
    """

    def __init__(self, app: FastAPI) -> None:
        self._app = app
        self._making: asyncio.Task[bytes] | None = None

    async def answer(self, request: Request) -> Response:
        if self._making is None or (self._making.done() and self._making.exception() is not None):
            self._making = asyncio.get_running_loop().create_task(asyncio.to_thread(self._encode))
        content = await asyncio.shield(self._making)
        if root := request.scope.get("root_path", "").rstrip("/"):  # mounted in another application
            content = await asyncio.to_thread(self._encode, root)
        return Response(content, media_type="application/json")

    def _encode(self, root: str = "") -> bytes:
        servers = {"servers": [{"url": root}]} if root else {}
        return msgspec.json.encode(self._app.openapi() | servers)


REFS = "#/components/schemas/"
ERROR = {"application/json": {"schema": {"$ref": f"{REFS}ErrorAnswer"}}}


def correct_openapi(app: FastAPI) -> None:
    """Let an app name schemas by their titles, and describe errors as JSON also beside files and streams."""
    described = app.openapi

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.state.late.include()
            app.openapi_schema = _correct(described())
        return app.openapi_schema

    app.openapi = openapi


def _correct(schema: dict[str, Any]) -> dict[str, Any]:
    from artelier.server.agui.run_input import input_schemas

    _rename_schemas(schema)
    schemas: dict[str, Any] = schema["components"]["schemas"]
    schema["components"]["schemas"] = dict(sorted({**schemas, **input_schemas(REFS)}.items()))
    for model in schema["components"]["schemas"].values():
        for field in model.get("properties", {}).values():
            field.pop("title", None)  # the framework's, made of the name that stands there
    for methods in schema["paths"].values():
        for operation in methods.values():
            for parameter in operation.get("parameters", ()):
                parameter["schema"].pop("title", None)
            for status, answer in operation["responses"].items():
                if int(status) >= 400:
                    answer["content"] = ERROR
                else:
                    answer["content"] = _without_added_json(answer.get("content", {}))
    return schema


def _rename_schemas(schema: dict[str, Any]) -> None:
    """Give each schema the name of its title; the framework has called it after its class."""
    schemas: dict[str, Any] = schema["components"]["schemas"]
    titles = {name: re.sub(r"[^a-zA-Z0-9.\-_]", "_", one.get("title", name)) for name, one in schemas.items()}
    assert len(set(titles.values())) == len(titles), "two wire models have the same title"
    _rename_refs(schema, {REFS + name: REFS + title for name, title in titles.items() if name != title})
    renamed = sorted(((titles[name], one) for name, one in schemas.items()), key=lambda pair: pair[0])
    schema["components"]["schemas"] = dict(renamed)


def _rename_refs(node: dict[str, Any] | list[Any], names: dict[str, str]) -> None:
    if isinstance(node, dict) and node.get("$ref") in names:
        node["$ref"] = names[node["$ref"]]
    for one in node.values() if isinstance(node, dict) else node:
        if isinstance(one, dict | list):
            _rename_refs(cast("dict[str, Any] | list[Any]", one), names)


def _without_added_json(content: dict[str, Any]) -> dict[str, Any]:
    """Without the JSON that the framework adds to what is a file or a stream."""
    others = {kind: one for kind, one in content.items() if kind != "application/json"}
    has_schema = bool(content.get("application/json", {}).get("schema"))
    return content if has_schema or not others else others
