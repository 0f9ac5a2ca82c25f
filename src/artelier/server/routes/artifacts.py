"""`/artifacts`: what people see of artifacts and do with them. They act as `operator`.

With `world`, an artifact of that world instead of the main space; worlds are looked at, not written to.
"""

from __future__ import annotations

import re
from functools import partial
from typing import Annotated

import msgspec
from fastapi import Query, Response

from artelier.agents.card import adopt as bring_home
from artelier.artifacts import Access, AccessPrices, Artifact, Artifacts, Provenance
from artelier.artifacts.content import LeftOut, is_small
from artelier.artifacts.kinds import known_kinds
from artelier.artifacts.queries import Summary
from artelier.artifacts.space_session import PAGE_CHARS_MAX
from artelier.errors import AccessDenied, InvalidRequest
from artelier.ids import OPERATOR
from artelier.server.deps import Actor, Desk, Signed, Who, artifacts_of, model_response
from artelier.server.pii import scrub_query
from artelier.server.routes import resource
from artelier.server.security.held_bodies import WORK, hold_content, reserve_content
from artelier.server.wire import artifacts as wire
from artelier.server.wire.artifacts import in_words
from artelier.server.wire.base import After, AfterNumber, Limit, Page
from artelier.threads import BESIDE_BYTES

router = resource("artifacts")

World = Annotated[
    str | None, Query(max_length=128, description="An artifact of this world: else the main space.")
]
Version = Annotated[int | None, Query(ge=1, le=2**53, description="The newest unless given.")]
ASKED = ("read", "include", "search", "subscribe", "invoke", "write", "delete", "transfer")
"""What `access` tells of people."""

_TYPES = {"text": "text/plain; charset=utf-8", "json": "application/json"}
_SUFFIXES = {"text": ".txt", "json": ".json", "bytes": ".bin"}


async def _of(desk: Desk, actor: str, world: str | None = None) -> Artifacts:
    """Errors: `NotFound` for a world that is not there."""
    if world is not None:
        from artelier.world import World as TheWorld

        await TheWorld.open(desk, world)
    return artifacts_of(desk, actor, world=world)


@router.get("", operation_id="artifacts_list", response_model=wire.ArtifactsPage)
async def list_(
    desk: Desk,
    who: Who,
    actor: Actor,
    kind: Annotated[str | None, Query(max_length=64)] = None,
    owner: Annotated[str | None, Query(max_length=512)] = None,
    q: Annotated[
        str | None, Query(max_length=500, description="Words that must all occur: newest first.")
    ] = None,
    world: World = None,
    after: After = None,
    limit: Limit = 100,
) -> Response:
    """Artifacts that people may read, oldest first; with `q` one page of what its words find."""
    artifacts = await _of(desk, actor, world)
    if q is not None:
        if after is not None:
            raise InvalidRequest("a search has one page", expected="q without after")
        words = await scrub_query(desk, who, q)
        found = await artifacts.search(words, kind=kind, owner=owner, limit=limit)
        return await _page(found, next_=None)
    found = await artifacts.list(
        kind=kind, owner=owner, after=after, limit=limit + 1, chars_max=PAGE_CHARS_MAX
    )
    items = found[:limit]
    is_more = len(found) > limit or sum(one.names_chars for one in found) >= PAGE_CHARS_MAX
    return await _page(items, next_=items[-1].id if is_more else None)


async def _page(found: list[Summary], *, next_: str | None) -> Response:
    size_bytes = sum(one.names_chars for one in found)
    given = {"items": found, "next": next_, "kinds": known_kinds()}
    return await model_response(size_bytes, partial(wire.ArtifactsPage.model_validate, given))


async def _shown(artifact: Artifact, *, status: int = 200) -> Response:
    """Answer with an artifact, and with its content if that is not too large."""
    is_light = isinstance(artifact.content, LeftOut) or is_small(artifact.content, bytes_max=BESIDE_BYTES)
    size_bytes = 0 if is_light else wire.INLINE_BYTES_MAX
    return await model_response(size_bytes, partial(wire.artifact_shown, artifact), status=status)


@router.post("", status_code=201, operation_id="artifacts_write", response_model=wire.ArtifactShown)
async def write(desk: Desk, actor: Actor, body: wire.ArtifactWrite) -> Response:
    """Write a new artifact, or the next version of one that is at `expected_version`."""
    artifacts = artifacts_of(desk, actor)
    if body.subject:
        artifacts = artifacts.about(body.subject)
    artifact = await artifacts.write(
        body.id,
        kind=body.kind,
        content=wire.content_of(body.content, body.media),
        access=body.access,
        prices=body.prices,
        metadata=body.metadata,
        interface=body.interface,
        expected_version=body.expected_version,
        provenance=Provenance(derived_from=tuple(body.derived_from)),
    )
    return await _shown(artifact, status=201)


@router.get("/{id}", operation_id="artifacts_show", response_model=wire.ArtifactShown)
async def show(desk: Desk, actor: Actor, id: str, version: Version = None, world: World = None) -> Response:
    """One version with its content, if reading it is free; `/read` agrees to a price."""
    artifacts = await _of(desk, actor, world)
    return await _shown(await artifacts.look(_ref(id, version), price_max=0, bytes_max=wire.INLINE_BYTES_MAX))


@router.post("/{id}/read", operation_id="artifacts_read", response_model=wire.ArtifactShown)
async def read(desk: Desk, actor: Actor, id: str, body: wire.Paid) -> Response:
    """One version with its content; its read price goes to the owner."""
    ref, artifacts = _ref(id, body.version), artifacts_of(desk, actor)
    return await _shown(await artifacts.read(ref, price_max=body.price_max, bytes_max=wire.INLINE_BYTES_MAX))


def _ref(id: str, version: int | None) -> str:
    """Errors: `InvalidRequest` for an id that names a version or part itself."""
    if "@" in id or "#" in id:
        raise InvalidRequest("an id, no ref", expected="id, with ?version=", got=id[:100])
    return id if version is None else f"{id}@{version}"


@router.patch("/{id}", operation_id="artifacts_change", response_model=wire.ArtifactShown)
async def change(desk: Desk, actor: Actor, id: str, body: wire.ArtifactChange) -> Response:
    """Write a version in which some things are other: content, access, prices, metadata."""
    artifacts = artifacts_of(desk, actor)
    wished = body.given_fields("media", "content", "expected_version")
    before = body.expected_version
    if "content" in body.model_fields_set:
        content = wire.content_of(body.content, body.media)
        return await _shown(await artifacts.write(id, content=content, expected_version=before, **wished))
    if not wished:
        raise InvalidRequest("nothing to change", expected="content, access, prices or metadata")
    await artifacts.size(_ref(id, before))  # the answer has its content: whether that is free is said now
    version = (await artifacts.amend(id, expected_version=before, **wished)).version
    return await _shown(await artifacts.read(_ref(id, version), price_max=0, bytes_max=wire.INLINE_BYTES_MAX))


@router.post(
    "/{id}/adopt", status_code=201, operation_id="artifacts_adopt", response_model=wire.ArtifactShown
)
async def adopt(desk: Desk, who: Who, actor: Actor, id: str, body: wire.Adoption) -> Response:
    """Bring home what a fork has written: the newest version of what the fork's origin wrote."""
    if body.principal != OPERATOR and not who.may("admin"):
        raise AccessDenied(
            "only admins write in the name of others",
            expected=OPERATOR,
            got=body.principal,
            hint="Name with `to` where people may write.",
        )
    artifacts = Signed(desk, actor).as_principal(body.principal).artifacts
    ref = _ref(id, body.version)
    return await _shown(
        await bring_home(desk.services, desk.id, artifacts, ref, to=body.to, room=hold_content), status=201
    )


@router.delete("/{id}", status_code=204, operation_id="artifacts_delete")
async def delete(desk: Desk, actor: Actor, id: str) -> None:
    """Leave a tombstone: no version is readable any more, and the id stays taken."""
    await artifacts_of(desk, actor).delete(id)


@router.get("/{id}/versions", operation_id="artifacts_versions")
async def versions(
    desk: Desk, actor: Actor, id: str, world: World = None, after: AfterNumber = 0, limit: Limit = 100
) -> Page[wire.ArtifactVersion]:
    """The versions of an artifact above `after`, oldest first."""
    found = await (await _of(desk, actor, world)).history(id, after=after, limit=limit + 1)
    following = found[limit - 1].version if len(found) > limit else None
    return Page[wire.ArtifactVersion].model_validate({"items": found[:limit], "next": following})


@router.get("/{id}/diff", operation_id="artifacts_diff")
async def diff(
    desk: Desk,
    actor: Actor,
    id: str,
    a: Annotated[int, Query(ge=1, le=2**53, description="The version before.")],
    b: Annotated[int, Query(ge=1, le=2**53, description="The version after.")],
    world: World = None,
) -> wire.ArtifactDiff:
    """Return what changed from version `a` to version `b`, if reading them is free."""
    artifacts = await _of(desk, actor, world)
    # They become objects, and lines.
    await reserve_content(WORK * sum([await artifacts.size(_ref(id, version)) for version in (a, b)]))
    found = msgspec.to_builtins(await artifacts.diff(id, a, b, price_max=0))
    return wire.ArtifactDiff(a=a, b=b, **found)


@router.get("/{id}/lineage", operation_id="artifacts_lineage")
async def lineage(desk: Desk, actor: Actor, id: str, world: World = None) -> wire.ArtifactLineage:
    """Return what an artifact came from, and what came from it."""
    found = await (await _of(desk, actor, world)).lineage(id)
    return wire.ArtifactLineage.model_validate(found)


@router.get("/{id}/access", operation_id="artifacts_access")
async def access(desk: Desk, actor: Actor, id: str, world: World = None) -> wire.ArtifactAccess:
    """Its policy and prices, as data and in words, and what people may do with it."""
    artifacts = await _of(desk, actor, world)
    verdicts = [await artifacts.access(_ref(id, None), action) for action in ASKED]
    # Its rules are for those who may read it, or could if they paid.
    if verdicts[0].refusal in ("missing", "denied") and not verdicts[0].price:
        verdicts[0].granted()
    standing = verdicts[0].standing
    assert standing is not None, "whatever may be read is there"
    rules: Access | None = standing.access
    prices: AccessPrices = standing.prices
    return wire.ArtifactAccess.model_validate(
        {
            "id": id,
            "owner": standing.owner,
            "creator": standing.creator,
            "access": rules,
            "prices": prices,
            "words": in_words(standing.owner, rules, prices),
            "people": verdicts,
        }
    )


@router.post("/{id}/invoke", operation_id="artifacts_invoke")
async def invoke(desk: Desk, actor: Actor, id: str, body: wire.Invocation) -> wire.InvocationResult:
    """Run an executable artifact in the sandbox; what it does is recorded whole or not at all."""
    if "price_max" in body.args:
        raise InvalidRequest("no argument can be called price_max", hint="It stands beside args.")
    found = await artifacts_of(desk, actor).invoke(id, price_max=body.price_max, **body.args)
    return wire.InvocationResult.model_validate(found)


@router.get(
    "/{id}/content",
    operation_id="artifacts_content",
    response_class=Response,
    responses={200: {"content": {"application/octet-stream": {}}}},
)
async def content(
    desk: Desk, actor: Actor, id: str, version: Version = None, world: World = None
) -> Response:
    """The bytes of a version as a download: whatever they are, no browser runs them here."""
    media, stored = await (await _of(desk, actor, world)).encoded(_ref(id, version))
    name = _file_name(id, media)
    return Response(
        stored,
        media_type=_TYPES.get(media, "application/octet-stream"),
        headers={"Content-Disposition": f'attachment; filename="{name}"'},
    )


def _file_name(id: str, media: str) -> str:
    """The last piece of an id as the name of a file."""
    plain = re.sub(r"[^A-Za-z0-9._-]", "_", id.rpartition("/")[2]).strip(".") or "artifact"
    return plain if "." in plain else f"{plain}{_SUFFIXES[media]}"
