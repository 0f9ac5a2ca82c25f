"""State follows the conversation: variants, branches, rewinding; and the key of a session."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from artelier import ModelRequest, Session, Tenant
from artelier.errors import Conflict, LeaseHeld, NotFound
from tests.operations.rules.stage import (
    Stage,
    after,
    echo,
    keep,
    op,
    play,
    profile,
    stage_test,
    started,
    words,
)

SUM = profile(
    op("n", "{{ art.n.value | default: '' }}{{ text }}", keep("n"), strict=False),
    after("log", "{{ text }}", keep("log", write_mode="append")),
    after("once", "{{ art.once.value | default: '' }}+", keep("once"), strict=False, triggers=["generate"]),
)


async def _of(session: Session) -> tuple[str, str, str]:
    """The state in short: a value, a feed, and what a new variant does not write again."""
    arts = {tag: one["value"] for tag, one in (await session.arts()).items()}
    return arts.get("n", ""), "".join(arts.get("log", [])), arts.get("once", "")


async def _regenerate(stage: Stage) -> None:
    """Each variant starts from the state before the turn; nothing of another one stays under it."""
    session = await stage.chat(SUM)
    await session.generate("a")
    await session.generate("b")
    assert await _of(session) == ("ab", "ab", "++")
    for _ in range(3):
        await session.regenerate()
        assert await _of(session) == ("ab", "ab", "+"), "once is as it was before the turn"
    await session.select_variant(2, 1)
    assert await _of(session) == ("ab", "ab", "++")
    await session.select_variant(2, 4)
    await session.generate("c")
    assert await _of(session) == ("abc", "abc", "++")
    assert [one["version"] for one in (await session.arts()).values()] == [3, 3, 2]
    assert [one["value"] for one in await session.history("n")] == ["ab", "a"]


test_a_variant_begins_with_the_state_before_its_turn = stage_test(_regenerate)


async def _continue(stage: Stage) -> None:
    """More of a reply changes no artifact and runs no operation."""
    session = await stage.chat(SUM)
    await session.generate("a")
    turn = await session.continue_()
    assert set(turn.operations.values()) == {"skipped"}
    assert set((await stage.ends(turn.run_id)).values()) == {"skipped:trigger_mismatch"}
    assert await _of(session) == ("a", "a", "+")
    assert (turn.turn, turn.variant) == (1, 1)


test_continuing_changes_no_artifact = stage_test(_continue)


async def _branches(stage: Stage) -> None:
    """A branch starts with the state at its fork point, and neither changes the other."""
    session = await stage.chat(SUM)
    for text in "abc":
        await session.generate(text)
    aside = await session.branch("aside", at_turn=2)
    assert await _of(aside) == ("ab", "ab", "++")
    await aside.generate("x")
    await session.generate("d")
    assert await _of(aside) == ("abx", "abx", "+++")
    assert await _of(session) == ("abcd", "abcd", "++++")
    first = await session.branch("first", at_turn=0)
    assert await _of(first) == ("", "", "")
    of_aside = await aside.branch("of-aside", at_turn=3)
    assert await _of(of_aside) == ("abx", "abx", "+++")
    with pytest.raises(Conflict):
        await session.branch("aside")


test_a_branch_begins_with_the_state_at_its_fork = stage_test(_branches)


async def _rewind(stage: Stage) -> None:
    session = await stage.chat(SUM)
    for text in "abc":
        await session.generate(text)
    await session.rewind(1)
    assert await _of(session) == ("a", "a", "+")
    await session.generate("x")
    assert await _of(session) == ("ax", "ax", "++")
    await session.rewind(0)
    assert await _of(session) == ("", "", "")
    await session.generate("y")
    assert await _of(session) == ("y", "y", "+")
    with pytest.raises(NotFound):
        await session.rewind(2)


test_rewinding_brings_the_state_back = stage_test(_rewind)


async def _select_earlier(stage: Stage) -> None:
    """An earlier turn's other variant: the conversation and its state go on from there."""
    session = await stage.chat(SUM)
    await session.generate("a")
    await session.regenerate()
    await session.generate("b")
    await session.select_variant(1, 1)
    assert await _of(session) == ("a", "a", "+")
    assert [turn.user for turn in await session.turns()] == ["a"]
    await session.generate("c")
    assert await _of(session) == ("ac", "ac", "++")
    await session.select_variant(1, 2)
    assert await _of(session) == ("ab", "ab", "+"), "the first variant's mark is another's"


test_selecting_an_earlier_variant_selects_its_state = stage_test(_select_earlier)


async def _failed_variant(stage: Stage) -> None:
    """A regenerate that fails before its barrier leaves the selected variant and its state."""
    gate = op("gate", "{% if chat.trigger == 'regenerate' %}{{ nobody }}{% endif %}", required=True)
    session = await stage.chat(profile(*map(_data, SUM.operations), gate))
    await session.generate("a")
    failed = await session.regenerate()
    assert (failed.status, failed.variant) == ("failed", 0)
    assert await _of(session) == ("a", "a", "+")
    assert [(one.text, one.selected) for one in await session.turns()] == [("re: a", 1)]
    assert (await session.generate("b")).turn == 2
    assert await _of(session) == ("ab", "ab", "++")


def _data(operation: Any) -> dict[str, Any]:
    return operation.model_dump(mode="json", exclude_defaults=True, serialize_as_any=True)


test_a_regenerate_that_fails_leaves_the_variant_there_was = stage_test(_failed_variant)


async def _sessions(stage: Stage) -> None:
    """A new session starts empty and hides the old values; reopening brings them back."""
    session = await stage.chat(SUM)
    await session.generate("a")
    new = await session.reset()
    assert await _of(session) == ("", "", "")
    await session.generate("b")
    assert await _of(session) == ("b", "b", "+")
    await session.reopen("default")
    assert await _of(session) == ("a", "a", "+")
    await session.generate("c")
    assert await _of(session) == ("ac", "ac", "++")
    await session.reopen(new)
    assert await _of(session) == ("b", "b", "+")
    listed = [(one["session_id"], one["runs"], one["is_current"]) for one in await session.sessions()]
    assert listed == [("default", 2, False), (new, 1, True)]
    with pytest.raises(Conflict):
        await session.reset(new)
    with pytest.raises(NotFound):
        await session.reopen("never")
    assert [turn.user for turn in await session.turns()] == ["a", "b", "c"]


test_sessions_are_begun_and_reopened = stage_test(_sessions)


async def _reset_and_variants(stage: Stage) -> None:
    """A new session in the middle: going back goes back to the old one's state as well."""
    session = await stage.chat(SUM)
    await session.generate("a")
    await session.reset("s2")
    await session.generate("b")
    await session.regenerate()
    assert await _of(session) == ("b", "b", "")
    await session.rewind(1)
    assert await _of(session) == ("", "", ""), "the branch works with s2, which began later"
    await session.reopen("default")
    assert await _of(session) == ("a", "a", "+")


test_a_session_has_no_state_before_it_began = stage_test(_reset_and_variants)


async def _profile_session(stage: Stage) -> None:
    """A new `session_id` in the profile starts empty, and the old one's is there when it comes back."""
    session = await stage.chat(SUM)
    await session.generate("a")
    renamed = SUM.model_copy(update={"session_id": "second"})
    await session.change(profile=renamed)
    assert await _of(session) == ("", "", "")
    await session.generate("b")
    assert await _of(session) == ("b", "b", "+")
    await session.change(profile=SUM)
    assert await _of(session) == ("a", "a", "+")


test_a_new_session_id_starts_empty = stage_test(_profile_session)


async def _other_profile(stage: Stage) -> None:
    """Another profile has a session of its own on the same conversation."""
    session = await stage.chat(SUM)
    await session.generate("a")
    await session.change(profile=SUM.model_copy(update={"profile_id": "q"}))
    assert await _of(session) == ("", "", "")
    await session.generate("b")
    assert await _of(session) == ("b", "b", "+")
    await session.change(profile=None)
    await session.generate("plain")
    await session.change(profile="p")
    assert await _of(session) == ("a", "a", "+")


test_each_profile_has_its_own_session = stage_test(_other_profile)


async def _chats_apart(stage: Stage) -> None:
    """Chats and tenants share no state, whatever their ids."""
    acme = stage.kernel.for_tenant(Tenant("acme", grants={"*"}))
    chats = [
        await stage.chat(SUM),
        await stage.chat(SUM, chat="c2"),
        await Session.open(acme, "c", model="m", profile=SUM),
    ]
    for chat, text in zip(chats, "abc", strict=True):
        await chat.generate(text)
    assert [await _of(chat) for chat in chats] == [(one, one, "+") for one in "abc"]


test_chats_and_tenants_share_no_state = stage_test(_chats_apart)


def test_a_branch_has_one_writer(tmp_path: Path) -> None:
    """While a run of the branch has not ended, nobody else begins one, moves it or drives the same."""

    async def scenario() -> None:
        hold = asyncio.Event()

        async def answer(request: ModelRequest) -> str:
            if words(request) == "b":
                await hold.wait()
            return echo(request)

        stage = Stage(tmp_path, answer)
        with stage.kernel:
            session = await stage.chat(SUM)
            await session.generate("a")
            await session.regenerate()
            working = asyncio.ensure_future(session.generate("b"))
            await started(session, lambda one: one.type == "main_llm.started")
            same = await stage.chat(SUM)
            for refused in (
                same.generate("x"),
                same.regenerate(),
                same.continue_(),
                same.rewind(0),
                same.select_variant(1, 1),
            ):
                with pytest.raises(Conflict):
                    await refused
            with pytest.raises(LeaseHeld):
                await same.resume()
            aside = await session.branch("aside", at_turn=1)
            assert (await aside.generate("x")).status == "completed"
            hold.set()
            assert (await working).status == "completed"
            assert await _of(session) == ("ab", "ab", "+")
            assert await _of(aside) == ("ax", "ax", "+")
            await stage.kernel.aclose()

    play(scenario())
