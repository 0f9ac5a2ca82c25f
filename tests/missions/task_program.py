"""A task as a program, for tests that kill it: `python -m tests.missions.task_program FOLDER [POINT]`.

What its tools do to the outside stands in the file `world`, a line each. It prints how the task stands in the
end. At POINT it kills itself. The model decides by the request alone, so a process that goes on says what the
first would.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

from artelier import Kernel, ModelRequest, Policy, ToolContext, tool
from artelier.missions.task.task_runner import drive_task, recorded_job
from artelier.testing import ScriptedModel
from tests.missions.task_stage import (
    REPORT,
    TASK,
    approve,
    decide,
    look,
    make_task,
    text_of,
    title_of,
    verdict,
    write,
)

ITERATIONS = 20
"""Five are needed; each kill may cost one more."""

PAY = decide("use_tool", tool="pay", input={"to": "ana"})


def answer(request: ModelRequest) -> Any:
    title, seen = title_of(request), text_of(request)
    if title == "Verdict":
        return approve(request) if "4711" in seen else verdict(False, missing="The amount.")
    if title == "content":
        return REPORT if "## Current version" in seen else "# Sales\n\nOslo sold goods in 2025."
    # A call that was cut off before it did anything is made again, by another decision.
    done = seen.count("## Result of iteration") - seen.count("nothing was paid")
    return [PAY, look(), write(), write(), decide("complete_task")][min(done, 4)]


def tools(folder: Path) -> list[Any]:
    def did(deed: str) -> None:
        with (folder / "world").open("a") as file:
            file.write(f"{deed}\n")

    async def pay(to: str, ctx: ToolContext) -> dict[str, int]:
        "Pay."
        did(f"pay {ctx.idempotency_key}")
        return {"paid": 12}

    async def sales_of(city: str) -> dict[str, Any]:
        "What a city sold in 2025."
        did("look")
        return {"city": city, "year": 2025, "sold": 4711}

    async def found(key: str, arguments: dict[str, Any]) -> dict[str, int]:
        from artelier.errors import ToolFailed

        done = (folder / "world").read_text() if (folder / "world").exists() else ""
        if f"pay {key}" not in done:
            raise ToolFailed("nothing was paid")
        return {"paid": 12}

    return [tool(side_effect=True, probe=found)(pay), tool(side_effect=False)(sales_of)]


def opened(folder: Path, deadly: str = "") -> Kernel:
    def die(point: str) -> None:
        if point == deadly:
            os.kill(os.getpid(), signal.SIGKILL)

    model = ScriptedModel(answer)
    return Kernel.open(
        folder / "state.db",
        models={"m": model},
        tools=tools(folder),
        environ={},
        policy=Policy(backoff_s=0.0),
        fault=die,
    )


async def main(folder: Path, deadly: str = "", *, task: str = TASK) -> dict[str, Any]:
    with opened(folder, deadly) as kernel:
        desk = kernel.for_tenant()
        job = await recorded_job(desk, task)
        if job is None:
            rows = await kernel.store.query("SELECT 1 FROM tasks WHERE task = ?", (TASK,))
            job = await make_task(desk, max_iterations=ITERATIONS) if not rows else await again()
        result = await drive_task(desk, task, job)
        return {
            "status": result.status,
            "reason": result.reason,
            "outputs": result.outputs,
            "text": result.text,
        }


async def again() -> Any:
    """The job of a task whose artifact is there, and whose run is not."""
    with Kernel.open(":memory:", environ={}) as kernel:
        return await make_task(kernel.for_tenant(), max_iterations=ITERATIONS)


if __name__ == "__main__":
    print(json.dumps(asyncio.run(main(Path(sys.argv[1]), *sys.argv[2:]))))  # noqa: T201 - its answer
