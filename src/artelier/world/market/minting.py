"""The mint: each round sells one scoring slot by a sealed second-price auction, and mints by the score."""

from __future__ import annotations

from artelier.artifacts import account_of
from artelier.ledger import Posting
from artelier.money import SCRIP
from artelier.world.events import AuctionClosed
from artelier.world.market.bidding import HOLD, PlacedBid, bids_before, placed_bids
from artelier.world.market.scoring import MINT, Score, score
from artelier.world.market.trading import clear_void
from artelier.world.scene import Scene

ISSUER = "mint:world"
"""The account that mints; what it owes is what it has minted and not got back."""

ALONE = 1
"""What the only bidder pays, in scrip."""

POINTS_PER_SCRIP = 10


async def close_round(scene: Scene) -> None:
    """Close the mint's round if it ends with this tick: bids, price, score, and the income of services.

    In a world whose mint was turned off, bids that wait are given back.

    Cost: O(agents) once in a round; the price goes out to all of them.
    """
    every = scene.config.mint.every
    if not every:
        await _give_back(scene)
        return
    if scene.tick % every:
        return
    await clear_void(scene)
    bids = await placed_bids(scene)
    valid = [one for one in bids if await _is_own(scene, one)]
    postings = _income(scene)
    winner, price = _won(valid)
    for one in bids:
        back = one.amount - (price if one is winner else 0)
        if back:
            postings.append(_posting(f"{HOLD}{one.agent}", account_of(one.agent), back))
    scored = Score(0)
    if winner is not None:
        postings += _shared_out(scene, winner, price)
        standing = await scene.working.standing(winner.artifact)
        assert standing is not None
        scored = await score(scene, standing)
    minted = scored.points // POINTS_PER_SCRIP
    if winner is not None and minted:
        postings.append(_posting(ISSUER, account_of(winner.agent), minted))
    if not postings:
        return
    closed = AuctionClosed(
        round=scene.tick // every, winner=winner.agent if winner else "",
        artifact=winner.artifact if winner else "", price=price, score=scored.points,
        minted=minted, duplicate=scored.is_duplicate, postings=tuple(postings),
    )  # fmt: skip
    await scene.working.apply(closed, actor=MINT)


async def _give_back(scene: Scene) -> None:
    """Bids of a round that will have no end, because the mint was turned off in it."""
    bids = await bids_before(scene)
    if bids:
        postings = [
            _posting(f"{HOLD}{one.agent}", account_of(one.agent), one.amount) for one in bids
        ]
        await scene.working.apply(AuctionClosed(round=0, postings=tuple(postings)), actor=MINT)


def _won(bids: list[PlacedBid]) -> tuple[PlacedBid | None, int]:
    """The highest bid, of equal ones the earliest, and the second highest amount."""
    if not bids:
        return None, 0
    ranked = sorted(bids, key=lambda one: (-one.amount, one.order))
    return ranked[0], ranked[1].amount if len(ranked) > 1 else min(ALONE, ranked[0].amount)


async def _is_own(scene: Scene, bid: PlacedBid) -> bool:
    """Whether the bidder still has what it bid for."""
    standing = await scene.working.standing(bid.artifact)
    return standing is not None and not standing.deleted and standing.owner == bid.agent


def _shared_out(scene: Scene, winner: PlacedBid, price: int) -> list[Posting]:
    """The price to the others in equal shares, what is left of it to the mint."""
    held = f"{HOLD}{winner.agent}"
    others = [agent for agent in scene.agents if agent != winner.agent]
    share = price // len(others) if others else 0
    shares = [_posting(held, account_of(agent), share) for agent in others] if share else []
    rest = price - share * len(shares)
    return [*shares, _posting(held, ISSUER, rest)] if rest else shares


def _income(scene: Scene) -> list[Posting]:
    """What services have earned goes back, so that fees do not drain the economy."""
    return [
        _posting(account_of(service), ISSUER, earned)
        for service in sorted({*scene.services, MINT})
        if (earned := scene.balance(service)) > 0
    ]


def _posting(source: str, target: str, amount: int) -> Posting:
    return Posting(source, target, SCRIP, amount)
