"""`/api/v1/a2a`, and the card that leads there."""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from artelier.errors import ArtelierError, Flow, NotFound
from artelier.server.background_tasks import errands_of
from artelier.server.deps import Actor, Core, Desk, Live, Setup
from artelier.server.live_hub import EventStream, beating
from artelier.server.routes import resource
from artelier.threads import read_beside_loop

if TYPE_CHECKING:
    from a2a import types as a2a

    from artelier.server.a2a.protocol import AskedRpc
    from artelier.server.a2a.turns import TaskDesk

router = resource("a2a", is_documented=False)
card_router = APIRouter(include_in_schema=False)

CARD = "/.well-known/agent-card.json"
CARD_AGE = "public, max-age=300"


async def _load() -> None:
    """Import what speaks the protocol. Errors: `NotFound` if the extra is not installed."""
    if importlib.util.find_spec("a2a") is None:
        raise NotFound(
            "this server does not speak A2A", hint="pip install 'artelier[a2a]', and start it again."
        )
    await asyncio.to_thread(importlib.import_module, "artelier.server.a2a.turns")
    await asyncio.to_thread(importlib.import_module, "artelier.server.a2a.protocol")


@card_router.get(CARD)
async def show_card(request: Request) -> Response:
    """The agent that answers here, and its address. Public, as the protocol wants it."""
    await _load()
    from artelier.server.a2a.protocol import agent_card

    body = agent_card(str(request.base_url))
    return Response(body, media_type="application/json", headers={"Cache-Control": CARD_AGE})


@router.post("")
async def call(request: Request, desk: Desk, kernel: Core, actor: Actor, hub: Live, setup: Setup) -> Response:
    """One request of JSON-RPC: its answer, or a stream of answers."""
    await _load()
    from a2a.utils.errors import A2AError

    from artelier.server.a2a.protocol import (
        STREAMED,
        RpcRefused,
        check_version,
        error_body,
        read_request,
        refusal_of,
    )
    from artelier.server.a2a.turns import TaskDesk

    try:
        body = await request.body()
        asked = await read_beside_loop(len(body), read_request, body)
        tasks = TaskDesk(
            kernel=kernel, desk=desk, errands=errands_of(request.app), model=setup.model, by=actor
        )
        try:
            check_version(request.headers.get("a2a-version", ""))
            if asked.method not in STREAMED:
                return Response(await _answer(tasks, asked), media_type="application/json")
            items = await _items(tasks, asked)
            first = await anext(items)
        except (A2AError, ArtelierError, Flow) as error:
            raise refusal_of(asked.id, error) from None
    except RpcRefused as refused:
        return Response(error_body(refused), media_type="application/json")
    frames = _frames(asked, first, items)
    return EventStream(beating(frames, desk.services.clock, is_over=lambda: hub.is_closed))


async def _answer(tasks: TaskDesk, asked: AskedRpc) -> bytes:
    from a2a.types import SendMessageResponse

    from artelier.server.a2a.protocol import result_body
    from artelier.server.a2a.tasks import history_of

    params = asked.params
    if asked.method == "SendMessage":
        result: Any = SendMessageResponse(task=await tasks.send(params))
    elif asked.method == "GetTask":
        result = await tasks.show(params.id, history=history_of(params))
    elif asked.method == "CancelTask":
        result = await tasks.cancel(params.id)
    else:
        result = await tasks.reader.page(params)
    return result_body(asked.id, result)


async def _items(tasks: TaskDesk, asked: AskedRpc) -> AsyncGenerator[a2a.StreamResponse]:
    if asked.method == "SubscribeToTask":
        return tasks.follow(asked.params.id)
    from artelier.server.a2a.tasks import history_of

    config = asked.params.configuration
    feed = await tasks.begin(asked.params)
    return tasks.stream(feed, history=history_of(config), modes=config.accepted_output_modes)


async def _frames(asked: AskedRpc, first: Any, items: AsyncGenerator[Any]) -> AsyncGenerator[bytes]:
    """Answers of a stream that has begun; what goes wrong from here on is the last of them."""
    from artelier.server.a2a.protocol import error_body, refusal_of, result_body

    async with aclosing(items):
        try:
            item: Any = first
            while item is not None:
                yield b"data: %s\n\n" % result_body(asked.id, item)
                item = await anext(items, None)
        except (ArtelierError, Flow) as error:
            yield b"data: %s\n\n" % error_body(refusal_of(asked.id, error))
