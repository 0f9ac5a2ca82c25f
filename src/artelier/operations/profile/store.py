"""Profiles as artifacts of kind `profile`: versioned, ownable, and never stored with a mistake."""

from __future__ import annotations

from importlib.resources import files
from typing import Any, Protocol

from artelier.artifacts import Artifact, Artifacts, Space
from artelier.artifacts.content import Media
from artelier.errors import InvalidArtifact, NotFound, VersionConflict

KIND = "profile"
ATTEMPTS_MAX = 5
"""At saving, while somebody else saves the same profile."""

JSON: frozenset[Media] = frozenset(("json",))


class ProfileKernel(Protocol):
    """The kernel bound to a tenant."""

    def as_principal(self, principal: str, *, world: str | None = None) -> Space: ...


def desk_of(kernel: Any, *, tenant: str | None = None) -> ProfileKernel:
    """The bound kernel of whatever was given: a tenant's handle, or a kernel and the name of a tenant."""
    return kernel.for_tenant(tenant) if hasattr(kernel, "for_tenant") else kernel


async def save_profile(
    desk: ProfileKernel, profile_id: str, content: dict[str, Any], *, by: str = "operator"
) -> str:
    """Store the data of a profile, which was checked, in the name of `by`; return its ref `id@version`.

    What is stored already as it is gets no new version.
    Errors: `AccessDenied`, `NotFound` for an id that was deleted, `InvalidArtifact` if the id is that of an
    artifact of another kind.
    """
    artifacts = desk.as_principal(by).artifacts
    for attempt in range(ATTEMPTS_MAX):
        before = await _newest(artifacts, profile_id)
        if before is not None and before.kind == KIND and before.content == content:
            return f"{before.id}@{before.version}"
        try:
            artifact = await artifacts.write(
                profile_id,
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


async def read_profile(desk: ProfileKernel, ref: str, *, by: str = "operator") -> tuple[Any, str]:
    """Return what is stored as a profile, unchecked, and the ref `id@version` of it. Errors: `NotFound`,
    `AccessDenied`, `InvalidArtifact` for an artifact of another kind.
    """
    artifact = await desk.as_principal(by).artifacts.read(ref)
    if artifact.kind != KIND:
        raise InvalidArtifact("not a profile", expected="an artifact of kind profile", got=ref[:200])
    return artifact.content, f"{artifact.id}@{artifact.version}"


SHIPPED: tuple[str, ...] = ("rp-basic", "research-notes", "support-desk")


def shipped_text(name: str) -> str:
    """Return the JSON text of a shipped profile. Errors: `NotFound` that names them."""
    if name not in SHIPPED:
        raise NotFound("no profile of this name is shipped", expected=", ".join(SHIPPED), got=str(name)[:80])
    return (files("artelier.operations.profile") / "shipped" / f"{name}.json").read_text("utf-8")
