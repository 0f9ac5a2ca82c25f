"""What undoes a call gets the values, as the call did."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from artelier import Run, tool
from artelier.pii.placeholder import placeholders_in
from artelier.ports.tool import ToolContext
from artelier.testing import ScriptedModel
from tests.kernel.stage import drive, play, result_of, user
from tests.pii.test_door import ACME, ANA, assert_nowhere, opened, seen


def test_what_undoes_a_call_gets_the_values(tmp_path: Path) -> None:
    undone: list[Any] = []

    async def revoke(arguments: dict[str, Any], result: Any, context: ToolContext) -> None:
        undone.append((arguments["to"], result["sent_to"]))

    @tool(side_effect=True, grant="pii:restore", compensate=revoke)
    async def invite(to: str) -> dict[str, str]:
        """Invite somebody."""
        return {"sent_to": to}

    model = ScriptedModel(["ok"])

    async def code(run: Run) -> Any:
        await run.step_model(model="m", messages=[user(f"invite {ANA}")])
        (named,) = placeholders_in(seen(model.requests[0]))
        await run.step_tool("invite", {"to": named})
        return list((await run.compensate()).undone)

    async def scenario() -> None:
        with opened(tmp_path, model, invite) as kernel:
            assert await drive(kernel.for_tenant(ACME), code) == "completed"
            assert undone == [(ANA, ANA)]
            assert len(await result_of(kernel.for_tenant(ACME))) == 1

    play(scenario())
    assert_nowhere(tmp_path, ANA)
