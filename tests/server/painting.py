"""A server in a process of its own, whose model is a script: for tests that kill it.

`python -m tests.server.painting FOLDER PART` prints its address and the headers of a signed-in client, and
serves until it is killed. `PART` says how far its script goes: `asks` up to the call of the client's tool,
`dies` with the next decision after its answer, `ends` to the end of the mission.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

from artelier import ModelRequest
from tests.missions.mission_stage import Team, planned
from tests.missions.task_stage import decide, write
from tests.server.house import house, on_a_port

PICKS = decide("use_tool", tool="pick_colour", input={"kind": "warm"})


def _die(request: ModelRequest) -> Any:
    os.kill(os.getpid(), signal.SIGKILL)


SCRIPTS: dict[str, list[Any]] = {"asks": [PICKS], "dies": [_die], "ends": [write("Out a")]}


async def serve(folder: Path, part: str) -> None:
    team = Team(planned({"slug": "a"}), scripts={"a": SCRIPTS[part]})
    async with house(folder, model=team.model, has_worker=True) as made, on_a_port(made.app) as address:
        cookies = "; ".join(f"{name}={value}" for name, value in made.client.cookies.items())
        headers = {"Cookie": cookies, "X-CSRF-Token": made.client.headers["X-CSRF-Token"]}
        sys.stdout.write(json.dumps({"url": f"{address}/api/v1/agui", "headers": headers}) + "\n")
        sys.stdout.flush()
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(serve(Path(sys.argv[1]), sys.argv[2]))
