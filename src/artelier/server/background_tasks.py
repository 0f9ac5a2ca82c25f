"""Work that goes on after its request was answered: background tasks, and the drives of runs."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from fastapi import FastAPI

from artelier.agents import Worker
from artelier.app import Kernel, TenantKernel
from artelier.errors import (
    ArtelierError,
    Conflict,
    Flow,
    LeaseHeld,
    NotFound,
    QueueFull,
    StoreClosed,
    StoreUnavailable,
    TooManyAtOnce,
)
from artelier.kernel import AgentResult, run_row

logger = logging.getLogger("artelier.server")

OF_TENANT_MAX = 64
"""Errands of one tenant (guess: far more than two cores serve), and never more than are free: a handful of
tenants that take what they may leave places to the next."""
AT_ONCE_MAX = 512
"""Errands of one server: a world that runs is one for hours, and costs next to nothing between its turns."""
ENDED_MAX = 256
"""Failures that are remembered."""

READS_OF_TENANT_MAX = 2
READS_AT_ONCE_MAX = 6
"""Whole histories that one server reads at once; a tenant that reads none may read one. Each has the loop for
a page of 1,000 events at a time."""

LET_GO_S = 5.0
"""The longest wait of a request for a drive whose run has stopped (guess: it ends within milliseconds)."""
LET_GO_LOOK_S = 0.02
"""Between two looks at it."""

Key = tuple[str, ...]


@dataclass(slots=True)
class Errand:
    """One of them, while it is on its way."""

    task: asyncio.Task[None]
    about: Any = None
    """What whoever sent it wants to be told of it."""


@dataclass(slots=True)
class Errands:
    """The errands of one app, by subject: `("turn", tenant, run id)`."""

    _at_work: dict[Key, Errand] = field(default_factory=dict[Key, Errand])
    _of_tenant: Counter[str] = field(default_factory=Counter[str])
    _failed: dict[Key, ArtelierError] = field(default_factory=dict[Key, ArtelierError])

    def start(self, key: Key, work: Coroutine[Any, Any, Any], *, about: object = None) -> Errand:
        """Let it run.

        Errors: `Conflict` if one about the same is on its way; `TooManyAtOnce`, `QueueFull`.
        """
        try:
            if self.at_work(key) is not None:
                raise Conflict(
                    f"{key[0]} {key[-1]} is being worked on already",
                    hint="Wait until that is done, or look at what it does so far.",
                )
            self.check_room(key[1])
        except ArtelierError:
            work.close()
            raise
        self._failed.pop(key, None)
        errand = Errand(asyncio.get_running_loop().create_task(self._run(key, work)), about)
        self._at_work[key] = errand
        self._of_tenant[key[1]] += 1
        errand.task.add_done_callback(lambda _: self._remove(key, errand))
        return errand

    def check_room(self, tenant: str) -> None:
        """Refuse more work of a tenant that has its share. Errors: `TooManyAtOnce`, `QueueFull`."""
        free = AT_ONCE_MAX - self._of_tenant.total()
        if not free:
            raise QueueFull("the server has its hands full", hint="Try again in a moment.")
        if self._of_tenant[tenant] >= min(OF_TENANT_MAX, free):
            raise TooManyAtOnce(
                "the server works on enough for this tenant",
                expected=f"at most {min(OF_TENANT_MAX, free)} at once",
                hint="Try again when some of it is done; a world that runs can be paused.",
            )

    def _remove(self, key: Key, errand: Errand) -> None:
        self._of_tenant -= Counter([key[1]])
        if self._at_work.get(key) is errand:  # else the next one has begun already
            del self._at_work[key]

    async def _run(self, key: Key, work: Coroutine[Any, Any, Any]) -> None:
        try:
            await work
        except Flow:
            pass  # it waits for somebody: its run says so
        except ArtelierError as error:
            logger.warning("%s: %s", " ".join(key), error)
            if len(self._failed) >= ENDED_MAX:
                del self._failed[next(iter(self._failed))]
            self._failed[key] = error

    def at_work(self, key: Key) -> Errand | None:
        """Return what is on its way about this; None once it has ended."""
        going = self._at_work.get(key)
        return None if going is None or going.task.done() else going

    def all_at_work(self, kind: str) -> list[Errand]:
        """Return those of a kind, the first piece of their keys, that are on their way."""
        return [one for key, one in self._at_work.items() if key[0] == kind and not one.task.done()]

    def failure(self, key: Key) -> ArtelierError | None:
        """Return why the last one about this ended before its time; None if it did not."""
        return self._failed.get(key)

    async def close(self) -> None:
        tasks = [one.task for one in self._at_work.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class LongReads:
    """Answers for which a whole history is read: few at once, so that they do not crowd out the others."""

    def __init__(self) -> None:
        self._at_work: Counter[str] = Counter()

    @contextmanager
    def turn(self, tenant: str) -> Generator[None]:
        """Errors: `TooManyAtOnce` for a tenant that has its share, `QueueFull` for the whole server."""
        if self._at_work[tenant] >= READS_OF_TENANT_MAX:
            raise TooManyAtOnce(
                "the tenant reads whole histories already",
                expected=f"at most {READS_OF_TENANT_MAX} at once",
                hint="Try again when one of them is done.",
            )
        if self._at_work[tenant] and self._at_work.total() >= READS_AT_ONCE_MAX:
            raise QueueFull("the server reads enough whole histories", hint="Try again in a moment.")
        self._at_work[tenant] += 1
        try:
            yield
        finally:
            self._at_work[tenant] -= 1
            if not self._at_work[tenant]:
                del self._at_work[tenant]


def long_reads_of(app: FastAPI) -> LongReads:
    """The long reads of an app."""
    found = getattr(app.state, "long_reads", None)
    if found is None:
        found = app.state.long_reads = LongReads()
    return found


def errands_of(app: FastAPI) -> Errands:
    """The errands of an app."""
    found = getattr(app.state, "errands", None)
    if found is None:
        found = app.state.errands = Errands()
    return found


SETTLE_S = 3.0
"""Before runs of a process that is gone are taken up: the page opens first, whatever they do."""


class Driver:
    """Drives runs until it is stopped; those at hand stay resumable."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._forever())

    async def stop(self) -> None:
        """End the work at hand; its runs stay resumable."""
        if self._task is None:
            return
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task

    async def _forever(self) -> None:
        worker = Worker(self._kernel, self._kernel.services, report=_report, spare=True, on_away=_tell_away)
        with suppress(StoreClosed):
            await worker.forever(settle_s=SETTLE_S)


def _tell_away(error: StoreUnavailable) -> None:
    logger.error("the worker cannot read the store: %s", error.code)


def _report(tenant: str, run_id: str, outcome: AgentResult | ArtelierError) -> None:
    if isinstance(outcome, ArtelierError):
        logger.warning("run %s of %s cannot be driven here: %s", run_id, tenant, outcome.code)
    else:
        logger.info("run %s of %s is %s", run_id, tenant, outcome.status)


def key_of(kind: str, desk: TenantKernel, id: str) -> Key:
    return (kind, desk.id, id)


async def send_work(
    errands: Errands,
    key: Key,
    work: Coroutine[Any, Any, Any],
    desk: TenantKernel,
    *,
    run_id: str,
    check_begun: Callable[[], Awaitable[None]] | None = None,
) -> Errand:
    """Let work go on beside the answer, and wait until its run has begun.

    `check_begun` refuses a run that another server has begun for something else.
    Errors: what the work refused before that; `Conflict` if the same is on its way, `TooManyAtOnce`,
    `QueueFull`.
    """
    try:
        await let_go(errands, key, desk, run_id)
    except BaseException:
        work.close()
        raise
    errand = errands.start(key, work)
    loop, came = asyncio.get_running_loop(), asyncio.Event()

    def on_commit(position: int, abroad: bool) -> None:
        with suppress(RuntimeError):  # the loop was closed in between
            loop.call_soon_threadsafe(came.set)

    errand.task.add_done_callback(lambda _: came.set())
    unlisten = desk.services.store.listen(on_commit)
    try:
        while not errand.task.done() and not await has_begun(desk, run_id):
            await came.wait()
            came.clear()
    finally:
        unlisten()
    check(errands, key, errand)
    if (held := errands.failure(key)) is not None and not await has_begun(desk, run_id):
        raise held  # by another process, which has not recorded yet what it does
    if check_begun is not None:
        await check_begun()
    return errand


async def let_go(errands: Errands, key: Key, desk: TenantKernel, run_id: str) -> None:
    """Wait for an errand that does not drive its run: it will have lost that to another server, or the run
    has stopped, which is seen a moment before its drive ends."""
    going = errands.at_work(key)
    with suppress(TimeoutError):
        async with asyncio.timeout(LET_GO_S):
            while going is not None and not going.task.done() and not await _is_driven(desk, run_id):
                await asyncio.wait({going.task}, timeout=LET_GO_LOOK_S)


async def _is_driven(desk: TenantKernel, run_id: str) -> bool:
    """Return True if this server drives a run, and it has not stopped."""
    if desk.services.driver(desk.id, run_id) is None:
        return False
    return (await run_row(desk.services.store, desk.id, run_id)).status in ("pending", "running")


def check(errands: Errands, key: Key, errand: Errand) -> None:
    """Errors: that which an errand ended with, if it has, unless somebody else does the same work."""
    if not errand.task.done():
        return
    errand.task.result()
    failure = errands.failure(key)
    if failure is not None and not isinstance(failure, LeaseHeld):
        raise failure


async def has_begun(desk: TenantKernel, run_id: str) -> bool:
    try:
        await run_row(desk.services.store, desk.id, run_id)
    except NotFound:
        return False
    return True
