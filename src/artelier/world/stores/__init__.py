"""Memory stores in a world: entries as events, their vectors, their search.

Read next: `entries.py` for what a store says of itself and holds, `search.py`.
"""

from artelier.memory.embedders.registry import register_embedder
from artelier.world.stores.entries import (
    MEMORY_STORE,
    AddedEntry,
    StoreConfig,
    add_entry,
    copy_entries,
    register_stores,
)
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
