"""Grants: what a run may use is decided at each dispatch, and nobody gains any on the way down."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from artelier import Policy, Run, Tenant, tool
from artelier.errors import NotGranted
from tests.kernel.stage import drive, echo, has_status, kinds, open_kernel, play, result_of, until, user


@tool(side_effect=False)
async def look(at: str, depth: int = 1) -> dict[str, Any]:
    """Look."""
    return {"at": at, "depth": depth}


@tool(side_effect=True, grant="payments:send")
async def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


@tool(side_effect=False)
async def keep(value: Any) -> Any:
    """Keep."""
    return value


async def _error(run: Run, name: str, arguments: Any) -> tuple[str, str]:
    """The code and message of a tool error; the run must survive it."""
    result = await run.step_tool(name, arguments)
    assert result.is_error
    return result.value["error"]["code"], result.value["error"]["message"]


def test_a_child_can_only_narrow_the_grants_of_its_parent(tmp_path: Path) -> None:
    """A wish for more than there is gets what there is."""

    async def scenario() -> None:
        tenant = Tenant("t", grants={"tools:look", "payments:*"})
        with open_kernel(tmp_path, tools=[look, pay, keep]) as kernel:
            runs = kernel.for_tenant(tenant)
            async with runs.run("r", grants=["tools:*", "payments:send"]) as run:
                assert not (await run.step_tool("look", {"at": "x"})).is_error
                assert (await _error(run, "keep", {"value": 1}))[0] == "not_granted"
                async with runs.run("c", parent=run, grants=["payments:*", "tools:keep"]) as child:
                    assert (await _error(child, "look", {"at": "x"}))[0] == "not_granted"
                    assert (await _error(child, "keep", {"value": 1}))[0] == "not_granted"
                    assert not (await child.step_tool("pay", {"amount": 1})).is_error
                    async with runs.run("e", parent=child, grants=["*"]) as grandchild:
                        assert (await _error(grandchild, "look", {"at": "x"}))[0] == "not_granted"
                async with runs.run("d", parent=run, grants=[]) as child:
                    assert (await _error(child, "pay", {"amount": 1}))[0] == "not_granted"

    play(scenario())


def test_the_models_of_a_child_are_never_more_than_its_parents(tmp_path: Path) -> None:
    """Models are open as long as nobody speaks of them; whoever does speaks for all below."""

    async def allowed(run: Run) -> list[str]:
        found: list[str] = []
        for name in ("small", "large"):
            try:
                await run.step_model(model=name, messages=[user("x")])
                found.append(name)
            except NotGranted:
                pass
        return found

    async def scenario() -> None:
        small = {"tools:*", "models:openai:small"}
        cases: list[tuple[Any, Any, list[str]]] = [
            ({"tools:*"}, {"tools:*"}, ["small", "large"]),
            ({"tools:*"}, small, ["small"]),
            (small, {"tools:*"}, ["small"]),
            (small, {"models:*"}, ["small"]),
            (small, {"models:openai:large"}, []),
            ({"models:openai:*"}, {"models:openai:small"}, ["small"]),
            (small, None, ["small"]),
        ]
        for number, (above, below, names) in enumerate(cases):
            with open_kernel(tmp_path) as kernel:
                runs = kernel.for_tenant(Tenant(f"t{number}", grants=above))
                async with runs.run("r", grants=below) as run:
                    assert await allowed(run) == names
                async with runs.run("p") as parent, runs.run("c", parent=parent, grants=below) as child:
                    assert await allowed(child) == names

    play(scenario())


def test_a_grant_that_the_tenant_loses_is_lost_for_runs_at_work(tmp_path: Path) -> None:
    async def scenario() -> None:
        model = echo()
        with open_kernel(tmp_path, model, tools=[look, pay]) as kernel:
            runs = kernel.for_tenant(Tenant("t", grants={"tools:*", "payments:*"}))
            async with runs.run("r") as run:
                assert not (await run.step_tool("pay", {"amount": 1})).is_error
                await run.step_model(model="m", messages=[user("x")], tools=None)
                await kernel.tenants.update("t", grants={"tools:*", "models:openai:other"})
                assert (await _error(run, "pay", {"amount": 2}))[0] == "not_granted"
                with pytest.raises(NotGranted):
                    await run.step_model(model="m", messages=[user("x")])
                await run.step_model(model="other", messages=[user("y")], tools=None)
            shown = [[tool.name for tool in request.tools] for request in model.requests]
            assert shown == [["look", "pay"], ["look"]]
            async with kernel.for_tenant("t").run("r") as run:
                assert not (await run.step_tool("pay", {"amount": 1})).is_error, "recorded"

    play(scenario())


def test_a_grant_that_another_process_takes_away_is_lost_at_once_and_the_log_says_when(
    tmp_path: Path,
) -> None:
    async def code(run: Run) -> list[str]:
        shown: list[str] = []
        for text in ("a", "b", "c"):
            await run.step_model(model="m", messages=[user(text)], tools=None)
            if text == "a" and run.core.actor is not None:
                with open_kernel(tmp_path, tools=[look, pay]) as other:
                    await other.tenants.update("t", grants={"tools:*"})

                async def lost() -> bool:
                    return not run.core.may_use("payments:send")

                await until(lost)
            if text == "a":
                shown.append((await _error(run, "pay", {"amount": 2}))[0])
        return shown

    async def scenario() -> None:
        model = echo()
        with open_kernel(tmp_path, model, tools=[look, pay]) as kernel:
            runs = kernel.for_tenant(Tenant("t", grants={"tools:*", "payments:*"}))
            assert await drive(runs, code) == "completed"
            assert await result_of(runs) == ["not_granted"]
            offered = [[tool.name for tool in request.tools] for request in model.requests]
            assert offered == [["look", "pay"], ["look"], ["look"]]
            said = await kinds(kernel, tenant="t")
            refused, changed = said.index("tool.refused"), said.index("tools.changed")
            assert refused < changed < said.index("model.requested", refused)
            assert said.count("tools.changed") == 1
            assert await drive(kernel.for_tenant("t"), code) == "completed", "the same, replayed"

    play(scenario())


def test_a_grant_that_is_gone_when_a_person_says_yes_is_gone(tmp_path: Path) -> None:
    @tool(side_effect=True, risk="high", grant="payments:send")
    async def wire(amount: int) -> str:
        """Wire."""
        raise AssertionError("entered without a grant")

    async def scenario() -> None:
        policy = Policy(approve_risk="high")
        with open_kernel(tmp_path, tools=[wire], policy=policy) as kernel:
            await kernel.tenants.open(Tenant("t", grants={"tools:*", "payments:*"}))
            runs = kernel.for_tenant("t")
            driven = asyncio.create_task(drive(runs, lambda run: _error(run, "wire", {"amount": 2})))
            await has_status(runs, "waiting_approval")
            await kernel.tenants.update("t", grants={"tools:*"})
            await runs.approve("r")
            assert await driven == "completed"
            assert (await result_of(runs))[0] == "not_granted"

    play(scenario())
