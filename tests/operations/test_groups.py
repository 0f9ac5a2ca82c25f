"""Chats with several characters: who speaks next, what a prompt shows of whom, and what history keeps."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from artelier import ModelRequest, Session
from artelier.chat.conversation_files import export_jsonl, parse_chat
from artelier.chat.turn.speakers import choose, mentioned, own_words
from artelier.chat.turn.turn_loop import replay_turn
from artelier.chat.turn.turn_runner import recorded_job
from artelier.errors import Conflict, InvalidRequest, NotFound
from tests.operations.chats import kernel_of, opened, play, requests_of

CAST: list[Any] = [
    {"name": "Mira", "description": "{{char}} keeps the inn. Here: {{group}}, not {{notChar}}."},
    {"name": "Old Bob", "talkativeness": "1.0"},
    "Cy",
]


def _texts(request: ModelRequest) -> list[str]:
    return [one.text for one in request.messages]


def _name(request: ModelRequest) -> str:
    """Answer with the names in the system prompt's first words."""
    return request.messages[0].text.split(",")[0].removeprefix("You are ")


async def _open(kernel: Any, **more: Any) -> Session:
    return await Session.open(kernel, "c", model="m", **{"user": "Ann", "group": CAST, **more})


def test_members_speak_in_turn_each_with_its_own_card_and_names_before_the_words(tmp_path: Path) -> None:
    async def run() -> None:
        with opened(tmp_path, lambda request: f"I am {_name(request)}") as kernel:
            session = await _open(kernel, greetings=["Come in."])
            assert (await session.generate("Hello")).speaker == "Old Bob"
            assert (await session.speak()).speaker == "Cy"
            result = await session.speak()
            assert (result.speaker, result.turn, result.text) == ("Mira", 3, "I am Mira")
            said = _texts(requests_of(session)[-1])
            assert said[0].endswith("Mira keeps the inn. Here: Mira, Old Bob, Cy, not Old Bob, Cy, Ann.")
            assert said[1:5] == ["Mira: Come in.", "Ann: Hello", "Old Bob: I am Old Bob", "Cy: I am Cy"]
            assert "the next message of Mira alone" in said[5] and "Old Bob, Cy" in said[5]
            shown = [(one.persona, one.user, one.speaker, one.text) for one in await session.turns()]
            assert shown == [
                ("", "", "Mira", "Come in."),
                ("Ann", "Hello", "Old Bob", "I am Old Bob"),
                ("", "", "Cy", "I am Cy"),
                ("", "", "Mira", "I am Mira"),
            ]

    play(run())


def test_what_was_said_keeps_who_said_it_when_people_change(tmp_path: Path) -> None:
    async def run() -> None:
        with opened(tmp_path, lambda request: "yes") as kernel:
            session = await Session.open(kernel, "c", model="m", user="Ann", char="Mira")
            await session.generate("one")
            await session.change(user="Zoe", char="Tam")
            await session.generate("two")
            await session.revise("not one", turn=1, role="user")
            await session.revise("no", turn=1)
            found = [(one.persona, one.user, one.speaker, one.text) for one in await session.turns()]
            assert found == [("Ann", "not one", "Mira", "no"), ("Zoe", "two", "Tam", "yes")]

    play(run())


def test_another_reply_is_by_the_same_member_unless_one_is_named(tmp_path: Path) -> None:
    async def run() -> None:
        with opened(tmp_path, lambda request: "Hm") as kernel:
            session = await _open(kernel)
            assert (await session.generate("Hello", speaker="cy")).speaker == "Cy"
            assert (await session.regenerate()).speaker == "Cy"
            assert (await session.regenerate(speaker="Mira")).speaker == "Mira"
            await session.select_variant(1, 1)
            more = await session.continue_()
            assert (more.speaker, more.text) == ("Cy", "Hm Hm")
            assert (await session.generate("Next")).speaker == "Mira"  # after Cy, the last of the list
            wordless = await session.speak("Cy")
            again = await session.regenerate()
            assert (again.turn, again.variant, again.speaker) == (wordless.turn, 2, "Cy")
            with pytest.raises(NotFound, match="Dora"):
                await session.generate("You?", speaker="Dora")

    play(run())


def test_a_model_chooses_once_and_a_replay_asks_nobody(tmp_path: Path) -> None:
    def answer(request: ModelRequest) -> str:
        return "I would say Cy." if "You choose who" in request.messages[0].text else "Right."

    async def run() -> None:
        with opened(tmp_path, answer) as kernel:
            session = await _open(kernel, speaks="model")
            result = await session.generate("Who knows?")
            assert result.speaker == "Cy"
            choice = _texts(requests_of(session)[0])
            assert choice[1].endswith("Ann: Who knows?\n\n[Mira, Old Bob, Cy]")
            job = await recorded_job(session.desk, result.run_id)
            assert job is not None and job.picks_speaker and job.speaker == "Mira"
            asked = len(requests_of(session))
            await kernel_of(session).replay(result.run_id, lambda run: replay_turn(run, job.settings()))
            assert len(requests_of(session)) == asked == 2

    play(run())


def test_a_model_that_names_nobody_leaves_the_order_of_the_list(tmp_path: Path) -> None:
    def answer(request: ModelRequest) -> str:
        return "Nobody." if "You choose who" in request.messages[0].text else "Right."

    async def run() -> None:
        with opened(tmp_path, answer) as kernel:
            session = await _open(kernel, speaks="model")
            assert (await session.generate("Who?")).speaker == "Mira"
            assert (await session.generate("And now?")).speaker == "Old Bob"

    play(run())


def test_mention_and_talkativeness_choose() -> None:
    group: list[Mapping[str, Any]] = [
        {"name": "Mira"},
        {"name": "Old Bob", "talkativeness": 1},
        {"name": "Cy"},
    ]

    def chosen(rule: str, words: str, *, last: str = "", seed: str = "s") -> str:
        return choose(group, rule, wished="", words=words, last=last, seed=seed).name

    assert chosen("mention", "What would BOB do, Mira?") == "Old Bob"
    assert chosen("mention", "Miracles happen.", last="Mira") == "Old Bob"
    assert chosen("talkativeness", "Ask Cy.") == "Cy"
    drawn = [chosen("talkativeness", "Well?", last="Cy", seed=str(n)) for n in range(300)]
    assert set(drawn) == {"Mira", "Old Bob"}
    assert 150 < drawn.count("Old Bob") < 250  # twice as talkative as Mira
    assert [chosen("talkativeness", "Well?", seed="7") for _ in range(3)].count(drawn[7]) in (0, 3)


@pytest.mark.parametrize("value", ["nan", "2", -1, None, "often", [], 1e400])
def test_a_talkativeness_that_is_none_is_that_of_the_rest(value: Any) -> None:
    group = [{"name": "A", "talkativeness": value}, {"name": "B", "talkativeness": 0}]
    names = {
        choose(group, "talkativeness", wished="", words="", last="", seed=str(n)).name for n in range(50)
    }
    assert names == {"A"}


def test_names_are_found_by_whole_words_and_only_where_one_member_has_them() -> None:
    names = ["Old Bob", "Old Tom", "C"]
    assert mentioned("the old man", names) == ""
    assert mentioned("tom, bob", names) == "Old Tom"
    assert mentioned("x" * 1_000_000, names) == ""


@pytest.mark.parametrize(
    ("text", "own"),
    [
        ("Mira: Come in.", "Come in."),
        ("\n Mira : Come in.\nBob: I will.\nMira: Good.", "Come in."),
        ("Bob: I will.", "Bob: I will."),
        ("Come in. Bob: no.", "Come in. Bob: no."),
    ],
)
def test_of_a_reply_stays_what_the_speaker_says_itself(text: str, own: str) -> None:
    assert own_words(text, "Mira", ["Bob", "Ann"]) == own


@pytest.mark.parametrize(
    "wish",
    [
        {"group": "Mira"},
        {"group": ["Mira", "mira"]},
        {"group": [{"description": "nobody"}]},
        {"group": [3]},
        {"group": ["x"] * 33},
        {"speaks": "loudest"},
    ],
)
def test_a_group_that_is_none_is_refused(tmp_path: Path, wish: dict[str, Any]) -> None:
    async def run() -> None:
        with opened(tmp_path) as kernel:
            with pytest.raises(InvalidRequest):
                await Session.open(kernel, "c", model="m", **wish)

    play(run())


def test_before_anything_was_said_nobody_speaks_without_being_asked(tmp_path: Path) -> None:
    async def run() -> None:
        with opened(tmp_path) as kernel:
            session = await _open(kernel)
            with pytest.raises(Conflict, match="nothing was said"):
                await session.speak()
            alone = await Session.open(kernel, "d", model="m")
            await alone.generate("one")
            assert (await alone.speak()).turn == 2
            assert "Nothing was said to you" in _texts(requests_of(alone)[-1])[-1]

    play(run())


def test_a_file_of_another_program_keeps_who_spoke_and_comes_out_again(tmp_path: Path) -> None:
    lines = [
        '{"user_name": "Ann", "character_name": "Inn", "create_date": "2024-01-01"}',
        '{"name": "Mira", "is_user": false, "mes": "Come in."}',
        '{"name": "Ann", "is_user": true, "mes": "Hello"}',
        '{"name": "Bob", "is_user": false, "mes": "Shut the door."}',
        '{"name": "Mira", "is_user": false, "mes": "Be kind, Bob."}',
        '{"name": "Zoe", "is_user": true, "mes": "Hello too"}',
    ]

    async def run() -> None:
        taken = parse_chat("\n".join(lines).encode())
        assert taken.group == ("Mira", "Bob")
        assert not [one for one in taken.warnings if "spoke" in one]
        with opened(tmp_path) as kernel:
            session = await Session.open(kernel, "c", model="m", user=taken.user, group=list(taken.group))
            await session.import_turns(list(taken.turns))
            found = [(one.persona, one.speaker) for one in await session.turns()]
            assert found == [("", "Mira"), ("Ann", "Bob"), ("", "Mira"), ("Zoe", "")]
            again = parse_chat(await export_jsonl(session))
            assert [replace(one, sent_us=()) for one in again.turns] == [
                replace(one, sent_us=()) for one in taken.turns
            ]
            await session.generate("So?")
            said = _texts(requests_of(session)[-1])
            assert "Bob: Shut the door." in said and "Zoe: Hello too" in said

    play(run())
