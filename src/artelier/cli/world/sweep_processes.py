"""The processes of a sweep: each passes one run after another, and none outlives who started it.

    python -m artelier.cli.world.sweep_processes

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
import traceback
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from artelier.cli import exit_codes
from artelier.cli.call import CliCall
from artelier.cli.exit_codes import DEBUG
from artelier.errors import ArtelierError, Conflict, External, Flow, NotFound, RunSuspended, StoreUnavailable
from artelier.money import format_usd, parse_usd
from artelier.world.figures.sweep import PlannedRun, pass_world, row_of, save_row

if TYPE_CHECKING:
    from artelier import Kernel
    from artelier.world.deciders import Policy

DATABASE = "state.db"
LOCK = "lock"

LOCK_WAIT_S = 3.0
"""For processes of a sweep that was killed: they end at once, but not before their disk has answered."""

MESSAGE_CHARS_MAX = 1_000

LINE_BYTES_MAX = 1024 * 1024
"""Of an answer."""


class SweepJob(msgspec.Struct, frozen=True, kw_only=True):
    """One run for a process to pass."""

    planned: PlannedRun
    folder: str
    tenant: str
    config: str | None
    policies: str | None
    allotted: int | None
    """Micro-dollars that it may spend beyond what it has spent and holds; None: no limit."""


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
        self.exit_code = answer.code or exit_codes.FAILED
        self._code = str(wire.get("code", self.code))

    def to_wire(self) -> dict[str, Any]:
        """Return the error of the run with its code."""
        return {**super().to_wire(), "code": self._code}


# The process


def main() -> None:
    """Answer jobs until there is no more input."""
    answers = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)  # what rule agents print is no answer
    jobs: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(jobs,), daemon=True).start()
    decode = msgspec.json.Decoder(SweepJob).decode
    while True:
        answer = asyncio.run(_answer(decode(jobs.get())))
        answers.write(msgspec.json.encode(answer) + b"\n")


def _listen(jobs: queue.SimpleQueue[bytes]) -> None:
    for line in sys.stdin.buffer:
        jobs.put(line)
    os._exit(0)


async def _answer(job: SweepJob) -> JobEnd:
    folder = Path(job.folder, job.planned.id)
    committed = 0
    try:
        folder.mkdir(exist_ok=True)
        database = str(folder / DATABASE)
        call = CliCall(db=database, tenant=job.tenant, config=job.config, as_json=True)
        async with call.kernel(create=True) as kernel:
            tenant = kernel.for_tenant(call.tenant)
            await tenant.state()
            try:
                await _allot(kernel, call.tenant, job.allotted)
                row = await pass_world(tenant, job.planned, policies=_policies(job.policies))
            finally:
                committed = await committed_of(kernel, call.tenant)
        save_row(folder, row)
    except RunSuspended as suspended:
        if suspended.status == "budget_exhausted":
            return JobEnd(ended="budget", committed=committed)
        return _failed_end(
            Conflict(str(suspended), hint=f"See: artelier runs list --db {folder / DATABASE}"), committed
        )
    except Flow as flow:
        return _failed_end(Conflict(str(flow)), committed)
    except Exception as error:  # the boundary of a process: everything becomes an answer
        return _failed_end(error, committed)
    return JobEnd(ended="done", committed=committed)


def _failed_end(error: Exception, committed: int) -> JobEnd:
    if isinstance(error, ArtelierError):
        wire = error.to_wire()
    else:
        said = f"{type(error).__name__}: {error}"[:MESSAGE_CHARS_MAX]
        hint = f"If a rule agent raised it, mend it; else set {DEBUG}=1 to see where it comes from."
        wire = {"code": "unexpected", "message": said, "hint": hint}
    if os.environ.get(DEBUG):
        traceback.print_exception(error)
    return JobEnd(ended="failed", committed=committed, error=wire, code=exit_codes.of_error(error))


def _policies(path: str | None) -> dict[str, Policy]:
    from artelier.cli.world.creation import policies_of

    return policies_of(None if path is None else Path(path))


async def _allot(kernel: Kernel, tenant: str, allotted: int | None) -> None:
    """Let the run spend so much more than it has."""
    if allotted is None:
        if (await kernel.tenants.show(tenant))["budget_usd"] is not None:
            await kernel.tenants.update(tenant, unlimited=True)
        return
    budget = await committed_of(kernel, tenant) + allotted
    await kernel.tenants.update(tenant, budget_usd=format_usd(budget))


async def committed_of(kernel: Kernel, tenant: str) -> int:
    """Micro-dollars that a tenant has spent or holds."""
    try:
        shown = await kernel.tenants.show(tenant)
    except NotFound:
        return 0
    return parse_usd(shown["spent_usd"]) + parse_usd(shown["held_usd"])


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
        call: CliCall,
        folder: Path,
        policies: Path | None,
        jobs: int,
        cap: int | None,
        told: Callable[[str], None],
    ) -> None:
        self._call = call
        self._folder = folder
        self._policies = policies
        self._told = told
        self._cap = cap
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
        with _lock(self._folder) as lock:
            for one in self._planned:
                await self._look_at(one)
            self._left = 0 if self._cap is None else self._cap - self.spent
            self.is_spent = bool(self._waiting) and self._left < 0
            self._waiting.reverse()  # taken from the end
            await self._pass(lock)

    async def _look_at(self, planned: PlannedRun) -> None:
        row = row_of(self._folder, planned)
        if row is None:
            self._waiting.append(planned)
            self._committed[planned.id] = await self._committed_before(planned)
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
                task.cancel()
            await asyncio.gather(*work, return_exceptions=True)

    async def _committed_before(self, planned: PlannedRun) -> int:
        """Return what an unfinished run has spent already."""
        database = self._folder / planned.id / DATABASE
        if self._cap is None or not database.exists():
            return 0
        call = CliCall(db=str(database), tenant=self._call.tenant, config=self._call.config, as_json=True)
        async with call.kernel() as kernel:
            return await committed_of(kernel, call.tenant)

    async def _work(self, lock: int) -> None:
        """One process, as long as there is something for it to do."""
        async with _process(lock) as ask:
            while (taken := await self._next()) is not None:
                planned, allotted = taken
                job = SweepJob(
                    planned=planned,
                    folder=str(self._folder),
                    tenant=self._call.tenant,
                    config=self._call.config,
                    allotted=allotted,
                    policies=None if self._policies is None else str(self._policies),
                )
                answer = await ask(job)
                async with self._changed:
                    self._take(planned, allotted, answer)
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

    def _take(self, planned: PlannedRun, allotted: int | None, answer: JobEnd | None) -> None:
        self._at_work -= 1
        if answer is None:
            self.failed = External(
                f"the process that passed run {planned.id} has ended",
                expected="an answer",
                hint="The run goes on where it stopped: sweep again, perhaps with fewer --jobs.",
            )
            return
        used = answer.committed - self._committed[planned.id]
        self._committed[planned.id] = answer.committed
        back = 0 if allotted is None else allotted - used
        self._left += back
        if answer.ended == "budget":
            self._starved.append((planned, back))
            return
        row = row_of(self._folder, planned) if answer.ended == "done" else None
        if row is None:
            self.failed = SweepRunFailed(planned.id, {**planned.params, "seed": planned.seed}, answer)
            return
        self.rows[planned.id] = row
        self._told(f"run {planned.id}")


@contextlib.asynccontextmanager
async def _process(lock: int) -> AsyncGenerator[Callable[[SweepJob], Awaitable[JobEnd | None]]]:
    """A process; what is given asks it. It ends with the block."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-P",
        "-m",
        "artelier.cli.world.sweep_processes",
        limit=LINE_BYTES_MAX,
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


@contextlib.contextmanager
def _lock(folder: Path) -> Generator[int]:
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
                time.sleep(0.05)
        yield lock
    finally:
        os.close(lock)


if __name__ == "__main__":
    main()
