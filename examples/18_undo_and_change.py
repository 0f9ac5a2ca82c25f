"""A trip is booked, and undone when a part of it fails. Then the code changes under a run that is at work."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from artelier import Kernel, Run, RunSuspended, ToolContext, tool

booked: list[str] = []


async def cancel(arguments: dict[str, Any], result: Any, ctx: ToolContext) -> None:
    """Undoes one booking; the key is the undoing's own, and stays the same if it is tried again."""
    booked.remove(arguments["what"])
    print(f"cancelled {arguments['what']}, booking {result['number']}, key {ctx.idempotency_key}")


@tool(side_effect=True, compensate=cancel)
async def book(what: str) -> dict[str, int]:
    """Book a part of a trip."""
    booked.append(what)
    return {"number": len(booked)}


async def trip(run: Run) -> str:
    await run.step_tool("book", {"what": "train"}, key="train")
    await run.step_tool("book", {"what": "hotel"}, key="hotel")
    theatre = await run.wait_for("tickets")
    if not theatre:
        undone = await run.compensate(note="no tickets: stay at home")
        return f"undone: {', '.join(undone.undone)}"
    return "have fun"


async def with_breakfast(run: Run) -> str:
    """The code of `trip` a month later. Runs that were past the hotel by then go on without breakfast."""
    await run.step_tool("book", {"what": "train"}, key="train")
    hotel = "hotel with breakfast" if await run.version("breakfast") else "hotel"
    await run.step_tool("book", {"what": hotel}, key="hotel")
    await run.wait_for("tickets")
    return hotel


async def drive(kernel: Kernel, name: str, code: Callable[[Run], Awaitable[str]]) -> None:
    try:
        async with kernel.run(name, on_wait="suspend") as run:
            print(f"{name}: {await code(run)}")
    except RunSuspended as flow:
        print(f"{name}: {flow.status} for {flow.reason}")


async def main() -> None:
    with Kernel.open("trips.db", tools=[book]) as kernel:
        for name in ("ana", "ben"):
            await drive(kernel, name, trip)
        await kernel.signal("ana", "tickets", False)
        await drive(kernel, "ana", trip)

        await drive(kernel, "cleo", with_breakfast)  # from here on, the new code
        for name in ("ben", "cleo"):
            await kernel.signal(name, "tickets", True)
            await drive(kernel, name, with_breakfast)


asyncio.run(main())
