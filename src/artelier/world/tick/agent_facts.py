"""The facts that the agents of a world may know in a tick, and the limits of what each may do.

Facts are by value, most of them shared by all. They are read once, for the first wave; later waves see them
with what the tick has changed until then.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from heapq import merge
from itertools import chain, islice
from typing import Any

import msgspec

from artelier.artifacts import Working, account_of
from artelier.artifacts.events import ArtifactTransferred
from artelier.artifacts.queries import Standing
from artelier.artifacts.ref import ACTORS
from artelier.errors import CorruptStore, InvalidRequest, LimitReached, NotFound
from artelier.ledger import Posting
from artelier.money import SCRIP
from artelier.world.agent import WorldAgentRow
from artelier.world.queries.market import OfferFact, bytes_for_sale, sale_seller, shown_offers
from artelier.world.queries.worlds import inbox_of, usage_after
from artelier.world.tick.tick_context import Scene, offer_fact
from artelier.world.tick.world_state import ESCROW, stored_changes

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
        self._offers: dict[str, list[OfferFact]] = {}
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
            fact = await offer_fact(scene.stage, row, kind=row.kind)
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

    def offers(self, agent: str) -> list[OfferFact]:
        """Open offers that an agent may accept or has made to all, newest first; few of each seller."""
        scene = self.scene
        made, closed = scene.changed.made, scene.changed.closed
        seen: list[OfferFact] = []
        sold_by: dict[str, int] = {}
        for offer in chain(islice(reversed(made.values()), OFFERS_LOOKED_AT), self._before(agent)):
            if len(seen) == OFFERS_SHOWN:
                break
            if offer.offer in closed or offer.to not in ("", agent):
                continue
            if sold_by.get(offer.seller, 0) < OFFERS_OF_ONE and scene.sees(agent, offer.seller):
                sold_by[offer.seller] = sold_by.get(offer.seller, 0) + 1
                seen.append(offer)
        return seen

    def _before(self, agent: str) -> Iterable[OfferFact]:
        """Offers of earlier ticks to all and to one agent, the newest first."""
        to_all, to_one = self._offers.get("", ()), self._offers.get(agent)
        if not to_one:
            return to_all
        return merge(to_all, to_one, key=lambda one: self._places[one.offer], reverse=True)

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

    async def last_action(self, row: WorldAgentRow) -> Mapping[str, Any]:
        """`{type, success, result}` of the agent's newest step; a result that is JSON comes as such."""
        result: Any = None
        if row.last_result is not None:
            try:
                result = decode_result(await self.scene.stage.blob(row.last_result))
            except (NotFound, CorruptStore, InvalidRequest):
                result = None  # erased, or damaged: `verify` is who names it
        return {"type": row.last_action, "success": row.last_ok, "result": result}

    async def facts(self, row: WorldAgentRow) -> dict[str, Any]:
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
            "offers": msgspec.to_builtins(self.offers(agent)),
            "inbox": self.inbox(agent),
            "seed": self.seed(agent),
        }


def decode_result(content: bytes) -> object:
    """The result of an action as facts have it: JSON where it is some, otherwise text."""
    text = content.decode(errors="replace")
    if text[:1] in "{[" and text:
        try:
            return _decode(content)
        except msgspec.DecodeError:
            return text
    return text


def in_order(agents: Sequence[WorldAgentRow], *, seed: int, tick: int) -> list[WorldAgentRow]:
    """The order in which the actions of a tick apply: seeded, so that nobody is first by joining first."""

    def place(row: WorldAgentRow) -> bytes:
        return sha256(f"{seed}/{tick}/order/{row.id}".encode()).digest()

    return sorted(agents, key=place)


# --------------------------------------------------------------------------- limits
# The limits of an agent: what it may store, how often it may ask a model, what its prompts may spend.


async def check_storage(scene: Scene, working: Working) -> None:
    """Check that every agent may store what an action leaves to it, with its programs' works and its offers.

    The content of newest versions counts, older ones do not. An action that stores nothing more is never
    refused.
    Errors: `LimitReached`. Cost: O(artifacts changed by the action, and by the tick so far for their owners).
    """
    cap = scene.config.resources.stored_bytes
    if cap is None:
        return
    added: dict[str, int] = {}
    for id_, standing in working.standings.items():
        before = await scene.working.standing(id_)
        for owner, size_bytes in stored_changes(before, standing):
            if owner == ESCROW:
                owner = await _seller(scene, id_, before)
            responsible = await _responsible(working, owner)
            added[responsible] = added.get(responsible, 0) + size_bytes
    for owner, more in added.items():
        if more <= 0 or owner not in scene.agents:
            continue
        used = scene.stored.get(owner, 0) + scene.stage.stored_bytes(owner)
        used += await bytes_for_sale(scene.stage.store, scene.tenant, scene.space, owner, escrow=ESCROW)
        if used + more > cap:
            raise LimitReached(
                f"{owner} would store more than it may",
                expected=f"at most {cap} bytes",
                got=f"{used} stored, {more} more",
                scope=owner,
                unit="stored_bytes",
                cap=cap,
                used=used,
                asked=more,
            )
    for owner, more in added.items():
        scene.stored[owner] = scene.stored.get(owner, 0) + more


async def _seller(scene: Scene, id: str, before: Standing | None) -> str:
    """Return the seller for whom the escrow holds an artifact, or held it before the action."""
    if before is not None and before.owner != ESCROW:
        return before.owner
    for change in reversed(scene.working.changes):
        data = change.data
        if isinstance(data, ArtifactTransferred) and (data.id, data.to) == (id, ESCROW):
            return data.giver
    return await sale_seller(scene.stage.store, scene.tenant, scene.space, id) or ESCROW


async def _responsible(working: Working, owner: str) -> str:
    """Return who answers for what a program owns: the owner of the program, through at most ten of them."""
    for _ in range(10):
        if not owner.startswith(ACTORS):
            return owner
        program = await working.standing(owner.removeprefix(ACTORS))
        if program is None:
            return owner
        owner = program.owner
    return owner


async def refused_calls(scene: Scene) -> dict[str, str]:
    """Agents that may not ask a model in this tick, and why. Cost: one query over the window."""
    limits = scene.config.resources
    if limits.model_calls is None and limits.tokens is None:
        return {}
    since = scene.tick - limits.window
    rows = await usage_after(scene.stage.store, scene.tenant, scene.space, tick=since)
    refused: dict[str, str] = {}
    for agent, calls, tokens in rows:
        for used, cap, what in (
            (calls, limits.model_calls, "model calls"),
            (tokens, limits.tokens, "tokens"),
        ):
            if cap is not None and used >= cap:
                refused[agent] = f"{used} of {cap} {what} used within {limits.window} ticks"
    return refused


# --------------------------------------------------------------------------- spending limit
# The money that prompts may still spend: what is durably there, without what others pay in this tick.
# A prompt is paid for in the batch of its request, before the shocks and actions of its tick count. So it
# can spend neither what an action has just earned nor what another prompt pays, in whatever order the two
# are recorded, nor what an earlier shock or action has taken, even if the account has been filled again
# since.


class Purse:
    """The amounts that the accounts of a world may spend on prompts, in one wave."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._spent: dict[str, int] = {}

    def copy(self) -> Purse:
        """A purse in which the same is spent, and whose spending is its own."""
        copied = Purse(self._scene)
        copied._spent = dict(self._spent)
        return copied

    def remaining(self, account: str) -> int:
        """Scrip, never below zero: the least that it had since the tick began, without what is spent."""
        scene = self._scene
        before = scene.stage.balance_now(account.removeprefix(account_of("")))
        low = before + scene.working.lows.get((account, SCRIP), 0)
        return max(0, min(before, low) - self._spent.get(account, 0))

    def take(self, postings: Iterable[Posting]) -> None:
        """Count as spent what one event takes from accounts, all in all; what it gives counts for nobody."""
        for account, amount in net_spending(postings).items():
            self._spent[account] = self._spent.get(account, 0) + amount

    def covers(self, postings: Iterable[Posting]) -> bool:
        """Return True if everybody who pays here can."""
        return all(self.remaining(account) >= amount for account, amount in net_spending(postings).items())


def net_spending(postings: Iterable[Posting]) -> dict[str, int]:
    """Return what postings that move together take from accounts; whoever hands on what it gets pays
    nothing.
    """
    moved: dict[str, int] = {}
    for source, target, asset, amount in (
        (one.source, one.target, one.asset, one.amount) for one in postings
    ):
        if asset == SCRIP:
            moved[source] = moved.get(source, 0) + amount
            moved[target] = moved.get(target, 0) - amount
    return {account: amount for account, amount in moved.items() if amount > 0}


class Bounded(Working):
    """The state of a tick, in which nobody has more than its purse holds."""

    def __init__(self, base: Working, purse: Purse) -> None:
        super().__init__(base)
        self._purse = purse

    async def balance(self, account: str, asset: str = SCRIP) -> int:
        if asset != SCRIP:
            return await super().balance(account, asset)
        return self._purse.remaining(account)
