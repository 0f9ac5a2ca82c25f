"""Imported history moves money that was never here: a loan covers it, and nothing of a tenant is spent.

Events keep their postings, since these are hashed. So an import is framed by events that lend every account
what the history will take from it, and take back whatever the history left there. Between them no account is
overdrawn, after them each has what it had before; and the sum over all accounts is zero throughout. Counters
of limits are treated alike, with their caps lifted meanwhile.
"""

from __future__ import annotations

from collections.abc import Collection

from artelier.errors import InvalidExport
from artelier.ledger import Count, Moving, Posting, may_owe
from artelier.ledger.view import AMOUNT_MAX

LENDER = "source:import"

Account = tuple[str, str]
"""Account and asset, or scope and unit."""


class Loan:
    """Adds up what a history does to accounts and counters. Errors: `InvalidExport`."""

    def __init__(self, *, own: Collection[str]) -> None:
        """`own`: scopes that come with the import; nobody else counts there."""
        self._own = frozenset(own)
        self._balance: dict[Account, int] = {}
        self._lowest: dict[Account, int] = {}
        self._counted: dict[Account, tuple[int, int]] = {}
        self._moved = 0

    def add(self, data: Moving) -> None:
        for posting in data.postings:
            self._take_amount(posting.amount)
            if posting.amount <= 0 or posting.source == posting.target:
                raise InvalidExport("a posting moves a positive amount between two accounts")
            self._move((posting.source, posting.asset), -posting.amount)
            self._move((posting.target, posting.asset), posting.amount)
        for count in data.counts:
            self._take_amount(count.reserve)
            self._take_amount(count.use)
            if count.scope not in self._own:
                reserve, use = self._counted.get((count.scope, count.unit), (0, 0))
                self._counted[count.scope, count.unit] = (reserve + count.reserve, use + count.use)

    def _take_amount(self, amount: int) -> None:
        self._moved += abs(amount)
        if self._moved > AMOUNT_MAX:
            raise InvalidExport(
                "its events move more than a ledger takes",
                expected=f"at most {AMOUNT_MAX}",
                got=str(amount)[:40],
            )

    def _move(self, account: Account, amount: int) -> None:
        balance = self._balance[account] = self._balance.get(account, 0) + amount
        if not may_owe(account[0]):
            self._lowest[account] = min(balance, self._lowest.get(account, 0))

    @property
    def scopes(self) -> tuple[Account, ...]:
        """Counters of others that the history changes, as (scope, unit)."""
        return tuple(sorted(self._counted))

    def opening_postings(self) -> tuple[Posting, ...]:
        """Return what accounts get before the history."""
        return tuple(
            Posting(LENDER, account, asset, -lowest)
            for (account, asset), lowest in sorted(self._lowest.items())
            if lowest < 0
        )

    def closing_postings(self) -> tuple[Posting, ...]:
        """Return what is taken back after it."""
        postings: list[Posting] = []
        for (account, asset), balance in sorted(self._balance.items()):
            left = balance - self._lowest.get((account, asset), 0)
            if account == LENDER or not left:
                continue
            if left > 0:
                postings.append(Posting(account, LENDER, asset, left))
            else:
                postings.append(Posting(LENDER, account, asset, -left))
        return tuple(postings)

    def closing_counts(self) -> tuple[Count, ...]:
        """Return what is taken off counters after it."""
        return tuple(
            Count(scope, unit, reserve=-reserved, use=-used)
            for (scope, unit), (reserved, used) in sorted(self._counted.items())
        )
