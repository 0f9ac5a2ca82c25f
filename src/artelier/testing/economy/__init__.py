"""Conformance of the economy of worlds: consent, circulation, and no income without work.

`play_society` passes ticks of a society and gives an `EconomyReport`; its `findings` are the promises that
are broken. `consent_findings` judges any world of your own whose agents say no `price_max`.
"""

from artelier.testing.economy.books import ConsentBooks, EconomyReport, consent_findings, play_society
from artelier.testing.economy.societies import SOCIETIES, Society

__all__ = ["SOCIETIES", "ConsentBooks", "EconomyReport", "Society", "consent_findings", "play_society"]
