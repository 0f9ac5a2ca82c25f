"""Turns that are stopped and cancelled, driven or not: what had come is kept, and nothing stays open."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from artelier import Kernel, ModelRequest, OperationProfile, Session
from artelier.chat.turn.turn_runner import TurnResult
from artelier.errors import Conflict
from artelier.kernel.control_stream import give
from artelier.ports.model import FREE, Delta, ModelReply
from tests.operations.chats import kernel_of, play

RUN = "c/r000001"
PROFILE: dict[str, Any] = {
    "profile_id": "p",
    "operations": [
        {
            "operation_id": "asks",
            "kind": "llm",
            "order": 1,
            "hooks": ["before_main_llm"],
            "params": {"prompt": "AUX", "effects": []},
        },
        {
            "operation_id": "waits",
            "kind": "template",
            "order": 2,
            "hooks": ["before_main_llm"],
            "depends_on": ["asks"],
            "params": {"template": "x", "effects": []},
        },
        {
            "operation_id": "off",
            "kind": "template",
            "order": 3,
            "enabled": False,
            "params": {"template": "x", "effects": []},
        },
        {
            "operation_id": "later",
            "kind": "template",
            "order": 4,
            "hooks": ["after_main_llm"],
            "params": {"template": "x", "effects": []},
        },
    ],
}
ABORTED = {"asks": "aborted", "waits": "aborted", "off": "skipped", "later": "aborted"}


class Slow:
    """A model that begins to say something and says the rest when it is let."""

    price = FREE

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.let = asyncio.Event()

    async def complete(self, request: ModelRequest) -> ModelReply:
        self.asked.set()
        await self.let.wait()
        return ModelReply(text="yes")

    async def stream(self, request: ModelRequest) -> AsyncIterator[Delta | ModelReply]:
        yield Delta(text="part ")
        await self.let.wait()
        yield Delta(text="rest")
        yield ModelReply(text="part rest")


def opened(folder: Path, model: Slow) -> Kernel:
    return Kernel.open(folder / "s.db", models={"m": model}, environ={})


async def stopped(session: Session) -> TurnResult:
    """A turn that is stopped at the first piece of its reply."""
    stopping: asyncio.Future[Any] | None = None
    result: Any = None
    async for result in session.stream("hi", on_wait="suspend"):
        if stopping is None and getattr(result, "type", "") == "main_llm.delta":
            stopping = asyncio.ensure_future(kernel_of(session).stop(RUN))
    assert stopping is not None
    await stopping
    assert isinstance(result, TurnResult) and result.status == "paused"
    return result


@pytest.mark.parametrize("door", ["session", "kernel"])
def test_what_a_stopped_turn_had_said_is_kept_when_it_is_cancelled(tmp_path: Path, door: str) -> None:
    async def scenario() -> None:
        model = Slow()
        with opened(tmp_path, model) as kernel:
            session = await Session.open(kernel, "c", model="m")
            await stopped(session)

            await (session.cancel() if door == "session" else session.desk.cancel(RUN))

            result = await session.resume()
            assert (result.status, result.finish_reason) == ("cancelled", "user_abort")
            assert result.text == "part "
            with pytest.raises(Conflict):
                await session.desk.cancel(RUN)
            model.let.set()
            assert (await session.continue_()).text == "part part rest"
            assert (await session.regenerate()).text == "part rest"
            [turn] = await session.turns()
            assert [one.text for one in turn.variants] == ["part part rest", "part rest"]

    play(scenario())


@pytest.mark.parametrize("how", ["driven", "left", "left to the kernel"])
def test_a_cancelled_run_leaves_no_operation_open(tmp_path: Path, how: str) -> None:
    async def scenario() -> None:
        model = Slow()
        with opened(tmp_path, model) as kernel:
            session = await Session.open(kernel, "c", model="m", profile=OperationProfile.parse(PROFILE))
            asking = asyncio.ensure_future(session.generate("hi"))
            await model.asked.wait()
            if how != "driven":
                asking.cancel()
                await asyncio.gather(asking, return_exceptions=True)

            if how == "left to the kernel":  # an effect that knows nothing of chats
                desk = session.desk
                await give(desk.services, desk.id, RUN, "cancel", by="operator")
            else:
                await session.cancel()

            result = await (asking if how == "driven" else session.resume())
            assert result.status == "cancelled"
            assert result.operations == ABORTED
            shown = await session.show(RUN)
            assert {one["operation_id"]: one["status"] for one in shown["operations"]} == ABORTED
            assert {one.get("code") for one in shown["operations"]} == {"cancelled", ""}
            model.let.set()
            assert (await session.generate("again")).operations["later"] == "done"

    play(scenario())
