"""The CPU of a cycle at one commit a cycle, with a short and with a long conversation in the request.

How many commits a cycle takes depends on which thread is scheduled first: the writer may take a batch that
nobody waits for before the batch behind it arrives, or both as one group. A commit costs more CPU than what
is to be measured, so both are queued together here, and every cycle is one commit.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

from artelier.kernel import Run
from artelier.log.contract import Batch, Receipt, Store
from artelier_lab.bench.figures import median
from artelier_lab.bench.kernel.cycle import SHOWN, CallingModel, Meter, begin, cycles, open_kernel

SHOWN_LONG = 2_000
"""Messages that a request of a long conversation shows."""

_WARM_UP = 10
_AT_ONCE = 50


def bench_cycle_cpu(
    folder: Path, *, block: int, blocks: int, progress: Callable[[str], None]
) -> dict[str, float]:
    """Return the CPU of a cycle with 20 and with 2,000 messages shown: medians of blocks in turns."""
    progress(f"kernel: {blocks} blocks of {block} cycles, {SHOWN} and {SHOWN_LONG} messages shown in turns")
    return asyncio.run(_measure(folder / "cycle-cpu.db", block, blocks))


async def _measure(path: Path, block: int, blocks: int) -> dict[str, float]:
    found: dict[int, list[float]] = {SHOWN: [], SHOWN_LONG: []}
    kernel = open_kernel(path, CallingModel())
    try:
        async with kernel.run("long") as run:
            conversation, meter = begin(run), Meter(kernel)
            while len(conversation) < SHOWN_LONG:
                await cycles(run, conversation, _AT_ONCE)
            pairs = PairedCommits(run, kernel.store)
            for _ in range(blocks):
                for shown, costs in found.items():
                    await cycles(run, conversation, _WARM_UP, shown=shown)
                    meter.start()
                    await cycles(run, conversation, block, shown=shown)
                    cost = meter.stop(block)
                    assert cost.commits == 1, f"{cost.commits} commits per cycle instead of one"
                    costs.append(cost.cpu_ms)
            pairs.end()
    finally:
        kernel.close()
    return {
        "cpu_ms_per_cycle": median(found[SHOWN]),
        "cpu_ms_per_cycle_2000_shown": median(found[SHOWN_LONG]),
    }


class PairedCommits:
    """Queues each batch that a run waits for together with those before it that it does not wait for."""

    def __init__(self, run: Run, store: Store) -> None:
        assert run.core.actor is not None
        self._actor = run.core.actor
        self._store = store
        self._flush, self._submit = self._actor.flush, store.submit
        self._is_awaited = True
        self._held: list[tuple[Batch, asyncio.Future[Receipt]]] = []
        self._actor.flush, store.submit = self._hold, self._submit_together

    def end(self) -> None:
        """Queue what is held, and let the run queue its batches itself again."""
        self._actor.flush, self._store.submit = self._flush, self._submit
        self._queue([])

    def _hold(self) -> None:
        self._is_awaited = False
        try:
            self._flush()
        finally:
            self._is_awaited = True

    def _submit_together(self, batch: Batch) -> Awaitable[Receipt]:
        if self._is_awaited:
            return self._queue([batch])[-1]
        future: asyncio.Future[Receipt] = asyncio.get_running_loop().create_future()
        self._held.append((batch, future))
        return future

    def _queue(self, batches: list[Batch]) -> list[Awaitable[Receipt]]:
        held, self._held = self._held, []
        waiting = self._store.submit_all([*(batch for batch, _ in held), *batches])
        for (_, future), decided in zip(held, waiting, strict=False):
            asyncio.ensure_future(decided).add_done_callback(_copy_outcome(future))
        return list(waiting)


def _copy_outcome(future: asyncio.Future[Receipt]) -> Callable[[asyncio.Future[Receipt]], None]:
    """Return a callback that gives the outcome of a batch to who was given `future` for it."""

    def copy(decided: asyncio.Future[Receipt]) -> None:
        if (error := decided.exception()) is not None:
            future.set_exception(error)
        else:
            future.set_result(decided.result())

    return copy
