"""What a server says of its tools' effects counts only where the operator trusts it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from artelier import Kernel, Policy, RunSuspended
from artelier.errors import InvalidConfig
from artelier.tools.mcp import McpServer
from tests.tools.mcp.conftest import Rogue, by_name

Facts = tuple[bool, bool, str]
"""Side effect, idempotent, risk."""

UNKNOWN: Facts = (True, False, "high")


def listed(hints: dict[str, Any] | None) -> dict[str, Any]:
    """The definitions of a server with one tool that has these annotations."""
    tool: dict[str, Any] = {"name": "ok", "inputSchema": {"type": "object"}}
    return {"tools": [tool if hints is None else {**tool, "annotations": hints}]}


def facts(rogue: Rogue, hints: dict[str, Any] | None, **options: Any) -> Facts:
    async def work() -> Facts:
        async with rogue(listed(hints), **options) as server:
            tool = (await by_name(server))["ok"]
            return tool.side_effect, tool.idempotent, tool.risk

    return asyncio.run(work())


@pytest.mark.parametrize(
    "hints",
    [
        None,
        {},
        {"readOnlyHint": True},
        {"destructiveHint": False, "openWorldHint": False, "idempotentHint": True},
    ],
)
def test_the_word_of_a_server_that_nobody_trusts_changes_nothing(
    rogue: Rogue, hints: dict[str, Any] | None
) -> None:
    assert facts(rogue, hints) == UNKNOWN


@pytest.mark.parametrize(
    ("hints", "expected"),
    [
        (None, UNKNOWN),
        ({}, UNKNOWN),
        ({"readOnlyHint": True}, (False, True, "low")),
        ({"readOnlyHint": True, "destructiveHint": True}, UNKNOWN),
        ({"readOnlyHint": False, "destructiveHint": False}, UNKNOWN),
        ({"openWorldHint": False}, UNKNOWN),
        ({"destructiveHint": False, "openWorldHint": False}, (True, False, "medium")),
        ({"destructiveHint": True, "idempotentHint": True}, (True, True, "high")),
    ],
)
def test_of_a_trusted_server_the_hints_count(
    rogue: Rogue, hints: dict[str, Any] | None, expected: Facts
) -> None:
    assert facts(rogue, hints, trust_hints=True) == expected


def test_the_operators_word_comes_before_the_servers(rogue: Rogue) -> None:
    destroys, reads = {"readOnlyHint": False, "destructiveHint": True}, {"readOnlyHint": True}

    assert facts(rogue, destroys, trust_hints=True, read_only=["ok"]) == (False, True, "low")
    assert facts(rogue, reads, trust_hints=True, risk={"ok": "high"}) == (False, True, "high")
    assert facts(rogue, None, risk={"ok": "medium"}) == (True, False, "medium")


@pytest.mark.parametrize("options", [{}, {"trust_hints": True}])
def test_under_a_strict_policy_a_person_is_asked_before_a_tool_that_nobody_knows(
    rogue: Rogue, tmp_path: Path, options: dict[str, Any]
) -> None:
    async def work() -> None:
        policy = Policy(approve_risk="high")  # as in Policy.enforced()
        async with rogue(**options) as server:
            with Kernel.open(":memory:", tools=await server.tools(), policy=policy) as kernel:
                with pytest.raises(RunSuspended) as suspended:
                    async with kernel.run("r", on_wait="suspend") as run:
                        await run.step_tool("ok", {})
                assert suspended.value.status == "waiting_approval"

    asyncio.run(work())

    assert not (tmp_path / "calls").exists()


def test_a_changed_hint_is_a_changed_definition(rogue: Rogue) -> None:
    async def mark(hints: dict[str, Any]) -> object:
        async with rogue(listed(hints)) as server:
            return getattr((await by_name(server))["ok"], "fingerprint", None)

    assert asyncio.run(mark({"readOnlyHint": True})) != asyncio.run(mark({"readOnlyHint": False}))


@pytest.mark.parametrize(
    "options", [{"risk": {"ok": "none"}}, {"risk": "high"}, {"risk": {1: "low"}}, {"trust_hints": "yes"}]
)
def test_what_is_no_risk_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidConfig):
        McpServer("x", command=["x"], **options)
