"""Programs with steps that they do not wait for: races, timeouts, abandoned streams.

Who wins is left to time, so it is no part of the result. The code tells it to a tool: a resume or a replay in
which somebody else wins asks for something else than was recorded.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from artelier.errors import ArtelierError
from artelier.kernel import ModelResult, Run
from artelier_lab.torture.script import Op

CAUGHT = frozenset(("output_invalid", "model_refused_call", "tool_failed"))


async def race(run: Run, op: Op) -> str:
    """Run a race of one kind; its result is the same whoever wins."""
    seconds = op.options["seconds"]
    won = await _KINDS[op.options["how"]](run, op, seconds)
    told = {"op": f"{run.id}|{op.path}", "amount": won}
    await run.step_tool("look", told, key=f"{op.path}-told")
    return "raced"


async def _ask(run: Run, op: Op, name: str) -> int:
    try:
        await run.step_model(**_asked(run, op, name))
    except ArtelierError as error:
        if error.code not in CAUGHT:
            raise
        return 10
    return 1


def _asked(run: Run, op: Op, name: str) -> dict[str, Any]:
    text = f"[[{run.id}|{op.path}-{name}]] who is first?"
    return {
        "model": "m",
        "messages": [{"role": "user", "content": text}],
        "max_output_tokens": 400,
        "key": f"{op.path}-{name}",
    }


async def _look(run: Run, op: Op) -> int:
    told = {"op": f"{run.id}|{op.path}", "amount": 1}
    result = await run.step_tool("look", told, key=f"{op.path}-look")
    return 20 if result.is_error else 2


async def _wait_for(run: Run, op: Op, seconds: float) -> int:
    try:
        return await asyncio.wait_for(_ask(run, op, "a"), seconds)
    except TimeoutError:
        return 0


async def _first(run: Run, op: Op, seconds: float) -> int:
    tasks = [asyncio.ensure_future(_ask(run, op, "a")), asyncio.ensure_future(_look(run, op))]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    return sum(task.result() for task in done)


async def _durable_first(run: Run, op: Op, seconds: float) -> int:
    return sum(await run.first(_ask(run, op, "a"), _look(run, op), key=op.path))


async def _timeout(run: Run, op: Op, seconds: float) -> int:
    try:
        async with run.timeout(seconds, key=op.path):
            return await _ask(run, op, "a") + await _look(run, op)
    except TimeoutError:
        return 0


async def _left(run: Run, op: Op, seconds: float) -> int:
    async for item in run.stream_model(**_asked(run, op, "a")):
        return 3 if isinstance(item, ModelResult) else len(item.text)
    return 4


_KINDS: dict[str, Callable[[Run, Op, float], Awaitable[int]]] = {
    "wait_for": _wait_for,
    "first": _first,
    "durable_first": _durable_first,
    "timeout": _timeout,
    "left": _left,
}
