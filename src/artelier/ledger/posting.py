"""Money and counters as parts of events: who gave what to whom, and what a scope's limits count.

An event that moves money subclasses `Moving`; the ledger's view does the rest in the event's transaction.
There is no other way to move anything.
"""

from __future__ import annotations

from typing import ClassVar

import msgspec

from artelier.errors import InsufficientFunds
from artelier.log import EventData, event
from artelier.money import format_amount

SOURCES = ("source:", "mint:")
"""Accounts that may go below zero: what they owe is what they have issued."""


def may_owe(account: str) -> bool:
    """Return True if an account may go below zero."""
    return account.startswith(SOURCES)


def no_funds(account: str, asset: str, *, have: int, need: int, debt: int = 0) -> InsufficientFunds:
    """Return the error of an account that has less than it is to pay, a debt taken off."""
    owed = f" with a debt of {format_amount(debt, asset)}" if debt else ""
    return InsufficientFunds(
        f"account {account} cannot pay",
        expected=f"at least {format_amount(need, asset)}",
        got=f"{format_amount(have, asset)}{owed}",
        hint="Raise the budget: the debt is paid first." if debt else None,
        account=account,
        asset=asset,
        have=have - debt,
        need=need,
    )


class Posting(msgspec.Struct, frozen=True, array_like=True):
    """`amount` of `asset` from one account to another of the event's scope; both sides in one value."""

    source: str
    target: str
    asset: str
    amount: int
    """Positive, in the asset's smallest unit."""


class Count(msgspec.Struct, frozen=True, array_like=True):
    """A change of a scope's counter. Reserving is checked against the cap; settling never fails."""

    scope: str
    """`run:<id>`, `tenant`, or a scope that runs were opened with (`agent:<id>`, `membrane:<id>`)."""
    unit: str
    """`usd` (micro-dollars), `tokens`, `steps` or `ms`."""
    reserve: int = 0
    """Added to what is reserved; negative gives back."""
    use: int = 0
    """Added to what is used."""


class Moving(EventData, frozen=True, kw_only=True, omit_defaults=True):
    """An event that may carry postings and counts."""

    SETTLES: ClassVar[bool] = False
    """Whether its counts tell what was used already, which no cap can refuse any more."""

    postings: tuple[Posting, ...] = ()
    counts: tuple[Count, ...] = ()


class CappingEvent(EventData, frozen=True, kw_only=True, omit_defaults=True):
    """An event that sets the cap of a counter. `cap` None lifts it."""

    scope: str
    unit: str
    cap: int | None = None
    used: int = 0
    """What the scope had used before it was first capped."""


class Counting(EventData, frozen=True, kw_only=True, omit_defaults=True):
    """An event from which on scopes count whatever is used in them, capped or not."""

    scopes: tuple[str, ...] = ()


@event("money.transferred")
class MoneyTransferred(Moving, frozen=True, kw_only=True, omit_defaults=True):
    """A principal gave another one money of its own; the posting says who, whom and how much."""
