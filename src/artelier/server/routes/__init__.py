"""One module per resource; adding one is three lines.

    # routes/things.py
    from artelier.server.routes import resource
    router = resource("things")

    @router.get("/{thing_id}")
    async def show(desk: Desk, thing_id: str) -> Thing:
        \"\"\"One thing.\"\"\"
        return Thing.model_validate(await desk.thing(thing_id))

and its name in `ROUTERS` below. A route parses, calls one function of the kernel's public door and maps the
result. Its address is `/api/v1/things/...`, its operation id `things_show`. What it gets:

- aliases of `deps.py`: `Desk` (the kernel of the request's tenant), `Actor` (for `by=`), `Who`, `Limit`.
- path parameters decoded: an id is one encoded segment (`/runs/m1%2Ffigures`) and arrives as `m1/figures`.
- errors for nothing: raise an `ArtelierError` and it becomes the one shape. Never `HTTPException`.
- personal data for nothing: what comes in is text of a person, what goes out is restored for who may see it.
- users for nothing: the guard lets only those in who may, and no viewer to a method that changes something.
  What only admins may takes `Admin`.

Bodies are `RequestBody` models, answers `ResponseModel` models with described fields; lists `{items, next}`.
A wire model whose plain name is taken (`Run`) is called `RunOut`; its schema is called `Run` all the same.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable, Coroutine
from typing import Any, cast
from urllib.parse import unquote

from fastapi import APIRouter
from fastapi.routing import APIRoute
from pydantic import TypeAdapter, ValidationError
from starlette.requests import Request
from starlette.responses import Response

from artelier.errors import InvalidRequest
from artelier.server.deps import personal_desk_of
from artelier.server.pii import AS_SENT, ReadRequest, escape_request, restore_response
from artelier.server.security.connection_limits import check_items
from artelier.server.security.guard import LARGE, SAFE, items_max
from artelier.server.wire.base import ErrorAnswer
from artelier.threads import BESIDE_BYTES, run_in_content_thread

PREFIX = "/api/v1"
ROUTERS = (
    "server:auth_router",
    "events",
    "events:graph_router",
    "runs",
    "runs:approvals_router",
    "artifacts",
    "uploads",
    "chats",
    "profiles",
    "missions",
    "missions:god_mode_router",
    "missions:tasks_router",
    "agents",
    "missions:membranes_router",
    "missions:steering_router",
    "runs:all_runs_router",
    "schedules",
    "agents:memory_router",
    "agents:skills_router",
    "worlds",
    "worlds:market_router",
    "sweeps",
    "ledger",
    "ledger:tenants_router",
    "erasures",
    "events:agui_router",
    "server",
    "webhooks",
)
"""Modules of this package and their routers (`router` unless named), in the order of the documentation."""

FACES = (
    "artelier.server.openai_api.routes:router",
    "artelier.server.a2a.routes:router",
    "artelier.server.a2a.routes:card_router",
)
"""The faces that follow a document of others, and are not in ours: OpenAI's, and that of A2A."""

REFUSALS: dict[int | str, dict[str, Any]] = {
    status: {"model": ErrorAnswer, "description": text}
    for status, text in (
        (401, "Nobody is signed in."),
        (403, "Refused by role or policy."),
        (404, "It is not there, or not in this tenant."),
        (409, "It does not fit what happened before, or a limit is reached."),
        (413, "The body is too large."),
        (422, "The request does not fit."),
        (502, "Something outside failed."),
        (503, "Try again in a moment."),
    )
}

REST_MAX_S = 0.5
"""The longest rest of a user's thread after a body with many mistakes."""
MISTAKES_MAX = 100
"""Of a large body, that are told one by one: 49,000 took a second."""


class _Route(APIRoute):
    """Decodes path parameters, which the guard has left encoded so that a slash in an id is no separator.

    Where personal data is replaced, it cares for both ways of it (`personal.py`).
    """

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle, is_as_sent = super().get_route_handler(), self.unique_id in AS_SENT

        async def decode_path(request: Request) -> Response:
            parameters = request.scope.get("path_params", {})
            request.scope["path_params"] = {
                name: unquote(value) if isinstance(value, str) else value
                for name, value in parameters.items()
            }
            if request.method not in SAFE and request.url.path not in LARGE:
                body = await request.body()
                await check_items(body, most=items_max(request.url.path))
                request = ReadRequest(request, body)
                await self._check_large(request, body)
            desk = await personal_desk_of(request)
            if desk is None:
                return await handle(request)
            response = await handle(await escape_request(request, desk))
            sees = request.scope["state"]["identity"].may("operator") and not is_as_sent
            return await restore_response(response, desk) if sees else response

        return decode_path

    async def _check_large(self, request: ReadRequest, body: bytes) -> None:
        """Refuse a large body with many mistakes, which the framework would name on the event loop.

        What is no JSON, and what has few mistakes, is left to it. Errors: `InvalidRequest`.
        """
        is_json = "json" in request.headers.get("content-type", "").lower()
        if self.body_field is None or not is_json or len(body) <= BESIDE_BYTES:
            return
        try:
            value = await request.json()
        except ValueError:
            return
        model = TypeAdapter[Any](cast(Any, self.body_field.field_info.annotation))
        count = await run_in_content_thread(len(body), _count_mistakes, model, value)
        if count > MISTAKES_MAX:
            raise InvalidRequest(
                f"the request does not fit: {count:,} mistakes",
                hint="/api/v1/openapi.json describes every request.",
            )


def _count_mistakes(model: TypeAdapter[Any], value: object) -> int:
    """Count the mistakes of a value, in a content thread.

    Many of them take the interpreter for 0.1 s at once. The thread then rests, so that others have a turn
    before the next body of the same user.
    """
    began_s = time.perf_counter()
    try:
        model.validate_python(value)
    except ValidationError as error:
        count = error.error_count()
        if count > MISTAKES_MAX:
            time.sleep(min(2 * (time.perf_counter() - began_s), REST_MAX_S))
        return count
    return 0


def resource(
    name: str, *, prefix: str | None = None, base: str = PREFIX, is_documented: bool = True
) -> APIRouter:
    """The router of a resource: `/api/v1/<name>`, or below another prefix; `base` stands before both."""
    where = f"/{name}" if prefix is None else prefix
    return APIRouter(
        prefix=base + where,
        include_in_schema=is_documented,
        tags=[name],
        route_class=_Route,
        responses=REFUSALS,
        generate_unique_id_function=operation_id,
    )


def operation_id(route: APIRoute) -> str:
    """Stable names for generated clients: `runs_pause`."""
    return f"{route.tags[0]}_{route.name.rstrip('_')}".replace("-", "_")


def load() -> list[APIRouter]:
    """Return the routers of all resources; the first call imports them, which takes a second."""
    found: list[APIRouter] = []
    for entry in (*(f"{__name__}.{one}" for one in ROUTERS), *FACES):
        module, _, name = entry.partition(":")
        found.append(getattr(importlib.import_module(module), name or "router"))
    return found
