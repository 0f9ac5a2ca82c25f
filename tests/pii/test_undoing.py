"""What undoes a call gets the values, as the call did."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from artelier import Policy, Run, RunSuspended, tool
from artelier.pii.vault import placeholders_in
from artelier.ports.tool import ToolContext
from artelier.testing import ScriptedModel
from tests.kernel.stage import drive, play, result_of, user
from tests.pii.test_door import ACME, ANA, BO, assert_nowhere, opened, seen


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


def inviting(undone: list[Any], **facts: Any) -> Any:
    """A tool that gets the values, and what undoes it."""

    async def revoke(arguments: dict[str, Any], result: Any, context: ToolContext) -> None:
        undone.append((arguments["to"], result["sent_to"]))

    @tool(side_effect=True, grant="pii:restore", compensate=revoke, **facts)
    async def invite(to: str) -> dict[str, str]:
        """Invite somebody."""
        return {"sent_to": to}

    return invite


async def invites(run: Run) -> list[str]:
    """Invites all whom its message names."""
    asked = await run.step_model(model="m", messages=[user(f"invite {ANA} and {BO}")])
    for number, named in enumerate(asked.text.split()):
        await run.step_tool("invite", {"to": named}, key=f"i{number}")
    return asked.text.split()


def naming() -> ScriptedModel:
    return ScriptedModel(lambda request: " ".join(placeholders_in(seen(request))))


def test_what_undoes_a_call_that_a_person_changed_gets_the_values_of_the_change(tmp_path: Path) -> None:
    undone: list[Any] = []
    policy = Policy(pii=True, backoff_s=0, approve_risk="high")

    async def scenario() -> None:
        with opened(tmp_path, naming(), inviting(undone, risk="high"), policy=policy) as kernel:
            runs = kernel.for_tenant(ACME)
            for to in ("carla@example.org", BO):
                assert await drive(runs, invites, on_wait="suspend") == "waiting_approval"
                await runs.approve("r", arguments={"to": to})
            assert await drive(runs, invites, on_wait="suspend") == "completed"

            for _ in range(2):
                with pytest.raises(RunSuspended):
                    await runs.compensate("r", on_wait="suspend")
                await runs.approve("r")
            back = await runs.compensate("r", on_wait="suspend")

            assert back.undone == ("i0",), "the newest was undone when the question for it was answered"
            assert undone == [(BO, BO), ("carla@example.org", "carla@example.org")]

    play(scenario())
    assert_nowhere(tmp_path, ANA, BO, "carla@example.org")


def test_a_call_whose_values_were_erased_stays_and_the_rest_is_undone(tmp_path: Path) -> None:
    undone: list[Any] = []

    async def scenario() -> None:
        with opened(tmp_path, naming(), inviting(undone)) as kernel:
            runs = kernel.for_tenant(ACME)
            assert await drive(runs, invites) == "completed"
            await runs.erase(subject=BO)

            back = await runs.compensate("r")

            assert (back.undone, back.not_undone) == (("i0",), ("i1",))
            assert undone == [(ANA, ANA)]
            refused = next(step for step in await runs.steps("r") if step["key"] == "i1/undo")
            assert refused["status"] == "failed" and refused["error"]
            assert (await runs.compensate("r")).not_undone == ("i1",)
            assert undone == [(ANA, ANA)]

    play(scenario())
    assert_nowhere(tmp_path, ANA, BO)


def test_code_that_undoes_replays_the_same_after_values_were_erased(tmp_path: Path) -> None:
    undone: list[Any] = []

    @tool(side_effect=False)
    async def guests() -> list[str]:
        """Who is to be invited."""
        return [ANA, BO]

    async def code(run: Run) -> Any:
        for number, named in enumerate((await run.step_tool("guests", {})).value):
            await run.step_tool("invite", {"to": named}, key=f"i{number}")
        back = await run.compensate()
        return {"undone": list(back.undone), "kept": list(back.not_undone)}

    async def scenario() -> None:
        with opened(tmp_path, naming(), inviting(undone), guests) as kernel:
            runs = kernel.for_tenant(ACME)
            assert await drive(runs, code) == "completed"
            before = await result_of(runs)
            await runs.erase(subject=BO)

            assert (await runs.replay("r", code)).result == before == {"undone": ["i1", "i0"], "kept": []}
            assert len(undone) == 2

    play(scenario())
