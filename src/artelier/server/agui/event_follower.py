"""A stream of AG-UI events over the live events of a tenant, and where it goes on after a break.

The id of each is `<position>.<n>`: the n-th that the event at that position gives. Whoever comes back is
given the next one: what lies before is folded again, unseen. Cost of (re)connecting: O(events since the
beginning of the run; of all runs, since that of the log).
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import dataclass
from typing import Any

import msgspec
from ag_ui import core as agui

from artelier.app import TenantKernel
from artelier.chat.session.session import Session
from artelier.chat.turn.turn_config import LOOP as CHAT
from artelier.chat.turn.turn_config import chat_of
from artelier.errors import ArtelierError, InvalidRequest
from artelier.ids import MAIN_SPACE
from artelier.kernel import run_row
from artelier.kernel.prompt.manifest import decode_reply
from artelier.kernel.run.context import is_final
from artelier.log import BlobRef, Event, Stream, run_stream, stored_blob
from artelier.server.agui.event_fold import Fact, Fold, LazyText, Outline
from artelier.server.live.event_encoder import Filter, WireEvent, shorten_content
from artelier.server.live.hub import Hub

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
        self._ahead: list[tuple[int, int, Outline]] = []
        """What is sent before anything else."""
        self.is_done = False
        """There is nothing to send, and nothing will come."""

    async def begin(self, *, after: int, seen: tuple[int, int] | None) -> AsyncGenerator[bytes]:
        """Frames of the stream. Errors: `NotFound` for a run that is not there; `QueueFull`."""
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
        return self._frames(await self._hub.stream(self._wants, after=self._after, user=self._user))

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
            if len(page) < PAGE:
                return
            after = page[-1].position
            await asyncio.sleep(0)  # a long past leaves others their turn

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
                for n, outline in enumerate(self._fold.take(fact), 1):
                    yield await self._frame(fact.position, n, outline)
            elif block and not block.startswith(b"event: "):
                yield block + b"\n\n"

    async def _is_over(self) -> bool:
        """Return True if the run and all below it have ended, also by what is stored and not told yet."""
        if not self._fold.is_over:
            return False
        row = await run_row(self._desk.services.store, self._desk.id, self._run_id)
        after: int | None = self._after
        while after is not None and is_final(row.status):
            rest, after, _ = await self._hub.page(self._wants, after=after, limit=1)
            if rest:
                return False
        return after is None

    async def _frame(self, position: int, number: int, outline: Outline) -> bytes:
        fields: dict[str, Any] = outline.fields
        if outline.text is not None:
            text = await self._text(outline.text)
            if outline.text.is_message and not text:
                return b""
            if outline.into:
                fields = {**fields, outline.into: text}
        return b"id: %d.%d\ndata: %s\n\n" % (position, number, json_of(outline.made(**fields)))

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
