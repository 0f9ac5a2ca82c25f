"""Chats killed with `kill -9` at several points say and keep the same in the end."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from artelier import Kernel, Session
from artelier.errors import NotFound
from tests.end_to_end.test_kill_agent import kill_at
from tests.processes import WarmPython, run_warm

PROGRAM = """
import asyncio, json, sys
from artelier import Kernel, Session
from artelier.testing import ManualClock

STEPS = ["I attack the ogre with my sword.", "", "I take the rope.", "I strike the troll."]

async def main():
    kernel = Kernel.open("state.db", clock=ManualClock())  # the dice are thrown by the time of a run
    session = await Session.open(kernel, "c", model="offline", profile="rp-basic", user="Bob", char="Ann")
    runs = (await session.row()).runs
    if runs:
        await session.resume()
    for text in STEPS[runs:]:
        await (session.generate(text) if text else session.regenerate())
    turns = await session.turns()
    arts = await session.arts(internal=True)
    print(json.dumps({
        "said": [[turn.user, turn.selected, [one.text for one in turn.variants]] for turn in turns],
        "statuses": [one.status for turn in turns for one in turn.variants],
        "art": {tag: [one["version"], one["value"], one["run_id"]] for tag, one in arts.items()},
        "history": {tag: [[h["value"], h["run"]] for h in await session.history(tag, internal=True)]
                    for tag in arts},
    }))
    await kernel.aclose()

asyncio.run(main())
"""


def start(cwd: Path) -> subprocess.Popen[str]:
    (cwd / "program.py").write_text(PROGRAM)
    environ = {key: value for key, value in os.environ.items() if not key.startswith("ARTELIER_")}
    return WarmPython(
        [sys.executable, "program.py"],
        cwd=cwd,
        env=environ,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def finish(cwd: Path) -> dict[str, Any]:
    process = start(cwd)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, f"{out}\n{err}"
    return json.loads(out.splitlines()[-1])


@pytest.mark.slow
def test_a_killed_chat_says_and_keeps_the_same_as_an_undisturbed_one(tmp_path: Path) -> None:
    folders = {name: tmp_path / name for name in ("calm", "killed")}
    for folder in folders.values():
        folder.mkdir()
    expected = finish(folders["calm"])
    assert [len(variants) for _, _, variants in expected["said"]] == [2, 1, 1]
    assert set(expected["statuses"]) == {"done"} and len(expected["history"]["combat_log"]) == 2

    for name, stops in {"killed": [12, 95]}.items():
        database = folders[name] / "state.db"
        kills = sum(kill_at(start(folders[name]), database, count) for count in stops)
        assert finish(folders[name]) == expected, (name, kills)
        assert kills, name
        checked = run_warm(
            [sys.executable, "-m", "artelier", "verify", "--db", str(database), "--json"],
            capture_output=True,
            text=True,
        )
        assert checked.returncode == 0, checked.stdout + checked.stderr


# The command

SAID = ("My order 4711 is late.", "Write to ann@example.org, please.", "I want a refund.")


def talk(database: Path, *, runs: int) -> subprocess.Popen[str]:
    """`artelier chat` with all that was not said yet; what was said and not answered it takes up itself."""
    environ = {key: value for key, value in os.environ.items() if not key.startswith("ARTELIER_")}
    command = [sys.executable, "-m", "artelier", "chat", "tavern", "--db", str(database), "--json"]
    command += ["--profile", "support-desk", "--model", "offline", "--user", "Bob", "--char", "Ann"]
    for text in SAID[runs:]:
        command += ["--message", text]
    return WarmPython(
        command,
        cwd=database.parent,
        env=environ,
        text=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def seen(database: Path) -> tuple[int, Any]:
    """How many runs the chat has asked for, and what it shows."""

    async def read() -> tuple[int, Any]:
        with Kernel.open(database, environ={}) as kernel:
            try:
                session = await Session.open(kernel, "tavern")
            except NotFound:
                return 0, None
            turns = [(turn.user, turn.text, len(turn.variants)) for turn in await session.turns()]
            arts = await session.arts(internal=True)
            values = {tag: (one["version"], one["value"], one["run_id"]) for tag, one in arts.items()}
            return (await session.row()).runs, (turns, values)

    return asyncio.run(read())


@pytest.mark.slow
def test_the_command_killed_in_the_middle_of_replies_goes_on_with_them(tmp_path: Path) -> None:
    calm, killed = tmp_path / "calm" / "state.db", tmp_path / "killed" / "state.db"
    for database in (calm, killed):
        database.parent.mkdir()
    out, err = talk(calm, runs=0).communicate(timeout=120)
    assert len(out.splitlines()) == len(SAID), out + err

    kills, runs = 0, 0
    for count in (20, 75, 110):
        kills += kill_at(talk(killed, runs=runs), killed, count)
        runs, _ = seen(killed)
    process = talk(killed, runs=runs)
    out, err = process.communicate(timeout=120)

    assert process.returncode == 0 and kills >= 2, out + err
    assert seen(killed) == seen(calm)
    assert len(seen(calm)[1][0]) == len(SAID)
