"""The worlds that are shipped as examples, and the rule agents that they name."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import as_file, files
from typing import Any

from artelier.errors import NotFound
from artelier.world.genesis.file import read_world_file
from artelier.world.tick.deciders import Policy

EXAMPLES: tuple[str, ...] = ("market",)


def shipped_names() -> tuple[str, ...]:
    """The worlds that `shipped` knows."""
    return EXAMPLES


def shipped(name: str) -> dict[str, Any]:
    """The specification of a shipped world, for `found`. Errors: `NotFound`."""
    if name not in EXAMPLES:
        raise NotFound("no such world is shipped", expected=", ".join(EXAMPLES), got=name[:80])
    with as_file(files("artelier.world.examples") / name) as folder:
        return read_world_file(folder / "world.toml")


def shipped_policies() -> Mapping[str, Policy]:
    """The rule agents of the shipped worlds, by the name that their agents give."""
    from artelier.world.examples.rules import POLICIES

    return POLICIES
