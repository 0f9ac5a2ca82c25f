"""`/v1`: models, chat completions, and responses without a memory, in the shapes of OpenAI.

`artelier/<name>` is the next turn of a chat, or of a new one with a profile. A chat keeps its own
conversation, so of what the client sends only the last words count: a client that repeats the whole of it
names its chat.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from secrets import token_hex
from typing import Any, Protocol, cast

import msgspec
from fastapi import Request
from starlette.responses import Response

from artelier.app import Kernel, TenantKernel
from artelier.chat import Session
from artelier.chat.session.settings import check_chat, said_text
from artelier.errors import ArtelierError, External, Flow, LimitReached, NotFound
from artelier.kernel.queries import reports
from artelier.operations.profile.store import KIND, SHIPPED
from artelier.ports.model import Usage
from artelier.server.background_tasks import Errands, errands_of
from artelier.server.deps import Actor, Core, Desk, Live, Setup, artifacts_of, attachments_of
from artelier.server.errors import openai_error
from artelier.server.live_hub import EventStream, Hub, beating
from artelier.server.openai_api.calls import RUN, SessionCounts, call_model, now_s, place_of, stream_model
from artelier.server.openai_api.replies import CompletionChunks, ProgramAnswer, body_of, completion, frame
from artelier.server.openai_api.requests import (
    AGENTS,
    INLINE,
    AskedCall,
    InlineMedium,
    read_completion,
    refuse,
    refuse_extra,
)
from artelier.server.openai_api.responses import ResponseEvents, read_response, response
from artelier.server.routes import resource
from artelier.server.routes.chats import start_turn
from artelier.server.settings import ServerSettings
from artelier.threads import read_beside_loop

CHAT = "artelier-chat"
LISTED_MAX = 100


class TurnFailed(External):
    """The turn of a chat came to no answer."""

    code = "turn_failed"


async def names_of(desk: TenantKernel, actor: str) -> list[str]:
    """Return the names behind `artelier/`: a hundred profiles and chats each, as the person may read them."""
    stored = await artifacts_of(desk, actor).list(kind=KIND, limit=LISTED_MAX)
    chats = (await desk.chats(limit=LISTED_MAX))["items"]
    return list(
        dict.fromkeys([*SHIPPED, *(one.id for one in stored), *(str(one["chat_id"]) for one in chats)])
    )


async def chat_of(
    desk: TenantKernel, asked: AskedCall, headers: Mapping[str, str], *, actor: str, model: str
) -> Session:
    """Return the chat that is talked to: the named one, or that of `Artelier-Chat` with the named profile.

    Errors: `NotFound` for a name that is neither; `InvalidRequest` for what a chat decides itself.
    """
    for param, given in (("tools", asked.tools), ("response_format", asked.output_schema)):
        if given:
            raise refuse(
                param, f"{param} are a matter of the chat's profile", hint="Ask a model by its name."
            )
    refuse_extra(asked, "is a matter of the chat's settings")
    if headers.get(RUN):
        raise refuse(RUN, "Artelier-Run is for models: a chat records its turns itself", hint="Leave it out.")
    if not (name := asked.chat):
        raise refuse("model", "this names no chat", expected=f"{AGENTS}<chat or profile>")
    try:
        if await Session(desk, check_chat(name), branch="main").exists():
            return await Session.open(desk, name, by=actor)
    except NotFound:
        pass
    if name not in await names_of(desk, actor):
        raise NotFound(f"there is no chat and no profile {name[:80]!r}", hint="GET /v1/models lists them.")
    chat = headers.get(CHAT, "")
    if not chat and any(one.role == "assistant" for one in asked.messages):
        raise refuse(
            "messages",
            "this conversation has gone on before, and its chat is not named",
            expected="the header Artelier-Chat with the name of the chat",
            hint="Give it from the first message on: the chat keeps the conversation.",
        )
    id_ = check_chat(chat or f"openai-{token_hex(8)}")
    is_new = not await Session(desk, id_, branch="main").exists()
    return await Session.open(desk, id_, by=actor, profile=name, **({"model": model} if is_new else {}))


def words_of(asked: AskedCall) -> str:
    """Return what the person says now. Errors: `InvalidRequest` if the last word is not theirs."""
    last = asked.messages[-1]
    if last.role != "user":
        raise refuse(
            "messages", "nobody has said anything", expected="a user message at the end", got=last.role
        )
    return said_text(last.text)


def _shown_of(asked: AskedCall) -> list[InlineMedium]:
    """Return what the person shows with their words."""
    content = asked.messages[-1].content
    pieces = () if isinstance(content, str) else content
    return [cast(InlineMedium, one.data) for one in pieces if one.type == INLINE]


async def turn(
    session: Session, errands: Errands, asked: AskedCall, *, actor: str
) -> AsyncGenerator[str | ProgramAnswer]:
    """Yield pieces of the reply, and the answer last. The turn goes on without its reader.

    A reply that was asked for again is given whole at the end. Errors: `TurnFailed`; those of `Session.ask`.
    """
    shown = await attachments_of(session.desk, actor, _shown_of(asked))
    started = await start_turn(session, errands, words_of(asked), attachments=shown, **_params(asked))
    run_id, sent, is_whole = started.run_id, "", True
    async with aclosing(session.watch(run_id)) as items:
        async for item in items:
            if item.type == "main_llm.delta":
                offset, text = item.data["offset"], item.data["text"]
                known = sent[offset:]
                is_whole = is_whole and offset <= len(sent) and text.startswith(known)
                if is_whole and (piece := text[len(known) :]):
                    sent += piece
                    yield piece
            elif item.type == "run.suspended":
                raise TurnFailed(
                    f"the turn waits: it is {item.data.get('status', 'waiting')}",
                    hint=f"ProgramAnswer it in Mission Control: run {run_id}.",
                )
            elif item.type == "run.finished":
                yield await _answer(session, asked, run_id, item.data)
                return


async def _answer(
    session: Session, asked: AskedCall, run_id: str, end: Mapping[str, object]
) -> ProgramAnswer:
    reply = await session.reply(run_id)
    if reply is None or end["status"] == "failed":
        why = end.get("message") or end.get("reason") or end["status"]
        raise TurnFailed(f"the turn has no answer: {why}"[:500], hint=f"Look at run {run_id}.")
    shown = await reports.show_run(session.desk.services, session.desk.id, run_id)
    usage = shown["usage"]
    return ProgramAnswer(
        run_id=run_id,
        key="reply",
        model=asked.model,
        created_s=now_s(session.desk),
        text=reply.text,
        usage=Usage(
            input_tokens=usage["input_tokens"],
            cached_input_tokens=usage["cached_input_tokens"],
            output_tokens=usage["output_tokens"],
        ),
        cost_microusd=shown["cost_microusd"],
    )


def _params(asked: AskedCall) -> dict[str, Any]:
    return {name: value for name, value in asked.params.items() if name != "tool_choice"}


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
    asked = await read_beside_loop(len(body), read_completion, body)
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
    asked = await read_beside_loop(len(body), read_response, body)
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
        if asked.chat is None:
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
        if asked.chat is not None:
            session = await chat_of(desk, asked, headers, actor=self._actor, model=self._setup.model)
            items = turn(session, errands_of(self._request.app), asked, actor=self._actor)
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
