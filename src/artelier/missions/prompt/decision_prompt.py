"""The prompt of a decision, section by section: for the loop, and for previews."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from artelier.context import Section
from artelier.kernel import RangePart
from artelier.missions.definition import TaskContent
from artelier.missions.prompt import prompt_sections
from artelier.missions.steering.directives import Guidance, select_tools
from artelier.missions.task.loop_state import TaskState
from artelier.missions.task.task_config import TaskJob

Items = Sequence[Mapping[str, Any]]


class DecisionReadings(Protocol):
    """Readings of the iteration at hand."""

    def items(self, name: str) -> list[dict[str, Any]]: ...

    @property
    def memory(self) -> list[dict[str, Any]] | None: ...


def decision(
    job: TaskJob,
    task: TaskContent,
    state: TaskState,
    *,
    guidance: Guidance,
    seen: DecisionReadings,
    conversation: RangePart | None,
) -> list[Section]:
    """The sections of a decision, in their order."""
    return [
        *opening_sections("decision-1", job, task, state, guidance=guidance, seen=seen),
        prompt_sections.tools(tools(job, task, state, guidance=guidance, seen=seen)),
        *prompt_sections.conversation(conversation),
        tail(state, seen=seen),
    ]


def opening_sections(
    contract: str,
    job: TaskJob,
    task: TaskContent,
    state: TaskState,
    *,
    guidance: Guidance,
    seen: DecisionReadings,
) -> list[Section]:
    """Return what stands before the conversation."""
    policy = guidance.policy(iterations=state.allowed)
    return [
        *prompt_sections.introduction(contract, job, task, policy),
        *prompt_sections.memory(seen.memory, ref=job.memory),
        *prompt_sections.inputs(seen.items("inputs")),
        prompt_sections.artifacts(seen.items("artifacts")),
    ]


def tools(
    job: TaskJob, task: TaskContent, state: TaskState, *, guidance: Guidance, seen: DecisionReadings
) -> Items:
    """Return the tools that are listed: steering may ask for fewer than are on."""
    words = f"{task.goal}\n{task.success_criteria}"
    first = (*job.tools, *state.tools)
    return select_tools(seen.items("tools"), breadth=guidance.breadth, first=first, words=words)


def tail(state: TaskState, *, seen: DecisionReadings) -> Section:
    """Return how far the task is, and what is left to spend."""
    return prompt_sections.now(
        state.iteration + 1,
        last=state.base + state.allowed,
        repeats=state.repeats,
        budget=seen.items("budget"),
    )
