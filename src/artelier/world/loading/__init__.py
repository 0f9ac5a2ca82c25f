"""Loading agents of older formats: folders become plans, plans become artifacts."""

from artelier.world.loading.folder import Folder
from artelier.world.loading.joining import fail_reserved, join_agents
from artelier.world.loading.notes import Note
from artelier.world.loading.specification import Plan, Specification
from artelier.world.loading.writing import Outcome, Written, read_agents, write_agents

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
