"""An agent of thousands of turns in a small window: what a turn costs when it is young, and when it is old.

The agent waits inside its model while young agents are measured, so that what is compared was measured at
the same time on the same machine. What the double itself spends is not counted.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from artelier import Kernel, ModelReply, ModelRequest, ToolCall, Usage
from artelier.agents import AutonomousAgent
from artelier.context import ContextBuilder
from artelier.ports.model import FREE, Price
from artelier.tokens import Window
from artelier_lab.bench.figures import median
from artelier_lab.bench.kernel.cycle import fetch
from artelier_lab.bench.kernel.growth import store_bytes

WINDOW_TOKENS = 16_000
CHARS_PER_TOKEN = 3.6
"""Of the double's bill: near what byte-pair encodings give for English and JSON."""

YOUNG = (30, 170)
"""Turns between which a young agent is measured: around turn 100, with some ten compactions."""

Visit = Callable[[int], Awaitable[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Turns:
    """The length of the agent's work, and the number of comparisons with a young agent."""

    middle: int = 2_000
    pairs: int = 5

    @property
    def first(self) -> int:
        return self.middle - self.pairs * _block() // 2

    @property
    def last(self) -> int:
        return self.first + self.pairs * _block()


class WorkingModel:
    """Calls `fetch` for so many turns, writes a summary when asked for one, and then says it is done.

    `visit` is awaited before each turn is answered. `own_cpu_s` is what the double itself has spent.
    """

    price: Price | None = FREE

    def __init__(self, turns: int, *, visit: Visit | None = None) -> None:
        self.turns = turns
        self.turn = 0
        self.own_cpu_s = 0.0
        self.tokens_max = 0
        self.hashes: list[tuple[int, str]] = []
        """Size and SHA-256 of every request that was received."""
        self._visit = visit

    async def complete(self, request: ModelRequest, /) -> ModelReply:
        start_s = time.process_time()
        body = request.canonical()
        self.hashes.append((len(body), sha256(body).hexdigest()))
        tokens = int(len(body) / CHARS_PER_TOKEN)
        self.tokens_max = max(self.tokens_max, tokens)
        usage = Usage(input_tokens=tokens, output_tokens=30)
        reply = ModelReply(text="Rows were fetched, one by one.", usage=usage)
        if request.tools:
            self.turn += 1
            if self.turn <= self.turns:
                call = ToolCall(id=f"c{self.turn}", name="fetch", arguments={"n": self.turn})
                reply = ModelReply(tool_calls=(call,), usage=usage)
        self.own_cpu_s += time.process_time() - start_s
        if request.tools and self._visit is not None:
            await self._visit(self.turn)
        return reply


def agent_of(kernel: Kernel, *, turns: int) -> AutonomousAgent:
    builder = ContextBuilder(identity="You fetch rows.", rules="Never fetch row zero.")
    return AutonomousAgent(kernel=kernel, context_builder=builder, max_iterations=turns + 10)


def open_kernel(path: Path, model: WorkingModel) -> Kernel:
    windows = {"bench": Window(context_tokens=WINDOW_TOKENS, max_output_tokens=1_000)}
    return Kernel.open(path, models={"bench": model}, tools=[fetch], windows=windows)


async def work(kernel: Kernel, *, turns: int) -> None:
    """Let an agent work that many turns to its end."""
    agent = agent_of(kernel, turns=turns)
    result = await agent.run(run_id="long", model="bench", prompt="Fetch the rows, one by one.")
    assert result.status == "completed", (result.status, result.reason)


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """The cost of a turn, including compactions that fell into the stretch."""

    cpu_ms: float
    bytes: float


class _Stretch:
    """Measures between two turns of an agent."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.model: WorkingModel | None = None
        self._cpu_s = 0.0
        self._bytes = 0

    def _now_s(self) -> float:
        assert self.model is not None
        return time.process_time() - self.model.own_cpu_s

    def begin(self) -> None:
        self._bytes = store_bytes(self._path)
        self._cpu_s = self._now_s()

    def end(self, turns: int) -> Spent:
        cpu_s = self._now_s() - self._cpu_s
        grown = store_bytes(self._path) - self._bytes
        return Spent(cpu_ms=cpu_s / turns * 1000, bytes=grown / turns)


def bench_turns(folder: Path, turns: Turns, *, progress: Callable[[str], None]) -> dict[str, float]:
    """Figures of one agent at turn 100 and at turn 2,000, and what its prompts were."""
    return asyncio.run(_Long(folder, turns, progress).figures())


class _Long:
    def __init__(self, folder: Path, turns: Turns, progress: Callable[[str], None]) -> None:
        self._folder = folder
        self._turns = turns
        self._progress = progress
        self._stretch = _Stretch(folder / "long.db")
        self._pairs: list[tuple[Spent, Spent]] = []

    async def figures(self) -> dict[str, float]:
        turns = self._turns
        self._progress(f"context: an agent of {turns.last} turns")
        model = WorkingModel(turns.last, visit=self._visit)
        self._stretch.model = model
        with open_kernel(self._folder / "long.db", model) as kernel:
            await work(kernel, turns=turns.last)
            differing = await differing_bytes(kernel, model.hashes, run_id="long")
        return {
            "cpu_ms_per_turn_at_100": median([young.cpu_ms for _, young in self._pairs]),
            "cpu_ms_per_turn_at_2000": median([old.cpu_ms for old, _ in self._pairs]),
            "growth_cpu_2000_over_100": median([o.cpu_ms / y.cpu_ms for o, y in self._pairs]),
            "bytes_per_turn_at_100": median([young.bytes for _, young in self._pairs]),
            "bytes_per_turn_at_2000": median([old.bytes for old, _ in self._pairs]),
            "prompt_tokens_max": float(model.tokens_max),
            "render_differing_bytes": float(differing),
        }

    async def _visit(self, turn: int) -> None:
        turns = self._turns
        since = turn - turns.first
        if since < 0 or turn > turns.last or since % _block():
            return
        if since:
            number = len(self._pairs) + 1
            self._progress(f"context: old and young agent, {number} of {turns.pairs}")
            old = self._stretch.end(_block())
            self._pairs.append((old, await self._young(number)))
        self._stretch.begin()

    async def _young(self, number: int) -> Spent:
        path = self._folder / f"young-{number}.db"
        stretch, found = _Stretch(path), list[Spent]()

        async def visit(turn: int) -> None:
            if turn == YOUNG[0]:
                stretch.begin()
            elif turn == YOUNG[1]:
                found.append(stretch.end(_block()))

        model = WorkingModel(YOUNG[1], visit=visit)
        stretch.model = model
        with open_kernel(path, model) as kernel:
            await work(kernel, turns=YOUNG[1])
        return found[0]


async def differing_bytes(kernel: Kernel, received: list[tuple[int, str]], *, run_id: str) -> int:
    """Bytes of the prompts that do not render to what the model was given; missing ones count whole."""
    desk = kernel.for_tenant()
    keys = [step["key"] for step in await desk.steps(run_id) if step["kind"] == "model"]
    differing = sum(size for size, _ in received[len(keys) :])
    for key, (size, digest) in zip(keys, received, strict=False):
        body = (await desk.render(run_id, key)).canonical()
        if sha256(body).hexdigest() != digest:
            differing += max(size, len(body))
    return differing


async def turn_keys(kernel: Kernel, run_id: str) -> list[str]:
    """Keys of the model steps of a run's turns, in order; those of summaries are left out."""
    steps = await kernel.for_tenant().steps(run_id)
    keys = [step["key"] for step in steps if step["kind"] == "model"]
    return [key for key in keys if key.endswith("/model")]


def _block() -> int:
    return YOUNG[1] - YOUNG[0]
