"""The area `operations`: what a run around a main call costs, its order of commit, what a turn adds."""

from __future__ import annotations

import asyncio
import random
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from artelier.app import Kernel
from artelier.chat.session.session import Session
from artelier.log import decode_stored, run_stream
from artelier.models.scripted import ScriptedModel
from artelier.operations.events import CommitReported
from artelier.operations.graph.plan import in_commit_order
from artelier.operations.profile.operation_profile import OperationProfile
from artelier.tools import tool
from artelier_lab.bench.figures import Target, judge, rounded
from artelier_lab.bench.kernel.growth import store_bytes
from artelier_lab.bench.machine import machine_facts

OPERATIONS = 200
PARALLEL = 8

TARGETS = {
    "cpu_ms_per_operation": Target(at_most=1.0),
    "commit_order_stable": Target(at_least=1),
    "parallel_most": Target(at_most=PARALLEL),
    "growth_cpu_turn_100_over_10": Target(at_most=1.1),
}

UNITS = {
    "cpu_ms_per_operation": "ms of CPU: a run with 200 operations in a graph, without what a plain one costs",
    "commit_order_stable": "1 if every run, however its operations ended, committed in the declared order",
    "commit_orders_compared": "runs whose operations took random times",
    "parallel_most": "operations at work at once, with a cap of 8",
    "run_overhead_ms": "ms of CPU of a turn without operations, less that of a bare run with its model call",
    "turn_cpu_ms": "ms of CPU of a turn without operations",
    "bytes_per_turn": "bytes on disk of a turn of 60 bytes without operations, late in a chat",
    "growth_cpu_turn_100_over_10": "CPU of a turn with the history shown in full: turn 100 over turn 10",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plan:
    """The sizes of the benchmark."""

    operations: int = OPERATIONS
    runs: int = 7
    orders: int = 5
    turns: int = 110


_QUICK = _Plan(operations=60, runs=3, orders=2, turns=24)
SIZED = ("growth_cpu_turn_100_over_10",)


def graph(count: int, *, kind: str = "template", seed: int = 1) -> OperationProfile:
    """A profile of `count` operations; each depends on up to three before it, orders are mixed."""
    chance = random.Random(seed)
    operations: list[dict[str, Any]] = []
    for number in range(count):
        above = chance.sample(range(max(0, number - 20), number), k=min(number, chance.randint(0, 3)))
        operations.append(
            {
                "operation_id": f"op{number:03d}",
                "kind": kind,
                "order": chance.randint(0, 50),
                "depends_on": [f"op{other:03d}" for other in sorted(above)],
                "params": _params(kind, number),
            }
        )
    return OperationProfile.parse(
        {"profile_id": f"graph-{kind}", "parallel_max": PARALLEL, "operations": operations}
    )


def _params(kind: str, number: int) -> dict[str, Any]:
    effect = {
        "type": "artifact.upsert",
        "tag": f"a{number:03d}",
        "usage": "internal",
        "persistence": "run_only",
    }
    if kind == "tool":
        return {"name": "work", "arguments": {"number": number}, "effects": [effect]}
    text = "{{ user }} said {{ text }} in turn {{ chat.turn }}"
    return {"template": text, "effects": [effect]}


class Work:
    """A tool that takes a random time, and knows how many of it are at work."""

    def __init__(self) -> None:
        self.now = 0
        self.most = 0
        self._chance = random.Random(2)

    def port(self) -> Any:
        @tool(side_effect=False)
        async def work(number: int) -> int:
            """Take a while."""
            self.now += 1
            self.most = max(self.most, self.now)
            await asyncio.sleep(self._chance.random() / 500)
            self.now -= 1
            return number

        return work


def bench_operations(*, quick: bool, directory: Path, progress: Callable[[str], None]) -> dict[str, Any]:
    """All figures of runs with operations. Databases go to `directory`."""
    plan = _QUICK if quick else _Plan()
    machine = machine_facts(directory)
    figures = asyncio.run(_measure(plan, directory, progress))
    figures = {name: rounded(value) for name, value in figures.items()}
    return {
        **figures,
        "targets": judge(figures, TARGETS, unjudged=SIZED if quick else ()),
        "unmeasured": sorted(TARGETS.keys() - figures.keys()),
        "units": UNITS,
        "machine": machine,
    }


async def _measure(plan: _Plan, directory: Path, progress: Callable[[str], None]) -> dict[str, float]:
    progress("operations")
    work = Work()
    model = ScriptedModel(lambda _: "A reply of about sixty bytes, as long as that in a chat.")
    path = directory / "operations.db"
    with Kernel.open(path, models={"m": model}, tools=[work.port()]) as kernel:
        bare = await _median(plan.runs, lambda n: _bare(kernel, n))
        plain = await Session.open(kernel, "plain", model="m", history_max=2)
        turn = await _median(plan.runs, lambda n: plain.generate(f"hello {n}"))
        many = await Session.open(kernel, "many", model="m", profile=graph(plan.operations), history_max=2)
        full = await _median(plan.runs, lambda n: many.generate(f"hello {n}"))
        progress("order of commit")
        stable = await orders_stable(kernel, plan.operations, runs=plan.orders)
        progress("turns")
        growth, size = await _turns(kernel, path, plan.turns)
    return {
        "cpu_ms_per_operation": (full - turn) / plan.operations * 1_000,
        "commit_order_stable": int(stable),
        "commit_orders_compared": plan.orders,
        "parallel_most": work.most,
        "run_overhead_ms": (turn - bare) * 1_000,
        "turn_cpu_ms": turn * 1_000,
        "bytes_per_turn": size,
        "growth_cpu_turn_100_over_10": growth,
    }


async def _median(runs: int, once: Callable[[int], Any]) -> float:
    """Seconds of CPU of the middle run, the first left out."""
    spent: list[float] = []
    for number in range(runs + 1):
        before = time.process_time()
        await once(number)
        spent.append(time.process_time() - before)
    return statistics.median(spent[1:])


async def _bare(kernel: Kernel, number: int) -> None:
    async with kernel.for_tenant().run(f"bare-{number}") as run:
        messages = [{"role": "user", "content": f"hello {number}"}]
        result = await run.step_model(model="m", messages=messages)
        run.finish(result.text)


async def orders_stable(kernel: Kernel, count: int, *, runs: int) -> bool:
    """Return True if runs whose operations take random times commit in the declared order."""
    profile = graph(count, kind="tool")
    declared = [one.operation_id for one in in_commit_order(profile.operations)]
    session = await Session.open(kernel, "orders", model="m", profile=profile)
    for number in range(runs):
        result = await session.generate(f"hello {number}")
        if await committed(kernel, result.run_id) != declared:
            return False
    return True


async def committed(kernel: Kernel, run_id: str) -> list[str]:
    """The operations of a run in the order in which their effects were committed."""
    found: list[str] = []
    for stored in await kernel.store.read(run_stream("default", run_id), limit=10_000):
        if stored.kind == CommitReported.KIND:
            report = decode_stored(stored.data, type=CommitReported)
            found += [one.operation_id for one in report.reports]
    return found


async def _turns(kernel: Kernel, path: Path, turns: int) -> tuple[float, float]:
    """CPU of a late turn over an early one, and bytes of a late one."""
    session = await Session.open(kernel, "long", model="m", history_max=10)
    spent: list[float] = []
    middle, size = turns // 2, 0
    for number in range(turns):
        before = time.process_time()
        await session.generate(f"turn {number} says about as much as people do in a chat.")
        spent.append(time.process_time() - before)
        if number == middle:
            size = store_bytes(path)
    early = statistics.median(spent[5:15])
    late = statistics.median(spent[-10:])
    return late / early, (store_bytes(path) - size) / (turns - 1 - middle)
