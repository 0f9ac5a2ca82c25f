"""Fees: what services earn pays the mint's winners first, and goes back to those who paid it.

An equal share for everybody would let an agent live on the fees of others; a share of what it paid does not.
"""

from __future__ import annotations

from artelier.artifacts import ArtifactCharged, ArtifactInvoked, account_of
from artelier.artifacts.ref import ACTORS
from artelier.ledger import Posting
from artelier.money import SCRIP
from artelier.world.events import FeesShared
from artelier.world.market.score import MINT
from artelier.world.tick.tick_context import Scene
from artelier.world.view import fee_of

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
    rows = await scene.stage.store.query(
        "SELECT payer, amount FROM world_fees WHERE tenant = ? AND space = ?", (scene.tenant, scene.space)
    )
    fees: dict[str, int] = dict(rows)
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
