"""The events of memories. Each names its memory, an artifact of kind `memory_store`.

Outside worlds they stand in that artifact's stream. Text, tags, names and vectors are in blobs; inline are
ids, numbers and labels of our own. An event that says `key` is the record that this key was applied.
"""

from __future__ import annotations

import msgspec

from artelier.log import BlobRef, EventData, event


class Keyed(EventData, frozen=True, kw_only=True, omit_defaults=True):
    """The fields that every change of a memory carries."""

    store: str
    """Id of the memory's artifact."""
    key: str | None = None
    """The caller's key; applied once per memory."""
    asked: str = ""
    """Short keyed hash of what was asked, to tell a repetition from another request under the same key."""
    run_id: str | None = None


@event("memory.opened")
class MemoryOpened(EventData, frozen=True, kw_only=True, omit_defaults=True):
    """An agent got a memory."""

    store: str
    agent: str


@event("memory.added")
class MemoryAdded(Keyed, frozen=True, kw_only=True, omit_defaults=True):
    """A new entry of long-term memory."""

    id: str
    content: BlobRef
    """JSON: text, tags, speaker, date."""
    vector: BlobRef | None = None
    """Little-endian float16."""
    embedder: str = ""
    mark: int
    """A keyed hash; equal for entries that differ in punctuation, case and filling words only."""
    importance: int
    """In thousandths."""
    trust: str
    beside: bool = False
    """A living entry says the same, but lacks a tag or the trust of this one."""
    within: bool = False
    """Part of a larger change, and taken back only with it."""


@event("memory.removed")
class MemoryRemoved(Keyed, frozen=True, kw_only=True, omit_defaults=True):
    """Entries that somebody wanted forgotten."""

    ids: tuple[str, ...]


@event("memory.pruned")
class MemoryPruned(Keyed, frozen=True, kw_only=True, omit_defaults=True):
    """Entries that made room because the memory was full."""

    ids: tuple[str, ...]
    policy: str
    """`oldest` or `lowest_score`."""


class Raised(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """An entry whose importance changed, in thousandths."""

    id: str
    before: int
    after: int


class Merged(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """Entries that said the same as one that is kept."""

    kept: str
    removed: tuple[str, ...]


@event("memory.consolidated")
class MemoryConsolidated(Keyed, frozen=True, kw_only=True, omit_defaults=True):
    """Duplicates were merged, faded entries dropped, boot text thrown out, facts promoted; undone as one."""

    merged: tuple[Merged, ...] = ()
    aged: tuple[str, ...] = ()
    boot: tuple[str, ...] = ()
    promoted: tuple[str, ...] = ()
    """Entries added by the events right before this one."""
    raised: tuple[Raised, ...] = ()


@event("memory.restored")
class MemoryRestored(Keyed, frozen=True, kw_only=True, omit_defaults=True):
    """A change of entries was taken back: the opposite of the event `change`."""

    change: int
    """Seq of the event that is taken back."""
    restored: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    raised: tuple[Raised, ...] = ()


@event("block.written")
class BlockWritten(Keyed, frozen=True, kw_only=True, omit_defaults=True):
    """A block of core memory changed; its text is that version of its artifact."""

    label: str
    artifact: str
    version: int
    how: str
    """`append`, `replace`, `replace_all` or `undo`."""
    change: int | None = None
    """For `undo`: seq of the event that is taken back."""


@event("block.attached")
class BlockAttached(Keyed, frozen=True, kw_only=True, omit_defaults=True):
    """An artifact became a block of this memory."""

    label: str
    artifact: str
    limit_chars: int
    before: str | None = None
    """The artifact that had the label."""
    before_chars: int = 0
    change: int | None = None


@event("block.detached")
class BlockDetached(Keyed, frozen=True, kw_only=True, omit_defaults=True):
    """An artifact is no block of this memory any more; its content stays."""

    label: str
    artifact: str
    limit_chars: int
    change: int | None = None
