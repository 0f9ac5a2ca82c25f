"""The guard of the inside: what torture seeds record is compared between two checkouts."""

from __future__ import annotations

from pathlib import Path

import pytest

from artelier_lab.torture.missions.simulation import try_mission
from artelier_lab.torture.plants import planted
from artelier_lab.torture.same_log import find_differences, load_logs, main, read_logs, write_logs
from artelier_lab.torture.trial import try_sagas, try_seed


def test_a_seed_records_the_same_log_whatever_was_simulated_before(tmp_path: Path) -> None:
    first = [*read_logs([2], folder=tmp_path, trials=[try_mission])]

    later = [*read_logs([2], folder=tmp_path, trials=[try_sagas, try_mission])]

    assert len(first) == 3 and len(first[0].events) > 50
    assert not list(tmp_path.iterdir())
    assert later[-3:] == first


def test_a_log_that_differs_is_found_with_its_first_event(tmp_path: Path) -> None:
    before = [*read_logs([3], folder=tmp_path, trials=[try_seed])]
    write_logs(tmp_path / "before.gz", before)
    with planted("unbalanced-posting"):
        after = [*read_logs([3], folder=tmp_path, trials=[try_seed])]

    found = find_differences(load_logs(tmp_path / "before.gz"), after)

    assert find_differences(load_logs(tmp_path / "before.gz"), before) == []
    (runs,) = (one for one in found if one.database == "runs")
    (log,) = (log for log in before if log.database == "runs")
    assert runs.before == log.events[runs.place] != runs.after


def test_a_log_that_is_gone_is_a_difference(tmp_path: Path) -> None:
    before = [*read_logs([3], folder=tmp_path, trials=[try_seed])]

    found = find_differences(before, [])

    assert {(one.database, one.after) for one in found} == {("runs", ""), ("quiet", "")}


@pytest.mark.slow
def test_the_command_records_and_compares(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONHASHSEED", "0")
    file = str(tmp_path / "logs.gz")

    assert main(["record", file, "--start", "9", "--seeds", "1", "--directory", str(tmp_path)]) == 0
    assert main(["compare", file, "--directory", str(tmp_path)]) == 0
