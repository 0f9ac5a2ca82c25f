"""`verify` and `head`: a report that says what was checked, and what was not."""

from __future__ import annotations

import shutil
import sqlite3

import pytest

from artelier.app import VIEWS
from tests.cli.conftest import Shell


def test_verify_says_what_was_checked_and_that_truncation_is_not_excluded(shell: Shell) -> None:
    shell("tenants", "update", "--budget-usd", "5")

    ran = shell("verify")
    found = shell("verify", "--json").json

    assert ran.code == 0
    assert f"{', '.join(view.name for view in VIEWS)} rebuilt and compared" in ran.out
    assert "not excluded" in ran.out
    assert ran.out.endswith("ok\n")
    assert found["ok"] is True
    assert found["events"] == 2


def test_a_head_kept_elsewhere_excludes_truncation(shell: Shell) -> None:
    shell("tenants", "update", "--budget-usd", "5")
    head = shell("head").out.strip()
    shell("tenants", "update", "--budget-usd", "6")

    ran = shell("verify", "--head", head)

    assert ran.code == 0
    assert "excluded: the given head is part of this log" in ran.out


@pytest.mark.corrupts
def test_a_cut_off_end_is_found_with_the_head(shell: Shell) -> None:
    shell("tenants", "update", "--budget-usd", "5")
    shutil.copy(".artelier/state.db", "earlier.db")
    shell("tenants", "update", "--budget-usd", "6")
    head = shell("head").out.strip()

    without = shell("verify", "--db", "earlier.db")
    ran = shell("verify", "--db", "earlier.db", "--head", head)

    assert without.code == 0
    assert ran.code == 7
    assert "its end was cut off" in ran.out


def test_head_is_the_newest_commit(shell: Shell) -> None:
    shell("tenants", "update", "--budget-usd", "5")

    found = shell("head", "--json").json

    db = sqlite3.connect(shell.folder / ".artelier/state.db")
    position, root = db.execute(
        "SELECT last_position, root FROM commits ORDER BY first_position DESC LIMIT 1"
    ).fetchone()
    db.close()
    assert found == {"head": root.hex(), "position": position}
    assert shell("head").out == f"{root.hex()}\n"


def test_migrate_makes_a_database_once(shell: Shell) -> None:
    first = shell("db", "migrate", "--json").json
    second = shell("db", "migrate")

    assert first["created"] is True
    assert set(first["views"]) >= {"ledger", "kernel", "artifacts"}
    assert "up to date" in second.out
