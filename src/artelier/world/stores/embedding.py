"""Vectors of entries and queries: who makes them, how they are checked and stored."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from artelier.errors import ArtelierError, InvalidArguments, InvalidRequest
from artelier.memory.embedders.registry import REGISTERED, embedder_named
from artelier.memory.entries import EmbeddingFailed
from artelier.memory.index.index_entry import as_vector
from artelier.ports.embedder import payer
from artelier.world.stores.kind import StoreConfig

if TYPE_CHECKING:
    from artelier.ports.embedder import Embedder, Vector

_registered = REGISTERED

DECIMALS = 6
"""Numbers are stored with so many: the last bit of another machine's arithmetic makes no other world."""


def embedder_of(config: StoreConfig) -> Embedder:
    """Return the embedder that a store names, from the one registry of embedders.

    Errors: `InvalidArguments` for a name that nobody knows, for one that costs money where nobody pays, and
    for vectors of another length.
    """
    try:
        embedder = _embedder_of(config.embedder)
    except InvalidRequest as error:
        raise InvalidArguments(
            "this world offers no such embedder",
            expected=error.expected,
            got=config.embedder,
            hint="Write another `config.embedder` into the memory store.",
        ) from None
    if config.embedder not in _registered and _costs(config.embedder) and payer() is None:
        raise InvalidArguments(
            "this world offers no such embedder between its ticks: nobody would pay for it",
            expected="hashing or minilm",
            got=config.embedder,
        )
    if config.dims and embedder.dims and config.dims != embedder.dims:
        raise InvalidArguments(
            f"vectors of {embedder.name} have another length than `config.dims` says",
            expected=str(embedder.dims),
            got=config.dims,
        )
    return embedder


def _embedder_of(name: str) -> Embedder:
    return _registered[name] if name in _registered else _load_shipped(name)


def _costs(name: str) -> bool:
    return ":" in name


@lru_cache(maxsize=16)
def _load_shipped(name: str) -> Embedder:
    """Return a shipped embedder, made once: a local model is loaded once, a length is learnt once."""
    return embedder_named(name)


async def embed(embedder: Embedder, texts: Sequence[str], *, dims: int = 0) -> list[Vector]:
    """One checked vector for each text, never a zero one, rounded to what is stored.

    Units:  `dims` is the length that is wanted; 0 is any.
    Errors: the embedder's own; `EmbeddingFailed` for what is no vector, and for any other failure.
    """
    try:
        vectors: Sequence[Any] = await embedder.embed(texts)
    except ArtelierError:
        raise
    except Exception as error:  # of the host's embedder: an agent's action fails, not the tick
        raise EmbeddingFailed(
            f"embedder {embedder.name} failed", got=type(error).__name__, hint="Nothing was stored."
        ) from error
    if len(vectors) != len(texts):
        raise EmbeddingFailed(
            f"embedder {embedder.name} gave another number of vectors",
            expected=len(texts),
            got=len(vectors),
            hint="Nothing was stored.",
        )
    return [_check_vector(embedder.name, vector, dims or embedder.dims) for vector in vectors]


def _check_vector(name: str, vector: Any, dims: int) -> Vector:
    import numpy as np

    try:
        rounded = as_vector(np.round(as_vector(vector), DECIMALS))
    except (InvalidRequest, TypeError, ValueError) as error:
        raise EmbeddingFailed(
            f"embedder {name} gave a vector without a direction",
            expected="finite numbers, not all zero",
            hint="Nothing was stored. Check the embedder.",
        ) from error
    if dims and len(rounded) != dims:
        raise EmbeddingFailed(
            f"embedder {name} gave a vector of another length",
            expected=dims,
            got=len(rounded),
            hint="Nothing was stored.",
        )
    return rounded


def to_bytes(vector: Vector) -> bytes:
    """Return the stored form of a vector: 32-bit floats, little endian."""
    return vector.astype("<f4").tobytes()


def from_bytes(stored: bytes) -> Vector:
    """Errors: `InvalidRequest` for bytes that are no vector."""
    import numpy as np

    if not stored or len(stored) % 4:
        raise InvalidRequest("these bytes are no vector", got=f"{len(stored)} bytes")
    return np.frombuffer(stored, dtype="<f4").astype(np.float32)


def as_numbers(vector: Vector) -> list[float]:
    """Return the stored numbers for JSON, without the digits that 32 bits do not have."""
    return [round(float(number), DECIMALS) for number in vector]
