"""When operations run: activation by turns and tokens, triggers, and what counts as a turn."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from artelier import Session
from artelier.tokens import estimate_tokens
from tests.operations.rules.stage import AFTER, BEFORE, Stage, keep, op, profile, stage_test


def every(hook: str = BEFORE, **activation: int) -> Any:
    return profile(op("x", "{{ chat.turn }}", keep("x"), hooks=[hook], activation=activation))


async def _says(session: Session, count: int, text: str = "t") -> list[str]:
    """Status or reason of the operation in each of some turns."""
    found: list[str] = []
    for _ in range(count):
        turn = await session.generate(text)
        found.append(turn.operations["x"])
    return found


@pytest.mark.parametrize("hook", [BEFORE, AFTER])
@pytest.mark.parametrize("number", [1, 2, 3])
def test_every_n_turns(number: int, hook: str, tmp_path: Path) -> None:
    """It is done in the n-th turn, and then in every n-th."""

    async def scenario(stage: Stage) -> None:
        session = await stage.chat(every(hook, every_n_turns=number))
        ended = await _says(session, 7)
        expected = ["done" if (turn + 1) % number == 0 else "skipped" for turn in range(7)]
        assert ended == expected
        reasons = {one.reason for one in (await stage.finished("c/r000001")).values()}
        assert reasons == ({""} if number == 1 else {"not_due"})

    stage_test(scenario)(tmp_path)


async def _tokens(stage: Stage) -> None:
    """By tokens that the conversation has grown by since it was done last."""
    text = "some words of a person, " * 10
    each = estimate_tokens(text) + estimate_tokens(f"re: {text}")
    session = await stage.chat(every(every_n_context_tokens=2 * each))
    assert await _says(session, 7, text) == [
        "skipped",
        "skipped",
        "done",
        "skipped",
        "done",
        "skipped",
        "done",
    ]


test_every_n_context_tokens = stage_test(_tokens)


async def _both(stage: Stage) -> None:
    """If both are given, both have to hold."""
    session = await stage.chat(every(every_n_turns=2, every_n_context_tokens=1_000_000))
    assert await _says(session, 4) == ["skipped"] * 4


test_both_have_to_hold = stage_test(_both)


async def _variants(stage: Stage) -> None:
    """A discarded variant does not count, and one of the same turn counts from before the turn."""
    session = await stage.chat(every(every_n_turns=2))
    await session.generate("1")
    assert (await session.generate("2")).operations == {"x": "done"}
    assert (await session.regenerate()).operations == {"x": "done"}, "due as it was before the turn"
    assert (await session.generate("3")).operations == {"x": "skipped"}
    assert (await session.regenerate()).operations == {"x": "skipped"}
    assert (await session.generate("4")).operations == {"x": "done"}
    await session.rewind(3)
    assert (await session.generate("4 again")).operations == {"x": "done"}
    aside = await session.branch("aside", at_turn=2)
    assert (await aside.generate("3")).operations == {"x": "skipped"}
    assert (await aside.generate("4")).operations == {"x": "done"}


test_discarded_variants_do_not_count = stage_test(_variants)


async def _not_done(stage: Stage) -> None:
    """One that was due and failed is due again in the next turn."""
    text = "{% if chat.turn == 2 %}{{ nobody }}{% endif %}x"
    session = await stage.chat(profile(op("x", text, keep("x"), activation={"every_n_turns": 2})))
    assert await _says(session, 5) == ["skipped", "error", "done", "skipped", "done"]


test_one_that_failed_is_due_again = stage_test(_not_done)


async def _new_session(stage: Stage) -> None:
    """A new session counts from its own beginning."""
    session = await stage.chat(every(every_n_turns=2))
    assert await _says(session, 3) == ["skipped", "done", "skipped"]
    await session.reset("s2")
    assert await _says(session, 3) == ["skipped", "done", "skipped"]
    await session.reopen("default")
    assert await _says(session, 1) == ["done"]


test_a_new_session_counts_from_its_beginning = stage_test(_new_session)

TRIGGERS: dict[str, tuple[list[str], list[str]]] = {
    "generate": (["generate"], ["done", "skipped", "done"]),
    "regenerate": (["regenerate"], ["skipped", "done", "skipped"]),
    "both": (["generate", "regenerate"], ["done", "done", "done"]),
}


@pytest.mark.parametrize("name", list(TRIGGERS))
def test_triggers(name: str, tmp_path: Path) -> None:
    triggers, expected = TRIGGERS[name]

    async def scenario(stage: Stage) -> None:
        session = await stage.chat(profile(op("x", "X", keep("x"), triggers=triggers)))
        turns = [await session.generate("a"), await session.regenerate(), await session.generate("b")]
        assert [turn.operations["x"] for turn in turns] == expected
        ended = [(await stage.ends(turn.run_id))["x"] for turn in turns]
        assert set(ended) <= {"done", "skipped:trigger_mismatch"}

    stage_test(scenario)(tmp_path)
