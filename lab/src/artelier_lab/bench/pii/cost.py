"""The cost of a cycle with personal data replaced, with content only sealed, and with neither."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from artelier import Policy
from artelier.kernel import Conversation, Run
from artelier_lab.bench.figures import median
from artelier_lab.bench.kernel.cycle import CallingModel, Meter, begin, cycles, open_kernel

KEY = {"ARTELIER_VAULT_KEY": "00" * 32}

MODES: dict[str, dict[str, Any]] = {
    "off": {"environ": {}},
    "sealed": {"environ": KEY},
    "on": {"environ": KEY, "policy": Policy(pii=True)},
}
"""How a kernel is opened: plain, with a vault key alone, with personal data replaced."""


def bench_pii_cost(
    folder: Path, *, blocks: int, block: int, progress: Callable[[str], None]
) -> dict[str, float]:
    """`cpu_ms_per_cycle_<mode>` of each mode, in ms of all threads; blocks of all modes take turns."""
    return asyncio.run(_cost(folder, blocks=blocks, block=block, progress=progress))


async def _cost(
    folder: Path, *, blocks: int, block: int, progress: Callable[[str], None]
) -> dict[str, float]:
    found: dict[str, list[float]] = {mode: [] for mode in MODES}
    async with AsyncExitStack() as stack:
        open_runs: dict[str, tuple[Run, Conversation, Meter]] = {}
        for mode, more in MODES.items():
            kernel = open_kernel(folder / f"pii-{mode}.db", CallingModel(), **more)
            stack.callback(kernel.close)
            run = await stack.enter_async_context(kernel.run("cost"))
            open_runs[mode] = run, begin(run), Meter(kernel)
            await cycles(run, open_runs[mode][1], block)
        for number in range(blocks):
            progress(f"pii: block {number + 1} of {blocks}")
            for mode, (run, conversation, meter) in open_runs.items():
                meter.start()
                await cycles(run, conversation, block)
                found[mode].append(meter.stop(block).cpu_ms)
    return {f"cpu_ms_per_cycle_{mode}": median(costs) for mode, costs in found.items()}
