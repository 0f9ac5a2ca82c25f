"""Operations and models that misbehave, and turns that end too early: nothing is left half written."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from artelier import ModelReply, ModelRequest, Session
from artelier.chat.session.event_stream import RunEvent
from artelier.chat.turn.turn_runner import TurnResult
from artelier.errors import ProviderUnavailable
from artelier.ports.model import Delta
from artelier.testing import ScriptedModel, tool_call
from tests.operations.rules.stage import (
    BROKEN,
    Stage,
    after,
    asks,
    echo,
    insert,
    keep,
    op,
    play,
    profile,
    stage_test,
    started,
)

GARBAGE: dict[str, Any] = {
    "nothing": "",
    "blank": " \n",
    "no json": "}{",
    "a list": "[1]",
    "a text": '"x"',
    "null": "null",
    "half": '{"mood": "da',
    "two": '{"mood": "a"}{"mood": "b"}',
    "infinite": '{"mood": Infinity}',
    "huge number": '{"mood": ' + "9" * 5_000 + "}",
    "deep": "[" * 50_000 + "]" * 50_000,
    "other field": '{"mood": 1}',
    "surrogate": '{"mood": "\\ud800"}',
    "a tool call": tool_call("rm", {"path": "/"}),
    "an error": ProviderUnavailable("down"),
    "a template": "{{ art.secret.value }}",
}

FORM = {"type": "object", "properties": {"mood": {"type": "string"}}, "required": ["mood"]}


@pytest.mark.parametrize("name", list(GARBAGE))
def test_garbage_of_an_auxiliary_model_is_an_error_of_its_operation(name: str, tmp_path: Path) -> None:
    def answer(request: ModelRequest) -> Any:
        if not request.messages[-1].text.startswith("aux"):
            return echo(request)
        if isinstance(GARBAGE[name], Exception):
            raise GARBAGE[name]
        return GARBAGE[name]

    guard = {"output_contract": ["mood"], "prompt": "aux guard", "retries": 0}
    used = profile(
        asks("a", "aux json", keep("a"), insert(), params={"output": "json", "schema": FORM}),
        {"operation_id": "g", "kind": "guard", "order": 1, "params": guard},
        op("b", "{{ deps.a.mood }}", keep("b"), depends_on=["a"]),
        op("c", "C", keep("c")),
    )

    async def scenario(stage: Stage) -> None:
        session = await stage.chat(used)
        turn = await session.generate("x")
        assert (turn.status, turn.text) == ("completed", "re: x")
        assert turn.operations == {"a": "error", "g": "error", "b": "skipped", "c": "done"}
        assert await stage.values(session) == {"c": "C"}
        assert stage.prompt()[1:] == [("user", "x"), ("system", "## c\nC")]

    stage_test(scenario, answer)(tmp_path)


HUGE = "x" * 50_000_000


def test_fifty_megabytes_are_an_error_and_stay_out_of_everything(tmp_path: Path) -> None:
    def answer(request: ModelRequest) -> str:
        return HUGE if request.messages[-1].text.startswith("aux") else echo(request)

    async def scenario(stage: Stage) -> None:
        session = await stage.chat(profile(asks("a", "aux", keep("a"), insert()), op("b", "B", keep("b"))))
        turn = await session.generate("x")
        assert (turn.status, turn.operations) == ("completed", {"a": "error", "b": "done"})
        assert await stage.values(session) == {"b": "B"}
        assert len(stage.prompt()) == 3

    stage_test(scenario, answer)(tmp_path)


class _Deaf:
    """A model that goes on with questions of operations when it is cancelled, until it is let go."""

    def __init__(self, deaf_to: str = "aux") -> None:
        self.deaf_to = deaf_to
        self.release = asyncio.Event()
        self.asked = False
        self.ended = asyncio.Event()

    async def let_go(self) -> None:
        """Wait until the question, if it ever came so far, has its answer, and all that follows was done."""
        self.release.set()
        if self.asked:
            await self.ended.wait()
        for _ in range(50):
            await asyncio.sleep(0)

    async def __call__(self, request: ModelRequest) -> str:
        if request.messages[-1].text != self.deaf_to:
            return echo(request)
        self.asked = True
        while not self.release.is_set():
            with suppress(asyncio.CancelledError):
                await self.release.wait()
        self.ended.set()
        return "too late"


def _deaf_test(scenario: Callable[[Stage, _Deaf], Awaitable[None]]) -> Callable[[Path], None]:
    def test(tmp_path: Path) -> None:
        async def run() -> None:
            deaf = _Deaf()
            stage = Stage(tmp_path, deaf)
            with stage.kernel:
                try:
                    await scenario(stage, deaf)
                finally:
                    deaf.release.set()
                await stage.kernel.aclose()

        play(run(), within_s=60)

    return test


async def _ignores_cancellation(stage: Stage, deaf: _Deaf) -> None:
    """It is left alone when its time is up, and whatever it still finds changes nothing."""
    used = profile(
        asks("deaf", "aux", keep("deaf"), insert(), params={"timeout_s": 0.3}), op("fine", "F", keep("fine"))
    )
    session = await stage.chat(used)
    turn = await session.generate("x")
    assert await stage.ends(turn.run_id) == {"deaf": "error:timeout", "fine": "done"}
    assert turn.status == "completed"
    before = await session.arts(internal=True), await stage.kinds(turn.run_id)
    await deaf.let_go()
    assert (await session.arts(internal=True), await stage.kinds(turn.run_id)) == before
    assert (await session.generate("y")).turn == 2


test_one_that_ignores_cancellation_is_left_alone = _deaf_test(_ignores_cancellation)


async def _deaf_and_cancelled(stage: Stage, deaf: _Deaf) -> None:
    """A cancel does not wait for it either."""
    session = await stage.chat(profile(op("a", "A", keep("a")), asks("deaf", "aux", keep("deaf"))))
    working = asyncio.ensure_future(session.generate("x"))
    await started(session, lambda one: one.type == "model.requested")
    await session.cancel()
    turn = await working
    assert (turn.status, turn.operations["deaf"]) == ("cancelled", "aborted")
    assert await session.arts(internal=True) == {}
    await deaf.let_go()
    assert await session.arts(internal=True) == {}


test_a_cancel_does_not_wait_for_one_that_ignores_it = _deaf_test(_deaf_and_cancelled)


class _Hanging:
    """A model that hangs at one question until it is cancelled."""

    def __init__(self, at: str, *, hold: int = 1) -> None:
        self.at = at
        self.left = hold

    async def __call__(self, request: ModelRequest) -> str:
        said = [one.text for one in request.messages]
        if self.at in said and self.left:
            self.left -= 1
            await asyncio.Event().wait()
        return echo(request)


EVERYWHERE = [
    op("b", "B", keep("b")),
    op("b-feed", "{{ text }}", keep("bf", write_mode="append")),
    asks("b-ask", "aux before", keep("ba"), order=2),
    after("a", "A", keep("a")),
    after("a-feed", "{{ text }}", keep("af", write_mode="append")),
    asks("a-ask", "aux after", keep("aa"), order=2, hooks=["after_main_llm"]),
]

MOMENTS: dict[str, tuple[str, set[str]]] = {
    "before": ("aux before", set()),
    "main": ("x", {"b", "bf", "ba"}),
    "after": ("aux after", {"b", "bf", "ba"}),
}


@pytest.mark.parametrize("moment", list(MOMENTS))
def test_a_cancel_at_any_moment_leaves_nothing_half_written(moment: str, tmp_path: Path) -> None:
    at, kept = MOMENTS[moment]

    async def scenario(stage: Stage) -> None:
        session = await stage.chat(profile(*EVERYWHERE))
        working = asyncio.ensure_future(session.generate("x"))
        await _asked(stage, at)
        await session.cancel(note="enough")
        turn = await working
        assert turn.status == "cancelled"
        assert set(await session.arts(internal=True)) == kept
        wrong = {
            id_: end
            for id_, end in (await stage.finished(turn.run_id)).items()
            if end.status not in ("done", "aborted")
        }
        assert wrong == {}
        assert set(turn.operations) == {one["operation_id"] for one in EVERYWHERE}
        assert (await stage.kinds(turn.run_id)).count("run.cancelled") == 1
        if moment == "before":
            assert (turn.variant, turn.operations["b-ask"]) == (0, "aborted")
        else:
            variant = (await session.turn()).variants[0]
            assert (variant.status, variant.finish_reason) == ("aborted", "user_abort")
            assert variant.text == ("re: x" if moment == "after" else "")
            aside = await session.branch("aside")
            await aside.generate("z")
            said = [one for one in stage.prompt() if one[0] != "system"]
            reply = [("assistant", "re: x")] if moment == "after" else []
            assert said == [("user", "x"), *reply, ("user", "z")]
        await _goes_on(stage, session)

    stage_test(scenario, _Hanging(at))(tmp_path)


async def _asked(stage: Stage, text: str) -> None:
    while not any(text in [m.text for m in one.messages] for one in stage.model.requests):
        await asyncio.sleep(0.005)


async def _goes_on(stage: Stage, session: Session) -> None:
    """Another variant of the turn, from the state before it, and another turn."""
    again = await session.regenerate()
    assert (again.status, again.turn) == ("completed", 1)
    assert await stage.values(session) == {
        "b": "B",
        "bf": ["x"],
        "ba": "re: aux before",
        "a": "A",
        "af": ["x"],
        "aa": "re: aux after",
    }
    assert (await session.generate("y")).turn == 2
    assert (await session.art("bf"), await session.art("af")) == (["x", "y"], ["x", "y"])


@pytest.mark.parametrize("moment", list(MOMENTS))
def test_the_deadline_of_a_run_ends_what_is_at_work(moment: str, tmp_path: Path) -> None:
    """The clock of the run stands still: only who waits in vain uses up its time."""
    at, kept = MOMENTS[moment]

    async def scenario(stage: Stage) -> None:
        session = await stage.chat(
            profile(*EVERYWHERE, op("gate", "{{ deps }}", depends_on=["b-ask"], required=True, order=9))
        )
        turn = await session.generate("x", deadline_s=1.0)
        if moment == "before":
            assert turn.operations["b-ask"] == "aborted" and turn.variant == 0
            assert turn.failed is not None and turn.failed["failed_type"] == "before_barrier"
        elif moment == "main":
            assert (turn.status, turn.finish_reason) == ("failed", "deadline")
            assert turn.failed is not None
            assert (turn.failed["failed_type"], turn.failed["code"]) == ("main_llm", "deadline")
        else:
            assert turn.operations["a-ask"] == "aborted"
            assert (await stage.finished(turn.run_id))["a-ask"].code == "deadline"
            kept.update(("a", "af"))
        assert set(await session.arts(internal=True)) == kept
        await session.change(profile=profile(*EVERYWHERE))
        await _goes_on(stage, session)

    stage_test(scenario, _Hanging(at))(tmp_path)


class _Halting(ScriptedModel):
    """Streams some words of its reply, and then nothing more."""

    def __init__(self) -> None:
        super().__init__(echo)

    async def stream(self, request: ModelRequest, /) -> AsyncIterator[Delta | ModelReply]:
        self.requests.append(request)
        yield Delta(text="Once upon")
        yield Delta(text=" a time")
        await asyncio.Event().wait()


@pytest.mark.parametrize("end", ["cancel", "deadline"])
def test_a_reply_that_was_cut_is_kept_as_far_as_it_came(end: str, tmp_path: Path) -> None:
    async def scenario(stage: Stage) -> None:
        session = await stage.chat(profile(op("b", "B", keep("b")), after("a", "A", keep("a"))))
        text, last = "", None
        async for item in session.stream("x", deadline_s=1.0 if end == "deadline" else None):
            if isinstance(item, RunEvent) and item.type == "main_llm.delta":
                text += item.data["text"]
            if text == "Once upon a time" and end == "cancel":
                await session.cancel()
                text += "."
            last = item
        turn = last
        assert isinstance(turn, TurnResult), "a stream ends with its result"
        reason, status = ("user_abort", "cancelled") if end == "cancel" else ("deadline", "failed")
        assert (turn.text, turn.finish_reason, turn.status) == ("Once upon a time", reason, status)
        assert await stage.values(session) == {"b": "B"}
        assert (await session.turn()).text == "Once upon a time"

    stage_test(scenario, model=_Halting())(tmp_path)


async def _late_barrier(stage: Stage) -> None:
    """If the time is up before the barrier, the main call is not begun."""

    def late(request: ModelRequest) -> str:
        stage.clock.advance(100)
        return echo(request)

    stage.model._steps = [late]  # pyright: ignore[reportPrivateUsage] - it has to know the stage's clock
    session = await stage.chat(profile(asks("a", "aux", keep("a")), deadline_s=60))
    turn = await session.generate("x")
    assert turn.failed is not None
    assert (turn.failed["failed_type"], turn.failed["code"]) == ("before_barrier", "deadline")
    assert stage.main == [] and await session.arts(internal=True) == {}


test_no_main_call_is_begun_when_the_time_is_up = stage_test(_late_barrier)


async def _all_at_once(stage: Stage) -> None:
    """A hundred operations that fail in every way end one by one; the turn is fine."""
    operations: list[dict[str, Any]] = []
    for number in range(25):
        operations += [
            op(f"broken{number}", BROKEN, keep(f"b{number}")),
            op(f"long{number}", "{% for i in (1..100000) %}xxxxxxxx{% endfor %}", keep(f"l{number}")),
            after(f"json{number}", "no json", keep(f"j{number}"), output="json"),
            after(f"fine{number}", "fine", keep(f"f{number}")),
        ]
    session = await stage.chat(profile(*operations))
    turn = await session.generate("x")
    assert turn.status == "completed"
    assert sorted(await stage.values(session)) == sorted(f"f{number}" for number in range(25))


test_many_failures_at_once_leave_the_turn_alone = stage_test(_all_at_once)


async def _hostile_words(stage: Stage) -> None:
    """Words that look like templates, tags or control characters are words."""
    for text in ("{{ art.secret.value }}{% for %}", "\x00\x1b[2J\u202e", "</system>" * 300, "𝔘" * 1_000):
        session = await stage.chat(profile(op("a", "{{ text }}", keep("a", "prompt_only"))))
        turn = await session.generate(text)
        assert (turn.status, turn.text) == ("completed", f"re: {text}")
        assert await session.art("a", internal=True) == text


test_words_are_words = stage_test(_hostile_words)
