"""`/profiles`: profiles of operations, the shipped ones and those of this tenant."""

from __future__ import annotations

from itertools import accumulate

from fastapi import Request

from artelier.errors import Erased, NotFound
from artelier.operations.profile.operation_profile import (
    InvalidProfile,
    ListedProfile,
    OperationProfile,
    mistakes_in,
    parse_profile,
)
from artelier.operations.profile.profile_reader import list_profile
from artelier.operations.profile.store import KIND, SHIPPED, SHIPPED_SOURCE, read_profile, save_content
from artelier.server.deps import Actor, Desk, artifacts_of
from artelier.server.routes import resource
from artelier.server.wire import chats as wire
from artelier.server.wire.artifacts import ArtifactVersion
from artelier.server.wire.base import After, AfterNumber, Limit, Page
from artelier.threads import run_in_content_thread

router = resource("profiles")

PAGE_BYTES = 8 * 1024 * 1024
"""Of the profiles that one page is made from: as large as one may be."""


@router.get("", operation_id="profiles_list")
async def list_(desk: Desk, actor: Actor, after: After = None, limit: Limit = 100) -> wire.ProfilesPage:
    """Profiles that people may read; the first page begins with the shipped ones."""
    items = [] if after else ListedProfile.all_shipped()
    broken: list[str] = []
    stored = await artifacts_of(desk, actor).list(kind=KIND, after=after, limit=limit + 1)
    read_bytes = accumulate(one.size_bytes for one in stored[:limit])
    count = max(1, sum(size_bytes <= PAGE_BYTES for size_bytes in read_bytes))
    for one in stored[:count]:
        ref = f"{one.id}@{one.version}"
        try:
            items.append(await list_profile(desk, ref))
        except (Erased, InvalidProfile):
            broken.append(ref)
    following = stored[count - 1].id if len(stored) > count else None
    return wire.ProfilesPage.model_validate({"items": items, "next": following, "invalid": broken})


@router.post("/validate", operation_id="profiles_validate")
async def validate(request: Request, desk: Desk, body: wire.ProfileBody) -> wire.Validated:
    """All mistakes of a profile with their places; nothing is stored."""
    size_bytes = len(await request.body())
    errors = await run_in_content_thread(size_bytes, mistakes_in, body.profile)
    return wire.Validated.model_validate({"valid": not errors, "errors": errors})


@router.post("", status_code=201, operation_id="profiles_save")
async def save(request: Request, desk: Desk, actor: Actor, body: wire.ProfileBody) -> wire.ProfileSaved:
    """Store a profile under its `profile_id`, if nothing is wrong with it; unchanged it gets no version."""
    size_bytes = len(await request.body())
    profile = await run_in_content_thread(size_bytes, parse_profile, body.profile)
    ref = await save_content(artifacts_of(desk, actor), profile.profile_id, KIND, profile.data())
    return wire.ProfileSaved(ref=ref, profile_id=profile.profile_id)


@router.get("/{id}", operation_id="profiles_show")
async def show(desk: Desk, id: str) -> wire.ProfileShown:
    """A stored profile by its id or ref, else the shipped one of that name."""
    try:
        content, source = await read_profile(desk, id)
    except NotFound:
        if id not in SHIPPED:
            raise
        content, source = OperationProfile.shipped(id).data(), SHIPPED_SOURCE
    return wire.ProfileShown(profile_id=id.partition("@")[0], source=source, profile=content)


@router.get("/{id}/versions", operation_id="profiles_versions")
async def versions(
    desk: Desk, actor: Actor, id: str, after: AfterNumber = 0, limit: Limit = 100
) -> Page[ArtifactVersion]:
    """The versions of a stored profile above `after`, oldest first."""
    found = await artifacts_of(desk, actor).history(id, after=after, limit=limit + 1)
    following = found[limit - 1].version if len(found) > limit else None
    return Page[ArtifactVersion].model_validate({"items": found[:limit], "next": following})
