"""The money that prompts may still spend: what is durably there, without what others pay in this tick.

A prompt is paid for in the batch of its request, before the shocks and actions of its tick count. So it can
spend neither what an action has just earned nor what another prompt pays, in whatever order the two are
recorded, nor what an earlier shock or action has taken, even if the account has been filled again since.
"""

from __future__ import annotations

from collections.abc import Iterable

from artelier.artifacts import Working, account_of
from artelier.ledger import Posting
from artelier.money import SCRIP
from artelier.world.tick.tick_context import Scene


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
