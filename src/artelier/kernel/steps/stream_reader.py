"""The reader of a streamed reply for a run's code, and the way to leave a reply before its end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractContextManager, suppress

from artelier.kernel.prompt.manifest import canonical
from artelier.kernel.run.context import RunCore
from artelier.kernel.run.pending_steps import AtWork
from artelier.kernel.run.status import ModelResult
from artelier.kernel.steps.model_call import ModelCall
from artelier.kernel.steps.model_step import stream_step
from artelier.log import Blob, BlobRef
from artelier.ports.model import Delta


class ModelStream:
    """Pieces of a reply as they come, and the `ModelResult` last; `async for` reads it.

    A reader that leaves it (`break`, an exception, `aclose`) cancels the step: what came is recorded, and a
    replay gives the same pieces again.
    """

    def __init__(
        self,
        core: RunCore,
        call: ModelCall,
        *,
        key: str | None,
        branch: Callable[[], AbstractContextManager[None]],
    ) -> None:
        self._reading = _StreamAtWork(core, call, key)
        self._branch = branch

    def __aiter__(self) -> ModelStream:
        return self

    async def __anext__(self) -> Delta | ModelResult:
        with self._branch():  # only while we work: the reader's own steps are not ours
            return await self._reading.next()

    async def aclose(self) -> None:
        """Leave the stream."""
        await self._reading.close()

    def __del__(self) -> None:
        self._reading.drop()


class _StreamAtWork:
    """One stream at work; the reader may be gone before it."""

    def __init__(self, core: RunCore, call: ModelCall, key: str | None) -> None:
        self._core = core
        self._call = call
        self._key = key
        self._parent = ""
        self._step: AtWork | None = None
        self._items: AsyncGenerator[Delta | ModelResult] | None = None
        self._given: list[str] = []
        self._is_over = False
        self.is_busy = False

    async def next(self) -> Delta | ModelResult:
        if self._is_over:
            raise StopAsyncIteration
        delivery = self._core.delivery
        if self._step is None or self._items is None:
            self._parent, full = self._core.begin(self._key)
            self._step = delivery.begin(full, "model")
            self._step.came = self._keep_text
            self._items = stream_step(self._core, self._call, self._step)
            delivery.readings.add(self)
        self._step.task, self.is_busy = asyncio.current_task(), True
        try:
            try:
                item = await anext(self._items)
                while isinstance(item, Delta) and not item.text:
                    if self._call.on_reasoning is not None:
                        await self._call.on_reasoning(item.reasoning)
                    item = await anext(self._items)
            except Exception as error:
                if not isinstance(error, StopAsyncIteration):
                    await delivery.turn(self._step)
                raise
            if isinstance(item, Delta):
                await delivery.piece()
                self._given.append(item.text)
            else:
                await delivery.turn(self._step)
        except BaseException as error:
            if isinstance(error, asyncio.CancelledError):
                delivery.note_cancelled(self._step)
            self._finish()
            raise
        finally:
            self.is_busy = False
        return item

    def _keep_text(self) -> tuple[BlobRef | None, list[Blob]]:
        if not self._given:
            return None, []
        ref, blob = self._core.keep(self._core.clean(canonical(self._given)))
        return ref, [blob]

    def _finish(self) -> None:
        if self._step is not None and not self._is_over:
            self._core.delivery.end(self._step)
            self._core.end(self._parent)
        self._is_over = True
        self._core.delivery.readings.discard(self)

    def leave(self) -> None:
        """Take down that the reader is gone; nothing waits for it."""
        step, core = self._step, self._core
        if step is None or self._is_over:
            self._is_over = True
            return
        step.is_left = True
        if not step.is_settled:
            if step.bill is not None and core.actor is not None:
                step.bill()
            core.delivery.note_cancelled(step)
        self._finish()

    async def close(self) -> None:
        """Leave, and end the call to the provider."""
        self.leave()
        if self._items is not None:
            await self._items.aclose()

    def drop(self) -> None:
        """The reader has let go of the stream, in whatever thread."""
        if self._is_over:
            return
        loop = self._core.loop
        with suppress(RuntimeError):  # the loop was closed
            try:
                is_here = asyncio.get_running_loop() is loop
            except RuntimeError:
                is_here = False
            if is_here:
                self.leave()  # at once, so that the next step has the next number
            loop.call_soon_threadsafe(self._close_soon)

    def _close_soon(self) -> None:
        self._core.delivery.see_to(self.close())
