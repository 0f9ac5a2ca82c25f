"""From an agent's artifacts and the facts of a tick to its prompt, and to what that costs.

The order is that of the prefix cache: what all agents share, what the agent is, what it subscribes to; then
what changes with every tick. Everything that is missing, denied or unpaid is an entry of the manifest.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import msgspec

from artelier.agents.minds import (
    MindState,
    Reading,
    Skip,
    Workflow,
    built_in,
    facts_of,
    memory_facts,
    subscribed_sections,
    wanted_ids,
    with_position,
)
from artelier.agents.minds.shipped import PROMPT_LIBRARY, PROMPTS
from artelier.agents.minds.template import as_text
from artelier.artifacts.events import ArtifactCharged
from artelier.context import Section, Source, assemble
from artelier.errors import InvalidRequest
from artelier.kernel import Prompt
from artelier.world import services
from artelier.world.agent import AgentRow, AgentSpec
from artelier.world.mind import parts
from artelier.world.mind.position import position
from artelier.world.mind.reader import Reader, invoice
from artelier.world.sight import Sight
from artelier.world.thought import Note

QUERY_CHARS_MAX = 1_000
"""Of a search in the long-term memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What an agent is about to ask a model: nothing of it is recorded or paid yet."""

    agent: str
    model: str
    sections: tuple[Section, ...]
    charges: tuple[ArtifactCharged, ...] = ()
    notes: tuple[Note, ...] = ()
    wall: Mapping[str, str] = field(default_factory=dict[str, str])
    """Contracts that ended by the wall clock."""
    workflow: Workflow | None = None
    state: MindState | None = None
    facts: Mapping[str, Any]
    profile: str = ""
    """Of the operations around the request; empty for none."""

    def prompt(self, *, budget_tokens: int) -> tuple[Prompt, list[ArtifactCharged]]:
        """The prompt within a window, and the charges for what is in it.

        What was read in vain, such as a prompt that is none, is paid as a reading, not as a part.
        Errors: `ContextTooLong` if what every prompt must hold does not fit.
        """
        prompt = assemble(self.sections, budget_tokens=budget_tokens)
        gone = {one.tag for one in prompt.dropped if one.why in ("over_budget", "over_limit")}
        kept = _ids(one for one in self.sections if one.tag not in gone)
        unused = _ids(one for one in self.sections if one.tag in gone) - kept
        charges = [
            charge for charge in self.charges
            if charge.id not in unused and (charge.action != "include" or charge.id in kept)
        ]  # fmt: skip
        return msgspec.structs.replace(prompt, prices=invoice(charges)), charges


async def wanted(reader: Reader, sight: Sight, spec: AgentSpec, row: AgentRow) -> Wanted:
    """Read what an agent thinks with, and make the sections of its prompt of it.

    Errors: none of what agents can bring about.
    """
    return await _Making(reader, sight, spec, row).wanted()


class _Making:
    def __init__(self, reader: Reader, sight: Sight, spec: AgentSpec, row: AgentRow) -> None:
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

    async def wanted(self) -> Wanted:
        reader, scene, spec, row = self.reader, self.scene, self.spec, self.row
        at = await position(reader, spec, row)
        step = at.workflow.step(at.state.state) if at.workflow and at.state else None
        step_ref = step.prompt_artifact_id if step else None
        step_reading = await self._adopted(step_ref, "step")
        persona_reading = await self._adopted(
            spec.ref("personality_prompt_artifact_id"), "personality"
        )
        memory = await self._memory()
        facts = await self._facts()
        facts = with_position(facts, at.workflow, at.state) | {
            "failure_count": row.failures, "consecutive_failures": row.failures
        }  # fmt: skip
        recalled = await self._recalled(facts, memory)
        facts["recent_memories"] = recalled.text or "none"
        values = self._values(facts)
        persona = parts.say(values, persona_reading, inline=spec.system_prompt or None)
        said = parts.say(
            values, step_reading, inline=step.prompt_inline if step else None,
            shipped=_stand_in(step_ref, has_step=step is not None, has_persona=bool(persona.text)),
        )  # fmt: skip
        shown = {*said.uses, *persona.uses}
        state = at.state.state if at.state else None
        sections = [
            *parts.standing_sections(row.id, actions=scene.config.actions),
            *parts.left_out("workflow", at.skipped),
            *parts.personality_sections(persona, recalled.shown_in(persona)),
            *await self._subscribed(),
            *parts.memory_sections(memory),
            *parts.step_sections(said, state, recalled.shown_in(said)),
            *recalled.sections(is_shown=parts.MEMORIES in shown),
        ]
        missing = [f"{one.tag} ({one.dropped})" for one in sections if one.dropped]
        sections.append(parts.now_section(values, missing))
        result = "" if parts.RESULT in shown else str(values[parts.RESULT])
        sections += parts.news_sections(result, self.sight.inbox(row.id), self.sight.offers(row.id))
        return Wanted(
            agent=row.id, model=spec.model or scene.config.model, sections=_in_order(sections),
            charges=tuple(reader.charges), notes=at.notes, wall=reader.wall,
            workflow=at.workflow, state=at.state,
            facts=facts, profile=spec.profile,
        )  # fmt: skip

    async def _adopted(self, ref: str | None, why: str) -> Reading | Skip | None:
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
            agent_id=agent, tick=scene.tick, balance=scene.balance(agent),
            my_artifacts=scene.changed.owned(agent),
            last_action=await self.sight.last_action(self.row), own=self.own,
        )  # fmt: skip

    def _values(self, facts: Mapping[str, Any]) -> dict[str, object]:
        """What templates may show: the facts of the world, and of the agent those that it keeps itself.

        What others may have written is data even in the middle of a template.
        """
        own = self.own
        if not self.is_own_word:
            own = {name: parts.result_text(value) for name, value in own.items()}
        return {
            **own, **built_in(facts), parts.RESULT: parts.result_text(facts[parts.RESULT]),
            parts.MEMORIES: facts[parts.MEMORIES],
            # A reply that was no action has no type.
            "last_action_type": facts["last_action_type"] or None,
        }  # fmt: skip

    async def _recalled(self, facts: Mapping[str, Any], memory: Reading | Skip | None) -> _Recalled:
        """What the long-term memory holds on state, goal and last result."""
        store = self.spec.ref("longterm_memory_artifact_id")
        if store is None:
            return _Recalled()
        told = (facts["current_state"], _goal(memory), facts[parts.RESULT])
        query = " ".join(_words(one) for one in told if one).strip()[:QUERY_CHARS_MAX]
        before = len(self.reader.skipped)
        text, sources = await services.recent_memories(self.scene, self.reader, store, query)
        skipped = self.reader.skipped[before:]
        why = "" if text else (skipped[-1].skip if skipped else "empty")
        shown = parts.data(text, source=store)
        return _Recalled(text=shown, sources=tuple(sources), skipped=why)

    async def _subscribed(self) -> list[Section]:
        ids, limits = self.spec.subscribed, self.scene.config.limits
        readings: dict[str, Reading | Skip] = {
            id_: await self.reader.read(id_, why=f"subscribed:{id_}")
            for id_ in wanted_ids(ids, limits=limits)
        }
        return parts.named(subscribed_sections(ids, readings, limits=limits))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Recalled:
    """What came of the search in the long-term memory."""

    text: str = ""
    sources: tuple[Source | str, ...] = ()
    skipped: str = ""

    def shown_in(self, said: parts.Said) -> tuple[Source | str, ...]:
        """The entries that a prompt of the agent shows."""
        return self.sources if parts.MEMORIES in said.uses else ()

    def sections(self, *, is_shown: bool) -> list[Section]:
        """`is_shown`: a prompt of the agent shows it already, at `{recent_memories}`."""
        if self.text and not is_shown:
            return [parts.recalled_section(self.text, self.sources)]
        return parts.left_out(parts.MEMORIES, self.skipped)


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
    """What never changes, what seldom does, what always does; otherwise as they came."""
    return tuple(sorted(sections, key=lambda section: _PLACES[section.stability]))


def _ids(sections: Iterable[Section]) -> set[str]:
    """Of the artifacts that sections are made from: named with a version, or as an entry of a store."""
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
