"""Bringing home what a fork has written: a new version of what its origin would have called it."""

from __future__ import annotations

from typing import Any

from artelier.artifacts import Artifact, Artifacts, Provenance
from artelier.errors import InvalidRequest, NotFound
from artelier.kernel.history.fork_effects import effects_of
from artelier.kernel.run.services import Services


async def adopt(
    services: Services, tenant: str, artifacts: Artifacts, ref: str, *, to: str | None = None
) -> Artifact:
    """Write an artifact of a fork as the newest version of `to`, else of the id without the fork's folder.

    The version names the fork's as what it was derived from; the fork's own stays.
    Errors: `InvalidRequest` for what no fork has written; those of reading and of writing.
    """
    kept = await artifacts.read(ref)
    home = to or await _home(services, tenant, kept)
    wish: dict[str, Any] = {
        "content": kept.content,
        "metadata": kept.metadata,
        "provenance": Provenance(derived_from=(f"{kept.id}@{kept.version}",)),
    }
    try:
        stands = await artifacts.read(home)
    except NotFound:
        return await artifacts.write(home, kind=kept.kind, **wish)
    return await artifacts.write(home, expected_version=stands.version, **wish)


async def _home(services: Services, tenant: str, kept: Artifact) -> str:
    """Return the id that the origin would have used. Errors: `InvalidRequest`."""
    run_id = kept.provenance.run_id
    fork = await effects_of(services, tenant, run_id) if run_id else None
    folder = "" if fork is None else fork.folder
    if not folder or not kept.id.startswith(f"{folder}/"):
        raise InvalidRequest(
            f"no fork has written {kept.id!r}",
            expected="an artifact whose id begins with forks/",
            hint="`artelier artifacts list` shows them.",
        )
    return kept.id.removeprefix(f"{folder}/")
