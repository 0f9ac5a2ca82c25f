"""The config of a memory store: checked when it is saved, read leniently."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, cast

import msgspec

from artelier.artifacts import Kind, register_kind
from artelier.artifacts.content import Media
from artelier.artifacts.ref import safe_repr
from artelier.errors import ArtelierError, InvalidArguments, InvalidArtifact, InvalidRequest
from artelier.memory.embedders.registry import REGISTERED, embedder_named
from artelier.memory.entries import EmbeddingFailed
from artelier.memory.index.index_entry import DIMS_MAX, as_vector
from artelier.ports.memory import payer

if TYPE_CHECKING:
    from artelier.ports.memory import Embedder, Vector


MEMORY_STORE = "memory_store"

PRUNINGS = ("oldest", "lowest_score")

MAX_ENTRIES = 1_000
"""Of a store that says nothing."""

_MAX_ENTRIES_MAX = 10**9
_EMBEDDER_CHARS_MAX = 100
_SETTINGS = ("max_entries", "auto_prune", "embedder", "dims")
_JSON: frozenset[Media] = frozenset(("json",))


class StoreConfig(msgspec.Struct, frozen=True, kw_only=True):
    """`config` of the content."""

    max_entries: int = MAX_ENTRIES
    auto_prune: str = "oldest"
    """`oldest`, or `lowest_score`: the least important first, of these the oldest."""
    embedder: str = "hashing"
    dims: int = 0
    """Numbers of a vector; 0: as the embedder gives them."""


def register_stores() -> None:
    """Have memory stores checked in full when they are saved, and their entries read as parts.

    Twice is once. What was stored before is still read.
    """
    register_kind(
        Kind(name=MEMORY_STORE, media=_JSON, check=check_store, default_access="private", parts="entries"),
        replace=True,
    )


def read_config(content: object) -> StoreConfig:
    """Never raises: what is not of the right shape is as if it was not said."""
    given: object = content.get("config") if isinstance(content, dict) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType] - JSON
    settings = cast("dict[str, Any]", given) if isinstance(given, dict) else {}
    try:
        _check_settings(settings)
        config = msgspec.convert(settings, StoreConfig)
    except (InvalidArtifact, msgspec.ValidationError):
        return StoreConfig()
    return config if config.embedder else msgspec.structs.replace(config, embedder="hashing")


def check_store(content: object) -> None:
    """Check `{config?: {max_entries?, auto_prune?, embedder?, dims?}, description?, entries?: []}`.

    Entries are no part of what is written: each has a vector that somebody pays for, so they are added one
    by one; an empty list says nothing. Errors: `InvalidArtifact`.
    """
    if not isinstance(content, dict):
        raise _refused_error("content", "{config: {...}}", content)
    given = cast("dict[str, Any]", content)
    if given.get("entries", []) != []:
        raise InvalidArtifact(
            "entries of a memory store cannot be written with it",
            expected="content without `entries`, or `entries: []`; those that are there stay",
            hint="Add each by genesis_memory_add, which pays for its vector.",
        )
    if unknown := sorted(set(given) - {"config", "description", "entries"}):
        raise _refused_error("content", "config, description", unknown[0])
    if not isinstance(given.get("description", ""), str):
        raise _refused_error("description", "text", given["description"])
    config = given.get("config", {})
    if not isinstance(config, dict):
        raise _refused_error("config", "a JSON object", cast(object, config))
    _check_settings(cast("dict[str, Any]", config))


def _check_settings(config: dict[str, Any]) -> None:
    if unknown := sorted(set(config) - set(_SETTINGS)):
        raise _refused_error("config", ", ".join(_SETTINGS), unknown[0])
    for name, low, high in (("max_entries", 1, _MAX_ENTRIES_MAX), ("dims", 0, DIMS_MAX)):
        value = config.get(name, 1)
        if type(value) is not int or not low <= value <= high:
            raise _refused_error(f"config.{name}", f"a number from {low} to {high}", value)
    pruning = config.get("auto_prune", "oldest")
    if pruning not in PRUNINGS:
        raise _refused_error("config.auto_prune", " or ".join(PRUNINGS), pruning)
    embedder = config.get("embedder", "")
    if not isinstance(embedder, str) or len(embedder) > _EMBEDDER_CHARS_MAX:
        raise _refused_error("config.embedder", "the name of an embedder", embedder)


def _refused_error(what: str, expected: str, got: object) -> InvalidArtifact:
    return InvalidArtifact(f"invalid {what} of a memory store", expected=expected, got=safe_repr(got))


# --------------------------------------------------------------------------- embedding
# Vectors of entries and queries: who makes them, how they are checked and stored.


_registered = REGISTERED

DECIMALS = 6
"""Numbers are stored with so many: the last bit of another machine's arithmetic makes no other world."""


def embedder_of(config: StoreConfig) -> Embedder:
    """Return the embedder that a store names, from the one registry of embedders.

    Errors: `InvalidArguments` for a name that nobody knows, for one that costs money where nobody pays, and
    for vectors of another length.
    """
    try:
        embedder = _registered.get(config.embedder) or _load_shipped(config.embedder)
    except InvalidRequest as error:
        raise InvalidArguments(
            "this world offers no such embedder",
            expected=error.expected,
            got=config.embedder,
            hint="Write another `config.embedder` into the memory store.",
        ) from None
    if config.embedder not in _registered and ":" in config.embedder and payer() is None:
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


def _check_vector(name: str, vector: Sequence[float] | Vector, dims: int) -> Vector:
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
