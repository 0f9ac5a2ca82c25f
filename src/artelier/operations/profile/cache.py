"""Stored profiles as values, parsed once: what is stored was checked when it was saved."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from artelier.kernel.prompt.manifest import canonical
from artelier.operations.profile.definition import OperationProfile

KEPT_MAX = 64


@lru_cache(maxsize=KEPT_MAX)
def parsed_content(content: bytes) -> OperationProfile:
    """The profile of canonical JSON. Errors: `InvalidProfile` if it was stored under other rules."""
    return OperationProfile.parse(content.decode())


def parsed(data: Any) -> tuple[OperationProfile, bytes]:
    """The profile of JSON data, and its canonical JSON. Errors: as `parsed_content`."""
    content = canonical(data)
    return parsed_content(content), content
