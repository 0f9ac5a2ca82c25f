"""Words that a person need not type: drafts by the model and quick replies; tokens of each message."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from artelier import ModelRequest, Session
from artelier.errors import External, InvalidRequest
from artelier.tokens import estimate_tokens
from tests.operations.chats import kernel_of, opened, play, requests_of, words
from tests.operations.profiles import tavern


def test_a_draft_of_the_persons_words_sees_the_conversation_and_changes_nothing(tmp_path: Path) -> None:
    def answer(request: ModelRequest) -> str:
        is_draft = any("message of Ann" in one.text for one in request.messages)
        return "Ann: I open the door" if is_draft else f"re: {words(request)}"

    async def run() -> None:
        with opened(tmp_path, answer) as kernel:
            session = await Session.open(kernel, "c", model="m", user="Ann", char="Mira", profile=tavern())
            await session.generate("hello there")
            before = (await session.turns(), await session.arts(internal=True), (await session.row()).runs)

            draft = await session.impersonate()

            assert (draft.text, draft.run_id) == ("I open the door", "c/draft-000001")
            assert (
                await session.turns(),
                await session.arts(internal=True),
                (await session.row()).runs,
            ) == before
            asked = requests_of(session)[-1]
            shown = [one.text for one in asked.messages]
            assert "hello there" in shown and "re: hello there" in shown
            rendered, gone = await kernel_of(session).shown(draft.run_id, "main/model")
            assert rendered.canonical() == asked.canonical() and not gone
            said = await session.generate(draft.text)
            assert said.text == "re: I open the door"
            assert (await session.impersonate()).run_id == "c/draft-000002"
            assert kernel.verify().findings == []

    play(run())


def test_a_draft_in_a_group_keeps_the_persons_words_alone_and_a_failure_says_why(tmp_path: Path) -> None:
    replies = iter(["hi", "Ann: Let us go\nBob: No", External("down")])

    def answer(request: ModelRequest) -> Any:
        found = next(replies)
        if isinstance(found, Exception):
            raise found
        return found

    async def run() -> None:
        with opened(tmp_path, answer) as kernel:
            group = [{"name": "Mira"}, {"name": "Bob"}]
            session = await Session.open(kernel, "c", model="m", user="Ann", group=group)
            await session.generate("hello")
            assert (await session.impersonate()).text == "Let us go"
            with pytest.raises(External, match="wrote nothing"):
                await session.impersonate()
            assert kernel.verify().findings == []

    play(run())


def test_a_draft_that_quotes_deleted_words_goes_with_them(tmp_path: Path) -> None:
    async def run() -> None:
        with opened(tmp_path, lambda request: "fine") as kernel:
            session = await Session.open(kernel, "c", model="m")
            await session.generate("kestrel-4417 hides below the stair")
            await session.impersonate()
            done = await session.delete_turn()
            assert done.is_erased
            for (name,) in await session.store.query("SELECT name FROM blobs"):
                assert b"kestrel" not in (await session.store.blobs("default", [name])).get(name, b"")
            assert kernel.verify().findings == []

    play(run())


def test_quick_replies_are_settings_that_are_checked(tmp_path: Path) -> None:
    async def run() -> None:
        with opened(tmp_path) as kernel:
            session = await Session.open(kernel, "c", model="m")
            await session.change(quick_replies=[{"label": "Go on", "text": "Tell me more."}])
            (kept,) = (await session.settings()).quick_replies
            assert (kept.label, kept.text) == ("Go on", "Tell me more.")
            for wrong in (
                "x",
                [{"label": "a"}],
                [{"label": "", "text": "b"}],
                [{"label": "a", "text": " "}],
                [{"label": "a", "text": "b"}] * 2,
                [{"label": str(n), "text": "b"} for n in range(51)],
            ):
                with pytest.raises(InvalidRequest):
                    await session.change(quick_replies=wrong)
            await session.change(quick_replies=None)
            assert (await session.settings()).quick_replies == ()

    play(run())


def test_each_message_says_its_tokens(tmp_path: Path) -> None:
    async def run() -> None:
        with opened(tmp_path) as kernel:
            session = await Session.open(kernel, "c", model="m")
            await session.generate("How many tokens are these words?")
            turn = await session.turn()
            assert turn.user_tokens == estimate_tokens("How many tokens are these words?") > 0
            assert turn.variants[0].tokens == estimate_tokens(turn.text) > turn.user_tokens

    play(run())
