"""Memory: embedders, the index and its hybrid search, the stores."""

from __future__ import annotations

from typing import TYPE_CHECKING

from artelier.ports.lazy_names import load_on_use

if TYPE_CHECKING:
    from artelier.memory.consolidation import Consolidation, Loss, consolidate, losses_of
    from artelier.memory.evaluation import evaluate
    from artelier.memory.index.index_entry import Record
    from artelier.memory.index.memory_index import Hit, MemoryIndex
    from artelier.memory.index.score import Weights
    from artelier.memory.sqlite import SQLiteMemoryStore
    from artelier.memory.store import LogMemory, LogMemoryStore

__all__ = [
    "Consolidation",
    "Hit",
    "LogMemory",
    "LogMemoryStore",
    "Loss",
    "MemoryIndex",
    "Record",
    "SQLiteMemoryStore",
    "Weights",
    "consolidate",
    "evaluate",
    "losses_of",
]

_HOMES = {
    "Consolidation": "consolidation",
    "Hit": "index.memory_index",
    "LogMemory": "store",
    "LogMemoryStore": "store",
    "Loss": "consolidation",
    "MemoryIndex": "index.memory_index",
    "Record": "index.index_entry",
    "SQLiteMemoryStore": "sqlite",
    "Weights": "index.score",
    "evaluate": "evaluation",
    "consolidate": "consolidation",
    "losses_of": "consolidation",
}
"""Where each export lives; loaded on first use, because the stores must start fast."""

__getattr__ = load_on_use(__name__, _HOMES)
