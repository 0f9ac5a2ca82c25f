"""Debt and exceeded limits: what refuses a new reservation, read inside its transaction.

A provider may bill more than was reserved for a call. The excess is owed: it is posted from `DEBT`, and
nothing is reserved until a higher budget has paid it. These checks are guards of batches, never part of a
view: a view applies every event that was ever recorded, also those from before an excess was owed.
"""

from __future__ import annotations

from collections.abc import Sequence

from artelier.errors import InsufficientFunds, LimitReached
from artelier.ids import MAIN_SPACE
from artelier.ledger.queries import exceeded_limit
from artelier.ledger.view import balance_of
from artelier.log import Tx
from artelier.money import USD

DEBT = "source:debt"
"""What providers have billed beyond what was reserved, as a negative balance."""


def check_available(tx: Tx, tenant: str, account: str, need: int) -> None:
    """Refuse to take `need` micro-dollars from an account that has less, its tenant's debt taken off.

    Errors: `InsufficientFunds`.
    """
    have = balance_of(tx, tenant, MAIN_SPACE, account, USD)
    debt = -balance_of(tx, tenant, MAIN_SPACE, DEBT, USD)
    if have - debt < need:
        raise InsufficientFunds(
            f"account {account} cannot pay",
            expected=f"at least {need} {USD}",
            got=f"{have} {USD}" + (f" with a debt of {debt}" if debt else ""),
            hint="Raise the budget: the debt is paid first." if debt else None,
            account=account,
            asset=USD,
            have=have - debt,
            need=need,
        )


def check_caps(tx: Tx, tenant: str, scopes: Sequence[str], units: Sequence[str]) -> None:
    """Refuse anything more while a limit of these units is exceeded. Errors: `LimitReached`."""
    row = exceeded_limit(tx, tenant, scopes, units)
    if row is not None:
        scope, unit, cap, reserved, used = row
        raise LimitReached(
            f"{scope} has exceeded its limit of {unit}",
            expected=f"at most {cap} {unit}",
            got=f"{used} used",
            hint="Raise the limit, then resume the run.",
            scope=scope,
            unit=unit,
            cap=cap,
            used=used,
            reserved=reserved,
            asked=0,
        )
