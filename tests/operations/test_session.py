"""Sessions through the public door: turns, branches, sessions of profiles, and what people may see."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from artelier import ArtelierError, Kernel, Session
from artelier.errors import Conflict, InvalidRequest, ModelRefusedCall, NotFound, UnknownModel
from tests.operations.chats import echo, kernel_of, opened, play, words
from tests.operations.profiles import tavern, template

Scenario = Callable[[Session], Awaitable[None]]


def session_test(scenario: Scenario, **opening: Any) -> Callable[[Path], None]:
    """A test that is a scenario in a new chat."""

    def test(tmp_path: Path) -> None:
        async def run() -> None:
            with opened(tmp_path) as kernel:
                await scenario(await Session.open(kernel, "c", model="m", **opening))

        play(run())

    return test


async def _values(session: Session) -> dict[str, Any]:
    return {tag: one["value"] for tag, one in (await session.arts()).items()}


# Turns


async def _chat(session: Session) -> None:
    first = await session.generate("a")
    again = await session.regenerate()
    longer = await session.continue_()
    second = await session.generate("b")

    assert (first.text, first.turn, first.variant, first.status) == ("re: a", 1, 1, "completed")
    assert (first.run_id, first.finish_reason, first.failed) == ("c/r000001", "completed", None)
    assert (again.turn, again.variant) == (1, 2)
    assert longer.text.startswith("re: a re: ") and (longer.turn, longer.variant) == (1, 2)
    assert (second.turn, second.variant) == (2, 1)
    turns = await session.turns()
    assert [(turn.number, turn.user, turn.selected) for turn in turns] == [
        (0, "", 1),
        (1, "a", 2),
        (2, "b", 1),
    ]
    assert [turn.text for turn in turns] == ["Hello", longer.text, "re: b"]
    assert [one.text for one in turns[1].variants] == ["re: a", longer.text]
    assert (await session.turn()).number == 2 and (await session.turn(0)).text == "Hello"


test_a_conversation_goes_on_over_turns_and_variants = session_test(
    _chat, greetings=["Hello", "Hi"], char="Ann", user={"name": "Bob"}
)


async def _state(session: Session) -> None:
    await session.generate("a")
    await session.generate("b")
    assert await _values(session) == {"mood": "ab", "feed": ["a", "b"]}
    await session.regenerate()
    assert await _values(session) == {"mood": "ab", "feed": ["a", "b"]}

    aside = await session.branch("aside", at_turn=1)
    await aside.generate("x")
    assert await _values(aside) == {"mood": "ax", "feed": ["a", "x"]}
    assert await _values(session) == {"mood": "ab", "feed": ["a", "b"]}
    await session.rewind(1)
    assert await _values(session) == {"mood": "a", "feed": ["a"]}
    assert [one["name"] for one in await session.branches()] == ["main", "aside"]


test_state_follows_the_conversation = session_test(_state, profile=tavern())


async def _selection(session: Session) -> None:
    await session.generate("a")
    await session.generate("b")
    await session.rewind(1)
    await session.regenerate()
    await session.generate("c")

    await session.select_variant(1, 1)
    assert [turn.user for turn in await session.turns()] == ["a", "b"]
    await session.select_variant(1, 2)
    assert [turn.user for turn in await session.turns()] == ["a", "c"]
    await session.select_variant(1, 2)
    for turn, variant in ((1, 3), (1, 0), (9, 1)):
        with pytest.raises(NotFound):
            await session.select_variant(turn, variant)


test_selecting_a_variant_goes_on_where_it_went_last = session_test(_selection)


async def _visible(session: Session) -> None:
    result = await session.generate("a")
    assert result.operations == dict.fromkeys(("note", "once", "mood", "feed", "secret"), "done")

    assert set(await session.arts()) == {"mood", "feed"}
    assert set(await session.arts(internal=True)) == {"mood", "feed", "note", "secret"}
    assert await session.art("mood") == "a" and await session.art("secret", internal=True)
    for tag in ("secret", "note", "once", "nothing"):
        for read in (session.art, session.history, session.publish):
            with pytest.raises(NotFound):
                await read(tag)
    for reading in (session.art, session.history):
        with pytest.raises(NotFound):
            await reading("once", internal=True)
    shown = str(await session.show(result.run_id)) + str(
        [event.plain() for event in await session.events(result.run_id)]
    )
    assert "SECRET" not in shown and "ONCE" not in shown and "NOTE" not in shown


test_people_see_what_they_may_see = session_test(_visible, profile=tavern())


async def _history(session: Session) -> None:
    for text in "abc":
        await session.generate(text)

    assert [one["value"] for one in await session.history("mood")] == ["ab", "a"]
    assert [one["value"] for one in await session.history("feed")] == ["c", "b", "a"]
    ref = await session.publish("mood")
    artifact = await session.desk.as_principal("operator").artifacts.read(ref)
    assert (ref, artifact.content) == ("c/mood@1", "abc")
    assert artifact.provenance.run_id == "c/r000003"
    assert artifact.provenance.derived_from == ("tavern@1",)


test_history_has_earlier_values_and_entries = session_test(_history, profile=tavern())


# Sessions of the profile


async def _sessions(session: Session) -> None:
    await session.generate("a")
    assert await session.reset() == "s2"
    assert await _values(session) == {}
    await session.generate("b")
    assert await _values(session) == {"mood": "b", "feed": ["b"]}

    await session.reopen("default")
    assert await _values(session) == {"mood": "a", "feed": ["a"]}
    await session.generate("c")
    assert await _values(session) == {"mood": "ac", "feed": ["a", "c"]}
    listed = {one["session_id"]: one["runs"] for one in await session.sessions()}
    assert listed == {"default": 2, "s2": 1}
    with pytest.raises(Conflict):
        await session.reset("s2")
    with pytest.raises(NotFound):
        await session.reopen("s3")


test_a_new_session_hides_old_values_and_an_old_one_shows_them_again = session_test(
    _sessions, profile=tavern()
)


async def _edited(session: Session) -> None:
    await session.generate("a")
    await session.change(profile=tavern(name="edited", description="new"))
    await session.generate("b")
    assert await _values(session) == {"mood": "ab", "feed": ["a", "b"]}
    rows = await session.store.query("SELECT profile FROM chat_nodes WHERE variant = 1 ORDER BY node")
    assert [ref for (ref,) in rows] == ["tavern@1", "tavern@2"]

    await session.reset("mine")
    await session.change(profile=tavern(session_id="fresh"))
    assert await _values(session) == {} and await session.session_id(await session.profile()) == "fresh"


test_an_edited_profile_keeps_the_session_and_a_new_session_id_begins_one = session_test(
    _edited, profile=tavern()
)


async def _plain(session: Session) -> None:
    await session.generate("a")
    await session.change(profile=None)
    assert await _values(session) == {} and await session.sessions() == []
    assert (await session.generate("b")).operations == {}
    await session.change(profile=tavern(enabled=False))
    assert (await session.generate("c")).operations == {}
    await session.change(profile=tavern())
    assert await _values(session) == {"mood": "a", "feed": ["a"]}
    with pytest.raises(NotFound):
        await session.change(profile="nobody-has-this")


test_a_chat_without_a_profile_is_a_plain_conversation = session_test(_plain, profile=tavern())


# Failures


def _refusing(request: Any) -> str:
    if words(request) == "bad":
        raise ModelRefusedCall("not that")
    return echo(request)


def test_a_failed_turn_is_a_result_and_the_next_goes_on(tmp_path: Path) -> None:
    async def run() -> None:
        with opened(tmp_path, _refusing) as kernel:
            session = await Session.open(kernel, "c", model="m", profile=tavern())
            await session.generate("a")
            failed = await session.generate("bad")
            assert (failed.status, failed.text, failed.turn) == ("failed", "", 2)
            assert failed.failed and failed.failed["failed_type"] == "main_llm"
            assert failed.finish_reason == "policy_error"
            assert (await session.turn()).variants[0].status == "failed"
            assert (await session.generate("b")).turn == 3
            empty = await session.branch("x", at_turn=0)
            with pytest.raises(Conflict):
                await empty.regenerate()

    play(run())


async def _blocked(session: Session) -> None:
    failed = await session.generate("a")
    assert failed.failed and failed.failed["failed_type"] == "before_barrier"
    assert (failed.failed["operation"], failed.turn, failed.variant) == ("gate", 1, 0)
    assert failed.operations["gate"] == "error" and await _values(session) == {}
    again = await session.regenerate()
    assert (again.status, again.turn, again.variant) == ("failed", 1, 0)
    assert [(turn.user, turn.variants) for turn in await session.turns()] == [("a", ())]
    with pytest.raises(NotFound, match="it was asked, and has no reply yet"):
        await session.select_variant(1, 1)


test_what_fails_before_the_barrier_leaves_the_words_alone = session_test(
    _blocked,
    profile=tavern(
        operations=[
            template("mood", "x", tag="mood", hook="before_main_llm"),
            template("gate", "{{ 1 | divided_by: 0 }}", hook="before_main_llm", required=True, order=2),
        ]
    ),
)


class _Crash(BaseException):
    pass


def test_a_turn_that_was_asked_for_and_never_begun_is_resumed(tmp_path: Path) -> None:
    def crash(point: str) -> None:
        if point == "turn.asked":
            raise _Crash

    async def asked() -> None:
        with opened(tmp_path, fault=crash) as kernel:
            session = await Session.open(kernel, "c", model="m", profile=tavern())
            with pytest.raises(_Crash):
                await session.generate("a")

    async def resumed() -> None:
        with opened(tmp_path) as kernel:
            session = await Session.open(kernel, "c")
            with pytest.raises(Conflict, match="busy"):
                await session.generate("b")
            assert (await session.resume()).text == "re: a"
            assert (await session.resume()).text == "re: a"
            assert (await session.generate("b")).turn == 2

    play(asked())
    play(resumed())


def test_a_turn_that_never_begun_is_cancelled(tmp_path: Path) -> None:
    def crash(point: str) -> None:
        if point == "turn.asked" and faults:
            faults.pop()
            raise _Crash

    faults = [1]

    async def run() -> None:
        with opened(tmp_path, fault=crash) as kernel:
            session = await Session.open(kernel, "c", model="m")
            with pytest.raises(NotFound):
                await session.cancel()
            with pytest.raises(_Crash):
                await session.generate("a")
            await session.cancel()
            await session.cancel()
            assert (await session.resume()).status == "cancelled"
            assert (await session.generate("b")).text == "re: b"

    play(run())


def test_of_two_that_generate_at_once_one_is_told_to_wait(tmp_path: Path) -> None:
    async def run() -> None:
        gate = asyncio.Event()

        async def answer(request: Any) -> str:
            await gate.wait()
            return echo(request)

        with opened(tmp_path, answer) as kernel:
            session = await Session.open(kernel, "c", model="m")
            other = await session.branch("other")
            first = asyncio.ensure_future(session.generate("a"))
            while not (await session.branch_row()).run:
                await asyncio.sleep(0)
            with pytest.raises(Conflict, match="busy"):
                await session.generate("b")
            late = await session.branch("late", at_turn=0)  # as the Conflict advises
            beside = asyncio.gather(other.generate("c"), late.generate("d"))
            gate.set()
            assert (await first).text == "re: a"
            assert [one.text for one in await beside] == ["re: c", "re: d"]
            several = await asyncio.gather(
                *(session.generate(str(n)) for n in range(4)), return_exceptions=True
            )
            assert sum(isinstance(one, Conflict) for one in several) == 3

    play(run())


def test_a_cancelled_turn_keeps_what_it_said(tmp_path: Path) -> None:
    async def run() -> None:
        hold = asyncio.Event()

        async def answer(request: Any) -> str:
            if words(request) == "wait":
                await hold.wait()
            return echo(request)

        with opened(tmp_path, answer) as kernel:
            session = await Session.open(kernel, "c", model="m", profile=tavern())
            turn = asyncio.ensure_future(session.generate("wait"))
            while not (run_id := (await session.branch_row()).run) or not any(
                one.type == "main_llm.started" for one in await _seen(session, run_id)
            ):
                await asyncio.sleep(0.01)
            await session.cancel(note="enough")
            result = await turn
            assert (result.status, result.turn) == ("cancelled", 1)
            assert (await session.turn()).variants[0].status == "aborted"
            assert (await session.generate("b")).turn == 2
            assert [turn.user for turn in await session.turns()] == ["wait", "b"]

    play(run())


async def _seen(session: Session, run_id: str) -> list[Any]:
    try:
        return await session.events(run_id)
    except NotFound:
        return []


# The door


def test_a_chat_is_opened_again_by_its_id(tmp_path: Path) -> None:
    async def run() -> None:
        with opened(tmp_path) as kernel:
            session = await Session.open(
                kernel, "c", model="m", profile=tavern(), greetings="Hello", temperature=0.5
            )
            await session.generate("a")
            await session.branch("aside")
        with opened(tmp_path) as kernel:
            session = await Session.open(kernel, "c", branch="aside", session_id="two")
            assert await _values(session) == {}
            settings = await session.settings()
            assert (settings.params, settings.profile) == ({"temperature": 0.5}, "tavern")
            await Session.open(kernel, "c", system="Be brief.", temperature=None)
            settings = await session.settings()
            assert (settings.system, settings.params) == ("Be brief.", {})
            again = await Session.open(kernel, "c", greetings="Hello", model="m")
            assert await _values(again) == {"mood": "a", "feed": ["a"]}
            with pytest.raises(NotFound, match="main, aside"):
                await Session.open(kernel, "c", branch="none")
            listed = await kernel.for_tenant().chats()
            assert [one["chat_id"] for one in listed["items"]] == ["c"]

    play(run())


LONG = "x" * 1_000_001
DEEP: list[Any] = []
DEEP.append(DEEP)


@pytest.mark.parametrize(
    ("opening", "error"),
    [
        ({"chat_id": "a/b"}, InvalidRequest),
        ({"chat_id": ""}, InvalidRequest),
        ({"chat_id": 7}, InvalidRequest),
        ({"chat_id": "x" * 121}, InvalidRequest),
        ({"model": "no:body:knows"}, UnknownModel),
        ({"model": 7}, InvalidRequest),
        ({"model": None}, InvalidRequest),
        ({"branch": "a b"}, InvalidRequest),
        ({"branch": "other"}, NotFound),
        ({"user": 7}, InvalidRequest),
        ({"user": {"nick": "x"}}, InvalidRequest),
        ({"char": {"name": "x", "more": DEEP}}, InvalidRequest),
        ({"char": {"name": "\ud800"}}, InvalidRequest),
        ({"system": LONG}, InvalidRequest),
        ({"system": 7}, InvalidRequest),
        ({"greetings": [7]}, InvalidRequest),
        ({"greetings": ["x"] * 201}, InvalidRequest),
        ({"greetings": {"a": 1}}, InvalidRequest),
        ({"history_max": 0}, InvalidRequest),
        ({"history_max": True}, InvalidRequest),
        ({"deadline_s": float("nan")}, InvalidRequest),
        ({"deadline_s": -1}, InvalidRequest),
        ({"colour": "red"}, InvalidRequest),
        ({"temperature": "hot"}, InvalidRequest),
        ({"max_output_tokens": 0}, InvalidRequest),
        ({"profile": 7}, InvalidRequest),
        ({"profile": "not-there"}, NotFound),
        ({"session_id": "x"}, Conflict),
    ],
)
def test_what_is_no_chat_is_refused_at_the_door(
    store: Kernel, opening: dict[str, Any], error: type[ArtelierError]
) -> None:
    fields: dict[str, Any] = {"chat_id": "refused", "model": "m", **opening}

    with pytest.raises(error):
        play(Session.open(store, fields.pop("chat_id"), **fields))


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with opened(tmp_path_factory.mktemp("door")) as kernel:
        yield kernel


async def _words(session: Session) -> None:
    for text in ("", "  \n", 7, None, "\ud800", LONG):
        with pytest.raises(InvalidRequest):
            await session.generate(text)  # pyright: ignore[reportArgumentType] - hostile on purpose
    hostile: list[dict[str, Any]] = [{"deadline_s": 0}, {"colour": 1}, {"temperature": []}]
    for wrong in hostile:
        with pytest.raises(InvalidRequest):
            await session.generate("a", **wrong)
    for call in (session.regenerate, session.continue_):
        with pytest.raises(Conflict):
            await call()
    for number in (-1, 1.5, True, "1"):
        with pytest.raises(InvalidRequest):
            await session.rewind(number)  # pyright: ignore[reportArgumentType] - hostile on purpose
    with pytest.raises(NotFound):
        await session.rewind(3)
    with pytest.raises(NotFound):
        await session.show("d/r000001")
    with pytest.raises(InvalidRequest):
        await session.branch("a b")
    await session.rewind(0)
    assert await session.turns() == [] and (await session.row()).runs == 0


test_hostile_words_and_numbers_change_nothing = session_test(_words)


async def _foreign(session: Session) -> None:
    turns: list[Any] = [
        {"variants": ["Hello", "Hi"], "selected": 1},
        {"user": "a", "variants": ["one"]},
        {"user": "{{ art.secret }}"},
    ]
    assert await session.import_turns(turns) == 3
    assert [turn.text or turn.user for turn in await session.turns()] == ["Hi", "one", "{{ art.secret }}"]
    assert (await session.regenerate()).text == "re: {{ art.secret }}"
    for wrong in ([{}], [{"user": 7}], [{"variants": ["a"], "selected": 1}], 7, "x", [{"who": "a"}]):
        with pytest.raises(InvalidRequest):
            await session.import_turns(wrong)  # pyright: ignore[reportArgumentType] - hostile on purpose
    many: list[Any] = [{"user": f"t{n}", "variants": ["r"]} for n in range(1_200)]
    await session.import_turns(many)
    assert (await session.turn()).number == 1_202
    result = await session.generate("now")
    prompt = await kernel_of(session).render(result.run_id, "main/model")
    assert [one.text for one in prompt.messages[-3:]] == ["t1199", "r", "now"]


test_turns_from_elsewhere_are_data = session_test(_foreign)
