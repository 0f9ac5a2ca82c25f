"""The queue of the one writer of a process, and the groups that are committed: tenants take turns.

Read next: `writer.py`, which commits the groups.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import Any

from artelier.errors import StoreClosed
from artelier.log.contract import Batch
from artelier.log.database import Database
from artelier.log.event import RawDraft

GROUP_MAX = 512
"""Batches per commit: bounds the time a waiter of the same group may lose to others."""

GROUP_ROWS_MAX = 2_048
"""Events and contents per commit of one tenant, some 50 ms (guess: more than 512 usual batches have)."""

SHARED_ROWS_MAX = 512
"""Events and contents per commit while several tenants wait: a larger batch is committed alone, and for
as long as that took others go first: what they do next builds on what they wait for."""

SHARED_S = 1.0
"""For so long after a commit for one tenant and another, a tenant does not have the writer for itself."""

GROUP_S = 0.05
"""The time of a group: then it is committed, and the rest of it goes back. What a plain function costs, or a
view that has much to change for one event, is known only afterwards."""

LINGER_FROM = 12
"""A group at least this large says that many runs are at work; then waiting a little saves fsyncs."""

LINGER_S = 0.020
"""The time for which a busy writer waits for its group to grow (then 0.03 fsyncs per cycle at 1,000 runs)."""

POLL_S = 0.1
"""The time between looks of an idle writer for commits of other processes: half of the promised 200 ms."""


_ALL = "\0"
"""The one lane of all tenants, while a batch waits that is of several. No tenant is called so."""


class WriterJob:
    """A submitted batch, a plain function to run inside a transaction, or both as one."""

    __slots__ = ("batch", "call", "error", "future", "is_of_several", "loop", "result", "rows", "tenant")

    def __init__(
        self, batch: Batch | None, call: Callable[[Database], Any] | None, *, tenant: str = "", rows: int = 1
    ) -> None:
        """`tenant` and `rows` are those of a plain function; a batch has its own."""
        self.batch = batch
        self.call = call
        self.loop = asyncio.get_running_loop()
        self.future: asyncio.Future[Any] = self.loop.create_future()
        self.result: Any = None
        self.error: BaseException | None = None
        self.tenant = tenant or _tenant_of(batch)
        """The tenant that it is for, the same for all batches of a run; empty for the process itself."""
        self.is_of_several = batch is not None and any(
            append.stream.tenant != self.tenant for append in batch.appends
        )
        """True if it appends to streams of other tenants, too."""
        self.rows = max(rows, _rows_of(batch))
        """About how many rows it writes."""

    @property
    def is_large(self) -> bool:
        return self.rows > SHARED_ROWS_MAX

    def resolve(self) -> None:
        """Tell the waiter, in its loop."""
        if self.future.done():  # its waiter was cancelled; the batch stands as it was decided
            return
        if self.error is None:
            self.future.set_result(self.result)
        else:
            self.future.set_exception(self.error)
            # A run that ends on the first of several refused batches never looks at the others.
            self.future.exception()


def _tenant_of(batch: Batch | None) -> str:
    if batch is None:
        return ""
    if batch.fence is not None:
        return batch.fence.stream.tenant
    if batch.acquire is not None:
        return batch.acquire.stream.tenant
    if batch.appends:
        return batch.appends[0].stream.tenant
    return batch.blobs[0].tenant if batch.blobs else ""


def _rows_of(batch: Batch | None) -> int:
    if batch is None:
        return 1
    rows = len(batch.blobs)
    for append in batch.appends:
        for draft in append.events:
            rows += draft.rows if isinstance(draft, RawDraft) else 1
    return rows


class WriterQueue:
    """The jobs of each tenant, in their order. Event loops put them in, and one thread takes them."""

    def __init__(self) -> None:
        self._wake = threading.Condition(threading.Lock())
        self._lanes: dict[str, deque[WriterJob]] = {}
        """By tenant; the one whose turn is next first."""
        self._count = 0
        self._is_told = False
        """Another process is said to have committed since this one looked."""
        self.is_stopping = False
        self._last_count = 0
        """Jobs of the last group."""
        self._is_cut = False
        """Whether the last group left some to the next."""
        self._last_tenant = ""
        self._shared_s = 0.0
        """When two tenants were last served, one after the other or together."""
        self._rest_until_s = 0.0
        """Until then no large batch is begun."""
        self._is_resting = False

    def __len__(self) -> int:
        return self._count

    def put(self, jobs: Sequence[WriterJob]) -> None:
        """Errors: `StoreClosed` after `stop`."""
        with self._wake:
            if self.is_stopping:
                raise StoreClosed("the store is closed", hint="Open the kernel again.")
            was_empty = not self._count
            for job in jobs:
                if job.is_of_several:
                    self._join(())
                name = _ALL if _ALL in self._lanes else job.tenant
                lane = self._lanes.get(name)
                if lane is None:
                    lane = self._lanes[name] = deque()
                lane.append(job)
            self._count += len(jobs)
            if was_empty or self._count >= GROUP_MAX or self._is_resting:
                self._wake.notify()

    def put_back(self, group: list[WriterJob], *, done: int) -> None:
        """Take back what a group has left after so many jobs, before all else of the same tenants.

        Tenants of whom it did nothing come first, the others last.
        """
        with self._wake:
            self._count += len(group) - done
            self._is_cut = True
            if _ALL in self._lanes or any(job.is_of_several for job in group[done:]):
                self._join(group[done:])
                del group[done:]
                return
            served = {job.tenant for job in group[:done]}
            first, last = dict[str, deque[WriterJob]](), dict[str, deque[WriterJob]]()
            for job in group[done:]:
                (last if job.tenant in served else first).setdefault(job.tenant, deque()).append(job)
            for tenant, jobs in (first | last).items():
                jobs.extend(self._lanes.pop(tenant, ()))
            self._lanes = first | self._lanes | last
        del group[done:]

    def _join(self, first: Iterable[WriterJob]) -> None:
        """Put all that waits into one lane, behind these: a batch of several tenants keeps its place in each.

        Tenants take turns again when that lane is empty.
        """
        self._lanes = {_ALL: deque(chain(first, *self._lanes.values()))}

    def look(self) -> None:
        """Have an idle taker wake now, not at the next poll."""
        with self._wake:
            self._is_told = True
            self._wake.notify()

    def stop(self) -> None:
        """Take nothing more in. What waits is still given out."""
        with self._wake:
            self.is_stopping = True
            self._wake.notify()

    def take(self) -> list[WriterJob] | None:
        """Wait for the next group: empty after an idle interval, None at the end."""
        with self._wake:
            if not self._count:
                if self.is_stopping:
                    return None
                if not self._is_told:
                    self._wake.wait(POLL_S)
                self._is_told = False
            if self._last_count >= LINGER_FROM and not (self._is_cut or self.is_stopping):
                self._wake.wait_for(self._is_full, LINGER_S)
            self._rest()
            return self._take_turns()

    def end(self, group: list[WriterJob], *, began_s: float) -> None:
        """Say that a group is done, and when it was begun, by the monotonic clock."""
        self._last_count = len(group)
        if group[0].is_large and began_s - self._shared_s < SHARED_S:
            ended_s = time.monotonic()
            self._rest_until_s = ended_s + (ended_s - began_s)

    def _is_full(self) -> bool:
        return self._count >= GROUP_MAX or self.is_stopping

    def _rest(self) -> None:
        """Wait for batches that are not large, if it is their turn."""
        left_s = self._rest_until_s - time.monotonic()
        if left_s > 0 and not self._has_small():
            self._is_resting = True
            self._wake.wait_for(self._has_small, left_s)
            self._is_resting = False

    def _has_small(self) -> bool:
        return self.is_stopping or self._is_any_small()

    def _is_any_small(self) -> bool:
        return any(not lane[0].is_large for lane in self._lanes.values())

    def _take_turns(self) -> list[WriterJob]:
        """Return a group: one job of each tenant after the other, but none that is too large for it.

        Whose job is too large for this group begins the next one.
        """
        group, rows, lanes = list[WriterJob](), 0, self._lanes
        now_s = time.monotonic()
        is_alone = len(lanes) == 1 and now_s - self._shared_s > SHARED_S
        most = GROUP_ROWS_MAX if is_alone else SHARED_ROWS_MAX
        is_resting = now_s < self._rest_until_s and self._is_any_small()
        next_first = dict[str, deque[WriterJob]]()
        while lanes and len(group) < GROUP_MAX:
            tenant = next(iter(lanes))
            lane = lanes.pop(tenant)
            if (group or is_resting) and rows + lane[0].rows > most:
                next_first[tenant] = lane
                continue
            job = lane.popleft()
            group.append(job)
            rows += job.rows
            if lane:
                lanes[tenant] = lane  # behind the others now
            if tenant and tenant != self._last_tenant:
                self._last_tenant, self._shared_s = tenant, time.monotonic()
        self._lanes = next_first | lanes
        self._count -= len(group)
        self._is_cut = bool(self._lanes)
        return group
