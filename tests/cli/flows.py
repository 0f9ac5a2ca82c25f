"""Runs of one's own code, as a user writes them; tests copy this file into their folder."""

from __future__ import annotations

from typing import Any

from artelier import Run, ToolContext, happened, not_happened, tool


@tool(side_effect=True)
async def pay(to: str, amount: int, ctx: ToolContext) -> dict[str, Any]:
    """Pay somebody."""
    with open("paid.txt", "a") as book:
        book.write(f"{ctx.idempotency_key} {to} {amount}\n")
    return {"paid": to, "amount": amount}


def _books(idempotency_key: str, arguments: dict[str, Any]) -> Any:
    """What the outside says; nobody there as long as there is no book."""
    with open("books.txt") as book:
        return happened({"id": 7}) if idempotency_key in book.read() else not_happened


@tool(side_effect=True, probe=_books)
async def lose_asked(to: str, ctx: ToolContext) -> dict[str, Any]:
    """Do something, lose the answer, and leave it to the probe."""
    raise ConnectionError("the line went dead")


@tool(side_effect=True)
async def lose(ctx: ToolContext) -> dict[str, Any]:
    """Do something and lose the answer."""
    raise ConnectionError("the line went dead")


async def pays(run: Run) -> Any:
    """Asks, then pays."""
    amount = await run.step("draw", lambda: 4)
    answer = await run.approve("pay Ana?", {"amount": amount})
    if not answer:
        return {"denied": answer.note}
    amount = (answer.arguments or {"amount": amount})["amount"]
    return (await run.step_tool("pay", {"to": "ana", "amount": amount})).value


async def waits(run: Run) -> str:
    await run.approve("begin?")
    return f"got {await run.wait_for('go')}"


async def rests(run: Run) -> str:
    await run.sleep(0.01)
    return "rested"


async def loses(run: Run) -> Any:
    return (await run.step_tool("lose", {})).value


async def loses_asked(run: Run) -> Any:
    return (await run.step_tool("lose_asked", {"to": "ana"})).value


async def fails(run: Run) -> None:
    await run.step("fine", lambda: 1)
    raise KeyError("no such region")


async def paints(run: Run) -> str:
    """Gives back what a terminal would obey."""
    await run.approve("really \x1b[2J?")
    return "\x1b[31mred\x1b[0m \x9b1m \u202edesrever"


async def has_child(run: Run) -> str:
    return "alone"


def plain(run: Run) -> None:
    """Not async."""
