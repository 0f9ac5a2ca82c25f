"""Asking a model where a workflow goes: its prompt, what that costs, and the reply or why there is none."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from artelier.artifacts.events import ArtifactCharged
from artelier.context import Section, Source, assemble
from artelier.errors import ContextTooLong, Flow, MissingKey, Refused, RunEnded, UnknownModel
from artelier.world.agent import AgentSpec
from artelier.world.kernel_adapter import Runs
from artelier.world.mind import prompt_sections
from artelier.world.mind.billed_reads import BilledReader, invoice
from artelier.world.mind.model_calls import FILL, REASON_CHARS_MAX, charged_aside
from artelier.world.mind.shipped_texts import template
from artelier.world.mind_artifacts import TransitionAnswer, built_in
from artelier.world.tick.tick_context import Scene

SHIPPED = "transition_base"


class TransitionRequest(NamedTuple):
    """A request that an agent is about to make; nothing of it is recorded or paid yet."""

    agent: str
    model: str
    sections: tuple[Section, ...]
    charges: list[ArtifactCharged]


class TransitionReply(NamedTuple):
    """The result of a request."""

    reply: TransitionAnswer
    step: str = ""
    """Key of the model step; empty if there was none."""
    tokens: int = 0


async def question(
    reader: BilledReader, spec: AgentSpec, ref: str | None, state: str, facts: Mapping[str, Any]
) -> TransitionRequest:
    """The prompt by which a state is left: the one that the workflow names, else the shipped one.

    Shapes: `facts` with the place in the workflow, and with the outcome of the action.
    """
    reading = None
    reader.agreed = spec.agreed
    if ref is not None:
        reading = await reader.read(ref, why="transition", adopted=True)
    values = _values(facts)
    said = prompt_sections.say(values, reading, shipped=SHIPPED)
    sections = [
        Section(tag="rules", text=template("rules-1").render({}), pinned=True, sources=("world",)),
        *prompt_sections.left_out("transition", said.skipped),
        Section(
            tag="transition",
            text=said.text,
            role="user",
            priority=90,
            sources=(Source(ref=said.source, why=f"leaving state {state}"),),
        ),
    ]
    if "available_states" not in said.uses:
        # Whoever writes such a prompt may not know how it is to be answered.
        text = template("choice-1").render(values)
        sections.append(Section(tag="choice", text=text, role="user", pinned=True, sources=("world",)))
    return TransitionRequest(
        reader.agent, spec.model or reader.scene.config.model, tuple(sections), reader.charges
    )


async def choose(scene: Scene, runs: Runs, asked: TransitionRequest) -> TransitionReply:
    """Ask, once; a call that fails for good is a reply that says why.

    Errors: `Flow` when the host has to do something: give money, resume the run.
    """
    key = f"t{scene.tick}/transition"
    try:
        return await _reply(scene, runs, asked, key)
    except (Refused, RunEnded, UnknownModel, MissingKey, ContextTooLong) as error:
        return TransitionReply(_failed_reply(error))  # not even asked: nothing is recorded or paid
    except Flow:
        raise
    except Exception as error:
        # As for actions: what the log has as the end of the step stands; all else is a fault of ours.
        if not await runs.has_failed(asked.agent, key):
            raise
        return TransitionReply(_failed_reply(error), key)


async def _reply(scene: Scene, runs: Runs, asked: TransitionRequest, key: str) -> TransitionReply:
    settings = scene.config
    window = runs.window_of(asked.model)
    room = int((window.context_tokens - settings.max_output_tokens) * FILL)
    prompt = assemble(asked.sections, budget_tokens=max(1, room))
    charges = asked.charges
    if any(one.tag == "transition" for one in prompt.dropped if one.why.startswith("over_")):
        charges = []
    prompt = msgspec.structs.replace(prompt, prices=invoice(charges))
    result = await runs.ask(
        asked.agent,
        prompt,
        key=key,
        model=asked.model,
        aside=await charged_aside(scene, asked.agent, charges, key=key),
        params={"max_output_tokens": settings.max_output_tokens},
    )
    tokens = result.usage.input_tokens + result.usage.output_tokens
    return TransitionReply(TransitionAnswer(text=result.text), key, tokens)


def _failed_reply(error: Exception) -> TransitionAnswer:
    return TransitionAnswer(failed=" ".join(str(error).split())[:REASON_CHARS_MAX])


def _values(facts: Mapping[str, Any]) -> dict[str, object]:
    """Return what the template may show; what others may have written is data even in the middle of it."""
    own = {name: prompt_sections.result_text(value) for name, value in facts.items()}
    memories = facts[prompt_sections.MEMORIES]
    result = prompt_sections.result_text(facts[prompt_sections.RESULT])
    return {**own, **built_in(facts), prompt_sections.RESULT: result, prompt_sections.MEMORIES: memories}
