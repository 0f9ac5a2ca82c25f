"""The limits of an agent: what it may store, how often it may ask a model, what its prompts may spend."""

from __future__ import annotations

from collections.abc import Iterable

from artelier.artifacts import Working, account_of
from artelier.artifacts.events import ArtifactTransferred
from artelier.artifacts.queries import Standing
from artelier.artifacts.ref import ACTORS
from artelier.errors import LimitReached
from artelier.ledger import Posting
from artelier.money import SCRIP
from artelier.world.queries.market import bytes_for_sale, sale_seller
from artelier.world.queries.worlds import usage_after
from artelier.world.tick.tick_context import Scene
from artelier.world.tick.world_state import ESCROW, stored_changes


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
        used += await _sum_offered(scene, owner)
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


async def _sum_offered(scene: Scene, seller: str) -> int:
    """Bytes of what the escrow held for a seller when the tick began."""
    return await bytes_for_sale(scene.stage.store, scene.tenant, scene.space, seller, escrow=ESCROW)


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
