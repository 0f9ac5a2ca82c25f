"""Torture: seeds that draw a world of agents and misfortunes, and the promises that must hold in it."""

from artelier.testing.torture.plants import PLANTS
from artelier.testing.torture.session import run_torture

__all__ = ["PLANTS", "run_torture"]
