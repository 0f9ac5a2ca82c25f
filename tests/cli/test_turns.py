"""Runs that are turns of chats, under the commands for runs."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from artelier import Kernel, Session
from artelier.errors import Conflict
from artelier.testing.faults import Fault
from tests.cli.conftest import Provider, Shell

WORDS = "Good evening."


def cut_off(database: Path, *, events: int) -> str:
    """A turn whose process stops in the middle; its reply if that had not been."""

    async def scenario() -> str:
        with Kernel.open(database, environ={}) as kernel:
            calm = await Session.open(kernel, "calm", model="offline", profile="rp-basic")
            text = (await calm.generate(WORDS)).text
            session = await Session.open(kernel, "c", model="offline", profile="rp-basic")
            items = session.stream(WORDS)
            for _ in range(events):
                await anext(items)
            await items.aclose()
            assert (await session.branches())[0]["status"] not in ("completed", "failed")
            return text

    return asyncio.run(scenario())


@pytest.mark.parametrize("command", [("resume",), ("runs", "resume")])
def test_a_turn_that_was_cut_off_is_driven_to_its_end(shell: Shell, command: tuple[str, ...]) -> None:
    text = cut_off(shell.folder / "s.db", events=9)
    advice = shell("runs", "show", "c/r000001", "--db", "s.db")
    assert "artelier resume c/r000001 --db s.db" in advice.out + advice.err

    ended = shell(*command, "c/r000001", "--db", "s.db", "--json")
    again = shell(*command, "c/r000001", "--db", "s.db")
    replayed = shell("replay", "c/r000001", "--db", "s.db")

    assert ended.code == 0, ended.err
    assert (ended.json["status"], ended.json["text"], ended.json["file"]) == ("completed", text, None)
    assert again.code == 0 and again.out.strip() == text.strip()
    assert not (shell.folder / "artelier-out").exists()  # a reply is in its chat
    assert replayed.code == 0 and "0 model calls" in replayed.err
    assert shell("verify", "--db", "s.db").code == 0


def test_a_continued_reply_is_shown_whole(shell: Shell) -> None:
    async def scenario() -> str:
        with Kernel.open("s.db", environ={}) as kernel:
            session = await Session.open(kernel, "c", model="offline")
            await session.generate("Hello.")
            return (await session.continue_()).text

    text = asyncio.run(scenario())

    shown = shell("resume", "c/r000002", "--db", "s.db")

    assert shown.code == 0 and shown.out.strip() == text.strip()


def test_a_failed_turn_is_not_reopened_but_regenerated(shell: Shell, provider: Provider) -> None:
    provider.says(Fault.status(400, "no such thing"), "Hello again.")
    failed = shell("chat", "c", "--message", "Hello", "--db", "s.db")
    assert failed.code == 1, failed.err

    shown = shell("runs", "show", "c/r000001", "--db", "s.db")
    refused = shell("retry", "c/r000001", "--db", "s.db", "--json")
    resumed = shell("resume", "c/r000001", "--db", "s.db")

    told = shown.out + shown.err
    assert "artelier chat c --db s.db, then /regenerate" in told and "retry" not in told
    assert (refused.code, refused.error["code"]) == (1, "conflict")
    assert "session.regenerate()" in refused.error["hint"]
    assert "/regenerate" in refused.error["hint"]
    assert resumed.code == 1 and "retry" not in resumed.err

    async def regenerated() -> tuple[str, str]:
        with Kernel.open("s.db") as kernel:
            with pytest.raises(Conflict, match="turn of chat 'c'"):
                await kernel.for_tenant().retry("c/r000001")
            session = await Session.open(kernel, "c")
            result = await session.regenerate()
            return result.status, result.text

    assert asyncio.run(regenerated()) == ("completed", "Hello again.")
    assert shell("verify", "--db", "s.db").code == 0


def test_a_fork_of_a_turn_says_that_it_is_not_driven(shell: Shell) -> None:
    cut_off(shell.folder / "s.db", events=1)

    forked = shell("fork", "calm/r000001", "--at", "5", "--db", "s.db")
    driven = shell("resume", "calm/r000001.fork-1", "--db", "s.db")
    named = shell("fork", "calm/r000001", "--run-id", "mine", "--db", "s.db")

    assert forked.code == 0
    for ran in (forked, named):
        told = ran.out + ran.err
        assert "artelier chat calm" in told and "artelier resume" not in told
    assert driven.code == 2 and "Regenerate the turn" in driven.err


def test_a_goal_is_not_given_to_a_turn(shell: Shell) -> None:
    cut_off(shell.folder / "s.db", events=1)
    shell.write("data/a.csv", "a\n1\n")

    ran = shell(
        "do",
        "Say hello",
        "--workspace",
        "data",
        "--run-id",
        "c/r000001",
        "--db",
        "s.db",
        "--model",
        "offline",
    )

    assert ran.code == 2 and "turn of chat 'c'" in ran.err
