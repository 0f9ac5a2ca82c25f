"""The changes that the actions of a tick have made so far, for the agents that think later in it.

Each change of the working state is read once, whatever the number of waves.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any, cast

import msgspec

from artelier.artifacts import Stage, Working
from artelier.artifacts.events import ArtifactDeleted, ArtifactTransferred, ArtifactWritten
from artelier.errors import CorruptStore, InvalidRequest, NotFound
from artelier.world.events import OfferAccepted, OfferCancelled, OfferMade
from artelier.world.tick.world_state import WorldStage


class Changed:
    """The artifacts that changed hands and the offers that were made or closed since the tick began."""

    def __init__(self, stage: WorldStage, working: Working) -> None:
        self._stage = stage
        self._working = working
        self._read = 0
        """Changes of the working state that are taken up."""
        self._owner: dict[str, str] = {}
        """Of artifacts that were changed: who owns them now; empty for deleted ones."""
        self._gained: dict[str, set[str]] = {}
        self._lost: dict[str, set[str]] = {}
        self.made: dict[str, dict[str, Any]] = {}
        """Offers of this tick that are open, as facts, in their order."""
        self.closed: set[str] = set()
        """Offers of earlier ticks that are not open any more."""

    async def catch_up(self) -> None:
        """Take up what is new. Cost: O(what is new)."""
        changes = self._working.changes
        for number in range(self._read, len(changes)):
            data = changes[number].data
            if isinstance(data, ArtifactWritten | ArtifactTransferred | ArtifactDeleted):
                await self._take_owner(data.id)
            elif isinstance(data, OfferMade):
                self.made[data.offer] = await self._fact(data)
            elif isinstance(data, OfferCancelled) or (
                isinstance(data, OfferAccepted) and data.sells == "ownership"
            ):
                if self.made.pop(data.offer, None) is None:
                    self.closed.add(data.offer)
        self._read = len(changes)

    def owned_ids(self, principal: str) -> Sequence[str]:
        """Ids of what a principal owns now, sorted. Cost: O(1) for one that has neither got nor lost any."""
        before = self._stage.owned_ids(principal)
        gained, lost = self._gained.get(principal), self._lost.get(principal)
        if not gained and not lost:
            return before
        return sorted({*before, *(gained or ())} - (lost or set()))

    async def _take_owner(self, id: str) -> None:
        standing = await self._working.standing(id)
        assert standing is not None, "it was changed"
        now = "" if standing.deleted else standing.owner
        was = self._stage.seen.get(id)
        first = was.owner if was is not None and not was.deleted else ""
        before = self._owner.get(id, first)
        self._owner[id] = now
        for sides, owner in ((self._gained, before), (self._lost, first)):
            sides.get(owner, set[str]()).discard(id)
        if now != first:
            for sides, owner in ((self._gained, now), (self._lost, first)):
                if owner:
                    sides.setdefault(owner, set()).add(id)

    async def _fact(self, made: OfferMade) -> dict[str, Any]:
        standing = await self._working.standing(made.artifact)
        return {
            "offer": made.offer,
            "artifact": made.artifact,
            "kind": standing.kind if standing is not None else "",
            "seller": made.seller,
            "price": made.price,
            "sells": made.sells,
            "to": made.to,
            "royalty_percent": made.royalty_percent,
        } | await read_preview(self._working, made.preview)


async def read_preview(stage: Stage, ref: str | None) -> dict[str, Any]:
    """Return what a preview tells before buying, `{title, summary, users, access}`; nothing if it cannot be
    read.
    """
    told: dict[str, Any] = {}
    if ref is not None:
        with suppress(NotFound, CorruptStore, InvalidRequest, msgspec.DecodeError):
            read: Any = msgspec.json.decode(await stage.blob(ref))
            told = cast("dict[str, Any]", read) if isinstance(read, dict) else told
    return {
        "title": told.get("title", ""),
        "summary": told.get("summary", ""),
        "users": told.get("users", 0),
        "access": told.get("access", ""),
    }
