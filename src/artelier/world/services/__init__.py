"""The services of the kernel in a world: parts of the host that are invoked like programs.

Their artifacts, which say what each costs, are written by `genesis`. Read next: `memory.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from artelier.artifacts import Service
from artelier.world.services.builtin import ArtifactStore, Described, EmbedderService, EventLog, Ledger
from artelier.world.services.memory import (
    MEMORY_ADD,
    MEMORY_SEARCH,
    MemoryAdd,
    MemorySearchService,
    recent_memories,
    search_memory,
)

__all__ = ["recent_memories", "search_memory", "shipped_services"]


@lru_cache(maxsize=1)
def shipped_services() -> Mapping[str, Service]:
    """Return the shipped services by the id of their artifact."""
    return {
        "genesis_embedder": EmbedderService(),
        "genesis_escrow": Described("genesis_escrow", "offer", "accept", "cancel_offer"),
        "genesis_event_log": EventLog(),
        "genesis_ledger": Ledger(),
        MEMORY_ADD: MemoryAdd(),
        MEMORY_SEARCH: MemorySearchService(),
        "genesis_mint": Described("genesis_mint", "bid"),
        "genesis_store": ArtifactStore(),
    }
