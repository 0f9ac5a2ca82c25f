"""The events of skills, in the tenant's stream. Definitions, reasons and notes are blobs."""

from __future__ import annotations

from artelier.log import BlobRef, EventData, event


class SkillDefined(EventData, frozen=True, kw_only=True, omit_defaults=True):
    """The identity of a definition."""

    source: str
    name: str
    """As the source calls it."""
    skill: str
    """As models call it."""
    origin: str
    hash: str
    """SHA-256 of the definition's canonical JSON, hex."""
    shape: str = ""
    """Of its schema alone."""
    definition: BlobRef


@event("skill.pinned")
class SkillPinned(SkillDefined, frozen=True, kw_only=True, omit_defaults=True):
    """A definition may be used: seen for the first time, the developer's own, or an approved one again."""

    previous: str = ""
    """Hash of the definition that it replaces."""


@event("skill.parked")
class SkillParked(SkillDefined, frozen=True, kw_only=True, omit_defaults=True):
    """A definition waits for a person; `base` is the hash of the last one that might be used, if any."""

    reasons: BlobRef
    """A JSON list of text."""
    base: str = ""


@event("skill.approved")
class SkillApproved(EventData, frozen=True, kw_only=True, omit_defaults=True):
    """A person lets a definition be used; it becomes active in the next listing."""

    source: str
    name: str
    hash: str
    note: BlobRef | None = None


@event("skill.refused")
class SkillRefused(EventData, frozen=True, kw_only=True, omit_defaults=True):
    """A person forbids a definition; a changed one is parked anew."""

    source: str
    name: str
    hash: str
    note: BlobRef | None = None
