"""Runs as they happen: stored events with their numbers, deltas without, and whoever comes late."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from artelier import Kernel, Session
from artelier.chat.session.event_stream import RunEvent
from artelier.chat.turn.turn_runner import WAITING_MAX, Live, TurnResult
from artelier.errors import ModelRefusedCall, NotFound
from artelier.ports.model import FREE, Delta, ModelReply, ModelRequest
from tests.operations.chats import opened, play
from tests.operations.profiles import tavern

PHASES = ["planning", "before_main_llm", "barrier", "main_llm", "after_main_llm", "commit", "finished"]


class Typing:
    """A model that types one letter each time it is let."""

    price = FREE

    def __init__(self, text: str) -> None:
        self.text = text
        self.keys: asyncio.Queue[None] = asyncio.Queue()

    def type(self, letters: int) -> None:
        for _ in range(letters):
            self.keys.put_nowait(None)

    async def complete(self, request: ModelRequest, /) -> ModelReply:
        return ModelReply(text=self.text)

    async def stream(self, request: ModelRequest, /) -> AsyncIterator[Delta | ModelReply]:
        for letter in self.text:
            await self.keys.get()
            yield Delta(text=letter)
        await self.keys.get()
        yield ModelReply(text=self.text)


async def _all(items: AsyncIterator[Any]) -> list[Any]:
    return [item async for item in items]


def _deltas(items: list[Any]) -> list[tuple[int, str]]:
    return [
        (one.data["offset"], one.data["text"])
        for one in items
        if getattr(one, "type", "") == "main_llm.delta"
    ]


def test_a_turn_streams_what_happens_and_its_result_last(tmp_path: Path) -> None:
    async def run() -> None:
        with opened(tmp_path) as kernel:
            session = await Session.open(kernel, "c", model="m", profile=tavern())
            items = await _all(session.stream("hello there, this is long"))

            *events, result = items
            assert isinstance(result, TurnResult) and result.text == "re: hello there, this is long"
            phases = [one.data["phase"] for one in events if one.type == "run.phase_changed"]
            assert phases == PHASES
            stored = [one for one in events if one.seq is not None]
            assert [one.seq for one in stored] == sorted({one.seq for one in stored})
            kinds = [one.type for one in events]
            assert (kinds[0], kinds[-1]) == ("run.started", "run.finished")
            first, last = kinds.index("main_llm.started"), kinds.index("main_llm.finished")
            assert set(kinds[first + 1 : last]) == {"main_llm.delta"}
            assert kinds.count("operation.finished") == 5 and kinds.count("commit.reported") == 2
            assert "".join(text for _, text in _deltas(events)) == result.text
            assert events[last].data["finish_reason"] == "completed"
            assert stored == await session.events(result.run_id, limit=1_000)

    play(run())


def test_from_any_seq_the_rest_comes_and_nothing_twice(tmp_path: Path) -> None:
    async def run() -> None:
        with opened(tmp_path) as kernel:
            session = await Session.open(kernel, "c", model="m", profile=tavern())
            run_id = (await session.generate("a")).run_id
            whole = await _all(session.watch(run_id))
            assert _deltas(whole) == []
            for index, event in enumerate(whole[:-1]):
                assert await _all(session.watch(run_id, after=event.seq)) == whole[index + 1 :]
            paged: list[Any] = []
            while page := await session.events(run_id, after=paged[-1].seq if paged else 0, limit=2):
                paged += page
            assert paged == whole

    play(run())


def test_who_comes_late_gets_the_text_so_far_as_one_delta(tmp_path: Path) -> None:
    async def run() -> None:
        model = Typing("typed")
        with Kernel.open(tmp_path / "s.db", models={"m": model}, environ={}) as kernel:
            session = await Session.open(kernel, "c", model="m")
            early, late = list[Any](), list[Any]()
            heard = asyncio.Event()

            async def read(into: list[Any], items: AsyncIterator[Any]) -> None:
                async for item in items:
                    into.append(item)
                    heard.set()

            async def until(into: list[Any], count: int) -> None:
                while len(_deltas(into)) < count:
                    heard.clear()
                    await heard.wait()

            first = asyncio.ensure_future(read(early, session.stream("x")))
            model.type(3)
            await until(early, 3)
            second = asyncio.ensure_future(read(late, session.watch("c/r000001")))
            await until(late, 1)
            model.type(3)
            await asyncio.gather(first, second)

            assert _deltas(early) == [(0, "t"), (1, "y"), (2, "p"), (3, "e"), (4, "d")]
            assert _deltas(late) == [(0, "typ"), (3, "e"), (4, "d")]
            assert {one.data["step"] for one in late if one.seq is None} == {"main/model"}
            assert late[-1].type == "run.finished"
            assert _deltas(await _all(session.watch("c/r000001"))) == []

    play(run())


class Thinking(Typing):
    """The same; it thinks a letter before each that it types."""

    async def stream(self, request: ModelRequest, /) -> AsyncIterator[Delta | ModelReply]:
        for letter in self.text:
            await self.keys.get()
            yield Delta(reasoning=letter.upper())
        async for item in super().stream(request):
            yield item


def test_reasoning_comes_live_before_the_reply_also_for_who_comes_late(tmp_path: Path) -> None:
    async def run() -> None:
        model = Thinking("ab")
        with Kernel.open(tmp_path / "s.db", models={"m": model}, environ={}) as kernel:
            session = await Session.open(kernel, "c", model="m")
            early, late = list[Any](), list[Any]()
            heard = asyncio.Event()

            def thoughts(items: list[Any]) -> list[tuple[int, str]]:
                found = [one for one in items if getattr(one, "type", "") == "main_llm.reasoning"]
                assert all(one.seq is None for one in found)
                return [(one.data["offset"], one.data["text"]) for one in found]

            async def read(into: list[Any], items: AsyncIterator[Any]) -> None:
                async for item in items:
                    into.append(item)
                    heard.set()

            async def until(into: list[Any], count: int) -> None:
                while len(thoughts(into)) < count:
                    heard.clear()
                    await heard.wait()

            first = asyncio.ensure_future(read(early, session.stream("x")))
            model.type(2)
            await until(early, 2)
            second = asyncio.ensure_future(read(late, session.watch("c/r000001")))
            await until(late, 1)
            model.type(9)
            await asyncio.gather(first, second)

            assert (thoughts(early), _deltas(early)) == ([(0, "A"), (1, "B")], [(0, "a"), (1, "b")])
            assert (thoughts(late), _deltas(late)) == ([(0, "AB")], [(0, "a"), (1, "b")])
            assert early[-1].text == "ab"
            assert thoughts(await _all(session.watch("c/r000001"))) == []

    play(run())


def test_who_leaves_a_stream_stops_the_drive_and_the_run_goes_on_later(tmp_path: Path) -> None:
    async def run() -> None:
        model = Typing("typed")
        with Kernel.open(tmp_path / "s.db", models={"m": model}, environ={}) as kernel:
            session = await Session.open(kernel, "c", model="m")
            items = session.stream("x")
            model.type(2)
            async for item in items:
                if isinstance(item, RunEvent) and item.type == "main_llm.delta":
                    break
            await items.aclose()
            model.type(20)

            result = await session.resume()

            assert (result.status, result.text) == ("completed", "typed")

    play(run())


def test_a_failed_call_says_why_it_ended(tmp_path: Path) -> None:
    def refuse(request: ModelRequest) -> str:
        raise ModelRefusedCall("no")

    async def run() -> None:
        with opened(tmp_path, refuse) as kernel:
            session = await Session.open(kernel, "c", model="m")
            *events, result = await _all(session.stream("a"))
            finished = next(one for one in events if one.type == "main_llm.finished")
            assert finished.data["finish_reason"] == "policy_error" == result.finish_reason
            assert events[-1].data["status"] == "failed"

    play(run())


def test_events_hold_no_references_and_no_values(tmp_path: Path) -> None:
    async def run() -> None:
        with opened(tmp_path) as kernel:
            session = await Session.open(kernel, "c", model="m", profile=tavern())
            result = await session.generate("SPOKEN")
            told = str([one.plain() for one in await session.events(result.run_id, limit=1_000)])
            assert "b:" not in told.replace("hub:", "")
            assert "SECRET" not in told and "NOTE" not in told and "SPOKEN" not in told
            shown = await session.show(result.run_id)
            assert shown["phase"] == "finished" and shown["turn"] == 1
            assert [one["operation_id"] for one in shown["plan"]][:2] == ["note", "once"]
            assert {one["status"] for one in shown["operations"]} == {"done"}
            assert {one["tag"] for one in shown["prompt"]} >= {"system", "conversation"}
            for wrong in ("c/r000002", "d/r000001", "c/r1x", "", "c"):
                with pytest.raises(NotFound):
                    await session.events(wrong)
                with pytest.raises(NotFound):
                    await _all(session.watch(wrong))

    play(run())


def test_a_slow_reader_begins_again_with_the_text_so_far() -> None:
    async def run() -> None:
        live, told = Live(), asyncio.Event()
        live.begin("t", "r", step="main/model")
        watcher = live.watch("t", "r", told)
        for _ in range(WAITING_MAX + 5):
            live.add("t", "r", Delta(text="x"))
        live.add("u", "r", Delta(text="another tenant's"))

        pieces = live.pieces("t", "r", watcher)

        assert [(one.offset, len(one.text)) for one in pieces] == [(0, WAITING_MAX + 5)]
        assert live.pieces("t", "r", watcher) == []
        live.add("t", "r", Delta(text="y"))
        assert [(one.offset, one.text) for one in live.pieces("t", "r", watcher)] == [(WAITING_MAX + 5, "y")]
        live.end("t", "r")
        live.add("t", "r", Delta(text="late"))
        assert live.pieces("t", "r", watcher) == []
        live.unwatch("t", "r", watcher)

    play(run())
