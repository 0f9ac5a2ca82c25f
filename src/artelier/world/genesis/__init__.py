"""The beginning of a world: services, libraries and handbook; whole worlds from files; shipped examples."""

from artelier.world.genesis.bootstrap import found
from artelier.world.genesis.file import (
    read_world,
    read_world_file,
    read_world_text,
    shipped,
    shipped_names,
    shipped_policies,
)
from artelier.world.genesis.seed_content import Made, default_artifacts, make, settle, shipped_artifacts

__all__ = [
    "Made",
    "default_artifacts",
    "found",
    "make",
    "read_world",
    "read_world_file",
    "read_world_text",
    "settle",
    "shipped",
    "shipped_artifacts",
    "shipped_names",
    "shipped_policies",
]
