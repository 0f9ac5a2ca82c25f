"""The one writer of a run's stream: orders what parallel steps record, and says when it is durable.

Notes ride with the next batch and are flushed at the latest when the run's code next yields to the event
loop; so a model's reply and the tool call that follows it share one commit, and nothing waits for long.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, cast

from artelier.clock import Clock
from artelier.errors import Exhausted, StoreClosed
from artelier.kernel.events import CycleCompleted, StepCompleted
from artelier.kernel.history.step_history import asks_or_ends, ends_step
from artelier.log import (
    Batch,
    Blob,
    Draft,
    EventData,
    Fence,
    LeaseEnd,
    Receipt,
    Store,
    Stream,
    StreamAppend,
    Tx,
)

if TYPE_CHECKING:
    from artelier.kernel.run.services import Services

SMALL_BYTES = 4096
"""Content up to this size is remembered once it is stored, so that it is not stored with every step."""

STORED_MAX = 1024
"""How many pieces of content are remembered."""


class Actor:
    """Appends to one run's stream under its lease. Not safe outside the event loop that made it."""

    def __init__(
        self, store: Store, clock: Clock, stream: Stream, fence: Fence, name: str, *, lease_end: LeaseEnd
    ) -> None:
        """`lease_end`: until then nobody else takes the lease, unless he knows this process is gone."""
        self._store = store
        self._lease_end = lease_end
        self._loop = asyncio.get_running_loop()
        self._clock = clock
        self.stream = stream
        self.fence = fence
        self.name = name
        self._drafts: list[Draft] = []
        self._blobs: list[Blob] = []
        self._side: list[StreamAppend] = []
        self._scheduled = False
        self._unconfirmed: set[asyncio.Future[Receipt]] = set()
        self._refusable: set[asyncio.Future[Receipt]] = set()
        """Of those: what a limit may refuse without harm to the run."""
        self._undecided: set[asyncio.Future[Receipt]] = set()
        """Batches on their way that are counted, and that a limit may still refuse."""
        self.cycles = 0
        """Cycles of a built-in loop that were recorded as done."""
        self.steps = 0
        """Steps that were recorded as done."""
        self._stored: set[bytes] = set()
        """Names of small content that is durable: a batch that may be refused makes none of it so."""
        self.count = 0
        """Requests and outcomes of steps that were noted."""
        self.goes_on: Callable[[], None] = lambda: None
        """Told before what the run's code does next is recorded."""
        self.ended: Callable[[str], None] = lambda key: None
        """Told the key of a step whose outcome is recorded."""
        self.taken_back: Callable[[int, int], None] = lambda upto, number: None
        """Told how many of the first `upto` that were counted a limit has refused."""
        self.failure: BaseException | None = None
        """Why a batch that nobody waited for was refused; the run cannot go on."""

    def note(self, data: EventData, blobs: Sequence[Blob] = ()) -> None:
        """Record with the next batch. Errors: `InvalidRequest` for a name that holds personal data."""
        if (names := self._store.names) is not None:
            names.check(self.stream, (data,))
        if asks_or_ends(data):
            self.goes_on()
            self.count += 1
        self._drafts.append(Draft(data, self._clock.now_us(), self.name))
        self._tally(data)
        self._blobs.extend(blobs)
        if not self._scheduled:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._flush_soon)

    def _tally(self, data: EventData) -> None:
        if isinstance(data, CycleCompleted):
            self.cycles += 1
        elif ends_step(data):
            self.steps += 1
            self.ended(cast(StepCompleted, data).key)

    def note_aside(self, append: StreamAppend, blobs: Sequence[Blob]) -> None:
        """Record in another stream (an artifact's) in the same batch as the notes. Errors: as of `note`."""
        self._check_names((), (append,))
        self._side.append(append)
        self._blobs.extend(blobs)

    def _flush_soon(self) -> None:
        self._scheduled = False
        if self._drafts:
            try:
                self.flush()
            except StoreClosed as error:  # its run hears of it; here nobody waits
                self.failure = self.failure or error

    def hand_over(self) -> None:
        """Queue what was noted, for a store that is about to be closed. Outside its loop: do nothing."""
        with suppress(RuntimeError, StoreClosed):
            if asyncio.get_running_loop() is self._loop:
                self.flush()

    def _take(self) -> Batch | None:
        return self._batch() if self._drafts or self._side else None

    def _batch(
        self,
        *,
        release: Fence | None = None,
        is_optional: bool = False,
        guard: Callable[[Tx], None] | None = None,
    ) -> Batch:
        """Return all that was noted as one batch; nothing is left."""
        appends = [StreamAppend(self.stream, self._drafts)] if self._drafts else []
        blobs = [blob for blob in self._blobs if blob.name not in self._stored]
        batch = Batch(
            appends=[*appends, *self._side],
            blobs=blobs,
            fence=self.fence,
            builds=True,
            release=release,
            is_optional=is_optional,
            guard=guard,
        )
        self._drafts, self._blobs, self._side = [], [], []
        return batch

    def flush(self) -> None:
        """Queue what was noted; a refusal is found at the next commit."""
        batch = self._take()
        if batch is not None:
            self._watch(self._store.submit(batch), batch)

    def _watch(self, waiting: Awaitable[Receipt], batch: Batch) -> None:
        assert isinstance(waiting, asyncio.Future)
        self._unconfirmed.add(waiting)
        waiting.add_done_callback(partial(self._confirm, batch))

    def _confirm(self, batch: Batch, future: asyncio.Future[Receipt]) -> None:
        self._unconfirmed.discard(future)
        self._confirmed_error(future)
        self._refusable.discard(future)
        if not future.cancelled() and future.exception() is None:
            self._remember(batch)

    def _uncount(self, upto: int, number: int, future: asyncio.Future[Receipt]) -> None:
        """Take back the count of a batch that a limit has refused: it stands in no log."""
        self._undecided.discard(future)
        if not future.cancelled() and isinstance(future.exception(), Exhausted):
            self.count -= number
            self.taken_back(upto, number)

    def _remember(self, batch: Batch) -> None:
        """The batch is durable: its small content need not be stored again."""
        if len(self._stored) >= STORED_MAX:
            self._stored.clear()
        self._stored.update(blob.name for blob in batch.blobs if len(blob.content) <= SMALL_BYTES)

    def _confirmed_error(self, future: asyncio.Future[Receipt]) -> None:
        if not future.cancelled() and (error := future.exception()) is not None:
            if not (future in self._refusable and isinstance(error, Exhausted)):
                self.failure = self.failure or error

    async def commit(
        self,
        *data: EventData,
        blobs: Sequence[Blob] = (),
        aside: Sequence[StreamAppend] = (),
        refusable: bool = False,
        guard: Callable[[Tx], None] | None = None,
        refused: Callable[[], None] | None = None,
        release: bool = False,
        actor: str | None = None,
        cause: str | None = None,
    ) -> int:
        """Make these events, and all that was noted before them, durable; the seq of the last of them.

        `aside` are events of other streams for the same batch. With `refusable`, a refusal by a limit, an
        account or the `guard` (see `Batch.guard`) takes back only these events, not the notes; `refused` is
        called then, also if the caller was cancelled meanwhile.
        Errors: what refused the batch, or an earlier unwatched one.
        """
        self.check()
        self._check_names(data, aside)
        if any(asks_or_ends(item) for item in data):
            self.goes_on()
        notes = self._take() if refusable else None
        now = self._clock.now_us()
        before = self.count
        for item in data:
            self.count += asks_or_ends(item)
            self._drafts.append(Draft(item, now, actor or self.name, cause))
            self._tally(item)
        self._blobs.extend(blobs)
        self._side.extend(aside)
        if not release and not self._drafts and not self._side:
            await self.wait_settled()
            return 0
        batch = self._batch(release=self.fence if release else None, is_optional=refusable, guard=guard)
        try:
            if notes is not None:
                noted, waiting = self._store.submit_all((notes, batch))
                self._watch(noted, notes)
            else:
                waiting = self._store.submit(batch)
            assert isinstance(waiting, asyncio.Future)
            if refused is not None:
                waiting.add_done_callback(partial(_tell_refusal, refused))
            if refusable and self.count > before:
                self._undecided.add(waiting)
                waiting.add_done_callback(partial(self._uncount, self.count, self.count - before))
            receipt = await self._wait_decision(waiting, batch, refusable=refusable)
            self._remember(batch)
        except Exhausted as error:
            if not refusable:
                self.failure = self.failure or error
            raise
        except Exception as error:
            self.failure = self.failure or error
            raise
        # Batches are decided in order, so every earlier one is decided by now.
        for future in self._unconfirmed:
            if future.done():
                self._confirmed_error(future)
        self.check()
        return receipt.seqs[0] if receipt.seqs else 0

    async def _wait_decision(self, waiting: Awaitable[Receipt], batch: Batch, *, refusable: bool) -> Receipt:
        """The receipt of a batch. If the caller is cancelled, what becomes of the batch is still noticed."""
        assert isinstance(waiting, asyncio.Future)
        try:
            return await asyncio.shield(waiting)
        except asyncio.CancelledError:
            self._watch(waiting, batch)
            if refusable:
                self._refusable.add(waiting)
            raise

    async def wait_settled(self) -> None:
        """Wait until every queued batch is durable. Errors: the first refusal."""
        await self.wait_decided()
        self.check()

    async def wait_decided(self) -> None:
        """Wait until every queued batch is durable or refused; `failure` says which."""
        while undecided := self._unconfirmed | self._undecided:
            await asyncio.wait(undecided)
            await asyncio.sleep(0)

    async def hold(self, services: Services) -> None:
        """Wait until this process drives the run for sure: what is entered now cannot be taken back.

        While it was stopped, or the machine slept, the lease may have gone to another process.
        Errors: `LeaseLost`; `StoreUnavailable`. Cost: nothing, but for a commit once in the time of a lease.
        """
        while services.is_ending(self._lease_end):
            try:
                end = services.lease_end()
                await self._store.renew(services.holder, until=end, streams=(self.stream,))
                await self._store.append(Batch(fence=self.fence))
            except Exception as error:
                self.failure = self.failure or error
                raise
            self._lease_end = end

    def _check_names(self, data: Sequence[EventData], aside: Sequence[StreamAppend]) -> None:
        """Refuse a name here, where only its caller hears of it: the store would refuse the whole batch."""
        if (names := self._store.names) is None:
            return
        names.check(self.stream, data)
        for append in aside:
            drafts = [draft.data for draft in append.events if isinstance(draft, Draft)]
            names.check(append.stream, drafts)

    def check(self) -> None:
        """Errors: why an earlier batch was refused."""
        if self.failure is not None:
            raise self.failure

    async def last_word(self, data: Sequence[EventData], blobs: Sequence[Blob]) -> None:
        """After a refused batch: record how the drive ended, without what was refused, and release."""
        drafts = [Draft(item, self._clock.now_us(), self.name) for item in data]
        appends = [StreamAppend(self.stream, drafts)] if drafts else []
        batch = Batch(appends=appends, blobs=blobs, fence=self.fence, release=self.fence)
        await self._store.submit(batch)


def _tell_refusal(refused: Callable[[], None], future: asyncio.Future[Receipt]) -> None:
    """Call `refused` if a limit has refused a batch: it stands in no log."""
    if not future.cancelled() and isinstance(future.exception(), Exhausted):
        refused()
