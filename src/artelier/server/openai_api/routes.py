"""`/v1`: models, chat completions, and responses without a memory, in the shapes of OpenAI."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from typing import Protocol, cast

import msgspec
from fastapi import Request
from starlette.responses import Response

from artelier.app import Kernel, TenantKernel
from artelier.errors import ArtelierError, Flow, LimitReached, NotFound
from artelier.server.background_tasks import errands_of
from artelier.server.deps import Actor, Core, Desk, Live, Setup
from artelier.server.errors import openai_error
from artelier.server.live.hub import EventStream, Hub, beating
from artelier.server.openai_api.calls import (
    SessionCounts,
    beside_loop,
    call_model,
    now_s,
    place_of,
    stream_model,
)
from artelier.server.openai_api.chats import chat_of, names_of, turn
from artelier.server.openai_api.replies import CompletionChunks, ProgramAnswer, body_of, completion, frame
from artelier.server.openai_api.requests import AGENTS, AskedCall, read_completion
from artelier.server.openai_api.responses import ResponseEvents, read_response, response
from artelier.server.routes import resource
from artelier.server.settings import ServerSettings

router = resource("openai", base="/v1", prefix="", is_documented=False)

Items = AsyncGenerator[str | ProgramAnswer]


class AnswerPieces(Protocol):
    """An answer in pieces, as one of the two addresses sends it."""

    def begin(self) -> bytes: ...

    def delta(self, text: str) -> bytes: ...

    def end(self, answer: ProgramAnswer) -> list[bytes]: ...


@router.get("/models")
async def list_models(desk: Desk, actor: Actor, setup: Setup) -> Response:
    """The model of this server, and chats and profiles as `artelier/<name>`."""
    names = [setup.model, *(f"{AGENTS}{one}" for one in await names_of(desk, actor))]
    return _json(ModelsShown(data=[_model(one) for one in dict.fromkeys(names)]))


@router.get("/models/{name:path}")
async def show_model(desk: Desk, kernel: Core, actor: Actor, name: str) -> Response:
    """One of them. Errors: `NotFound`, `UnknownModel`."""
    if not name.startswith(AGENTS):
        kernel.models.resolve(name)
    elif name.removeprefix(AGENTS) not in await names_of(desk, actor):
        raise NotFound(f"there is no model {name[:80]!r}", hint="GET /v1/models lists them.")
    return _json(_model(name))


class ModelShown(msgspec.Struct, frozen=True, kw_only=True):
    """A model, or a chat or profile that is talked to like one."""

    id: str
    owned_by: str
    object: str = "model"
    created: int = 0


class ModelsShown(msgspec.Struct, frozen=True, kw_only=True):
    data: list[ModelShown]
    object: str = "list"


def _json(value: object, *, headers: Mapping[str, str] | None = None) -> Response:
    return Response(body_of(value), media_type="application/json", headers=headers)


def _model(name: str) -> ModelShown:
    owner = "artelier" if name.startswith(AGENTS) or ":" not in name else name.partition(":")[0]
    return ModelShown(id=name, owned_by=owner)


@router.post("/chat/completions")
async def complete(
    request: Request, desk: Desk, kernel: Core, actor: Actor, hub: Live, setup: Setup
) -> Response:
    """One answer to a conversation."""
    body = await request.body()
    asked = await beside_loop(read_completion, body)
    exchange = ProgramExchange(request, desk, kernel, hub, setup, actor)
    if not asked.is_streamed:
        answer = await exchange.answer(asked, body)
        return _json(completion(answer), headers=answer.headers)
    return await exchange.stream(
        asked, body, lambda head: CompletionChunks(head, wants_usage=asked.wants_usage)
    )


@router.post("/responses")
async def respond(
    request: Request, desk: Desk, kernel: Core, actor: Actor, hub: Live, setup: Setup
) -> Response:
    """The same in the form of `/v1/responses`; nothing is kept for a later request."""
    body = await request.body()
    asked = await beside_loop(read_response, body)
    exchange = ProgramExchange(request, desk, kernel, hub, setup, actor)
    if not asked.is_streamed:
        answer = await exchange.answer(asked, body)
        return _json(response(answer), headers=answer.headers)
    return await exchange.stream(asked, body, ResponseEvents)


class ProgramExchange:
    """One request: who answers it, and how the answer goes out."""

    def __init__(
        self,
        request: Request,
        desk: TenantKernel,
        kernel: Kernel,
        hub: Hub,
        setup: ServerSettings,
        actor: str,
    ) -> None:
        self._request = request
        self._desk = desk
        self._kernel = kernel
        self._hub = hub
        self._setup = setup
        self._actor = actor

    async def answer(self, asked: AskedCall, body: bytes) -> ProgramAnswer:
        """Return the whole answer. Errors: those of the model, or of the chat."""
        if not asked.chat:
            place = await place_of(self._desk, self._sessions(), self._request.headers, body)
            try:
                return await call_model(self._kernel, self._desk, asked, place)
            except Flow as flow:
                raise _stopped(flow) from None
        items, _ = await self._items(asked, body)
        async with aclosing(items):
            async for item in items:
                if isinstance(item, ProgramAnswer):
                    return item
        raise NotFound("the turn has ended without an answer")

    async def stream(
        self, asked: AskedCall, body: bytes, pieces_of: Callable[[ProgramAnswer], AnswerPieces]
    ) -> EventStream:
        """Return the answer in pieces. What goes wrong before the first is an error of the request."""
        items, head = await self._items(asked, body)
        try:
            first = await anext(items)
        except Flow as flow:
            raise _stopped(flow) from None
        headers = {"Artelier-Run": head.run_id}
        if isinstance(first, ProgramAnswer):
            headers = first.headers
        frames = _frames(first, items, pieces_of(head))
        stream = EventStream(beating(frames, self._desk.services.clock, is_over=lambda: self._hub.is_closed))
        stream.headers.update(headers)
        return stream

    async def _items(self, asked: AskedCall, body: bytes) -> tuple[Items, ProgramAnswer]:
        desk, headers = self._desk, self._request.headers
        head = ProgramAnswer(run_id="", key="", model=asked.model, created_s=now_s(desk), text="")
        if asked.chat:
            session = await chat_of(desk, asked, headers, actor=self._actor, model=self._setup.model)
            items = turn(session, errands_of(self._request.app), asked)
            return items, ProgramAnswer(
                run_id=session.chat_id, key="reply", model=head.model, created_s=head.created_s, text=""
            )
        place = await place_of(desk, self._sessions(), headers, body)
        return stream_model(self._kernel, desk, asked, place), ProgramAnswer(
            run_id=place.run_id, key=place.key, model=head.model, created_s=head.created_s, text=""
        )

    def _sessions(self) -> SessionCounts:
        state = self._request.app.state
        if not hasattr(state, "openai_sessions"):
            state.openai_sessions = SessionCounts()
        return cast(SessionCounts, state.openai_sessions)


def _stopped(flow: Flow) -> LimitReached:
    """Return the error of a run that cannot go on by itself: its budget is spent, or a person holds it."""
    return LimitReached(
        str(flow), hint="Raise its limit or the tenant's budget, or resume it, and ask again."
    )


async def _frames(first: str | ProgramAnswer, items: Items, pieces: AnswerPieces) -> AsyncGenerator[bytes]:
    """Frames of a stream that has begun: an error from here on is an event of its own."""
    try:
        yield pieces.begin()
        item: str | ProgramAnswer | None = first
        while item is not None:
            if isinstance(item, ProgramAnswer):
                for one in pieces.end(item):
                    yield one
                return
            yield pieces.delta(item)
            item = await anext(items, None)
    except (ArtelierError, Flow) as error:
        told = _stopped(error) if isinstance(error, Flow) else error
        yield frame(openai_error(told)[1])
    finally:
        await items.aclose()
