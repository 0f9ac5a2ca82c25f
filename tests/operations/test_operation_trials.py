"""One operation of a turn is looked at, and run again over what it saw, without a change of the chat."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from artelier import OperationProfile, Session, tool
from artelier.errors import Conflict, InvalidRequest, NotFound
from tests.operations.chats import kernel_of, opened, play, requests_of
from tests.operations.profiles import template
from tests.operations.rp import replayed

SEEN = "{{ text }} after {{ art.log.value | size }} with {{ deps.first }} and {{ reply }}"
PROFILE: tuple[dict[str, Any], ...] = (
    template("first", "made from {{ text }}", order=1),
    template("second", SEEN, order=2, depends_on=["first"], tag="second", usage="internal"),
    template("log", "{{ text }}", order=3, tag="log", usage="ui_only", write_mode="append"),
    {
        "operation_id": "asks",
        "kind": "llm",
        "order": 4,
        "hooks": ["after_main_llm"],
        "params": {"prompt": "Sum up: {{ text }}", "effects": []},
    },
)


def profile(*operations: dict[str, Any]) -> OperationProfile:
    return OperationProfile.parse({"profile_id": "p", "operations": list(operations)})


async def _begin(kernel: Any) -> tuple[Session, list[str]]:
    session = await Session.open(kernel, "c", model="m", profile=profile(*PROFILE))
    runs = [(await session.generate(words)).run_id for words in ("one", "two", "three")]
    return session, runs


def test_an_operation_sees_again_what_it_saw_and_nothing_changes(tmp_path: Path) -> None:
    async def run() -> None:
        with opened(tmp_path) as kernel:
            session, runs = await _begin(kernel)
            before = json.dumps([await session.arts(internal=True), len(await session.turns())])
            scope = await session.scope_of(runs[1], "second")
            assert scope["text"] == "two" and scope["deps"] == {"first": "made from two"}
            assert scope["art"]["log"]["value"] == ["one"], "as it was in the second turn"

            trial = await session.run_operation(runs[1], "second")

            assert (trial.status, trial.value) == ("done", "two after 1 with made from two and re: two")
            assert [one["effect"]["tag"] for one in trial.effects] == ["second"]
            assert json.dumps([await session.arts(internal=True), len(await session.turns())]) == before
            asked = len(requests_of(session))
            asks = await session.run_operation(runs[0], "asks")
            assert asks.value == "re: Sum up: one" and asks.cost_microusd >= 0
            assert len(requests_of(session)) == asked + 1
            children = await kernel_of(session).runs()
            assert {one["parent"] for one in children["items"] if "/again-" in one["id"]} == set(runs[:2])
            for run_id in runs:
                await replayed(kernel, run_id)
            assert kernel.verify().findings == []

    play(run())


def test_an_operation_that_was_corrected_runs_over_what_the_old_one_saw(tmp_path: Path) -> None:
    broken = {
        "operation_id": "count",
        "order": 1,
        "kind": "compute",
        "hooks": ["before_main_llm"],
        "params": {"code": "def run(ctx):\n    return 1 // (len(ctx.text) - 3)\n"},
    }
    mended = {**broken, "params": {"code": "def run(ctx):\n    return len(ctx.text)\n"}}

    async def run() -> None:
        with opened(tmp_path) as kernel:
            session = await Session.open(kernel, "c", model="m", profile=profile(broken))
            result = await session.generate("two")
            assert result.operations == {"count": "error"}
            failed = await session.run_operation(result.run_id, "count")
            assert failed.status == "error" and "ZeroDivisionError" in failed.message
            await session.change(profile=profile(mended))
            again = await session.run_operation(result.run_id, "count", current=True)
            assert (again.status, again.value, again.is_current) == ("done", 3, True)
            assert again.run_id.endswith("/again-0002") and again.scope["text"] == "two"

    play(run())


def test_what_cannot_be_run_again_is_refused_with_the_reason(tmp_path: Path) -> None:
    @tool(side_effect=True)
    async def ring(times: int) -> str:
        """Ring a bell."""
        return "rang" * times

    act = {
        "operation_id": "bell",
        "order": 2,
        "kind": "tool",
        "hooks": ["after_main_llm"],
        "params": {"name": "ring", "arguments": {"times": 1}},
    }

    async def run() -> None:
        with opened(tmp_path, tools=[ring]) as kernel:
            session = await Session.open(kernel, "c", model="m", profile=profile(act, *PROFILE[:1]))
            result = await session.generate("hello")
            with pytest.raises(InvalidRequest, match="acts outside"):
                await session.run_operation(result.run_id, "bell")
            with pytest.raises(NotFound, match="no operation"):
                await session.run_operation(result.run_id, "nobody")
            with pytest.raises(NotFound):
                await session.run_operation("other/r000001", "first")
            await session.ask("and now")
            waiting = (await session.branch_row()).run
            with pytest.raises(NotFound):
                await session.scope_of(waiting, "first")
            await session.cancel()

    play(run())


def test_the_record_of_a_trial_goes_with_the_words_that_it_saw(tmp_path: Path) -> None:
    async def run() -> None:
        with opened(tmp_path) as kernel:
            session, runs = await _begin(kernel)
            trial = await session.run_operation(runs[2], "second")
            rows = await session.store.query("SELECT name FROM blobs")
            await session.delete_turn(3)
            texts = [(await session.store.blobs("default", [name])).get(name, b"") for (name,) in rows]
            assert not [text for text in texts if b"three after" in text]
            assert trial.run_id.startswith(runs[2])
            with pytest.raises((NotFound, Conflict)):
                await session.run_operation(runs[2], "second")
            assert kernel.verify().findings == []

    play(run())
