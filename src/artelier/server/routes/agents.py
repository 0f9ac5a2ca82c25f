"""`/agents`: those that tasks are assigned to, and those that just have runs or a memory in this tenant.

`/memory` is what they remember: an agent's id names its memory, and people change it in their own name.
`/skills` is what they can load, and what waits for a person's look.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Query, Request

from artelier.errors import InvalidRequest, NotFound
from artelier.ids import fresh_secret
from artelier.memory import LogMemory, LogMemoryStore
from artelier.memory.embedders.registry import paid_by_person
from artelier.missions.mission_agents import CARDS, agent_facts, agent_page, change_agent
from artelier.missions.task.preview import open_runs, upcoming
from artelier.ports.model_params import check_params
from artelier.server.background_tasks import errands_of, key_of
from artelier.server.deps import Actor, Desk, Who, check_mission, new_id
from artelier.server.pii import scrub_query
from artelier.server.prompt_inspector import looked_ahead
from artelier.server.routes import resource
from artelier.server.wire import agents as wire
from artelier.server.wire import runs
from artelier.server.wire.base import ID_CHARS_MAX, After, Limit, Nothing, Page
from artelier.tools.skills import Skills
from artelier.tools.skills.approval import SkillReport

router = resource("agents")


@router.get("", name="list_")
async def list_agents(
    desk: Desk,
    mission: Annotated[str | None, Query(max_length=ID_CHARS_MAX)] = None,
    after: After = None,
    limit: Limit = 100,
) -> Page[wire.AgentLine]:
    """Agents by id, with their runs and what they cost; with `mission` those named after it."""
    found = await agent_page(desk, mission=mission, after=after, limit=limit)
    return Page[wire.AgentLine](items=[wire.AgentLine.of(one) for one in found.items], next=found.next)


@router.post("", status_code=201, name="create")
async def create_agent(desk: Desk, by: Actor, asked: wire.AgentNew) -> wire.AgentShown:
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


@router.get("/{id}", name="show")
async def show_agent(desk: Desk, id: str) -> wire.AgentShown:
    """One agent with its tools, steering and memory; with its card if it has runs."""
    return await _show_agent(desk, id)


async def _show_agent(desk: Desk, id: str) -> wire.AgentShown:
    comes = await upcoming(desk, id)
    shown = wire.AgentShown.of(await agent_facts(desk, id))
    if comes is not None:
        shown.next = wire.NextIteration(task=comes.task, iteration=comes.iteration, is_begun=comes.is_begun)
    return shown


@router.patch("/{id}", name="change")
async def update_agent(desk: Desk, by: Actor, id: str, asked: wire.AgentChange) -> wire.AgentShown:
    """Change who it is, its model, or the memory that is attached to it."""
    await change_agent(
        desk, id, asked.given_fields("expected_version"), by=by, expected_version=asked.expected_version
    )
    return await _show_agent(desk, id)


@router.get("/{id}/next-prompt")
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


@router.post("/{id}/pause", name="pause")
async def pause_agent(desk: Desk, by: Actor, id: str, asked: runs.Note) -> wire.AgentEffects:
    """Let its runs hold after the step at hand."""
    return await _command_agent(desk, id, "pause", by=by, note=asked.note)


@router.post("/{id}/resume", name="resume")
async def resume_agent(desk: Desk, by: Actor, id: str, asked: Nothing) -> wire.AgentEffects:
    """Let its paused runs go on."""
    return await _command_agent(desk, id, "resume", by=by)


@router.post("/{id}/step", name="step")
async def step_agent(desk: Desk, by: Actor, id: str, asked: Nothing) -> wire.AgentEffects:
    """Let its runs go on for one iteration, and hold again."""
    return await _command_agent(desk, id, "step", by=by)


@router.post("/{id}/stop", name="stop")
async def stop_agent(desk: Desk, by: Actor, id: str, asked: runs.Note) -> wire.AgentEffects:
    """Pause its runs now, their calls in flight cancelled."""
    return await _command_agent(desk, id, "stop", by=by, note=asked.note)


@router.post("/{id}/note", name="note")
async def note_agent(desk: Desk, by: Actor, id: str, asked: runs.Injection) -> wire.AgentEffects:
    """Tell it something before its next decision."""
    return await _command_agent(desk, id, "inject", note=asked.note, by=by)


@router.post("/{id}/run", status_code=202, name="run")
async def run_agent(request: Request, desk: Desk, id: str, asked: wire.AgentRunAsk) -> wire.AgentShown:
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


memory_router = resource("memory")


async def _of(desk: Desk, agent: str) -> LogMemory:
    """The memory of an agent, with the embedder that its entries were made with.

    Errors: `NotFound` for an agent that has neither memory nor runs; `InvalidRequest` for what is none.
    """
    memory: LogMemory = desk.memory.for_agent(desk.id, agent)
    opened = await memory.scope.read_opened("read")
    if opened is None:
        await desk.show_agent(agent)  # one that has run may begin to remember
        return memory
    if opened.embedder in (None, memory.entries.embedder.name):
        return memory
    services = desk.services
    store = LogMemoryStore(services.store, services.clock, embedder=str(opened.embedder))
    return store.for_agent(desk.id, agent)


def _key() -> str:
    """A person's request is a change of its own each time."""
    return f"http:{fresh_secret(9).hex()}"


@memory_router.get("", name="list_")
async def list_memories(desk: Desk, after: After = None, limit: Limit = 100) -> Page[wire.MemoryLine]:
    """Agents that have a memory, by id. A page may be short, or empty, and not the last."""
    found = await desk.agents(after=after, limit=limit)
    items = [one for one in found["items"] if one["entries"] is not None]
    return Page[wire.MemoryLine].model_validate({"items": items, "next": found["next"]})


@memory_router.get("/{agent}", name="show")
async def show_memory(desk: Desk, agent: str, after: After = None, limit: Limit = 100) -> wire.MemoryShown:
    """The blocks of an agent's core memory, and entries of its long-term memory after one."""
    memory = await _of(desk, agent)
    found = await memory.entries.entries(limit=limit + 1, after=after)
    following = found[limit - 1].id if len(found) > limit else None
    return wire.MemoryShown.model_validate(
        {"agent": agent, "blocks": await memory.blocks(), "items": found[:limit], "next": following}
    )


@memory_router.get("/{agent}/search", name="search")
async def search_memory(
    desk: Desk,
    who: Who,
    agent: str,
    q: Annotated[str, Query(min_length=1, max_length=2_000)],
    limit: Annotated[int, Query(ge=1, le=100)] = 10,
) -> Page[wire.HitOut]:
    """The best hits in blocks and entries, best first."""
    memory = await _of(desk, agent)
    with paid_by_person(desk):
        found = await memory.search(await scrub_query(desk, who, q), limit)
    return Page[wire.HitOut].model_validate({"items": found})


@memory_router.get("/{agent}/changes", name="changes")
async def memory_changes(
    desk: Desk,
    agent: str,
    before: Annotated[int | None, Query(ge=1, le=2**53, description="Only changes below.")] = None,
    limit: Limit = 50,
) -> Page[wire.MemoryChange]:
    """Return what was changed, newest first; `next` is the `before` of the next page."""
    found = await (await _of(desk, agent)).changes(limit, before=before)
    following = found[-1].id if len(found) == limit else None
    return Page[wire.MemoryChange].model_validate({"items": found, "next": following})


@memory_router.post("/{agent}/entries", status_code=201)
async def remember(desk: Desk, actor: Actor, agent: str, body: wire.EntryNew) -> wire.MemoryEntry:
    """Have an agent remember something; what it knows already is not kept twice."""
    memory = await _of(desk, agent)
    with paid_by_person(desk):
        entry = await memory.remember(
            body.text,
            tags=body.tags,
            importance=body.importance,
            speaker=body.speaker,
            date=body.date,
            key=_key(),
            by=actor,
        )
    return wire.MemoryEntry.model_validate(entry)


@memory_router.delete("/{agent}/entries/{entry}")
async def forget(desk: Desk, actor: Actor, agent: str, entry: str) -> wire.MemoryEntry:
    """Take an entry out, and return it as it was; `undo` brings it back."""
    gone = await (await _of(desk, agent)).forget(entry, key=_key(), by=actor)
    return wire.MemoryEntry.model_validate(gone)


@memory_router.put("/{agent}/blocks/{label}")
async def write_block(
    desk: Desk, actor: Actor, agent: str, label: str, body: wire.BlockText
) -> wire.BlockOut:
    """Give a block of core memory another text."""
    memory = await _of(desk, agent)
    block = await memory.replace_all(body.text, label, key=_key(), by=actor)
    return wire.BlockOut.model_validate(block)


@memory_router.post("/{agent}/changes/{change}/undo", name="undo")
async def undo_change(desk: Desk, actor: Actor, agent: str, change: int, body: Nothing) -> wire.MemoryChange:
    """Take a change back. An undo is a change itself."""
    done = await (await _of(desk, agent)).undo(change, key=_key(), by=actor)
    return wire.MemoryChange.model_validate(done)


skills_router = resource("skills")


def _id_of(row: SkillReport) -> str:
    return f"{row['source']}/{row['name']}"


def _line(row: SkillReport) -> wire.SkillLineOut:
    return wire.SkillLineOut.model_validate({"id": _id_of(row), **row})


@skills_router.get("", name="list_")
async def list_skills(
    desk: Desk,
    status: Annotated[wire.Status | None, Query(description="Only those.")] = None,
    after: After = None,
    limit: Limit = 100,
) -> Page[wire.SkillLineOut]:
    """The skills that were ever seen in this tenant, by id."""
    found = sorted(map(_line, await Skills(desk.services, desk.id).list()), key=lambda one: one.id)
    rest = [one for one in found if one.id > (after or "") and status in (None, one.status)]
    following = rest[limit - 1].id if len(rest) > limit else None
    return Page[wire.SkillLineOut](items=rest[:limit], next=following)


@skills_router.get("/{id}", name="show")
async def show_skill(desk: Desk, id: str) -> wire.SkillShown:
    """A skill's newest definition, and why it is parked."""
    found = await Skills(desk.services, desk.id).show(id)
    return wire.SkillShown.model_validate({"id": _id_of(found), **found})


@skills_router.get("/{id}/diff", name="diff")
async def diff_skill(desk: Desk, id: str) -> wire.SkillDiff:
    """Return what changed since it could last be used."""
    skills = Skills(desk.services, desk.id)
    files = await skills.files_changed(id)
    return wire.SkillDiff.model_validate({"diff": await skills.diff(id), "files": files})


@skills_router.post("/{id}/approve", name="approve")
async def approve_skill(desk: Desk, actor: Actor, id: str, body: wire.SkillDecision) -> wire.SkillLineOut:
    """Let a parked or refused definition be used from the next listing on."""
    skills = Skills(desk.services, desk.id)
    found = await skills.approve(id, by=actor, note=body.note, hash=body.hash)
    return _line(found)


@skills_router.post("/{id}/refuse", name="refuse")
async def refuse_skill(desk: Desk, actor: Actor, id: str, body: wire.SkillDecision) -> wire.SkillLineOut:
    """Forbid a definition, also one in use: its next call is refused."""
    skills = Skills(desk.services, desk.id)
    found = await skills.refuse(id, by=actor, note=body.note, hash=body.hash)
    return _line(found)
