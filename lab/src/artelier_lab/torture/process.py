"""A simulated process: a kernel with its tasks, which can die at any instant and leave only the file.

When it dies, its tasks are cancelled, whatever they still try to write is refused, and whatever they still
try to do outside is refused too. So what a dead process leaves is what `kill -9` leaves.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Coroutine, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import artelier.log.database_store
from artelier.app import Kernel
from artelier.kernel import Policy
from artelier.kernel.tool_calls.dispatches import ProcessId
from artelier.log.writer import Writer
from artelier.ports.model import ModelPort
from artelier.ports.tool import ToolPort
from artelier_lab.torture.engine import engine
from artelier_lab.torture.outside import Outside
from artelier_lab.torture.plan import Plan
from artelier_lab.torture.virtual import VirtualClock, VirtualLoop, VirtualTask

T = TypeVar("T")

NOTICE_S = 0.1
"""How long it takes a writer to see that another process has written; its poll interval."""

POLICY = Policy(
    approve_risk="high",
    result_bytes_max=2_000,
    reply_bytes_max=200_000,
    model_timeout_s=60.0,
    funds_wait_s=5.0,
)

current: contextvars.ContextVar[Process | None] = contextvars.ContextVar("current", default=None)
"""The process whose code is running."""


class SimulatedCrash(BaseException):
    """The process is gone: nothing that catches errors may catch this."""


class InlineWriter(Writer):
    """The store's writer without its thread: it commits in the event loop, when the loop comes to it."""

    process: Process

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._due: asyncio.TimerHandle | asyncio.Handle | None = None
        super().__init__(*args, **kwargs)
        engine().never_wait(self._db)
        self.process = _opening[-1]
        self.process.writer = self

    def _work(self) -> None:
        return

    def _enqueue_all(self, jobs: list[Any]) -> list[asyncio.Future[Any]]:
        futures = super()._enqueue_all(jobs)
        if self._due is None:
            loop = asyncio.get_running_loop()
            self._due = loop.call_later(
                self.process.plan.commit_delay_s(), self._drain, context=self.process.context
            )
        return futures

    def _drain(self) -> None:
        self._due = None
        while self._queue and (group := self._queue.take()):
            self._commit(group)
            self.process.wrote()

    def look_abroad(self) -> None:
        if self.process.alive:
            self._look_abroad()

    def limit_pages(self, more: int | None) -> None:
        """Let the file grow by so many pages and no further; None lifts it."""
        engine().limit_pages(self._db, more)

    def stop(self) -> None:
        if self._due is not None:
            self._due.cancel()
            self._due = None
        if self.process.alive:
            self._drain()
        super().stop()


_opening: list[Process] = []


@contextmanager
def _inline_writers(process: Process) -> Generator[None]:
    """Stores that are opened in here get the writer without a thread."""
    before = artelier.log.database_store.Writer  # pyright: ignore[reportPrivateImportUsage] - replaced
    _opening.append(process)
    artelier.log.database_store.Writer = InlineWriter  # pyright: ignore[reportPrivateImportUsage] - replaced
    try:
        with engine().alone():
            yield
    finally:
        artelier.log.database_store.Writer = before  # pyright: ignore[reportPrivateImportUsage] - replaced
        _opening.pop()


class Process:
    """One kernel on the shared file. `neighbours` are the processes that see its commits."""

    name_in_events: ProcessId = ()
    """What events call it that say who entered a side effect."""

    def __init__(
        self,
        name: str,
        path: Path,
        *,
        plan: Plan,
        outside: Outside,
        model: ModelPort,
        tools: Sequence[ToolPort],
        neighbours: list[Process],
    ) -> None:
        self.name = name
        self.plan = plan
        self.outside = outside
        self.alive = True
        self.died = asyncio.Event()
        self.tasks: set[asyncio.Task[Any]] = set()
        self.context = contextvars.copy_context()
        self.context.run(current.set, self)
        self.neighbours = neighbours
        self.writer: InlineWriter
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        self.loop = loop
        with _inline_writers(self):
            self.kernel = Kernel.open(
                engine().open(path),
                models={"m": model},
                tools=tools,
                policy=POLICY,
                clock=VirtualClock(self.loop),
                environ={},
                fault=self.at,
            )
        neighbours.append(self)

    @property
    def holder(self) -> str:
        return self.kernel.services.holder

    def at(self, point: str) -> None:
        """The kernel's and the writer's fault hook."""
        if not self.alive:
            raise SimulatedCrash(point)
        error = self.plan.at(self.name, point)
        if error == "crash":
            self.crash(point)
            raise SimulatedCrash(point)
        if error == "full":
            raise engine().no_room()

    async def enter(self, kind: str, run_id: str, key: str | None) -> None:
        """A model or a tool is entered for a step. One that is recorded as completed must not be."""
        self.check_alive()
        self.outside.called(kind, f"{run_id}:{key}")
        if key is None or self.plan.workers > 1:
            return  # a worker that was taken for dead may be entering it for the last time
        rows = await self.kernel.store.query(
            "SELECT s.status FROM steps s JOIN runs r ON r.id = s.run WHERE r.run = ? AND s.key = ?",
            (run_id, key),
        )
        if rows and rows[0][0] == "completed":
            self.outside.violations.append(
                f"step {key} of {run_id} is completed and was executed again ({kind})"
            )

    def crash(self, why: str) -> None:
        """Die now. The simulation buries what is left."""
        if self.alive:
            self.alive = False
            self.plan.count(f"crash at {why}")
            self.loop.call_soon(self._cancel)

    def _cancel(self) -> None:
        for task in tuple(self.tasks):
            task.cancel()
        self.died.set()

    def check_alive(self) -> None:
        """Nothing leaves a dead process."""
        if not self.alive:
            raise SimulatedCrash(self.name)

    def wrote(self) -> None:
        for process in self.neighbours:
            if process is not self and process.alive:
                self.loop.call_later(NOTICE_S, process.writer.look_abroad, context=process.context)

    def start(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Run something as this process."""

        async def inside() -> T:
            self.check_alive()
            return await work

        task = self.context.copy().run(self.loop.create_task, inside())
        task.add_done_callback(lambda _: work.close())  # it may have died before it began
        return task

    async def bury(self) -> None:
        """Wait until a dead process has nothing left, and close its files."""
        for _ in range(100):
            left = [task for task in self.tasks if not task.done()]
            if not left:
                break
            for task in left:
                task.cancel()
            await asyncio.wait(left, timeout=1.0)
        assert all(task.done() for task in self.tasks), "a dead process goes on"
        self._close()

    async def leave(self) -> None:
        """End in good order: what is queued is committed, runs that are open are left as they are."""
        for task in tuple(self.tasks):
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        await self.kernel.aclose()
        self.alive = False
        self.neighbours.remove(self)

    def _close(self) -> None:
        self.kernel.close()
        self.neighbours.remove(self)


def task_factory(
    loop: asyncio.AbstractEventLoop, coro: Any, *, context: contextvars.Context | None = None
) -> asyncio.Task[Any]:
    """Makes tasks that belong to the process whose code makes them."""
    task = VirtualTask(coro, loop=loop, context=context)
    owner = current.get() if context is None else context.get(current)
    if owner is not None:
        owner.tasks.add(task)
        task.add_done_callback(owner.tasks.discard)
    return task
