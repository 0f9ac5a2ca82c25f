"""Runs: looking at them, their prompts and costs, their questions, and steering one or all of them."""

from __future__ import annotations

import time
from collections.abc import Iterable
from contextlib import suppress
from typing import Annotated, Any

from fastapi import Query
from starlette.responses import FileResponse, Response

from artelier.errors import Conflict, RunSuspended
from artelier.kernel import Limits
from artelier.kernel.queries.runs import open_roots, paused_runs
from artelier.log import EventData
from artelier.server.deps import (
    PAGE_MAX,
    Actor,
    Desk,
    Limit,
    Live,
    check_mission,
    file_response,
    medium_response,
    model_response,
)
from artelier.server.event_encoder import Filter, page_body
from artelier.server.prompt_inspector import diff_of, manifest_of, medium_of_step, prompt_of
from artelier.server.routes import resource
from artelier.server.wire import runs as wire
from artelier.server.wire.base import ID_CHARS_MAX, Page
from artelier.server.wire.runs import ApprovalList, calls_at_work
from artelier.server.wire.server import EventPage

router = resource("runs")

Step = Annotated[str, Query(min_length=1, max_length=1000, description="Key of a model step.")]
ID_MAX = 2**53


@router.get("")
async def list_(
    desk: Desk,
    status: Annotated[str | None, Query(max_length=40)] = None,
    after: Annotated[int, Query(ge=0, le=ID_MAX)] = 0,
    limit: Limit = 100,
) -> wire.RunPage:
    """Runs in the order in which they were started."""
    return wire.RunPage.model_validate(await desk.runs(status=status, after=after, limit=limit))


@router.get("/{run_id}")
async def show(desk: Desk, run_id: str) -> wire.RunShown:
    """One run with its goal, its result and what it waits for."""
    return wire.RunShown.model_validate(await desk.show(run_id))


@router.get("/{run_id}/steps")
async def steps(
    desk: Desk,
    run_id: str,
    after: Annotated[int, Query(ge=0, le=ID_MAX, description="A page's `next`.")] = 0,
    before: Annotated[
        int | None, Query(ge=0, le=ID_MAX, description="With `last`: a page's `earlier`.")
    ] = None,
    last: Annotated[bool, Query(description="The newest instead, in the same order: see `earlier`.")] = False,
    limit: Limit = PAGE_MAX,
) -> wire.StepPage:
    """Its own steps, in the order in which they were asked for."""
    found = await desk.steps(run_id, after=after, before=before, limit=limit + 1, last=last)
    is_more = len(found) > limit
    items = found[-limit:] if last else found[:limit]
    following = items[-1]["requested_seq"] if is_more and not last else None
    earlier = items[0]["requested_seq"] if is_more and last else None
    return wire.StepPage.model_validate({"items": items, "next": following, "earlier": earlier})


@router.get("/{run_id}/calls")
async def calls(desk: Desk, run_id: str) -> wire.CallList:
    """Its model calls at work in this process: tokens so far, time, attempt, the wait for the next one."""
    await desk.show(run_id)  # a run of this tenant
    return wire.CallList(items=calls_at_work(desk.services, desk.id, run_id, now_s=time.monotonic()))


@router.get("/{run_id}/tree")
async def tree(desk: Desk, run_id: str) -> wire.RunTree:
    """The run with its children, each with its own and its total cost."""
    return wire.RunTree.model_validate(await desk.tree(run_id))


@router.get("/{run_id}/cost")
async def cost(desk: Desk, run_id: str) -> wire.Cost:
    """Return what it cost; step by step for the newest 1,000 steps."""
    return wire.Cost.model_validate(await desk.cost(run_id, limit=PAGE_MAX))


@router.get("/{run_id}/approvals")
async def approvals(desk: Desk, run_id: str) -> wire.ApprovalList:
    """Its own open questions."""
    await desk.show(run_id)
    return wire.ApprovalList.model_validate({"items": await desk.approvals(run_id)})


@router.get("/{run_id}/events", response_model=EventPage)
async def events(
    desk: Desk, hub: Live, run_id: str, after: Annotated[int, Query(ge=0, le=ID_MAX)] = 0, limit: Limit = 500
) -> Response:
    """Events of the run and of everything below its id."""
    await desk.show(run_id)
    wants = Filter(tenant=desk.id, prefix=run_id)
    found, next_, head = await hub.page(wants, after=after, limit=limit)
    return Response(page_body(found, next_=next_, head=head), media_type="application/json")


@router.get("/{run_id}/diff")
async def diff(
    desk: Desk,
    run_id: str,
    with_: Annotated[
        str, Query(alias="with", min_length=1, max_length=1000, description="Id of the other run.")
    ],
) -> wire.RunDiff:
    """Return what two runs share, and the first step at which they part."""
    return wire.RunDiff.model_validate(await desk.diff(run_id, with_))


# Prompts


@router.get("/{run_id}/manifest")
async def manifest(desk: Desk, run_id: str, step: Step) -> wire.ManifestOut:
    """Return what a prompt was made of: sections with tokens, source and reason, and what was left out."""
    return await manifest_of(desk, run_id, step)


@router.get("/{run_id}/prompt", responses={200: {"content": {"application/json": {}}}})
async def prompt(desk: Desk, run_id: str, step: Step) -> Response:
    """The exact canonical JSON that was sent, byte for byte."""
    return Response(await prompt_of(desk, run_id, step), media_type="application/json")


@router.get("/{run_id}/prompt/diff", response_model=wire.PromptDiff)
async def prompt_diff(desk: Desk, run_id: str, a: Step, b: Step) -> Response:
    """Return how two prompts differ, and what ended the prefix that a provider can cache."""
    found = await diff_of(desk, run_id, a, b)
    return await model_response(len(found.diff), lambda: found)


@router.get(
    "/{run_id}/media/{blob}",
    response_class=Response,
    responses={200: {"content": {"application/octet-stream": {}}}},
)
async def media(desk: Desk, run_id: str, blob: str, step: Step) -> Response:
    """An image, a sound or a PDF that a model step was sent. No browser runs a PDF here: it is a download."""
    return medium_response(*await medium_of_step(desk, run_id, step, blob))


# Steering


def _effect(run_id: str, event: EventData) -> wire.Effect:
    return wire.Effect(run_id=run_id, effect=event.KIND, queued=bool(getattr(event, "queued", False)))


@router.post("/{run_id}/pause")
async def pause(desk: Desk, by: Actor, run_id: str, asked: wire.Note) -> wire.Effect:
    """Let a run hold after its step at hand, until it is resumed."""
    return _effect(run_id, await desk.pause(run_id, by=by, note=asked.note))


@router.post("/{run_id}/resume")
async def resume(desk: Desk, by: Actor, run_id: str, asked: wire.Resuming | None = None) -> wire.Effect:
    """Let a paused run go on, or one that is out of budget; with a note or a raised limit, a failed one
    too."""
    wish = asked or wire.Resuming()
    caps = {name: getattr(wish, name) for name in ("usd", "tokens", "steps", "wall_s")}
    limits = Limits(**caps) if any(cap is not None for cap in caps.values()) else None
    effect = await desk.resume(
        run_id,
        note=wish.note,
        limits=limits,
        max_iterations=wish.max_iterations,
        stuck_after=wish.stuck_after,
        by=by,
    )
    return _effect(run_id, effect)


@router.post("/{run_id}/step")
async def step(desk: Desk, by: Actor, run_id: str) -> wire.Effect:
    """Let a paused run take one cycle, and hold again."""
    return _effect(run_id, await desk.step(run_id, by=by))


@router.post("/{run_id}/cancel")
async def cancel(desk: Desk, by: Actor, run_id: str, asked: wire.Note) -> wire.Effect:
    """End a run for good, and its children."""
    return _effect(run_id, await desk.cancel(run_id, by=by, note=asked.note))


@router.post("/{run_id}/stop")
async def stop(desk: Desk, by: Actor, run_id: str, asked: wire.Note) -> wire.Effect:
    """Pause a run now, its call in flight cancelled; what was produced is kept with its cost."""
    return _effect(run_id, await desk.stop(run_id, by=by, note=asked.note))


@router.post("/{run_id}/retry")
async def retry(desk: Desk, by: Actor, run_id: str) -> wire.Effect:
    """Reopen a failed run: its failed steps are executed again."""
    return _effect(run_id, await desk.retry(run_id, by=by))


@router.post("/{run_id}/inject")
async def inject(desk: Desk, by: Actor, run_id: str, asked: wire.Injection) -> wire.Effect:
    """Tell a run something before its next step."""
    return _effect(run_id, await desk.inject(run_id, asked.note, by=by))


@router.post("/{run_id}/approve")
async def approve(desk: Desk, by: Actor, run_id: str, asked: wire.Answering) -> wire.Effect:
    """Answer what a run asks; the log names who did."""
    given = await desk.approve(
        run_id, asked.step, deny=asked.decision == "deny", arguments=asked.arguments, note=asked.note, by=by
    )
    return _effect(run_id, given)


@router.post("/{run_id}/reconcile")
async def reconcile(desk: Desk, by: Actor, run_id: str, asked: wire.Reconciling) -> wire.Effect:
    """Settle a step whose outcome is unknown."""
    answers: dict[str, dict[str, Any]] = {
        "succeeded": {"succeeded": asked.result},
        "failed": {"failed": asked.message},
        "retry": {"retry": True},
        "probe": {"probe": True},
    }
    return _effect(run_id, await desk.reconcile(run_id, asked.step, by=by, **answers[asked.answer]))


@router.post("/{run_id}/compensate")
async def compensate(desk: Desk, by: Actor, run_id: str, asked: wire.Compensating) -> wire.Compensated:
    """Undo what a run that has ended has done, the newest first; the same again goes on where it stopped."""
    try:
        done = await desk.compensate(run_id, upto=asked.upto, note=asked.note, by=by, on_wait="suspend")
    except RunSuspended as flow:
        return wire.Compensated(
            run_id=run_id, status=flow.status, held_by=flow.run_id, step=flow.reason or ""
        )
    return wire.Compensated(run_id=run_id, undone=done.undone, not_undone=done.not_undone)


@router.post("/{run_id}/limit")
async def limit(desk: Desk, by: Actor, run_id: str, asked: wire.Capping) -> wire.Effect:
    """Set or lift a cap of a run, its children included."""
    return _effect(run_id, await desk.limit(run_id, unit=asked.unit, cap=asked.cap, by=by))


@router.post("/{run_id}/signal")
async def signal(desk: Desk, by: Actor, run_id: str, asked: wire.Signalling) -> wire.Effect:
    """Hand data to a run that waits for it."""
    return _effect(run_id, await desk.signal(run_id, asked.name, asked.data, by=by))


@router.post("/{run_id}/fork", status_code=201)
async def fork(desk: Desk, by: Actor, run_id: str, asked: wire.Forking) -> wire.Forked:
    """Branch a new run off an earlier event; a worker drives it."""
    made = await desk.fork(
        run_id, at=asked.at, with_=asked.changes, new_id=asked.new_id, effects=asked.effects, by=by
    )
    return wire.Forked(run_id=made)


@router.get(
    "/{run_id}/export", response_model=None, responses={200: {"content": {"application/octet-stream": {}}}}
)
async def export(desk: Desk, run_id: str) -> FileResponse:
    """The run in one verifiable file, with its children and all content."""
    return await file_response("run.artelier", lambda file: desk.export(run_id, file))


approvals_router = resource("approvals")


@approvals_router.get("", name="list_")
async def list_approvals(desk: Desk) -> ApprovalList:
    """Every open question of the tenant; `POST /runs/{id}/approve` answers one."""
    return ApprovalList.model_validate({"items": await desk.approvals()})


all_runs_router = resource("runs")

Mission = Annotated[str | None, Query(max_length=ID_CHARS_MAX, description="Only this one and its tasks.")]


async def _command_runs(desk: Desk, verb: str, ids: Iterable[str], **command: Any) -> Page[wire.Effect]:
    """Runs that ended meanwhile, or did already what they are told, are left out."""
    effects: list[wire.Effect] = []
    for run_id in ids:
        with suppress(Conflict):
            event = await getattr(desk, verb)(run_id, **command)
            queued = bool(getattr(event, "queued", False))
            effects.append(wire.Effect(run_id=run_id, effect=event.KIND, queued=queued))
    return Page[wire.Effect](items=effects)


AT_ONCE_MAX = 1_000
"""Runs that one request reaches."""


@all_runs_router.post("/pause-all", operation_id="runs_pause_all")
async def pause_all(desk: Desk, by: Actor, asked: wire.Note, mission: Mission = None) -> Page[wire.Effect]:
    """Let every run hold after its step at hand, with all that it drives."""
    await check_mission(desk, mission)
    ids = await _unpaused(desk, mission)
    return await _command_runs(desk, "pause", ids, by=by, note=asked.note)


@all_runs_router.post("/resume-all", operation_id="runs_resume_all")
async def resume_all(desk: Desk, by: Actor, mission: Mission = None) -> Page[wire.Effect]:
    """Let every paused run go on."""
    await check_mission(desk, mission)
    ids = await paused_runs(desk.services.store, desk.id, within=mission, limit=AT_ONCE_MAX)
    return await _command_runs(desk, "resume", ids, by=by)


@all_runs_router.post("/stop-all", operation_id="runs_stop_all")
async def stop_all(desk: Desk, by: Actor, asked: wire.Note, mission: Mission = None) -> Page[wire.Effect]:
    """Pause every run now, calls in flight cancelled; what was produced is kept with its cost."""
    await check_mission(desk, mission)
    ids = await _unpaused(desk, mission)
    return await _command_runs(desk, "stop", ids, by=by, note=asked.note)


async def _unpaused(desk: Desk, mission: str | None) -> list[str]:
    """Return the open runs that no open run above them drives and that are not paused."""
    found = await open_roots(desk.services.store, desk.id, within=mission, limit=AT_ONCE_MAX)
    return [run for run, status in found if status != "paused"]
