"""The prefix that a later prompt shares with an earlier one, and the part that ended it.

Providers cache prefixes: what stands after the first difference is read, and paid for, anew.
"""

from __future__ import annotations

import msgspec

from artelier.kernel.events import PartRecord
from artelier.kernel.prompt.manifest import Manifest


class SharedPrefix(msgspec.Struct, frozen=True, kw_only=True):
    """The common beginning of two prompts."""

    shared_tokens: int
    """Estimate, of whole parts and messages."""
    previous_tokens: int
    """Of the earlier prompt without its tail."""
    broken_by: str | None = None
    """Tag of the part that ended the common prefix early; `tools`, `model` or `params` stand before all
    parts. None: the later prompt only goes on."""
    why: str = ""

    @property
    def ratio(self) -> float:
        """Shared tokens to those of the earlier prompt without its tail."""
        return self.shared_tokens / self.previous_tokens if self.previous_tokens else 1.0


def shared_prefix(earlier: Manifest, later: Manifest) -> SharedPrefix:
    """Compare two prompts by their manifests. Pure; no content is read."""
    old = [part for part in earlier.parts if not part.attach and part.stability != "volatile"]
    new = [part for part in later.parts if not part.attach and part.stability != "volatile"]
    total = sum(part.tokens for part in old)
    for name, why in (
        ("model", f"{earlier.model} -> {later.model}"),
        ("tools", "the list of tools changed"),
        ("output_schema", "the schema of the output changed"),
    ):
        if getattr(earlier, name) != getattr(later, name):
            return SharedPrefix(shared_tokens=0, previous_tokens=total, broken_by=name, why=why)
    shared = 0
    for index, part in enumerate(old):
        if index >= len(new):
            return SharedPrefix(
                shared_tokens=shared, previous_tokens=total, broken_by=part.tag, why="left out"
            )
        following = new[index]
        if _continues(part, following):
            shared += part.tokens
            continue
        return SharedPrefix(
            shared_tokens=shared,
            previous_tokens=total,
            broken_by=following.tag if following.tag != part.tag else part.tag,
            why=_why(part, following),
        )
    return SharedPrefix(shared_tokens=shared, previous_tokens=total)


def _continues(old: PartRecord, new: PartRecord) -> bool:
    """Return True if the later part begins with all of the earlier one."""
    if old.form or new.form:
        return old == new
    if old.conversation is not None:
        same = old.conversation == new.conversation and old.start == new.start
        return same and new.end >= old.end
    return old.blob is not None and (old.blob, old.joined) == (new.blob, new.joined)


def _why(old: PartRecord, new: PartRecord) -> str:
    if old.tag != new.tag:
        return f"{new.tag!r} stands where {old.tag!r} stood"
    if old.conversation is not None:
        if old.conversation != new.conversation:
            return "another conversation"
        return f"its messages begin at {new.start} instead of {old.start}"
    return "its text changed"
