"""`/membranes`: shared pools of context. Members read what is shared there, from the next step on."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query

from artelier.errors import InvalidRequest
from artelier.ids import OPERATOR
from artelier.missions.membranes import MembraneView
from artelier.missions.mission_agents import change_membrane
from artelier.server.deps import Actor, Desk, check_mission, new_id
from artelier.server.routes import resource
from artelier.server.wire import missions as wire
from artelier.server.wire.base import ID_CHARS_MAX, After, Limit, Page

router = resource("membranes")


@router.get("", operation_id="membranes_list")
async def list_(
    desk: Desk,
    mission: Annotated[str | None, Query(max_length=ID_CHARS_MAX)] = None,
    after: After = None,
    limit: Limit = 100,
) -> Page[wire.MembraneLine]:
    """Membranes, of one mission by id or else all in the order of their making."""
    found: list[MembraneView] = []
    while len(found) <= limit:
        page = await desk.membranes.list(mission, limit=limit + 1, after=after)
        if not page:
            break
        found, after = [*found, *page], page[-1].id
    following = found[limit - 1].id if len(found) > limit else None
    return Page[wire.MembraneLine].model_validate({"items": found[:limit], "next": following})


@router.post("", status_code=201, operation_id="membranes_create")
async def create(desk: Desk, by: Actor, asked: wire.MembraneNew) -> wire.MembraneShown:
    """Make a membrane with its members."""
    await check_mission(desk, asked.mission)
    id = new_id(asked.id, asked.name, mission=asked.mission, folder="membranes")
    if asked.mission and not id.startswith(f"{asked.mission}/"):
        raise InvalidRequest(
            "what belongs to a mission is named after it", expected=f"{asked.mission}/<slug>", got=id[:140]
        )
    await desk.membranes.create(
        id, name=asked.name, members=asked.members, budget_usd=asked.budget_usd, by=by
    )
    return await _show_membrane(desk, id)


@router.get("/{id}", operation_id="membranes_show")
async def show(desk: Desk, id: str) -> wire.MembraneShown:
    """A membrane with its members and the first of what it shares."""
    return await _show_membrane(desk, id)


async def _show_membrane(desk: Desk, id: str) -> wire.MembraneShown:
    return wire.MembraneShown.model_validate(await desk.membranes.show(id))


@router.patch("/{id}", operation_id="membranes_change")
async def change(desk: Desk, by: Actor, id: str, asked: wire.MembraneChange) -> wire.MembraneShown:
    """Change its name, or its budget, which is a cap at once."""
    await change_membrane(
        desk, id, asked.given_fields("expected_version"), by=by, expected_version=asked.expected_version
    )
    return await _show_membrane(desk, id)


@router.get("/{id}/shared", operation_id="membranes_shared")
async def shared(desk: Desk, id: str, after: After = None, limit: Limit = 100) -> Page[wire.Shared]:
    """Return what its members may read, by id. A page may be short although more follow."""
    await desk.membranes.show(id)
    page = await desk.as_principal(OPERATOR).artifacts.shared(id, limit=limit, after=after)
    return Page[wire.Shared].model_validate({"items": list(page.items), "next": page.next})


@router.post("/{id}/join", operation_id="membranes_join")
async def join(desk: Desk, by: Actor, id: str, asked: wire.Member) -> wire.MembraneShown:
    """Let an agent read what is shared, from its next step on."""
    await desk.membranes.join(id, asked.agent, by)
    return await _show_membrane(desk, id)


@router.post("/{id}/leave", operation_id="membranes_leave")
async def leave(desk: Desk, by: Actor, id: str, asked: wire.Member) -> wire.MembraneShown:
    """Take that right away, at once."""
    await desk.membranes.leave(id, asked.agent, by)
    return await _show_membrane(desk, id)


@router.post("/{id}/share", operation_id="membranes_share")
async def share(desk: Desk, by: Actor, id: str, asked: wire.SharedOne) -> wire.MembraneShown:
    """Let the members read an artifact."""
    await desk.membranes.share(id, asked.artifact, by)
    return await _show_membrane(desk, id)


@router.post("/{id}/unshare", operation_id="membranes_unshare")
async def unshare(desk: Desk, by: Actor, id: str, asked: wire.SharedOne) -> wire.MembraneShown:
    """Take the members' right to read an artifact away."""
    await desk.membranes.unshare(id, asked.artifact, by)
    return await _show_membrane(desk, id)
