"""An agent whose code has changed since its run was begun goes on as a fork, if it may."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from artelier import AutonomousAgent, ContextBuilder, Kernel, ToolContext, tool
from artelier.agents import resume_run
from artelier.kernel import AgentResult
from artelier.testing import ScriptedModel, tool_call


@tool(side_effect=False)
async def consult(question: str, ctx: ToolContext) -> str:
    "Ask a person."
    return "yes" if await ctx.ask(question) else "no"


def agent(kernel: Kernel, identity: str) -> AutonomousAgent:
    return AutonomousAgent(
        kernel=kernel, context_builder=ContextBuilder(identity=identity), tools=[consult], agent_id="asker"
    )


def test_an_agent_goes_on_in_a_fork_after_its_prompt_has_changed(tmp_path: Path) -> None:
    def answer(request: Any) -> Any:
        said = request.messages[0].text
        if "Brief" in said:
            return "done, briefly"
        return tool_call("consult", {"question": "may I?"})

    model = ScriptedModel(answer)

    async def scenario() -> None:
        with Kernel.open(tmp_path / "s.db", models=model) as kernel:

            async def go(identity: str, **more: Any) -> AgentResult:
                return await agent(kernel, identity).run(
                    run_id="r", model="m", prompt="Ask.", on_wait="return", **more
                )

            assert (await go("You are Polite.")).status == "waiting_approval"

            result = await go("You are Brief.", replay="fork_on_drift")

            assert (result.status, result.text) == ("completed", "done, briefly")
            assert result.run_id == "r.drift-1"
            runs = kernel.for_tenant()
            assert (await runs.show("r"))["reason"] == "drifted"
            assert not await runs.approvals("r")
            again = await resume_run(kernel, None, "r", replay="fork_on_drift")
            assert (again.run_id, again.text) == ("r.drift-1", "done, briefly")
            assert len(model.requests) == 2

    asyncio.run(scenario())
