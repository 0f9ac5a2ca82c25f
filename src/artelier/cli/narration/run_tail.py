"""A run as it happens: its durable events, told on stderr while something in this process drives it."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable
from types import TracebackType

from artelier.app import Kernel
from artelier.cli.narration.run_events import Narration, NarrationLine
from artelier.cli.screen import Screen
from artelier.kernel.events import ApprovalGiven, ApprovalRequested, RunStarted
from artelier.kernel.queries.runs import family_in_loop
from artelier.log import Event, Stream, blob_name, run_stream
from artelier.missions.handle import TASK

RECALLED = 200
"""Events before the beginning that are looked through for calls in flight."""

HELD_MAX = 1000
"""Lines kept back while a question stands on the terminal; older ones are left out."""


class Watch:
    """`async with Watch(...)` tells what a run does from now on, and of a mission what its tasks do.

    `asked(run, step)` and `answered(run, step)` are called when a question to a person is recorded, and its
    answer; `asked` tells whether it will show the question itself.
    """

    def __init__(
        self,
        kernel: Kernel,
        tenant: str,
        run_id: str,
        screen: Screen,
        *,
        asked: Callable[[str, str], bool] = lambda run, step: False,
        answered: Callable[[str, str], None] = lambda run, step: None,
    ) -> None:
        self._kernel = kernel
        self._tenant = tenant
        self._run_id = run_id
        self._screen = screen
        self._asked = asked
        self._answered = answered
        self._stories: dict[Stream, Narration] = {}
        """By stream: that of the run, and those of the tasks below it."""
        self._position = 0
        self._held: deque[NarrationLine] | None = None
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Watch:
        store = self._kernel.store
        self._position = (await store.root())[0]
        for run in await tasks_below(self._kernel, self._tenant, self._run_id):
            stream, story = run_stream(self._tenant, run), self._follows(run)
            head, _ = await store.head(stream)
            for event in await store.read(stream, after=max(0, head - RECALLED)):
                story.remember(event)
        self._task = asyncio.create_task(self._follow(forever=True))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._task is not None
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task
        self.release()
        await self._follow(forever=False)  # what was committed since the task's last look

    def hold(self) -> None:
        """Keep lines back: somebody is typing."""
        self._held = self._held or deque(maxlen=HELD_MAX)

    def release(self) -> None:
        """Show what was kept back."""
        held, self._held = self._held, None
        for line in held or ():
            self._screen.note(line.text, line.style)

    async def _follow(self, *, forever: bool) -> None:
        events = self._kernel.events(after=self._position, follow=forever)
        async with contextlib.aclosing(events):
            async for event in events:
                if event.kind == RunStarted.KIND and self._is_task_below(event):
                    self._follows(event.stream.id)
                if event.stream in self._stories:
                    await self._tell(event)
                self._position = event.position

    async def _tell(self, event: Event) -> None:
        run = event.stream.id
        if event.kind == ApprovalRequested.KIND and self._asked(run, event.plain()["key"]):
            return
        label = "" if run == self._run_id else f"{run.removeprefix(f'{self._run_id}/')}  "
        for told in await self._stories[event.stream].lines(event):
            line = NarrationLine(label + told.text, told.style)
            if self._held is None:
                self._screen.note(line.text, line.style)
            else:
                self._held.append(line)
        if event.kind == ApprovalGiven.KIND:
            self._answered(run, event.plain()["key"])

    def _follows(self, run: str) -> Narration:
        kernel, tenant = self._kernel, self._tenant
        story = Narration(lambda ref: kernel.store.blob(tenant, blob_name(ref)))
        return self._stories.setdefault(run_stream(tenant, run), story)

    def _is_task_below(self, event: Event) -> bool:
        started = event.plain()
        parent = started.get("parent")
        if event.stream.tenant != self._tenant or not parent or started.get("loop") != TASK:
            return False
        return run_stream(self._tenant, parent) in self._stories


async def tasks_below(kernel: Kernel, tenant: str, run_id: str) -> list[str]:
    """The run itself, and the runs of tasks below it."""
    return await family_in_loop(kernel.store, tenant, run_id, TASK, limit=1000)
