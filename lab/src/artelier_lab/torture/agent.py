"""A small agent in a process of its own, to be killed at any instant: `python -m ... DATABASE BOOKS SEED`.

It says `open` when its kernel is open, and prints its result as JSON when its run has ended. Exit code 3
tells that a payment's outcome is unknown.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import sys
from pathlib import Path
from typing import Any

from artelier import Kernel, ModelReply, ModelRequest, Run, RunSuspended, ToolContext, Usage, tool
from artelier.ports.model import FREE, Price
from artelier.ports.tool import ToolPort

RUN = "killed"
UNKNOWN = 3
ROUNDS = 8


class SlowModel:
    """Takes a few milliseconds, so that a kill can come meanwhile."""

    price: Price | None = FREE

    async def complete(self, request: ModelRequest, /) -> ModelReply:
        await asyncio.sleep(0.004)
        text = f"re: {request.messages[-1].text}"
        return ModelReply(text=text, usage=Usage(input_tokens=10, output_tokens=10))


def tools_of(books: Path) -> list[ToolPort]:
    """Tools that write what they do into a file that outlives the process."""

    def write(kind: str, key: str) -> None:
        line = f"{kind} {key}\n".encode()
        file = os.open(books, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(file, line)
        finally:
            os.close(file)

    @tool(side_effect=False)
    async def look(n: int, ctx: ToolContext) -> int:
        """Look something up."""
        write("look", ctx.idempotency_key)
        await asyncio.sleep(0.002)
        return n * 7

    @tool(side_effect=True)
    async def pay(n: int, ctx: ToolContext) -> str:
        """Pay: what is in the books is done."""
        await asyncio.sleep(0.002)
        write("pay", ctx.idempotency_key)
        await asyncio.sleep(0.002)
        return receipt(ctx.idempotency_key)

    return [look, pay]


def receipt(key: str) -> str:
    return f"paid {key}"


def paid(books: Path) -> list[str]:
    """Keys of all payments, as often as they were made."""
    if not books.exists():
        return []
    lines = books.read_text().splitlines()
    return [line.partition(" ")[2] for line in lines if line.startswith("pay ")]


async def work(run: Run, seed: int) -> list[Any]:
    """A dozen steps of all sorts, in an order that the seed draws."""
    rng = random.Random(seed)
    conversation = run.conversation()
    done: list[Any] = []
    for number in range(ROUNDS):
        conversation.append({"role": "user", "content": f"round {number}"})
        reply = await run.step_model(model="m", messages=conversation)
        conversation.append(reply)
        done.append(reply.text)
        sort = rng.choice(("look", "pay", "pay", "both", "compute", "sleep"))
        if sort in ("look", "pay"):
            done.append((await run.step_tool(sort, {"n": number})).value)
        elif sort == "both":
            done.append(await run.gather(*(_part(number, name) for name in ("look", "pay"))))
        elif sort == "compute":
            done.append(await run.step("square", _square, number))
        else:
            await run.sleep(0.005)
    return done


def _square(number: int) -> int:
    return number * number


def _part(number: int, name: str) -> Any:
    async def part(branch: Run) -> Any:
        return (await branch.step_tool(name, {"n": number})).value

    return part


async def main(path: Path, books: Path, seed: int) -> int:
    kernel = Kernel.open(path, models={"m": SlowModel()}, tools=tools_of(books), environ={})
    print("open", flush=True)
    try:
        async with kernel.run(RUN) as run:
            value = await work(run, seed)
            if run.status == "running":
                run.finish(value)
    except RunSuspended as suspended:
        assert suspended.status == "unknown_outcome", suspended
        return UNKNOWN
    finally:
        kernel.close()
    print(json.dumps(value), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))))
