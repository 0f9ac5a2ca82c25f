"""One turn of a chat for an AG-UI client: asked for, driven beside the answer, told as it is written.

The reply is streamed as the model writes it. Operations after it may make another text of it; then the
stream ends with the conversation as it stands, so that what a client shows is what the chat holds.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from ag_ui import core as agui
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from artelier.app import TenantKernel
from artelier.chat.session.session import Session
from artelier.chat.session.settings import check_chat, said_text
from artelier.errors import InvalidRequest
from artelier.server.agui.event_fold import PROTOCOL
from artelier.server.agui.event_follower import json_of

Outcome = agui.RunFinishedSuccessOutcome | agui.RunFinishedInterruptOutcome | agui.RunFinishedCancelledOutcome

RUN_CHARS_MAX = 200
"""Of a client's name for its run."""


class Wishes(BaseModel):
    """The accepted keys of `forwardedProps`; all other keys are ignored."""

    model_config = ConfigDict(extra="ignore")

    model: str | None = Field(default=None, min_length=1, max_length=200)
    profile: str | None = Field(default=None, max_length=200)


def read_input(body: bytes) -> agui.RunAgentInput:
    """Errors: `InvalidRequest` that names what is wrong, and not what came."""
    try:
        return agui.RunAgentInput.model_validate_json(body)
    except ValidationError as error:
        raise _misfit(error, "the body is no RunAgentInput") from None


def _misfit(error: ValidationError, what: str) -> InvalidRequest:
    named = [
        f"{'.'.join(str(step)[:80] for step in one['loc'])}: {one['msg']}"
        for one in error.errors(include_input=False, include_url=False)[:10]
    ]
    return InvalidRequest(f"{what}: " + "; ".join(named)[:1000], expected="RunAgentInput of AG-UI 1.0")


def words_of(asked: agui.RunAgentInput) -> str:
    """The last thing that the person said. Errors: `InvalidRequest` for none, or for more than text."""
    if asked.resume:
        raise InvalidRequest(
            "this server resumes nothing by AG-UI",
            hint="Answer an approval with POST /api/v1/runs/{id}/approve; the turn goes on by itself.",
        )
    said = next((one for one in reversed(asked.messages) if one.role == "user"), None)
    if said is None or asked.messages[-1].role != "user":
        raise InvalidRequest("nobody has said anything", expected="a user message at the end")
    if isinstance(said.content, str):
        return said_text(said.content)
    pieces: list[str] = []
    for part in said.content:
        if part.type != "text":
            raise InvalidRequest("a turn is text", expected="text parts only", got=part.type)
        pieces.append(part.text)
    return said_text("\n".join(pieces))


async def chat_for(desk: TenantKernel, asked: agui.RunAgentInput, *, by: str, model: str) -> Session:
    """The chat that the thread names, made if it is not there. Errors: those of `Session.open`."""
    try:
        wishes = Wishes.model_validate(asked.forwarded_props or {})
    except ValidationError as error:
        raise _misfit(error, "forwardedProps") from None
    id_ = check_chat(asked.thread_id)
    if len(asked.run_id) > RUN_CHARS_MAX:
        raise InvalidRequest(
            "runId is too long", expected=f"at most {RUN_CHARS_MAX} characters", got=len(asked.run_id)
        )
    settings = wishes.model_dump(exclude_none=True)
    if not await Session(desk, id_, branch="main").exists():
        settings = {"model": model, **settings}
    return await Session.open(desk, id_, by=by, **settings)


class Telling:
    """The turn of one request, event by event."""

    def __init__(self, session: Session, run_id: str, asked: agui.RunAgentInput) -> None:
        self._session = session
        self._run_id = run_id
        self._asked = asked
        self._message_id = f"{run_id}#reply"
        self._sent = ""
        self._is_off = False
        """What was sent is not what the model says now: it was asked again."""
        self._questions: dict[str, agui.Interrupt] = {}

    async def frames(self) -> AsyncGenerator[bytes]:
        """Server-sent events up to the end of the turn, or to where it waits for somebody."""
        async with aclosing(self.events()) as events:
            async for event in events:
                event.metadata = {"run_id": self._run_id}
                yield b"data: %s\n\n" % json_of(event)

    async def events(self) -> AsyncGenerator[agui.BaseEvent]:
        yield agui.RunStartedEvent(
            thread_id=self._asked.thread_id, run_id=self._asked.run_id, protocol_version=PROTOCOL
        )
        async with aclosing(self._session.watch(self._run_id)) as items:
            async for item in items:
                if item.type == "main_llm.delta":
                    for event in self._delta(item.data["offset"], item.data["text"]):
                        yield event
                elif item.type in ("approval.requested", "approval.given"):
                    yield await self._approval(item)
                elif item.type == "run.suspended":
                    for event in self._suspension_events(item.data):
                        yield event
                    return
                elif item.type == "run.finished":
                    async for event in self._end_events(item.data):
                        yield event
                    return

    def _finish_event(self, outcome: Outcome) -> agui.BaseEvent:
        asked = self._asked
        return agui.RunFinishedEvent(thread_id=asked.thread_id, run_id=asked.run_id, outcome=outcome)

    def _delta(self, offset: int, text: str) -> list[agui.BaseEvent]:
        known = self._sent[offset:]
        if self._is_off or offset > len(self._sent) or not text.startswith(known):
            self._is_off = True
            return []
        return self._text_events(text[len(known) :])

    def _text_events(self, text: str) -> list[agui.BaseEvent]:
        if not text:
            return []
        found: list[agui.BaseEvent] = []
        if not self._sent:
            found.append(agui.TextMessageStartEvent(message_id=self._message_id, role="assistant"))
        self._sent += text
        return [*found, agui.TextMessageContentEvent(message_id=self._message_id, delta=text)]

    async def _approval(self, item: Any) -> agui.BaseEvent:
        key = str(item.data.get("key", ""))
        if item.type == "approval.requested":
            self._questions[key] = agui.Interrupt(id=f"{self._run_id}#{key}", reason="waiting_approval")
        else:
            self._questions.pop(key, None)
        return agui.CustomEvent(name=item.type, value={"run_id": self._run_id, **item.data})

    def _suspension_events(self, data: Any) -> list[agui.BaseEvent]:
        """It waits for somebody: to this client the run is interrupted."""
        status = str(data.get("status", "waiting"))
        waits = [agui.Interrupt(id=self._run_id, reason=status)]
        found: list[agui.BaseEvent] = []
        if self._sent:
            found.append(agui.TextMessageEndEvent(message_id=self._message_id))
        outcome = agui.RunFinishedInterruptOutcome(interrupts=list(self._questions.values()) or waits)
        return [*found, self._finish_event(outcome)]

    async def _end_events(self, data: Any) -> AsyncGenerator[agui.BaseEvent]:
        status, reason = data["status"], str(data.get("reason") or "")
        # What a cancelled turn keeps is recorded after its end: to this client it is what was sent.
        reply = await self._session.reply(self._run_id) if status != "cancelled" else None
        text = reply.text if reply is not None else self._sent
        is_other = reply is not None and (self._is_off or not text.startswith(self._sent))
        if not is_other:
            for event in self._text_events(text[len(self._sent) :]):
                yield event
        if self._sent:
            yield agui.TextMessageEndEvent(message_id=self._message_id)
        if is_other:
            said = agui.AssistantMessage(id=self._message_id, content=text)
            yield agui.MessagesSnapshotEvent(messages=[*self._asked.messages, said])
        if status == "failed":
            yield agui.RunErrorEvent(
                message=str(data.get("message") or reason or status), code=reason or status
            )
            return
        outcome = (
            agui.RunFinishedCancelledOutcome() if status == "cancelled" else agui.RunFinishedSuccessOutcome()
        )
        yield self._finish_event(outcome)
