"""`/skills`: what agents can load, and what waits for a person's look."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query

from artelier.server.deps import Actor, Desk
from artelier.server.routes import resource
from artelier.server.wire import agents as wire
from artelier.server.wire.base import After, Limit, Page
from artelier.tools.skills import Skills
from artelier.tools.skills.approval import SkillReport

router = resource("skills")


def _id_of(row: SkillReport) -> str:
    return f"{row['source']}/{row['name']}"


def _line(row: SkillReport) -> wire.SkillLineOut:
    return wire.SkillLineOut.model_validate({"id": _id_of(row), **row})


@router.get("", operation_id="skills_list")
async def list_(
    desk: Desk,
    status: Annotated[wire.Status | None, Query(description="Only those.")] = None,
    after: After = None,
    limit: Limit = 100,
) -> Page[wire.SkillLineOut]:
    """The skills that were ever seen in this tenant, by id."""
    found = sorted(map(_line, await Skills(desk.services, desk.id).list()), key=lambda one: one.id)
    rest = [one for one in found if one.id > (after or "") and status in (None, one.status)]
    following = rest[limit - 1].id if len(rest) > limit else None
    return Page[wire.SkillLineOut](items=rest[:limit], next=following)


@router.get("/{id}", operation_id="skills_show")
async def show(desk: Desk, id: str) -> wire.SkillShown:
    """A skill's newest definition, and why it is parked."""
    found = await Skills(desk.services, desk.id).show(id)
    return wire.SkillShown.model_validate({"id": _id_of(found), **found})


@router.get("/{id}/diff", operation_id="skills_diff")
async def diff(desk: Desk, id: str) -> wire.SkillDiff:
    """Return what changed since it could last be used."""
    skills = Skills(desk.services, desk.id)
    files = await skills.files_changed(id)
    return wire.SkillDiff.model_validate({"diff": await skills.diff(id), "files": files})


@router.post("/{id}/approve", operation_id="skills_approve")
async def approve(desk: Desk, actor: Actor, id: str, body: wire.SkillDecision) -> wire.SkillLineOut:
    """Let a parked or refused definition be used from the next listing on."""
    skills = Skills(desk.services, desk.id)
    found = await skills.approve(id, by=actor, note=body.note, hash=body.hash)
    return _line(found)


@router.post("/{id}/refuse", operation_id="skills_refuse")
async def refuse(desk: Desk, actor: Actor, id: str, body: wire.SkillDecision) -> wire.SkillLineOut:
    """Forbid a definition, also one in use: its next call is refused."""
    skills = Skills(desk.services, desk.id)
    found = await skills.refuse(id, by=actor, note=body.note, hash=body.hash)
    return _line(found)
