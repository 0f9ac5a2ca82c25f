"""`/agui`: the log, and turns of chats, in the events of AG-UI."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Header, Query, Request
from starlette.responses import Response

from artelier.server.agui.event_follower import Following, Telling, chat_for, read_input, seen_of, words_of
from artelier.server.background_tasks import errands_of
from artelier.server.deps import Actor, Desk, Live, Setup, Who
from artelier.server.live.hub import TYPE, EventStream, beating
from artelier.server.routes import resource
from artelier.server.routes.chats.sessions import start_turn

router = resource("agui")

_SSE: dict[int | str, dict[str, Any]] = {
    200: {"description": "AG-UI events.", "content": {TYPE: {}}},
    204: {"description": "The run has ended, and all of it was seen."},
}
_INPUT = {
    "requestBody": {
        "required": True,
        "description": "RunAgentInput of AG-UI 1.0.",
        "content": {"application/json": {"schema": {"type": "object"}}},
    }
}


@router.get("", response_model=None, responses=_SSE)
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


@router.post(
    "",
    status_code=200,
    response_model=None,
    response_class=EventStream,
    responses={200: _SSE[200]},
    openapi_extra=_INPUT,
)
async def run(request: Request, desk: Desk, actor: Actor, hub: Live, setup: Setup) -> EventStream:
    """Say something in the chat that the thread names, and follow the reply. The turn goes on without us."""
    asked = read_input(await request.body())
    words = words_of(asked)
    session = await chat_for(desk, asked, by=actor, model=setup.model)
    started = await start_turn(session, errands_of(request.app), words)
    frames = Telling(session, started.run_id, asked).frames()
    return EventStream(beating(frames, desk.services.clock, is_over=lambda: hub.is_closed))
