"""A long run of a built-in loop is killed and resumed in a fresh process: how long until it works again.

The clock of the fresh process starts when its imports are done. It stops when the model is handed a request
that no earlier process had recorded: by then the answer to the interrupted call and the tool call after it
are durable as well. The model has a configured price, as one on a server of its own has: the first *new*
call of a model that only the bundled table of prices may know loads that table besides.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from artelier.agents import AutonomousAgent
from artelier.errors import ArtelierError
from artelier.ports.model import FREE, ModelReply, ModelRequest
from artelier_lab.bench.kernel.cycle import CallingModel, open_kernel
from artelier_lab.bench.kernel.growth import store_bytes
from artelier_lab.bench.processes import compiling_environ, python

STEPS_PER_CYCLE = 2
DRIVE_S_MAX = 600.0


class _StoppingModel(CallingModel):
    """Answers until it has been asked `until` times; then it says so and never answers."""

    def __init__(self, *, until: int, tell: Callable[[], None]) -> None:
        super().__init__()
        self._until = until
        self._tell = tell

    async def complete(self, request: ModelRequest, /) -> ModelReply:
        if self.calls >= self._until:
            self._tell()
            await asyncio.Event().wait()
        return await super().complete(request)


async def _drive(path: Path, *, until: int, tell: Callable[[], None]) -> None:
    kernel = open_kernel(path, _StoppingModel(until=until, tell=tell), prices={"bench": FREE})
    agent = AutonomousAgent(kernel=kernel, max_iterations=1_000_000)
    await agent.run(run_id="long", model="bench", prompt="Fetch the rows, one by one.")


def bench_resume(folder: Path, *, steps: int, progress: Callable[[str], None]) -> dict[str, float]:
    """Figures of the agent loop: bytes per cycle, and the resume after `kill -9` at that many steps."""
    path = folder / "resume.db"
    progress(f"kernel: resume of {steps} steps after kill -9")
    start_s = time.perf_counter()
    _killed(path, steps // STEPS_PER_CYCLE)
    drive_s = time.perf_counter() - start_s
    size = store_bytes(path)
    found = _child("resume", path, 1)
    return {
        "resume_ms_10000": found["resume_ms"],
        "agent_bytes_per_cycle": size / (steps // STEPS_PER_CYCLE),
        "agent_wall_ms_per_cycle": drive_s * 1000 / (steps // STEPS_PER_CYCLE),
    }


def _command(verb: str, path: Path, count: int) -> Sequence[str]:
    return python("-m", __name__, verb, str(path), str(count))


def _killed(path: Path, cycles: int) -> None:
    """Run that many cycles in another process, and kill it inside the next model call."""
    with subprocess.Popen(
        _command("drive", path, cycles), stdout=subprocess.PIPE, env=compiling_environ()
    ) as child:
        assert child.stdout is not None
        try:
            if child.stdout.readline().strip() != b"ready":
                raise ArtelierError("the process to be killed ended by itself")
        finally:
            child.send_signal(signal.SIGKILL)


def _child(verb: str, path: Path, count: int) -> dict[str, Any]:
    done = subprocess.run(
        _command(verb, path, count),
        check=True,
        stdout=subprocess.PIPE,
        timeout=DRIVE_S_MAX,
        env=compiling_environ(),
    )
    return json.loads(done.stdout)


def main(verb: str, path: Path, count: int) -> None:
    start_s = time.perf_counter()

    def ready() -> None:
        if verb == "drive":
            print("ready", flush=True)
            return
        print(json.dumps({"resume_ms": (time.perf_counter() - start_s) * 1000}), flush=True)
        os._exit(0)  # no tidy end: the next process finds what this one left

    asyncio.run(_drive(path, until=count, tell=ready))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))
