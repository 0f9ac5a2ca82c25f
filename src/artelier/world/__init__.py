"""Worlds: spaces in which agents own, trade and change what they think with."""

from __future__ import annotations

from typing import TYPE_CHECKING

from artelier.ports.lazy_names import load_on_use

if TYPE_CHECKING:
    from artelier.world.config import Mint, Shock, Subscriptions, WorldConfig, read_config
    from artelier.world.tick.tick import Passed
    from artelier.world.world import World

_HOMES = {
    "Mint": "config",
    "Passed": "tick.tick",
    "Shock": "config",
    "Subscriptions": "config",
    "World": "world",
    "WorldConfig": "config",
    "read_config": "config",
}

__all__ = ["Mint", "Passed", "Shock", "Subscriptions", "World", "WorldConfig", "read_config"]

# Lazy: events and views of worlds are part of every kernel, the rest only of those that have worlds.
__getattr__ = load_on_use(__name__, _HOMES)
