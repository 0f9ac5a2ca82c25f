"""A process of its own that pays, and is killed or stopped around it: `python -m ... FOLDER WHEN`."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any

from artelier import Kernel, Run, RunSuspended, ToolContext, happened, not_happened, tool

RUN = "r"


def paid(folder: Path) -> list[str]:
    """The keys that the bank has carried out, as often as it did."""
    books = folder / "books"
    return books.read_text().split() if books.exists() else []


def pay_tool(folder: Path, when: str = "") -> Any:
    """A payment whose process dies `before` or `after` it acts, or `waits` for a line before it does."""

    def probe(key: str, arguments: dict[str, Any]) -> Any:
        return happened(f"receipt {key}") if key in paid(folder) else not_happened

    @tool(side_effect=True, probe=probe)
    def pay(amount: int, ctx: ToolContext) -> str:
        "Pay."
        if when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        if when == "waits":
            sys.stdout.write("entered\n")
            sys.stdout.flush()
            sys.stdin.readline()
        with (folder / "books").open("a") as books:
            books.write(f"{ctx.idempotency_key}\n")
        if when == "after":
            os.kill(os.getpid(), signal.SIGKILL)
        return f"receipt {ctx.idempotency_key}"

    return pay


async def code(run: Run) -> Any:
    return (await run.step_tool("pay", {"amount": 3})).unwrap()


def open_bank(folder: Path, when: str = "") -> Kernel:
    return Kernel.open(folder / "s.db", tools=[pay_tool(folder, when)], environ={})


async def main(folder: Path, when: str) -> None:
    with open_bank(folder, when) as kernel:
        try:
            async with kernel.run(RUN) as run:
                run.finish(await code(run))
        except RunSuspended as flow:
            sys.stdout.write(f"{flow.status}\n")


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2]))
