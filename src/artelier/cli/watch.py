"""A run as it happens: its durable events, told on stderr while something in this process drives it."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable
from types import TracebackType

from artelier.app import Kernel
from artelier.cli.screen import Screen
from artelier.cli.story import Line, Story
from artelier.kernel.events import ApprovalGiven, ApprovalRequested
from artelier.log import Event, blob_name, run_stream

RECALLED = 200
"""Events before the beginning that are looked through for calls in flight."""

HELD_MAX = 1000
"""Lines kept back while a question stands on the terminal; older ones are left out."""


class Watch:
    """`async with Watch(...)` tells what a run does from now on.

    `asked(step)` and `answered(step)` are called when a question to a person is recorded, and its answer;
    `asked` tells whether it will show the question itself.
    """

    def __init__(
        self,
        kernel: Kernel,
        tenant: str,
        run_id: str,
        screen: Screen,
        *,
        asked: Callable[[str], bool] = lambda step: False,
        answered: Callable[[str], None] = lambda step: None,
    ) -> None:
        self._kernel = kernel
        self._stream = run_stream(tenant, run_id)
        self._screen = screen
        self._asked = asked
        self._answered = answered
        self._story = Story(lambda ref: kernel.store.blob(tenant, blob_name(ref)))
        self._position = 0
        self._held: deque[Line] | None = None
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Watch:
        store = self._kernel.store
        self._position = (await store.root())[0]
        head, _ = await store.head(self._stream)
        for event in await store.read(self._stream, after=max(0, head - RECALLED)):
            self._story.remember(event)
        self._task = asyncio.create_task(self._follow(forever=True))
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
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
                if event.stream == self._stream:
                    await self._tell(event)
                self._position = event.position

    async def _tell(self, event: Event) -> None:
        if event.kind == ApprovalRequested.KIND and self._asked(event.plain()["key"]):
            return
        for line in await self._story.lines(event):
            if self._held is None:
                self._screen.note(line.text, line.style)
            else:
                self._held.append(line)
        if event.kind == ApprovalGiven.KIND:
            self._answered(event.plain()["key"])
