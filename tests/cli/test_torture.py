"""`torture`: seeds are tried, a planted bug is found, and the command that repeats it is named."""

from __future__ import annotations

import pytest

from tests.cli.conftest import Shell


@pytest.mark.slow
def test_torture_holds_and_says_what_it_did(shell: Shell) -> None:
    ran = shell("torture", "--seeds", "1", "--start", "14", "--jobs", "1")

    assert ran.code == 0, ran.out
    assert "every promise held" in ran.out
    assert "1 of 1" in ran.out
    assert "seed 14 (1 of 1, 0 failed)" in ran.err
    assert list(shell.folder.iterdir()) == []


def test_a_planted_bug_is_found_and_can_be_repeated(shell: Shell) -> None:
    ran = shell("torture", "--seeds", "2", "--plant", "lost-time", "--jobs", "1", "--json")

    failure = ran.json["failures"][0]
    again = shell(*failure["command"].split()[1:], "--jobs", "1")

    assert (ran.code, ran.json["ok"], ran.json["seeds"]) == (1, False, 2)
    assert again.code == 1
    assert f"seed {failure['seed']}: " in again.out
    assert failure["command"] in again.out


def test_torture_refuses_bad_options(shell: Shell) -> None:
    assert shell("torture", "--seeds", "0").code == 2
    assert shell("torture", "--plant", "roses").code == 2
