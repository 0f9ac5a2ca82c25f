"""The store of steering: `<agent or membrane>/steering`, whose versions say who changed what, and when."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

from artelier.artifacts import Artifact, Artifacts
from artelier.artifacts.queries import find_kind
from artelier.errors import Conflict, InvalidRequest, NotFound, SequenceConflict, VersionConflict
from artelier.ids import MAIN_SPACE, OPERATOR
from artelier.kernel.run_limits import cap_changed, plan_cap
from artelier.kernel.tenants.registry import TenantScope
from artelier.log import Batch, StreamAppend
from artelier.missions.steering_document import Bias, Steering, bias, effective

SUFFIX = "/steering"
KINDS = ("agent", "membrane")

ATTEMPTS_MAX = 5
"""Changes by others that a change without an expected version waits out."""

DEPTH_MAX = 8
"""Of a patch: steering itself has three levels."""


class StoredSteering(NamedTuple):
    """Steering as it stands."""

    about: str
    """The agent or membrane."""
    kind: str
    version: int
    """0: nobody has steered yet."""
    steering: Steering

    @property
    def id(self) -> str:
        return self.about + SUFFIX


@dataclass(frozen=True, slots=True, kw_only=True)
class SteeringView:
    """Steering of an agent or membrane, with what it comes to."""

    about: str
    """The agent or membrane."""
    version: int
    """0: nobody has steered yet."""
    steering: Steering
    in_force: Steering
    """As it comes out with the membranes of an agent."""

    @property
    def id(self) -> str:
        return self.about + SUFFIX

    @property
    def policy(self) -> Bias:
        """What its puck asks for."""
        return bias(self.steering)


class SteeringStore:
    """Looking at steering and changing it. `desk` is the kernel bound to the tenant."""

    def __init__(self, desk: TenantScope) -> None:
        self._desk = desk

    async def show(self, id: str) -> SteeringView:
        """Steering of an agent or membrane, by its id or that of its steering.

        Errors: `NotFound`; `InvalidRequest` if it is about something else, or no steering.
        """
        return await self._describe(await self._read_stored(id))

    async def change(
        self, id: str, patch: Mapping[str, Any], *, by: str, expected_version: int | None = None
    ) -> SteeringView:
        """Write a new version with what the patch says (JSON merge patch: null puts a default back).

        It is in force from the next step on, in every process. A changed budget is the cap of the scope
        `agent:<id>` or `membrane:<id>` from the same instant on. Returns what `show` does.
        Errors: `InvalidRequest` naming all mistakes; `VersionConflict`; `NotFound`.
        """
        if not isinstance(cast(object, patch), Mapping):
            raise InvalidRequest("a patch is an object", got=type(patch).__name__)
        for _ in range(ATTEMPTS_MAX):
            kept = await self._read_stored(id)
            if expected_version is not None and expected_version != kept.version:
                raise VersionConflict(
                    f"{kept.id} was changed by somebody else",
                    expected=f"version {expected_version}",
                    got=f"version {kept.version}",
                    hint="Look at it again, then change it.",
                )
            changed = Steering.parse(_merge_patch(kept.steering.content(), patch))
            try:
                await self._write(kept, changed, by=by)
            except (SequenceConflict, VersionConflict):
                continue
            return await self.show(id)
        raise VersionConflict(
            f"{id}{SUFFIX} is changed by others all the time", hint="Try again in a moment."
        )

    async def _write(self, kept: StoredSteering, changed: Steering, *, by: str) -> None:
        """The new version and the cap that it sets, as one batch."""
        desk, services = self._desk, self._desk.services
        readers = [kept.about if kept.kind == "agent" else f"membrane:{kept.about}"]
        append, blobs, _ = await self._artifacts.by(by).plan_write(
            kept.id,
            kind="steering",
            content=changed.content(),
            expected_version=kept.version,
            access=None if kept.version else {"allow": {"read": readers}},
        )
        appends: list[StreamAppend] = [append]
        scope = f"{kept.kind}:{kept.about}"
        is_capped = changed.budget != kept.steering.budget
        if is_capped:
            cap = changed.budget
            appends.append(await plan_cap(services, desk.id, scope, unit="usd", cap=cap, by=by))
        await services.store.append(Batch(appends=appends, blobs=blobs))
        if is_capped:
            cap_changed(services, desk.id, scope)

    @property
    def _artifacts(self) -> Artifacts:
        return self._desk.as_principal(OPERATOR).artifacts

    async def _read_stored(self, id: str) -> StoredSteering:
        about = id.removesuffix(SUFFIX)
        subject = await self._artifacts.read(about)
        if subject.kind not in KINDS:
            raise InvalidRequest(f"{about} cannot be steered", expected=" or ".join(KINDS), got=subject.kind)
        artifact = await steering_at(self._desk, about + SUFFIX)
        if artifact is None:
            return StoredSteering(about, subject.kind, 0, Steering())
        return StoredSteering(about, subject.kind, artifact.version, Steering.parse(artifact.content))

    async def _describe(self, kept: StoredSteering) -> SteeringView:
        holds = kept.steering
        if kept.kind == "agent":
            holds = effective(kept.steering, await self._of_membranes(kept.about))
        return SteeringView(about=kept.about, version=kept.version, steering=kept.steering, in_force=holds)

    async def _of_membranes(self, agent: str) -> list[Steering]:
        found: list[Steering] = []
        for group in await self._artifacts.groups_of(agent):
            artifact = await steering_at(self._desk, group + SUFFIX)
            if artifact is not None:
                found.append(Steering.parse(artifact.content))
        return found


async def steering_at(desk: TenantScope, id: str) -> Artifact | None:
    """The newest steering under an id; None only where nobody has ever steered.

    Errors: `Conflict` for one that was deleted: its limits are unknown, and none would be laxer than them.
    """
    try:
        return await desk.as_principal(OPERATOR).artifacts.read(id)
    except NotFound:
        if await find_kind(desk.services.store, desk.id, MAIN_SPACE, id) is None:
            return None
    about = id.removesuffix(SUFFIX)
    raise Conflict(
        f"{id} was deleted: {about} may do nothing",
        expected="steering that can be read",
        got="none",
        hint=f"Go on with an agent of another id; from a membrane, let its members leave {about}.",
    )


def _merge_patch(document: object, patch: object, depth: int = 0) -> object:
    """A JSON merge patch (RFC 7396). Errors: `InvalidRequest` for one that is too deep."""
    if not isinstance(patch, Mapping):
        return patch
    if depth > DEPTH_MAX:
        raise InvalidRequest("a patch is too deep", expected=f"at most {DEPTH_MAX} levels")
    merged = dict(cast("dict[Any, Any]", document)) if isinstance(document, Mapping) else {}
    for name, value in cast("Mapping[Any, Any]", patch).items():
        if value is None:
            merged.pop(name, None)
        else:
            merged[name] = _merge_patch(merged.get(name), value, depth + 1)
    return merged
