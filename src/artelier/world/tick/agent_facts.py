"""The facts that the agents of a world may know in a tick: by value, most of them shared by all.

Facts are read once, for the first wave; later waves see them with what the tick has changed until then.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from heapq import merge
from itertools import chain, islice
from typing import Any

import msgspec

from artelier.errors import CorruptStore, InvalidRequest, NotFound
from artelier.world.agent import AgentRow
from artelier.world.queries.market import shown_offers
from artelier.world.queries.worlds import inbox_of
from artelier.world.tick.tick_context import Scene, read_preview

OFFERS_SHOWN = 20
"""Newest open offers among the facts."""

OFFERS_OF_ONE = 5
"""Of these, newest ones of one seller: nobody hides the offers of others."""

OFFERS_LOOKED_AT = 100
"""Newest open offers to all among which those that an agent may know of are looked for."""

INBOX_SHOWN = 20
"""News and messages of one tick among the facts: first the newest news, then the newest messages."""

NEWS_FROM = "world"
"""The sender of what happened to the world; no agent is called so."""

_decode = msgspec.json.Decoder().decode


class Sight:
    """The facts of one tick, read once and handed to every agent. Shapes: `changed` has caught up."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self._offers: dict[str, list[dict[str, Any]]] = {}
        """By the only one who may accept them; empty for all."""
        self._places: dict[str, int] = {}
        self._inbox: dict[str, list[dict[str, Any]]] = {}

    @classmethod
    async def of(cls, scene: Scene) -> Sight:
        """Read what all agents share: once in a tick, for however many waves.

        Cost: O(offers shown + messages of the last tick).
        """
        sight = cls(scene)
        store, scope = scene.stage.store, (scene.tenant, scene.space)
        rows = await shown_offers(
            store, *scope, of_one=OFFERS_OF_ONE, to_all=OFFERS_LOOKED_AT, to_one=OFFERS_SHOWN
        )
        await scene.stage.preload_contents(row.preview for row in rows)
        for row in rows:
            fact = row.terms() | await read_preview(scene.stage, row.preview)
            sight._offers.setdefault(row.to, []).append(fact)
            sight._places[row.offer] = row.n
        scene.stage.forget_contents()
        for agent, sender, ref in await inbox_of(store, *scope, tick=scene.tick - 1):
            try:
                text = (await scene.stage.blob(ref)).decode(errors="replace")
            except (NotFound, CorruptStore, InvalidRequest):
                continue  # erased, damaged or no content: the others are told all the same
            sight._inbox.setdefault(agent, []).append({"from": sender, "text": text})
        return sight

    def offers(self, agent: str) -> list[dict[str, Any]]:
        """Open offers that an agent may accept or has made to all, newest first; few of each seller."""
        scene = self.scene
        made, closed = scene.changed.made, scene.changed.closed
        seen: list[dict[str, Any]] = []
        sold_by: dict[str, int] = {}
        for offer in chain(islice(reversed(made.values()), OFFERS_LOOKED_AT), self._before(agent)):
            if len(seen) == OFFERS_SHOWN:
                break
            seller = offer["seller"]
            if offer["offer"] in closed or offer["to"] not in ("", agent):
                continue
            if sold_by.get(seller, 0) < OFFERS_OF_ONE and scene.sees(agent, seller):
                sold_by[seller] = sold_by.get(seller, 0) + 1
                seen.append(offer)
        return seen

    def _before(self, agent: str) -> Iterable[dict[str, Any]]:
        """Offers of earlier ticks to all and to one agent, the newest first."""
        to_all, to_one = self._offers.get("", ()), self._offers.get(agent)
        if not to_one:
            return to_all
        return merge(to_all, to_one, key=lambda one: self._places[one["offer"]], reverse=True)

    def inbox(self, agent: str) -> list[dict[str, Any]]:
        """Return what happened to an agent, or to all, in the tick before; then what others have sent to it.

        However many messages there are, they push no news out.
        """
        own = self._inbox.get(agent, ())
        news = [*self._inbox.get("", ()), *(one for one in own if one["from"] == NEWS_FROM)]
        news = news[-INBOX_SHOWN:]
        said = [one for one in own if one["from"] != NEWS_FROM]
        return [*news, *said[max(0, len(said) - (INBOX_SHOWN - len(news))) :]]

    def seed(self, agent: str) -> int:
        """Return the random seed of an agent in a tick: the same in every run of the same world."""
        scene = self.scene
        digest = sha256(f"{scene.config.seed}/{scene.tick}/{agent}".encode()).digest()
        return int.from_bytes(digest[:6], "big")

    async def last_action(self, row: AgentRow) -> Mapping[str, Any]:
        """`{type, success, result}` of the agent's newest step; a result that is JSON comes as such."""
        result: Any = None
        if row.last_result is not None:
            try:
                result = decode_result(await self.scene.stage.blob(row.last_result))
            except (NotFound, CorruptStore, InvalidRequest):
                result = None  # erased, or damaged: `verify` is who names it
        return {"type": row.last_action, "success": row.last_ok, "result": result}

    async def facts(self, row: AgentRow) -> dict[str, Any]:
        """Return what a rule agent or a reflex of this agent is given, by value.

        Shapes: `{agent_id, tick, balance, my_artifacts, last_action, offers, inbox, seed, ...}`, with
        `current_state`, `ticks_in_state`, `failure_count` of the workflow.
        """
        scene, agent = self.scene, row.id
        return {
            "agent_id": agent,
            "tick": scene.tick,
            "balance": scene.balance(agent),
            "my_artifacts": list(scene.changed.owned_ids(agent)),
            "last_action": await self.last_action(row),
            "current_state": row.state,
            "ticks_in_state": row.ticks_in_state,
            "failure_count": row.failures,
            "offers": self.offers(agent),
            "inbox": self.inbox(agent),
            "seed": self.seed(agent),
        }


def decode_result(content: bytes) -> Any:
    """The result of an action as facts have it: JSON where it is some, otherwise text."""
    text = content.decode(errors="replace")
    if text[:1] in "{[" and text:
        try:
            return _decode(content)
        except msgspec.DecodeError:
            return text
    return text


def in_order(agents: Sequence[AgentRow], *, seed: int, tick: int) -> list[AgentRow]:
    """The order in which the actions of a tick apply: seeded, so that nobody is first by joining first."""

    def place(row: AgentRow) -> bytes:
        return sha256(f"{seed}/{tick}/order/{row.id}".encode()).digest()

    return sorted(agents, key=place)
