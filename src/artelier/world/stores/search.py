"""Search in a memory store: by meaning and by words, over what is durable and what is pending."""

from __future__ import annotations

from typing import Any

from artelier.artifacts import Working
from artelier.artifacts.content import canonical_json
from artelier.artifacts.queries import Standing
from artelier.errors import InvalidArguments, InvalidRequest
from artelier.memory.entries import check_query
from artelier.world.stores.embedding import embed, embedder_of
from artelier.world.stores.entries import pending_of
from artelier.world.stores.entry_writer import config_of
from artelier.world.stores.index_cache import Scored, StoreEntryCard, cards_of, shelf_of

LIMIT_MAX = 50
"""Entries of one answer."""

RESULT_BYTES_MAX = 56 * 1024
"""Of one answer, which stays below what an invocation may give."""


async def search_entries(working: Working, standing: Standing, query: str, *, limit: int = 5) -> list[Scored]:
    """The entries of a store that answer best, best first. Whether somebody may ask is the caller's to know.

    Errors: `InvalidArguments` for another kind of artifact, and for what is no query or limit; those of the
    embedder. Cost: an embedding, and O(what changed in the store since the last search).
    """
    if type(limit) is not int or not 1 <= limit <= LIMIT_MAX:
        raise InvalidArguments("invalid limit", expected=f"1 to {LIMIT_MAX}", got=repr(limit)[:40])
    try:
        check_query(query)
    except InvalidRequest as error:
        raise InvalidArguments(error.message, expected=error.expected) from None
    config = await config_of(working, standing)
    embedder = embedder_of(config)
    (vector,) = await embed(embedder, [query], dims=config.dims)
    changes = pending_of(working, standing.id)
    pending = await cards_of(working, tuple(changes.added.values()), embedder=embedder.name)
    shelf = await shelf_of(working, standing.id, embedder=embedder.name)
    return shelf.search(query, vector, pending=pending, removed=changes.removed, limit=limit)


def hits_as_json(found: list[Scored]) -> list[dict[str, Any]]:
    """Hits as JSON: `{entry_id, text, tick, tags, importance, score}`; as many of the best as fit."""
    results: list[dict[str, Any]] = []
    size = 0
    for one in found:
        result = _hit_as_json(one.card, one.score)
        size += len(canonical_json(result)) + 1
        if size > RESULT_BYTES_MAX:
            break
        results.append(result)
    return results


def _hit_as_json(card: StoreEntryCard, score: float) -> dict[str, Any]:
    return {
        "entry_id": card.id,
        "text": card.text,
        "tick": card.tick,
        "tags": list(card.tags),
        "importance": card.importance,
        "score": score,
    }
