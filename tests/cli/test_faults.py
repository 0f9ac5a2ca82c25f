"""What can go wrong with a database or a request: one clear error each, an exit code, and nothing changed."""

from __future__ import annotations

import random
import sqlite3
from pathlib import Path

import pytest

from artelier.log.sqlite.schema import SCHEMA_VERSION
from tests.cli.conftest import Shell


def test_a_file_of_random_bytes_is_refused_as_damaged_and_left_alone(shell: Shell) -> None:
    content = random.Random(1).randbytes(5000)
    (shell.folder / "random.db").write_bytes(content)

    ran = [shell(*words, "--db", "random.db") for words in (("runs", "list"), ("verify",), ("head",))]

    assert [one.code for one in ran] == [7, 7, 7]
    assert all("damaged" in one.err for one in ran)
    assert (shell.folder / "random.db").read_bytes() == content


def test_a_database_of_something_else_is_refused_and_left_alone(shell: Shell) -> None:
    path = shell.folder / "other.db"
    db = sqlite3.connect(path)
    db.execute("CREATE TABLE shopping(item TEXT)")
    db.commit()
    db.close()
    before = path.read_bytes()

    ran = shell("db", "migrate", "--db", "other.db")

    assert ran.code == 7
    assert "something else" in ran.err
    assert path.read_bytes() == before


def test_a_newer_schema_is_refused_and_left_alone(shell: Shell) -> None:
    shell("db", "migrate", "--db", "newer.db")
    path = shell.folder / "newer.db"
    db = sqlite3.connect(path)
    db.execute("PRAGMA user_version = 99")
    db.close()
    before = path.read_bytes()

    ran = shell("runs", "list", "--db", "newer.db", "--json")

    assert ran.code == 7
    assert ran.error["code"] == "newer_schema"
    assert "Upgrade Artelier" in ran.error["hint"]
    assert path.read_bytes() == before
    db = sqlite3.connect(path)  # as the check after each test wants to find it
    db.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
    db.close()


@pytest.mark.parametrize("path", ["/proc/nowhere/state.db", "file/state.db", "folder"])
def test_a_place_that_cannot_hold_a_database_is_named(shell: Shell, path: str) -> None:
    shell.write("file", "in the way")
    (shell.folder / "folder").mkdir()

    ran = shell("db", "migrate", "--db", path)

    assert ran.code == 1
    assert "error: the " in ran.err
    assert "Traceback" not in ran.err


@pytest.mark.parametrize(
    "words",
    [
        ["runs", "list"],
        ["runs", "show", "x"],
        ["runs", "tail", "x"],
        ["resume", "x"],
        ["approve", "x"],
        ["verify"],
        ["head"],
        ["tenants", "list"],
        ["artifacts", "list"],
        ["manifest", "show", "x:y"],
        ["signal", "x", "y"],
        ["fork", "x"],
        ["diff", "x", "y"],
    ],
    ids=" ".join,
)
def test_a_command_that_reads_makes_no_database(shell: Shell, words: list[str]) -> None:
    ran = shell(*words)

    assert ran.code == 6
    assert "no database here" in ran.err
    assert list(shell.folder.iterdir()) == []


@pytest.mark.parametrize(
    "words",
    [
        ["runs", "show"],
        ["runs", "tail"],
        ["runs", "tree"],
        ["runs", "cost"],
        ["runs", "steps"],
        ["resume"],
        ["retry"],
        ["cancel"],
        ["pause"],
        ["step"],
        ["approve"],
        ["runs", "stop"],
        ["fork"],
    ],
    ids=" ".join,
)
def test_an_unknown_run_is_not_found(shell: Shell, words: list[str]) -> None:
    shell("db", "migrate")

    ran = shell(*words, "nobody", "--json")

    assert ran.code == 6
    assert ran.error["code"] == "not_found"
    assert ran.error["hint"] is not None


@pytest.mark.parametrize(
    ("words", "option"),
    [
        (["approve", "r", "--arguments", "{amount: 5}"], "--arguments"),
        (["reconcile", "r", "1", "--succeeded", "{"], "--succeeded"),
        (["signal", "r", "go", "not json"], "the data"),
    ],
)
def test_bad_json_is_refused_before_anything_happens(shell: Shell, words: list[str], option: str) -> None:
    shell("db", "migrate")

    ran = shell(*words)

    assert ran.code == 2
    assert f"{option} is not JSON" in ran.err


@pytest.mark.parametrize(
    "words",
    [
        ["runs", "list", "--status", "asleep"],
        ["runs", "list", "--limit", "0"],
        ["runs", "tail", "x", "--after", "-1"],
        ["verify", "--head", "abc"],
        ["manifest", "show", "no-colon"],
        ["artifacts", "show", "a@b@c"],
        ["artifacts", "diff", "a", "1", "1"],
        ["approve", "x", "--deny", "--arguments", "{}"],
        ["tenants", "update"],
        ["tenants", "update", "--budget-usd", "5", "--unlimited"],
        ["tenants", "update", "--budget-usd", "five"],
        ["runs", "list", "--tenant", "no spaces"],
        ["fork", "x", "--with", "nothing"],
        ["resume", "x", "--limit", "usd=5"],
        ["--db", "mysql://host/db", "runs", "list"],
    ],
    ids=" ".join,
)
def test_wrong_arguments_end_with_2(shell: Shell, words: list[str]) -> None:
    shell("db", "migrate")

    ran = shell(*words)

    assert ran.code == 2
    assert ran.err.startswith("error: ")
    assert "Traceback" not in ran.err


def test_an_unexpected_error_is_short_and_its_traceback_can_be_asked_for(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    shell("db", "migrate")

    def breaks(*_: object) -> Path:
        raise RuntimeError("a mistake of ours")

    monkeypatch.setattr("artelier.cli.call.CliCall.existing", breaks)

    short = shell("head")
    shell.set("ARTELIER_DEBUG", "1")
    long = shell("head")

    assert short.code == long.code == 1
    assert "RuntimeError: a mistake of ours" in short.err
    assert "ARTELIER_DEBUG=1" in short.err
    assert "Traceback" not in short.err
    assert "Traceback" in long.err


@pytest.mark.corrupts
def test_damage_is_found_named_and_ends_with_7(shell: Shell) -> None:
    shell("tenants", "update", "--budget-usd", "5")
    db = sqlite3.connect(shell.folder / ".artelier/state.db")
    db.execute("UPDATE events SET data = replace(data, '5000000', '9000000')")
    db.commit()
    db.close()

    shown = shell("verify")
    found = shell("verify", "--json").json

    assert shown.code == 7
    assert "is not what was written" in shown.out
    assert found["ok"] is False
    assert found["findings"]
