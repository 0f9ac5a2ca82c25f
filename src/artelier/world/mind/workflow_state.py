"""The position of an agent in its workflow when a tick begins."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from artelier.world.agent import AgentRow, AgentSpec
from artelier.world.events import AgentMoved
from artelier.world.mind.billed_reads import BilledReader
from artelier.world.mind_artifacts import (
    InvalidWorkflow,
    MindState,
    Reading,
    Transition,
    Workflow,
    begin,
    read_workflow,
    shipped_workflow,
)
from artelier.world.mind_artifacts.builtin_library import WORKFLOW_TEMPLATES, WORKFLOWS
from artelier.world.tick.agent_decision import DecisionNote
from artelier.world.tick.tick_context import Scene

REFERENCE = "workflow_artifact_id"
INLINE = "workflow"
"""Of an agent artifact: its workflow itself, where no artifact of its own holds it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """A workflow and the state in it; both None for an agent without one."""

    workflow: Workflow | None = None
    state: MindState | None = None
    notes: tuple[DecisionNote, ...] = ()
    """That a workflow began, or lost the agent's state."""
    source: str = ""
    """A ref with its version, or where else the workflow is from."""
    skipped: str = ""
    """Why the artifact that is named does not stand."""


async def position(reader: BilledReader, spec: AgentSpec, row: AgentRow) -> Position:
    """The workflow that the agent's artifact names, holds or was shipped with, and its state there."""
    reader.agreed = spec.agreed
    workflow, source, skipped = await _workflow(reader, spec)
    if workflow is None:
        return Position(skipped=skipped)
    stored = None
    if row.state is not None:
        stored = MindState(state=row.state, ticks_in_state=row.ticks_in_state, failure_count=row.failures)
    state, moved = begin(workflow, stored)
    state = msgspec.structs.replace(state, failure_count=row.failures)
    notes = () if moved is None else (_note(reader.scene, row.id, moved),)
    return Position(workflow=workflow, state=state, notes=notes, source=source, skipped=skipped)


async def _workflow(reader: BilledReader, spec: AgentSpec) -> tuple[Workflow | None, str, str]:
    """The workflow, where it is from, and why the artifact does not stand."""
    ref, skipped = spec.ref(REFERENCE), ""
    if ref is not None:
        reading = await reader.read(ref, action="read", why="workflow", adopted=True)
        if isinstance(reading, Reading):
            found = _read(reading.content)
            if found is not None:
                return found, reading.ref, ""
            skipped = "broken"
        else:
            skipped = reading
    inline = spec.content.get(INLINE)
    if inline is not None and (found := _read(inline)) is not None:
        return found, "inline", skipped
    name = (ref or "").removeprefix(f"{WORKFLOW_TEMPLATES}#")
    if name != ref and name in WORKFLOWS:
        return read_workflow(shipped_workflow(name)), f"{WORKFLOW_TEMPLATES}#{name}", skipped
    return None, "", skipped


def _read(content: object) -> Workflow | None:
    try:
        return read_workflow(content)
    except InvalidWorkflow:
        return None


def _note(scene: Scene, agent: str, moved: Transition) -> DecisionNote:
    data = AgentMoved(agent=agent, origin=moved.origin, to=moved.to, how=moved.how)
    if not moved.reason:
        return DecisionNote(data=data)
    reason, blob = scene.keep(moved.reason)
    return DecisionNote(data=msgspec.structs.replace(data, reason=reason), blobs=(blob,))
