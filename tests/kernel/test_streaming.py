"""Streams: pieces as they come, one recorded whole, kept and paid for however the stream ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, cast

import pytest

from artelier import Limits, ModelReply, ModelRequest, ModelResult, Run
from artelier.errors import ModelRefusedCall, ModelReplyBroken, OutputInvalid, ProviderUnavailable
from artelier.kernel.steps.model_stream import PIECES_AT_ONCE
from artelier.ports.model import Delta, Usage
from artelier.testing import ManualClock, ScriptedModel
from tests.kernel.stage import (
    ACME,
    PRICE,
    ask,
    assert_conserved,
    drive,
    echo,
    kinds,
    open_kernel,
    play,
    result_of,
    user,
)

TEXT = "a text of several pieces, which is longer than one"


async def _read(run: Run, **more: Any) -> list[Any]:
    """Every piece, and the result last."""
    items = [item async for item in run.stream_model(model="m", messages=[user("x")], **more)]
    return [item.text for item in items]


class Stream:
    """A model that plays a script of deltas, replies and exceptions, one script per attempt."""

    price = PRICE

    def __init__(self, *attempts: list[Any]) -> None:
        self._attempts = list(attempts)
        self.requests: list[ModelRequest] = []
        self.closed = 0

    async def complete(self, request: ModelRequest, /) -> ModelReply:
        raise AssertionError("it was asked to stream")

    async def stream(self, request: ModelRequest, /) -> AsyncIterator[Delta | ModelReply]:
        self.requests.append(request)
        try:
            for item in self._attempts.pop(0):
                if isinstance(item, BaseException):
                    raise item
                if callable(item):
                    item = await cast(Any, item)()
                yield Delta(text=item) if isinstance(item, str) else item
        finally:
            self.closed += 1


def test_pieces_come_first_then_the_recorded_whole_which_replays(tmp_path: Path) -> None:
    async def scenario() -> None:
        model = ScriptedModel([TEXT])
        with open_kernel(tmp_path, model) as kernel:
            runs = kernel.for_tenant()
            assert await drive(runs, _read) == "completed"
            *pieces, whole = await result_of(runs)
            assert len(pieces) > 2
            assert "".join(pieces) == whole == TEXT
            async with runs.run("r") as run:
                assert await _read(run) == [TEXT, TEXT], "replayed: one piece, no call"
            assert await kinds(kernel) == [
                "run.started",
                "context.assembled",
                "model.requested",
                "model.completed",
                "run.completed",
            ]
            assert (await runs.render("r", "1")) == model.requests[0]
        model.assert_done()

    play(scenario())


def test_a_stream_that_never_waits_leaves_others_turns(tmp_path: Path) -> None:
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    async def work(run: Run) -> Any:
        nonlocal turns
        aside = asyncio.ensure_future(others())
        reading = run.stream_model(model="m", messages=[user("x")], max_output_tokens=10_000)
        await anext(reading)
        turns = 0
        for _ in range(40 * PIECES_AT_ONCE):
            await anext(reading)
        aside.cancel()
        counted = turns
        async for _ in reading:
            pass
        return counted

    pieces = ["a "] * 41 * PIECES_AT_ONCE
    whole = ModelReply(text="".join(pieces), usage=Usage(input_tokens=1, output_tokens=9))

    async def scenario() -> None:
        with open_kernel(tmp_path, model=Stream([*pieces, whole])) as kernel:
            assert await drive(kernel.for_tenant(), work) == "completed"
            assert await result_of(kernel.for_tenant()) >= 39

    play(scenario())


def test_reasoning_is_told_beside_the_run_anew_with_each_call_and_never_by_a_replay(tmp_path: Path) -> None:
    told: list[str] = []

    async def think(piece: str) -> None:
        told.append(piece)

    async def scenario() -> None:
        first = [Delta(reasoning="So "), Delta(reasoning="they"), ProviderUnavailable("gone")]
        second = [
            Delta(reasoning="They want "),
            Delta(reasoning="a."),
            "a",
            Delta(text="b"),
            ModelReply(text="ab"),
        ]
        with open_kernel(tmp_path, Stream(first, second), clock=ManualClock()) as kernel:
            async with kernel.run("r") as run:
                assert await _read(run, on_reasoning=think) == ["a", "b", "ab"]
                assert told == ["So ", "they", "", "They want ", "a."]
                run.finish("ab")
            told.clear()
            async with kernel.run("r") as run:
                assert await _read(run, on_reasoning=think) == ["ab", "ab"]
            assert told == []

    play(scenario())


def test_reasoning_without_end_is_shown_up_to_a_bound(tmp_path: Path) -> None:
    shown: list[int] = []

    async def think(piece: str) -> None:
        shown.append(len(piece))

    async def scenario() -> None:
        pieces = [Delta(reasoning="a" * 400_000)] * 5
        with open_kernel(tmp_path, Stream([*pieces, "b", ModelReply(text="b")])) as kernel:
            async with kernel.run("r") as run:
                assert await _read(run, on_reasoning=think) == ["b", "b"]
        assert shown == [400_000, 400_000, 200_000]

    play(scenario())


@pytest.mark.parametrize("piece", [Delta(reasoning="\ud800"), Delta(reasoning=cast(Any, 5))])
def test_reasoning_that_is_no_text_breaks_the_reply(tmp_path: Path, piece: Delta) -> None:
    async def scenario() -> None:
        with open_kernel(tmp_path, Stream(*[[piece, ModelReply(text="a")]] * 9)) as kernel:
            async with kernel.run("r") as run:
                with pytest.raises(ModelReplyBroken, match="no Delta"):
                    await _read(run)

    play(scenario())


def test_a_model_that_cannot_stream_gives_one_piece(tmp_path: Path) -> None:
    class Plain:
        async def complete(self, request: ModelRequest, /) -> ModelReply:
            return ModelReply(text=TEXT)

    async def scenario() -> None:
        with open_kernel(tmp_path, Plain(), prices={"m": PRICE}) as kernel:
            async with kernel.run("r") as run:
                assert await _read(run) == [TEXT, TEXT]

    play(scenario())


@pytest.mark.parametrize("text", ["", TEXT])
def test_a_reader_sees_the_same_first_item_live_and_on_replay_of_a_stream_without_pieces(
    tmp_path: Path, text: str
) -> None:
    """A reply that only calls tools has no text; a port may bring a whole reply without pieces."""

    async def code(run: Run) -> str:
        async for item in run.stream_model(model="m", messages=[user("x")]):
            return type(item).__name__
        return "nothing"

    async def whole(run: Run) -> list[Any]:
        return [await code(run), await _read(run)]

    async def scenario() -> None:
        with open_kernel(tmp_path, Stream(*[[ModelReply(text=text)]] * 4)) as kernel:
            runs = kernel.for_tenant()
            for name, program in (("first", code), ("whole", whole)):
                async with runs.run(name) as run:
                    run.finish(await program(run))
                assert (await runs.replay(name, program)).result == await result_of(runs, name)
            expected = ["Delta", [TEXT, TEXT]] if text else ["ModelResult", [""]]
            assert await result_of(runs, "whole") == expected

    play(scenario())


def test_a_stream_is_cut_when_more_came_than_is_reserved(tmp_path: Path) -> None:
    async def scenario() -> None:
        model = Stream(["word "] * 50)
        with open_kernel(tmp_path, model) as kernel:
            runs = kernel.for_tenant(ACME)
            async with runs.run("r") as run:
                *_, whole = [
                    item
                    async for item in run.stream_model(model="m", messages=[user("x")], max_output_tokens=10)
                ]
            assert isinstance(whole, ModelResult)
            assert (whole.text, whole.finish_reason) == ("word " * 11, "cut")
            assert model.closed == 1
            assert (await assert_conserved(kernel, "acme"))["spent"] == whole.cost_microusd > 0
            assert await drive(runs, _one_read) == "completed"

    async def _one_read(run: Run) -> list[Any]:
        return await _read(run, max_output_tokens=10)

    play(scenario())


async def _leave_closed(run: Run) -> Any:
    got: list[str] = []
    stream = run.stream_model(model="m", messages=[user("x")])
    async for item in stream:
        got.append(item.text)
        if len(got) == 2:
            break
    await stream.aclose()
    return [got, await ask(run, "after")]


async def _leave_dropped(run: Run) -> Any:
    got: list[str] = []
    async for item in run.stream_model(model="m", messages=[user("x")]):
        got.append(item.text)
        if len(got) == 2:
            break
    return [got, await ask(run, "after")]


async def _leave_raising(run: Run) -> Any:
    got: list[str] = []
    try:
        async for item in run.stream_model(model="m", messages=[user("x")]):
            got.append(item.text)
            if len(got) == 2:
                raise ValueError("enough")
    except ValueError:
        pass
    return [got, await ask(run, "after")]


async def _leave_cancelled(run: Run) -> Any:
    got: list[str] = []
    enough = asyncio.Event()

    async def read() -> None:
        async for item in run.stream_model(model="m", messages=[user("x")], key="s"):
            got.append(item.text)
            if len(got) == 2:
                enough.set()

    reading = asyncio.ensure_future(read())
    await enough.wait()
    reading.cancel()
    await asyncio.wait((reading,))
    return [got, await ask(run, "after")]


@pytest.mark.parametrize("code", [_leave_closed, _leave_dropped, _leave_raising, _leave_cancelled])
def test_a_reader_that_leaves_early_is_recorded_with_what_came_and_replays(
    tmp_path: Path, code: Callable[[Run], Any]
) -> None:
    async def scenario() -> None:
        async def last() -> str:
            await asyncio.Event().wait()
            return "never"

        model = Stream(["one ", "two ", last])
        with open_kernel(tmp_path, {"m": Both(model)}) as kernel:
            runs = kernel.for_tenant(ACME)
            assert await drive(runs, code) == "completed"
            result = [["one ", "two "], "re: after"]
            assert await result_of(runs) == result
            assert model.closed == 1
            await assert_conserved(kernel, "acme")
            assert "step.cancelled" in await kinds(kernel, tenant="acme")
            assert (await runs.replay("r", code)).result == result

    play(scenario())


@pytest.mark.parametrize("held", [True, False])
def test_a_run_whose_reader_left_a_stream_ends_as_it_says(tmp_path: Path, held: bool) -> None:
    """Found: `break`, then `finish()`, said that another process had taken the run over."""

    async def code(run: Run) -> str:
        stream = run.stream_model(model="m", messages=[user("x")])
        kept = [stream] if held else []
        async for item in stream:
            del stream
            assert item.text == "one "
            break
        return f"left, {len(kept)} open"

    async def scenario() -> None:
        async def last() -> str:
            await asyncio.Event().wait()
            return "never"

        model = Stream(["one ", last])
        with open_kernel(tmp_path, model) as kernel:
            runs = kernel.for_tenant(ACME)
            assert await drive(runs, code) == "completed"
            assert model.closed == 1
            await assert_conserved(kernel, "acme")
            assert (await runs.replay("r", code)).status == "completed"

    play(scenario())


class Both:
    """Streams from one model and completes like another."""

    price = PRICE

    def __init__(self, stream: Stream) -> None:
        self.stream = stream.stream
        self.complete = echo().complete


@pytest.mark.parametrize(
    ("first", "status", "calls"),
    [
        ([ProviderUnavailable("503")], "completed", 2),
        (["", ProviderUnavailable("503")], "completed", 2),
        (["a piece", ProviderUnavailable("reset")], "failed: provider_unavailable", 1),
        (["a piece"], "failed: model_reply_broken", 1),
        (["a piece", Delta(text="\ud800")], "failed: model_reply_broken", 1),
        (["a piece", {"not": "an item"}], "failed: model_reply_broken", 1),
        ([ModelReply(text="x", usage=Usage(output_tokens=-1))], "completed", 2),
        ([ModelRefusedCall("no")], "failed: model_refused_call", 1),
    ],
)
def test_a_stream_that_fails_is_tried_again_only_before_its_first_piece(
    tmp_path: Path, first: list[Any], status: str, calls: int
) -> None:
    async def scenario() -> None:
        model = Stream(first, ["ok", ModelReply(text="ok")])
        with open_kernel(tmp_path, model) as kernel:
            runs = kernel.for_tenant(ACME)
            assert await drive(runs, _read) == status
            assert len(model.requests) == model.closed == calls
            await assert_conserved(kernel, "acme")
            if status != "completed":
                await runs.retry("r")
                assert await drive(runs, _read) == "completed"

    play(scenario())


def test_an_exception_of_a_port_in_a_stream_is_recorded_and_settles_its_hold(tmp_path: Path) -> None:
    async def scenario() -> None:
        model = Stream(["a", ZeroDivisionError("a bug")])
        with open_kernel(tmp_path, model) as kernel:
            runs = kernel.for_tenant(ACME)
            with pytest.raises(ZeroDivisionError):
                async with runs.run("r") as run:
                    await _read(run)
            assert (await runs.show("r"))["reason"] == "ZeroDivisionError"
            await assert_conserved(kernel, "acme")

    play(scenario())


def test_silence_in_a_stream_is_timed_out(tmp_path: Path) -> None:
    async def scenario() -> None:
        async def silence() -> str:
            await asyncio.Event().wait()
            return "never"

        model = Stream([silence], ["ok", ModelReply(text="ok")])
        with open_kernel(tmp_path, model) as kernel:
            async with kernel.run("r") as run:
                assert await _read(run, timeout_s=0.01) == ["ok", "ok"]
        assert model.closed == 2

    play(scenario())


def test_a_stream_cut_by_the_runs_deadline_is_paid_for_and_asked_again_with_more_time(tmp_path: Path) -> None:
    """Half a reply is no outcome: the run would complete with it after its time was up."""
    clock = ManualClock()

    async def late() -> str:
        clock.advance(11)
        return "of the reply, and"

    async def silence() -> str:
        await asyncio.Event().wait()
        raise AssertionError("nobody wakes it")

    async def scenario() -> None:
        whole = ModelReply(text=TEXT, usage=Usage(input_tokens=3, output_tokens=9))
        model = Stream(["half ", late, silence], [TEXT, whole])
        with open_kernel(tmp_path, model, clock=clock) as kernel:
            runs = kernel.for_tenant(ACME)
            assert await drive(runs, _read, limits=Limits(wall_s=10)) == "budget_exhausted"
            shown = await runs.show("r")
            assert (shown["reason"], shown["cost_microusd"] > 0) == ("deadline", True)

            await runs.limit("r", unit="wall_s", cap=None)
            assert await drive(runs, _read) == "completed"
            assert await result_of(runs) == [TEXT, TEXT]
            assert (await runs.show("r"))["cost_microusd"] > shown["cost_microusd"]
            await assert_conserved(kernel, "acme")

    play(scenario())


def test_the_readers_own_steps_between_pieces_have_their_own_keys(tmp_path: Path) -> None:
    async def code(run: Run) -> Any:
        async def one(branch: Run) -> Any:
            seen: list[Any] = []
            async for item in branch.stream_model(model="m", messages=[user("x")], key="s"):
                seen.append(await run.step("see", len, item.text, key=f"see {len(seen)}"))
            return seen

        return await run.gather(one)

    async def scenario() -> None:
        with open_kernel(tmp_path, ScriptedModel([TEXT])) as kernel:
            runs = kernel.for_tenant()
            assert await drive(runs, code) == "completed"
            keys = [step["key"] for step in await runs.steps("r")]
            assert keys[0] == "1/0/s" and keys[1] == "1/0/see 0"

    play(scenario())


@pytest.mark.parametrize("make", [lambda: ["no json"], lambda: [ModelReply(output={"n": "x"})]])
def test_a_streamed_output_that_does_not_fit_is_refused_with_its_reply(
    tmp_path: Path, make: Callable[[], list[Any]]
) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}

    async def scenario() -> None:
        model = Stream([*make(), ModelReply(text="no json")])
        with open_kernel(tmp_path, model) as kernel:
            runs = kernel.for_tenant(ACME)
            for _ in range(2):
                with pytest.raises(OutputInvalid):
                    async with runs.run("r") as run:
                        await _read(run, output=schema)
            await assert_conserved(kernel, "acme")

    play(scenario())
