"""`/sessions/{id}/turns` and the other verbs that have a model speak. Each answers at once with a run's id.

The turn goes on in the server; `events` follows it: stored events by their `seq`, and the reply as it is
written. Who comes back says after which seq to go on, by `after` or `Last-Event-ID`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Annotated, Any

import msgspec
from fastapi import Header, Query, Request

from artelier.chat.session.session import Session
from artelier.chat.session.settings import said_text
from artelier.errors import NotFound
from artelier.server.background_tasks import errands_of
from artelier.server.deps import Actor, Desk, Live
from artelier.server.live.event_stream import TYPE, EventStream
from artelier.server.live.heartbeat import beating
from artelier.server.live.hub import Hub
from artelier.server.routes import resource
from artelier.server.routes.chats.chat_common import drive_turn, session_of, start_turn, turn_number
from artelier.server.routes.missions.mission_common import let_go
from artelier.server.wire.chats import sessions as wire
from artelier.server.wire.models import AfterNumber, Limit, Page

router = resource("sessions")

RunOf = Annotated[
    str | None, Query(max_length=512, description="A run of the chat: else the newest of the branch.")
]
LastEventId = Annotated[int | None, Header(ge=0, le=2**53)]
_SSE: dict[int | str, dict[str, Any]] = {200: {"description": "Events as they come.", "content": {TYPE: {}}}}


@router.post("/{id}/turns", status_code=202, operation_id="sessions_say")
async def say(request: Request, desk: Desk, actor: Actor, id: str, body: wire.TurnAsk) -> wire.TurnStarted:
    """Say something; the reply is a run."""
    session = await session_of(desk, id, body.branch, by=actor)
    return await start_turn(
        session, errands_of(request.app), body.text, deadline_s=body.deadline_s, **body.params.given_fields()
    )


@router.post(
    "/{id}/turns/stream",
    status_code=200,
    operation_id="sessions_say_stream",
    response_class=EventStream,
    responses=_SSE,
)
async def say_stream(
    request: Request, desk: Desk, actor: Actor, hub: Live, id: str, body: wire.TurnAsk
) -> EventStream:
    """Say something, and follow the reply. Who leaves early misses it only here: the turn goes on."""
    session = await session_of(desk, id, body.branch, by=actor)
    started = await start_turn(
        session, errands_of(request.app), body.text, deadline_s=body.deadline_s, **body.params.given_fields()
    )
    return _stream(session, hub, started.run_id, after=0)


@router.post("/{id}/regenerate", status_code=202, operation_id="sessions_regenerate")
async def regenerate(
    request: Request, desk: Desk, actor: Actor, id: str, body: wire.TurnAgain
) -> wire.TurnStarted:
    """Another variant of the newest turn, with the state from before the turn."""
    session = await session_of(desk, id, body.branch, by=actor)
    return await _again(request, session, body, "regenerate")


@router.post("/{id}/continue", status_code=202, operation_id="sessions_continue")
async def continue_(
    request: Request, desk: Desk, actor: Actor, id: str, body: wire.TurnAgain
) -> wire.TurnStarted:
    """Extend the selected reply."""
    session = await session_of(desk, id, body.branch, by=actor)
    return await _again(request, session, body, "continue")


async def _again(request: Request, session: Session, body: wire.TurnAgain, trigger: str) -> wire.TurnStarted:
    return await start_turn(
        session,
        errands_of(request.app),
        trigger=trigger,
        deadline_s=body.deadline_s,
        **body.params.given_fields(),
    )


@router.post("/{id}/edit", status_code=202, operation_id="sessions_edit")
async def edit(request: Request, desk: Desk, actor: Actor, id: str, body: wire.Editing) -> wire.TurnStarted:
    """Say a turn in other words, on a new branch that begins before it."""
    session = await session_of(desk, id, body.branch, by=actor)
    text = said_text(body.text)  # before the branch is made
    number = await turn_number(session, body.turn)
    made = await session.branch(body.name, at_turn=number - 1)
    return await start_turn(made, errands_of(request.app), text)


@router.post("/{id}/resume", status_code=202, operation_id="sessions_resume")
async def resume(
    request: Request, desk: Desk, actor: Actor, id: str, body: wire.OnBranch
) -> wire.TurnStarted:
    """Go on with the branch's newest run: after a restart, an approval, a raised budget."""
    session = await session_of(desk, id, body.branch, by=actor)
    run_id, errands = await _newest(session), errands_of(request.app)
    await let_go(errands, ("turn", session.desk.id, run_id), desk, run_id)
    drive_turn(session, errands, run_id)
    return wire.TurnStarted(run_id=run_id, branch=session.branch_name)


@router.post("/{id}/stop", operation_id="sessions_stop")
async def stop(desk: Desk, actor: Actor, id: str, body: wire.Stopping) -> wire.TurnStarted:
    """End the reply that is being written; what was said so far is kept."""
    session = await session_of(desk, id, body.branch, by=actor)
    run_id = await _newest(session)
    await session.cancel(note=body.note)
    return wire.TurnStarted(run_id=run_id, branch=session.branch_name)


@router.get(
    "/{id}/events", operation_id="sessions_events", response_model=Page[wire.RunEvent], responses=_SSE
)
async def events(
    request: Request,
    desk: Desk,
    hub: Live,
    id: str,
    run_id: RunOf = None,
    branch: Annotated[str, Query(max_length=64)] = "main",
    after: AfterNumber = 0,
    limit: Limit = 200,
    last_event_id: LastEventId = None,
) -> Any:
    """Events of a run of the chat after a seq: a page, or with `Accept: text/event-stream` as they come."""
    session = await session_of(desk, id, branch)
    run = run_id if run_id is not None else await _newest(session)
    start = last_event_id if last_event_id is not None else after
    found = await session.events(run, after=start, limit=limit)  # a run of another chat is none
    if TYPE in request.headers.get("accept", ""):
        return _stream(session, hub, run, after=start)
    following = found[-1].seq if found else None
    return {"items": [one.plain() for one in found], "next": following}


async def _newest(session: Session) -> str:
    """Errors: `NotFound` before the first run of the branch."""
    run_id = (await session.branch_row()).run
    if not run_id:
        raise NotFound(f"branch {session.branch_name} of chat {session.chat_id} has no run yet")
    return run_id


def _stream(session: Session, hub: Hub, run_id: str, *, after: int) -> EventStream:
    frames = _follow(session, run_id, after=after)
    return EventStream(beating(frames, session.desk.services.clock, is_over=lambda: hub.is_closed))


async def _follow(session: Session, run_id: str, *, after: int) -> AsyncGenerator[bytes]:
    """First which run it is, then its events up to its end."""
    yield _frame({"type": "run", "run_id": run_id})
    async with aclosing(session.watch(run_id, after=after)) as items:
        async for one in items:
            yield _frame(one.plain())


def _frame(event: dict[str, Any]) -> bytes:
    """One message; only what is stored has an id to come back to."""
    seq = event.get("seq")
    lead = b"" if seq is None else b"id: %d\n" % seq
    body = msgspec.json.encode(event)
    return lead + b"event: %s\ndata: %s\n\n" % (event["type"].encode(), body)
