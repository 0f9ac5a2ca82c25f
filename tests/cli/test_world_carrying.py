"""`world hash|diff|fork|export|import`: worlds through time and from one folder to another."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from artelier.cli import exit_codes
from tests.cli.conftest import Shell

RULES = """
def give(facts):
    if facts["agent_id"] == "ana":
        amount = 3 if facts["balance"] > 94 else 1
        return {"action": "transfer", "to": "bob", "amount": amount}

POLICIES = {"give": give}
"""

WORLD = """
[world]
seed = 5

[[agents]]
id = "ana"
policy = "give"

[[agents]]
id = "bob"
policy = "give"

[[artifacts]]
id = "slogan"
kind = "prompt"
owner = "ana"
content = { template = "Buy \\u001b[31mred.", variables = [] }
"""


@pytest.fixture
def village(shell: Shell) -> Shell:
    shell.write("rules.py", RULES)
    file = shell.write("village.toml", WORLD)
    assert shell("world", "new", "village", "--file", str(file)).code == exit_codes.COMPLETED
    run(shell, "village", 4)
    return shell


def run(shell: Shell, name: str, ticks: int, *more: str) -> None:
    words = ("--ticks", str(ticks), "--policies", "rules.py", *more)
    assert shell("world", "run", name, *words).code == exit_codes.COMPLETED


def hash_of(shell: Shell, name: str, *more: str) -> str:
    return shell("world", "hash", name, "--json", *more).json["sha256"]


def test_a_hash_is_one_line_and_that_of_a_tick_stays(village: Shell) -> None:
    ran = village("world", "hash", "village", "--at", "2")
    found = village("world", "hash", "village", "--json").json
    run(village, "village", 1)

    assert (ran.code, len(ran.out)) == (exit_codes.COMPLETED, 65)
    assert "village up to tick 2" in ran.err
    assert set(found) == {"world", "tick", "events", "sha256"} and found["tick"] == 4
    assert hash_of(village, "village", "--at", "2") == ran.out.strip()
    assert hash_of(village, "village", "--at", "4") == found["sha256"]
    assert hash_of(village, "village") != found["sha256"]


def test_a_fork_goes_its_own_way_from_its_tick(village: Shell) -> None:
    forked = village("world", "fork", "village", "--at", "2", "--json")
    same = hash_of(village, "village.fork-1") == hash_of(village, "village", "--at", "2")
    run(village, "village.fork-1", 2)
    equal = village("world", "diff", "village", "village.fork-1")

    assert forked.json == {
        "world": "village.fork-1",
        "parent": "village",
        "tick": 2,
        "changed": [],
        "settings": [],
    }
    assert same
    assert equal.out == "no difference: village and village.fork-1 are both at tick 4\n"
    shown = village("world", "list")
    assert "village, tick 2" in shown.out


def test_a_fork_with_a_prompt_and_a_setting_changed_says_where_it_differs(village: Shell) -> None:
    text = village.write("slogan.md", "Buy blue.")
    forked = village(
        "world",
        "fork",
        "village",
        "--at",
        "2",
        "--id",
        "blue",
        "--with",
        f"slogan=@{text}",
        "--set",
        'actions=["noop"]',
    )
    run(village, "blue", 2)
    shown = village("world", "diff", "village", "blue")
    found = village("world", "diff", "village", "blue", "--json").json

    assert forked.out == "blue branches off village after tick 2\n"
    assert "artelier world run blue" in forked.err
    assert "diverges after tick 2: ana, artifact.written only in blue" in shown.out
    assert "diverges at tick 3: ana, action.taken or action.rejected" in shown.out
    assert "slogan@1/2" in shown.out and "transfer, rejected 0/2" in shown.out
    assert "\x1b" not in shown.out
    assert found["first"]["b"]["data"]["content"] == '{"template":"Buy blue.","variables":[]}'
    assert found["first_tick"]["tick"] == 3
    assert found["agents"]["bob"]["balance"]["b"] == 106


def test_worlds_that_are_not_equally_far_are_compared_as_far_as_they_go(village: Shell) -> None:
    village("world", "fork", "village", "--at", "3", "--id", "behind")

    shown = village("world", "diff", "village", "behind")

    assert "no difference up to tick 3; village is at tick 4, behind at tick 3" in shown.out


def test_a_world_is_carried_to_another_folder_and_goes_on(
    village: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    exported = village("world", "export", "village", "v.artelier", "--json").json
    before = hash_of(village, "village")
    run(village, "village", 3)
    after = hash_of(village, "village")
    elsewhere = village.folder / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    shell = Shell(elsewhere, village._capsys, village._environ)  # pyright: ignore[reportPrivateUsage] - the same terminal
    shell.write("rules.py", RULES)

    imported = shell("world", "import", "../v.artelier", "--tenant", "acme", "--json").json
    again = shell("world", "import", "../v.artelier", "--tenant", "acme")
    twin = shell("world", "import", "../v.artelier", "--tenant", "acme", "--id", "twin")

    assert (imported["world"], imported["tick"], imported["origin"]) == ("village", 4, "village")
    assert imported["sha256"] == exported["sha256"] and imported["events"] == exported["events"]
    assert again.code == exit_codes.FAILED and "there is a world village already" in again.err + again.out
    assert "world twin, tick 4" in twin.out
    tenant = ("--tenant", "acme")
    assert hash_of(shell, "village", *tenant) == hash_of(shell, "twin", *tenant) == before
    run(shell, "village", 3, *tenant)
    assert hash_of(shell, "village", *tenant) == after
    assert shell("verify").code == exit_codes.COMPLETED


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["hash", "nowhere"], exit_codes.NOT_FOUND),
        (["hash", "village", "--at", "9"], exit_codes.USAGE),
        (["hash", "village", "--at", "-1"], exit_codes.USAGE),
        (["diff", "village", "nowhere"], exit_codes.NOT_FOUND),
        (["fork", "nowhere"], exit_codes.NOT_FOUND),
        (["fork", "village", "--at", "9"], exit_codes.USAGE),
        (["fork", "village", "--id", "village"], exit_codes.FAILED),
        (["fork", "village", "--id", "a b"], exit_codes.USAGE),
        (["fork", "village", "--with", "slogan"], exit_codes.USAGE),
        (["fork", "village", "--with", "nothing=x"], exit_codes.NOT_FOUND),
        (["fork", "village", "--with", "slogan=@gone.md"], exit_codes.NOT_FOUND),
        (["fork", "village", "--with", "slogan=a", "--with", "slogan=b"], exit_codes.USAGE),
        (["fork", "village", "--with", "slogan={who_knows}"], exit_codes.USAGE),
        (["fork", "village", "--set", "colour=1"], exit_codes.USAGE),
        (["fork", "village", "--set", "seed=1"], exit_codes.USAGE),
        (["export", "nowhere", "x.artelier"], exit_codes.NOT_FOUND),
        (["export", "village", "no/such/folder/x.artelier"], exit_codes.FAILED),
        (["import", "gone.artelier"], exit_codes.NOT_FOUND),
        (["import", "rules.py"], exit_codes.CORRUPT),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_cannot_be_is_refused_with_its_exit_code(village: Shell, words: list[str], code: int) -> None:
    ran = village("world", *words)
    wire = village("world", *words, "--json")

    assert (ran.code, wire.code) == (code, code)
    assert "Traceback" not in ran.err and "mistake of Artelier" not in ran.err
    assert wire.error["message"]
    assert [one["id"] for one in village("world", "list", "--json").json["items"]] == ["village"]
    assert not Path("x.artelier").exists()


@pytest.mark.parametrize("damage", ["cut", "flip", "run"])
def test_a_damaged_file_leaves_nothing_behind(village: Shell, damage: str) -> None:
    village("world", "export", "village", "v.artelier")
    file = village.folder / "v.artelier"
    content: Any = bytearray(file.read_bytes())
    if damage == "cut":
        del content[len(content) // 2 :]
    elif damage == "flip":
        content[len(content) // 2] ^= 0xFF
    file.write_bytes(content)
    command = ("import",) if damage == "run" else ("world", "import")

    ran = village(*command, "v.artelier", "--db", "other.db")

    assert ran.code == exit_codes.CORRUPT and "Traceback" not in ran.err
    if damage == "run":
        assert "artelier world import" in ran.err
    assert village("world", "list", "--db", "other.db", "--json").json["items"] == []
