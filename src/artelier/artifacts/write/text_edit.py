"""Replace one string of an artifact's text."""

from __future__ import annotations

from typing import Any

from artelier.artifacts.content import canonical_json, decode_content, media_of
from artelier.artifacts.safe_repr import shown
from artelier.errors import CorruptStore, InvalidArtifact


def replace_once(id: str, content: Any, old: str, new: str) -> Any:
    """Content with `old` replaced. Errors: `InvalidArtifact` unless `old` occurs exactly once."""
    media = media_of(content)
    if media == "bytes":
        raise InvalidArtifact("bytes cannot be edited", hint="Write new content.")
    text: str = content if media == "text" else canonical_json(content).decode()
    first = text.find(old) if old else -1
    if first < 0:
        raise InvalidArtifact(
            f"the string to replace does not occur in {id}",
            expected="text that occurs exactly once",
            got=shown(old),
        )
    # Overlapping occurrences count: which of them is meant cannot be known either.
    if text.find(old, first + 1) >= 0:
        raise InvalidArtifact(
            f"the string to replace occurs more than once in {id}",
            expected="text that occurs exactly once",
            got=shown(old),
            hint="Give more of the text around it.",
        )
    changed = text[:first] + new + text[first + len(old) :]
    if media == "text":
        return changed
    try:
        return decode_content(media, changed.encode())
    except (CorruptStore, UnicodeError):
        raise InvalidArtifact(f"after this edit {id} would be no JSON", got=shown(new)) from None
