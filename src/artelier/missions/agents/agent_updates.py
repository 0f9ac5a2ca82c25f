"""Changing agents and membranes that are there: a new version, by whoever asked, and the cap it sets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from artelier.artifacts import Artifact
from artelier.errors import InvalidRequest, SequenceConflict, VersionConflict
from artelier.ids import OPERATOR
from artelier.kernel.limits.scopes import cap_changed, plan_cap
from artelier.log import Batch, StreamAppend
from artelier.missions.definition import AgentContent, validate_form
from artelier.missions.membranes import checked_budget, checked_name
from artelier.money import parse_usd

ATTEMPTS_MAX = 5
"""Changes by others that a change without an expected version waits out."""


async def change_agent(
    desk: Any, id: str, changes: Mapping[str, Any], *, by: str, expected_version: int | None = None
) -> None:
    """Write an agent anew with other `{name, role, model, tools, memory_artifact_id}`; the rest stays.

    In force with the next task that it begins: a run keeps the agent that it began with.
    Errors: `InvalidRequest`; `NotFound`, also for a memory that is not there; `UnknownModel`, `MissingKey`;
    `VersionConflict`.
    """
    known = ("name", "role", "model", "tools", "memory_artifact_id")
    if strange := sorted(set(changes) - set(known)):
        raise InvalidRequest("an agent has no such field", expected=", ".join(known), got=strange[0])
    if (model := changes.get("model")) is not None:
        desk.services.model(model)
    if (memory := changes.get("memory_artifact_id")) is not None:
        (await desk.as_principal(OPERATOR).artifacts.access(memory, "read")).granted()

    def apply_changes(content: dict[str, Any]) -> dict[str, Any]:
        fields = {name: content[name] for name in AgentContent.model_fields if name in content}
        fields.setdefault("name", id[:80])
        said = validate_form(AgentContent, {**fields, **changes}, what="the agent")
        # What an agent of another making says besides is kept.
        return {**content, **said.model_dump(mode="json")}

    await _amend(desk, id, "agent", apply_changes, by=by, expected_version=expected_version)


async def change_membrane(
    desk: Any, id: str, changes: Mapping[str, Any], *, by: str, expected_version: int | None = None
) -> None:
    """Write a membrane anew with another `{name, budget_usd}`; the budget is the cap of its scope at once.

    Errors: `InvalidRequest`, `InvalidArtifact`; `NotFound`; `VersionConflict`.
    """
    wanted = dict(changes)
    if "name" in wanted:
        wanted["name"] = checked_name(wanted["name"])
    if "budget_usd" in wanted:
        wanted["budget_usd"] = checked_budget(wanted["budget_usd"])
    caps: dict[str, int | None] = {}
    if "budget_usd" in wanted:
        budget = wanted["budget_usd"]
        caps[f"membrane:{id}"] = None if budget is None else parse_usd(budget)

    def apply_changes(content: dict[str, Any]) -> dict[str, Any]:
        return {**content, **wanted}

    await _amend(desk, id, "membrane", apply_changes, by=by, expected_version=expected_version, caps=caps)


async def _amend(
    desk: Any,
    id: str,
    kind: str,
    changed: Any,
    *,
    by: str,
    expected_version: int | None,
    caps: Mapping[str, int | None] | None = None,
) -> None:
    artifacts = desk.as_principal(OPERATOR).artifacts.by(by)
    services = desk.services
    for _ in range(ATTEMPTS_MAX):
        stored: Artifact = await artifacts.read(id)
        if stored.kind != kind:
            raise InvalidRequest(f"{id} is no {kind}", expected=kind, got=stored.kind)
        if expected_version is not None and stored.version != expected_version:
            raise VersionConflict(
                f"{id} was changed by somebody else",
                expected=f"version {expected_version}",
                got=f"version {stored.version}",
                hint="Look at it again, then change it.",
            )
        try:
            append, blobs, _artifact = await artifacts.plan_write(
                id, content=changed(cast("dict[str, Any]", stored.content)), expected_version=stored.version
            )
            appends: list[StreamAppend] = [append]
            for scope, cap in (caps or {}).items():
                appends.append(await plan_cap(services, desk.id, scope, unit="usd", cap=cap, by=by))
            await services.store.append(Batch(appends=appends, blobs=blobs))
        except (SequenceConflict, VersionConflict):
            continue
        for scope in caps or {}:
            cap_changed(services, desk.id, scope)
        return
    raise VersionConflict(f"{id} is changed by others all the time", hint="Try again in a moment.")
