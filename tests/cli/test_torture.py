"""`torture`: seeds are tried, a planted bug is found, and the command that repeats it is named."""

from __future__ import annotations

import pytest

from tests.cli.conftest import Shell


@pytest.mark.slow
def test_torture_holds_and_says_what_it_did(shell: Shell) -> None:
    ran = shell("torture", "--seeds", "2", "--jobs", "1")
    found = shell("torture", "--seeds", "1", "--start", "2", "--jobs", "1", "--json")

    assert ran.code == 0, ran.out
    assert "every promise held" in ran.out
    assert "2 of 2" in ran.out
    assert "seed 1 (2 of 2, 0 failed)" in ran.err
    assert found.json["ok"] is True
    assert found.json["seeds"] == 1
    assert list(shell.folder.iterdir()) == []


@pytest.mark.slow
def test_a_planted_bug_is_found_and_can_be_repeated(shell: Shell) -> None:
    ran = shell("torture", "--seeds", "4", "--plant", "unbalanced-posting", "--jobs", "1", "--json")

    failure = ran.json["failures"][0]
    again = shell(*failure["command"].split()[1:], "--jobs", "1")

    assert ran.code == 1
    assert again.code == 1
    assert f"seed {failure['seed']}: " in again.out
    assert failure["command"] in again.out


def test_torture_refuses_bad_options(shell: Shell) -> None:
    assert shell("torture", "--seeds", "0").code == 2
    assert shell("torture", "--plant", "roses").code == 2
