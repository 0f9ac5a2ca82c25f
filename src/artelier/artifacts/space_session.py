"""The way of one principal into one space: what stands there, whether it may be touched, how it changes.

Everything the handle does passes here, so that permission and payment are asked in one place.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Annotated, Any, NamedTuple, Protocol

import msgspec

from artelier.artifacts.content import (
    LeftOut,
    canonical_json,
    decode_content,
    decoded_content,
    encode_content,
    media_of,
)
from artelier.artifacts.contracts import (
    AccessVerdict,
    Decisions,
    Gate,
    Interpreter,
    judge,
    part_of,
    permit,
    version_at,
)
from artelier.artifacts.events import ArtifactCharged, artifact_stream
from artelier.artifacts.groups.queries import living_beyond
from artelier.artifacts.queries import (
    Artifact,
    Provenance,
    Standing,
    Summary,
    VersionRow,
    load,
    oldest_since,
    sources_of,
)
from artelier.artifacts.ref import Ref, safe_repr
from artelier.artifacts.working_state import Stage, StoreStage
from artelier.clock import Clock
from artelier.errors import (
    Conflict,
    CorruptStore,
    Erased,
    InvalidArtifact,
    NotFound,
    SequenceConflict,
    VersionConflict,
)
from artelier.ids import MAIN_SPACE
from artelier.log import Batch, DataKey, Draft, EventData, Store, StreamAppend, blob_name
from artelier.threads import read_beside_loop

ATTEMPTS_MAX = 100
"""How often something is decided anew because somebody else was faster (50 writers at once need 50)."""


class Stages(Protocol):
    def __call__(self, store: Store, *, tenant: str, space: str, at_us: int) -> StoreStage: ...


KeyOfRun = Callable[[str], Awaitable[DataKey | None]]
"""The key of the subject of a run, by its id; None if it has none."""


TakeRoom = Callable[[int], Awaitable[None]]
"""Waits for memory for content of so many bytes, which is read next."""


class AccessOutcome(NamedTuple):
    """An access that does not raise: content and charge, or a verdict that says why not."""

    verdict: AccessVerdict
    artifact: Artifact | None
    charge: ArtifactCharged | None
    """Append it in the batch of whatever uses the content; None if that is free."""


class Door(NamedTuple):
    """A principal's access to a space. Queries carry tenant and space; no method takes another principal."""

    store: Store
    clock: Clock
    tenant: str
    space: str
    principal: str
    interpreter: Interpreter | None = None
    """Runs contracts and executable artifacts; without one, contracts deny."""
    decisions: Decisions | None = None
    """Of the step that this is part of; without them each access asks its contract anew."""
    stages: Stages = StoreStage
    """What makes the stage of a decision; a world's knows licences and royalties too."""
    by: str = ""
    """Who acts in the principal's name, as events say it; empty for the principal."""
    key_of_run: KeyOfRun | None = None
    """What a run writes is stored under its subject's key; without this, under the tenant's."""
    subject: str = ""
    """Whom all that is written here is about; empty for what the run, or what stands there, says."""
    room: TakeRoom | None = None
    """The room that content takes before it is read; without this, none."""

    @property
    def actor(self) -> str:
        return self.by or self.principal

    async def find(self, id: str) -> Standing | None:
        return await load(self.store, self.tenant, self.space, id)

    async def key(self, standing: Standing | None, *, given: DataKey | None, run_id: str | None) -> DataKey:
        """Return what a new version is stored under: the key of its writer's subject, or of what stands
        there.

        `given` is the writer's. Errors: `Conflict` if what stands there is about another subject; `Erased`.
        """
        tenants = await self.store.data_key(self.tenant)
        own = None if given is None or given.key_id == tenants.key_id else given
        if own is None and self.subject:
            own = await self.store.data_key(self.tenant, self.subject)
        if own is None and run_id and self.key_of_run is not None:
            own = await self.key_of_run(run_id)
        if standing is None or standing.at is None:
            return own or tenants
        held = await self.store.subject_key_of(self.tenant, blob_name(standing.at.content))
        if held is not None and own is not None and held.key_id != own.key_id:
            raise Conflict(
                f"artifact {standing.id} holds what is about another subject",
                expected="an artifact of this subject, or one without a subject",
                hint="Write under another id: each subject is erased alone.",
            )
        return own or held or tenants

    def stage(self) -> StoreStage:
        """Return what stands now, to decide something over."""
        return self.stages(self.store, tenant=self.tenant, space=self.space, at_us=self.clock.now_us())

    def gate(self, stage: Stage) -> Gate:
        return Gate(stage, self.interpreter, self.decisions)

    async def permit_action(self, id: str, action: str) -> Standing:
        """Return what stands under an id. Errors: `NotFound`, `AccessDenied`."""
        stage = self.stage()
        verdict = await permit(stage, self.gate(stage), Ref(id), action, self.principal)
        return verdict.granted()

    async def may(self, action: str, ids: Iterable[str]) -> set[str]:
        """Return those of the given artifacts on which the principal may perform an action."""
        stage = self.stage()
        gate = self.gate(stage)
        return {id for id in ids if (await permit(stage, gate, Ref(id), action, self.principal)).allowed}

    async def access(self, ref: Ref, action: str, *, price_max: int | None = None) -> AccessVerdict:
        """Return whether an access may be, and at which price; a refusal is a value, and nothing is moved."""
        stage = self.stage()
        return await judge(stage, self.gate(stage), ref, action, self.principal, price_max=price_max)

    async def take(self, ref: Ref, action: str, *, price_max: int | None = None) -> AccessOutcome:
        """Content together with what it costs; the charge is the caller's to append with its use."""
        verdict = await self.access(ref, action, price_max=price_max)
        if not verdict.allowed:
            return AccessOutcome(verdict, None, None)
        try:
            artifact = await self._content(verdict.granted(), ref)
        except (NotFound, CorruptStore) as error:  # no such part, or erased
            missing = verdict._replace(refusal="missing", reason=error.message, error=error)
            return AccessOutcome(missing, None, None)
        return AccessOutcome(verdict, artifact, verdict.charge())

    async def read(
        self, ref: Ref, *, price_max: int | None = None, is_whole: bool = True, bytes_max: int | None = None
    ) -> Artifact:
        """A version, or a part of it, paid for if it has a price.

        `is_whole`: with what belongs to it and is kept elsewhere; else its content as it was written.
        `bytes_max`: with `LeftOut` for content that is stored in more.
        """
        bought: list[Artifact] = []

        async def pay(verdict: AccessVerdict) -> EventData | None:
            standing = verdict.granted()
            bought.append(await self._content(standing, ref, is_whole=is_whole, bytes_max=bytes_max))
            return verdict.charge()

        if await pay(await self.access(ref, "read", price_max=price_max)) is not None:
            await self._decide(ref, "read", pay, price_max=price_max)
        return bought[-1]

    async def change(
        self, id: str, action: str, decide: Callable[[Standing], Awaitable[EventData | None]]
    ) -> None:
        """Append what `decide` makes of an artifact as it stands; None leaves it.

        Errors: `NotFound`, `AccessDenied`, those of `decide`, `VersionConflict` if it never stands still.
        """

        async def over(verdict: AccessVerdict) -> EventData | None:
            return await decide(verdict.granted())

        await self._decide(Ref(id), action, over)

    async def _decide(
        self,
        ref: Ref,
        action: str,
        decide: Callable[[AccessVerdict], Awaitable[EventData | None]],
        *,
        price_max: int | None = None,
    ) -> None:
        stream = artifact_stream(self.tenant, self.space, ref.id)
        for _ in range(ATTEMPTS_MAX):
            # The head before the row: whatever comes between makes the append fail, never pass unseen.
            seq, _hash = await self.store.head(stream)
            stage = self.stage()
            verdict = await judge(stage, self.gate(stage), ref, action, self.principal, price_max=price_max)
            data = await decide(verdict)
            if data is None:
                return
            draft = Draft(data, self.clock.now_us(), self.actor)
            batch = Batch(
                appends=(StreamAppend(stream, (draft,), seq),),
                guard=stage.guard_for(action, verdict.granted()),
            )
            try:
                await self.store.append(batch)
                return
            except SequenceConflict:
                continue
        raise too_busy(ref.id)

    async def extra(self, ref: str | None) -> Any:
        """Metadata or an interface; None if there is none."""
        if ref is None:
            return None
        return decode_content("json", await self.store.blob(self.tenant, blob_name(ref)))

    async def _content(
        self, standing: Standing, ref: Ref, *, is_whole: bool = True, bytes_max: int | None = None
    ) -> Artifact:
        """The artifact with its content. Errors: `NotFound` for a version or part that is not there."""
        at = version_at(standing, ref)
        content: object = LeftOut(media=at.media, size_bytes=at.size_bytes)
        if bytes_max is None or at.size_bytes <= bytes_max:
            content = await decoded_content(at.media, await self._stored(at))
            if is_whole:
                content = await self.stage().whole(standing, content, part=ref.part)
            content = part_of(standing, content, ref.part)
        return await self._artifact_of(
            standing,
            at,
            content,
            interface=await self.extra(at.interface),
            metadata=await self.extra(at.metadata) or {},
        )

    async def _stored(self, at: VersionRow) -> bytes:
        if self.room is not None:
            await self.room(at.size_bytes)
        return await self.store.blob(self.tenant, blob_name(at.content))

    async def size(self, ref: Ref) -> int:
        """The stored bytes of a version that may be read for free."""
        return version_at((await self.access(ref, "read", price_max=0)).granted(), ref).size_bytes

    async def encoded(self, ref: Ref) -> tuple[str, bytes]:
        """Media and bytes of what `read` gives of a version that may be read for free.

        No objects are made of content that is stored as it is read.
        """
        at = version_at((await self.access(ref, "read", price_max=0)).granted(), ref)
        if self.space == MAIN_SPACE and ref.part is None:
            return at.media, await self._stored(at)
        artifact = await self.read(ref, price_max=0)
        return await read_beside_loop(at.size_bytes, encode_content, artifact.content)

    async def check_kept(self, standing: Standing | None) -> None:
        """Check that the content of what stands can be that of a new version. Errors: `Erased`."""
        if standing is None or standing.at is None:
            return
        if await self.store.key_of(self.tenant, blob_name(standing.at.content)) is None:
            raise Erased(f"the content of artifact {standing.id} was erased", hint="Write new content.")

    async def without_erased(self, standing: Standing | None) -> Standing | None:
        """Return what stands, to write the next version: metadata and interface that were erased are none."""
        if standing is None or standing.at is None:
            return standing
        at, gone = standing.at, dict[str, None]()
        for name, ref in (("metadata", at.metadata), ("interface", at.interface)):
            if ref is not None and await self.store.key_of(self.tenant, blob_name(ref)) is None:
                gone[name] = None
        return standing._replace(at=at._replace(**gone)) if gone else standing

    async def without_content(self, ref: Ref, *, mark: str, price_max: int | None) -> Artifact:
        """Return a version that may be read, with `mark` in place of its content. Nobody pays for that."""
        standing = (await self.access(ref, "read", price_max=price_max)).granted()
        return await self._artifact_of(standing, version_at(standing, ref), mark, interface=None, metadata={})

    async def _artifact_of(
        self,
        standing: Standing,
        at: VersionRow,
        content: object,
        *,
        interface: object,
        metadata: dict[str, Any],
    ) -> Artifact:
        sources = (
            await sources_of(
                self.store, self.tenant, self.space, standing.id, version=at.version, limit=at.sources
            )
            if at.sources
            else []
        )
        return Artifact(
            id=standing.id,
            kind=standing.kind,
            content=content,
            version=at.version,
            creator=standing.creator,
            owner=standing.owner,
            access=standing.access,
            prices=standing.prices,
            interface=interface,
            provenance=Provenance(derived_from=tuple(sources), run_id=at.run_id, step=at.step),
            metadata=metadata,
            created_us=standing.created_us,
            written_us=at.written_us,
        )


def too_busy(id: str, *, attempts: int = ATTEMPTS_MAX) -> VersionConflict:
    return VersionConflict(
        f"artifact {id} changes faster than this can be decided", got=f"{attempts} attempts"
    )


# --------------------------------------------------------------------------- retention
# The versions that retention keeps.


_Number = Annotated[int, msgspec.Meta(ge=1, le=10**12)]


class RetentionRules(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Rules as they stand under `retention` in metadata; None is no rule."""

    max_versions: _Number | None = None
    """The newest that stay."""
    ttl_s: _Number | None = None
    """Age in seconds from which older ones go."""

    @classmethod
    def parse(cls, value: object) -> RetentionRules:
        """Errors: `InvalidArtifact`."""
        try:
            return msgspec.convert(value, cls)
        except msgspec.ValidationError as error:
            raise InvalidArtifact(
                f"invalid retention: {error}",
                expected="{max_versions, ttl_s}, each a number from 1 or null",
                got=safe_repr(value),
            ) from None


async def first_kept(door: Door, standing: Standing, retention: RetentionRules) -> int:
    """The oldest version that stays; the newest always does."""
    kept = standing.kept_from
    if retention.max_versions is not None:
        kept = max(kept, standing.version - retention.max_versions + 1)
    if retention.ttl_s is not None:
        since_us = door.clock.now_us() - retention.ttl_s * 1_000_000
        young = await oldest_since(door.store, door.tenant, door.space, standing.id, since_us)
        kept = max(kept, standing.version if young is None else young)
    return min(kept, standing.version)


# --------------------------------------------------------------------------- text edit
# Replace one string of an artifact's text.


def replace_once(id: str, content: object, old: str, new: str) -> object:
    """Content with `old` replaced. Errors: `InvalidArtifact` unless `old` occurs exactly once."""
    media = media_of(content)
    if media == "bytes":
        raise InvalidArtifact("bytes cannot be edited", hint="Write new content.")
    text = content if isinstance(content, str) else canonical_json(content).decode()
    first = text.find(old) if old else -1
    if first < 0:
        raise InvalidArtifact(
            f"the string to replace does not occur in {id}",
            expected="text that occurs exactly once",
            got=safe_repr(old),
        )
    # Overlapping occurrences count: which of them is meant cannot be known either.
    if text.find(old, first + 1) >= 0:
        raise InvalidArtifact(
            f"the string to replace occurs more than once in {id}",
            expected="text that occurs exactly once",
            got=safe_repr(old),
            hint="Give more of the text around it.",
        )
    changed = text[:first] + new + text[first + len(old) :]
    if media == "text":
        return changed
    try:
        return decode_content(media, changed.encode())
    except (CorruptStore, UnicodeError):
        raise InvalidArtifact(f"after this edit {id} would be no JSON", got=safe_repr(new)) from None


# --------------------------------------------------------------------------- search
# Text search: every word of the query must occur in id, kind, metadata or content, whatever the case.
#
# Views hold no free text, so candidates' blobs are read when the question is asked, newest artifacts first,
# at most `CANDIDATES_MAX` of them. Content counts only where reading it is free and it is not too large:
# what has a price is found by its id, kind and metadata.

CANDIDATES_MAX = 1000
"""Artifacts looked into per search (measured: 13 us each, so 13 ms)."""

CONTENT_BYTES_MAX = 256 * 1024
"""Content larger than this is not looked into (guess: a long document; bounds the time of a search)."""

CONTRACTS_MAX = 50
"""Contracts asked for one page; what others govern is left out of it."""

CONTRACTS_MS_MAX = 2_000
"""Wall time of all contracts of one page."""

_PAGE_ROWS = 16
"""Candidates that are looked at in one turn of the event loop: each policy may be half a megabyte."""

PAGE_CHARS_MAX = 2 * 1024 * 1024
"""Names in the policies of one page; the page ends where they are more (a guess: as much as an answer shows
of a content)."""

_POSITION_MAX = 2**62


async def _page(
    door: Door,
    *,
    kind: str | None,
    owner: str | None,
    position: int,
    newest_first: bool,
    limit: int,
    asks: Decisions,
) -> list[Standing]:
    return await living_beyond(
        door.store,
        door.tenant,
        door.space,
        door.principal,
        kind=kind,
        owner=owner,
        position=position,
        newest_first=newest_first,
        limit=limit,
        with_contracts=asks.asks_left > 0,  # once none is asked any more, what they govern is no candidate
    )


async def find_text(
    door: Door, *, text: str, kind: str | None, owner: str | None, limit: int
) -> list[Summary]:
    """Return what a principal may read and the words match, newest first."""
    words = text.casefold().split()
    page = _Page(limit=limit, chars_max=PAGE_CHARS_MAX)
    position, seen, asks = _POSITION_MAX, 0, bounded_asks(door)
    look = _Look(door, asks)
    while not page.is_full and seen < CANDIDATES_MAX:
        count = min(_PAGE_ROWS, CANDIDATES_MAX - seen)
        candidates = await _page(
            door, kind=kind, owner=owner, position=position, newest_first=True, limit=count, asks=asks
        )
        for standing in candidates:
            if not page.is_full and await look.matches(standing, words):
                page.add(standing.summary())
        if len(candidates) < count:
            break
        position, seen = candidates[-1].position, seen + len(candidates)
        await asyncio.sleep(0)
    return page.found


async def list_following(
    door: Door, *, kind: str | None, owner: str | None, position: int, limit: int, chars_max: int | None
) -> list[Summary]:
    """Return what a principal may read beyond a position, in the order of making."""
    page = _Page(limit=limit, chars_max=chars_max)
    asks = bounded_asks(door)
    look = _Look(door, asks)
    while not page.is_full:
        candidates = await _page(
            door, kind=kind, owner=owner, position=position, newest_first=False, limit=_PAGE_ROWS, asks=asks
        )
        for standing in candidates:
            if not page.is_full and await look.visible(standing):
                page.add(standing.summary())
        if len(candidates) < _PAGE_ROWS:
            break
        position = candidates[-1].position
        await asyncio.sleep(0)
    return page.found


class _Page:
    """The rows of a page so far; it ends with its last row, or with that whose names are too many."""

    def __init__(self, *, limit: int, chars_max: int | None) -> None:
        self.found: list[Summary] = []
        self._limit = limit
        self._left_chars = chars_max

    @property
    def is_full(self) -> bool:
        return len(self.found) >= self._limit or (self._left_chars is not None and self._left_chars <= 0)

    def add(self, one: Summary) -> None:
        self.found.append(one)
        if self._left_chars is not None:
            self._left_chars -= one.names_chars


def bounded_asks(door: Door) -> Decisions:
    """The decisions of one page: so many contracts at most, and so long."""
    step = door.decisions or Decisions()
    return step.with_bounds(asks_max=CONTRACTS_MAX, time_ms=CONTRACTS_MS_MAX)


class _Look:
    """The view that one principal has of candidates."""

    def __init__(self, door: Door, asks: Decisions) -> None:
        self._door = door
        self._gate = Gate(door.stage(), door.interpreter, asks)

    async def visible(self, standing: Standing) -> bool:
        return (await self._gate.decide("search", self._door.principal, standing)).allowed

    async def matches(self, standing: Standing, words: list[str]) -> bool:
        is_ruled = standing.access is not None and standing.access.policy == "contract"
        # A contract is asked last: most candidates are none of the page's.
        if not is_ruled and not await self.visible(standing):
            return False
        named = f"{standing.id}\n{standing.kind}".casefold()
        missing = [word for word in words if word not in named]
        if missing and standing.at is not None:
            about = await self._text(standing.at.metadata)
            missing = [word for word in missing if word not in about]
        if missing and not await self._content_has(standing, missing):
            return False
        return not is_ruled or await self.visible(standing)

    async def _content_has(self, standing: Standing, words: list[str]) -> bool:
        """Return True if content that may be read for free holds all these words."""
        at = standing.at
        if at is None or at.media == "bytes" or at.size_bytes > CONTENT_BYTES_MAX:
            return False
        text = await self._text(at.content)
        await asyncio.sleep(0)  # others have their turn, however many contents there are
        if not all(word in text for word in words):
            return False
        read = await self._gate.decide("read", self._door.principal, standing)
        return read.allowed and read.price == 0

    async def _text(self, ref: str | None) -> str:
        if ref is None:
            return ""
        try:
            content = await self._door.store.blob(self._door.tenant, blob_name(ref))
        except (NotFound, CorruptStore):
            return ""  # erased or damaged content matches nothing; `verify` is who names it
        return content.decode(errors="replace").casefold()
