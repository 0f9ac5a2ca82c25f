"""Reading as an agent: what it thinks with and puts into its prompt, by the one permission and billing path.

Nothing is paid here. `charges` are appended in the batch of the request whose prompt holds what was read; an
agent that asks no model pays them in a batch of their own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from artelier.artifacts import AccessVerdict, Gate, Ref, account_of, judge
from artelier.artifacts.content import decode_content
from artelier.artifacts.contracts import part_of, version_at
from artelier.artifacts.events import ArtifactCharged
from artelier.artifacts.queries import Standing
from artelier.errors import CorruptStore, InvalidRequest, NotFound, Refused
from artelier.world.agent import AgentSpec, WorldAgentRow
from artelier.world.events import AgentMoved
from artelier.world.mind_artifacts import (
    InvalidWorkflow,
    MindState,
    Reading,
    Skip,
    Transition,
    Workflow,
    begin,
    read_workflow,
    shipped_workflow,
)
from artelier.world.mind_artifacts.prompt import WORKFLOW_TEMPLATES, WORKFLOWS
from artelier.world.stores.entries import whole
from artelier.world.tick.agent_facts import Bounded, Purse
from artelier.world.tick.tick_context import DecisionNote, Scene

_PREFIX = account_of("")


class SkippedRead(NamedTuple):
    """A look that gave nothing."""

    why: str
    """What it was for."""
    ref: str
    skip: Skip


class BilledReader:
    """One agent's looks at artifacts over the state of a tick, and what they cost together."""

    def __init__(self, scene: Scene, agent: str, purse: Purse | None = None) -> None:
        """`purse`: what may be spent, where several readers share it."""
        self.scene = scene
        self.agent = agent
        self.purse = purse or Purse(scene)
        self.stage = Bounded(scene.working, self.purse)
        """What this reader decides over; services may too."""
        self.charges: list[ArtifactCharged] = []
        """In the order in which they arose; each artifact once for each kind of access."""
        self.skipped: list[SkippedRead] = []
        """What was not read, in order."""
        self.agreed: Mapping[str, int] = {}
        """The most that showing an artifact may cost, by id. Others cost nothing; in worlds that ask for no
        consent, what they ask."""
        self._judged: dict[tuple[str, str], AccessVerdict] = {}
        self._decisions = scene.asks()

    @property
    def gate(self) -> Gate:
        """The permissions of this reader, within bounds that it shares with no other reader."""
        return Gate(self.stage, self.scene.interpreter, self._decisions)

    @property
    def wall(self) -> dict[str, str]:
        """Contracts that ended by the wall clock."""
        return dict(self._decisions.wall)

    async def read(
        self, ref: str, *, action: str = "include", why: str = "", adopted: bool = False
    ) -> Reading | Skip:
        """The content of an artifact, or of a part of it, or why there is none.

        `include`: it will stand in a prompt, for which reading it and including it are paid; `read`: it
        will not. An artifact costs its price once, however often it is read. `adopted`: the agent has made
        this ref a part of its own artifact, so its text may be an instruction. `why` stands in `skipped`.
        Errors: none of what agents can bring about.
        """
        reading = await self._read(ref, action=action, adopted=adopted)
        if not isinstance(reading, Reading):
            self.skipped.append(SkippedRead(why, ref, reading))
        return reading

    async def _read(self, ref: str, *, action: str, adopted: bool) -> Reading | Skip:
        parsed = _parse_ref(ref)
        if parsed is None:
            return "missing"
        if parsed.space is not None:
            return await self._read_main(parsed, adopted=adopted)
        stands = await self.stage.standing(parsed.id)
        if stands is not None and stands.deleted:
            return "deleted"
        wanted: list[AccessVerdict] = []
        for one in ("read", "include") if action == "include" else (action,):
            verdict = await self._judge(parsed, one)
            if verdict.refusal is not None:
                return verdict.refusal
            wanted.append(verdict)
        standing = wanted[0].granted()
        if not self.agrees(standing.id, wanted):
            return "too_dear"
        try:
            content = await self._content(standing, parsed)
        except (NotFound, CorruptStore):
            return "missing"  # no such part; or erased, or damaged: `verify` names that
        if not self.charge(*self._due(wanted)):
            return "no_funds"
        self._judged.update({(standing.id, one.action): one for one in wanted})
        licence = next((one.licence for one in wanted if one.licence is not None), None)
        at = version_at(standing, parsed)
        named = parsed._replace(version=at.version)
        return Reading(
            ref=str(named),
            content=content,
            trust="trusted" if adopted or _is_own(standing, self.agent) else "untrusted",
            grant=licence.name if licence is not None else "",
        )

    def agrees(self, id: str, wanted: Iterable[AccessVerdict]) -> bool:
        """Return whether these accesses to an artifact cost the agent no more than it agreed to."""
        asked = sum(one.price for one in wanted if one.payer == self.agent)
        return asked <= self.agreed.get(id, 0 if self.scene.config.asks_consent else asked)

    def charge(self, *charges: ArtifactCharged) -> bool:
        """Take up what something costs, all of it or nothing; whether everybody who pays can."""
        postings = [posting for charge in charges for posting in charge.postings]
        if not self.purse.covers(postings):
            return False
        self.purse.take(postings)
        self.charges += charges
        return True

    async def _judge(self, ref: Ref, action: str) -> AccessVerdict:
        known = self._judged.get((ref.id, action))
        if known is not None and ref.version is None:
            return known
        verdict = await judge(self.stage, self.gate, ref, action, self.agent)
        if known is not None and verdict.allowed:
            return verdict._replace(price=0, licence=known.licence)  # it is paid for already
        return verdict

    def _due(self, wanted: list[AccessVerdict]) -> list[ArtifactCharged]:
        """Return what is to be paid now; a licence is used once by a prompt, for all accesses that it
        covers.
        """
        due: list[ArtifactCharged] = []
        used = {charge.licence for charge in self.charges if charge.licence}
        for verdict in wanted:
            standing = verdict.granted()
            if (standing.id, verdict.action) in self._judged:
                continue
            charge = verdict.charge()
            if charge is None or (charge.licence and charge.licence in used):
                continue
            used.add(charge.licence)
            due.append(charge)
        return due

    async def _read_main(self, ref: Ref, *, adopted: bool) -> Reading | Skip:
        """Return what the tenant's main space lets this world read for free; scrip buys nothing there."""
        main = self.scene.main
        if main is None:
            return "missing"
        try:
            found = await main.read(str(ref._replace(space=None)), price_max=0)
        except (NotFound, CorruptStore):
            return "missing"
        except Refused:
            return "denied"
        named = ref._replace(version=found.version)
        trust = "trusted" if adopted else "untrusted"
        return Reading(ref=str(named), content=found.content, trust=trust, grant="main")

    async def _content(self, standing: Standing, ref: Ref) -> object:
        """Errors: `NotFound`, `CorruptStore`."""
        at = version_at(standing, ref)
        content = decode_content(at.media, await self.stage.blob(at.content))
        content = await whole(self.stage, standing, content, part=ref.part, has_vectors=False)
        return part_of(standing, content, ref.part)


def _parse_ref(ref: str) -> Ref | None:
    """The ref, if it is one."""
    try:
        return Ref.parse(ref, main_allowed=True)
    except InvalidRequest:
        return None


def _is_own(standing: Standing, agent: str) -> bool:
    """Return True if an agent says this itself: it owns and wrote it, and took it from nobody.

    Owning is not enough: an artifact can be given to somebody who did not ask for it, and a bought copy is
    still a stranger's text until its owner adopts it.
    """
    at = standing.at
    return standing.owner == agent and at is not None and at.writer == agent and not at.sources


def invoice(charges: Iterable[ArtifactCharged]) -> tuple[str, ...]:
    """Charges as a manifest lists them: `bob -> alice 2 for alice_lessons@7`."""
    lines: list[str] = []
    for charge in charges:
        what = f"{charge.id}@{charge.version}"
        what += "" if charge.action == "include" else f" ({charge.action})"
        if charge.licence:
            lines.append(f"{charge.payer} uses {charge.licence} for {what}")
        for source, target, amount in ((p.source, p.target, p.amount) for p in charge.postings):
            payer, payee = source.removeprefix(_PREFIX), target.removeprefix(_PREFIX)
            lines.append(f"{payer} -> {payee} {amount} for {what}")
    return tuple(lines)


def stamp_charges(charges: Iterable[ArtifactCharged], key: str) -> list[ArtifactCharged]:
    """The charges as those of one model step."""
    return [msgspec.structs.replace(charge, step=key) for charge in charges]


# --------------------------------------------------------------------------- workflow state
# The position of an agent in its workflow when a tick begins.


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


async def position(reader: BilledReader, spec: AgentSpec, row: WorldAgentRow) -> Position:
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
