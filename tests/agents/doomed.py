"""A family whose model ends the process that asks it, as the kernel does with one that uses up the memory.

`python -m tests.agents.doomed FOLDER NAME AT` drives run NAME once. AT is `boss 1`, say: the process kills
itself with `kill -9` where the boss is asked with one tool result in its conversation.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any

from artelier import AutonomousAgent, Kernel, ModelRequest, tool
from artelier.testing import ScriptedModel, tool_call
from tests.agents.family import boss, hand, open_family, work, worker


def open_doomed(folder: Path, deadly: str = "") -> tuple[Kernel, AutonomousAgent]:
    """A boss that hands a task over, and the worker that looks before it answers."""

    def model(name: str, *replies: Any) -> ScriptedModel:
        def answer(request: ModelRequest) -> Any:
            results = sum(message.role == "tool" for message in request.messages)
            if f"{name} {results}" == deadly:
                os.kill(os.getpid(), signal.SIGKILL)
            return replies[results]

        return ScriptedModel(answer)

    @tool(side_effect=False)
    def look() -> str:
        "Look."
        return "seen"

    models = {
        "boss": model("boss", hand("work"), "all done"),
        "worker": model("worker", tool_call("look"), "done"),
    }
    kernel = open_family(folder, models)
    return kernel, boss(kernel, worker(kernel, tools=[look]))


async def main(folder: str, name: str, deadly: str) -> None:
    kernel, agent = open_doomed(Path(folder), deadly)
    with kernel:
        await work(agent, name)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
