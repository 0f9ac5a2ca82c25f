"""`artelier world`: societies of agents. Help lists the commands in the order of these imports."""

from artelier.cli.world import creation, ticks, inspection, tables, transfer, experiments  # isort: skip
from artelier.cli.world.creation import app

__all__ = ["app", "creation", "experiments", "inspection", "tables", "ticks", "transfer"]
