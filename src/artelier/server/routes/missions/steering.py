"""`/steering`: of agents and membranes: where the puck stands, hard limits, which tools are on."""

from __future__ import annotations

from contextlib import suppress
from typing import Annotated

from fastapi import Query

from artelier.artifacts.queries import Written, find_written
from artelier.errors import AccessDenied, InvalidRequest, NotFound
from artelier.ids import MAIN_SPACE, OPERATOR
from artelier.missions.steering_document import SUFFIX, Steering, SteeringStore, bias
from artelier.missions.task.preview import upcoming
from artelier.server.deps import Actor, Desk
from artelier.server.routes import resource
from artelier.server.wire import missions as wire
from artelier.server.wire.base import After, Limit, Page

router = resource("steering")

MEMBERS_MAX = 100
"""Members of a membrane of which it is said from where on a change counts."""

Place = Annotated[float, Query(ge=0, le=1)]


@router.get("", operation_id="steering_list")
async def list_(desk: Desk, after: After = None, limit: Limit = 100) -> Page[wire.SteeringShown]:
    """All steering that there is, in the order of its making; what says no steering is left out."""
    artifacts = desk.as_principal(OPERATOR).artifacts
    page = await artifacts.list(kind="steering", limit=limit + 1, after=after)
    items: list[wire.SteeringShown] = []
    for one in page[:limit]:
        with suppress(NotFound, AccessDenied, InvalidRequest):
            items.append(await _show_steering(desk, one.id))
    following = page[limit - 1].id if len(page) > limit else None
    return Page[wire.SteeringShown](items=items, next=following)


@router.get("/preview", operation_id="steering_preview")
async def preview(x: Place = 0.5, y: Place = 0.5, safety: wire.Safety = "open") -> wire.PolicyOut:
    """Return what a puck would ask for. Nothing is saved."""
    return _policy(Steering(x=x, y=y, safety=safety))


@router.get("/{id}", operation_id="steering_show")
async def show(desk: Desk, id: str) -> wire.SteeringShown:
    """Steering of an agent or a membrane, by its id or that of its steering."""
    return await _show_steering(desk, id)


@router.patch("/{id}", operation_id="steering_change")
async def change(desk: Desk, by: Actor, id: str, asked: wire.SteeringPatch) -> wire.SteeringShown:
    """Steer: a new version, in force from the iteration that the answer names."""
    patch = asked.given_fields("expected_version")
    await SteeringStore(desk).change(id, patch, by=by, expected_version=asked.expected_version)
    return await _show_steering(desk, id)


def _policy(steering: Steering) -> wire.PolicyOut:
    return wire.PolicyOut.model_validate(bias(steering))


async def _written(desk: Desk, id: str, version: int) -> Written | None:
    return await find_written(desk.services.store, desk.id, MAIN_SPACE, id, version)


async def _show_steering(desk: Desk, id: str) -> wire.SteeringShown:
    found = await SteeringStore(desk).show(id)
    changed = await _written(desk, found.id, found.version)
    return wire.SteeringShown.model_validate(
        {
            "id": found.id,
            "about": found.about,
            "version": found.version,
            **found.steering.content(),
            "policy": found.policy,
            "in_force": found.in_force.content(),
            "policy_in_force": _policy(found.in_force),
            "from_iteration": await _from(desk, found.about),
            "changed_us": changed.at_us if changed else None,
            "changed_by": changed.by if changed else None,
        }
    )


async def _from(desk: Desk, about: str) -> list[wire.InForceFrom]:
    """Return where a change counts: for the agent itself, or for each member of a membrane."""
    artifact = await desk.as_principal(OPERATOR).artifacts.read(about.removesuffix(SUFFIX))
    agents = [about]
    if artifact.kind == "membrane":
        agents = (await desk.membranes.show(about)).members[:MEMBERS_MAX]
    comes = [await upcoming(desk, agent) for agent in agents]
    return [
        wire.InForceFrom(agent=one.agent, task=one.task, iteration=one.iteration, is_begun=one.is_begun)
        for one in comes
        if one is not None
    ]
