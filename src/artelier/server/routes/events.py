"""Routes of events: pages of past events, and a live stream."""

from __future__ import annotations

from typing import Annotated

from fastapi import Header, Query, Request
from starlette.responses import Response

from artelier.errors import InvalidRequest
from artelier.server.deps import Desk, Limit, Live, Who
from artelier.server.live.event_encoder import Filter, page_body
from artelier.server.live.hub import TYPE, EventStream
from artelier.server.routes import resource
from artelier.server.wire.server import EventPage

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
