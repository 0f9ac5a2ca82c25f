"""The sandbox over pydantic-monty: a Rust interpreter for a subset of Python, in worker processes.

Each worker is a process of its own, confined by the kernel where it can be (`confinement.py`). There is no
other way to run code here. If the interpreter is missing or does not start, a run is an
error; nothing ever falls back to the Python that runs Artelier.
"""

from __future__ import annotations

import asyncio
import keyword
import os
import sys
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeVar

from artelier.confinement import plan_of, program_launcher
from artelier.errors import InvalidRequest, Refused
from artelier.ports.sandbox import SandboxLimits, SandboxResult
from artelier.sandbox.dialect_check import CODE_BYTES_MAX, costly
from artelier.sandbox.protocol import (
    Done,
    HostCall,
    SandboxError,
    TurnFeed,
    answer_call,
    judge,
    proceed,
    start,
)
from artelier.sandbox.values_codec import NotData, data
from artelier.threads import OwnerThreads

if TYPE_CHECKING:
    import pydantic_monty

T = TypeVar("T")

TIME_MS_MAX = 10_000
MEMORY_BYTES_MAX = 1024 * 1024 * 1024
OUTPUT_BYTES_MAX = 64 * 1024 * 1024
DEPTH_MAX = 1_000
CALLS_MAX = 1_000
"""Host functions called in one run."""
CALL_BYTES_MAX = 4 * 1024
"""What may be put behind stored code to call it."""
AT_A_TIME = 8
"""Programs that a worker of the pool is handed at once by `run_many`."""
SPARE = 1
"""Workers that are left to others by whoever has as many as one owner may have."""

GRACE_S = 2.0
"""How long past `TIME_MS_MAX` a worker may go on (compiling, encoding) before it is killed."""


class MontySandbox:
    """A bounded pool of workers; every run gets a fresh interpreter.

    Cost: 0.2 ms for a run that calls nothing, 0.7 ms more per call of a host function.
    """

    def __init__(
        self,
        *,
        workers: int = 2,
        wait_s: float = 10.0,
        uses_max: int = 1_000,
        limits: SandboxLimits | None = None,
        binary_path: Path | None = None,
    ) -> None:
        """Shapes: `workers` is how many one owner of work (`threads.py`) has at once; others have one
        more. `wait_s` bounds the wait for a free worker; a worker is replaced after `uses_max` turns;
        `limits` hold where a run names none. Nothing is started before the first run.
        """
        if workers < 1 or uses_max < 1 or not 0 < wait_s < float("inf"):
            raise InvalidRequest(
                "not a sandbox pool",
                expected="workers and uses_max of at least 1, a finite wait_s above 0",
                got=f"workers={workers}, uses_max={uses_max}, wait_s={wait_s}",
            )
        self._workers = workers
        self._wait_s = wait_s
        self._uses_max = uses_max
        self._limits = check_limits(limits or SandboxLimits())
        self._binary_path = binary_path
        self._lock = threading.Lock()
        self._threads = OwnerThreads(
            workers + SPARE, name="artelier-sandbox", owner_max=workers, group_max=workers
        )
        self._pool: list[pydantic_monty.Monty] = []
        """The started pool, or nothing; a list, so that it outlives this object by a moment."""
        self._closed = False
        # A sandbox that nobody closes ends its workers when it is forgotten. At the end of the program
        # the workers end by themselves, so nothing is done there.
        weakref.finalize(self, _leave, self._pool).atexit = False

    async def run(
        self,
        code: str,
        *,
        inputs: Mapping[str, Any] | None = None,
        functions: Mapping[str, Callable[..., Any]] | None = None,
        limits: SandboxLimits | None = None,
        at_us: int | None = None,
        seed: int | str = 0,
    ) -> SandboxResult:
        """Run code in a fresh interpreter; the value is that of its last expression.

        Shapes: `inputs` and the value are JSON data; `functions` are plain or async functions of
        the host, called one at a time on this event loop, with and returning JSON data.
        Units:  `at_us` freezes the clock inside (microseconds since the epoch); None: no clock.
        Same code, inputs, answers, `at_us` and `seed` give the same value.
        Errors: `SandboxError`; `InvalidRequest` for limits, names or inputs that can't be used.
        What a host function raises enters the sandbox as a short message only; a flow exception or
        a cancellation ends the run and leaves to the caller.
        """
        chosen = self._limits if limits is None else check_limits(limits)
        feed = self._feed(code, inputs, functions, chosen, at_us=at_us, seed=seed)
        outcome = await self._turn(feed, partial(start, feed=feed))
        calls = 0
        while isinstance(outcome, HostCall):
            calls += 1
            if calls > CALLS_MAX:
                raise SandboxError(f"the code called the host more than {CALLS_MAX} times", reason="error")
            answer = await answer_call(outcome, feed.functions[outcome.name], bytes_max=chosen.output_bytes)
            paused = outcome.paused
            outcome = await self._turn(feed, partial(proceed, feed=feed, paused=paused, answer=answer))
        return _result(outcome, feed)

    async def run_many(
        self, jobs: Sequence[tuple[str, Mapping[str, Any]]], *, limits: SandboxLimits | None = None
    ) -> list[SandboxResult | SandboxError | InvalidRequest]:
        """Run many small programs that call nothing, each in a fresh interpreter; what came of each.

        Shapes: `jobs` are `(code, inputs)`. A worker is given a few of them at a time, which saves most of
        what handing over costs.
        """
        chosen = self._limits if limits is None else check_limits(limits)
        parts = [list(jobs[at : at + AT_A_TIME]) for at in range(0, len(jobs), AT_A_TIME)]
        done: list[list[SandboxResult | SandboxError | InvalidRequest]] = [[] for _ in parts]
        waiting = enumerate(parts)

        async def work() -> None:
            for number, part in waiting:
                done[number] = await self._some(part, chosen)

        async with asyncio.TaskGroup() as group:
            for _ in range(self._workers + 1):
                group.create_task(work())
        return [one for part in done for one in part]

    async def _some(
        self, jobs: Sequence[tuple[str, Mapping[str, Any]]], limits: SandboxLimits
    ) -> list[SandboxResult | SandboxError | InvalidRequest]:
        feeds: list[TurnFeed | InvalidRequest] = []
        for code, inputs in jobs:
            try:
                feeds.append(self._feed(code, inputs, None, limits, at_us=None, seed=0))
            except InvalidRequest as error:
                feeds.append(error)
        if self._closed:
            return [SandboxError("the sandbox was closed", reason="crashed") for _ in jobs]
        try:
            return await self._in_thread(lambda: [self._one(feed) for feed in feeds])
        except SandboxError as error:
            return [error for _ in jobs]

    def _one(self, feed: TurnFeed | InvalidRequest) -> SandboxResult | SandboxError | InvalidRequest:
        """One of several programs, in a thread."""
        import pydantic_monty

        if isinstance(feed, InvalidRequest):
            return feed
        try:
            outcome = start(self._start_pool(), feed)
            assert isinstance(outcome, Done), "it has no functions to call"
            return _result(outcome, feed)
        except pydantic_monty.MontyError as error:
            return judge(error, code=feed.code, limits=feed.limits, file=feed.file)
        except TimeoutError:
            return self._busy()
        except SandboxError as error:
            return error

    async def close(self) -> None:
        """End all workers; runs in flight are stopped by their limits first."""
        if self._pool:
            await asyncio.to_thread(self.shut)
        else:  # nothing was started, so nothing blocks
            self.shut()

    def shut(self) -> None:
        """`close` for a caller without an event loop; it blocks."""
        self._closed = True
        self._threads.shutdown(wait=True, cancel_futures=True)
        with self._lock:
            _leave(self._pool)

    def _feed(
        self,
        code: str,
        inputs: Mapping[str, Any] | None,
        functions: Mapping[str, Callable[..., Any]] | None,
        limits: SandboxLimits,
        *,
        at_us: int | None,
        seed: int | str,
    ) -> TurnFeed:
        pydantic_monty = _library()
        _check_code_text(code)
        known = dict(functions or {})
        for name in (*known, *(inputs or {})):
            _check_name(name)
        try:
            # A value needs about three times its size while it crosses.
            values = data(dict(inputs or {}), bytes_max=limits.memory_bytes // 4)
        except NotData as error:
            raise InvalidRequest(
                f"inputs can't enter the sandbox: {error}", expected="JSON data of bounded size"
            ) from None
        return TurnFeed(
            code=code,
            inputs=values,
            functions=known,
            limits=limits,
            at_us=at_us,
            seed=seed,
            printed=pydantic_monty.CollectString(max_bytes=limits.output_bytes),
        )

    async def _turn(self, feed: TurnFeed, step: Callable[..., T]) -> T:
        """Do one turn in a worker. Errors: `SandboxError`."""
        import pydantic_monty

        if self._closed:
            raise SandboxError("the sandbox was closed", reason="crashed")
        try:
            return await self._in_thread(lambda: step(self._start_pool()))
        except pydantic_monty.MontyError as error:
            raise judge(error, code=feed.code, limits=feed.limits, file=feed.file) from None
        except TimeoutError:
            raise self._busy() from None

    async def _in_thread(self, job: Callable[[], T]) -> T:
        queued = self._threads.submit(job)
        waiter = asyncio.wrap_future(queued)
        try:
            await asyncio.wait((waiter,), timeout=self._wait_s)
        except asyncio.CancelledError:
            waiter.cancel()
            raise
        # Only what has not begun can be taken back; what runs is bounded by its own limits.
        if not waiter.done() and queued.cancel():
            raise self._busy()
        return await waiter

    def _busy(self) -> SandboxError:
        return SandboxError(
            f"no sandbox worker was free within {self._wait_s} s",
            reason="timeout",
            hint="Run less at once, or open the sandbox with more workers.",
        )

    def _start_pool(self) -> pydantic_monty.Monty:
        """The pool, started by whoever comes first. Errors: `SandboxError(reason="crashed")`."""
        with self._lock:
            if not self._pool:
                self._pool.append(self._start())
            return self._pool[0]

    def _start(self) -> pydantic_monty.Monty:
        try:
            binary = str(self._binary_path or _find_binary())
            plan = plan_of(program=os.path.realpath(binary))
            launcher = program_launcher(plan) if plan.walls and sys.platform == "linux" else binary
        except Refused as error:
            raise SandboxError(
                error.message, reason="crashed", expected=error.expected, got=error.got, hint=error.hint
            ) from None
        except OSError as error:
            raise _broken(error) from error
        if launcher != binary:
            try:
                return self._pool_of(launcher)
            # A system on which the confined interpreter does not start: `artelier doctor` names the wall.
            except Exception as error:
                if plan.is_required:
                    raise _broken(error) from error
        # Whatever a broken installation raises means one thing to the caller.
        try:
            return self._pool_of(binary)
        except Exception as error:
            raise _broken(error) from error

    def _pool_of(self, binary: str) -> pydantic_monty.Monty:
        """A pool whose first worker has answered."""
        pool = (
            _library()
            .Monty(
                binary_path=Path(binary),
                min_processes=1,
                max_processes=self._workers + SPARE,
                checkout_timeout=self._wait_s,
                request_timeout=TIME_MS_MAX / 1000 + GRACE_S,
                max_checkouts_per_worker=self._uses_max,
            )
            .__enter__()
        )
        try:
            with pool.checkout() as session:
                session.feed_run("1")
        except BaseException:
            pool.__exit__(None, None, None)
            raise
        return pool


def _find_binary() -> str:
    from pydantic_monty._binary import find_monty_binary

    return find_monty_binary()


def _broken(error: Exception) -> SandboxError:
    return SandboxError(
        "the sandbox's interpreter does not start",
        reason="crashed",
        got=type(error).__name__,
        hint="Reinstall pydantic-monty; code never runs without it.",
    )


def _leave(pool: list[pydantic_monty.Monty]) -> None:
    while pool:
        pool.pop().__exit__(None, None, None)


def check_limits(limits: SandboxLimits) -> SandboxLimits:
    """The same limits, if they are bounds that can hold. Errors: `InvalidRequest`."""
    bounds = (
        ("time_ms", limits.time_ms, 1, TIME_MS_MAX),
        ("memory_bytes", limits.memory_bytes, 1024 * 1024, MEMORY_BYTES_MAX),
        ("output_bytes", limits.output_bytes, 1, OUTPUT_BYTES_MAX),
        ("depth", limits.depth, 5, DEPTH_MAX),
    )
    for name, value, low, high in bounds:
        if not low <= value <= high:
            raise InvalidRequest(
                f"sandbox limit {name} is out of bounds", expected=f"{low} to {high}", got=value
            )
    return limits


def _library() -> ModuleType:
    try:
        import pydantic_monty
    except ImportError as error:
        raise SandboxError(
            "the sandbox's interpreter is not installed",
            reason="crashed",
            expected="the package pydantic-monty",
            hint="pip install pydantic-monty; code never runs without it.",
        ) from error
    return pydantic_monty


def _check_code_text(code: str) -> None:
    if not code.isascii():
        try:
            code.encode()
        except UnicodeEncodeError:
            raise SandboxError("the code has a lone surrogate", reason="syntax") from None
    problem = costly(code, bytes_max=CODE_BYTES_MAX + CALL_BYTES_MAX)
    if problem is not None:
        raise SandboxError(str(problem), reason="unsupported", line=problem.line)


def _check_name(name: object) -> None:
    usable = isinstance(name, str) and name.isidentifier() and not keyword.iskeyword(name)
    if not usable or str(name).startswith("__"):
        raise InvalidRequest(
            "not a name for the sandbox",
            expected="an identifier that does not start with two underscores",
            got=repr(name)[:80],
        )


def _result(done: Done, feed: TurnFeed) -> SandboxResult:
    try:
        value = data(done.value, bytes_max=feed.limits.output_bytes)
    except NotData as error:
        problem = f"the result can't leave the sandbox: {error}"
        raise SandboxError(problem, reason="output") from None
    return SandboxResult(value=value, printed=feed.printed.output)
