"""Memory stores in a world: entries as events, their vectors, their search.

Read next: `kind.py` for what a store says of itself, `adding.py`, `searching.py`.
"""

from artelier.memory.embedders.registry import register_embedder
from artelier.world.stores.adding import Added, add_entry, copy_entries
from artelier.world.stores.kind import MEMORY_STORE, StoreConfig, register_stores
from artelier.world.stores.searching import search_entries

__all__ = [
    "MEMORY_STORE",
    "Added",
    "StoreConfig",
    "add_entry",
    "copy_entries",
    "register_embedder",
    "register_stores",
    "search_entries",
]
