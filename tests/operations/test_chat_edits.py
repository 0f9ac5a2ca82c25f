"""Edits of a chat through the public door: revised, hidden and deleted messages, reruns, titles, searches."""

from __future__ import annotations

import sqlite3
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from artelier import ArtelierError, Session
from artelier.errors import Conflict, InvalidRequest, NotFound
from tests.operations.chats import kernel_of, opened, play, requests_of

Scenario = Callable[[Session], Awaitable[None]]


def session_test(scenario: Scenario, **opening: Any) -> Callable[[Path], None]:
    """A test that is a scenario in a new chat."""

    def test(tmp_path: Path) -> None:
        async def run() -> None:
            with opened(tmp_path) as kernel:
                await scenario(await Session.open(kernel, "c", model="m", **opening))

        play(run())

    return test


async def _texts(session: Session) -> list[tuple[int, str, str]]:
    return [(one.number, one.user, one.text) for one in await session.turns()]


async def _prompt(session: Session) -> list[tuple[str, str]]:
    """What the newest call was shown of the conversation."""
    request = requests_of(session)[-1]
    return [(one.role, one.text) for one in request.messages if one.role != "system"]


async def _revised(session: Session) -> None:
    for text in ("a", "b", "c"):
        await session.generate(text)
    await session.revise("changed", turn=1)
    await session.revise("A", turn=1, role="user")
    await session.generate("d")
    assert await _texts(session) == [
        (1, "A", "changed"),
        (2, "b", "re: b"),
        (3, "c", "re: c"),
        (4, "d", "re: d"),
    ]
    assert await _prompt(session) == [
        ("user", "A"),
        ("assistant", "changed"),
        ("user", "b"),
        ("assistant", "re: b"),
        ("user", "c"),
        ("assistant", "re: c"),
        ("user", "d"),
    ]


test_a_revised_message_is_what_later_prompts_show_and_the_turns_after_it_stay = session_test(_revised)


async def _hidden(session: Session) -> None:
    for text in ("a", "b"):
        await session.generate(text)
    await session.hide(turn=1)
    await session.generate("c")
    assert await _prompt(session) == [("user", "b"), ("assistant", "re: b"), ("user", "c")]
    first = await session.turn(1)
    assert (first.user, first.text) == ("a", "re: a"), "people see it"
    assert first.is_hidden and first.variants[0].is_hidden
    await session.hide(turn=1, role="user", hidden=False)
    await session.hide(turn=3, role="assistant")
    await session.generate("d")
    assert [text for _, text in await _prompt(session)] == ["a", "b", "re: b", "c", "d"]
    with pytest.raises(Conflict, match="hidden"):
        await session.hide(turn=4, role="assistant")
        await session.continue_()


test_a_hidden_message_is_left_out_of_later_prompts_until_it_is_shown_again = session_test(_hidden)


async def _deleted(session: Session) -> None:
    for text in ("a", "b", "c"):
        await session.generate(text)
    done = await session.delete_turn(2)
    assert done.derived_runs == ("c/r000002", "c/r000003")
    assert await _texts(session) == [(1, "a", "re: a"), (3, "c", "re: c")]
    await session.generate("d")
    assert [text for _, text in await _prompt(session)] == ["a", "re: a", "c", "re: c", "d"]
    with pytest.raises(NotFound, match="deleted"):
        await session.rewind(2)
    with pytest.raises(NotFound):
        await session.delete_turn(2)
    assert [one.number for one in await session.turns(limit=2)] == [3, 4]
    assert [one.number for one in await session.turns(before=3, limit=2)] == [1]
    assert [one.number for one in await session.turns(after=1, limit=1)] == [3]
    await session.delete_turn()
    await session.delete_turn()
    assert await _texts(session) == [(1, "a", "re: a")]
    await session.delete_turn()
    assert await _texts(session) == []
    assert (await session.generate("again")).text == "re: again"


test_a_deleted_turn_is_in_no_later_prompt_and_the_turns_after_it_stay = session_test(_deleted)


async def _variants(session: Session) -> None:
    await session.generate("a")
    await session.regenerate()
    await session.continue_()
    await session.delete_variant(1, 2)
    turn = await session.turn()
    assert (turn.selected, [one.number for one in turn.variants]) == (1, [1])
    assert (await session.regenerate()).variant == 3, "numbers are not used again"
    with pytest.raises(NotFound):
        await session.select_variant(1, 2)
    await session.generate("b")
    with pytest.raises(Conflict, match="said after"):
        await session.delete_variant(1, 3)
    await session.delete_variant(1, 1)
    assert await _texts(session) == [(1, "a", "re: a"), (2, "b", "re: b")]
    await session.delete_variant()
    assert await _texts(session) == [(1, "a", "re: a"), (2, "b", "")]
    assert (await session.regenerate()).text == "re: b"


test_a_deleted_reply_gives_its_place_to_another = session_test(_variants)


async def _greetings(session: Session) -> None:
    await session.delete_variant(0, 1)
    assert await _texts(session) == [(0, "", "Hi")]
    await session.generate("a")
    await session.delete_turn(0)
    assert await _texts(session) == [(1, "a", "re: a")]
    await session.generate("b")
    assert [text for _, text in await _prompt(session)] == ["a", "re: a", "b"]


test_greetings_can_be_deleted = session_test(_greetings, greetings=["Hello", "Hi"])


async def _rerun(session: Session) -> None:
    for text in ("a", "b", "c"):
        await session.generate(text)
    again = await session.regenerate("other", turn=1)
    assert (again.turn, again.variant, again.text) == (1, 2, "re: other")
    assert await _texts(session) == [(1, "other", "re: other")]
    await session.generate("d")
    assert [text for _, text in await _prompt(session)] == ["other", "re: other", "d"]
    await session.select_variant(1, 1)
    assert await _texts(session) == [(1, "a", "re: a"), (2, "b", "re: b"), (3, "c", "re: c")]


test_a_turn_that_runs_again_with_other_words_is_a_variant_beside_the_old_future = session_test(_rerun)


async def _branches(session: Session) -> None:
    await session.generate("a")
    aside = await session.branch("aside")
    await aside.generate("only here")
    await aside.generate("and here")
    with pytest.raises(Conflict):
        await aside.delete_branch("aside")
    with pytest.raises(Conflict):
        await aside.delete_branch("main")
    await session.delete_branch("aside")
    assert [one["name"] for one in await session.branches()] == ["main"]
    with pytest.raises(NotFound):
        await session.on("aside")
    rows = await session.store.query("SELECT count(*) FROM chat_nodes WHERE user <> '[]' AND deleted = 0")
    assert rows[0][0] == 1, "what no branch shows is gone; what main shows stays"
    assert await _texts(session) == [(1, "a", "re: a")]
    assert (await (await session.branch("aside")).generate("x")).text == "re: x"


test_a_deleted_branch_takes_the_turns_with_it_that_no_other_shows = session_test(_branches)


async def _labels(session: Session) -> None:
    await session.rename("  The tavern  ")
    await session.archive()
    listed = (await kernel_of(session).chats())["items"]
    assert [(one["title"], one["archived"]) for one in listed] == [("The tavern", True)]
    await session.archive(False)
    assert await session.title() == "The tavern"
    await session.rename("")
    assert await session.title() == ""
    for wrong in ("a\nb", "x" * 201):
        with pytest.raises(InvalidRequest):
            await session.rename(wrong)


test_a_chat_has_a_title_and_can_be_archived = session_test(_labels)


async def _searched(session: Session) -> None:
    for text in ("Where is the KEY?", "and the door", "key again"):
        await session.generate(text)
    found = await session.search("key")
    assert [(one.turn, one.role) for one in found] == [
        (3, "user"),
        (3, "assistant"),
        (1, "user"),
        (1, "assistant"),
    ]
    assert len(await session.search("key", limit=1)) == 1
    await session.delete_turn(3)
    assert {one.turn for one in await session.search("key")} == {1}
    with pytest.raises(InvalidRequest):
        await session.search(" ")


test_a_search_finds_messages_of_the_branch_and_none_that_were_deleted = session_test(_searched)


async def _gone(session: Session) -> None:
    await session.generate("a")
    await session.delete_chat()
    assert (await kernel_of(session).chats())["items"] == []
    with pytest.raises(NotFound, match="deleted"):
        await session.generate("b")
    with pytest.raises(ArtelierError, match="deleted"):
        await Session.open(session.desk, "c", model="m")


test_a_deleted_chat_is_in_no_list_and_its_id_is_not_used_again = session_test(_gone)


async def _wrong(session: Session) -> None:
    with pytest.raises(NotFound):
        await session.revise("x")
    await session.generate("a")
    for doing in (session.revise("x", role="system"), session.revise(""), session.hide(role="tool")):
        with pytest.raises(InvalidRequest):
            await doing
    with pytest.raises(NotFound):
        await session.revise("x", turn=7)
    with pytest.raises(InvalidRequest):
        await session.ask("x", trigger="continue")
    with pytest.raises(InvalidRequest):
        await session.ask("x", turn=1)


test_an_edit_of_what_is_not_there_is_refused_with_what_was_expected = session_test(_wrong)


async def _busy(session: Session) -> None:
    await session.generate("a")
    await session.ask("b")
    for doing in (
        session.revise("x", turn=1),
        session.hide(turn=1),
        session.delete_turn(1),
        session.delete_chat(),
    ):
        with pytest.raises(Conflict, match="has not ended"):
            await doing
    await session.cancel()
    await session.revise("x", turn=1)
    assert (await session.turn(1)).text == "x"


test_an_edit_waits_for_the_run_that_goes_on_from_it = session_test(_busy)


def test_edits_go_out_and_come_in_with_the_chat(tmp_path: Path) -> None:
    async def run() -> None:
        path = tmp_path / "c.artelier"
        with opened(tmp_path) as kernel:
            session = await Session.open(kernel, "c", model="m", greetings=["Hello"])
            for text in ("a", "b", "c"):
                await session.generate(text)
            await session.revise("changed", turn=1)
            await session.hide(turn=3, role="user")
            await session.delete_turn(2)
            await session.rename("The tavern")
            before = await _texts(session)
            await kernel.for_tenant().export_chat("c", path)
        (tmp_path / "other").mkdir()
        with opened(tmp_path / "other") as kernel:
            await kernel.for_tenant().import_chat(path)
            again = await Session.open(kernel, "c")
            assert await _texts(again) == before
            assert await again.title() == "The tavern" and (await again.turn(3)).is_hidden
            await again.generate("d")
            shown = ["Hello", "a", "changed", "re: c", "d"]
            assert [text for _, text in await _prompt(again)] == shown

    play(run())


@pytest.mark.parametrize("role", ("user", "assistant"))
def test_an_edit_of_the_first_turn_leaves_the_rows_of_those_after_it_as_they_are(
    tmp_path: Path, role: str
) -> None:
    """Hiding the first of 40,000 turns wrote all of them anew, while nobody else could write."""

    async def run() -> None:
        with opened(tmp_path) as kernel:
            session = await Session.open(kernel, "c", model="m")
            await session.generate("a")
            await session.import_turns([{"user": f"w{n}", "variants": [f"r{n}"]} for n in range(300)])
            with closing(sqlite3.connect(tmp_path / "state.db", isolation_level=None)) as db:
                db.execute("CREATE TABLE written(node)")
                db.execute(
                    "CREATE TRIGGER count_written AFTER UPDATE ON chat_nodes"
                    " BEGIN INSERT INTO written VALUES (new.node); END"
                )
                await session.hide(turn=1, role=role)
                await session.revise("changed", turn=1, role=role)
                count = db.execute("SELECT count(*) FROM written").fetchone()[0]
                db.execute("DROP TRIGGER count_written")
                db.execute("DROP TABLE written")
            assert count < 10

    play(run())


async def _refused_reruns(session: Session) -> None:
    """The branch was rewound before the rest was looked at."""
    for text in ("a", "b", "c"):
        await session.generate(text)
    said = await _texts(session)
    with pytest.raises(NotFound, match="Nobody"):
        await session.regenerate(turn=1, speaker="Nobody")
    with pytest.raises(ArtelierError):
        await session.regenerate(turn=0)
    with pytest.raises(ArtelierError):
        await session.regenerate(turn=1, temperature=99)
    assert await _texts(session) == said
    await session.regenerate(turn=1)
    assert await _texts(session) == [(1, "a", "re: User: a")]


test_a_rerun_that_is_refused_leaves_the_branch_where_it_was = session_test(
    _refused_reruns, group=["Ann", "Bob"], speaks="list"
)
