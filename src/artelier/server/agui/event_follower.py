"""The AG-UI events of a run or of a chat's turn, followed while it goes on."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

import msgspec
from ag_ui import core as agui

from artelier.app import TenantKernel
from artelier.chat.session.session import Session
from artelier.chat.session.settings import check_chat
from artelier.chat.turn.turn_config import LOOP as CHAT
from artelier.chat.turn.turn_config import chat_of
from artelier.errors import ArtelierError, InvalidRequest
from artelier.ids import MAIN_SPACE
from artelier.kernel import run_row
from artelier.kernel.prompt.manifest import decode_reply
from artelier.kernel.run.context import is_final
from artelier.log import BlobRef, Event, Stream, run_stream, stored_blob
from artelier.server.agui.event_fold import PROTOCOL, EventDraft, Fact, Fold, LazyText
from artelier.server.agui.interrupts import open_interrupts, status_interrupt
from artelier.server.agui.run_input import Wishes
from artelier.server.event_encoder import Filter, WireEvent, shorten_content
from artelier.server.live_hub import Hub

PAGE = 500
WHOLE_BYTES_MAX = 256 * 1024
"""Of what a tool was given or said; more is shortened."""
_SEEN = re.compile(r"(\d{1,15})(?:\.(\d{1,6}))?")


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowedScope(Filter):
    """The events of one run and all below it, with the chat that it is a turn of; or those of all runs."""

    chat: str = ""

    def lets(self, event: WireEvent) -> bool:
        if self.chat and event.stream == f"session:{self.chat}":
            return True
        return Filter.lets(self, event)


def seen_of(text: str) -> tuple[int, int]:
    """Return what a client has seen last. Errors: `InvalidRequest`."""
    found = _SEEN.fullmatch(text)
    if found is None or not text.isascii():
        raise InvalidRequest(
            "Last-Event-ID is none of ours", expected="<position>.<number>", got="other text"
        )
    return int(found[1]), int(found[2] or 0)


class Following:
    """The stream of one client; `begin` it first."""

    def __init__(self, desk: TenantKernel, hub: Hub, run_id: str, *, user: str = "") -> None:
        self._user = user
        self._desk = desk
        self._hub = hub
        self._run_id = run_id
        self._fold = Fold(run_id)
        self._wants = FollowedScope(tenant=desk.id, prefix=run_id)
        self._after = 0
        """Position of what was folded last."""
        self._ahead: list[tuple[int, int, EventDraft]] = []
        """What is sent before anything else."""
        self.is_done = False
        """There is nothing to send, and nothing will come."""

    async def begin(self, *, after: int, seen: tuple[int, int] | None) -> AsyncGenerator[bytes]:
        """Frames of the stream. Errors: `NotFound` for a run that is not there; `QueueFull`."""
        return self._frames(await self._open(after=after, seen=seen))

    async def _open(self, *, after: int, seen: tuple[int, int] | None) -> AsyncIterator[bytes]:
        """Fold what the client knows; the hub's stream of what comes after it. Errors: as of `begin`."""
        start = await self._start() if self._run_id else 1
        head = (await self._desk.services.store.root())[0]
        upto, number = (min(after, head), 0) if seen is None else seen
        if upto > head:  # of another database perhaps
            upto, number = head, 0
        await self._fold_to(upto, start=start, number=number)
        self._after = max(upto, start - 1)
        if seen is None and (not self._run_id or upto >= start):
            self._ahead.append((self._after, 0, self._fold.snapshot()))
        self.is_done = seen is not None and not self._ahead and await self._is_over()
        return await self._hub.stream(self._wants, after=self._after, user=self._user)

    async def _start(self) -> int:
        """Position of the run's first event; what was known of its task before is folded."""
        desk, id_ = self._desk, self._run_id
        row = await run_row(desk.services.store, desk.id, id_)
        if row.loop == CHAT:
            self._wants = FollowedScope(tenant=desk.id, prefix=id_, chat=chat_of(id_))
        store = desk.services.store
        start = (await store.read(run_stream(desk.id, id_), limit=1))[0].position
        for event in await store.read(Stream(desk.id, MAIN_SPACE, f"artifact:{id_}")):
            if event.position < start:
                self._fold.take(_fact(event))
        return start

    async def _fold_to(self, upto: int, *, start: int, number: int) -> None:
        """Fold what was seen; what else the last of these events gives is sent first."""
        await self._fold_silently(upto - 1 if number else upto, after=start - 1)
        if not number:
            return
        found, _, _ = await self._hub.page(self._wants, after=max(upto, start) - 1, limit=1)
        if found and found[0].position == upto:
            outlines = self._fold.take(_fact_of(found[0]))
            self._ahead = [(upto, n, one) for n, one in enumerate(outlines, 1) if n > number]

    async def _fold_silently(self, upto: int, *, after: int) -> None:
        while after < upto:
            page = await self._desk.services.store.read_all(after=after, limit=PAGE, tenant=self._desk.id)
            for event in page:
                if event.position <= upto and self._wants.holds(event):
                    self._fold.take(_fact(event))
            await asyncio.sleep(0)  # a long past leaves others their turn
            if len(page) < PAGE:
                return
            after = page[-1].position

    # As it happens

    async def _frames(self, pieces: AsyncIterator[bytes]) -> AsyncGenerator[bytes]:
        try:
            ahead = [await self._frame(*one) for one in self._ahead]
            if sent := b"".join(ahead):
                yield sent
            async for piece in pieces:
                frames = b"".join([frame async for frame in self._translate(piece)])
                if frames:
                    yield frames
                if await self._is_over():
                    return
        finally:
            close = getattr(pieces, "aclose", None)
            if close is not None:
                await close()

    async def _translate(self, piece: bytes) -> AsyncIterator[bytes]:
        """Events of a piece of the hub's stream in the other language; comments stay what they are."""
        for block in piece.split(b"\n\n"):
            head, is_event, body = block.partition(b"\ndata: ")
            if is_event and head.startswith(b"id: "):
                fact = _decode(body)
                self._after = fact.position
                for n, outline in enumerate(await self._drafts_of(fact), 1):
                    yield await self._frame(fact.position, n, outline)
            elif block and not block.startswith(b"event: "):
                yield block + b"\n\n"

    async def _drafts_of(self, fact: Fact) -> list[EventDraft]:
        return self._fold.take(fact)

    async def _is_over(self) -> bool:
        """Return True if the run and all below it have ended, also by what is stored and not told yet."""
        if not self._fold.is_over:
            return False
        row = await run_row(self._desk.services.store, self._desk.id, self._run_id)
        return is_final(row.status) and await self._is_all_told()

    async def _is_all_told(self) -> bool:
        """Return True if nothing of the run is stored that was not told."""
        after: int | None = self._after
        while after is not None:
            rest, after, _ = await self._hub.page(self._wants, after=after, limit=PAGE)
            if not all(self._fold.is_outside(_fact_of(one)) for one in rest):
                return False
        return True

    async def _frame(self, position: int, number: int, outline: EventDraft) -> bytes:
        event = await self._made(outline)
        return b"" if event is None else b"id: %d.%d\ndata: %s\n\n" % (position, number, json_of(event))

    async def _made(self, outline: EventDraft) -> agui.BaseEvent | None:
        """The event of a draft, with its text; None for a message that says nothing."""
        fields: dict[str, Any] = outline.fields
        if outline.text is not None:
            text = await self._text(outline.text)
            if outline.text.is_message and not text:
                return None
            if outline.into:
                fields = {**fields, outline.into: text}
        return outline.made(**fields)

    async def _text(self, text: LazyText) -> str:
        """Content in full; empty if it was erased or is damaged, which `artelier verify` tells."""
        desk = self._desk
        try:
            if text.source == "said":
                reply = await Session(desk, chat_of(text.name), branch="main").reply(text.name)
                return reply.text if reply is not None else ""
            content = await stored_blob(desk.services.store, desk.id, BlobRef(text.name))
            return decode_reply(content).text if text.source == "reply" else _readable(content)
        except ArtelierError:
            return ""


def json_of(event: agui.BaseEvent) -> bytes:
    """An event as the protocol's clients read it. What is no Unicode is replaced."""
    plain = event.model_dump(mode="python", by_alias=True)
    return json.dumps(plain, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


def _readable(content: bytes) -> str:
    """Return what a tool was given or said: a JSON text without its quotes, JSON as it is."""
    if len(content) > WHOLE_BYTES_MAX:
        return shorten_content(content)
    if content[:1] == b'"':
        try:
            return msgspec.json.decode(content, type=str)
        except msgspec.MsgspecError:
            pass
    return content.decode("utf-8", "replace")


def _fact(event: Event) -> Fact:
    at_us = event.at_us if event.stream.space == MAIN_SPACE else None
    return Fact(event.position, event.stream.local, event.seq, event.kind, at_us, event.plain(), {})


def _fact_of(event: WireEvent) -> Fact:
    return _decode(event.body)


def _decode(body: bytes) -> Fact:
    wire = msgspec.json.decode(body)
    at_us = wire["at_us"] if wire["space"] == MAIN_SPACE else None
    return Fact(
        wire["position"], wire["stream"], wire["seq"], wire["kind"], at_us, wire["data"], wire["texts"]
    )


Outcome = agui.RunFinishedSuccessOutcome | agui.RunFinishedInterruptOutcome | agui.RunFinishedCancelledOutcome


async def chat_for(
    desk: TenantKernel, asked: agui.RunAgentInput, wishes: Wishes, *, by: str, model: str
) -> Session:
    """The chat that the thread names, made if it is not there. Errors: those of `Session.open`."""
    id_ = check_chat(asked.thread_id)
    settings = wishes.model_dump(exclude_none=True, include={"model", "profile"})
    if not await Session(desk, id_, branch="main").exists():
        settings = {"model": model, **settings}
    return await Session.open(desk, id_, by=by, **settings)


class Telling:
    """The turn of one request, event by event."""

    def __init__(self, session: Session, run_id: str, asked: agui.RunAgentInput, *, after: int = 0) -> None:
        """`after`: the last event of the run that an earlier request has told of."""
        self._session = session
        self._after = after
        self._run_id = run_id
        self._asked = asked
        self._message_id = f"{run_id}#reply"
        known = [one.content for one in asked.messages if one.id == self._message_id]
        self._sent = known[0] if known and isinstance(known[0], str) else ""
        self._is_open = False
        """True while this request has begun the reply and not ended it."""
        self._is_off = bool(self._sent)
        """True where what was sent may not be the text: the model was asked again, for instance."""

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
        async with aclosing(self._session.watch(self._run_id, after=self._after)) as items:
            async for item in items:
                if item.type == "main_llm.delta":
                    for event in self._delta(item.data["offset"], item.data["text"]):
                        yield event
                elif item.type in ("approval.requested", "approval.given"):
                    yield agui.CustomEvent(name=item.type, value={"run_id": self._run_id, **item.data})
                elif item.type == "run.suspended":
                    for event in await self._suspension_events(item.data):
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
        if not self._is_open:
            self._is_open = True
            found.append(agui.TextMessageStartEvent(message_id=self._message_id, role="assistant"))
        self._sent += text
        return [*found, agui.TextMessageContentEvent(message_id=self._message_id, delta=text)]

    async def _suspension_events(self, data: Any) -> list[agui.BaseEvent]:
        """It waits for somebody: to this client the run is interrupted."""
        status = str(data.get("status", "waiting"))
        waits = await open_interrupts(self._session.desk, self._run_id)
        waits = waits or [status_interrupt(self._run_id, status)]
        found: list[agui.BaseEvent] = []
        if self._is_open:
            found.append(agui.TextMessageEndEvent(message_id=self._message_id))
        outcome = agui.RunFinishedInterruptOutcome(interrupts=waits)
        return [*found, self._finish_event(outcome)]

    async def _end_events(self, data: Any) -> AsyncGenerator[agui.BaseEvent]:
        status, reason = data["status"], str(data.get("reason") or "")
        # What a cancelled turn keeps is recorded after its end: to this client it is what was sent.
        reply = await self._session.reply(self._run_id) if status != "cancelled" else None
        text = reply.text if reply is not None else self._sent
        is_same = text == self._sent
        is_other = reply is not None and not is_same and (self._is_off or not text.startswith(self._sent))
        if not is_other:
            for event in self._text_events(text[len(self._sent) :]):
                yield event
        if self._is_open:
            yield agui.TextMessageEndEvent(message_id=self._message_id)
        if is_other:
            said = agui.AssistantMessage(id=self._message_id, content=text)
            before = [one for one in self._asked.messages if one.id != self._message_id]
            yield agui.MessagesSnapshotEvent(messages=[*before, said])
        if status == "failed":
            yield agui.RunErrorEvent(
                message=str(data.get("message") or reason or status), code=reason or status
            )
            return
        outcome = (
            agui.RunFinishedCancelledOutcome() if status == "cancelled" else agui.RunFinishedSuccessOutcome()
        )
        yield self._finish_event(outcome)
