"""Plans as artifacts in a space: written once, again when their source changed, never over an edit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

import msgspec

from artelier.artifacts import Artifact, Artifacts
from artelier.errors import ArtelierError, InvalidRequest, NotFound
from artelier.world.agent import check_agent_id
from artelier.world.events import world_space
from artelier.world.genesis.file import Folder
from artelier.world.kernel_adapter import Host, Unbound
from artelier_migrate.agent import read_agent
from artelier_migrate.document import Note, Plan, Specification

MARK = "migrated"
"""Key of the metadata that says what an artifact came from."""

Became = Literal["created", "updated", "unchanged", "edited"]
"""`edited`: its source and its owner both changed it since; it was left alone."""

AgentStatus = Literal["created", "updated", "unchanged", "skipped", "failed"]

Opener = Callable[[str], Artifacts]
"""The handle of a principal, who is the agent itself."""


class Written(msgspec.Struct, frozen=True, kw_only=True):
    """One artifact, and what became of it."""

    id: str
    kind: str
    became: Became


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """One folder, and what became of it."""

    folder: str
    agent: str | None
    status: AgentStatus
    artifacts: tuple[Written, ...] = ()
    notes: tuple[Note, ...] = ()
    joined: int | None = None
    """The scrip with which the agent joined a world just now."""


def read_agents(path: Path, *, include_disabled: bool = False) -> list[Plan]:
    """Return what the folders below `path` become, in the order of their names. Nothing is written.

    `include_disabled`: also agents with `enabled: false`.
    Errors: `NotFound` for no such folder; whatever is wrong with one agent is a note of its plan.
    """
    folder = Folder(path)
    return _without_clashes(
        [read_agent(folder, name, include_disabled=include_disabled) for name in folder.agents()]
    )


def _without_clashes(plans: list[Plan]) -> list[Plan]:
    """Fail all agents of one id, and those whose artifacts would be another's."""
    owners: dict[str, list[Plan]] = {}
    for plan in plans:
        for id in dict.fromkeys(_ids(plan)):
            owners.setdefault(id, []).append(plan)
    return [_with_clash(plan, owners) for plan in plans]


def _with_clash(plan: Plan, owners: dict[str, list[Plan]]) -> Plan:
    for id in _ids(plan):
        others = [other.folder for other in owners[id] if other is not plan]
        if others:
            named = ", ".join(others[:5])
            file = plan.notes[0].file if plan.notes else f"{plan.folder}/agent.yaml"
            text = f"{named} would write an artifact of the id {id} too"
            note = Note(what="failed", file=file, key="id", text=text)
            return msgspec.structs.replace(plan, artifacts=(), notes=(*plan.notes, note))
    return plan


def _ids(plan: Plan) -> list[str]:
    return [*([plan.agent] if plan.agent else []), *(made.id for made in plan.artifacts)]


async def write_agents(
    plans: Sequence[Plan], opened: Opener | None, *, dry_run: bool = False, overwrite: bool = False
) -> list[Outcome]:
    """Write each agent's artifacts in its own name, the agent last; what is wrong fails that agent alone.

    Shapes: `opened` None is a space in which nothing is yet, for a dry run. `overwrite` also replaces what
    its owner has changed since.
    """
    return [await _write_agent(plan, opened, dry_run=dry_run, overwrite=overwrite) for plan in plans]


async def _write_agent(plan: Plan, opened: Opener | None, *, dry_run: bool, overwrite: bool) -> Outcome:
    def ended(status: AgentStatus, artifacts: Sequence[Written] = (), *notes: Note) -> Outcome:
        return Outcome(
            folder=plan.folder,
            agent=plan.agent,
            status=status,
            artifacts=tuple(artifacts),
            notes=(*plan.notes, *notes),
        )

    if plan.skipped or plan.failed or plan.agent is None:
        return ended("skipped" if plan.skipped else "failed")
    file = "agent.yaml" if plan.folder == "." else f"{plan.folder}/agent.yaml"
    space = opened(plan.agent) if opened is not None else None
    written: list[Written] = []
    try:
        standing = [await _standing(space, made) for made in plan.artifacts]
        for made, stands in zip(plan.artifacts, standing, strict=True):
            became = _became(made, stands, overwrite=overwrite)
            if became in ("created", "updated") and space is not None and not dry_run:
                await _write(space, made, stands, file)
            written.append(Written(id=made.id, kind=made.kind, became=became))
    except ArtelierError as error:
        return ended("failed", written, Note(what="failed", file=file, text=str(error)))
    edits = [
        Note(what="skipped", file=file, text=f"{one.id} was changed by its owner since: left alone")
        for one in written
        if one.became == "edited"
    ]
    return ended(_status([one.became for one in written]), written, *edits)


def _status(became: list[Became]) -> Literal["created", "updated", "unchanged"]:
    if all(one == "created" for one in became):
        return "created"
    return "updated" if "updated" in became or "created" in became else "unchanged"


async def _standing(space: Artifacts | None, made: Specification) -> Artifact | None:
    """Return what stands under this id. Errors: `InvalidRequest` if it is not the loader's to write."""
    if space is None:
        return None
    try:
        found = await space.read(made.id)
    except NotFound:
        return None
    if not isinstance(found.metadata.get(MARK), dict) or found.kind != made.kind:
        raise InvalidRequest(f"there is an artifact {made.id} already, and it came from no migration")
    return found


def _became(made: Specification, stands: Artifact | None, *, overwrite: bool) -> Became:
    if stands is None:
        return "created"
    mark = stands.metadata[MARK]
    now = Specification(
        id=stands.id,
        kind=stands.kind,
        content=stands.content,
        metadata={key: value for key, value in stands.metadata.items() if key != MARK},
    )
    if made.digest == now.digest:
        return "unchanged"
    if overwrite:
        return "updated"
    if mark.get("digest") == made.digest:
        return "unchanged"  # the owner's edits stand; the source says what it said
    return "updated" if mark.get("digest") == now.digest else "edited"


async def _write(space: Artifacts, made: Specification, stands: Artifact | None, file: str) -> None:
    await space.write(
        made.id,
        kind=made.kind,
        content=made.content,
        access=made.access if stands is None else None,
        metadata={**made.metadata, MARK: {"source": file, "digest": made.digest}},
        expected_version=stands.version if stands else 0,
    )


# --------------------------------------------------------------------------- activation
# Agents that were written into a world begin to act there, once, with the scrip of their files.


SCRIP = "starting_scrip"
"""Key of an agent's metadata: scrip that it begins with."""


def fail_reserved(plans: Sequence[Plan]) -> list[Plan]:
    """Fail the plans of agents whose id is a world's own: none of them could join."""
    return [_without_reserved(plan) for plan in plans]


def _without_reserved(plan: Plan) -> Plan:
    if plan.agent is None:
        return plan
    try:
        check_agent_id(plan.agent)
    except InvalidRequest as error:
        file = "agent.yaml" if plan.folder == "." else f"{plan.folder}/agent.yaml"
        note = Note(what="failed", file=file, key="id", text=str(error))
        return msgspec.structs.replace(plan, artifacts=(), notes=(*plan.notes, note))
    return plan


async def join_agents(
    kernel: Host | Unbound,
    world: str,
    plans: Sequence[Plan],
    outcomes: Sequence[Outcome],
    *,
    dry_run: bool = False,
    by: str = "operator",
) -> list[Outcome]:
    """Let the agents of `outcomes` join a world: those that never were in it. The outcomes with `joined`.

    One that has left stays away. Without an amount of its own an agent gets the world's start balance.
    Errors: `NotFound` for a world that is not there.
    """
    from artelier.world.world import World

    opened = World.open(kernel, world)
    start = (await opened.config()).start_balance
    rows = await opened.host.services.store.query(
        "SELECT agent FROM world_agents WHERE tenant = ? AND space = ?", (opened.host.id, world_space(world))
    )
    known = {row[0] for row in rows}
    amounts: dict[str, int] = {}
    for outcome, plan in zip(outcomes, plans, strict=True):
        if outcome.status in ("skipped", "failed") or outcome.agent in (None, *known):
            continue
        amounts[str(outcome.agent)] = starting_scrip(plan, default=start)
    if not dry_run:
        for amount in sorted(set(amounts.values())):
            names = [agent for agent, scrip in amounts.items() if scrip == amount]
            await opened.join(*names, scrip=amount, by=by)
    return [msgspec.structs.replace(one, joined=amounts.get(one.agent or "")) for one in outcomes]


def starting_scrip(plan: Plan, *, default: int) -> int:
    """Return what the file of an agent gives it."""
    own = [made.metadata.get(SCRIP) for made in plan.artifacts if made.id == plan.agent]
    return own[0] if own and isinstance(own[0], int) else default
