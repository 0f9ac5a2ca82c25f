"""The events of a run's stream that hold their content: calls of tools, replies, questions, notes.

Each is the stored event itself (`kind`, `seq`, `hash`, ...), with what its references name read from the
store. It is as the log has it: placeholders for personal data, `[erased]` for what was erased.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, cast

from artelier.agents.run_config import Starter, Wanted
from artelier.chat.session.agent_conversation import AgentEvent
from artelier.errors import ArtelierError
from artelier.kernel import events as ev
from artelier.kernel import run_row
from artelier.kernel.queries.content import shown_fields, shown_json
from artelier.kernel.queries.steps import find_record
from artelier.kernel.run.services import Services
from artelier.log import Event, run_stream
from artelier.ports.model import Delta


class ToolCalled(Event, frozen=True, kw_only=True):
    """A tool is entered: `tool.requested`."""

    step: str
    """The step's key, which its outcome has as well."""
    tool: str
    arguments: Any


class ToolReturned(Event, frozen=True, kw_only=True):
    """A call has an outcome: `tool.completed`, `tool.refused` (nothing was called), `tool.reconciled`."""

    step: str
    tool: str
    arguments: Any
    value: Any
    """The whole result; of an error `{"error": {...}}`."""
    is_error: bool
    artifact: str = ""
    """Ref of the artifact that holds a large result."""


class ModelAnswered(Event, frozen=True, kw_only=True):
    """A model has answered: `model.completed`."""

    step: str
    text: str
    tool_calls: tuple[dict[str, Any], ...]
    """Each `{id, name, arguments}`, as the model asked for it."""
    cost_microusd: int


class ApprovalAsked(Event, frozen=True, kw_only=True):
    """The run waits for a person: `approval.requested`."""

    step: str
    question: str
    details: Any


class ApprovalAnswered(Event, frozen=True, kw_only=True):
    """A question was answered: `approval.given`. `actor` says by whom."""

    step: str
    decision: str
    """`approve`, `deny`, `edit` or `expired`."""
    note: str
    arguments: Any
    """The edited arguments, with `edit`."""


class NoteGiven(Event, frozen=True, kw_only=True):
    """Somebody left the run a note: `note.injected`."""

    text: str


class EventReader:
    """Reads the content of one run's events."""

    def __init__(self, services: Services, tenant: str, run_id: str) -> None:
        self._services = services
        self._tenant = tenant
        self._run_id = run_id
        self._called: dict[str, tuple[str, Any]] = {}
        """Tool and arguments of calls that have no outcome yet, by step."""

    async def read(self, event: Event) -> Event:
        """Return the event with its content, if it is of a kind that has some; else the event itself.

        Errors: `CorruptStore` for content that is missing.
        """
        if event.kind not in _KINDS:
            return event
        data, fields = event.decode(), {f: getattr(event, f) for f in Event.__struct_fields__}
        if isinstance(data, ev.ToolRequested):
            call = (data.name, await self._json(data.arguments))
            self._called[data.key] = call
            return ToolCalled(**fields, step=data.key, tool=call[0], arguments=call[1])
        if isinstance(data, ev.ToolCompleted | ev.ToolRefused | ev.ToolReconciled):
            return await self._tool_returned(event, data, fields)
        if isinstance(data, ev.ModelCompleted):
            return await self._model_answered(data, fields)
        if isinstance(data, ev.ApprovalRequested):
            asked = await shown_fields(self._services, self._tenant, data.question)
            question, details = str(asked.get("question", "")), asked.get("details")
            return ApprovalAsked(**fields, step=data.key, question=question, details=details)
        if isinstance(data, ev.ApprovalGiven):
            said = await shown_fields(self._services, self._tenant, data.answer)
            return ApprovalAnswered(
                **fields,
                step=data.key,
                decision=data.decision,
                note=str(said.get("note") or ""),
                arguments=said.get("arguments"),
            )
        assert isinstance(data, ev.NoteInjected)
        return NoteGiven(**fields, text=str(await self._json(data.text)))

    async def _tool_returned(
        self,
        event: Event,
        data: ev.ToolCompleted | ev.ToolRefused | ev.ToolReconciled,
        fields: dict[str, Any],
    ) -> Event:
        if isinstance(data, ev.ToolReconciled) and data.answer == "retry":
            return event  # it is called again
        value = await self._json(data.result)
        if isinstance(data, ev.ToolRefused):
            call = (data.name, await self._json(data.arguments))
        else:
            call = await self._call(data.key)
        is_error = isinstance(data, ev.ToolRefused) or (
            data.is_error if isinstance(data, ev.ToolCompleted) else data.answer == "failed"
        )
        return ToolReturned(
            **fields,
            step=data.key,
            tool=call[0],
            arguments=call[1],
            value=value,
            is_error=is_error,
            artifact=data.artifact if isinstance(data, ev.ToolCompleted) else "",
        )

    async def _model_answered(self, data: ev.ModelCompleted, fields: dict[str, Any]) -> ModelAnswered:
        reply: Any = await self._json(data.reply)
        text, calls = reply, ()
        if isinstance(reply, dict):
            said = cast(dict[str, Any], reply)
            text, calls = said.get("text", ""), said.get("tool_calls", ())
        return ModelAnswered(
            **fields, step=data.key, text=str(text), tool_calls=tuple(calls), cost_microusd=data.cost
        )

    async def _call(self, step: str) -> tuple[str, object]:
        """Return tool and arguments of a call, also of one that was asked for before the stream began."""
        known = self._called.pop(step, None)
        if known is not None:
            return known
        row = await run_row(self._services.store, self._tenant, self._run_id)
        found = await find_record(self._services.store, row.id, step)
        data = found.request.decode() if found is not None else None
        if not isinstance(data, ev.ToolRequested):
            return "", None  # asked for by the run that this one was forked from
        return data.name, await self._json(data.arguments)

    async def _json(self, ref: str | None) -> object:
        return await shown_json(self._services, self._tenant, ref)


_KINDS = frozenset(
    data.KIND
    for data in (
        ev.ToolRequested,
        ev.ToolCompleted,
        ev.ToolRefused,
        ev.ToolReconciled,
        ev.ModelCompleted,
        ev.ApprovalRequested,
        ev.ApprovalGiven,
        ev.NoteInjected,
    )
)


# A run as it happens: pieces of text at once, events of its log once they are durable, the result last


QUEUE_MAX = 10_000
"""Deltas waiting for a slow reader; then the run waits for it."""

PAGE = 200


async def stream_of(agent: Starter, wanted: Wanted) -> AsyncIterator[AgentEvent]:
    """Return what `AutonomousAgent.stream` yields. Who leaves early cancels the drive; the run stays
    resumable.
    """
    runs = agent.kernel.for_tenant(wanted.tenant)
    store = runs.services.store
    news: asyncio.Queue[Delta | None] = asyncio.Queue(QUEUE_MAX)
    loop = asyncio.get_running_loop()

    def on_commit(position: int, abroad: bool) -> None:
        loop.call_soon_threadsafe(_wake, news)

    async def sink(delta: Delta) -> None:
        await news.put(delta)

    after = await _head(agent, wanted)
    undo = store.listen(on_commit)
    drive = asyncio.ensure_future(agent.start(wanted, sink=sink))
    drive.add_done_callback(lambda _: _wake(news))
    stream = run_stream(runs.id, wanted.run_id)
    reader = EventReader(runs.services, runs.id, wanted.run_id)
    try:
        while True:
            done = drive.done()
            delta = None if done and news.empty() else await news.get()
            if delta is not None:
                yield delta
                continue
            while events := await store.read(stream, after=after, limit=PAGE):
                for event in events:
                    after = event.seq
                    yield await reader.read(event)
            if done and news.empty():
                yield drive.result()
                return
    finally:
        undo()
        if not drive.done():
            drive.cancel()
        await asyncio.gather(drive, return_exceptions=True)


def _wake(news: asyncio.Queue[Delta | None]) -> None:
    if not news.full():
        news.put_nowait(None)


async def _head(agent: Starter, wanted: Wanted) -> int:
    """Seq of the newest event of a run that exists already: what is old is no news."""
    runs = agent.kernel.for_tenant(wanted.tenant)
    try:
        await run_row(runs.services.store, runs.id, wanted.run_id)
    except ArtelierError:
        return 0
    return (await runs.services.store.head(run_stream(runs.id, wanted.run_id)))[0]
