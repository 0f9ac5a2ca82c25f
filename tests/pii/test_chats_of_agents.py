"""Chats of agents where personal data is replaced: turns replay, and none that waits tells values to
others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from artelier import AutonomousAgent, ModelRequest, Policy, tool
from artelier.testing import ScriptedModel, tool_call
from tests.kernel.stage import play
from tests.pii.test_door import ACME, ANA, BO, assert_nowhere, opened, seen


def test_turns_that_go_on_beside_one_that_waits_see_no_value_and_replay(tmp_path: Path) -> None:
    given: list[str] = []

    @tool(side_effect=True, risk="high", grant="pii:restore")
    def refund(to: str) -> str:
        """Pay somebody back."""
        given.append(to)
        return f"paid {to}"

    def clerk(request: ModelRequest) -> Any:
        last = request.messages[-1]
        if last.role == "tool":
            return f"done: {last.text}"
        if last.text.startswith("refund "):
            return tool_call("refund", {"to": last.text.split()[1]})
        return "At nine."

    model = ScriptedModel(clerk)

    async def scenario() -> None:
        policy = Policy(pii=True, backoff_s=0, approve_risk="medium")
        with opened(tmp_path, model, refund, policy=policy) as kernel:
            agent, desk = AutonomousAgent(kernel=kernel), kernel.for_tenant(ACME)
            chat = agent.chat("c", model="m", on_wait="return", tenant=ACME)
            asked = await chat.send(f"refund {ANA}")
            assert asked.status == "waiting_approval"
            turns = [asked, await chat.send(f"When, for {BO}?")]
            assert turns[1].text == "At nine."
            await desk.approve(asked.run_id)
            assert (await chat.resume()).status == "completed" and given == [ANA]
            turns += [await chat.send("thanks"), await chat.send("bye")]
            for turn in turns:
                assert (await desk.replay(turn.run_id, agent.drive)).status == "completed"

    play(scenario())
    for request in model.requests:
        assert ANA not in seen(request) and BO not in seen(request)
    assert_nowhere(tmp_path, ANA, BO)
