"""A run as it happens: pieces of text at once, events of its log once they are durable, the result last.

Events that name content are yielded with it, as the types of `events.py`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from artelier.agents.run_request import Starter, Wanted
from artelier.agents.stream.events import EventReader
from artelier.errors import ArtelierError
from artelier.kernel import AgentResult, run_row
from artelier.log import Event, run_stream
from artelier.ports.model import Delta

AgentEvent = Delta | Event | AgentResult

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
