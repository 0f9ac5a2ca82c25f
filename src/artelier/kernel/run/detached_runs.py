"""Steps of runs that no code drives: a run is opened once, and stays open until the kernel closes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TypeVar

from artelier.errors import Flow
from artelier.kernel.history.fork_lineage import lineage
from artelier.kernel.history.step_history import History, Segment
from artelier.kernel.queries.steps import find_step
from artelier.kernel.run.context import RunCore
from artelier.kernel.run.handle import Run
from artelier.kernel.run.lifecycle import OpenRun
from artelier.kernel.steps.step_keys import check_key

T = TypeVar("T")


@dataclass(slots=True)
class _RunQueue:
    """Calls of one run: those without a key one after the other, those with the same key too."""

    opened: OpenRun | None = None
    suspension: Flow | None = None
    """What ended the drive, such as a spent budget: the next call opens the run anew."""
    run: Run | None = None
    opening: asyncio.Lock = field(default_factory=asyncio.Lock)
    unkeyed: asyncio.Lock = field(default_factory=asyncio.Lock)
    keyed: dict[str, asyncio.Lock] = field(default_factory=dict[str, asyncio.Lock])
    at_work: int = 0
    """Calls with a key that are at work: one without waits for them, since it takes the next number."""
    idle: asyncio.Event = field(default_factory=asyncio.Event)


class DetachedRuns:
    """The runs of one kernel that stay open between calls."""

    def __init__(self) -> None:
        self._queues: dict[tuple[str, str], _RunQueue] = {}

    async def step(
        self,
        name: tuple[str, str],
        open_run: Callable[[], OpenRun],
        active: Callable[[], RunCore | None],
        work: Callable[[Run], Awaitable[T]],
        *,
        key: str | None,
    ) -> T:
        """Take one step of the run called `name`, which is `(tenant, run)`.

        `active` gives the run if other code of this process drives it. A call with a key that is done
        returns what is recorded. The value is returned once it is durable. Errors: those of opening the
        run, and of the step. Cost: a commit more than a step of a run that code drives.
        """
        if key is not None:
            check_key(key)
        queue = self._queues.setdefault(name, _RunQueue())
        run = await self._open_queue(queue, open_run, active)
        async with _turn(queue, key):
            if key is not None:
                await _recall(run.core, key)
            try:
                value = await work(run)
            except Flow as flow:
                queue.suspension = flow
                raise
            except Exception:
                if run.core.actor is not None:
                    run.core.actor.flush()  # a failure is an outcome too
                raise
            if run.core.actor is not None:
                await run.core.actor.commit()  # no later step of the same code makes it durable
            return value

    async def _open_queue(
        self, queue: _RunQueue, open_run: Callable[[], OpenRun], active: Callable[[], RunCore | None]
    ) -> Run:
        async with queue.opening:
            is_idle = not queue.at_work and not queue.unkeyed.locked()
            if (flow := queue.suspension) is not None and is_idle:
                opened, queue.opened, queue.run, queue.suspension = queue.opened, None, None, None
                if opened is not None:
                    await opened.__aexit__(type(flow), flow, None)
            if queue.run is None:
                if (core := active()) is not None:
                    return Run(core)
                opened = open_run()
                queue.run = await opened.__aenter__()
                queue.opened = opened
            return queue.run

    async def aclose(self) -> None:
        """Leave every run resumable."""
        queues = tuple(self._queues.values())
        self._queues.clear()
        for queue in queues:
            if queue.opened is not None:
                await queue.opened.__aexit__(asyncio.CancelledError, asyncio.CancelledError(), None)


@asynccontextmanager
async def _turn(queue: _RunQueue, key: str | None) -> AsyncGenerator[None]:
    if key is None:
        async with queue.unkeyed:
            while queue.at_work:
                queue.idle.clear()
                await queue.idle.wait()
            yield
        return
    lock = queue.keyed.setdefault(key, asyncio.Lock())
    async with queue.unkeyed:
        queue.at_work += 1  # before the lock of the key: whoever waits for it has its turn too
    try:
        async with lock:
            yield
    finally:
        queue.at_work -= 1
        if not queue.at_work:
            queue.idle.set()
            queue.keyed.clear()


async def _recall(core: RunCore, key: str) -> None:
    """Let a step that this process has taken be asked for again, as another process would.

    Cost: two reads.
    """
    full = f"{core.parent_key}/{key}" if core.parent_key else key
    if full not in core.keys.taken:
        return
    if core.actor is not None:
        await core.actor.commit()
    for number, place in enumerate(await lineage(core.services, core.tenant.id, core.run_id)):
        step = await find_step(core.store, place.stream_id, full, upto=place.upto)
        if step is None:
            continue
        requested, completed = step.requested, step.completed
        # The manifest of a model's request stands just before it.
        stretches = [(requested - 2, requested)]
        if completed is not None and completed != requested:
            stretches.append((completed - 1, completed))
        segments = [
            Segment(place.stream_id, place.stream, max(0, after), upto, number > 0)
            for after, upto in stretches
        ]
        history = History(core.store, segments)
        if (found := await history.find(full)) is not None:
            core.history.put_back(found)
        break
    core.keys.taken.discard(full)
