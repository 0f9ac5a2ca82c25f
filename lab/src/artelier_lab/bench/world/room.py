"""A process that makes a large world and passes two ticks, to see how much memory that takes.

`python -m artelier_lab.bench.world.room DATABASE AGENTS` prints `{"rss_mb", "tick_s"}`.
"""

from __future__ import annotations

import asyncio
import json
import resource
import sys
import time
from pathlib import Path

from artelier_lab.bench.world.setup import giving, world_of

TICKS = 2


async def measure(path: Path, agents: int) -> dict[str, float]:
    """Peak memory in MB of this process, and seconds of a tick."""
    kernel, world = await world_of(
        path, agents=agents, artifacts=0, content={"policy": "rule"}, rule=giving(agents)
    )
    started_s = time.perf_counter()
    try:
        passed = await world.run(ticks=TICKS)
    finally:
        await world.close()
        await kernel.aclose()
    assert [one.acted for one in passed] == [agents] * TICKS
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    # In KB, but for macOS, which tells bytes.
    rss_mb = peak / 2**20 if sys.platform == "darwin" else peak / 1024
    return {"rss_mb": rss_mb, "tick_s": (time.perf_counter() - started_s) / TICKS}


if __name__ == "__main__":
    print(json.dumps(asyncio.run(measure(Path(sys.argv[1]), int(sys.argv[2])))))
