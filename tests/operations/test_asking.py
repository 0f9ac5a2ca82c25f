"""`session.ask`: a turn that waits for whoever drives it, in this process or another."""

from __future__ import annotations

from pathlib import Path

import pytest

from artelier import Session
from artelier.errors import Conflict, InvalidRequest, NotFound
from tests.operations.chats import opened, play


def test_a_turn_that_is_asked_for_is_driven_by_whoever_resumes_it(tmp_path: Path) -> None:
    async def scenario() -> None:
        with opened(tmp_path) as kernel:
            session = await Session.open(kernel, "c", model="m")
            run_id = await session.ask("a")
            assert run_id == "c/r000001"
            assert (await session.branches())[0]["status"] == "asked"
            with pytest.raises(NotFound):
                await kernel.for_tenant().show(run_id)
            with pytest.raises(Conflict):
                await session.ask("b")
        with opened(tmp_path) as kernel:
            session = await Session.open(kernel, "c")
            result = await session.resume()
            assert (result.run_id, result.text) == (run_id, "re: a")
            again = await session.ask(trigger="regenerate")
            assert (await session.resume()).variant == 2 and again == "c/r000002"

    play(scenario())


def test_what_cannot_be_asked_for_leaves_nothing(tmp_path: Path) -> None:
    async def scenario() -> None:
        with opened(tmp_path) as kernel:
            session = await Session.open(kernel, "c", model="m")
            for text, trigger in (
                ("a", "regenerate"),
                ("", "resume"),
                ("", "none"),
                ("  ", "generate"),
            ):
                with pytest.raises(InvalidRequest):
                    await session.ask(text, trigger=trigger)
            assert (await session.branch_row()).run == ""

    play(scenario())
