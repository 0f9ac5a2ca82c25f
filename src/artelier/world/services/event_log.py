"""`genesis_event_log`: what happened lately, as far as the caller may know: who, what, for how much.

Content is never among it, nor what agents think, read, say to each other, bid or remember.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from artelier.artifacts import Call, Ref, Tree, Working
from artelier.artifacts.access.decision import permit
from artelier.log import Event, Stream
from artelier.world.config import WorldConfig, read_config
from artelier.world.services.arguments import Arguments, arguments
from artelier.world.stores.entries import store_of

LAST_MAX = 50

LOOKED_AT_MAX = 1_000
"""Events that one answer looks through, from the newest backwards."""

_PAGE = 200

_FACTS: Mapping[str, tuple[str, ...]] = {
    "agent.joined": ("agent",),
    "agent.left": ("agent",),
    "artifact.written": ("id", "version", "prices"),
    "artifact.deleted": ("id",),
    "artifact.transferred": ("id", "giver", "to"),
    "artifact.invoked": ("id", "caller", "outcome", "price"),
    "offer.made": ("offer", "artifact", "seller", "price", "sells"),
    "offer.accepted": ("offer", "artifact", "buyer", "seller", "price", "sells"),
    "offer.cancelled": ("offer",),
    "auction.closed": ("round", "winner", "artifact", "price", "score", "minted"),
    "tick.passed": ("acted",),
}
"""The public events, and what is told of each."""


class _Last(Arguments, frozen=True, kw_only=True):
    last: Annotated[int, Meta(ge=1, le=LAST_MAX)] = 10


class EventLog:
    """`{last}` gives `{events: [{tick, kind, by, ...}]}`, the newest last."""

    def units(self, args: Mapping[str, Any], /) -> int:
        arguments(args, _Last)
        return 1

    async def run(self, working: Working, call: Call, tree: Tree, /) -> dict[str, Any]:
        last = arguments(call.args, _Last).last
        store = store_of(working)
        stream = Stream(working.tenant, working.space, working.space)
        looker = _Looker(working, call.caller, tree, await _config(working))
        end, _hash = await store.head(stream)
        stop, found = max(0, end - LOOKED_AT_MAX), list[dict[str, Any]]()
        while end > stop and len(found) < last:
            start = max(stop, end - _PAGE)
            for event in reversed(await store.read(stream, after=start, limit=end - start)):
                if len(found) < last and (fact := await looker.fact(event)) is not None:
                    found.append(fact)
            end = start
        return {"events": found[::-1]}


class _Looker:
    """The events as one principal may see them."""

    def __init__(self, working: Working, caller: str, tree: Tree, config: WorldConfig) -> None:
        self._working = working
        self._caller = caller
        self._gate = tree.gate(working)
        self._network = config.network
        self._seen: dict[str, bool] = {}
        self._offers: dict[str, bool] = {}

    async def fact(self, event: Event) -> dict[str, Any] | None:
        names = _FACTS.get(event.kind)
        if names is None or not self._sees(event.actor):
            return None
        data = event.plain()
        if event.kind.startswith("artifact.") and not await self._finds(data["id"]):
            return None
        if event.kind.startswith("offer.") and not await self._is_offered(data["offer"]):
            return None
        told = {name: data[name] for name in names if name in data}
        return {"tick": event.at_us, "kind": event.kind, "by": event.actor, **told}

    def _sees(self, actor: str) -> bool:
        network = self._network
        is_host = actor in ("world", "operator") or actor.startswith("user:")
        if network is None or is_host or actor == self._caller:
            return True
        return actor in network.get(self._caller, ())

    async def _finds(self, id: str) -> bool:
        """Return True if a search may show the artifact now."""
        if id not in self._seen:
            verdict = await permit(self._working, self._gate, Ref(id), "search", self._caller)
            self._seen[id] = verdict.allowed
        return self._seen[id]

    async def _is_offered(self, offer: str) -> bool:
        """Return True if an offer is made to all, or to or by the caller."""
        if offer not in self._offers:
            rows = await store_of(self._working).query(
                "SELECT seller, buyer_only FROM world_offers WHERE tenant = ? AND space = ? AND offer = ?",
                (self._working.tenant, self._working.space, offer),
            )
            self._offers[offer] = bool(rows) and (
                rows[0][1] in ("", self._caller) or rows[0][0] == self._caller
            )
        return self._offers[offer]


async def _config(working: Working) -> WorldConfig:
    rows = await store_of(working).query(
        "SELECT config FROM worlds WHERE tenant = ? AND id = ?",
        (working.tenant, working.space.removeprefix("world:")),
    )
    if not rows:
        return WorldConfig()
    return read_config(msgspec.json.decode(await working.blob(rows[0][0])))
