"""Loading agents of older formats: folders become plans, plans become artifacts."""

from artelier.world.genesis.file import Folder
from artelier_migrate.artifact_writer import (
    Outcome,
    Written,
    fail_reserved,
    join_agents,
    read_agents,
    write_agents,
)
from artelier_migrate.document import Note, Plan, Specification

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
