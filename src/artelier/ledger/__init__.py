"""Accounts, postings, reservations and limits: conservation by construction."""

from artelier.ledger.posting import Capping, Count, Moving, Posting
from artelier.ledger.view import balance_of, ledger_view, may_owe, move

__all__ = [
    "Capping",
    "Count",
    "Moving",
    "Posting",
    "balance_of",
    "ledger_view",
    "may_owe",
    "move",
]
