"""Profiles as artifacts of kind `profile`: versioned, ownable, and never stored with a mistake."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from artelier.artifacts import Artifact, Artifacts, Kind, Space, register_kind
from artelier.artifacts.content import Media
from artelier.errors import InvalidArtifact, NotFound, VersionConflict

if TYPE_CHECKING:
    from artelier.operations.profile.definition import OperationProfile

KIND = "profile"
ATTEMPTS_MAX = 5
"""At saving, while somebody else saves the same profile."""

_JSON: frozenset[Media] = frozenset(("json",))


class ProfileKernel(Protocol):
    """The kernel bound to a tenant."""

    def as_principal(self, principal: str, *, world: str | None = None) -> Space: ...


def register_profiles() -> None:
    """Have profiles checked in full whenever an artifact of that kind is saved, through whichever door.

    Twice is once. Stored artifacts are not touched: an older one that would not pass stays readable.
    """
    register_kind(Kind(name=KIND, media=_JSON, check=_check), replace=True)


def _check(content: Any) -> None:
    from artelier.operations.profile.validation import InvalidProfile, parse_profile  # with pydantic

    try:
        parse_profile(content)
    except InvalidProfile as error:
        raise InvalidArtifact(error.message, hint=error.hint, errors=error.errors) from None


def desk_of(kernel: Any, *, tenant: str | None = None) -> ProfileKernel:
    """The bound kernel of whatever was given: a tenant's handle, or a kernel and the name of a tenant."""
    return kernel.for_tenant(tenant) if hasattr(kernel, "for_tenant") else kernel


async def save_profile(desk: ProfileKernel, profile: OperationProfile, *, by: str = "operator") -> str:
    """Store a profile as the artifact of its `profile_id`, in the name of `by`; its ref `id@version`.

    What is stored already as it is gets no new version.
    Errors: `InvalidProfile`, `AccessDenied`, `NotFound` for an id that was deleted, `InvalidArtifact` if
    the id is that of an artifact of another kind.
    """
    from artelier.operations.profile.validation import parse_profile

    content = profile.data()
    parse_profile(content)  # one that was made by hand may have any mistake
    artifacts = desk.as_principal(by).artifacts
    for attempt in range(ATTEMPTS_MAX):
        before = await _newest(artifacts, profile.profile_id)
        if before is not None and before.kind == KIND and before.content == content:
            return f"{before.id}@{before.version}"
        try:
            artifact = await artifacts.write(
                profile.profile_id,
                kind=KIND,
                content=content,
                expected_version=before.version if before is not None else None,
            )
        except VersionConflict:
            if attempt == ATTEMPTS_MAX - 1:
                raise
            continue
        return f"{artifact.id}@{artifact.version}"
    raise AssertionError("the last attempt returns or raises")


async def _newest(artifacts: Artifacts, id: str) -> Artifact | None:
    try:
        return await artifacts.read(id)
    except NotFound:
        return None


async def load_profile(
    desk: ProfileKernel, ref: str, *, by: str = "operator"
) -> tuple[OperationProfile, str]:
    """A stored profile (`rp-basic`, `rp-basic@3`) and the ref `id@version` of what was read.

    Errors: `NotFound`, `AccessDenied`, `InvalidArtifact` for an artifact of another kind, `InvalidProfile`
    for one that was stored under other rules.
    """
    from artelier.operations.profile.cache import parsed

    content, found = await read_profile(desk, ref, by=by)
    return parsed(content)[0], found


async def read_profile(desk: ProfileKernel, ref: str, *, by: str = "operator") -> tuple[Any, str]:
    """Return what is stored as a profile, unchecked, and the ref `id@version` of it. Errors: as
    `load_profile`.
    """
    artifact = await desk.as_principal(by).artifacts.read(ref)
    if artifact.kind != KIND:
        raise InvalidArtifact("not a profile", expected="an artifact of kind profile", got=ref[:200])
    return artifact.content, f"{artifact.id}@{artifact.version}"
