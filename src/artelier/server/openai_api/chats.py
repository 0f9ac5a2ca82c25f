"""`artelier/<name>`: the next turn of a chat, or of a new one with a profile, for a client of OpenAI's.

A chat keeps its own conversation, so of what the client sends only the last words count: a client that
repeats the whole of it names its chat.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from secrets import token_hex
from typing import Any, cast

from artelier.app import TenantKernel
from artelier.chat import Session
from artelier.chat.session.settings import check_chat, said_text
from artelier.errors import External, NotFound
from artelier.kernel.queries import reports
from artelier.operations.profile.store import KIND, SHIPPED
from artelier.ports.model import Usage
from artelier.server.background_tasks import Errands
from artelier.server.deps import artifacts_of
from artelier.server.openai_api.calls import RUN, inline_bytes, now_s
from artelier.server.openai_api.replies import ProgramAnswer
from artelier.server.openai_api.requests import INLINE, AskedCall, InlineMedium, refuse
from artelier.server.routes.chats import start_turn

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
    if headers.get(RUN):
        raise refuse(RUN, "Artelier-Run is for models: a chat records its turns itself", hint="Leave it out.")
    name = asked.chat
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


async def _shown_of(asked: AskedCall) -> list[bytes]:
    """Return what the person shows with their words. Errors: `InvalidRequest` for what is no base64."""
    content = asked.messages[-1].content
    pieces = () if isinstance(content, str) else content
    return [await inline_bytes(cast(InlineMedium, one.data)) for one in pieces if one.type == INLINE]


async def turn(session: Session, errands: Errands, asked: AskedCall) -> AsyncGenerator[str | ProgramAnswer]:
    """Yield pieces of the reply, and the answer last. The turn goes on without its reader.

    A reply that was asked for again is given whole at the end. Errors: `TurnFailed`; those of `Session.ask`.
    """
    shown = await _shown_of(asked)
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
