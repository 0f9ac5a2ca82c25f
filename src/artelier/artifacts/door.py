"""The way of one principal into one space: what stands there, whether it may be touched, how it changes.

Everything the handle does passes here, so that permission and payment are asked in one place.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple, cast

from artelier.artifacts.access import Access
from artelier.artifacts.artifact import Artifact, Provenance
from artelier.artifacts.bill import Bill
from artelier.artifacts.content import decode_content
from artelier.artifacts.events import ArtifactCharged, artifact_stream
from artelier.artifacts.kinds import kind_named
from artelier.artifacts.ref import Ref
from artelier.artifacts.rows import Standing, VersionRow, load, sources_of
from artelier.clock import Clock
from artelier.errors import (
    AccessDenied,
    InvalidArtifact,
    NotFound,
    SequenceConflict,
    VersionConflict,
)
from artelier.log import Batch, Draft, EventData, Store, StreamAppend, blob_name

ATTEMPTS_MAX = 100
"""How often something is decided anew because somebody else was faster (50 writers at once need 50)."""


class Door(NamedTuple):
    """Where, and as whom. All queries carry tenant and space; no method takes another principal."""

    store: Store
    clock: Clock
    tenant: str
    space: str
    principal: str

    async def find(self, id: str, *, version: int | None = None) -> Standing | None:
        return await load(self.store, self.tenant, self.space, id, version=version)

    async def permitted(self, id: str, action: str, *, version: int | None = None) -> Standing:
        """What stands under an id. Errors: `NotFound`, `AccessDenied`."""
        standing = await self.find(id, version=version)
        if standing is None:
            raise NotFound(f"no artifact {id}")
        if standing.deleted:
            raise NotFound(f"artifact {id} was deleted")
        decision = Access.check(action, self.principal, standing)
        if not decision.allowed:
            raise AccessDenied(
                f"{self.principal} may not {action} artifact {id}: {decision.reason}", artifact=id
            )
        return standing

    async def may(self, action: str, id: str) -> bool:
        try:
            await self.permitted(id, action)
        except (NotFound, AccessDenied):
            return False
        return True

    async def read(self, ref: Ref, *, price_max: int | None) -> Artifact:
        """A version, or a part of it, paid for if it has a price."""
        standing = await self.permitted(ref.id, "read", version=ref.version)
        artifact = await self._content(standing, ref)
        if Bill.price("read", standing, self.principal) == 0:
            return artifact
        bought: list[Artifact] = []

        async def pay(standing: Standing) -> ArtifactCharged:
            price = Bill.price("read", standing, self.principal)
            if price_max is not None and price > price_max:
                raise AccessDenied(
                    f"artifact {ref.id} costs more than agreed",
                    expected=f"at most {price_max} scrip",
                    got=f"{price} scrip",
                )
            bought.append(await self._content(standing, ref))
            return ArtifactCharged(
                id=ref.id,
                version=bought[-1].version,
                action="read",
                payer=self.principal,
                postings=Bill.postings("read", standing, self.principal),
            )

        await self.change(ref.id, "read", pay, version=ref.version)
        return bought[-1]

    async def change(
        self,
        id: str,
        action: str,
        decide: Callable[[Standing], Awaitable[EventData | None]],
        *,
        version: int | None = None,
    ) -> None:
        """Append what `decide` makes of an artifact as it stands; None leaves it.

        Errors: `NotFound`, `AccessDenied`, those of `decide`, `VersionConflict` if it never stands still.
        """
        stream = artifact_stream(self.tenant, self.space, id)
        for _ in range(ATTEMPTS_MAX):
            # The head before the row: whatever comes between makes the append fail, never pass unseen.
            seq, _hash = await self.store.head(stream)
            data = await decide(await self.permitted(id, action, version=version))
            if data is None:
                return
            draft = Draft(data, self.clock.now_us(), self.principal)
            try:
                await self.store.append(Batch(appends=(StreamAppend(stream, (draft,), seq),)))
                return
            except SequenceConflict:
                continue
        raise too_busy(id)

    async def extra(self, ref: str | None) -> Any:
        """Metadata or an interface; None if there is none."""
        if ref is None:
            return None
        return decode_content("json", await self.store.blob(self.tenant, blob_name(ref)))

    async def _content(self, standing: Standing, ref: Ref) -> Artifact:
        """The artifact with its content. Errors: `NotFound` for a version or part that is not there."""
        at = _version(standing, ref)
        content = decode_content(
            at.media, await self.store.blob(self.tenant, blob_name(at.content))
        )
        sources = (
            await sources_of(
                self.store, self.tenant, self.space, ref.id, version=at.version, limit=at.sources
            )
            if at.sources
            else []
        )
        return Artifact(
            id=standing.id,
            kind=standing.kind,
            content=content if ref.part is None else _part(standing, content, ref.part),
            version=at.version,
            creator=standing.creator,
            owner=standing.owner,
            access=standing.access,
            prices=standing.prices,
            interface=await self.extra(at.interface),
            provenance=Provenance(derived_from=tuple(sources), run_id=at.run_id, step=at.step),
            metadata=await self.extra(at.metadata) or {},
            created_us=standing.created_us,
            written_us=at.written_us,
        )


def too_busy(id: str) -> VersionConflict:
    return VersionConflict(
        f"artifact {id} changes faster than this can be decided", got=f"{ATTEMPTS_MAX} attempts"
    )


def _version(standing: Standing, ref: Ref) -> VersionRow:
    at = standing.at
    if at is None:
        raise NotFound(
            f"artifact {ref.id} has no version {ref.version}", expected=f"1 to {standing.version}"
        )
    if at.version < standing.kept_from:
        raise NotFound(
            f"version {at.version} of artifact {ref.id} was pruned",
            expected=f"{standing.kept_from} to {standing.version}",
        )
    return at


def _part(standing: Standing, content: Any, part: str) -> Any:
    try:
        holder = kind_named(standing.kind).parts
    except InvalidArtifact:
        holder = None  # a kind that nobody registered here has no parts that we know of
    parts: object = content.get(holder) if holder and isinstance(content, dict) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType] - JSON
    if not isinstance(parts, dict) or part not in parts:
        raise NotFound(f"artifact {standing.id} has no part {part}")
    return cast("dict[str, Any]", parts)[part]
