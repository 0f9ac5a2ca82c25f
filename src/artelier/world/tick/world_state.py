"""The state over which the actions of a tick are decided: the views of a world's space, cached between ticks.

A world has one writer, so what was read stays true until the next batch, whose changes are taken over. When
somebody else has written, the head of the stream shows it and everything is read again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

import msgspec

from artelier.artifacts import Licence, Royalty, Stage, StoreStage, Working, account_of, principal_of
from artelier.artifacts.queries import Standing, heads, is_owner, load_many
from artelier.log import DataKey, Store, blob_name, blob_ref
from artelier.money import SCRIP
from artelier.world.config import read_config
from artelier.world.events import OfferAccepted
from artelier.world.queries.market import LicenceRow, licences_of, royalty_of, sales_of, traded_ids
from artelier.world.queries.worlds import (
    PaidSteps,
    WorldRow,
    find_world,
    has_joined,
    paid_steps,
    settled_balances,
)
from artelier.world.stores.entries import whole as with_entries

# --------------------------------------------------------------------------- clock
# The clock of a world: its time is the tick.


class TickClock:
    """Tells the tick that passed last, which is what events between ticks are dated with."""

    def __init__(self, tick: Callable[[], int]) -> None:
        self._tick = tick

    @classmethod
    def at(cls, tick: int) -> TickClock:
        return cls(lambda: tick)

    def now_us(self) -> int:
        """The tick."""
        return self._tick()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


# --------------------------------------------------------------------------- world state


STANDINGS_MAX = 200_000
"""Artifacts that are remembered; beyond it all are forgotten and read again as they are asked for."""

LICENCES_MAX = 1_000
"""Of one holder for one artifact that are looked at: more than can be used up in one tick."""

ESCROW = "genesis_escrow"
"""The principal that owns what is offered for sale."""


class WorldStage(StoreStage):
    """The state at the end of a tick. Cost: O(1) per question, after the first."""

    def __init__(self, store: Store, *, tenant: str, space: str, at_us: int) -> None:
        super().__init__(store, tenant=tenant, space=space, at_us=at_us)
        self._balances: dict[tuple[str, str], int] = {}
        self._owned: dict[str, dict[str, str]] | None = None
        self._sorted: dict[str, tuple[str, ...]] = {}
        """By owner, while it owns the same."""
        self._stored: dict[str, int] = {}
        self._has_all_balances = False
        self._contents: dict[str, bytes] = {}
        self._key: DataKey | None = None
        self._asks_consent: bool | None = None
        self._traded: set[str] | None = None
        """Artifacts that licences were sold for, and copies that owe a share: nobody asks about others."""

    async def key(self, over: Standing | None = None) -> DataKey:
        """The key that names the content of this world: the one it came with, if it came out of a file.

        So equal content keeps one name.
        """
        if self._key is None:
            self._key = await self._key_of_config() or await self._store.data_key(self.tenant)
        return self._key

    async def _key_of_config(self) -> DataKey | None:
        world = await self._world()
        return None if world is None else await self._store.key_of(self.tenant, blob_name(world.config))

    async def _world(self) -> WorldRow | None:
        return await find_world(self._store, self.tenant, self.space.partition(":")[2])

    async def asks_consent(self) -> bool:
        """Return whether the world is under the rules that ask for consent, which never change."""
        if self._asks_consent is None:
            world = await self._world()
            if world is None:
                self._asks_consent = False
            else:
                config = read_config(msgspec.json.decode(await self.blob(world.config)))
                self._asks_consent = config.asks_consent
        return self._asks_consent

    async def load(self) -> None:
        """Read all balances and who owns what in two queries."""
        self._balances = await settled_balances(self._store, self.tenant, self.space)
        self._has_all_balances = True
        owned: dict[str, dict[str, str]] = {}
        stored: dict[str, int] = {}
        for head in await heads(self._store, self.tenant, self.space):
            if not head.deleted:
                owned.setdefault(head.owner, {})[head.id] = head.kind
                stored[head.owner] = stored.get(head.owner, 0) + head.size_bytes
        self._owned, self._stored = owned, stored
        self._sorted.clear()

    async def balance(self, account: str, asset: str = SCRIP) -> int:
        """At the end of the tick before: without what the prompts of this tick have paid."""
        known = self._balances.get((account, asset))
        if known is not None:
            return known
        if self._has_all_balances:
            return 0
        side = (account, asset)
        rows = await settled_balances(self._store, self.tenant, self.space, side)
        found = self._balances[side] = rows.get(side, 0)
        return found

    def balance_now(self, principal: str) -> int:
        """Scrip of a principal. Shapes: `load` was called."""
        return self._balances.get((account_of(principal), SCRIP), 0)

    def owned_ids(self, principal: str) -> tuple[str, ...]:
        """Ids of what a principal owns, sorted. Shapes: `load` was called."""
        known = self._sorted.get(principal)
        if known is None:
            known = self._sorted[principal] = tuple(sorted((self._owned or {}).get(principal, ())))
        return known

    async def has_acted(self, principal: str) -> bool:
        """Return whether a principal is an agent of this world, or was one."""
        return await has_joined(self.store, self.tenant, self.space, principal)

    async def is_owner(self, principal: str) -> bool:
        """Return whether a principal owns an artifact of this world at the end of the tick."""
        return await is_owner(self.store, self.tenant, self.space, principal)

    def stored_bytes(self, principal: str) -> int:
        """Bytes of the newest versions of what a principal owns, and of what its programs own.

        Shapes: `load` was called.
        """
        own = (self._owned or {}).get(principal, {})
        programs = (principal_of(id_) for id_, kind in own.items() if kind == "tool")
        stored = self._stored
        return stored.get(principal, 0) + sum(stored.get(one, 0) for one in programs)

    async def preload(self, ids: Iterable[str]) -> None:
        """Read many artifacts at once that will be asked for."""
        wanted = [id_ for id_ in ids if id_ not in self.seen]
        found = await load_many(self._store, self.tenant, self.space, wanted)
        self.seen.update({id_: found.get(id_) for id_ in wanted})

    async def preload_contents(self, refs: Iterable[str | None]) -> None:
        """Read many contents at once that will be asked for; what cannot be read is left out."""
        wanted = list({ref for ref in refs if ref is not None})
        for start in range(0, len(wanted), 500):
            some = [blob_name(ref) for ref in wanted[start : start + 500]]
            found = await self._store.blobs(self.tenant, some)
            self._contents.update({blob_ref(name): content for name, content in found.items()})

    def forget_contents(self) -> None:
        """Give back the memory of `preload_contents`."""
        self._contents.clear()

    async def blob(self, ref: str) -> bytes:
        known = self._contents.get(ref)
        return await super().blob(ref) if known is None else known

    async def read_paid(self) -> list[PaidSteps]:
        """Return what the prompts of the tick at hand have moved so far."""
        return await paid_steps(self._store, self.tenant, self.space)

    async def whole(
        self, standing: Standing, content: object, *, part: str | None = None, over: Stage | None = None
    ) -> object:
        """A memory store with its entries as they are now."""
        return await with_entries(over or self, standing, content, part=part)

    async def licence(self, id: str, principal: str, *, over: Stage | None = None) -> Licence | None:
        """Return one that was bought and still holds, or the seller's own while an artifact is in escrow.

        A bought licence holds from the tick after the sale. What prompts of this tick have used of it is in
        the rows already; what its actions use is pending. A seller may use what it has put into escrow until
        the very action by which it is sold.
        """
        found: list[LicenceRow] = []
        if id in await self._traded_ids():
            found = await licences_of(
                self._store, self.tenant, self.space, id, principal, tick=self.at_us, limit=LICENCES_MAX
            )
        for name, left in found:
            if left is None or left > (over or self).uses(name):
                return Licence(name, left is not None)
        return await self._escrow_licence(id, principal, over or self)

    async def _escrow_licence(self, id: str, seller: str, over: Stage) -> Licence | None:
        """Return the open offer by which a seller's artifact is in escrow, with the actions of this tick."""
        standing = await over.standing(id)
        if standing is None or standing.owner != ESCROW:
            return None
        for offer in await sales_of(self._store, self.tenant, self.space, id, seller):
            if (pending := over.pending(("offer", offer))) is None or pending.is_open:
                return Licence(offer, False)
        for offer in over.pending(("offers", id)) or ():
            pending = over.pending(("offer", offer))
            if pending.is_open and pending.seller == seller and pending.sells == "ownership":
                return Licence(offer, False)
        return None

    async def _traded_ids(self) -> set[str]:
        if self._traded is None:
            self._traded = await traded_ids(self._store, self.tenant, self.space)
        return self._traded

    async def royalty(self, id: str, *, over: Stage | None = None) -> Royalty | None:
        if id not in await self._traded_ids():
            return None
        owed = await royalty_of(self._store, self.tenant, self.space, id)
        if owed is None:
            return None
        origin = await (over or self).standing(owed.origin)
        return Royalty(origin.owner, owed.percent) if origin is not None else None

    def lock_reason(self, standing: Standing) -> str:
        """Return what is in escrow stays as it was offered, whatever its policy says."""
        if standing.owner != ESCROW or standing.id == ESCROW:
            return ""
        return "it is in escrow until it is sold or taken back"

    def advance(self, done: Working, *, at_us: int) -> None:
        """Take over what a tick has changed, once that is durable."""
        self.at_us = at_us
        for id_, standing in done.standings.items():
            self._own(id_, self.seen.get(id_), standing)
            self.seen[id_] = standing
        if self._traded is not None:
            for data, _ in done.changes:
                if isinstance(data, OfferAccepted):
                    self._traded |= {data.artifact, data.got}
        for side, delta in done.deltas.items():
            self._balances[side] = self._balances.get(side, 0) + delta
        if len(self.seen) > STANDINGS_MAX:
            self.seen.clear()

    def _own(self, id_: str, before: Standing | None, now: Standing) -> None:
        owned = self._owned
        if owned is None:
            return
        for owner, size_bytes in stored_changes(before, now):
            self._stored[owner] = self._stored.get(owner, 0) + size_bytes
        if before is not None:
            if before.owner == now.owner and before.deleted == now.deleted:
                return  # the ids that it owns are the same
            owned.get(before.owner, {}).pop(id_, None)
            self._sorted.pop(before.owner, None)
        self._sorted.pop(now.owner, None)
        if not now.deleted:
            owned.setdefault(now.owner, {})[id_] = now.kind


def stored_changes(before: Standing | None, now: Standing) -> list[tuple[str, int]]:
    """Return by how many bytes a change of an artifact changes what its owners store."""
    changes: list[tuple[str, int]] = []
    if before is not None and before.at is not None and not before.deleted:
        changes.append((before.owner, -before.at.size_bytes))
    if now.at is not None and not now.deleted:
        changes.append((now.owner, now.at.size_bytes))
    return changes


def as_stage(stage: Stage) -> WorldStage:
    """The stage below everything of a world's tick."""
    assert isinstance(stage, WorldStage)
    return stage
