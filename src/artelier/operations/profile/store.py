"""Profiles as artifacts of kind `profile`: versioned, ownable, and never stored with a mistake."""

from __future__ import annotations

from importlib.resources import files
from typing import Any

from artelier.artifacts import Artifact, Artifacts
from artelier.artifacts.content import Media
from artelier.errors import InvalidArtifact, NotFound, VersionConflict
from artelier.kernel.tenants.registry import TenantScope, TenantScopes

KIND = "profile"
ATTEMPTS_MAX = 5
"""At saving, while somebody else saves the same."""

JSON: frozenset[Media] = frozenset(("json",))


def desk_of(kernel: TenantScope | TenantScopes, *, tenant: str | None = None) -> TenantScope:
    """The bound kernel of whatever was given: a tenant's handle, or a kernel and the name of a tenant."""
    return kernel.for_tenant(tenant) if isinstance(kernel, TenantScopes) else kernel


async def save_content(
    artifacts: Artifacts,
    id: str,
    kind: str,
    content: dict[str, Any] | bytes,
    *,
    metadata: dict[str, Any] | None = None,
) -> str:
    """Store data, such as that of a profile, which was checked; return its ref `id@version`.

    What is stored already as it is, with the same metadata, gets no new version.
    Errors: `AccessDenied`, `NotFound` for an id that was deleted, `InvalidArtifact` if the id is that of an
    artifact of another kind.
    """
    for attempt in range(ATTEMPTS_MAX):
        before = await _newest(artifacts, id)
        is_same = before is not None and (before.kind, before.content) == (kind, content)
        if before is not None and is_same and dict(before.metadata or {}) == (metadata or {}):
            return f"{before.id}@{before.version}"
        try:
            artifact = await artifacts.write(
                id,
                kind=kind,
                content=content,
                metadata=metadata,
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


async def read_profile(desk: TenantScope, ref: str, *, by: str = "operator") -> tuple[Any, str]:
    """Return what is stored as a profile, unchecked, and the ref `id@version` of it. Errors: `NotFound`,
    `AccessDenied`, `InvalidArtifact` for an artifact of another kind.
    """
    artifact = await desk.as_principal(by).artifacts.read(ref)
    if artifact.kind != KIND:
        raise InvalidArtifact("not a profile", expected="an artifact of kind profile", got=ref[:200])
    return artifact.content, f"{artifact.id}@{artifact.version}"


SHIPPED: tuple[str, ...] = ("rp-basic", "research-notes", "support-desk")
SHIPPED_SOURCE = "shipped"
"""The source of a profile that is no artifact."""


def shipped_text(name: str) -> str:
    """Return the JSON text of a shipped profile. Errors: `NotFound` that names them."""
    if name not in SHIPPED:
        raise NotFound("no profile of this name is shipped", expected=", ".join(SHIPPED), got=str(name)[:80])
    return (files("artelier.operations.profile") / "shipped" / f"{name}.json").read_text("utf-8")
