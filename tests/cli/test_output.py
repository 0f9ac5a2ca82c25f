"""What reaches a terminal is text, never a command to it; what reaches a script is JSON or exact bytes."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from artelier.cli import display
from artelier.cli.display import Screen
from artelier.cli.exit_codes import text_of
from tests.cli.conftest import Shell
from tests.cli.terminal import on_terminal

HOSTILE = "\x1b[31mred\x1b[0m \x9b1m \u202edesrever \x07\x08 a\rb\r\nc\x00\x7f\u2028"


@given(st.text())
def test_nothing_that_a_terminal_obeys_is_left(text: str) -> None:
    shown = display.safe(text)

    assert not any((ord(char) < 32 and char not in "\t\n") or 127 <= ord(char) < 160 for char in shown)
    assert not set(shown) & set("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u2028\u2029")
    shown.encode()


@given(st.text(alphabet=st.characters(exclude_categories=("Cc", "Cf", "Zl", "Zp", "Cs"))))
def test_harmless_text_is_left_as_it_is(text: str) -> None:
    assert display.safe(text) == text


@given(st.text(alphabet=st.characters(exclude_categories=("Cs",))))
def test_json_on_a_terminal_is_harmless_and_still_the_same_json(text: str) -> None:
    shown = display.json_text({"value": text})

    assert json.loads(shown) == {"value": text}
    assert display.safe(shown) == shown


@given(st.text(), st.integers(2, 200))
def test_a_line_is_one_line_and_no_longer_than_told(text: str, most: int) -> None:
    shown = display.line(text, chars_max=most)

    assert "\n" not in shown
    assert len(shown) <= most


def test_every_way_out_of_the_screen_is_escaped(capsys: pytest.CaptureFixture[str]) -> None:
    screen = Screen(as_json=False)

    screen.line(HOSTILE)
    screen.note(HOSTILE)
    screen.facts([(HOSTILE, HOSTILE)])
    screen.table(("a", ">b"), [(HOSTILE, HOSTILE)], empty="")
    screen.json({"a": HOSTILE})

    out, err = capsys.readouterr()
    out += text_of({"message": HOSTILE, "expected": HOSTILE, "got": HOSTILE, "hint": HOSTILE})
    assert display.safe(out) == out
    assert display.safe(err) == err
    assert "\\x1b[31mred" in out


def test_errors_name_hostile_arguments_harmlessly(shell: Shell) -> None:
    shell("db", "migrate")

    ran = shell("runs", "show", "a\x1b[2J\u202eb")

    assert ran.code == 6
    assert "\x1b" not in ran.err and "\u202e" not in ran.err


@pytest.fixture
def painted(shell: Shell) -> Shell:
    """A run whose question, result and events are hostile."""
    shutil.copy(Path(__file__).with_name("flows.py"), shell.folder / "flows.py")
    assert shell("run", "flows.py:paints", "--run-id", "p1", "--yes").code == 0
    return shell


def test_a_hostile_result_is_exact_in_a_pipe_and_harmless_on_a_terminal(painted: Shell) -> None:
    piped = painted("run", "flows.py:paints", "--run-id", "p1")
    seen = on_terminal(["run", "flows.py:paints", "--run-id", "p1"], folder=painted.folder)

    assert piped.out == "\x1b[31mred\x1b[0m \x9b1m \u202edesrever\n"
    assert "\\x1b[31mred\\x1b[0m \\x9b1m \\u202edesrever" in seen.text
    assert "\x1b[31mred" not in seen.raw and "\u202e" not in seen.raw


@pytest.mark.parametrize("words", [["runs", "show", "p1"], ["runs", "tail", "p1"], ["runs", "list"]])
def test_no_listing_on_a_terminal_lets_hostile_text_through(painted: Shell, words: list[str]) -> None:
    seen = on_terminal(words, folder=painted.folder)

    assert seen.code == 0
    assert "\x1b[2J" not in seen.raw
    assert "\x1b[31mred" not in seen.raw
    assert "\u202e" not in seen.raw


def test_a_terminal_gets_colours_and_a_pipe_gets_none(painted: Shell) -> None:
    seen = on_terminal(["runs", "tail", "p1"], folder=painted.folder)
    plain_seen = on_terminal(["runs", "tail", "p1"], folder=painted.folder, NO_COLOR="1")

    assert "\x1b[1;32mcompleted" in seen.raw or "\x1b[1;32m" in seen.raw
    assert "\x1b[1;32m" not in plain_seen.raw
    assert "\x1b" not in painted("runs", "tail", "p1").out


def test_lists_are_items_and_next(painted: Shell) -> None:
    lists = (
        ["runs", "list"],
        ["runs", "tail", "p1"],
        ["runs", "steps", "p1"],
        ["tenants", "list"],
        ["artifacts", "list"],
    )

    for words in lists:
        assert list(painted(*words, "--json").json) == ["items", "next"], words


def test_json_may_stand_before_or_after_the_command(painted: Shell) -> None:
    after = painted("runs", "show", "p1", "--json").json

    assert painted("--json", "runs", "show", "p1").json == after
    assert painted("runs", "--json", "show", "p1").json == after


def test_a_table_in_a_pipe_is_aligned_and_cut_nowhere(capsys: pytest.CaptureFixture[str]) -> None:
    long = "x" * 300

    Screen(as_json=False).table(("name", ">count"), [(long, 1), ("b", 20)], empty="")

    head, first, second = capsys.readouterr().out.splitlines()
    assert first == f"{long}      1"
    assert second.endswith("   20")
    assert head.endswith("count")


@pytest.mark.parametrize(
    ("size_bytes", "text"), [(0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (2_500_000, "2.5 MB")]
)
def test_sizes_have_units(size_bytes: int, text: str) -> None:
    assert display.size(size_bytes) == text


@pytest.mark.parametrize(
    ("us", "text"),
    [(1500, "1 ms"), (4_100_000, "4.1 s"), (190_000_000, "3 min 10 s"), (7_260_000_000, "2 h 1 min")],
)
def test_durations_have_units(us: int, text: str) -> None:
    assert display.duration(us) == text
