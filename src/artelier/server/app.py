"""The ASGI application: its routes, loaded after the first page was served, their document, and its pages.

The pages are the built web application, and the link that signs a person in.
"""

from __future__ import annotations

import asyncio
import importlib
import mimetypes
import re
import unicodedata
from collections import Counter
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any, cast

import msgspec
from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from artelier.app import Kernel
from artelier.errors import InvalidConfig, NotFound
from artelier.ids import VERSION
from artelier.kernel.policy import Workspaces
from artelier.server import errors, routes
from artelier.server.background_tasks import Driver, errands_of
from artelier.server.errors import PAGES, PROGRAMS, missing_address
from artelier.server.health import LoopLag
from artelier.server.live_hub import Hub
from artelier.server.security.guard import Guard
from artelier.server.security.identity import LOCAL_STAMP, IdentityGate
from artelier.server.security.login_sessions import Attempts, Sessions, keep_session
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
        install_pages(self._app)
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
    install_pages(app)
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


FOREVER = "public, max-age=31536000, immutable"
"""For files whose name holds a hash of their content."""

PLAIN = """<!doctype html><html lang="en"><meta charset="utf-8"><title>Artelier</title>
<body><h1>{title}</h1><p>{text}</p></body></html>"""


def install_pages(app: FastAPI) -> None:
    """Serve pages for every address that no route has; call it after the routes."""
    app.add_route(PAGES, _page, methods=["GET", "HEAD"], include_in_schema=False)


async def _page(request: Request) -> Response:
    """A file of the build, the application itself, or the way in. Errors: `NotFound`."""
    path, settings = request.url.path, cast(ServerSettings, request.app.state.settings)
    if f"{path}/".startswith(PROGRAMS):
        raise missing_address(request)
    if any(unicodedata.category(one) == "Cc" for one in request.scope["path"]):  # a URL drops some
        raise NotFound("there is no such address")
    # Only what a person opens uses a link up: previews and checkers of links ask by HEAD.
    if path == "/" and "token" in request.query_params and request.method == "GET":
        return _sign_in(request)
    file = _file(settings.static, request.path_params["path"])
    if file is not None:
        is_hashed = file.parent.name == "assets"
        return await _answer_file(file, cached=FOREVER if is_hashed else "no-cache")
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
    return await _answer_file(index, cached="no-cache")


async def _answer_file(file: Path, *, cached: str) -> Response:
    """Answer with a file of the page from memory: who reads nothing of it holds no descriptor."""

    def read() -> bytes:
        found = file.stat()
        return _content(file, found.st_mtime_ns, found.st_size)

    kind = mimetypes.guess_type(file.name)[0] or "application/octet-stream"
    content = await asyncio.to_thread(read)
    return Response(content, media_type=kind, headers={"Cache-Control": cached})


@lru_cache(maxsize=256)
def _content(file: Path, mtime_ns: int, size_bytes: int) -> bytes:
    """Return what a file has at this time and with this size."""
    return file.read_bytes()


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
