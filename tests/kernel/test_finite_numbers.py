"""NaN and infinity are no JSON: every door refuses them, and old logs that hold them as null replay."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from artelier import ModelReply, Run
from artelier.errors import ArtelierError, InvalidRequest, ModelReplyBroken
from artelier.kernel.prompt import manifest
from artelier.ports.tool import ToolContext
from tests.kernel.stage import PRICE, ask, drive, kinds, open_kernel, play, result_of, user
from tests.kernel.test_tools import tool

BAD = [math.nan, math.inf, -math.inf, {"deep": [1.0, {"er": math.nan}]}]


@tool(side_effect=False)
async def look(value: Any) -> bool:
    """Tell that something was given."""
    return value is not None


class Broken:
    """A tool port whose result is no JSON."""

    name = "broken"
    description = ""
    side_effect = False
    idempotent = False
    grant = None
    timeout_s = None
    heartbeat_timeout_s = None
    risk = "low"
    trust = "untrusted"
    probe = None

    def __init__(self) -> None:
        self.schema = look.schema

    def validate(self, arguments: Any) -> dict[str, Any]:
        return arguments or {}

    async def call(self, arguments: dict[str, Any], context: ToolContext) -> Any:
        return {"value": math.inf, "none": None}


class Lenient(Broken):
    """A tool port that takes any argument."""

    name = "lenient"

    async def call(self, arguments: dict[str, Any], context: ToolContext) -> Any:
        return True


async def _computed(run: Run, bad: Any) -> Any:
    return await run.step("x", lambda: bad)


async def _approved(run: Run, bad: Any) -> Any:
    return await run.approve("may I?", {"value": bad})


async def _param(run: Run, bad: Any) -> Any:
    return await ask(run, "x", temperature=bad)


async def _message(run: Run, bad: Any) -> Any:
    call = {"id": "c", "name": "look", "arguments": {"value": bad}}
    messages = [user("x"), {"role": "assistant", "content": "", "tool_calls": [call]}]
    return await run.step_model(model="m", messages=messages)


async def _failed(run: Run, bad: Any) -> Any:
    run.fail("no", result=bad)


async def _returned(run: Run, bad: Any) -> Any:
    return bad


@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize(
    "code", [_computed, _approved, _param, _message, _failed, _returned], ids=lambda code: code.__name__
)
def test_a_number_that_is_not_finite_is_refused(
    tmp_path: Path, code: Callable[[Run, Any], Awaitable[Any]], bad: Any
) -> None:
    async def scenario() -> None:
        with open_kernel(tmp_path) as kernel:
            with pytest.raises(ArtelierError) as refused:
                async with kernel.run("r") as run:
                    run.finish(await code(run, bad))
            assert isinstance(refused.value, InvalidRequest)
            assert not {"model.requested", "approval.requested"} & set(await kinds(kernel))

    play(scenario())


def test_a_tool_is_told_and_tells_finite_numbers_only(tmp_path: Path) -> None:
    async def code(run: Run) -> Any:
        told = await run.step_tool("look", {"value": math.nan})
        answered = await run.step_tool("broken", {})
        return [told.value["error"]["code"], answered.value["error"]["code"]]

    async def scenario() -> None:
        with open_kernel(tmp_path, tools=[look, Broken()]) as kernel:
            runs = kernel.for_tenant()
            assert await drive(runs, code) == "completed"
            assert await result_of(runs) == ["invalid_arguments", "tool_result_invalid"]

    play(scenario())


def test_a_reply_with_a_number_that_is_not_finite_is_broken(tmp_path: Path) -> None:
    class Port:
        async def complete(self, request: Any, /) -> ModelReply:
            return ModelReply(output={"n": math.nan})

    async def scenario() -> None:
        with open_kernel(tmp_path, Port(), prices={"m": PRICE}) as kernel, pytest.raises(ModelReplyBroken):
            async with kernel.run("r") as run:
                await ask(run, "x")

    play(scenario())


def test_a_log_that_holds_nan_as_null_still_replays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Written by the encoder as it was, read by the program that wrote it."""

    async def code(run: Run) -> Any:
        computed = await run.step("x", lambda: [math.nan])
        told = await run.step_tool("lenient", {"value": math.inf})
        asked = await _message(run, math.nan)
        return [computed, told.value, asked.text, math.nan]

    async def scenario() -> None:
        with open_kernel(tmp_path, tools=[Lenient()]) as kernel:
            runs = kernel.for_tenant()
            with monkeypatch.context() as old:
                old.setattr(manifest, "_check_finite", lambda value: None)
                assert await drive(runs, code) == "completed"
            again = await runs.replay("r", code)
            assert again.result[-1] != again.result[-1]
            assert msgspec.json.encode(again.result[:2]) == b"[[null],true]"

    play(scenario())


class Left(msgspec.Struct, frozen=True, kw_only=True):
    """A record with a field that may be left out."""

    cap: int | None
    note: str | msgspec.UnsetType = msgspec.UNSET


def test_a_record_with_a_field_left_out_and_a_null_is_stored() -> None:
    assert manifest.canonical(Left(cap=None)) == b'{"cap":null}'
    with pytest.raises(ValueError, match="nan"):
        manifest.canonical([Left(cap=None), math.nan])
