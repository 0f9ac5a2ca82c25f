"""A preview of the prompt of an agent's next decision. Nothing is recorded, nothing called.

The sections are built by the same code as for the loop (`prompt_sections.py`), from what its readings would
read.

The current and next work of an agent: its open runs, the iteration that has not begun, and the
tools that it is offered, with the reason why some are off.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from artelier.artifacts import Artifact
from artelier.context import assemble
from artelier.errors import Conflict, NotFound
from artelier.ids import OPERATOR
from artelier.kernel import Prompt, RangePart, Renderer
from artelier.kernel.events import StepCompleted
from artelier.kernel.history.fork_lineage import changes_of, grants_of, lineage, newest_state
from artelier.kernel.policy import is_granted
from artelier.kernel.queries.content import blob_json
from artelier.kernel.queries.runs import depth_in_loop, open_runs_of
from artelier.kernel.queries.steps import find_record, keys_like
from artelier.kernel.run.lifecycle import unread_notes
from artelier.kernel.run_limits import limits_of, scopes_of
from artelier.kernel.steps.step_keys import notes_key
from artelier.kernel.tenants.registry import TenantScope
from artelier.log import decode_stored
from artelier.missions.definition import template
from artelier.missions.queries import max_iterations_now, next_task, standing_of
from artelier.missions.steering_document import Guidance, Steering, guidance, steering_of
from artelier.missions.task import context_sources, prompt_sections
from artelier.missions.task.actions import DELEGATE
from artelier.missions.task.context_sources import seen_tool
from artelier.missions.task.loop_state import LOOP, TaskJob, TaskState, ends_passed, last_iteration
from artelier.missions.task.readings import AttachedMemory, SeenArtifact, SeenInput, SeenTool, UnitsLeft
from artelier.missions.task.task_handle import job_of
from artelier.missions.task.task_loop import NOTES_AT_ONCE
from artelier.missions.task.task_runner import kit, recorded_job
from artelier.ports.model import ChatMessage
from artelier.ports.tool import ToolPort
from artelier.tools.http_json import NAME as HTTP_JSON
from artelier.tools.http_json import http_json_tool

if TYPE_CHECKING:
    from artelier.missions.plan.planner import MissionJob

RUNS_MAX = 100
"""Open runs of one agent that a person's word reaches at once."""


class Upcoming(NamedTuple):
    """The next iteration of an agent that has not begun."""

    agent: str
    task: str
    iteration: int
    """Counted from 1; the task may have ended before it."""
    run: int | None
    """Row of the run; None if none works on the task yet."""

    @property
    def is_begun(self) -> bool:
        return self.run is not None


async def upcoming(desk: TenantScope, agent: str) -> Upcoming | None:
    """Return the next iteration of the task that the agent works on, else of the oldest one waiting for it.

    Return None if there is no such task. An iteration has begun when its decision was asked for.
    """
    found = await next_task(desk, agent)
    if found is None:
        return None
    task, run, iterations = found
    last = iterations if run is None else max(iterations, await _newest_asked(desk, run))
    return Upcoming(agent, task, last + 1, run)


async def _newest_asked(desk: TenantScope, run: int) -> int:
    """The newest iteration whose decision was asked for."""
    keys = await keys_like(desk.services.store, run, "c%/decision")
    numbers = [key[1 : -len("/decision")] for key in keys]
    return max((int(number) for number in numbers if number.isdecimal()), default=0)


async def open_runs(desk: TenantScope, agent: str) -> list[str]:
    """Runs of an agent that have not ended, oldest first; of those that drive others, only the upper ones.

    Errors: `Conflict` if it has none.
    """
    found = await open_runs_of(desk.services.store, desk.id, agent, limit=RUNS_MAX)
    if not found:
        raise Conflict(
            f"agent {agent!r:.140} works on nothing now",
            expected="a run that has not ended",
            hint="Start one of its tasks first.",
        )
    return found


NO_DELEGATION = "steering allows no more delegation"
NO_SERVERS = "no server is allowed: [tools.http] allow in artelier.toml"


@dataclass(frozen=True, slots=True, kw_only=True)
class Workplace:
    """The place where an agent works: it decides, beside steering, which tools the agent has."""

    job: TaskJob
    changes: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Of forks."""
    grants: tuple[str, ...] = ("*",)
    depth: int = 0
    """How many tasks above it have handed it on."""


class OfferedTool(NamedTuple):
    """A tool that there is."""

    tool: ToolPort
    why_off: str | None
    """None if it is on."""


async def place_of(desk: TenantScope, comes: Upcoming) -> Workplace:
    """Return the place of an agent's current or next task. Errors: those of `task_handle.job_of`."""
    if not comes.is_begun:
        return Workplace(job=await job_of(desk, await standing_of(desk, comes.task)))
    job = await recorded_job(desk, comes.task)
    assert job is not None, "the view has its run"
    services = desk.services
    places = await lineage(services, desk.id, comes.task)
    return Workplace(
        job=job,
        changes=await changes_of(services, places),
        grants=await grants_of(services, places),
        depth=await depth_in_loop(services.store, desk.id, comes.task, LOOP),
    )


def place_without_task(agent: str, mission: MissionJob | None) -> Workplace:
    """Return the place of an agent that no task of its mission waits for."""
    job = TaskJob(task=agent, definition={}, agent=agent, model="")
    if mission is not None:
        job = replace(
            job, workspace=mission.workspace, host_tools=mission.host_tools, client_tools=mission.client_tools
        )
    return Workplace(job=job)


async def offers(desk: TenantScope, place: Workplace, steering: Steering | None) -> list[OfferedTool]:
    """All tools that a task of this place has, as its loop would bar them; `steering` is None without any.

    Errors: `NotFound` if the workspace is gone.
    """
    tenant = await desk.state()
    depth = 0 if steering is None else steering.delegation_depth
    found: list[OfferedTool] = []
    for tool in kit(desk, place.job).values():
        grant = tool.grant or f"tools:{tool.name}"
        why = None
        if not is_granted(tenant.grants, grant):
            why = "not granted to the tenant"
        elif not is_granted(place.grants, grant):
            why = "not granted to its run"
        elif steering is not None:
            why = steering.why_off(tool)
        if why is None and tool.name == DELEGATE and depth <= place.depth:
            why = NO_DELEGATION
        found.append(OfferedTool(tool, why))
    if place.job.workspace and all(one.tool.name != HTTP_JSON for one in found):
        found.append(OfferedTool(http_json_tool(()), NO_SERVERS))  # shipped too, and on with a list alone
    return found


CONVERSATION = "main"


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptPreview:
    """A prompt that nobody has sent."""

    agent: str
    task: str
    iteration: int
    """Counted from 1."""
    last_iteration: int
    """The last that the task and steering allow; one after it is not asked."""
    model: str
    temperature: float | None
    budget_tokens: int
    prompt: Prompt
    tools: tuple[str, ...]
    """Those that are listed in it."""
    steering: tuple[str, ...]
    """Refs of what it goes by."""
    is_begun: bool
    asked_now: str | None
    """Key of the decision that is asked for at this moment: what comes of it is not in here."""
    missing: str | None
    """The input, or task, without which nothing is asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _PreviewReadings:
    """Readings, taken now."""

    tools: list[SeenTool]
    inputs: list[SeenInput]
    artifacts: list[SeenArtifact]
    budget: list[UnitsLeft]
    memory: list[AttachedMemory] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _TaskProgress:
    """The progress of the task, and the place where it is worked on."""

    place: Workplace
    state: TaskState
    messages: tuple[ChatMessage, ...] = ()
    scopes: tuple[str, ...] = ("tenant",)
    """Whose caps it counts in."""
    missing: str | None = None


async def next_prompt(desk: TenantScope, agent: str) -> PromptPreview:
    """Return the next prompt of the task that the agent works on, else of the oldest that waits for it.

    Errors: `NotFound` for no such agent; `Conflict` if nothing is left for it to decide; `ContextTooLong` and
    `InvalidRequest` for what would make the loop fail.
    """
    comes = await upcoming(desk, agent)
    if comes is None:
        await check_agent(desk, agent)
        raise Conflict(f"agent {agent!r:.140} has no task to decide about", hint="Assign one to it.")
    return await preview_of(desk, comes)


async def preview_of(desk: TenantScope, comes: Upcoming) -> PromptPreview:
    """Return the preview of `next_prompt`, for a caller who already knows the upcoming iteration."""
    stand = await (_begun_progress(desk, comes) if comes.is_begun else _fresh(desk, comes))
    reading = await context_sources.steering_now(desk, stand.place.job)
    steering = steering_of(reading, stand.place.changes)
    also = dict.fromkeys(scope for scope, _ in reading.counters or ())
    stand = replace(stand, scopes=(*stand.scopes, *also))
    return await _preview(desk, comes, stand, guidance(reading, steering), steering)


async def check_agent(desk: TenantScope, agent: str) -> None:
    """Errors: `NotFound` if no agent of missions has this id."""
    artifact: Artifact = await desk.as_principal(OPERATOR).artifacts.read(agent)
    if artifact.kind != "agent":
        raise NotFound(f"no agent {agent!r:.140}", got=f"an artifact of kind {artifact.kind}")


async def _preview(
    desk: TenantScope, comes: Upcoming, stand: _TaskProgress, guided: Guidance, steering: Steering | None
) -> PromptPreview:
    job = stand.place.job
    task = job.content()
    asked = await max_iterations_now(desk, comes.task) or task.max_iterations
    allowed = guided.iterations_for(asked, begun_with=task.max_iterations)
    state = stand.state.replace(allowed=allowed)
    run_id = comes.task if comes.is_begun else job.mission
    seen = await _read_context(desk, stand, steering, run_id=run_id)
    said = stand.messages
    conversation = (
        RangePart(conversation=CONVERSATION, start=1, end=len(said), messages=said) if said else None
    )
    sections = prompt_sections.decision_sections(
        job, task, state, guidance=guided, seen=seen, conversation=conversation
    )
    listed = prompt_sections.listed_tools(job, task, state, guidance=guided, seen=seen)
    number, last = state.iteration + 1, last_iteration(state.base, allowed)
    asked_now = f"c{number}/decision" if comes.iteration > number else None
    if asked_now is not None and number >= last and await _has_acted(desk, comes, number):
        raise Conflict(
            f"task {comes.task!r:.140} has taken its last decision",
            expected="a task that has another one to take",
            got=f"iteration {number} of {last}, whose outputs are judged",
        )
    return PromptPreview(
        agent=comes.agent,
        task=comes.task,
        iteration=number,
        last_iteration=last,
        model=stand.place.changes.get("model") or job.model,
        temperature=guided.temperature,
        budget_tokens=job.prompt_tokens_max,
        prompt=assemble(sections, budget_tokens=job.prompt_tokens_max),
        tools=tuple(one.name for one in listed),
        steering=guided.refs,
        is_begun=comes.is_begun,
        missing=stand.missing,
        asked_now=asked_now,
    )


async def _has_acted(desk: TenantScope, comes: Upcoming, number: int) -> bool:
    """Return True if what an iteration has decided is done."""
    assert comes.run is not None
    return await find_record(desk.services.store, comes.run, f"c{number}/executed") is not None


async def _read_context(
    desk: TenantScope, stand: _TaskProgress, steering: Steering | None, *, run_id: str
) -> _PreviewReadings:
    job, state = stand.place.job, stand.state
    return _PreviewReadings(
        memory=await context_sources.memory_now(desk, job),
        tools=(await _tools(desk, stand, steering))[: context_sources.TOOLS_MAX],
        budget=await context_sources.budget_now(desk, stand.scopes) or [],
        inputs=await context_sources.inputs_now(desk, job, state.inputs),
        artifacts=await context_sources.artifacts_now(desk, job, state.refs, run_id=run_id),
    )


async def _tools(desk: TenantScope, stand: _TaskProgress, steering: Steering | None) -> list[SeenTool]:
    """Return the tools as the loop's reading of tools gives them."""
    offered = await offers(desk, stand.place, steering)
    return [seen_tool(one.tool.schema, one.tool.trust) for one in offered if one.why_off is None]


async def _fresh(desk: TenantScope, comes: Upcoming) -> _TaskProgress:
    """A task that no run works on yet."""
    place = await place_of(desk, comes)
    job = place.job
    refs, missing = await context_sources.found_inputs(desk, job)
    above = (f"run:{job.mission}",) if job.mission else ()
    return _TaskProgress(
        place=place,
        state=TaskState(inputs=tuple(refs)),
        missing=missing or None,
        scopes=("tenant", *above, *job.scopes),
    )


async def _begun_progress(desk: TenantScope, comes: Upcoming) -> _TaskProgress:
    """A task whose run is there, as it stood after its newest iteration."""
    services = desk.services
    place = await place_of(desk, comes)
    places = await lineage(services, desk.id, comes.task)
    newest = await newest_state(services, places)
    state = TaskState.from_stored(None if newest is None else newest[0])
    missing = ""
    if not state.begun:
        refs, missing = await context_sources.found_inputs(desk, place.job)
        state = state.replace(inputs=tuple(refs))
    messages, state = await _conversation(desk, comes, state)
    extra = await scopes_of(services, places)
    scopes, _ = await limits_of(services, desk.id, comes.task, extra=extra)
    return _TaskProgress(place=place, state=state, messages=messages, scopes=scopes, missing=missing or None)


async def _conversation(
    desk: TenantScope, comes: Upcoming, state: TaskState
) -> tuple[tuple[ChatMessage, ...], TaskState]:
    """Return what stands in it by now, and the state after the ends that a person has reopened since.

    Behind the newest iteration come notes of people, and a word for each such end.
    """
    services, found = desk.services, list[ChatMessage]()
    if state.messages:
        renderer = await Renderer.open(services, desk.id, comes.task)
        found += await renderer.messages(CONVERSATION, 1, state.messages)
    assert comes.run is not None
    for ended in await ends_passed(services, await lineage(services, desk.id, comes.task)):
        found += await _taken_notes(desk, comes.run, iteration=state.iteration + 1)
        found.append(ChatMessage(role="user", content=template("again-1")))
        state = state.replace(
            iteration=ended.iterations, base=ended.iterations, repeats=0, decided="", led_to=""
        )
    found += await _taken_notes(desk, comes.run, iteration=state.iteration + 1)
    unread = await unread_notes(services, comes.run)
    found += _notes([await blob_json(services, desk.id, ref) for _, ref in unread])
    return tuple(found), state


async def _taken_notes(desk: TenantScope, run: int, *, iteration: int) -> list[ChatMessage]:
    """Notes that an iteration which is not over has taken: before its decision, and before its text."""
    said = list[ChatMessage]()
    for place in ("notes", "content-notes"):
        texts = list[str]()
        for number in count(1):
            key = notes_key(f"c{iteration}/{place}", number)
            found = await find_record(desk.services.store, run, key)
            if found is None or found.outcome is None or found.outcome.kind != StepCompleted.KIND:
                break
            ref = decode_stored(found.outcome.data, type=StepCompleted).result
            texts += (await blob_json(desk.services, desk.id, ref) or [])[-NOTES_AT_ONCE:]
        said += _notes(texts)
    return said


def _notes(texts: list[str]) -> list[ChatMessage]:
    """Return the notes as the loop shows them."""
    said = [f"{template('note-1')}\n\n{text}" for text in texts]
    return [ChatMessage(role="user", content=text) for text in said]


def texts_of(prompt: Prompt) -> list[tuple[str, list[tuple[str, str]]]]:
    """Return for each part its text, and its messages as (role, text) if it has several of its own."""
    found: list[tuple[str, list[tuple[str, str]]]] = []
    for part in prompt.parts:
        messages = [(one.role, one.text or _calls(one)) for one in part.messages]
        text = "" if isinstance(part, RangePart) else part.text
        text = text or "\n\n".join(said for _, said in messages)
        found.append((text, messages if isinstance(part, RangePart) else []))
    return found


def _calls(message: ChatMessage) -> str:
    return msgspec.json.encode(message.tool_calls).decode() if message.tool_calls else ""
