"""The mint: each round sells one scoring slot by a sealed second-price auction, and mints by the score."""

from __future__ import annotations

from collections.abc import Sequence

from artelier.artifacts import account_of
from artelier.ledger import Posting
from artelier.money import SCRIP
from artelier.world.config import Mint
from artelier.world.events import AuctionClosed
from artelier.world.market.bids import HOLD, PlacedBid, bids_before, placed_bids
from artelier.world.market.fees import collect_fees, services, share_fees
from artelier.world.market.score import MINT, Score, new_users, score
from artelier.world.market.trades import clear_void
from artelier.world.tick.tick_context import Scene

ISSUER = "mint:world"
"""The account that mints; what it owes is what it has minted and not got back."""

ALONE = 1
"""What the only bidder pays, in scrip."""

ROUND_TICKS = Mint().every
"""Of the fees in a world without a mint."""


async def close_round(scene: Scene) -> None:
    """Close the mint's round if it ends with this tick: bids, price, score, and the income of services.

    In a world whose mint was turned off, bids that wait are given back. Fees go round without a mint too.

    Cost: O(agents) once in a round.
    """
    every = scene.config.mint.every
    if not every:
        await _give_back(scene)
    elif scene.tick % every == 0:
        await _auction(scene, every)
    if scene.config.asks_consent:
        await share_fees(scene, is_due=scene.tick % (every or ROUND_TICKS) == 0)


async def _auction(scene: Scene, every: int) -> None:
    """Sell the scoring slot of the round that ends, and pay its winner."""
    await clear_void(scene)
    bids = await placed_bids(scene)
    valid = [one for one in bids if await _is_own(scene, one)]
    circulates = scene.config.asks_consent
    postings = collect_fees(scene) if circulates else _income(scene)
    winner, price = _find_winner(valid)
    for one in bids:
        back = one.amount - (price if one is winner else 0)
        if back:
            postings.append(_posting(f"{HOLD}{one.agent}", account_of(one.agent), back))
    scored = Score(0)
    shares: list[Posting] = []
    if winner is not None and circulates:
        shares = await _shared_by_use(scene, winner, price, valid)
    elif winner is not None:
        shares = _shared_out(scene, winner, price)
    postings += shares
    if winner is not None:
        standing = await scene.working.standing(winner.artifact)
        assert standing is not None
        scored = await score(scene, standing)
    minted = scored.reward
    if winner is not None:
        income = sum(scene.balance(service) for service in services(scene))
        income += sum(one.amount for one in shares if one.target == account_of(MINT))
        from_fees = min(income, minted) if circulates else 0
        for source, amount in ((account_of(MINT), from_fees), (ISSUER, minted - from_fees)):
            if amount:
                postings.append(_posting(source, account_of(winner.agent), amount))
    elif circulates and not bids:
        return  # nothing was sold: fees are shared without it
    if not postings:
        return
    closed = AuctionClosed(
        round=scene.tick // every,
        winner=winner.agent if winner else "",
        artifact=winner.artifact if winner else "",
        price=price,
        score=scored.points,
        minted=minted,
        duplicate=scored.is_duplicate,
        postings=tuple(postings),
    )
    await scene.working.apply(closed, actor=MINT)


async def _give_back(scene: Scene) -> None:
    """Bids of a round that will have no end, because the mint was turned off in it."""
    bids = await bids_before(scene)
    if bids:
        postings = [_posting(f"{HOLD}{one.agent}", account_of(one.agent), one.amount) for one in bids]
        await scene.working.apply(AuctionClosed(round=0, postings=tuple(postings)), actor=MINT)


def _find_winner(bids: list[PlacedBid]) -> tuple[PlacedBid | None, int]:
    """The highest bid, of equal ones the earliest, and the second highest amount."""
    if not bids:
        return None, 0
    ranked = sorted(bids, key=lambda one: (-one.amount, one.order))
    return ranked[0], ranked[1].amount if len(ranked) > 1 else min(ALONE, ranked[0].amount)


async def _is_own(scene: Scene, bid: PlacedBid) -> bool:
    """Return True if the bidder still has what it bid for."""
    standing = await scene.working.standing(bid.artifact)
    return standing is not None and not standing.deleted and standing.owner == bid.agent


def _shared_out(scene: Scene, winner: PlacedBid, price: int) -> list[Posting]:
    """Return the price to all others in equal shares, the rest to the issuer, as older worlds do."""
    held = f"{HOLD}{winner.agent}"
    others = [agent for agent in scene.agents if agent != winner.agent]
    share = price // len(others) if others else 0
    shares = [_posting(held, account_of(agent), share) for agent in others] if share else []
    rest = price - share * len(shares)
    return [*shares, _posting(held, ISSUER, rest)] if rest else shares


async def _shared_by_use(
    scene: Scene, winner: PlacedBid, price: int, bids: Sequence[PlacedBid]
) -> list[Posting]:
    """Return the price to the other bidders, by how many agents used in this round what each has bid for.

    What is left of it stays with the mint for later winners. Whoever only waits for the money of others gets
    nothing.
    """
    held, since = f"{HOLD}{winner.agent}", scene.tick - scene.config.mint.every
    used: dict[str, int] = {}
    for one in bids:
        standing = await scene.working.standing(one.artifact)
        if one is not winner and standing is not None:
            used[one.agent] = await new_users(scene, standing, since=since)
    total = sum(used.values())
    shares = {agent: price * users // total for agent, users in used.items() if users}
    rest = price - sum(shares.values())
    paid = [_posting(held, account_of(to), share) for to, share in shares.items() if share]
    return [*paid, _posting(held, account_of(MINT), rest)] if rest else paid


def _income(scene: Scene) -> list[Posting]:
    """Return what services have earned to the issuer, as older worlds do."""
    return [
        _posting(account_of(service), ISSUER, earned)
        for service in sorted({*scene.services, MINT})
        if (earned := scene.balance(service)) > 0
    ]


def _posting(source: str, target: str, amount: int) -> Posting:
    return Posting(source, target, SCRIP, amount)
