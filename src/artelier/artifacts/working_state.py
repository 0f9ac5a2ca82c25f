"""The state over which decisions are made: one that can be queried, and one with pending changes.

`Stage` is all that permission, payment and executable artifacts know of the world around them. `StoreStage`
reads the views; `Working` lays pending changes over any stage, another `Working` included. So one invocation,
a tree of them or all actions of a tick are decided by the same code, and are appended, or dropped, as one.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any, NamedTuple, Protocol

from artelier.artifacts.events import (
    ArtifactCharged,
    ArtifactDeleted,
    ArtifactPruned,
    ArtifactTransferred,
    ArtifactWritten,
)
from artelier.artifacts.groups.queries import groups_in, groups_of
from artelier.artifacts.queries import Standing, VersionRow, load, terms_of
from artelier.errors import Conflict, SequenceConflict
from artelier.ids import MAIN_SPACE
from artelier.ledger import Moving, Posting, may_owe, no_funds
from artelier.ledger.queries import account_balance
from artelier.log import Blob, DataKey, EventData, Store, Tx, blob_name, blob_ref
from artelier.money import SCRIP

PENDING = 2**62
"""Position of an artifact that no event has made yet: newer than all."""


class Stage(Protocol):
    """A state of one space. What is there may be asked any number of times; nothing is changed here."""

    @property
    def tenant(self) -> str: ...

    @property
    def space(self) -> str: ...

    @property
    def at_us(self) -> int:
        """The time of everything decided here; in a world the tick."""
        ...

    async def standing(self, id: str, *, version: int | None = None) -> Standing | None:
        """An artifact and one of its versions (the newest unless said); None for an id never written."""
        ...

    async def groups(self, principal: str) -> frozenset[str]:
        """The groups that a principal is a member of, as they stand in `allow` lists; none in a world."""
        ...

    async def blob(self, ref: str) -> bytes:
        """Content behind a reference. Errors: `NotFound`, `CorruptStore`."""
        ...

    async def balance(self, account: str, asset: str = SCRIP) -> int: ...

    async def key(self, over: Standing | None = None) -> DataKey:
        """The key that names this tenant's blobs; that of a subject, if what stands there is about one."""
        ...

    async def licence(self, id: str, principal: str, *, over: Stage | None = None) -> Licence | None:
        """Return what lets a principal read, include and invoke an artifact whatever its policy and price
        say.

        `over` is the stage that was asked, where it is not this one: uses that are pending there count.
        """
        ...

    def uses(self, licence: str) -> int:
        """Return how often a counted licence is used by what is pending."""
        ...

    async def royalty(self, id: str, *, over: Stage | None = None) -> Royalty | None:
        """Return who has a share in what an artifact earns; `over` as for `licence`."""
        ...

    def lock_reason(self, standing: Standing) -> str:
        """Return why an artifact can be changed by nobody, and be sold to nobody by access; empty if it
        can.
        """
        ...

    def pending(self, key: Hashable) -> Any:
        """Return what a working state keeps for a higher layer under this key; None if nothing is pending."""
        ...

    async def whole(
        self, standing: Standing, content: object, *, part: str | None = None, over: Stage | None = None
    ) -> object:
        """Content with what belongs to it and is kept elsewhere, as it is to be read.

        `part` is the one that will be read of it: no other has to be there. `over` is the stage that was
        asked, where it is not this one: what is pending there counts.
        """
        ...


class Licence(NamedTuple):
    """A grant to use an artifact."""

    name: str
    is_counted: bool
    """Whether each use must be recorded, because only so many were sold."""


class Royalty(NamedTuple):
    """A share in what an artifact earns."""

    to: str
    """A principal."""
    percent: int


class Decided(NamedTuple):
    """A decided event that is not appended yet."""

    data: EventData
    actor: str


class StoreStage:
    """The views as they were when each artifact was first asked for."""

    def __init__(self, store: Store, *, tenant: str, space: str, at_us: int) -> None:
        self._store = store
        self.tenant = tenant
        self.space = space
        self.at_us = at_us
        self.seen: dict[str, Standing | None] = {}
        """All that was asked for; `unchanged` refuses a batch when one of them has moved."""
        self._groups: dict[str, frozenset[str]] = {}
        """By principal, where a policy made it matter."""

    @property
    def store(self) -> Store:
        return self._store

    async def standing(self, id: str, *, version: int | None = None) -> Standing | None:
        if id not in self.seen:
            self.seen[id] = await load(self._store, self.tenant, self.space, id)
        newest = self.seen[id]
        if newest is None or version is None or version == newest.version:
            return newest
        older = await load(self._store, self.tenant, self.space, id, version=version)
        return newest._replace(at=older.at if older else None)

    async def groups(self, principal: str) -> frozenset[str]:
        if self.space != MAIN_SPACE:
            return frozenset()
        known = self._groups.get(principal)
        if known is None:
            known = await groups_of(self._store, self.tenant, principal)
            self._groups[principal] = known
        return known

    async def blob(self, ref: str) -> bytes:
        return await self._store.blob(self.tenant, blob_name(ref))

    async def balance(self, account: str, asset: str = SCRIP) -> int:
        found = await account_balance(self._store, self.tenant, account, space=self.space, asset=asset)
        return found or 0

    async def key(self, over: Standing | None = None) -> DataKey:
        held = None
        if over is not None and over.at is not None:
            held = await self._store.subject_key_of(self.tenant, blob_name(over.at.content))
        return held or await self._store.data_key(self.tenant)

    async def licence(self, id: str, principal: str, *, over: Stage | None = None) -> Licence | None:
        return None  # licences are sold in worlds

    def uses(self, licence: str) -> int:
        return 0

    async def royalty(self, id: str, *, over: Stage | None = None) -> Royalty | None:
        return None

    def lock_reason(self, standing: Standing) -> str:
        return ""  # what is for sale in a world is

    def pending(self, key: Hashable) -> None:
        return None

    async def whole(
        self, standing: Standing, content: object, *, part: str | None = None, over: Stage | None = None
    ) -> object:
        return content

    def guard_unchanged(self, ids: Iterable[str]) -> Callable[[Tx], None]:
        """A guard for a batch that was decided here: `SequenceConflict` unless these ids stand as seen.

        So must the groups of whoever was asked about.
        """
        seen = [(id, self.seen.get(id)) for id in ids]
        groups = dict(self._groups)

        def guard(tx: Tx) -> None:
            _check_unchanged(tx, self.tenant, self.space, seen)
            for principal, then in groups.items():
                if groups_in(tx, self.tenant, principal) != then:
                    raise SequenceConflict(f"the groups of {principal} have changed")

        return guard

    def guard_for(self, action: str, standing: Standing) -> Callable[[Tx], None] | None:
        """A guard for a batch with what was decided about one artifact; what others stand on is refused."""
        return self.guard_beyond_one()

    def guard_beyond_one(self) -> Callable[[Tx], None] | None:
        """A guard for a batch that expects the head of one artifact's stream.

        None if what was decided here rests on that artifact alone: then its stream is guard enough.
        """
        # With a contract it rests on more than one artifact, with a group on who is in it.
        return self.guard_unchanged(self.seen) if len(self.seen) > 1 or self._groups else None


def _check_unchanged(tx: Tx, tenant: str, space: str, seen: Iterable[tuple[str, Standing | None]]) -> None:
    for id_, then in seen:
        now = terms_of(tx, tenant, space, id_)
        before = then and (then.version, then.kept_from, then.deleted, then.owner, then.access, then.prices)
        if now != before:
            raise SequenceConflict(f"artifact {id_} has moved on", stream=f"artifact:{id_}")


class Working:
    """A stage with pending changes over it. Nothing of them is seen below before they are absorbed.

    Cost: O(1) per question and change, times the number of working states above each other.
    """

    def __init__(self, base: Stage) -> None:
        self._base = base
        self.tenant = base.tenant
        self.space = base.space
        self.at_us = base.at_us
        self.changes: list[Decided] = []
        """In the order in which they must be appended."""
        self.blobs: list[Blob] = []
        self._standings: dict[str, Standing] = {}
        self._versions: dict[tuple[str, int], VersionRow] = {}
        self._contents: dict[str, bytes] = {}
        self._deltas: dict[tuple[str, str], int] = {}
        self._lows: dict[tuple[str, str], int] = {}
        """The least that each of them was, after any of the changes."""
        self._pending: dict[Hashable, Any] = {}
        self._uses: dict[str, int] = {}
        """Of counted licences, by name."""

    async def standing(self, id: str, *, version: int | None = None) -> Standing | None:
        own = self._standings.get(id)
        if own is None:
            return await self._base.standing(id, version=version)
        if version is None or version == own.version:
            return own
        at = self._versions.get((id, version))
        if at is None:
            below = await self._base.standing(id, version=version)
            at = below.at if below else None
        return own._replace(at=at)

    async def groups(self, principal: str) -> frozenset[str]:
        return await self._base.groups(principal)

    async def blob(self, ref: str) -> bytes:
        own = self._contents.get(ref)
        return await self._base.blob(ref) if own is None else own

    async def balance(self, account: str, asset: str = SCRIP) -> int:
        delta = self._deltas.get((account, asset), 0)
        return await self._base.balance(account, asset) + delta

    async def key(self, over: Standing | None = None) -> DataKey:
        # What is pending here is under the key of what it replaces.
        return await self._base.key(over and await self._base.standing(over.id))

    async def licence(self, id: str, principal: str, *, over: Stage | None = None) -> Licence | None:
        return await self._base.licence(id, principal, over=over or self)

    def uses(self, licence: str) -> int:
        return self._uses.get(licence, 0) + self._base.uses(licence)

    async def royalty(self, id: str, *, over: Stage | None = None) -> Royalty | None:
        return await self._base.royalty(id, over=over or self)

    def lock_reason(self, standing: Standing) -> str:
        return self._base.lock_reason(standing)

    def pending(self, key: Hashable) -> Any:
        own = self._pending.get(key)
        return self._base.pending(key) if own is None else own

    async def whole(
        self, standing: Standing, content: object, *, part: str | None = None, over: Stage | None = None
    ) -> object:
        return await self._base.whole(standing, content, part=part, over=over or self)

    def keep(self, key: Hashable, value: object) -> None:
        """Keep a value for a higher layer; a changed one is a new value, never the old one changed."""
        self._pending[key] = value

    async def move(self, postings: Iterable[Posting]) -> None:
        """Move money here without an event, all or nothing. Errors: `InsufficientFunds`."""
        deltas, lows = dict(self._deltas), dict(self._lows)
        for source, target, asset, amount in _sides(postings):
            if not may_owe(source):
                have = await self._base.balance(source, asset) + deltas.get((source, asset), 0)
                if have < amount:
                    raise no_funds(source, asset, have=have, need=amount)
            left = deltas[source, asset] = deltas.get((source, asset), 0) - amount
            deltas[target, asset] = deltas.get((target, asset), 0) + amount
            lows[source, asset] = min(left, lows.get((source, asset), 0))
        self._deltas, self._lows = deltas, lows

    async def apply(self, data: EventData, *, actor: str, blobs: Iterable[Blob] = ()) -> None:
        """Take up a decided event and what it changes; on an error nothing is.

        Errors: `InsufficientFunds`; `Conflict` for what the views would refuse.
        """
        if isinstance(data, ArtifactDeleted | ArtifactTransferred):
            _check_there(await self._standing_of(data.id), data)
        if isinstance(data, Moving) and data.postings:
            await self.move(data.postings)
        if isinstance(data, ArtifactWritten):
            await self._show_written(data, actor)
        elif isinstance(data, ArtifactDeleted):
            self._standings[data.id] = (await self._standing_of(data.id))._replace(deleted=True)
        elif isinstance(data, ArtifactTransferred):
            known = await self._standing_of(data.id)
            access = data.access or known.access
            self._standings[data.id] = known._replace(owner=data.to, access=access)
        elif isinstance(data, ArtifactPruned):
            known = await self._standing_of(data.id)
            self._standings[data.id] = known._replace(kept_from=data.kept_from)
        elif isinstance(data, ArtifactCharged) and data.licence:
            self._uses[data.licence] = self._uses.get(data.licence, 0) + 1
        for blob in blobs:
            self.hold(blob)
        self.changes.append(Decided(data, actor))

    @property
    def ground(self) -> Stage:
        """The stage below all working states."""
        return self._base.ground if isinstance(self._base, Working) else self._base

    @property
    def standings(self) -> Mapping[str, Standing]:
        """The current state of the artifacts that were changed here."""
        return self._standings

    @property
    def deltas(self) -> Mapping[tuple[str, str], int]:
        """The changes of balances made here, by account and asset."""
        return self._deltas

    @property
    def lows(self) -> Mapping[tuple[str, str], int]:
        """Return the least that balances were changed by, after any of the changes that were made here.

        What is paid elsewhere, before these changes are durable, must leave that much on an account.
        """
        return self._lows

    def shift(self, moved: Mapping[tuple[str, str], int]) -> None:
        """Change balances by what was moved elsewhere, and is durable before anything here."""
        for side, delta in moved.items():
            self._deltas[side] = self._deltas.get(side, 0) + delta
            self._lows[side] = self._lows.get(side, 0) + delta

    def hold(self, blob: Blob) -> None:
        """Take up content that an event of this state will name: it can be read here from now on."""
        self.blobs.append(blob)
        self._contents[blob_ref(blob.name)] = blob.content

    def append(self, data: EventData, *, actor: str) -> None:
        """Add an event whose effects were taken up already."""
        self.changes.append(Decided(data, actor))

    def absorb(self, done: Working) -> None:
        """Take over all that a working state above this one has changed."""
        self.changes += done.changes
        if done.blobs:
            self.blobs += done.blobs
            self._contents.update(done._contents)
        if done._standings:
            self._standings.update(done._standings)
            self._versions.update(done._versions)
        if done._pending:
            self._pending.update(done._pending)
        for side, low in done._lows.items():
            low += self._deltas.get(side, 0)
            self._lows[side] = min(low, self._lows.get(side, 0))
        for side, delta in done._deltas.items():
            self._deltas[side] = self._deltas.get(side, 0) + delta
        for licence, times in done._uses.items():
            self._uses[licence] = self._uses.get(licence, 0) + times

    async def _standing_of(self, id: str) -> Standing:
        standing = await self.standing(id)
        assert standing is not None, "an event is decided over what stands"
        return standing

    async def _show_written(self, data: ArtifactWritten, writer: str) -> None:
        before = await self.standing(data.id)
        at = VersionRow(
            version=data.version,
            content=data.content,
            media=data.media,
            size_bytes=data.size_bytes,
            interface=data.interface,
            metadata=data.metadata,
            sources=len(data.derived_from),
            written_us=self.at_us,
            run_id=data.run_id,
            step=data.step,
            writer=writer,
        )
        self._versions[data.id, data.version] = at
        self._standings[data.id] = Standing(
            id=data.id,
            kind=data.kind,
            version=data.version,
            kept_from=before.kept_from if before else 1,
            deleted=False,
            creator=data.creator,
            owner=data.owner,
            access=data.access,
            prices=data.prices,
            created_us=before.created_us if before else self.at_us,
            position=before.position if before else PENDING,
            at=at,
        )


def _check_there(known: Standing, data: ArtifactDeleted | ArtifactTransferred) -> None:
    if known.deleted:
        raise Conflict(f"artifact {data.id} was deleted already")
    if isinstance(data, ArtifactTransferred) and known.owner != data.giver:
        raise Conflict(f"artifact {data.id} does not belong to {data.giver} any more")


def _sides(postings: Iterable[Posting]) -> Iterable[tuple[str, str, str, int]]:
    return ((one.source, one.target, one.asset, one.amount) for one in postings)


def facts_of(standing: Standing) -> Mapping[str, object]:
    """Return what code may know of an artifact that it is asked about: by value, no content."""
    return {
        "id": standing.id,
        "kind": standing.kind,
        "version": standing.version,
        "creator": standing.creator,
        "owner": standing.owner,
        "prices": {
            "read": standing.prices.read,
            "invoke": standing.prices.invoke,
            "inclusion": standing.prices.inclusion,
        },
    }
