"""The config of a memory store: checked when it is saved, read leniently."""

from __future__ import annotations

from typing import Any, cast

import msgspec

from artelier.artifacts import Kind, register_kind
from artelier.artifacts.content import Media
from artelier.artifacts.ref import safe_repr
from artelier.errors import InvalidArtifact
from artelier.memory.index.index_entry import DIMS_MAX

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


def check_store(content: Any) -> None:
    """Check `{config?: {max_entries?, auto_prune?, embedder?, dims?}, description?, entries?: []}`.

    Entries are no part of what is written: each has a vector that somebody pays for, so they are added one
    by one; an empty list says nothing. Errors: `InvalidArtifact`.
    """
    if not isinstance(content, dict):
        raise _refused_error("content", "{config: {...}}", cast(object, content))
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
