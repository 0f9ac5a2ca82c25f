"""A goal becomes a plan: one model step, one repair at most, and what is wrong with a plan in words."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from typing import Any, cast

import msgspec

from artelier.errors import ArtelierError, InvalidRequest, OutputInvalid
from artelier.kernel import Run
from artelier.kernel.run.services import Services
from artelier.log import StoredRecord
from artelier.missions.definition import (
    AGENTS_MAX,
    ITERATIONS_MAX,
    MISTAKES_MAX,
    TASKS_MAX,
    Plan,
    PlannedAgent,
    PlannedTask,
    mistakes,
    template,
)
from artelier.missions.task.evaluation import pattern_problem
from artelier.ports.media import Medium, stored_media
from artelier.ports.model import ToolSchema
from artelier.ports.tool import ToolPort

LOOP = "mission"
"""How runs name the loop that drives them."""

ID_CHARS_MAX = 64
"""Of a mission: what belongs to it is named `<mission>/<slug>/steering`."""

ENTRIES_MAX = 200
"""Of the workspace, in the prompt."""

DESCRIPTION_CHARS_MAX = 300
REPLY_CHARS_MAX = 20_000
"""Of a reply that is shown to its model again."""

ALWAYS_THERE = frozenset(("read_artifact", "delegate_task"))
"""Tools that the task loop brings itself."""


class MissionJob(StoredRecord, frozen=True, kw_only=True, omit_defaults=True):
    """One goal: stored with its run, so that any process can go on with it."""

    MEANING = "settings of a mission"

    goal: str
    model: str
    workspace: str = ""
    """The folder that the shipped tools work on; empty for the tools of the program."""
    host_tools: tuple[str, ...] = ()
    """Tools of the kernel that it was started with beside those of the workspace."""
    auto_launch: bool = False
    at_most: bool = False
    """Whether the estimate of the plan is the goal's budget."""
    plan: dict[str, Any] | None = None
    """A plan that a person gave, or the one task of a plain question; then no model is asked for one."""
    looks: bool = False
    """Whether its tasks are shown the workspace before their first decision."""
    client_tools: tuple[dict[str, Any], ...] = ()
    """Definitions of tools that a client brought with the goal and runs itself."""
    attachments: tuple[dict[str, Any], ...] = ()
    """Media parts that came with the goal: the planner, its tasks and their evaluators are shown them."""
    fallbacks: tuple[str, ...] = ()
    """Models that its planner, tasks and evaluators ask in turn when `model` fails."""

    @property
    def models(self) -> tuple[str, ...]:
        """The models that plan it, in turn."""
        return (self.model, *self.fallbacks)

    @property
    def media(self) -> tuple[Medium, ...]:
        """The media that came with the goal."""
        return stored_media(self.attachments)


# A plain question

PLAIN_CHARS_MAX = 400
PLAIN_SENTENCES_MAX = 4
PLAIN_ITERATIONS = 8
WRITES = frozenset(("write_file",))
"""Shipped tools that an answer needs none of."""

_SENTENCE = re.compile(r"(?<=[?.!])\s+")
_MAKES = re.compile(
    r"(?i)\W*(?:please\s+|then\s+|and\s+)*(?:write|draft|make|create|prepare|produce|build|send|save|plan)\b"
)
"""How a sentence begins that asks for a piece of work."""


def is_plain_question(goal: str) -> bool:
    """Return True for a short question that asks for nothing to be made: one task answers it."""
    sentences = _SENTENCE.split(" ".join(goal.split()))
    return (
        len(goal) <= PLAIN_CHARS_MAX
        and "\n" not in goal.strip()
        and len(sentences) <= PLAIN_SENTENCES_MAX
        and sentences[0].endswith("?")
        and not any(map(_MAKES.match, sentences))
    )


def plain_plan(goal: str, tools: Iterable[ToolPort]) -> Plan:
    """Return the plan of a plain question: one task, and one agent with all tools but those that write files.

    What people bring stays in: a function that does not say what it is counts as a side effect.
    """

    agent = PlannedAgent(
        slug="analyst",
        name="Analyst",
        role=template("analyst-1"),
        tools=[one.name for one in tools if one.name not in WRITES | ALWAYS_THERE],
    )
    task = PlannedTask(
        slug="answer",
        goal=goal,
        success_criteria=template("plain-criteria-1").replace("{question}", " ".join(goal.split())),
        agent="analyst",
        max_iterations=PLAIN_ITERATIONS,
    )
    return Plan(agents=[agent], tasks=[task])


class PlanInvalid(Exception):
    """No plan came of it; the text says what is wrong."""


async def make_plan(run: Run, job: MissionJob) -> dict[str, Any]:
    """The plan as JSON data, checked. Errors: `PlanInvalid`; those of the model step."""
    if job.plan is not None:
        wrong = await _check_plan(run, job.plan, key="plan/check")
        if wrong:
            raise PlanInvalid(_list(wrong))
        return job.plan
    messages = [
        {"role": "system", "content": template("plan-1")},
        {"role": "user", "content": _with_attachments(job, await _planning_question(run, job))},
    ]
    value, wrong, reply = await _answer(run, job, messages, key="plan")
    if wrong:
        complaint = f"{template('plan-repair-1')}\n\n{_list(wrong)}"
        messages += [
            {"role": "assistant", "content": reply[:REPLY_CHARS_MAX] or "(nothing)"},
            {"role": "user", "content": complaint},
        ]
        value, wrong, _ = await _answer(run, job, messages, key="plan/repair")
    if wrong:
        raise PlanInvalid(_list(wrong))
    return value


def _with_attachments(job: MissionJob, question: str) -> str | list[dict[str, Any]]:
    if not job.attachments:
        return question
    return [{"type": "text", "text": f"{question}\n\n{template('attached-1')}"}, *job.attachments]


async def _answer(
    run: Run, job: MissionJob, messages: list[dict[str, Any]], *, key: str
) -> tuple[dict[str, Any], list[str], str]:
    """The model's plan, what is wrong with it, and its words."""

    try:
        result = await run.step_model(
            models=job.models, messages=messages, output=Plan.model_json_schema(), key=key
        )
    except OutputInvalid as error:
        reply = getattr(error.facts.get("reply"), "text", "")
        return {}, [str(error)[:2_000]], reply
    output: Any = result.output
    value = cast("dict[str, Any]", output) if isinstance(output, dict) else {}
    text = result.text or msgspec.json.encode(value).decode()
    return value, await _check_plan(run, value, key=f"{key}/check"), text


async def _check_plan(run: Run, value: object, *, key: str) -> list[str]:
    """Return what is wrong with a plan; journaled, since tools and models differ from process to process."""
    names = [schema.name for schema in run.core.visible_tools()]

    def check() -> list[str]:
        return mistakes_of(run.core.services, value, tools=names)

    return await run.step("check", check, key=key)


def mistakes_of(services: Services, value: object, *, tools: Collection[str]) -> list[str]:
    """Return the mistakes of a plan, in words, each with its place; empty if it can be launched.

    Its form comes first, then what its parts call each other, then its tools, models and patterns.
    """
    from pydantic import ValidationError

    try:
        plan = Plan.model_validate(value)
    except ValidationError as error:
        return [mistakes(error, most=MISTAKES_MAX)]
    found: list[str] = []
    known = {*tools, *ALWAYS_THERE}
    for index, agent in enumerate(plan.agents):
        where = f"agents.{index}"
        for name in agent.tools:
            if name not in known:
                there = ", ".join(sorted(known))[:500]
                found.append(f"{where}.tools: there is no tool {name[:80]!r} (there are: {there})")
        if agent.model is not None:
            try:
                services.model(agent.model)
            except ArtelierError as error:
                found.append(f"{where}.model: {error.message}")
    for index, task in enumerate(plan.tasks):
        for number, check in enumerate(task.checks):
            if check.kind == "tool" and check.tool not in known:
                found.append(f"tasks.{index}.checks.{number}.tool: there is no tool {check.tool!r}")
            if (wrong := pattern_problem(check.pattern)) is not None:
                found.append(f"tasks.{index}.checks.{number}.pattern: {wrong}")
    return found + _unreachable(plan)


def _unreachable(plan: Plan) -> list[str]:
    """Return the dependencies whose output the agent of the later task could not read, each with where it is.

    Without membranes all agents share one.
    """
    if not plan.membranes:
        return []
    agents = {task.slug: task.agent for task in plan.tasks}
    rooms = [set(one.members) for one in plan.membranes]
    return [
        f"tasks.{index}.depends_on: agent {task.agent!r} could not read what task {before!r} makes:"
        f" no membrane has both {task.agent!r} and {agents[before]!r}"
        for index, task in enumerate(plan.tasks)
        for before in task.depends_on
        if task.agent != agents[before] and not any({task.agent, agents[before]} <= room for room in rooms)
    ]


def usable(services: Services, value: object, *, tools: Collection[str]) -> None:
    """Errors: `InvalidRequest` that names all mistakes of a plan."""
    wrong = mistakes_of(services, value, tools=tools)
    if wrong:
        raise InvalidRequest(
            f"this plan cannot be launched: {'; '.join(wrong)[:2_000]}",
            expected="a plan without these mistakes",
            hint="Edit it and launch it again.",
        )


# The prompt


async def _planning_question(run: Run, job: MissionJob) -> str:
    tools = run.core.visible_tools()
    parts = [("Goal", job.goal)]
    if job.workspace and any(schema.name == "list_dir" for schema in tools):
        listing = await run.step_tool("list_dir", {"path": ".", "recursive": True}, key="workspace")
        parts.append(("Workspace", _listing(listing.value)))
    parts.append(("Tools", "\n".join(map(_tool, tools)) or "(none)"))

    limits = f"At most {AGENTS_MAX} agents, {TASKS_MAX} tasks, {ITERATIONS_MAX} iterations a task."
    parts.append(("Limits", limits))
    return "\n\n".join(f"## {title}\n\n{text}" for title, text in parts)


def _listing(value: object) -> str:
    """Files of the workspace, one a line."""
    listed: Any = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
    if "entries" not in listed:
        return "(it cannot be listed)"
    entries = cast("list[dict[str, Any]]", listed["entries"])
    lines = [
        f"- {entry['path']}" + (f" ({entry['size_bytes']} bytes)" if entry["type"] == "file" else "/")
        for entry in entries[:ENTRIES_MAX]
    ]
    if len(entries) > ENTRIES_MAX or listed.get("truncated"):
        lines.append("- … and more")
    return "\n".join(lines) or "(it is empty)"


def _tool(schema: ToolSchema) -> str:
    said = " ".join(schema.description.split())[:DESCRIPTION_CHARS_MAX]
    return f"- {schema.name}: {said}"


def _list(wrong: list[str]) -> str:
    return "\n".join(f"- {mistake}" for mistake in wrong)
