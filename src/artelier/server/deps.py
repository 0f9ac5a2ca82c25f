"""Dependencies of routes, as annotated aliases: the kernel of the user's tenant, the user, the actor.

All are coroutines, also those that await nothing: the framework runs plain functions in threads, forty for
all tenants, and each hop costs as much as a small request.
"""

from __future__ import annotations

import asyncio
import re
import tempfile
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Protocol, TypeVar, cast

from fastapi import Depends, Query, Request, Response
from fastapi.responses import FileResponse
from pydantic import BaseModel
from starlette.background import BackgroundTask

from artelier.app import Kernel, TenantKernel
from artelier.artifacts import Artifacts, Space
from artelier.artifacts.content import CONTENT_BYTES_MAX
from artelier.artifacts.media.inspection import check_attachment_sizes
from artelier.artifacts.ref import REF_CHARS_MAX
from artelier.artifacts.space_session import TakeRoom
from artelier.errors import AccessDenied, InvalidRequest, NotFound
from artelier.ids import OPERATOR, fresh_secret
from artelier.kernel import run_row
from artelier.kernel.queries.tenants import tenant_ids
from artelier.missions.definition import slug_of
from artelier.ports.media import Medium
from artelier.server.live_hub import Hub
from artelier.server.openai_api.calls import inline_bytes
from artelier.server.openai_api.requests import InlineMedium, parse_data_url, refuse
from artelier.server.security.held_bodies import hold_content, reserve_content
from artelier.server.security.identity import Identity, IdentityGate
from artelier.server.settings import ServerSettings
from artelier.server.wire.base import AttachmentAsk
from artelier.threads import read_beside_loop

RELIEVING = frozenset(
    (
        "pause",
        "stop",
        "cancel",
        "pause-all",
        "stop-all",
        "compensate",
        "limit",
        "undo",
        "unshare",
        "leave",
        "refuse",
        "validate",
        "me",
        "erase",
    )
)
"""Last pieces of addresses by which a tenant may change something though its quota is reached."""


async def _kernel(request: Request) -> Kernel:
    return cast(Kernel, request.app.state.kernel)


async def _hub(request: Request) -> Hub:
    return cast(Hub, request.app.state.hub)


async def _gate(request: Request) -> IdentityGate:
    return cast(IdentityGate, request.app.state.gate)


async def _settings(request: Request) -> ServerSettings:
    return cast(ServerSettings, request.app.state.settings)


async def _who(request: Request) -> Identity:
    found: Identity | None = request.scope["state"].get("identity")
    assert found is not None, "the guard lets nobody else in"
    return found


async def _admin(who: Who) -> Identity:
    """Errors: `AccessDenied` for others."""
    if not who.may("admin"):
        raise AccessDenied("only admins may do this", expected="role admin", got=who.role)
    return who


async def _desk(request: Request, who: Who) -> TenantKernel:
    """The kernel of the tenant that the request is about. Errors: `NotFound` for one that is not theirs."""
    kernel, settings = await _kernel(request), await _settings(request)
    allowed = await tenants_of(kernel, settings, who)
    asked = who.asked_tenant or (
        settings.tenant if settings.tenant in allowed or who.is_local else allowed[0]
    )
    if asked not in allowed:
        raise NotFound("there is no such tenant", hint="GET /api/v1/me lists yours.")
    desk = kernel.for_tenant(asked)
    await desk.state()
    last = request.url.path.rpartition("/")[2]
    if request.method in ("POST", "PUT", "PATCH") and last not in RELIEVING:
        await kernel.services.quotas.check_stored(kernel.store, desk.id)
    return desk


async def tenants_of(kernel: Kernel, settings: ServerSettings, who: Identity) -> list[str]:
    """Every tenant that a user may choose."""
    if who.tenants is not None:
        return list(who.tenants)
    return sorted({settings.tenant, *await tenant_ids(kernel.store, limit=TENANTS_MAX)})


async def personal_desk_of(request: Request) -> TenantKernel | None:
    """The kernel of the request's tenant if personal data is replaced there; None before a login, too."""
    who: Identity | None = request.scope["state"].get("identity")
    if who is None or (await _kernel(request)).services.personal is None:
        return None
    try:
        return await _desk(request, who)
    except NotFound:
        return None  # the route says so, if it is about a tenant


async def _actor(who: Who) -> str:
    return who.actor


PAGE_MAX = 1000
TENANTS_MAX = 1000
"""From which somebody who may choose all can choose."""

Who = Annotated[Identity, Depends(_who)]
"""The signed-in user, with a role."""
Admin = Annotated[Identity, Depends(_admin)]
"""The same; others are refused."""
Desk = Annotated[TenantKernel, Depends(_desk)]
"""The kernel bound to the tenant of the request: nothing of another tenant is there."""
Actor = Annotated[str, Depends(_actor)]
"""Who acts, for `by=`: `user:<name>`, or `operator` in local mode."""
Core = Annotated[Kernel, Depends(_kernel)]
"""The unbound kernel; for what is about the store, never for one tenant's data."""
Live = Annotated[Hub, Depends(_hub)]
Door = Annotated[IdentityGate, Depends(_gate)]
Setup = Annotated[ServerSettings, Depends(_settings)]
Limit = Annotated[int, Query(ge=1, le=PAGE_MAX, description="Items of a page.")]


class Acting(Protocol):
    """The kernel bound to a tenant, as far as artifacts go."""

    def as_principal(self, principal: str, *, world: str | None = None) -> Space: ...


class Signed:
    """A tenant's kernel whose artifacts are written by a person, in the name of `operator`."""

    def __init__(self, desk: Acting, actor: str) -> None:
        self._desk = desk
        self._actor = actor

    def as_principal(self, principal: str, *, world: str | None = None) -> Space:
        space = self._desk.as_principal(principal, world=world)
        space.artifacts = space.artifacts.by(self._actor)
        return space


def artifacts_of(
    desk: Acting, actor: str, *, world: str | None = None, room: TakeRoom = hold_content
) -> Artifacts:
    """Return what people of a tenant do with artifacts, in the main space or in a world.

    Content that is read takes `room`: that of the request, for as long as it lasts.
    """
    return Signed(desk, actor).as_principal(OPERATOR, world=world).artifacts.within(room)


_ADDRESS = re.compile(r"data:|[a-z][a-z0-9+.-]{0,30}:/", re.IGNORECASE)


def medium_at(address: str, *, param: str) -> AttachmentAsk | InlineMedium:
    """Return what a text names: the medium of a data URL, or an artifact by its ref.

    Errors: `InvalidRequest` for any other address, of which nothing is fetched here, and for what is too long
    for a ref.
    """
    if _ADDRESS.match(address):
        return parse_data_url(address, param=param)
    if len(address) > REF_CHARS_MAX:
        raise refuse(
            param,
            "this is neither a data URL nor a ref",
            expected=f"data:image/png;base64,..., or a ref of at most {REF_CHARS_MAX} characters",
            got=address[:40],
        )
    return AttachmentAsk(address)


async def attachments_of(
    desk: Acting, actor: str, given: Sequence[AttachmentAsk | InlineMedium]
) -> list[bytes]:
    """Return the content of what came with a request, whichever way it was given.

    Errors: `InvalidRequest` for an address that is no data URL, and for more than one call takes; `NotFound`,
    `AccessDenied` of an artifact.
    """
    artifacts = artifacts_of(desk, actor)
    named: list[AttachmentAsk | InlineMedium] = []
    sizes_bytes: list[int] = []
    for number, one in enumerate(given):
        if isinstance(one, AttachmentAsk):
            one = medium_at(one.root, param=f"attachments.{number}")
        named.append(one)
        if isinstance(one, AttachmentAsk):
            sizes_bytes.append(await artifacts.size(one.root))
            check_attachment_sizes(sizes_bytes)  # before any is read: twenty artifacts may be a gigabyte
    await reserve_content(sum(sizes_bytes))
    found: list[bytes] = []
    for one in named:
        if isinstance(one, AttachmentAsk):
            found.append((await artifacts.encoded(one.root))[1])
        else:
            found.append(await inline_bytes(one))
        check_attachment_sizes([*map(len, found)])
    return found


def medium_response(medium: Medium, content: bytes) -> Response:
    """Answer with a medium. An image is shown; no browser runs a PDF or a text here: that is a download."""
    shown = "inline" if medium.kind == "image" else "attachment"
    name = f"{medium.kind}.{medium.media_type.rpartition('/')[2]}"
    return Response(
        content, media_type=medium.media_type, headers={"Content-Disposition": f'{shown}; filename="{name}"'}
    )


def new_id(id: str | None, name: str, *, mission: str | None, folder: str) -> str:
    """The id of something new: as it was asked for, or made from its name."""
    if id is not None:
        return id
    place = mission or folder
    slug = f"{slug_of(name)[:34]}-{fresh_secret(2).hex()}"
    return f"{place}/{slug}" if place else slug


async def check_mission(desk: Desk, mission: str | None) -> None:
    """Errors: `NotFound` for a mission that is not there."""
    if mission is not None:
        row = await run_row(desk.services.store, desk.id, mission)
        if row.loop != "mission":
            raise NotFound(f"no mission {mission!r:.140}")


def workspace_of(asked: str | None, *, desk: Desk, who: Identity) -> str:
    """Return the folder that tools may work on: the tenant's own, or what is asked for in it.

    Errors: `AccessDenied` for any other; `NotFound`; `InvalidRequest`.
    """
    workspaces = desk.services.workspaces
    if not asked:
        return workspaces.root(desk.id)
    if not asked.isprintable():
        raise InvalidRequest("that is no name of a folder", expected="printable characters")
    if not who.is_local and not workspaces.is_confined:  # not their machine
        raise AccessDenied(
            "this server gives its users no folder",
            hint="Whoever starts the server names one with --workspace TENANT=DIR.",
        )
    return workspaces.check(desk.id, asked)


Shown = TypeVar("Shown", bound=Mapping[str, object])


def with_shown_workspace(found: Shown, *, desk: Desk, who: Identity) -> Shown:
    """Return a record with its workspace as the person may see it: only on their own machine as a path."""
    folder = found["workspace"]
    if who.is_local or not folder:
        return found
    shown = {**found, "workspace": desk.services.workspaces.display_path(desk.id, str(folder))}
    return cast(Shown, shown)


async def model_response(size_bytes: int, make: Callable[[], BaseModel], *, status: int = 200) -> Response:
    """Answer with a model; one with large content is made, and written as JSON, beside the event loop."""
    body = await read_beside_loop(size_bytes, lambda: make().model_dump_json(by_alias=True).encode())
    return Response(body, status_code=status, media_type="application/json")


async def reserve_export() -> None:
    """Wait for room for an export, which reads one content after the other. Errors: `TooManyAtOnce`."""
    await reserve_content(CONTENT_BYTES_MAX)


async def file_response(name: str, write: Callable[[Path], Awaitable[object]]) -> FileResponse:
    """Return an export that is written for this answer, and gone after it. Errors: `TooManyAtOnce`."""
    await reserve_export()
    folder = await asyncio.to_thread(tempfile.TemporaryDirectory[str], prefix="artelier-")
    try:
        await write(Path(folder.name) / name)
    except BaseException:
        folder.cleanup()
        raise
    return FileResponse(
        Path(folder.name) / name,
        media_type="application/octet-stream",
        filename=name,
        background=BackgroundTask(folder.cleanup),
    )
