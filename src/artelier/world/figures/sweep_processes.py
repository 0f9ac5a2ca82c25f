"""The processes of a sweep: each passes one run after another, and none outlives who started it.

`Sweeping` starts them; `serve_jobs` is what each does, with a store that whoever sweeps knows how to open. It
reads jobs from its standard input, a line of JSON each, and answers each with a line. The end of its input,
however the other side ended (`kill -9` included), ends it at once, which a store survives.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import queue
import sys
import threading
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from artelier.errors import ArtelierError, Conflict, External, RunSuspended, StoreUnavailable
from artelier.world.deciders import Policy
from artelier.world.figures.sweep import PlannedRun, pass_world, row_of, save_row
from artelier.world.kernel_adapter import Host

DATABASE = "state.db"
LOCK = "lock"

LOCK_WAIT_S = 3.0
"""For processes of a sweep that was killed: they end at once, but not before their disk has answered."""

LOCK_LOOK_S = 0.05
"""Between two looks at it."""

LINE_BYTES_MAX = 1024 * 1024
"""Of an answer."""


class SweepJob(msgspec.Struct, frozen=True, kw_only=True):
    """One run for a process to pass."""

    planned: PlannedRun
    folder: str
    options: Mapping[str, str | None]
    """Those of whoever sweeps, for its process."""
    allotted: int | None
    """Micro-dollars that it may spend beyond what it has spent and holds; None: no limit."""
    keeps_store: bool = True
    """Whether the database of the run stays when its row is written."""


class JobEnd(msgspec.Struct, frozen=True, kw_only=True):
    """The end of a job."""

    ended: str
    """`done`, `budget` or `failed`."""
    committed: int = 0
    """Micro-dollars that the run has spent or holds."""
    error: dict[str, Any] | None = None
    code: int = 0
    """The exit code that fits the error."""


class SweepRunFailed(ArtelierError):
    """A run of a sweep could not be passed: with the code and the facts of what it met."""

    def __init__(self, run: str, params: Mapping[str, Any], answer: JobEnd) -> None:
        wire = answer.error or {}
        said = ", ".join(f"{name}={value}" for name, value in params.items())
        super().__init__(
            f"run {run} ({said}): {wire.get('message')}",
            expected=wire.get("expected"),
            got=wire.get("got"),
            hint=wire.get("hint"),
        )
        self.exit_code = answer.code or 1
        self.code = str(wire.get("code", self.code))


# The process


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenStore:
    """The store of one run while it is passed."""

    host: Host
    policies: Callable[[], Mapping[str, Policy]]
    committed: Callable[[], Awaitable[int]]
    """Micro-dollars that the run has spent or holds."""
    allot: Callable[[int | None], Awaitable[None]]
    """Lets it spend so much more than it has."""


OpenStoreOf = Callable[[SweepJob, Path], AbstractAsyncContextManager[OpenStore]]
"""Opens the database of a run, and makes it."""
DescribeFailure = Callable[[SweepJob, Exception, int], JobEnd]
"""Says how a job has failed, and what its run has spent or holds."""


def serve_jobs(open_store: OpenStoreOf, describe: DescribeFailure) -> None:
    """Answer jobs until there is no more input."""
    answers = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)  # what rule agents print is no answer
    jobs: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(jobs,), daemon=True).start()
    decode = msgspec.json.Decoder(SweepJob).decode
    while True:
        answer = asyncio.run(_answer(decode(jobs.get()), open_store, describe))
        answers.write(msgspec.json.encode(answer) + b"\n")


def _listen(jobs: queue.SimpleQueue[bytes]) -> None:
    for line in sys.stdin.buffer:
        jobs.put(line)
    os._exit(0)


async def _answer(job: SweepJob, open_store: OpenStoreOf, describe: DescribeFailure) -> JobEnd:
    folder = Path(job.folder, job.planned.id)
    committed = 0
    try:
        folder.mkdir(exist_ok=True)
        async with open_store(job, folder / DATABASE) as store:
            try:
                await store.allot(job.allotted)
                row = await pass_world(store.host, job.planned, policies=store.policies())
            finally:
                committed = await store.committed()
        save_row(folder, row)
        if not job.keeps_store:
            for file in folder.glob(f"{DATABASE}*"):
                file.unlink()
    except Exception as error:  # the boundary of a process: everything becomes an answer
        if isinstance(error, RunSuspended) and error.status == "budget_exhausted":
            return JobEnd(ended="budget", committed=committed)
        return describe(job, error, committed)
    return JobEnd(ended="done", committed=committed)


# Who starts them


class Sweeping:
    """Passes the runs of a plan by so many processes, and never spends more than the cap.

    What a run may spend is set aside before it begins, and what it leaves goes back. A run that lacks money
    waits until no other is at work: then all that is left is there for it alone. If that is no more than it
    had, the cap is used up.
    """

    def __init__(
        self,
        planned: Sequence[PlannedRun],
        *,
        module: str,
        options: Mapping[str, str | None],
        folder: Path,
        jobs: int,
        cap: int | None,
        told: Callable[[str], None],
        committed_before: Callable[[Path], Awaitable[int]] | None = None,
        environ: Mapping[str, str] | None = None,
        keeps_stores: bool = True,
    ) -> None:
        """`module` is that of the processes, which calls `serve_jobs`, and `options` are for it.

        `committed_before` says what an unfinished run has spent, by its database; a cap needs it. `environ`
        is that of the processes: else the one of this process.
        """
        self._module = module
        self._options = options
        self._folder = folder
        self._told = told
        self._cap = cap
        self._committed_before = committed_before
        self._environ = environ
        self._keeps_stores = keeps_stores
        self.rows: dict[str, dict[str, Any]] = {}
        """Of the runs that are done, by id."""
        self.done_before = 0
        self._planned = planned
        self._waiting: list[PlannedRun] = []
        self._starved: list[tuple[PlannedRun, int]] = []
        """Runs that lack money, with what they had when they stopped."""
        self._committed: dict[str, int] = {}
        self._left = 0
        self._at_work = 0
        self._jobs = jobs
        self._changed = asyncio.Condition()
        self.failed: SweepRunFailed | External | None = None
        self.is_spent = False
        """Whether the cap kept runs from going on."""

    @property
    def spent(self) -> int:
        """Micro-dollars that the runs have spent or hold."""
        return sum(self._committed.values())

    async def run(self) -> None:
        """Pass what is not done. Afterwards `rows`, `failed` and `is_spent` say what came of it.

        Errors: `Conflict` if another sweep is at work in the folder; `StoreUnavailable`.
        """
        async with _lock(self._folder) as lock:
            found = await asyncio.to_thread(lambda: [row_of(self._folder, one) for one in self._planned])
            for one, row in zip(self._planned, found, strict=True):
                await self._look_at(one, row)
            self._left = 0 if self._cap is None else self._cap - self.spent
            self.is_spent = bool(self._waiting) and self._left < 0
            self._waiting.reverse()  # taken from the end
            await self._pass(lock)

    async def _look_at(self, planned: PlannedRun, row: dict[str, Any] | None) -> None:
        if row is None:
            self._waiting.append(planned)
            database = self._folder / planned.id / DATABASE
            self._committed[planned.id] = 0
            if self._cap is not None and self._committed_before is not None and database.exists():
                self._committed[planned.id] = await self._committed_before(database)
        else:
            self.rows[planned.id] = row
            self._committed[planned.id] = row["model_cost_microusd"]
            self.done_before += 1
            self._told(f"run {planned.id}: done before")

    async def _pass(self, lock: int) -> None:
        count = 0 if self.is_spent else min(self._jobs, len(self._waiting))
        work = [asyncio.create_task(self._work(lock)) for _ in range(count)]
        try:
            await asyncio.gather(*work)
        finally:
            for task in work:
                if not task.cancelling():  # a second time would keep it from waiting for its process
                    task.cancel()
            await asyncio.gather(*work, return_exceptions=True)

    async def _work(self, lock: int) -> None:
        """One process, as long as there is something for it to do."""
        async with _process(self._module, lock, self._environ) as ask:
            while (taken := await self._next()) is not None:
                planned, allotted = taken
                job = SweepJob(
                    planned=planned,
                    folder=str(self._folder),
                    options=self._options,
                    allotted=allotted,
                    keeps_store=self._keeps_stores,
                )
                answer = await ask(job)
                is_done = answer is not None and answer.ended == "done"
                row = await asyncio.to_thread(row_of, self._folder, planned) if is_done else None
                async with self._changed:
                    self._take(planned, allotted, answer, row)
                    self._changed.notify_all()

    async def _next(self) -> tuple[PlannedRun, int | None] | None:
        async with self._changed:
            while True:
                if self.failed is not None or self.is_spent:
                    return None
                if self._starved and not self._at_work:
                    planned, had = self._starved[-1]
                    if self._left <= had:
                        self.is_spent = True
                        self._changed.notify_all()
                        return None
                    self._starved.pop()
                    return planned, self._set_aside(1)
                if self._waiting and not self._starved:
                    share = min(self._jobs - self._at_work, len(self._waiting))
                    return self._waiting.pop(), self._set_aside(share)
                if not self._at_work:
                    return None
                await self._changed.wait()

    def _set_aside(self, share: int) -> int | None:
        self._at_work += 1
        if self._cap is None:
            return None
        allotted = self._left // share
        self._left -= allotted
        return allotted

    def _take(
        self, planned: PlannedRun, allotted: int | None, answer: JobEnd | None, row: dict[str, Any] | None
    ) -> None:
        self._at_work -= 1
        if answer is None:
            self.failed = External(
                f"the process that passed run {planned.id} has ended",
                expected="an answer",
                hint="The run goes on where it stopped: sweep again, perhaps with fewer processes.",
            )
            return
        used = answer.committed - self._committed[planned.id]
        self._committed[planned.id] = answer.committed
        back = 0 if allotted is None else allotted - used
        self._left += back
        if answer.ended == "budget":
            self._starved.append((planned, back))
            return
        if row is None:
            self.failed = SweepRunFailed(planned.id, {**planned.params, "seed": planned.seed}, answer)
            return
        self.rows[planned.id] = row
        self._told(f"run {planned.id}")


@contextlib.asynccontextmanager
async def _process(
    module: str, lock: int, environ: Mapping[str, str] | None
) -> AsyncGenerator[Callable[[SweepJob], Awaitable[JobEnd | None]]]:
    """A process; what is given asks it. It ends with the block."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-P",
        "-m",
        module,
        limit=LINE_BYTES_MAX,
        env=environ,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        # In a session of its own: Ctrl-C is for who started it. It keeps the lock as long as it lives.
        start_new_session=True,
        pass_fds=(lock,),
    )
    assert process.stdin is not None and process.stdout is not None
    stdin, stdout = process.stdin, process.stdout

    async def ask(job: SweepJob) -> JobEnd | None:
        """None: it has ended."""
        try:
            stdin.write(msgspec.json.encode(job) + b"\n")
            await stdin.drain()
            line = await stdout.readline()
        except (BrokenPipeError, ConnectionResetError):
            return None
        return msgspec.json.decode(line, type=JobEnd) if line.endswith(b"\n") else None

    try:
        yield ask
    finally:
        stdin.close()
        await process.wait()


@contextlib.asynccontextmanager
async def _lock(folder: Path) -> AsyncGenerator[int]:
    """Keep other sweeps away. Errors: `Conflict`; `StoreUnavailable`."""
    import fcntl

    try:
        lock = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise StoreUnavailable(
            f"the folder of the sweep cannot be written: {error.strerror}", got=str(folder)
        ) from None
    try:
        until = time.monotonic() + LOCK_WAIT_S
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > until:
                    raise Conflict(
                        "another sweep is at work in this folder",
                        got=str(folder),
                        hint="Wait for it, or name another --out.",
                    ) from None
                await asyncio.sleep(LOCK_LOOK_S)
        yield lock
    finally:
        os.close(lock)
