"""The prompt of a decision, section by section: for the loop, and for previews."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from artelier.context import Section
from artelier.kernel import RangePart
from artelier.missions import prompts
from artelier.missions.definition import TaskContent
from artelier.missions.guidance import Guidance, listed
from artelier.missions.job import TaskJob
from artelier.missions.state import TaskState

Items = Sequence[Mapping[str, Any]]


class Seen(Protocol):
    """Readings of the iteration at hand."""

    def items(self, name: str) -> list[dict[str, Any]]: ...

    @property
    def memory(self) -> list[dict[str, Any]] | None: ...


def decision(
    job: TaskJob, task: TaskContent, state: TaskState, *, guidance: Guidance, seen: Seen,
    conversation: RangePart | None,
) -> list[Section]:  # fmt: skip
    """The sections of a decision, in their order."""
    return [
        *told("decision-1", job, task, state, guidance=guidance, seen=seen),
        prompts.tools(tools(job, task, state, guidance=guidance, seen=seen)),
        *prompts.conversation(conversation),
        tail(state, seen=seen),
    ]


def told(
    contract: str,
    job: TaskJob,
    task: TaskContent,
    state: TaskState,
    *,
    guidance: Guidance,
    seen: Seen,
) -> list[Section]:
    """Return what stands before the conversation."""
    policy = guidance.policy(iterations=state.allowed)
    return [
        *prompts.introduction(contract, job, task, policy),
        *prompts.memory(seen.memory, ref=job.memory),
        *prompts.inputs(seen.items("inputs")),
        prompts.artifacts(seen.items("artifacts")),
    ]


def tools(
    job: TaskJob, task: TaskContent, state: TaskState, *, guidance: Guidance, seen: Seen
) -> Items:
    """Return the tools that are listed: steering may ask for fewer than are on."""
    words = f"{task.goal}\n{task.success_criteria}"
    first = (*job.tools, *state.tools)
    return listed(seen.items("tools"), breadth=guidance.breadth, first=first, words=words)


def tail(state: TaskState, *, seen: Seen) -> Section:
    """Return how far the task is, and what is left to spend."""
    return prompts.now(
        state.iteration + 1, last=state.base + state.allowed, repeats=state.repeats,
        budget=seen.items("budget"),
    )  # fmt: skip
