"""Routes of events: pages of past ones, a live stream, what they add up to, and the same for AG-UI."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import suppress
from typing import Annotated, Any

from ag_ui import core as agui
from fastapi import Header, Query, Request
from starlette.responses import Response

from artelier.app import TenantKernel
from artelier.chat.session.session import Session
from artelier.chat.session.settings import check_chat
from artelier.errors import Conflict, InvalidRequest
from artelier.log import run_stream
from artelier.server.agui.agent_turn import AgentTelling, AgentThread
from artelier.server.agui.event_follower import Following, Telling, chat_for, seen_of
from artelier.server.agui.interrupts import read_resume
from artelier.server.agui.mission_turn import MissionThread, is_mission
from artelier.server.agui.run_input import INPUT_SCHEMA, is_for_agent, read_input, read_said, wishes_of
from artelier.server.background_tasks import LET_GO_S, Errands, errands_of, let_go
from artelier.server.deps import Actor, Core, Desk, Limit, Live, Setup, Who
from artelier.server.event_encoder import Filter, page_body
from artelier.server.graph.records import GraphOut
from artelier.server.live_hub import TYPE, EventStream, beating
from artelier.server.routes import resource
from artelier.server.routes.chats import drive_turn, start_turn
from artelier.server.wire.server import EventPage
from artelier.threads import read_beside_loop

router = resource("events")

POSITION_MAX = 2**53

After = Annotated[int, Query(ge=0, le=POSITION_MAX, description="A position; 0 is the beginning.")]
Prefix = Annotated[
    str, Query(max_length=512, description="An id: its streams, those below it, and the tenant's.")
]
Kinds = Annotated[list[str] | None, Query(max_length=50, description="Only these kinds.")]
LastSeen = Annotated[str | None, Header(alias="Last-Event-ID", max_length=32)]


@router.get("", response_model=EventPage, responses={200: {"content": {TYPE: {}}}})
async def page(
    request: Request,
    desk: Desk,
    who: Who,
    hub: Live,
    after: After = 0,
    limit: Limit = 500,
    prefix: Prefix = "",
    kind: Kinds = None,
    last_event_id: LastSeen = None,
) -> Response:
    """A page of events by position; with `Accept: text/event-stream` all of them, and then live."""
    wants = Filter(tenant=desk.id, prefix=prefix, kinds=frozenset(kind or ()))
    if TYPE in request.headers.get("accept", ""):
        return EventStream(
            await hub.stream(wants, after=_resume_position(after, last_event_id), user=who.listener)
        )
    found, next_, head = await hub.page(wants, after=after, limit=limit)
    body = page_body(found, next_=next_, head=head)
    return Response(body, media_type="application/json")


@router.get("/stream", response_model=None, responses={200: {"content": {TYPE: {}}}})
async def stream(
    desk: Desk,
    who: Who,
    hub: Live,
    after: After = 0,
    prefix: Prefix = "",
    kind: Kinds = None,
    last_event_id: LastSeen = None,
) -> EventStream:
    """Everything stored after a position, then live, without gap or duplicate."""
    wants = Filter(tenant=desk.id, prefix=prefix, kinds=frozenset(kind or ()))
    return EventStream(
        await hub.stream(wants, after=_resume_position(after, last_event_id), user=who.listener)
    )


def _resume_position(after: int, last_event_id: str | None) -> int:
    """Return where a stream goes on: what a browser has seen last counts more than its first address.

    Errors: `InvalidRequest` for what is no position.
    """
    if not last_event_id:
        return after
    if not last_event_id.isascii() or not last_event_id.isdigit() or len(last_event_id) > 15:
        raise InvalidRequest("Last-Event-ID is no position", expected="a number", got="other text")
    return int(last_event_id)


graph_router = resource("graph")


@graph_router.get("", response_model=GraphOut)
async def show(
    desk: Desk,
    hub: Live,
    at: Annotated[int | None, Query(ge=0, le=POSITION_MAX, description="A position of the past.")] = None,
) -> Response:
    """Everything that the page shows, as it is now or was after an event; go on with its stream."""
    return Response(await hub.graph(desk.id, at=at), media_type="application/json")


@graph_router.get("/stream", response_model=None, responses={200: {"content": {TYPE: {}}}})
async def stream_rows(
    desk: Desk, who: Who, hub: Live, after: After = 0, last_event_id: LastSeen = None
) -> EventStream:
    """Changes since a position, then live: `items` are events, `graph` has the rows that changed with them.

    The last message may be `{"anew": true}`: begin with the whole graph again.
    """
    position = _resume_position(after, last_event_id)
    return EventStream(await hub.stream_rows(desk.id, after=position, user=who.listener))


agui_router = resource("agui")

_SSE: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "Server-sent events; the data of each is one event of AG-UI 1.0, from RUN_STARTED to"
        " RUN_FINISHED or RUN_ERROR.",
        "content": {TYPE: {"schema": {"type": "string"}}},
    },
    204: {"description": "The run has ended, and all of it was seen."},
}
_INPUT = {
    "requestBody": {
        "required": True,
        "description": "RunAgentInput of AG-UI 1.0; `forwardedProps` may hold wishes for this server.",
        "content": {"application/json": {"schema": {"$ref": f"#/components/schemas/{INPUT_SCHEMA}"}}},
    }
}


@agui_router.get("", response_model=None, responses=_SSE)
async def follow(
    desk: Desk,
    who: Who,
    hub: Live,
    run_id: Annotated[str, Query(max_length=512, description="With all below it; else all runs.")] = "",
    after: Annotated[int, Query(ge=0, le=2**53, description="A position of the log.")] = 0,
    last_event_id: Annotated[str | None, Header(alias="Last-Event-ID", max_length=32)] = None,
) -> Response:
    """A run, or all of them, as AG-UI events: what is stored, then live; of a run up to its end."""
    following = Following(desk, hub, run_id, user=who.listener)
    seen = seen_of(last_event_id) if last_event_id else None
    frames = await following.begin(after=after, seen=seen)
    if following.is_done:
        return Response(status_code=204)
    return EventStream(frames)


@agui_router.post(
    "",
    status_code=200,
    response_model=None,
    response_class=EventStream,
    responses={200: _SSE[200]},
    openapi_extra=_INPUT,
)
async def run(
    request: Request, kernel: Core, desk: Desk, actor: Actor, who: Who, hub: Live, setup: Setup
) -> EventStream:
    """Say something to a chat, an agent or a mission, and follow what comes of it. It goes on without us."""
    body = await request.body()
    asked = await read_beside_loop(len(body), read_input, body)
    wishes = wishes_of(asked)
    if wishes.mission or await is_mission(desk, asked.thread_id):
        mission = MissionThread(
            desk=desk,
            hub=hub,
            errands=errands_of(request.app),
            asked=asked,
            wishes=wishes,
            model=setup.model,
            by=actor,
            user=who.listener,
        )
        frames = await mission.begin()
    elif await is_for_agent(desk, asked, wishes):
        thread = AgentThread(
            kernel=kernel,
            desk=desk,
            asked=asked,
            model=wishes.model or setup.model,
            by=actor,
            budget_usd=wishes.budget_usd,
        )
        frames = await _run_agent(errands_of(request.app), thread)
    elif asked.resume:
        frames = await _resume_turn(errands_of(request.app), desk, asked, by=actor)
    else:
        said = await read_said(desk, actor, asked)
        session = await chat_for(desk, asked, wishes, by=actor, model=setup.model)
        started = await start_turn(session, errands_of(request.app), said.words, attachments=said.attachments)
        frames = Telling(session, started.run_id, asked).frames()
    return EventStream(beating(frames, desk.services.clock, is_over=lambda: hub.is_closed))


async def _run_agent(errands: Errands, thread: AgentThread) -> AsyncGenerator[bytes]:
    """Let an agent take a turn, or go on with what the client's tools gave. Errors: as of `AgentThread`."""
    asked, key = thread.asked, ("agui", thread.desk.id, thread.session)
    is_answer = bool(asked.messages) and asked.messages[-1].role == "tool"
    if not is_answer and not asked.resume:
        thread.said = await read_said(thread.desk, thread.by, asked)
    if (going := errands.at_work(key)) is not None:  # what it had to say was said a moment ago
        await asyncio.wait({going.task}, timeout=LET_GO_S)
    telling = AgentTelling(thread)
    errands.start(key, telling.drive(await thread.begin()))
    await telling.begun()
    return telling.frames()


async def _resume_turn(
    errands: Errands, desk: TenantKernel, asked: agui.RunAgentInput, *, by: str
) -> AsyncGenerator[bytes]:
    """Give a chat's turn the answers that it waits for, and let it go on. Errors: as of `read_resume`."""
    session = Session(desk, check_chat(asked.thread_id), branch="main").by(by)
    answers = await read_resume(desk, asked.resume or [], thread=session.chat_id)
    runs = {"/".join(one.run_id.split("/")[:2]) for one in answers}  # of what it drives, the turn
    if len(runs) > 1:
        raise InvalidRequest("the answers are of several turns", expected="those of one", got=len(runs))
    run_id = runs.pop()
    await let_go(errands, ("turn", desk.id, run_id), desk, run_id)
    after, _ = await desk.services.store.head(run_stream(desk.id, run_id))
    for one in answers:
        await one.record(desk, by=by)
    with suppress(Conflict):  # it is being driven already
        drive_turn(session, errands, run_id)
    return Telling(session, run_id, asked, after=after).frames()
