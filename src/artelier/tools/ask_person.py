"""Questions to people: `ask_person`."""

from __future__ import annotations

from typing import Any

from artelier.ports.tool import ToolContext
from artelier.tools.function import Tool, tool


def ask_tool() -> Tool[..., Any]:
    @tool(side_effect=False, idempotent=True, trust="trusted")
    async def ask_person(question: str, ctx: ToolContext) -> dict[str, str]:
        """Ask a person and wait for the answer, which may take days: a decision (approve, deny or edit)
        and a note in their own words."""
        answer = await ctx.ask(question)
        return {"decision": answer.decision, "note": answer.note}

    return ask_person
