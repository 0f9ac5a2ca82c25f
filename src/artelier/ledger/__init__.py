"""Accounts, postings, reservations and limits: conservation by construction."""

from artelier.ledger.posting import Capping, Count, MoneyTransferred, Moving, Posting
from artelier.ledger.view import balance_of, ledger_view, may_owe, move

__all__ = [
    "Capping",
    "Count",
    "MoneyTransferred",
    "Moving",
    "Posting",
    "balance_of",
    "ledger_view",
    "may_owe",
    "move",
]
