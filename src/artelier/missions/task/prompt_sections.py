"""The sections of a task's prompts, built from the job and from journaled readings, purely.

The most stable comes first, for the prefix that providers cache. Text of an artifact, a tool or a model
stands between marks, as data.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from artelier.context import Section, fence
from artelier.kernel import RangePart
from artelier.missions.definition import TaskContent, template
from artelier.missions.steering_document import Guidance, select_tools
from artelier.missions.task.loop_state import TaskJob, TaskState
from artelier.missions.task.readings import (
    AttachedMemory,
    DecisionReadings,
    SeenArtifact,
    SeenInput,
    SeenTool,
    UnitsLeft,
)
from artelier.missions.task.verdict import StoredVerdict
from artelier.money import format_usd
from artelier.ports.model import ChatMessage, Part

TARGET_CHARS_MAX = 200
VERDICT_CHARS_MAX = 4_000
"""Of a verdict that is shown to the model whose outputs were judged."""


def introduction_sections(contract: str, job: TaskJob, task: TaskContent, policy: str) -> list[Section]:
    """The fixed beginning: contract, agent, task, criteria; then what steering says."""
    role = job.role.strip()
    who = f"{job.name}\n\n{role}".strip() if job.name not in role else role
    return [
        Section(tag="contract", text=template(contract), sources=(contract,), pinned=True),
        _text("agent", "## Agent", who or job.agent, sources=(job.agent,)),
        _text("task", "## Task", task.goal, sources=(job.task,)),
        _text("criteria", "## Success criteria", task.success_criteria, sources=(job.task,)),
        _text("policy", "## Policy", policy, stability="slow", sources=("steering",)),
    ]


def _text(tag: str, heading: str, text: str, **more: Any) -> Section:
    return Section(
        tag=tag, text=f"{heading}\n\n{text.strip()}" if text.strip() else "", joined=True, pinned=True, **more
    )


def memory_sections(blocks: Sequence[AttachedMemory] | None, *, ref: str) -> list[Section]:
    """The memory that is attached to the agent; nothing without one."""
    if blocks is None:
        return []
    said = "\n\n".join(f"### {one.label}\n\n{one.text}" for one in blocks if one.text.strip())
    text = f"## Memory\n\n{fence(said, source=ref, trust='memory')}" if said else ""
    return [
        Section(
            tag="memory",
            text=text,
            joined=True,
            stability="slow",
            is_fenced=True,
            priority=40,
            trust="memory",
            truncation="middle",
            sources=(ref,),
        )
    ]


def input_sections(items: Sequence[SeenInput]) -> list[Section]:
    """The inputs with what fits of their content."""
    if not items:
        return []
    sections = [Section(tag="inputs", text="## Inputs", joined=True, stability="slow", pinned=True)]
    for item in items:
        ref = item.ref
        if item.gone:
            sections.append(
                Section(tag=f"input:{ref}"[:120], dropped="denied", stability="slow", joined=True)
            )
            continue
        body = fence(item.text or "", source=ref)
        sections.append(
            Section(
                tag=f"input:{ref}"[:120],
                text=f"{_line(item)}\n\n{body}",
                joined=True,
                stability="slow",
                is_fenced=True,
                trust="untrusted",
                truncation="middle",
                priority=55,
                sources=(ref,),
                cut="middle" if item.cut else "",
            )
        )
    return sections


def artifacts_section(items: Sequence[SeenArtifact]) -> Section:
    """One line for each artifact that the agent may read now."""
    lines = "\n".join(f"- {_line(item, title=item.title)}: {item.first}" for item in items)
    text = fence(lines, source="artifacts") if lines else template("no-artifacts-1")
    return Section(
        tag="artifacts",
        text=f"## Artifacts\n\n{text}",
        joined=True,
        stability="slow",
        priority=45,
        is_fenced=True,
        trust="untrusted",
        sources=tuple(item.ref for item in items),
    )


def _line(item: SeenInput | SeenArtifact, *, title: str = "") -> str:
    """Return what it is; a title is its maker's words, and stands only between marks."""
    named = f"{title}, " if title else ""
    return f"{item.ref} ({item.kind}, {named}by {item.owner}, {item.bytes} bytes)"


def tools_section(items: Iterable[SeenTool]) -> Section:
    """Name, description and arguments of each tool that is listed."""
    told = [f"### {item.name}\n\n{item.description}\n\n{_json(item.schema)}" for item in items]
    text = "\n\n".join(told) or template("no-tools-1")
    return Section(
        tag="tools",
        text=f"## Tools\n\n{text}",
        joined=True,
        stability="slow",
        pinned=True,
        sources=("tools",),
    )


def _json(value: object) -> str:
    return msgspec.json.encode(value, order="sorted").decode()


def attachment_sections(job: TaskJob) -> list[Section]:
    """Return what came with the goal of the mission; nothing without it."""
    if not job.attachments:
        return []
    parts = (Part(text=template("attached-1")), *(msgspec.convert(one, Part) for one in job.attachments))
    message = ChatMessage(role="user", content=parts)
    return [Section(tag="attachments", messages=(message,), pinned=True, sources=("attachments",))]


def conversation_sections(part: RangePart | None) -> list[Section]:
    """Decisions and what came of them; over budget the oldest go first."""
    if part is None:
        return []
    return [Section(tag="conversation", range=part, stability="append_only", priority=50)]


def target(title: str, media: str) -> Section:
    """Return what is to be written."""
    folded = " ".join(title.split())[:TARGET_CHARS_MAX]
    return _text("target", "## Target", f"title: {folded}\ntype: {media}", stability="slow")


def current(ref: str, text: str) -> list[Section]:
    """The version that is to be replaced."""
    if not ref:
        return []
    return [
        Section(
            tag="current",
            text=f"## Current version\n\n{fence(text, source=ref)}",
            role="user",
            stability="volatile",
            is_fenced=True,
            trust="untrusted",
            truncation="middle",
            sources=(ref,),
            priority=58,
        )
    ]


def progress_section(iteration: int, *, last: int, repeats: int, budget: Sequence[UnitsLeft]) -> Section:
    """The tail: how far the task is, what is left to spend, and what it is warned of."""
    lines = [f"Iteration {iteration} of {last}"]
    if budget:
        left = [
            f"${format_usd(one.left)}" if one.unit == "usd" else f"{one.left:,} {one.unit}" for one in budget
        ]
        lines.append(template("budget-1").format(left=", ".join(left)))
    if repeats:
        lines.append(template("stuck-1"))
    return Section(
        tag="now",
        text="## Now\n\n" + "\n".join(lines),
        role="user",
        stability="volatile",
        pinned=True,
        sources=("task", "steering"),
    )


def result(iteration: int, *parts: str) -> str:
    """Return what came of a decision, as a message."""
    return "\n\n".join([f"## Result of iteration {iteration}", *(part for part in parts if part)])


def verdict(stored: StoredVerdict, *, void: str, stands: bool) -> tuple[str, ...]:
    """A verdict in words for the model that made the outputs; what an evaluator or a rule quotes is data."""
    said = [template("standing-evaluation-1" if stands else "failed-evaluation-1")]
    if void == "no_outputs":
        return (template("no-outputs-1"),)
    if void:
        said.append(f"{template('void-evaluation-1')} {void}")
    lines = [f"- {one.rule} in {one.ref}: {'; '.join(one.found)}" for one in stored.faults]
    lines += [
        f"- {one.rule} in {one.ref}: {'; '.join([*one.found, one.why]).rstrip('; ')}"
        for one in stored.findings
        if one.is_fault is not False
    ]
    lines += [f"- check {one.kind}: {one.found}" for one in stored.checks if not one.passed]
    lines += [f"- {one.criterion}: {one.missing}" for one in stored.criteria if not one.met]
    if lines:
        said.append(fence("\n".join(lines)[:VERDICT_CHARS_MAX], source="verdict"))
    return tuple(said)


def decision_sections(
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
        tools_section(listed_tools(job, task, state, guidance=guidance, seen=seen)),
        *attachment_sections(job),
        *conversation_sections(conversation),
        tail_section(state, seen=seen),
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
        *introduction_sections(contract, job, task, policy),
        *memory_sections(seen.memory, ref=job.memory),
        *input_sections(seen.inputs),
        artifacts_section(seen.artifacts),
    ]


def listed_tools(
    job: TaskJob, task: TaskContent, state: TaskState, *, guidance: Guidance, seen: DecisionReadings
) -> list[SeenTool]:
    """Return the tools that are listed: steering may ask for fewer than are on.

    Those that somebody brought are counted for themselves: a server of twenty tools hides none of the
    workspace's, nor they it.
    """
    words = f"{task.goal}\n{task.success_criteria}"
    first = (*job.tools, *state.tools)
    brought = [one for one in seen.tools if one.name in job.host_tools]
    own = [one for one in seen.tools if one.name not in job.host_tools]
    return [
        one
        for group in (brought, own)
        for one in select_tools(group, breadth=guidance.breadth, first=first, words=words)
    ]


def tail_section(state: TaskState, *, seen: DecisionReadings) -> Section:
    """Return how far the task is, and what is left to spend."""
    return progress_section(
        state.iteration + 1, last=state.base + state.allowed, repeats=state.repeats, budget=seen.budget
    )
