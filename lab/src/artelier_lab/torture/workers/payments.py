"""The tools of the runs: `artelier worker --tools` is given this file.

A payment is a line in a book that outlives every process, named by `ARTELIER_LAB_BOOK`.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

from artelier import ToolContext, happened, not_happened, tool

__all__ = ["pay", "sure"]

WORK_S = 0.02
"""Before and after a payment is made, so that faults fall on both sides of it."""


def _book() -> Path:
    return Path(os.environ["ARTELIER_LAB_BOOK"])


def payments() -> list[str]:
    """Return the keys of all payments, as often as they were made."""
    return _book().read_text().split() if _book().exists() else []


def _look(key: str, arguments: dict[str, Any]) -> Any:
    return happened(f"paid {key}") if key in payments() else not_happened


@tool(side_effect=True, risk="low", probe=_look)
async def pay(n: int, ctx: ToolContext) -> str:
    """Pay."""
    await asyncio.sleep(WORK_S)
    file = os.open(_book(), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(file, f"{ctx.idempotency_key}\n".encode())
    finally:
        os.close(file)
    await asyncio.sleep(WORK_S)
    return f"paid {ctx.idempotency_key}"


@tool(side_effect=False)
async def sure(ctx: ToolContext) -> str:
    """Ask a person."""
    return (await ctx.ask("Sure?")).decision
