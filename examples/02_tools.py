"""Tools are called in two phases; a wrong call is an answer that the model can read, never a dead run."""

import asyncio

from artelier import Kernel, ToolContext, tool
from artelier.errors import ToolFailed

SHELF = {"lamp": 3, "chair": 0}


@tool(side_effect=False)
def stock(item: str) -> int:
    """How many pieces of an item are on the shelf."""
    if item not in SHELF:
        raise ToolFailed(f"no item {item!r}", expected=", ".join(SHELF))
    return SHELF[item]


@tool(side_effect=True)
async def reserve(item: str, pieces: int, ctx: ToolContext) -> dict[str, str | int]:
    """Put pieces aside for a customer; happens once, whatever crashes."""
    if SHELF[item] < pieces:
        raise ToolFailed(f"only {SHELF[item]} left")  # says: nothing happened
    SHELF[item] -= pieces
    return {"item": item, "left": SHELF[item], "receipt": ctx.idempotency_key}


async def main() -> None:
    with Kernel.open("tools.db", tools=[stock, reserve]) as kernel:
        async with kernel.run("order-7") as run:
            print(await run.step_tool("stock", {"item": "lamp"}))
            print((await run.step_tool("stock", {"itme": "lamp"})).value["error"]["message"])
            print((await run.step_tool("teleport", {})).value["error"]["message"])
            print((await run.step_tool("reserve", {"item": "lamp", "pieces": 2})).value)
            print((await run.step_tool("reserve", {"item": "chair", "pieces": 1})).value["error"])


asyncio.run(main())
