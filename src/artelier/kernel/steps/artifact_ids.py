"""Ids of the artifacts that runs write: legal, bounded, and unlike those of any other run."""

from __future__ import annotations

import re
from hashlib import sha256

ID_CHARS_MAX = 128
"""As `check_artifact_id` has it."""


def result_id(run_id: str, key: str) -> str:
    """The id of the artifact that holds a step's large result; no two steps share one."""
    if "/" in run_id or "/" in key:  # else run `a`, step `b/c` and run `a/b`, step `c` would
        pair = sha256(f"{len(run_id)}:{run_id}{key}".encode()).hexdigest()[:16]
        return f"runs/{id_part(run_id)}/{id_part(key)}/{pair}"
    return f"runs/{id_part(run_id)}/{id_part(key)}"


def id_part(text: str) -> str:
    """Text as a part of an artifact id: legal, bounded, and still unique."""
    clean = re.sub(r"[^A-Za-z0-9._:/-]+", "-", text).replace("::", ":")
    if clean == text and len(text) <= 56:
        return text
    return f"{clean[:39]}-{sha256(text.encode()).hexdigest()[:16]}"


def bounded_id(id_: str) -> str:
    """Return an id, or a part of it with a digest if it is too long."""
    if len(id_) <= ID_CHARS_MAX:
        return id_
    return f"{id_[: ID_CHARS_MAX - 17].rstrip('/.')}-{sha256(id_.encode()).hexdigest()[:16]}"
