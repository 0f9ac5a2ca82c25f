"""Sealed bids for the scoring slot of a round."""

from __future__ import annotations

from typing import NamedTuple

from artelier.artifacts import Ref, account_of
from artelier.errors import AccessDenied, InvalidArguments
from artelier.ledger import Posting
from artelier.money import SCRIP
from artelier.world.actions import Bid
from artelier.world.events import BidPlaced
from artelier.world.tick.tick_context import ActionStep, Scene

HOLD = "hold:mint:"
"""Accounts on which bids wait for the end of the round: one per bidder."""


class PlacedBid(NamedTuple):
    """A bid that stands. Of equal bids the one with the lowest `order` was first."""

    agent: str
    artifact: str
    amount: int
    order: tuple[int, int]


async def bid(step: ActionStep, action: Bid) -> None:
    """Bid, or replace one's bid of this round: the amount is held until the round ends.

    Errors: `AccessDenied` for what is not the agent's own; `InsufficientFunds`; `InvalidArguments` in a world
    without a mint.
    """
    scene = step.scene
    if not scene.config.mint.every:
        raise InvalidArguments("this world has no mint")
    verdict = await step.judge(Ref(action.artifact_id), "read")
    standing = verdict.granted()
    if standing.owner != step.agent:
        raise AccessDenied(f"only its owner may bid for {standing.id}", artifact=standing.id)
    held, own = f"{HOLD}{step.agent}", account_of(step.agent)
    before = await _standing_bid(step)
    postings: list[Posting] = []
    if before is not None:
        postings.append(Posting(held, own, SCRIP, before.amount))
    postings.append(Posting(own, held, SCRIP, action.amount))
    placed = PlacedBid(step.agent, standing.id, action.amount, (scene.tick, step.number))
    step.working.keep(("bid", step.agent), placed)
    await step.apply(
        BidPlaced(
            act=step.act(ref=standing.id),
            artifact=standing.id,
            amount=action.amount,
            postings=tuple(postings),
        )
    )


async def _standing_bid(step: ActionStep) -> PlacedBid | None:
    pending: PlacedBid | None = step.working.pending(("bid", step.agent))
    if pending is not None:
        return pending
    found = await placed_bids(step.scene, agent=step.agent)
    return found[0] if found else None


async def placed_bids(scene: Scene, *, agent: str | None = None) -> list[PlacedBid]:
    """The bids of this round, those of this tick included, the earliest first."""
    found = {one.agent: one for one in await bids_before(scene, agent=agent)}
    for bidder in (agent,) if agent is not None else scene.agents:
        pending: PlacedBid | None = scene.working.pending(("bid", bidder))
        if pending is not None:
            found[pending.agent] = pending
    return sorted(found.values(), key=lambda one: one.order)


async def bids_before(scene: Scene, *, agent: str | None = None) -> list[PlacedBid]:
    """The bids of this round that were placed before this tick, in no order. Cost: O(bids)."""
    where, parameters = "", [scene.tenant, scene.space]
    if agent is not None:
        where, parameters = " AND agent = ?", [*parameters, agent]
    rows = await scene.stage.store.query(
        "SELECT agent, artifact, amount, n FROM world_bids WHERE tenant = ? AND space = ?" + where,
        tuple(parameters),
    )
    # What stood before this tick was first: its events come before those of this tick.
    return [PlacedBid(row[0], row[1], row[2], (0, row[3])) for row in rows]
