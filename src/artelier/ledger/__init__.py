"""Accounts, postings, reservations and limits: conservation by construction."""

from artelier.ledger.posting import (
    Capping,
    Count,
    Counting,
    MoneyTransferred,
    Moving,
    Posting,
)
from artelier.ledger.view import COUNTED, balance_of, ledger_view, may_owe, move

__all__ = [
    "COUNTED",
    "Capping",
    "Count",
    "Counting",
    "MoneyTransferred",
    "Moving",
    "Posting",
    "balance_of",
    "ledger_view",
    "may_owe",
    "move",
]
