"""Drives programs in virtual time, kills them at every commit, and holds what they give against the log."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import artelier.log.database_store
from artelier import Kernel, ModelReply, ModelRequest, Policy, Price, Run, Tenant, tool
from artelier.app import TenantKernel
from artelier.kernel import events as ev
from artelier.kernel.history.step_history import ends_step
from artelier.log.writer import Writer
from artelier.ports.model import Delta, Usage
from artelier_lab.torture.virtual import VirtualClock, VirtualLoop
from tests.kernel.crashes import Death, Deaths
from tests.kernel.stage import PRICE, World, last

T = TypeVar("T")

DELAYS_S = (0.0, 0.0, 0.1, 0.5, 1.0, 1.0, 1.5, 3.0, 8.0)
"""Virtual seconds that the outside takes; equal ones, so that outcomes come at the same instant."""

FOREVER_S = 1_000_000.0
POLICY = Policy(backoff_s=0.0, model_timeout_s=FOREVER_S, parallel_max=64)
ACME = Tenant("acme", grants={"tools:*"}, budget_usd="500")


@dataclass
class Outside:
    """Models, tools and computations of one drive, each as slow as its seed says."""

    seed: object
    calls: list[str] = field(default_factory=list[str])
    """What was asked of models and tools."""
    rng: random.Random = field(init=False)

    def __post_init__(self) -> None:
        self.rng = random.Random(f"outside {self.seed}")

    async def delay(self) -> None:
        await asyncio.sleep(self.rng.choice(DELAYS_S))

    async def work(self, value: Any) -> Any:
        """A computation that takes a while."""
        self.calls.append(f"work {value}")
        await self.delay()
        return value


class Model:
    """Answers `re: <text>`; refuses a text that begins with `!`; streams word by word."""

    price: Price | None = PRICE

    def __init__(self, outside: Outside) -> None:
        self._outside = outside

    async def complete(self, request: ModelRequest, /) -> ModelReply:
        text = last(request)
        self._outside.calls.append(f"model {text}")
        await self._outside.delay()
        return self._reply(text)

    def _reply(self, text: str) -> ModelReply:
        if text.startswith("!"):
            raise ZeroDivisionError(text)
        return ModelReply(text=f"re: {text}", usage=Usage(input_tokens=9, output_tokens=5))

    async def stream(self, request: ModelRequest, /) -> AsyncIterator[Delta | ModelReply]:
        text = last(request)
        self._outside.calls.append(f"model {text}")
        whole = self._reply(text)
        for word in (*whole.text.split(), "and", "so", "on"):
            await self._outside.delay()
            yield Delta(text=f"{word} ")
        yield whole


def _tools(outside: Outside) -> list[Any]:
    @tool(side_effect=False)
    async def look(at: str) -> str:
        """Look at something."""
        outside.calls.append(f"tool {at}")
        await outside.delay()
        if at.startswith("!"):
            raise ValueError(at)
        return f"seen {at}"

    @tool(side_effect=True, idempotent=True)
    async def put(what: str) -> str:
        """Put something where a second time changes nothing."""
        outside.calls.append(f"tool {what}")
        await outside.delay()
        return f"put {what}"

    return [look, put]


Program = Callable[[Run, Outside], Awaitable[Any]]


class _InlineWriter(Writer):
    """The store's writer without its thread, since virtual time waits for none."""

    _due: asyncio.TimerHandle | None = None

    def _work(self) -> None:
        return

    def _enqueue_all(self, jobs: list[Any]) -> list[asyncio.Future[Any]]:
        futures = super()._enqueue_all(jobs)
        if self._due is None:
            self._due = asyncio.get_running_loop().call_later(0.004, self._drain)
        return futures

    def _drain(self) -> None:
        self._due = None
        while self._queue and (group := self._queue.take()):
            self._commit(group)

    def stop(self) -> None:
        if self._due is not None:
            self._due.cancel()
        self._drain()
        super().stop()


@contextmanager
def _inline() -> Generator[None]:
    before = artelier.log.database_store.Writer
    artelier.log.database_store.Writer = _InlineWriter
    try:
        yield
    finally:
        artelier.log.database_store.Writer = before


def virtually(scenario: Callable[[VirtualLoop], Coroutine[Any, Any, T]]) -> T:
    """Run a scenario in virtual time; one in which everybody waits for ever is a failure."""
    loop = VirtualLoop()
    try:
        with _inline():
            return loop.run_until_complete(asyncio.wait_for(scenario(loop), 100_000))
    finally:
        loop.shut()


@contextmanager
def opened(path: Path, loop: VirtualLoop, outside: Outside, *, fault: Any = None) -> Generator[Kernel]:
    kernel = Kernel.open(
        path,
        models={"m": Model(outside)},
        tools=_tools(outside),
        policy=POLICY,
        clock=VirtualClock(loop),
        fault=fault,
    )
    with kernel:
        yield kernel


@dataclass
class Ended:
    """How a drive ended."""

    status: str
    result: Any
    events: list[tuple[str, ev.EventData]]
    outside: Outside

    @property
    def outcomes(self) -> dict[str, ev.EventData]:
        """The last outcome of each step."""
        return {data.key: data for _, data in self.events if ends_step(data)}  # pyright: ignore[reportAttributeAccessIssue]


async def drive(kernel: Kernel, program: Program, outside: Outside) -> Ended:
    runs = kernel.for_tenant(ACME)
    error: BaseException | None = None
    try:
        async with runs.run("r") as run:
            run.finish(await program(run, outside))
            # Never out of patience: the order was kept by what is recorded alone.
            assert not run.core.history._passed  # pyright: ignore[reportPrivateUsage]
    except Exception as raised:  # whatever it is: the log says how the run ended
        error = raised
        if isinstance(raised, AssertionError):
            raise
    return await _ended(runs, kernel, outside, error)


async def _ended(runs: TenantKernel, kernel: Kernel, outside: Outside, error: BaseException | None) -> Ended:
    row = await runs.show("r")
    events = [
        (event.kind, event.decode()) async for event in kernel.events() if event.stream.local == "run:r"
    ]
    status = f"{row['status']} {row['reason']}".strip()
    assert error is None or row["status"] == "failed", (status, error)
    return Ended(status, row["result"], events, outside)


async def _replayed(kernel: Kernel, program: Program, ended: Ended) -> None:
    """The same code over the log gives the same, and calls nothing."""
    outside = Outside("replay")

    async def code(run: Run) -> Any:
        return await program(run, outside)

    again = await kernel.for_tenant(ACME).replay("r", code)
    assert f"{again.status} {again.reason}".strip() == ended.status
    assert (again.result, again.model_calls, again.tool_calls) == (ended.result, 0, 0)
    assert outside.calls == [], "a computation was repeated"


async def _conserved(kernel: Kernel) -> None:
    rows = await kernel.store.query("SELECT account, balance FROM accounts WHERE asset = 'usd'")
    assert sum(balance for _, balance in rows) == 0, rows
    assert not [row for row in rows if row[0].startswith("hold:") and row[1]], rows


def live_through(path: Path, program: Program, seed: object, *, every: int = 1) -> list[Ended]:
    """Drive a program without harm, then from what each of its deaths leaves; every end is checked.

    `every`: only of every so many deaths.
    """
    deaths = Deaths(path / "s.db", World(), every=every)

    async def first(loop: VirtualLoop) -> Ended:
        outside = Outside(seed)
        with opened(path / "s.db", loop, outside, fault=deaths) as kernel:
            ended = await drive(kernel, program, outside)
            await _replayed(kernel, program, ended)
            await _conserved(kernel)
            return ended

    found = [virtually(first)]
    for death in deaths.found:
        try:
            found.append(virtually(partial(_resumed, death, program, f"{seed} {death.number}")))
        except BaseException as error:
            error.add_note(f"seed {seed!r}, killed at {death.point}, death {death.number}")
            raise
    return found


def live_through_retry(path: Path, failing: Program, program: Program, seed: object) -> None:
    """Drive a program that fails, retry it as one that does not, also from deaths of that drive."""
    deaths = Deaths(path / "s.db", World(), every=5)

    async def fail(loop: VirtualLoop) -> None:
        outside = Outside(seed)
        with opened(path / "s.db", loop, outside) as kernel:
            ended = await drive(kernel, failing, outside)
            assert ended.status.startswith("failed")
            await _replayed(kernel, failing, ended)
            await kernel.for_tenant(ACME).retry("r")

    async def go_on(loop: VirtualLoop) -> None:
        outside = Outside(f"{seed} again")
        with opened(path / "s.db", loop, outside, fault=deaths) as kernel:
            ended = await drive(kernel, program, outside)
            assert ended.status == "completed"
            await _replayed(kernel, program, ended)
            await _conserved(kernel)
            assert kernel.verify().ok

    virtually(fail)
    virtually(go_on)
    for death in deaths.found:
        ended = virtually(partial(_resumed, death, program, f"{seed} {death.number}"))
        assert ended.status == "completed"


async def _resumed(death: Death, program: Program, seed: str, loop: VirtualLoop) -> Ended:
    outside = Outside(seed)
    with opened(death.path, loop, outside) as kernel:
        before = await _prefix(kernel)
        ended = await drive(kernel, program, outside)
        _check_prefix(before, ended)
        await _replayed(kernel, program, ended)
        await _conserved(kernel)
        return ended


async def _prefix(kernel: Kernel) -> dict[str, ev.EventData]:
    """What the log has settled at a death."""
    found: dict[str, ev.EventData] = {}
    async for event in kernel.events():
        if event.stream.local == "run:r":
            data = event.decode()
            if isinstance(data, ev.RunReopened):  # what failed is asked again, and what that had cut off
                again = ev.ModelFailed | ev.Cut
                found = {key: end for key, end in found.items() if not isinstance(end, again)}
            if ends_step(data):
                found[data.key] = data  # pyright: ignore[reportAttributeAccessIssue]
    return found


def _check_prefix(before: dict[str, ev.EventData], ended: Ended) -> None:
    """What was recorded before a death stands after it, and was not done again."""
    for key, data in before.items():
        now = ended.outcomes[key]
        is_late = isinstance(now, ev.Cut) and not isinstance(data, ev.Cut)
        assert now == data or is_late, (key, data, now)
    asked = [data.key for _, data in ended.events if isinstance(data, ev.ModelRequested)]
    for key, data in before.items():
        if isinstance(data, ev.ModelCompleted):
            assert asked.count(key) <= 1 + sum(
                # Its reply may have come too late for code that was being cancelled.
                isinstance(one, ev.ModelFailed | ev.Cut) and one.key == key
                for _, one in ended.events
            )
