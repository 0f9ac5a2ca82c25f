"""The mint: each round sells one scoring slot by a sealed second-price auction, and mints by the score."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from artelier.artifacts import (
    AccessVerdict,
    ArtifactCharged,
    ArtifactInvoked,
    Call,
    InvocationFailed,
    Ref,
    Working,
    account_of,
)
from artelier.artifacts import Ref as TheRef
from artelier.artifacts.content import canonical_json, decode_content
from artelier.artifacts.invocation_store import in_scope
from artelier.artifacts.invocation_tree import Admitted, BudgetSpent, Tree
from artelier.artifacts.kinds import runnable_code
from artelier.artifacts.queries import Standing, first_written_us
from artelier.artifacts.ref import ACTORS
from artelier.errors import AccessDenied, ArtelierError, InvalidArguments
from artelier.ledger import Posting
from artelier.money import SCRIP
from artelier.world.actions import Bid
from artelier.world.config import Mint
from artelier.world.events import AuctionClosed, BidPlaced, FeesShared
from artelier.world.queries.market import bids_of, count_agents_using, fees_of, scored_at, users_between
from artelier.world.tick.tick_context import ActionStep, Scene
from artelier.world.trades import clear_void
from artelier.world.view import fee_of

# --------------------------------------------------------------------------- score
# The mint's valuation of an artifact: use by others and test cases, never its owner's claim.


MINT = "genesis_mint"
"""The service that runs test cases, and whose income returns with that of the others."""

POINTS_PER_SCRIP = 10
"""In older worlds."""

PER_USER = 10
"""In older worlds: points for each other agent that has used it: ten of them are the full score (guess)."""


class Score(NamedTuple):
    """0 to 100, and whether something like it was there before."""

    points: int
    is_duplicate: bool = False
    reward: int = 0
    """Scrip for the winner."""


async def score(scene: Scene, standing: Standing) -> Score:
    """Return the mint's score of an artifact as it stands. Cost: one scan of the versions of the world.

    Every agent that has used it since it was last scored is a scrip, if it passes all test cases of its kind.
    """
    if await _is_duplicate(scene, standing):
        return Score(0, is_duplicate=True)
    cases = scene.config.mint.cases.get(standing.kind, [])
    if not scene.config.asks_consent:
        return await _score_of_all_use(scene, standing, cases)
    users = await new_users(scene, standing)
    if cases and users:
        users = users * await _count_passed(scene, standing, cases) // len(cases)
    others = max(1, len(scene.agents) - 1)
    return Score(min(100, 100 * users // others), reward=users)


async def _score_of_all_use(scene: Scene, standing: Standing, cases: list[dict[str, Any]]) -> Score:
    """Return the score of older worlds: all use there ever was, or half of it and half the test cases."""
    used = min(100, PER_USER * await _users(scene, standing))
    points = used
    if cases:
        points = (used + 100 * await _count_passed(scene, standing, cases) // len(cases)) // 2
    return Score(points, reward=points // POINTS_PER_SCRIP)


async def new_users(scene: Scene, standing: Standing, *, since: int = 0) -> int:
    """Count the agents that act now and have used it since it was last scored, its maker and owner apart.

    Units: `since` is a tick, the first that counts. What is used in the tick that ends a round counts in the
    next one.
    """
    store, key = scene.stage.store, (scene.tenant, scene.space, standing.id)
    since = max(await scored_at(store, *key), since)
    makers = (standing.owner, standing.creator)
    users = await users_between(store, *key, beside=makers, since=since, until=scene.tick)
    return sum(user in scene.agents for user in users)


async def _users(scene: Scene, standing: Standing) -> int:
    """Agents that have used it, themselves or by a program of theirs, and neither made nor own it."""
    makers = (standing.owner, standing.creator)
    return await count_agents_using(scene.stage.store, scene.tenant, scene.space, standing.id, beside=makers)


async def _is_duplicate(scene: Scene, standing: Standing) -> bool:
    """Return True if another artifact had this content first, or this one was made as a copy."""
    at = standing.at
    assert at is not None
    if at.sources and ".copy-" in standing.id:
        return True
    first_us = await first_written_us(
        scene.stage.store, scene.tenant, scene.space, at.content, beside=standing.id
    )
    return first_us is not None and first_us <= at.written_us


async def _count_passed(scene: Scene, standing: Standing, cases: list[dict[str, Any]]) -> int:
    """Return how many test cases its program passes. What it does in them is dropped."""
    at = standing.at
    assert at is not None
    content = decode_content(at.media, await scene.working.blob(at.content))
    code = runnable_code(standing.kind, content)
    if code is None:
        return 0
    passed = 0
    for number, case in enumerate(cases):
        tree = Tree(
            scene.interpreter,
            in_scope,
            services=scene.services,
            seed=f"{scene.config.seed}/{scene.tick}/case/{number}",
        )
        args: Any = case.get("args", {})
        call = Call(caller=MINT, id=standing.id, args=args if isinstance(args, dict) else {})
        verdict = AccessVerdict(TheRef(standing.id), "invoke", MINT, standing=standing)
        admitted = Admitted(call, verdict, standing, code, dict(call.args))
        try:
            result = await tree.run(Working(scene.working), admitted)
        except (ArtelierError, InvocationFailed, BudgetSpent):
            continue  # it fails this case, however it does that
        passed += canonical_json(result) == canonical_json(case.get("expected"))
    return passed


# --------------------------------------------------------------------------- bids
# Sealed bids for the scoring slot of a round.


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
    rows = await bids_of(scene.stage.store, scene.tenant, scene.space, agent=agent)
    # What stood before this tick was first: its events come before those of this tick.
    return [PlacedBid(row.agent, row.artifact, row.amount, (0, row.n)) for row in rows]


# --------------------------------------------------------------------------- fees
# Fees: what services earn pays the mint's winners first, and goes back to those who paid it.
# An equal share for everybody would let an agent live on the fees of others; a share of what it paid does
# not.


HELD_SHARE_MAX = 5
"""Services hold at most one part in so many of what agents have, and longer than a tick no more (guess)."""

PROGRAMS_MAX = 10
"""Programs that own each other, up to one that is there."""


async def share_fees(scene: Scene, *, is_due: bool) -> None:
    """Give fees back, in proportion to what was paid, if that is due or services hold too much of the money.

    What is above the fees, such as gifts and what is left of a price, stays with the mint for later winners.
    Cost: O(services) in a tick; O(agents) in one in which services hold something.
    """
    held = sum(scene.balance(service) for service in services(scene))
    if not held:
        return
    in_hands = sum(scene.balance(agent) for agent in scene.agents)
    if not is_due and held * HELD_SHARE_MAX <= in_hands:
        return
    fees = await _fees(scene)
    total = sum(fees.values())
    shared = min(held, total)
    postings = collect_fees(scene)
    for payer, paid in sorted(fees.items()):
        if back := paid * shared // total:
            to = account_of(await _receiver(scene, payer))
            postings.append(Posting(account_of(MINT), to, SCRIP, back))
    if postings:
        await scene.working.apply(FeesShared(postings=tuple(postings)), actor=MINT)


def services(scene: Scene) -> list[str]:
    """Return the principals whose income is fees, sorted."""
    return sorted({*scene.services, MINT})


def collect_fees(scene: Scene) -> list[Posting]:
    """Return the postings that bring what services have earned to the mint."""
    return [
        Posting(account_of(service), account_of(MINT), SCRIP, earned)
        for service in services(scene)
        if service != MINT and (earned := scene.balance(service)) > 0
    ]


async def _fees(scene: Scene) -> dict[str, int]:
    """Return what principals have paid to services since fees were shared, this tick included."""
    fees = await fees_of(scene.stage.store, scene.tenant, scene.space)
    for data, _ in scene.working.changes:
        if isinstance(data, ArtifactCharged | ArtifactInvoked) and (fee := fee_of(data)):
            fees[data.payer] = fees.get(data.payer, 0) + fee
    return fees


async def _receiver(scene: Scene, payer: str) -> str:
    """Return who gets a fee back: the payer, or the owner of a program that is gone."""
    for _ in range(PROGRAMS_MAX):
        if not payer.startswith(ACTORS):
            break
        standing = await scene.working.standing(payer.removeprefix(ACTORS))
        if standing is None or not standing.deleted:
            break
        payer = standing.owner
    return payer


# --------------------------------------------------------------------------- mint


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
