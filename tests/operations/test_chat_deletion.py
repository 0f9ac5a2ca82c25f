"""Deleted words are in no byte of the database, nor are records that quoted them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from artelier import Kernel, ModelRequest, OperationProfile, Session
from artelier.errors import Conflict, InvalidRequest, NotFound
from artelier.log.contract import Row
from tests.operations.chats import Chat, kernel_of, opened, play, words
from tests.operations.profiles import template

WORDS = 'The kestrel-4417 hides below the seventh stair, "behind" the\nbroken clock.'
CANARY = b"kestrel-4417"
KEPT = {"max_versions": 100}


def profile(*operations: dict[str, Any]) -> OperationProfile:
    return OperationProfile.parse({"profile_id": "p", "operations": list(operations)})


RETELLS = profile(
    template("told", "{% for one in messages %}{{ one.content }} / {% endfor %}", hook="before_main_llm")
)
"""Each turn writes the conversation into its own record, not into the state of the chat."""


def bytes_of(folder: Path) -> bytes:
    return b"".join(
        file.read_bytes() for file in sorted(folder.iterdir()) if file.name.startswith("state.db")
    )


def holds(kernel: Kernel, folder: Path, canary: bytes = CANARY) -> bool:
    """Look through all bytes of the store, and all content that can still be read (it may be compressed)."""
    db = kernel.store
    for name in play(_names(db)):
        if canary in play(db.blobs("default", [name])).get(name, b""):
            return True
    return canary in bytes_of(folder)


async def _names(store: Any) -> list[bytes]:
    return [row[0] for row in await store.query("SELECT name FROM blobs")]


def plain(request: ModelRequest) -> str:
    return "noted" if CANARY.decode() in words(request) else f"re: {words(request)}"


async def begin(kernel: Kernel, **more: Any) -> Session:
    return await Session.open(kernel, "c", model="m", **more)


def test_the_words_of_a_deleted_turn_are_in_no_byte_and_the_turns_after_it_go_on(tmp_path: Path) -> None:
    with opened(tmp_path, plain) as kernel:

        async def run() -> Session:
            session = await begin(kernel)
            for text in ("first words", WORDS, "third words"):
                await session.generate(text)
            return session

        session = play(run())
        assert holds(kernel, tmp_path)

        done = play(session.delete_turn(2))

        assert done.is_erased and done.is_cleaned
        assert done.derived_runs == ("c/r000002", "c/r000003") and done.erased_runs == ("c/r000002",)
        assert done.unshown_runs == ()  # the branch shows what was said next
        assert not holds(kernel, tmp_path)
        turns = play(session.turns())
        assert [(one.user, one.text) for one in turns] == [
            ("first words", "re: first words"),
            ("third words", "re: third words"),
        ]
        assert play(session.generate("fourth")).text == "re: fourth"
        assert kernel.verify().findings == []


def test_a_run_that_made_a_later_reply_longer_was_shown_the_words_as_well(tmp_path: Path) -> None:
    """A random evening found it: the deletion named the run of that reply, and not the one that went on."""
    with opened(tmp_path, plain) as kernel:

        async def run() -> None:
            session = await begin(kernel)
            for text in (WORDS, "second"):
                await session.generate(text)
            await session.continue_()
            done = await session.delete_turn(1)
            assert done.derived_runs == ("c/r000001", "c/r000002", "c/r000003")
            assert done.erased_runs == ("c/r000001",) and done.unshown_runs == ()

        play(run())
        assert not holds(kernel, tmp_path)


def test_what_was_said_after_another_variant_of_a_deleted_turn_can_be_opened_and_deleted(
    tmp_path: Path,
) -> None:
    """The deletion named its run, and no command of the chat reached it."""
    with opened(tmp_path, plain) as kernel:

        async def run() -> None:
            session = await begin(kernel)
            for text in ("first", "second", WORDS):
                await session.generate(text)
            await session.rewind(2)
            await session.regenerate()
            done = await session.delete_turn(2)
            assert done.unshown_runs == ("c/r000003",)
            left = done.unshown_runs

            with pytest.raises(NotFound, match="is in this chat"):
                await session.branch("gone", at_run=done.erased_runs[0])
            with pytest.raises(InvalidRequest, match="one place"):
                await session.branch("both", at_turn=1, at_run=left[-1])
            back = await session.branch("back", at_run=left[-1])
            assert [turn.number for turn in await back.turns()] == [1, 3]
            assert await back.generate("fourth")
            assert (await session.delete_branch("back")).unshown_runs == ()

        play(run())
        assert not holds(kernel, tmp_path)
        assert kernel.verify().findings == []


def test_a_record_of_a_later_turn_that_quotes_the_words_goes_with_them(tmp_path: Path) -> None:
    with opened(tmp_path, plain) as kernel:

        async def run() -> Session:
            session = await begin(kernel, profile=RETELLS)
            for text in ("before all that", WORDS, "and after that"):
                await session.generate(text)
            return session

        session = play(run())
        done = play(session.delete_turn(2))
        assert done.erased_runs == ("c/r000002", "c/r000003")
        assert not holds(kernel, tmp_path)
        assert [one.text for one in play(session.turns())] == ["re: before all that", "re: and after that"]
        assert play(session.generate("go on")).status == "completed"
        request, gone = play(kernel.for_tenant(None).shown("c/r000003", "main/model"))
        shown = [one.text for one in request.messages]
        assert gone and "[erased]" in shown and WORDS not in shown
        assert kernel.verify().findings == []


def test_state_that_later_turns_stand_on_stays_and_is_listed_and_goes_with_the_newest_turn(
    tmp_path: Path,
) -> None:
    keeps = profile(template("log", "{{ reply }}", tag="log", write_mode="append", retention=KEPT))
    with opened(tmp_path, lambda request: f"re: {words(request)}") as kernel:

        async def run() -> Session:
            session = await begin(kernel, profile=keeps)
            for text in ("first", WORDS, "third"):
                await session.generate(text)
            return session

        session = play(run())
        done = play(session.delete_turn(2))
        assert done.derived_artifacts == ("log",)
        assert holds(kernel, tmp_path), "the state that turn 3 stands on"
        assert len(play(session.art("log"))) == 3

        play(session.delete_turn(3))
        assert play(session.art("log")) == ["re: first"]
        assert not holds(kernel, tmp_path)
        assert kernel.verify().findings == []


def test_a_deleted_variant_takes_its_reply_and_leaves_the_words_that_the_others_reply_to(
    tmp_path: Path,
) -> None:
    replies = iter(["kestrel-4417 flew off", "another one", "kestrel-4417 again", "third"])
    with opened(tmp_path, lambda request: next(replies)) as kernel:

        async def run() -> Session:
            session = await begin(kernel)
            await session.generate("where is it?")
            await session.regenerate()
            aside = await session.branch("aside")
            await aside.select_variant(1, 1)
            return session

        session = play(run())
        done = play(session.delete_variant(1, 1))
        assert done.erased_runs == ("c/r000001",) and not holds(kernel, tmp_path)
        assert play(session.turn()).user == "where is it?"
        play(session.continue_())
        assert holds(kernel, tmp_path)
        play(session.regenerate())
        play(session.delete_variant(1, 2))
        assert not holds(kernel, tmp_path), "the longer reply, too"
        assert play(session.turn()).text == "third"
        assert kernel.verify().findings == []


def test_words_that_were_revised_go_with_their_message_and_so_do_other_wordings(tmp_path: Path) -> None:
    with opened(tmp_path, lambda request: "fine") as kernel:

        async def run() -> Session:
            session = await begin(kernel)
            await session.generate("a plain beginning")
            await session.generate(WORDS)
            await session.revise("other words altogether", turn=2, role="user")
            await session.regenerate("kestrel-4417 reworded for this variant")
            await session.generate("a plain end")
            return session

        session = play(run())
        assert holds(kernel, tmp_path)
        play(session.delete_turn(2))
        assert not holds(kernel, tmp_path)
        assert kernel.verify().findings == []


def test_a_deleted_branch_takes_what_it_alone_said_and_a_deleted_chat_takes_all(tmp_path: Path) -> None:
    with opened(tmp_path, lambda request: "fine") as kernel:

        async def run() -> Session:
            session = await begin(kernel, greetings=["A greeting of ptarmigan-9"], system="osprey-31 speaks")
            await session.generate("shared gannet-22 words")
            aside = await session.branch("aside")
            await aside.generate(WORDS)
            await aside.generate("more of it")
            await session.rename("The title puffin-5")
            return session

        session = play(run())
        done = play(session.delete_branch("aside"))
        assert done.is_erased and len(done.erased_runs) == 2
        assert not holds(kernel, tmp_path)
        assert holds(kernel, tmp_path, b"gannet-22")
        assert play(session.turn()).text == "fine"
        play(session.delete_chat())
        for canary in (b"gannet-22", b"ptarmigan-9", b"osprey-31", b"puffin-5"):
            assert not holds(kernel, tmp_path, canary), canary
        assert kernel.verify().findings == []


def test_equal_words_elsewhere_stay_and_a_turn_that_was_cancelled_unbegun_leaves_nothing(
    tmp_path: Path,
) -> None:
    with opened(tmp_path, lambda request: "fine") as kernel:

        async def run() -> tuple[Session, Session]:
            session, other = await begin(kernel), await Session.open(kernel, "d", model="m")
            await other.generate(WORDS)
            await session.generate("a")
            await session.ask(WORDS)
            await session.cancel()
            return session, other

        session, other = play(run())
        play(session.delete_turn())
        assert [one.user for one in play(other.turns())] == [WORDS]
        play(other.delete_turn())
        assert not holds(kernel, tmp_path)
        assert play(session.generate("b")).text == "fine"
        assert kernel.verify().findings == []


def test_turns_from_elsewhere_and_sealed_content_are_erased_as_well(tmp_path: Path) -> None:
    with opened(tmp_path, lambda request: "fine") as kernel:

        async def run() -> Session:
            session = await begin(kernel)
            turns = [{"user": "one"}, {"user": WORDS, "variants": ["x", "kestrel-4417"], "selected": 1}]
            await session.import_turns(turns)
            await session.generate("b")
            return session

        session = play(run())
        done = play(session.delete_turn(2))
        assert done.is_erased and not holds(kernel, tmp_path)
        assert [one.user for one in play(session.turns())] == ["one", "b"]
        assert kernel.verify().findings == []


def test_a_chat_goes_out_and_comes_in_without_what_was_deleted_and_can_be_deleted_from_there(
    tmp_path: Path,
) -> None:
    path, there = tmp_path / "c.artelier", tmp_path / "there"
    there.mkdir()
    with opened(tmp_path, plain) as kernel:

        async def run() -> None:
            session = await begin(kernel)
            for text in ("first words", WORDS, "third words of gannet-22"):
                await session.generate(text)
            await session.delete_turn(2)
            await kernel_of(session).export_chat("c", path)

        play(run())
    with opened(there, plain) as kernel:
        play(kernel.for_tenant().import_chat(path))
        assert kernel.verify().findings == []
        session = play(Session.open(kernel, "c"))
        assert [one.user for one in play(session.turns())] == ["first words", "third words of gannet-22"]
        assert play(session.generate("fourth")).text == "re: fourth"
        done = play(session.delete_turn(3))
        assert done.is_erased and not holds(kernel, there, b"gannet-22")
        assert kernel.verify().findings == []
        play(kernel.for_tenant().export_chat("c", path))


def test_words_of_an_older_chat_stay_and_the_deletion_says_so(tmp_path: Path) -> None:
    with opened(tmp_path, plain) as kernel:

        async def run() -> tuple[Session, Any]:
            await kernel.for_tenant().state()
            chat = await Chat(kernel).begin()
            await chat.turn(text=WORDS, scope="")
            session = await Session.open(kernel, "c", model="m")
            return session, await session.delete_turn()

        session, done = play(run())
        assert not done.is_erased and not done.is_cleaned
        assert play(session.turns()) == []
        assert kernel.verify().findings == []


TRIED: dict[str, Any] = {
    "operation_id": "told",
    "kind": "llm",
    "order": 1,
    "hooks": ["after_main_llm"],
    "params": {"prompt": "Repeat: {% for one in messages %}{{ one.content }} / {% endfor %}", "effects": []},
}


@pytest.mark.parametrize("way", ["draft", "trial"])
def test_words_are_not_deleted_under_somebody_who_is_still_writing_of_them(tmp_path: Path, way: str) -> None:
    """A draft, or an operation that is tried again, was shown them and would write them down afterwards."""
    asked, answers, is_held = asyncio.Event(), asyncio.Event(), [False]

    async def model(_: ModelRequest) -> str:
        if not is_held[0]:
            return "ok then"
        asked.set()
        await answers.wait()
        return f"I say: {WORDS}"

    async def scenario() -> None:
        with opened(tmp_path, model) as kernel:
            session = await begin(kernel, profile=profile(TRIED))
            last = [(await session.generate(text)).run_id for text in ("first words", WORDS, "third")][-1]
            is_held[0] = True
            doing = session.impersonate() if way == "draft" else session.run_operation(last, "told")
            writing = asyncio.ensure_future(doing)
            await asked.wait()
            with pytest.raises(Conflict, match="has not ended") as busy:
                await session.delete_turn(2)
            assert busy.value.facts["run"] in busy.value.hint
            answers.set()
            await writing
            assert (await session.delete_turn(2)).is_erased
            assert kernel.verify().findings == []
            for name in await _names(kernel.store):
                assert CANARY not in (await kernel.store.blobs("default", [name])).get(name, b"")
            assert CANARY not in bytes_of(tmp_path)

    play(scenario())


@pytest.mark.parametrize("turn", (1, 700))
def test_the_event_loop_reads_little_for_the_deletion_of_one_of_many_turns(tmp_path: Path, turn: int) -> None:
    """Of a chat of 40,000 turns it read all nodes and events, and held up everybody for a second."""

    async def scenario() -> None:
        with opened(tmp_path) as kernel:
            session = await Session.open(kernel, "c", model="m")
            await session.import_turns([{"user": f"w{n}", "variants": [f"r{n}"]} for n in range(700)])
            query, read = kernel.store.query, list[int]()

            async def counted(sql: str, parameters: Sequence[object] = ()) -> list[Row]:
                rows = await query(sql, parameters)
                read.append(len(repr(rows)))
                return rows

            monkey.setattr(kernel.store, "query", counted)
            await session.delete_turn(turn)
            assert sum(read) < 20_000

    with pytest.MonkeyPatch.context() as monkey:
        play(scenario())
