"""`tool`: one call through the kernel's two phases, with arguments rendered once and checked by the tool."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from artelier import Kernel, Policy, RunSuspended, tool
from artelier.errors import ToolFailed
from tests.kernel.stage import EAGER, kinds, open_kernel, play
from tests.operations.kinds.stage import Bench, art, operate, problems, scope


@tool(side_effect=False)
async def look(at: str, depth: int = 1, tags: list[str] | None = None) -> dict[str, Any]:
    """Look."""
    return {"at": at, "depth": depth, "tags": tags}


@tool(side_effect=False)
async def grow(size: int) -> str:
    """Make a long text."""
    return "x" * size


@tool(side_effect=False)
async def fail(how: str) -> str:
    """Fail."""
    raise ToolFailed(f"no {how}")


@contextmanager
def _bench(folder: Path, *more: Any, policy: Policy = EAGER) -> Iterator[tuple[Kernel, Bench]]:
    with open_kernel(folder, tools=[look, grow, fail, *more], policy=policy) as kernel:
        yield kernel, Bench(kernel)


def test_tool_is_called_with_rendered_arguments(tmp_path: Path) -> None:
    cases: list[tuple[dict[str, Any], Any]] = [
        ({"at": "{{ char.name }}"}, {"at": "Bo", "depth": 1, "tags": None}),
        (
            {"at": "x", "depth": 3, "tags": ["{{ user.name }}", "plain"]},
            {"at": "x", "depth": 3, "tags": ["Ann", "plain"]},
        ),
        # Rendered once: what people said is no template, and no JSON either.
        (
            {"at": "{{ chat_history[0].content }}"},
            {"at": "Hello {{ art.secret.value }}", "depth": 1, "tags": None},
        ),
        ({"at": "{{ art.quote.value }}"}, {"at": '", "depth": 9, "x": "', "depth": 1, "tags": None}),
    ]

    async def scenario() -> None:
        with _bench(tmp_path) as (_, bench):
            seen = scope(art={"quote": art('", "depth": 9, "x": "')})
            for arguments, value in cases:
                params = {"name": "look", "arguments": arguments}
                assert await bench.value("tool", params, seen=seen) == value

    play(scenario())


def test_errors_of_tools_have_codes(tmp_path: Path) -> None:
    cases: list[tuple[str, dict[str, Any], str, str]] = [
        ("fail", {"how": "way"}, "tool_error", "tool_failed"),
        ("look", {}, "tool_error", "invalid_arguments"),
        ("look", {"at": "x", "depth": "{{ user.name }}"}, "tool_error", "invalid_arguments"),
        ("look", {"at": "x", "more": 1}, "tool_error", "invalid_arguments"),
        ("nobody", {}, "tool_error", "tool_failed"),
    ]

    async def scenario() -> None:
        with _bench(tmp_path) as (_, bench):
            for name, arguments, code, inner in cases:
                error: Any = await bench.error("tool", {"name": name, "arguments": arguments})
                assert (error.code, error.details["code"]) == (code, inner)
            params = {"name": "look", "arguments": {"at": "{{ nobody.name }}"}}
            assert await bench.code("tool", params) == "template_undefined"

    play(scenario())


@pytest.mark.parametrize("size", [1_100_000, pytest.param(50_000_000, marks=pytest.mark.slow)])
def test_result_larger_than_a_value_is_refused(tmp_path: Path, size: int) -> None:
    async def scenario() -> None:
        with _bench(tmp_path) as (_, bench):
            params = {"name": "grow", "arguments": {"size": size}}
            assert await bench.code("tool", params) == "too_large"

    play(scenario(), within_s=60)


def test_tool_without_a_grant_is_not_called(tmp_path: Path) -> None:
    async def scenario() -> None:
        with open_kernel(tmp_path, tools=[look]) as kernel:
            bench = Bench(kernel, grants=["models:*"])
            error: Any = await bench.error("tool", {"name": "look", "arguments": {"at": "x"}})
            assert error.details["code"] == "not_granted"
            assert "tool.requested" not in await kinds(kernel, "r1")

    play(scenario())


def test_denied_call_is_an_error_and_an_approved_one_runs(tmp_path: Path) -> None:
    sent: list[str] = []

    @tool(side_effect=True, risk="high")
    async def send(text: str) -> str:
        """Send."""
        sent.append(text)
        return "sent"

    params = {"name": "send", "arguments": {"text": "hi {{ user.name }}"}}
    policy = Policy(backoff_s=0.0, approve_risk="high")

    async def scenario() -> None:
        with _bench(tmp_path, send, policy=policy) as (_, bench):
            for run_id in ("yes", "no"):
                with pytest.raises(RunSuspended):
                    async with bench.runs.run(run_id, on_wait="suspend") as run:
                        await operate(run, "tool", params, desk=bench.runs)
                await bench.runs.approve(run_id, deny=run_id == "no")
            assert sent == []
            async with bench.runs.run("yes") as run:
                found = await operate(run, "tool", params, desk=bench.runs)
                assert found.value == "sent"
            async with bench.runs.run("no") as run:
                with pytest.raises(Exception, match="denied"):
                    await operate(run, "tool", params, desk=bench.runs)
            assert sent == ["hi Ann"]

    play(scenario())


def _nested(levels: int) -> Any:
    value: Any = "x"
    for _ in range(levels):
        value = [value]
    return {"a": value}


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"a": {"b": ["x", "{{"]}}, "arguments.a.b[1]: invalid_template"),
        (_nested(20), "arguments: too_large"),
        ({"a": ["x"] * 300}, "arguments: too_large"),
        ({"a": "x" * 70_000}, "arguments.a: too_large"),
    ],
)
def test_problems_of_tool_params(arguments: dict[str, Any], problem: str) -> None:
    assert problems("tool", {"name": "look", "arguments": arguments}) == [problem]
