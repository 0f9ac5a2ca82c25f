"""`create_app`: the server as an ASGI application over an open kernel. It holds no truth that the log lacks.

    request ── guard ── router ── route (ten lines) ── the kernel's public door
                                    └─ hub: live events, one reader per tenant

Read next: `security/guard.py` for what is refused, `routes/__init__.py` for how a resource is added.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from fastapi import FastAPI

from artelier.app import Kernel
from artelier.errors import InvalidConfig
from artelier.ids import VERSION
from artelier.kernel.tenants.workspaces import Workspaces
from artelier.server import errors, openapi_corrections, pages
from artelier.server.background_tasks import errands_of
from artelier.server.late_routes import IncludeLate, LateRoutes
from artelier.server.live.hub import Hub
from artelier.server.loop_lag import LoopLag
from artelier.server.run_driver import Driver
from artelier.server.security.guard import Guard
from artelier.server.security.identity import IdentityGate
from artelier.server.security.login_sessions import Sessions
from artelier.server.security.login_throttle import Attempts
from artelier.server.settings import ServerSettings

ABOUT = """Everything that Mission Control shows and does, for programs as well.

Ids are URL-encoded whole (`m1/figures` is `m1%2Ffigures`). Amounts are integers of micro-dollars, times
integers of microseconds since 1970. Every error is `{"error": {code, message, expected, got, hint}}`. Lists
are `{items, next}`: `next` goes into `after` for the next page."""


def create_app(kernel: Kernel, *, settings: ServerSettings | None = None) -> FastAPI:
    """The application. Its lifespan starts the reader of live events and the worker, and ends them.

    The kernel stays the caller's to close. `app.state.gate.sessions.link()` gives a one-time token.
    Errors: `InvalidConfig`; `StoreUnavailable` for the file of the session key.
    """
    settings = settings or ServerSettings()
    check_workspaces(kernel.services.workspaces, settings)
    app = FastAPI(
        title="Artelier",
        version=VERSION,
        description=ABOUT,
        openapi_url="/api/v1/openapi.json",
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        lifespan=_lifespan,
    )
    state = app.state
    state.kernel, state.settings = kernel, settings
    state.gate = IdentityGate(Sessions(kernel.services.clock, settings.secret_file), settings.users)
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
    pages.install(app)
    state.late = LateRoutes(app)
    openapi_corrections.install(app)
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
    app.state.hub.start()
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
