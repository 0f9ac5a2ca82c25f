"""Memory stores in a world: entries as events, their vectors, their search.

Read next: `kind.py` for what a store says of itself, `entries.py`, `search.py`.
"""

from artelier.memory.embedders.registry import register_embedder
from artelier.world.stores.entries import AddedEntry, add_entry, copy_entries
from artelier.world.stores.kind import MEMORY_STORE, StoreConfig, register_stores
from artelier.world.stores.search import search_entries

__all__ = [
    "MEMORY_STORE",
    "AddedEntry",
    "StoreConfig",
    "add_entry",
    "copy_entries",
    "register_embedder",
    "register_stores",
    "search_entries",
]
