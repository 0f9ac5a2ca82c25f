"""Torture: seeds that draw a world of agents and misfortunes, and the promises that must hold in it."""

from artelier_lab.torture.plants import PLANTS
from artelier_lab.torture.session import run_torture

__all__ = ["PLANTS", "run_torture"]
