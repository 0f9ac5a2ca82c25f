"""`/agents`: those that tasks are assigned to, and those that just have runs or a memory in this tenant."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Query, Request

from artelier.errors import InvalidRequest, NotFound
from artelier.missions.mission_agents import CARDS, agent_facts, agent_page, change_agent
from artelier.missions.task.preview import open_runs, upcoming
from artelier.ports.model_params import check_params
from artelier.server.background_tasks import errands_of, key_of
from artelier.server.deps import Actor, Desk, check_mission, new_id
from artelier.server.prompt_inspector import looked_ahead
from artelier.server.routes import resource
from artelier.server.wire import agents as wire
from artelier.server.wire import runs
from artelier.server.wire.base import ID_CHARS_MAX, After, Limit, Nothing, Page

router = resource("agents")


@router.get("", operation_id="agents_list")
async def list_(
    desk: Desk,
    mission: Annotated[str | None, Query(max_length=ID_CHARS_MAX)] = None,
    after: After = None,
    limit: Limit = 100,
) -> Page[wire.AgentLine]:
    """Agents by id, with their runs and what they cost; with `mission` those named after it."""
    found = await agent_page(desk, mission=mission, after=after, limit=limit)
    return Page[wire.AgentLine](items=[wire.AgentLine.of(one) for one in found.items], next=found.next)


@router.post("", status_code=201, operation_id="agents_create")
async def create(desk: Desk, by: Actor, asked: wire.AgentNew) -> wire.AgentShown:
    """Make an agent that tasks can be assigned to, with steering of its own."""
    await check_mission(desk, asked.mission)
    id = new_id(asked.id, asked.name, mission=asked.mission, folder="")
    if id.startswith(CARDS) or (asked.mission and not id.startswith(f"{asked.mission}/")):
        raise InvalidRequest(
            "that is no id for this agent",
            got=id[:140],
            expected=f"{asked.mission}/<slug>" if asked.mission else f"one not below {CARDS}",
        )
    await desk.create_agent(
        id,
        name=asked.name,
        role=asked.role,
        model=asked.model,
        tools=asked.tools,
        budget_usd=asked.budget_usd,
        by=by,
    )
    return await _show_agent(desk, id)


@router.get("/{id}", operation_id="agents_show")
async def show(desk: Desk, id: str) -> wire.AgentShown:
    """One agent with its tools, steering and memory; with its card if it has runs."""
    return await _show_agent(desk, id)


async def _show_agent(desk: Desk, id: str) -> wire.AgentShown:
    comes = await upcoming(desk, id)
    shown = wire.AgentShown.of(await agent_facts(desk, id))
    if comes is not None:
        shown.next = wire.NextIteration(task=comes.task, iteration=comes.iteration, is_begun=comes.is_begun)
    return shown


@router.patch("/{id}", operation_id="agents_change")
async def change(desk: Desk, by: Actor, id: str, asked: wire.AgentChange) -> wire.AgentShown:
    """Change who it is, its model, or the memory that is attached to it."""
    await change_agent(
        desk, id, asked.given_fields("expected_version"), by=by, expected_version=asked.expected_version
    )
    return await _show_agent(desk, id)


@router.get("/{id}/next-prompt", operation_id="agents_next_prompt")
async def next_prompt(desk: Desk, id: str) -> wire.Ahead:
    """Return what its next decision would be asked, by section. Nothing is recorded, nothing called."""
    return await looked_ahead(desk, id)


# What people tell it


async def _command_agent(desk: Desk, id: str, verb: str, **command: Any) -> wire.AgentEffects:
    """Give each of its open runs a command. Errors: `NotFound`; `Conflict` if it has none."""
    if await upcoming(desk, id) is None:
        await agent_facts(desk, id)
    effects: list[runs.Effect] = []
    for run_id in await open_runs(desk, id):
        event = await getattr(desk, verb)(run_id, **command)
        queued = bool(getattr(event, "queued", False))
        effects.append(runs.Effect(run_id=run_id, effect=event.KIND, queued=queued))
    return wire.AgentEffects(agent=id, effects=effects)


@router.post("/{id}/pause", operation_id="agents_pause")
async def pause(desk: Desk, by: Actor, id: str, asked: runs.Note) -> wire.AgentEffects:
    """Let its runs hold after the step at hand."""
    return await _command_agent(desk, id, "pause", by=by, note=asked.note)


@router.post("/{id}/resume", operation_id="agents_resume")
async def resume(desk: Desk, by: Actor, id: str, asked: Nothing) -> wire.AgentEffects:
    """Let its paused runs go on."""
    return await _command_agent(desk, id, "resume", by=by)


@router.post("/{id}/step", operation_id="agents_step")
async def step(desk: Desk, by: Actor, id: str, asked: Nothing) -> wire.AgentEffects:
    """Let its runs go on for one iteration, and hold again."""
    return await _command_agent(desk, id, "step", by=by)


@router.post("/{id}/stop", operation_id="agents_stop")
async def stop(desk: Desk, by: Actor, id: str, asked: runs.Note) -> wire.AgentEffects:
    """Pause its runs now, their calls in flight cancelled."""
    return await _command_agent(desk, id, "stop", by=by, note=asked.note)


@router.post("/{id}/note", operation_id="agents_note")
async def note(desk: Desk, by: Actor, id: str, asked: runs.Injection) -> wire.AgentEffects:
    """Tell it something before its next decision."""
    return await _command_agent(desk, id, "inject", note=asked.note, by=by)


@router.post("/{id}/run", status_code=202, operation_id="agents_run")
async def run(request: Request, desk: Desk, id: str, asked: wire.AgentRunAsk) -> wire.AgentShown:
    """Let it work on its pending tasks that can begin, one after the other, beside the answer.

    Asked while it works, it looks for tasks once more before it ends, with the parameters asked for last.
    """
    params = check_params(asked.params.given_fields())
    if (await agent_facts(desk, id)).assigned is None:
        raise NotFound(f"agent {id!r:.140} is none that tasks are assigned to")
    errands, key = errands_of(request.app), key_of("agent", desk, id)
    if (going := errands.at_work(key)) is not None:
        going.about.is_asked, going.about.params = True, params
    else:
        wish = _WorkRequest(params=params)
        errands.start(key, _work(desk, id, wish), about=wish)
    return await _show_agent(desk, id)


@dataclass(slots=True)
class _WorkRequest:
    """A wish that an agent works, until it is looked at."""

    params: Mapping[str, Any]
    is_asked: bool = True


async def _work(desk: Desk, id: str, wish: _WorkRequest) -> None:
    while wish.is_asked:
        wish.is_asked = False
        await desk.run_agent(id, on_wait="suspend", params=wish.params)
