"""The output of the loader: plain specifications of artifacts, before anything is written."""

from __future__ import annotations

import hashlib
import re
from typing import Any

import msgspec

from artelier.artifacts.content import canonical_json
from artelier_migrate.format.diagnostics import Note

_ODD = re.compile(r"[^A-Za-z0-9._-]+")


class Specification(msgspec.Struct, frozen=True, kw_only=True):
    """One artifact as it should be."""

    id: str
    kind: str
    content: Any
    access: str | None = None
    """None: the default of its kind."""
    metadata: dict[str, Any] = {}

    @property
    def digest(self) -> str:
        """A digest of the content: it stays the same as long as the source does."""
        data = canonical_json([self.kind, self.content, self.metadata])
        return hashlib.sha256(data).hexdigest()[:32]


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """One folder, read: the artifacts of its agent, or why there are none."""

    folder: str
    agent: str | None
    artifacts: tuple[Specification, ...] = ()
    """The agent itself comes last, so that its references never dangle."""
    notes: tuple[Note, ...] = ()
    skipped: bool = False
    """No agent, or one that is not enabled."""

    @property
    def failed(self) -> bool:
        """True if something forbids to write it."""
        return any(note.what == "failed" for note in self.notes)


def slug(name: str) -> str:
    """A name as a part of an id."""
    return _ODD.sub("_", name).strip("_")[:60] or "x"
