"""Decide a write: what stands and what is asked become the event of a new version, or a refusal."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec

from artelier.artifacts.access import Access, AccessDecision, AccessPrices, check_prices
from artelier.artifacts.content import Media, encode_content, is_small
from artelier.artifacts.events import ArtifactWritten
from artelier.artifacts.kinds import (
    Kind,
    check_content,
    check_interface,
    is_executable,
    kind_named,
    known_kinds,
)
from artelier.artifacts.queries import Artifact, Provenance, Standing, VersionRow
from artelier.artifacts.ref import safe_repr
from artelier.artifacts.space_session import RetentionRules
from artelier.errors import AccessDenied, ArtelierError, InvalidArtifact, NotFound, VersionConflict
from artelier.log import Blob, BlobRef, DataKey, make_blob, prepared_blob
from artelier.log.blobs import LARGE_BYTES

EXTRAS_BYTES_MAX = 256 * 1024
"""Stored bytes of metadata, and of an interface (guess: hundreds of tools)."""


KEPT = object()
"""In the place of the content of a new version that has the same as the one before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteRequest:
    """The caller's request to write. None keeps the value of the version before."""

    id: str
    content: Any
    """`KEPT` for that of the version before."""
    kind: str | None = None
    access: object = None
    prices: object = None
    expected_version: int | None = None
    """The version that is to be replaced; 0 for an id that must be new."""
    metadata: Mapping[str, Any] | None = None
    interface: Any = None
    provenance: Provenance | None = None


class Encoded(msgspec.Struct, frozen=True):
    """Content, metadata and interface of a wish as they will be stored."""

    media: Media
    content: bytes
    metadata: bytes | None
    interface: bytes | None


def encode(wish: WriteRequest) -> Encoded:
    """Errors: `InvalidArtifact` for content, metadata or an interface that cannot be stored."""
    media, content = encode_content(b"" if wish.content is KEPT else wish.content)

    def extra(value: object, what: str) -> bytes | None:
        if value is None:
            return None
        if not isinstance(value, Mapping):
            raise InvalidArtifact(f"invalid {what}", expected="a JSON object", got=type(value).__name__)
        return encode_content(dict(value), limit_bytes=EXTRAS_BYTES_MAX)[1]  # pyright: ignore[reportUnknownArgumentType] - JSON, checked there

    return Encoded(media, content, extra(wish.metadata, "metadata"), extra(wish.interface, "interface"))


class PreparedContent(NamedTuple):
    """The large content of a wish, checked and named off the event loop."""

    encoded: Encoded
    content: tuple[BlobRef, Blob]
    mistake: ArtelierError | None
    """The reason for which the kind of the artifact does not take it, told to whoever may write."""


async def prepare(
    wish: WriteRequest, standing: Standing | None, *, tenant: str, key: DataKey
) -> PreparedContent | None:
    """Return the content of a wish as it is stored; None for small content, which needs no care.

    Errors: those of `encode`, and of the search for personal data.
    """
    if is_small(wish.content, bytes_max=LARGE_BYTES):
        return None
    encoded, mistake = await asyncio.to_thread(lambda: (encode(wish), _mistake_in(wish, standing)))
    return PreparedContent(encoded, await prepared_blob(tenant, key, encoded.content), mistake)


def _mistake_in(wish: WriteRequest, standing: Standing | None) -> ArtelierError | None:
    try:
        check_content(kind_named(_kind(wish, standing)), wish.content)
    except ArtelierError as error:
        return error
    return None


def check_expected(wish: WriteRequest, standing: Standing | None) -> None:
    """Errors: `VersionConflict` with both numbers."""
    have = standing.version if standing else 0
    if wish.expected_version is not None and wish.expected_version != have:
        raise VersionConflict(
            f"artifact {wish.id} has moved on",
            expected=f"version {wish.expected_version}",
            got=f"version {have}",
            hint="Read it again and decide anew.",
            artifact=wish.id,
            expected_version=wish.expected_version,
            have_version=have,
        )


def asked_right(wish: WriteRequest) -> str:
    """Return what a wish needs: to set policy or prices is the owner's right, and needs no other."""
    return "write" if wish.access is None and wish.prices is None else "govern"


def check_allowed(
    wish: WriteRequest, standing: Standing, principal: str, decision: AccessDecision | None
) -> None:
    """Errors: `NotFound` for a deleted artifact, `AccessDenied`, also for what nobody decided."""
    if standing.deleted:
        raise NotFound(f"artifact {wish.id} was deleted", hint="Write under another id.")
    if decision is None or not decision.allowed:
        reason = decision.reason if decision else "nobody decided"
        raise AccessDenied(f"{principal} may not write artifact {wish.id}: {reason}", artifact=wish.id)


def decide_write(
    wish: WriteRequest,
    standing: Standing | None,
    decision: AccessDecision | None,
    *,
    tenant: str,
    principal: str,
    key: DataKey,
    prepared: PreparedContent | None = None,
) -> tuple[ArtifactWritten, list[Blob]]:
    """The event of the next version and the blobs it names, its content first.

    `decision` is the gate's on `asked_right` over what stands; for a new id there is none. `prepared` is what
    `prepare` has made of the same wish over the same standing, under the same key.

    Errors: `InvalidArtifact`, `InvalidRequest`, `AccessDenied`, `VersionConflict`, `NotFound`.
    """
    if standing is not None:
        check_allowed(wish, standing, principal, decision)
    check_expected(wish, standing)
    kind = kind_named(_kind(wish, standing))
    encoded = encode(wish) if prepared is None else prepared.encoded
    RetentionRules.parse((wish.metadata or {}).get("retention", {}))
    if prepared is not None and prepared.mistake is not None:
        raise prepared.mistake
    if prepared is None and wish.content is not KEPT:
        check_content(kind, wish.content)
    if wish.interface is not None and is_executable(kind, wish.content):
        check_interface(wish.interface)
    access, prices = _rights(wish, standing, kind)
    provenance = (wish.provenance or Provenance()).normalise()
    blobs: list[Blob] = []

    def keep(content: bytes) -> BlobRef:
        ref, blob = make_blob(tenant, key, content)
        blobs.append(blob)
        return ref

    def keep_extra(content: bytes | None, before: str | None) -> BlobRef | None:
        if content is not None:
            return keep(content)
        return None if before is None else BlobRef(before)

    at = standing.at if standing else None
    new = None if prepared is None else prepared.content
    if new is None and wish.content is not KEPT:
        new = make_blob(tenant, key, encoded.content)
    content, media, size_bytes = _name_content(at, encoded, blobs, new)
    event = ArtifactWritten(
        id=wish.id,
        kind=kind.name,
        version=standing.version + 1 if standing else 1,
        content=content,
        media=media,
        size_bytes=size_bytes,
        creator=standing.creator if standing else principal,
        owner=standing.owner if standing else principal,
        access=access,
        prices=prices,
        metadata=keep_extra(encoded.metadata, at.metadata if at else None),
        interface=keep_extra(encoded.interface, at.interface if at else None),
        derived_from=provenance.derived_from,
        run_id=provenance.run_id,
        step=provenance.step,
    )
    return event, blobs


def _name_content(
    at: VersionRow | None, encoded: Encoded, blobs: list[Blob], new: tuple[BlobRef, Blob] | None
) -> tuple[BlobRef, str, int]:
    """Return reference, media and size of the content of the next version; a new one goes into `blobs`."""
    if new is None:
        assert at is not None, "what stands has a version"
        return BlobRef(at.content), at.media, at.size_bytes
    ref, blob = new
    blobs.append(blob)
    return ref, encoded.media, len(encoded.content)


def _rights(wish: WriteRequest, standing: Standing | None, kind: Kind) -> tuple[Access, AccessPrices]:
    prices = standing.prices if standing else AccessPrices()
    if wish.prices is not None:
        prices = check_prices(wish.prices)
    access = standing.access if standing else Access.parse(kind.default_access)
    if wish.access is not None:
        access = Access.parse(wish.access)
    if access is None:
        raise InvalidArtifact(f"the access policy of {wish.id} is broken", hint="Set `access`.")
    return access, prices


def _kind(wish: WriteRequest, standing: Standing | None) -> str | None:
    if standing is None:
        if wish.kind is None:
            raise InvalidArtifact(
                f"{wish.id} is new, and a new artifact needs a kind",
                expected=f"`kind`: {', '.join(known_kinds())}",
            )
        return wish.kind
    if wish.kind not in (None, standing.kind):
        raise InvalidArtifact(
            f"the kind of {wish.id} is fixed", expected=standing.kind, got=safe_repr(wish.kind)
        )
    return standing.kind


def artifact_of(
    event: ArtifactWritten,
    *,
    content: object,
    metadata: Mapping[str, Any] | None,
    interface: object,
    created_us: int,
    written_us: int,
) -> Artifact:
    """The artifact that a write leaves."""
    return Artifact(
        id=event.id,
        kind=event.kind,
        content=content,
        version=event.version,
        creator=event.creator,
        owner=event.owner,
        access=event.access,
        prices=event.prices,
        interface=interface,
        provenance=Provenance(derived_from=event.derived_from, run_id=event.run_id, step=event.step),
        metadata=dict(metadata or {}),
        created_us=created_us,
        written_us=written_us,
    )
