"""A run of a chat as it happens: its stored events in the API's names, and the reply as it is written.

Stored events have the run's `seq`, and whoever reconnects says after which one to go on. Deltas are not
stored and have none: they say to which step they belong and how many characters came before.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, cast

from artelier.chat.turn.main_call import ENDS, is_main
from artelier.chat.turn.turn_runner import Piece, has_ended, live_of
from artelier.kernel import events as kev
from artelier.kernel.prompt.manifest import decode_reply
from artelier.kernel.queries.content import shown_json
from artelier.kernel.tenants.registry import TenantScope
from artelier.log import Event, run_stream, stored_blob
from artelier.operations import events as ev

PAGE = 200
PAGE_MAX = 1_000

_HIDDEN = frozenset(
    (
        "session.read",
        "lore.activated",
        "context.assembled",
        "step.completed",
        "step.failed",
        "cycle.completed",
        "tools.changed",
        "prompt.drifted",
    )
)
"""Bookkeeping of a run: how it goes on after a crash, and what its prompts were made of."""

_LAST = ("run.completed", "run.failed", "run.cancelled")

_CODES = {
    "rate_limited": "rate_limited",
    "model_timeout": "timeout",
    "deadline": "deadline",
    "model_refused_call": "policy_error",
    "context_too_long": "policy_error",
}
_FAMILIES = {"policy": "policy_error", "timeout": "timeout", "cancelled": "user_abort"}

_TEXTS = ("message", "note", "text")
"""Fields whose content is shown; what operations found is behind other references, and stays there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEvent:
    """Something that happened in a run."""

    seq: int | None
    """In the run's stream, from 1; None for what is not stored."""
    type: str
    """`main_llm.started`, `operation.finished`, `run.finished`, ...; `main_llm.delta` and
    `main_llm.reasoning`, which are not stored."""
    at_us: int | None
    data: Mapping[str, Any]

    def plain(self) -> dict[str, Any]:
        """JSON data."""
        return {"seq": self.seq, "type": self.type, "at_us": self.at_us, **self.data}


async def stored_events(desk: TenantScope, run_id: str, *, after: int, limit: int) -> list[RunEvent]:
    """Events with `seq > after`: of the next `limit` stored ones those that are shown."""
    limit = max(1, min(limit, PAGE_MAX))
    stream = run_stream(desk.id, run_id)
    while page := await desk.services.store.read(stream, after=after, limit=limit):
        after = page[-1].seq
        if found := [shown for one in page if (shown := await translate_event(desk, one)) is not None]:
            return found
    return []


async def translate_event(desk: TenantScope, event: Event) -> RunEvent | None:
    """An event in the API's names; None for bookkeeping. Errors: `CorruptStore`, `UnknownEvent`."""
    if event.kind in _HIDDEN:
        return None
    data = event.decode()
    name, facts = event.kind, await _facts(desk, event)
    if event.kind in _LAST:
        name, facts = "run.finished", {"status": event.kind.removeprefix("run."), **facts}
    elif isinstance(data, kev.ModelRequested) and is_main(data.key):
        name, facts = "main_llm.started", {"step": data.key, "model": data.model}
    elif isinstance(data, kev.ModelCompleted) and is_main(data.key):
        name = "main_llm.finished"
        facts = {**facts, "finish_reason": await _finish_reason(desk, data)}
    elif isinstance(data, kev.ModelFailed) and is_main(data.key):
        reason = _CODES.get(data.code) or _FAMILIES.get(data.family) or "provider_error"
        name, facts = "main_llm.finished", {**facts, "finish_reason": reason}
    return RunEvent(seq=event.seq, type=name, at_us=event.at_us, data=facts)


async def _facts(desk: TenantScope, event: Event) -> dict[str, Any]:
    """The fields of an event: texts as texts, and no reference to other content."""
    facts: dict[str, Any] = {}
    for name, value in event.plain().items():
        if name in _TEXTS and _is_ref(value):
            facts[name] = await shown_json(desk.services, desk.id, value)
        elif name not in ("postings", "counts", "command", "queued"):
            facts[name] = _without_refs(value)
    if event.kind == ev.CommitReported.KIND:
        facts.setdefault("reports", [])
    return {name: value for name, value in facts.items() if value is not None}


def _without_refs(value: object) -> object:
    if isinstance(value, list):
        return [_without_refs(one) for one in cast(list[Any], value)]
    if isinstance(value, dict):
        plain = cast(dict[str, Any], value)
        return {name: _without_refs(one) for name, one in plain.items() if not _is_ref(one)}
    return None if _is_ref(value) else value


def _is_ref(value: object) -> bool:
    return isinstance(value, str) and len(value) == 45 and value.startswith("b:")


async def _finish_reason(desk: TenantScope, data: kev.ModelCompleted) -> str:
    content = await stored_blob(desk.services.store, desk.id, data.reply)
    reason = decode_reply(content).finish_reason
    return "user_abort" if reason == "cut" else ENDS.get(reason, "unknown")


# As it happens


async def follow_run(
    desk: TenantScope, run_id: str, *, after: int, driving: asyncio.Future[Any] | None = None
) -> AsyncGenerator[RunEvent]:
    """Events with `seq > after` and deltas, up to the run's end, or to that of `driving` if it is given."""
    store, tenant = desk.services.store, desk.id
    live, news = live_of(store), asyncio.Event()
    loop = asyncio.get_running_loop()

    def on_commit(position: int, abroad: bool) -> None:
        loop.call_soon_threadsafe(news.set)

    undo = store.listen(on_commit)
    watcher = live.watch(tenant, run_id, news)
    follow = _Follow(desk, run_id, after=after)
    if driving is not None:
        driving.add_done_callback(lambda _: news.set())
    try:
        await follow.look()
        while True:
            news.clear()
            is_over = driving is not None and driving.done()
            pieces = live.pieces(tenant, run_id, watcher)
            async with aclosing(follow.news(pieces)) as items:
                async for item in items:
                    yield item
            if follow.has_ended or is_over:
                return
            await news.wait()
    finally:
        undo()
        live.unwatch(tenant, run_id, watcher)


class _Follow:
    """Puts deltas between the events that they belong to."""

    def __init__(self, desk: TenantScope, run_id: str, *, after: int) -> None:
        self._desk = desk
        self._run_id = run_id
        self._stream = run_stream(desk.id, run_id)
        self._after = after
        self._is_written = False
        """Whether the reply is recorded: no piece of it is news then."""
        self.has_ended = False

    async def look(self) -> None:
        """Whoever saw the last event of a run before has nothing to wait for."""
        self.has_ended = await has_ended(self._desk, self._run_id)

    async def news(self, pieces: list[Piece]) -> AsyncGenerator[RunEvent]:
        while page := await self._desk.services.store.read(self._stream, after=self._after, limit=PAGE):
            for event in page:
                self._after = event.seq
                shown = await translate_event(self._desk, event)
                if shown is None:
                    continue
                if shown.type == "main_llm.finished":
                    for piece in pieces:
                        yield delta(piece)
                    pieces, self._is_written = [], True
                elif shown.type == "main_llm.started":
                    self._is_written = False  # asked again
                # What a cancelled run still has to say comes after its end.
                self.has_ended = self.has_ended or shown.type == "run.finished"
                yield shown
        if not self._is_written:
            for piece in pieces:
                yield delta(piece)


def delta(piece: Piece) -> RunEvent:
    """Return a piece of the reply, or of its reasoning, as an event."""
    data = {"step": piece.step, "offset": piece.offset, "text": piece.text}
    name = "main_llm.reasoning" if piece.is_reasoning else "main_llm.delta"
    return RunEvent(seq=None, type=name, at_us=None, data=data)
