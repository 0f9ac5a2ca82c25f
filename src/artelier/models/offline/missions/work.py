"""The current basis of a task: the answer to its question, the missing call, or the reason for neither.

The decision and the content of an artifact are made from the same basis, so that what was decided can be
written.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from artelier.errors import OfflineCannot
from artelier.models.offline import analysis
from artelier.models.offline.conversation import Wanted
from artelier.models.offline.missions.evidence import DESCRIBE, Evidence, Next
from artelier.models.offline.missions.findings import Findings, findings_in
from artelier.models.offline.missions.goal import Goal, goal_from
from artelier.models.offline.missions.mentions import seen_in_texts
from artelier.models.offline.missions.policy import Policy, policy_of
from artelier.models.offline.missions.prompt import Prompt, Shown
from artelier.models.offline.parts import Part
from artelier.models.offline.question import question_from
from artelier.models.offline.schema import tables_from

TOOL_READER = "read_artifact"
NOTE = "Note of a person"
PAGE_CHARS = 20_000

_SIZE = re.compile(r"^(\S{1,200}) \([^\n]*, (\d{1,9}) bytes\)$", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """The state of a task."""

    goal: Goal
    policy: Policy
    parts: tuple[Part, ...] = ()
    """The answer from tools."""
    looks: tuple[Part, ...] = ()
    """What other looks at the data gave."""
    inputs: tuple[Findings, ...] = ()
    """What others have written, if the task is to be done from that."""
    next: Next | None = None
    """The call that is needed now."""
    why: str = ""
    """Why it is needed, in one sentence."""
    failure: OfflineCannot | None = None
    """Why nothing can be done."""

    @property
    def is_ready(self) -> bool:
        return bool(self.parts or self.inputs) and self.next is None


def work_of(prompt: Prompt, *, iterations_left: int) -> Work:
    """Return where the task of a prompt stands. `iterations_left` counts this one."""
    goal = goal_from(prompt.section("Task", "Goal"))
    policy = policy_of(prompt)
    try:
        evidence = Evidence(prompt)
    except OfflineCannot as failure:
        return Work(goal=goal, policy=policy, failure=failure)
    read, call = _inputs(prompt, evidence)
    if call is not None:
        why = f"Only a part of {call.arguments['ref']} has been shown."
        return Work(goal=goal, policy=policy, next=call, why=why)
    inputs = tuple(read)
    if inputs and (goal.writes or not evidence.can_look):
        return Work(goal=goal, policy=policy, inputs=inputs)
    try:
        parts = tuple(_answer(goal, prompt, evidence))
    except Wanted as wanted:
        return _wanting(goal, policy, evidence, wanted, question=goal.question, inputs=inputs)
    except OfflineCannot as failure:
        if inputs:
            return Work(goal=goal, policy=policy, inputs=inputs)
        return Work(goal=goal, policy=policy, failure=failure)
    return _looked(Work(goal=goal, policy=policy, parts=parts), evidence, left=iterations_left)


def _inputs(prompt: Prompt, evidence: Evidence) -> tuple[list[Findings], Next | None]:
    """The texts of others, and the call that reads on in one that is shown only in part."""
    sizes = {match[1]: int(match[2]) for match in _SIZE.finditer(prompt.section("Inputs"))}
    found: list[Findings] = []
    for one in prompt.shown("Inputs"):
        shown = one
        if len(one.text.encode("utf-8", "replace")) < sizes.get(one.source, 0):
            pages = evidence.pages_of(one.source)
            if pages.next_offset is not None and evidence.has(TOOL_READER):
                given = {"ref": one.source, "offset": pages.next_offset, "limit": PAGE_CHARS}
                return [], Next(tool=TOOL_READER, arguments=given, count=1)
            shown = Shown(source=one.source, text=pages.text or one.text)
        if not (text := findings_in(shown)).is_empty:
            found.append(text)
    return found, None


def _answer(goal: Goal, prompt: Prompt, evidence: Evidence) -> list[Part]:
    """The answer to the goal's question, and to what notes of people ask beside it.

    Errors: `Wanted`; `OfflineCannot` for the question itself.
    """
    if not goal.question:
        raise OfflineCannot("the goal does not say what it is about", got=goal.text[:200])
    parts = evidence.parts(goal.question)
    for note in prompt.notes(NOTE):
        try:
            parts += [part for part in evidence.parts(note) if part not in parts]
        except OfflineCannot:
            continue  # a remark rather than a question
    return parts


def _wanting(
    goal: Goal,
    policy: Policy,
    evidence: Evidence,
    wanted: Wanted,
    *,
    question: str,
    inputs: Sequence[Findings] = (),
) -> Work:
    """The next call; or, if its tool is not listed, what can be done without it."""
    call = evidence.next(question, wanted)
    if evidence.has(call.tool):
        return Work(goal=goal, policy=policy, next=call, why=evidence.why(call))
    if inputs:
        return Work(goal=goal, policy=policy, inputs=tuple(inputs))
    failure = OfflineCannot(f"{call.tool} is needed and cannot be used", hint="Enable it for this agent.")
    return Work(goal=goal, policy=policy, failure=failure)


# Other looks at the data


def _looked(work: Work, evidence: Evidence, *, left: int) -> Work:
    """The same with what other looks gave; or with the call for them, if an iteration is left for it."""
    looks: list[Part] = []
    waiting: list[tuple[str, Wanted]] = []
    titles = {part.title for part in work.parts}
    for question in _others(work, evidence):
        if len(looks) + len(waiting) >= work.policy.looks:
            break
        try:
            found = [part for part in evidence.parts(question) if part.title not in titles]
        except Wanted as wanted:
            waiting.append((question, wanted))
        except OfflineCannot:
            continue
        else:
            looks += found[:1]
            titles |= {part.title for part in found}
    calls = [evidence.next_of(waiting)] if waiting else []
    if work.policy.texts and (part := seen_in_texts(work.goal.question, evidence, calls)):
        looks.append(part)
    call = next((one for one in calls if evidence.has(one.tool)), None) if left > 1 else None
    if call is None:
        return replace(work, looks=tuple(looks))
    why = "The answer is there; one more look from another side shows whether it holds."
    return replace(work, next=call, why=why)


def _others(work: Work, evidence: Evidence) -> list[str]:
    """Plain questions beside the task's own: breakdowns of its tables, and what is missing in them."""
    described = evidence.answer_of(DESCRIBE)
    if described is None:
        return []
    sources = {source for part in work.parts for source in part.sources}
    try:
        tables = [table for table in tables_from(described) if table.source in sources]
        asked = analysis.questions(question_from(work.goal.question), tables)
    except OfflineCannot:
        return []
    breakdowns = [one for one in asked if " by " in one]
    return [*breakdowns, *(f"Which columns of `{table.name}` have missing values?" for table in tables)]
