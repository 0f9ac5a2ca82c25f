"""Loading agents of older formats: folders become plans, plans become artifacts."""

from artelier.world.genesis.folder import Folder
from artelier.world.loading.activation import fail_reserved, join_agents
from artelier.world.loading.artifact_writer import Outcome, Written, read_agents, write_agents
from artelier.world.loading.format.diagnostics import Note
from artelier.world.loading.specification import Plan, Specification

__all__ = [
    "Folder",
    "Note",
    "Outcome",
    "Plan",
    "Specification",
    "Written",
    "fail_reserved",
    "join_agents",
    "read_agents",
    "write_agents",
]
