"""Accounts, postings, reservations and limits: conservation by construction."""

from artelier.ledger.posting import (
    CappingEvent,
    Count,
    Counting,
    MoneyTransferred,
    Moving,
    Posting,
    may_owe,
    no_funds,
)
from artelier.ledger.view import (
    AMOUNT_MAX,
    COUNTED,
    DEBT,
    balance_of,
    check_available,
    check_caps,
    ledger_view,
    move,
)

__all__ = [
    "AMOUNT_MAX",
    "COUNTED",
    "DEBT",
    "CappingEvent",
    "Count",
    "Counting",
    "MoneyTransferred",
    "Moving",
    "Posting",
    "balance_of",
    "check_available",
    "check_caps",
    "ledger_view",
    "may_owe",
    "move",
    "no_funds",
]
