"""The prompt of an agent, made from its artifacts and the facts of a tick, and the charges for it.

The order is that of the prefix cache: what all agents share, what the agent is, what it subscribes to; then
what changes with every tick. Everything that is missing, denied or unpaid is an entry of the manifest.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

import msgspec

from artelier.artifacts.events import ArtifactCharged
from artelier.context import Section, Source, assemble
from artelier.errors import InvalidRequest
from artelier.kernel import Prompt
from artelier.world import services
from artelier.world.actions import Action, Noop, Rejected
from artelier.world.agent import AgentSpec, WorldAgentRow
from artelier.world.mind import prompt_sections
from artelier.world.mind.billed_reads import BilledReader, Position, invoice, position
from artelier.world.mind.prompt_sections import Computed, compute
from artelier.world.mind_artifacts import (
    MindState,
    Reading,
    Skip,
    Workflow,
    WorkflowStep,
    built_in,
    facts_of,
    memory_facts,
    subscribed_sections,
    wanted_ids,
    with_position,
)
from artelier.world.mind_artifacts.prompt import PROMPT_LIBRARY, PROMPTS
from artelier.world.mind_artifacts.template import as_text
from artelier.world.mind_artifacts.workflow import StepPrompt
from artelier.world.tick.agent_facts import Sight
from artelier.world.tick.tick_context import DecisionNote

WORKING_MEMORY = "working_memory"
"""Name under which code, conditions and prompts of a workflow know all that the agent keeps."""

QUERY_CHARS_MAX = 1_000
"""Of a search in the long-term memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRequestDraft:
    """A model request that an agent is about to make; nothing of it is recorded or paid yet."""

    agent: str
    model: str
    sections: tuple[Section, ...]
    charges: tuple[ArtifactCharged, ...] = ()
    notes: tuple[DecisionNote, ...] = ()
    wall: Mapping[str, str] = field(default_factory=dict[str, str])
    """Contracts that ended by the wall clock."""
    workflow: Workflow | None = None
    state: MindState | None = None
    facts: Mapping[str, Any]
    profile: str = ""
    """Of the operations around the request; empty for none."""
    computed: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """What the code of the workflow has computed."""
    instead: Action | Rejected | None = None
    """What the agent does in a tick in which no model is asked for its action."""

    def prompt(self, budget_tokens: int) -> tuple[Prompt, list[ArtifactCharged]]:
        """The prompt within a window, and the charges for what is in it.

        What was read in vain, such as a prompt that is none, is paid as a reading, not as a part.
        Errors: `ContextTooLong` if what every prompt must hold does not fit.
        """
        prompt = assemble(self.sections, budget_tokens=budget_tokens)
        gone = {one.tag for one in prompt.dropped if one.why in ("over_budget", "over_limit")}
        kept = _ids(one for one in self.sections if one.tag not in gone)
        unused = _ids(one for one in self.sections if one.tag in gone) - kept
        charges = [
            charge
            for charge in self.charges
            if charge.id not in unused and (charge.action != "include" or charge.id in kept)
        ]
        return msgspec.structs.replace(prompt, prices=invoice(charges)), charges


async def build_request(
    reader: BilledReader, sight: Sight, spec: AgentSpec, row: WorldAgentRow
) -> ModelRequestDraft:
    """Read what an agent thinks with, and make the sections of its prompt of it.

    Errors: none of what agents can bring about.
    """
    return await _Making(reader, sight, spec, row).build()


class _Making:
    def __init__(self, reader: BilledReader, sight: Sight, spec: AgentSpec, row: WorldAgentRow) -> None:
        self.reader = reader
        self.scene = reader.scene
        self.sight = sight
        self.spec = spec
        reader.agreed = spec.agreed
        self.row = row
        self.own: dict[str, Any] = {}
        """Facts of the working memory."""
        self.is_own_word = False
        """Whether the agent wrote these itself."""

    async def build(self) -> ModelRequestDraft:
        reader, scene, spec, row = self.reader, self.scene, self.spec, self.row
        at = await position(reader, spec, row)
        step = at.workflow.step(at.state.state) if at.workflow and at.state else None
        first = None
        if step is None or step.prompts is None:
            first = await self._read_adopted(step.prompt_artifact_id if step else None, "step")
        persona_reading = await self._read_adopted(spec.ref("personality_prompt_artifact_id"), "personality")
        memory = await self._memory()
        facts = await self._facts()
        facts = with_position(facts, at.workflow, at.state) | {
            "failure_count": row.failures,
            "consecutive_failures": row.failures,
        }
        is_silent = step is not None and step.prompts == ()
        recalled = _RecalledMemories() if is_silent else await self._recall(facts, memory)
        facts["recent_memories"] = recalled.text or "none"
        computed = await self._compute(at, step, facts, memory)
        if computed.closed and at.workflow is not None and step is not None:
            step = step.with_closed(computed.closed)
            at = replace(at, workflow=at.workflow.with_step(step))
        asked = _prompts_to_show(at, step, facts, computed)
        if computed.failed or (asked == () and step is not None):
            return self._draft_unasked(at, facts, computed)
        values = self._values(facts)
        persona = prompt_sections.say(values, persona_reading, inline=spec.system_prompt or None)
        plain = values
        values = {**plain, **computed.shown}
        said = [
            await self._build_prompt(
                one,
                first,
                {**plain, **computed.seen_by(one)[1]},
                has_step=step is not None,
                persona=persona.text,
            )
            for one in asked
        ]
        shown = {*persona.uses, *(name for one in said for name in one.uses)}
        state = at.state.state if at.state else None
        sections = [
            *prompt_sections.standing_sections(row.id, actions=scene.config.actions),
            *prompt_sections.left_out("workflow", at.skipped),
            *prompt_sections.personality_sections(persona, recalled.shown_in(persona)),
            *await self._subscribed_sections(),
            *prompt_sections.memory_sections(memory),
            *_step_sections(said, state, recalled),
            *recalled.sections(is_shown=prompt_sections.MEMORIES in shown),
        ]
        missing = [f"{one.tag} ({one.dropped})" for one in sections if one.dropped]
        sections.append(prompt_sections.now_section(values, missing))
        result = "" if prompt_sections.RESULT in shown else str(values[prompt_sections.RESULT])
        sections += prompt_sections.news_sections(result, self.sight.inbox(row.id), self.sight.offers(row.id))
        return self._draft(at, facts, computed, sections=_in_order(sections))

    async def _compute(
        self, at: Position, step: WorkflowStep | None, facts: dict[str, Any], memory: Reading | Skip | None
    ) -> Computed:
        """Run the code of the state; `facts` then hold what it may know beside the others."""
        if at.workflow is None or step is None:
            return Computed({}, {})
        if at.workflow.is_decided_before_action or step.code:
            kept: object = memory.content if isinstance(memory, Reading) else None
            if isinstance(kept, dict):
                # What it keeps under names of its own stands beside goal and lessons, as it was written.
                facts.setdefault(WORKING_MEMORY, {**cast("dict[str, Any]", kept), **self.own})
        strict = at.workflow.is_decided_before_action
        return await compute(self.reader, step, facts, strict=strict)

    async def _build_prompt(
        self,
        asked: StepPrompt,
        first: Reading | Skip | None,
        values: Mapping[str, object],
        *,
        has_step: bool,
        persona: str,
    ) -> prompt_sections.SaidPrompt:
        reading = first or await self._read_adopted(asked.artifact_id, "step")
        stand_in = _stand_in(asked.artifact_id, has_step=has_step, has_persona=bool(persona))
        return prompt_sections.say(values, reading, inline=asked.inline, shipped=stand_in)

    def _draft_unasked(self, at: Position, facts: dict[str, Any], computed: Computed) -> ModelRequestDraft:
        """Return what an agent does that is not asked: its code failed, or no prompt is to be shown."""
        instead = Rejected(computed.failed) if computed.failed else Noop()
        return self._draft(at, facts, computed, instead=instead)

    def _draft(
        self,
        at: Position,
        facts: dict[str, Any],
        computed: Computed,
        *,
        sections: tuple[Section, ...] = (),
        instead: Action | Rejected | None = None,
    ) -> ModelRequestDraft:
        return ModelRequestDraft(
            agent=self.row.id,
            model=self.spec.model or self.scene.config.model,
            sections=sections,
            charges=tuple(self.reader.charges),
            notes=at.notes,
            wall=self.reader.wall,
            workflow=at.workflow,
            state=at.state,
            facts=facts,
            profile=self.spec.profile,
            computed=computed.values,
            instead=instead,
        )

    async def _read_adopted(self, ref: str | None, why: str) -> Reading | Skip | None:
        """A prompt that the agent's own artifact, or the workflow that it names, refers to."""
        if ref is None:
            return None
        return await self.reader.read(ref, why=why, adopted=True)

    async def _memory(self) -> Reading | Skip | None:
        ref = self.spec.ref("working_memory_artifact_id")
        if ref is None:
            return None
        reading = await self.reader.read(ref, why="working_memory")
        if isinstance(reading, Reading):
            self.own = memory_facts(reading.content)
            self.is_own_word = reading.trust == "trusted"
        return reading

    async def _facts(self) -> dict[str, Any]:
        scene, agent = self.scene, self.row.id
        return facts_of(
            agent_id=agent,
            tick=scene.tick,
            balance=scene.balance(agent),
            my_artifacts=scene.changed.owned_ids(agent),
            last_action=await self.sight.last_action(self.row),
            own=self.own,
        )

    def _values(self, facts: Mapping[str, Any]) -> dict[str, object]:
        """Return what templates may show: the facts of the world, and of the agent those that it keeps
        itself.

        What others may have written is data even in the middle of a template.
        """
        own = self.own
        if not self.is_own_word:
            own = {name: prompt_sections.result_text(value) for name, value in own.items()}
        kept: Any = facts.get(WORKING_MEMORY)
        if isinstance(kept, dict) and not self.is_own_word:
            kept = {name: prompt_sections.result_text(one) for name, one in cast("Any", kept).items()}
        return {
            **({WORKING_MEMORY: kept} if isinstance(kept, dict) else {}),
            **own,
            **built_in(facts),
            prompt_sections.RESULT: prompt_sections.result_text(facts[prompt_sections.RESULT]),
            prompt_sections.MEMORIES: facts[prompt_sections.MEMORIES],
            # A reply that was no action has no type.
            "last_action_type": facts["last_action_type"] or None,
        }

    async def _recall(self, facts: Mapping[str, Any], memory: Reading | Skip | None) -> _RecalledMemories:
        """Return what the long-term memory holds on state, goal and last result."""
        store = self.spec.ref("longterm_memory_artifact_id")
        if store is None:
            return _RecalledMemories()
        told = (facts["current_state"], _goal(memory), facts[prompt_sections.RESULT])
        query = " ".join(_words(one) for one in told if one).strip()[:QUERY_CHARS_MAX]
        before = len(self.reader.skipped)
        text, sources = await services.recent_memories(self.scene, self.reader, store, query)
        skipped = self.reader.skipped[before:]
        why = "" if text else (skipped[-1].skip if skipped else "empty")
        shown = prompt_sections.data(text, source=store)
        return _RecalledMemories(text=shown, sources=tuple(sources), skipped=why)

    async def _subscribed_sections(self) -> list[Section]:
        ids, limits = self.spec.subscribed, self.scene.config.limits
        readings: dict[str, Reading | Skip] = {
            id_: await self.reader.read(id_, why=f"subscribed:{id_}")
            for id_ in wanted_ids(ids, limits=limits)
        }
        return prompt_sections.sanitise_tags(subscribed_sections(ids, readings, limits=limits))


@dataclass(frozen=True, slots=True, kw_only=True)
class _RecalledMemories:
    """The result of the search in the long-term memory."""

    text: str = ""
    sources: tuple[Source | str, ...] = ()
    skipped: str = ""

    def shown_in(self, said: prompt_sections.SaidPrompt) -> tuple[Source | str, ...]:
        """The entries that a prompt of the agent shows."""
        return self.sources if prompt_sections.MEMORIES in said.uses else ()

    def sections(self, *, is_shown: bool) -> list[Section]:
        """`is_shown`: a prompt of the agent shows it already, at `{recent_memories}`."""
        if self.text and not is_shown:
            return [prompt_sections.recalled_section(self.text, self.sources)]
        return prompt_sections.left_out(prompt_sections.MEMORIES, self.skipped)


def _prompts_to_show(
    at: Position, step: WorkflowStep | None, facts: Mapping[str, Any], computed: Computed
) -> tuple[StepPrompt, ...]:
    """Return the prompts of the state that are to be shown, each by what is known at its place."""
    if at.workflow is None or step is None:
        return (StepPrompt(),)
    strict = at.workflow.is_decided_before_action

    def is_shown(one: StepPrompt) -> bool:
        known = {**facts, **computed.seen_by(one)[0]}
        if one.run_if is not None and not one.run_if.check(known, strict=strict).holds:
            return False
        return not (one.after and step.is_left(known, first=one.after))

    return tuple(one for one in step.shown if is_shown(one))


def _step_sections(
    said: Sequence[prompt_sections.SaidPrompt], state: str | None, recalled: _RecalledMemories
) -> list[Section]:
    """Return the sections of the state's prompts, each with a tag of its own."""
    found: list[Section] = []
    for number, one in enumerate(said, start=1):
        made = prompt_sections.step_sections(one, state, recalled.shown_in(one))
        found += made if number == 1 else [replace(s, tag=f"{s.tag}{number}") for s in made]
    return found


def _stand_in(ref: str | None, *, has_step: bool, has_persona: bool) -> str | None:
    """The shipped prompt of an agent whose own cannot be had."""
    name = (ref or "").removeprefix(f"{PROMPT_LIBRARY}#")
    if name != ref and name in PROMPTS:
        return name  # of a world without that library, or with one that lost a part
    if has_step:
        return "observe_base"
    return None if has_persona else "trading_base"


_PLACES = {"fixed": 0, "slow": 1, "append_only": 1, "volatile": 2}


def _in_order(sections: Iterable[Section]) -> tuple[Section, ...]:
    """Return what never changes, what seldom does, what always does; otherwise as they came."""
    return tuple(sorted(sections, key=lambda section: _PLACES[section.stability]))


def _ids(sections: Iterable[Section]) -> set[str]:
    """Return the ids of the artifacts behind sections, named with a version or as an entry of a store."""
    sources = (source for section in sections if not section.is_empty for source in section.sources)
    refs = (source.ref for source in sources if isinstance(source, Source))
    return {re.split("[@#]", ref, maxsplit=1)[0] for ref in refs if "@" in ref or "#" in ref}


def _goal(memory: Reading | Skip | None) -> object:
    """The goal that an agent keeps in its working memory."""
    content: object = memory.content if isinstance(memory, Reading) else None
    return cast("Mapping[str, object]", content).get("goal") if isinstance(content, dict) else None


def _words(value: object) -> str:
    try:
        return as_text(value)[:QUERY_CHARS_MAX]
    except InvalidRequest:
        return ""
