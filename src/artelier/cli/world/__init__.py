"""`artelier world`: societies of agents. Help lists the commands in the order of these imports."""

from artelier.cli.world import making, passing, seeing, tables, carrying, experiments  # isort: skip
from artelier.cli.world.app import app

__all__ = ["app", "carrying", "experiments", "making", "passing", "seeing", "tables"]
