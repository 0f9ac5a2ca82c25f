"""Stored profiles as values, parsed once: what is stored is checked when it is saved."""

from __future__ import annotations

import asyncio
from functools import lru_cache
from hashlib import sha256
from threading import Lock
from typing import TYPE_CHECKING

import msgspec

from artelier.artifacts import Kind, register_kind
from artelier.errors import InvalidArtifact
from artelier.kernel.prompt.manifest import canonical
from artelier.operations.profile.store import JSON, KIND, read_profile

if TYPE_CHECKING:
    from artelier.kernel.tenants.registry import TenantScope
    from artelier.operations.profile.operation_profile import ListedProfile, OperationProfile

KEPT_MAX = 64
LINES_MAX = 1_000
"""Lines of lists that are kept (guess: 30 KB for the longest)."""

_lines: dict[bytes, ListedProfile] = {}
"""By the hash of the profile, the oldest first."""
_lines_lock = Lock()


@lru_cache(maxsize=KEPT_MAX)
def parsed_content(content: bytes) -> OperationProfile:
    """Return the profile of canonical JSON. Errors: `InvalidProfile` if it was stored under other rules."""
    from artelier.operations.profile.operation_profile import parse_profile  # with pydantic

    return parse_profile(content.decode())


def parse_with_content(data: object) -> tuple[OperationProfile, bytes]:
    """Return the profile of JSON data, and its canonical JSON. Errors: as `parsed_content`."""
    content = canonical(data)
    return parsed_content(content), content


def register_profiles() -> None:
    """Have profiles checked in full whenever an artifact of that kind is saved, through whichever door.

    Idempotent. Stored artifacts are not touched: an older one that would not pass stays readable.
    """
    register_kind(Kind(name=KIND, media=JSON, check=_check), replace=True)


def _check(content: object) -> None:
    from artelier.operations.profile.operation_profile import InvalidProfile, parse_profile  # with pydantic

    try:
        parse_profile(content)
    except InvalidProfile as error:
        raise InvalidArtifact(error.message, hint=error.hint, errors=error.errors) from None


async def load_profile(desk: TenantScope, ref: str, *, by: str = "operator") -> tuple[OperationProfile, str]:
    """Return a stored profile (`rp-basic`, `rp-basic@3`) and the ref `id@version` of what was read.

    Errors: `NotFound`, `AccessDenied`, `InvalidArtifact` for an artifact of another kind, `InvalidProfile`
    for one that was stored under other rules.
    """
    content, found = await read_profile(desk, ref, by=by)
    return parse_with_content(content)[0], found


async def list_profile(desk: TenantScope, ref: str, *, by: str = "operator") -> ListedProfile:
    """Return the line of a stored profile in a list. It is parsed beside the event loop, and once.

    Errors: those of `load_profile`.
    """
    content, found = await read_profile(desk, ref, by=by)
    return msgspec.structs.replace(await asyncio.to_thread(_line_of, content), source=found)


def _line_of(data: object) -> ListedProfile:
    from artelier.operations.profile.operation_profile import ListedProfile, parse_profile  # with pydantic

    content = canonical(data)
    digest = sha256(content).digest()
    if (kept := _lines.get(digest)) is not None:
        return kept
    line = ListedProfile.of(parse_profile(content.decode()), "")
    with _lines_lock:
        while len(_lines) >= LINES_MAX:
            del _lines[next(iter(_lines))]
        _lines[digest] = line
    return line
