"""The beginning of a world: services, libraries and handbook; whole worlds from files; shipped examples."""

from artelier.world.genesis.batch_builder import Made, make
from artelier.world.genesis.bootstrap import found
from artelier.world.genesis.defaults import default_artifacts
from artelier.world.genesis.file import read_world, read_world_file
from artelier.world.genesis.seed_content import settle, shipped_artifacts
from artelier.world.genesis.shipped import shipped, shipped_names, shipped_policies

__all__ = [
    "Made",
    "default_artifacts",
    "found",
    "make",
    "read_world",
    "read_world_file",
    "settle",
    "shipped",
    "shipped_artifacts",
    "shipped_names",
    "shipped_policies",
]
