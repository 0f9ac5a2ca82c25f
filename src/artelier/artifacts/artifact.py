"""The values of this package: an artifact, and what search, history and lineage answer."""

from __future__ import annotations

from typing import Any

import msgspec

from artelier.artifacts.access.bill import Prices
from artelier.artifacts.access.rules import Access
from artelier.artifacts.ref import Ref
from artelier.errors import InvalidArtifact

SOURCES_MAX = 256
"""Refs one version may derive from (guess: a prompt's worth of parts)."""


class Provenance(msgspec.Struct, frozen=True, kw_only=True):
    """The origin of a version."""

    derived_from: tuple[str, ...] = ()
    """Refs, as written; they may dangle."""
    run_id: str | None = None
    step: str | None = None
    """Key of the step of that run."""

    def checked(self) -> Provenance:
        """Itself, refs checked and each once. Errors: `InvalidArtifact`, `InvalidRequest`."""
        refs = tuple(str(Ref.parse(ref, main_allowed=True)) for ref in dict.fromkeys(self.derived_from))
        if len(refs) > SOURCES_MAX:
            raise InvalidArtifact(
                "too many sources of one artifact", expected=f"at most {SOURCES_MAX}", got=len(refs)
            )
        return Provenance(derived_from=refs, run_id=self.run_id, step=self.step)


class Artifact(msgspec.Struct, frozen=True, kw_only=True):
    """One version of an artifact, with what holds for all its versions."""

    id: str
    kind: str
    content: Any
    """Text, bytes or JSON data."""
    version: int
    """From 1; that of `content`."""
    creator: str
    owner: str
    access: Access | None
    """None: what is stored cannot be read, and denies."""
    prices: Prices
    interface: Any = None
    """MCP style: its tools with JSON schema; None if it has none."""
    provenance: Provenance = Provenance()
    metadata: dict[str, Any] = {}
    deleted: bool = False
    created_us: int
    """Of version 1; in a world the tick."""
    written_us: int
    """Of this version; in a world the tick."""


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """An artifact without its content."""

    id: str
    kind: str
    version: int
    creator: str
    owner: str
    access: Access | None
    prices: Prices
    size_bytes: int
    created_us: int
    written_us: int


class VersionInfo(msgspec.Struct, frozen=True, kw_only=True):
    """One entry of a history."""

    version: int
    writer: str
    written_us: int
    media: str
    size_bytes: int
    run_id: str | None
    step: str | None
    pruned: bool
    """Its content can no longer be read."""


class Lineage(msgspec.Struct, frozen=True, kw_only=True):
    """One step in both directions; follow the refs for more."""

    id: str
    sources: tuple[str, ...]
    """Refs that versions of it came from, oldest first."""
    derived: tuple[str, ...]
    """Refs `id@version` of what came from it, as far as the asker may read them."""
