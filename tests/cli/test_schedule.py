"""`schedule`: goals that come again, told to a database that a worker drives."""

from __future__ import annotations

import pytest

from tests.cli.conftest import Shell

GOAL = "Sum the amount by region"


def added(shell: Shell, *options: str, name: str = "nightly") -> None:
    shell.write("data/sales.csv", "region,amount\nNorth,3\nSouth,4\n")
    if not options:
        options = ("--cron", "0 3 * * *", "--timezone", "Europe/Berlin")
    shell("schedule", "add", name, *options, "--goal", GOAL, "--workspace", "data")


def test_a_schedule_is_added_fired_and_looked_at(shell: Shell) -> None:
    added(shell, "--every", "1h", "--budget-usd", "0.50")
    fired = shell("schedule", "fire", "nightly", "--json").json
    shell("worker", "--once")

    shown = shell("schedule", "show", "nightly", "--json").json
    told = shell("schedule", "show", "nightly").out

    assert shown["runs"][0]["run_id"] == fired["run_id"]
    assert (shown["last_run"]["status"], shown["budget_usd"]) == ("completed", "0.50")
    assert "every 1h" in told and fired["run_id"] in told and "0.50 USD a run" in told
    assert shell("runs", "show", fired["run_id"], "--json").json["status"] == "completed"


def test_what_comes_next_is_listed(shell: Shell) -> None:
    added(shell)
    added(shell, "--every", "90m", "--solo", name="often")

    listed = shell("schedule", "list", "--json").json
    told = shell("schedule", "list").out

    assert [one["id"] for one in listed["items"]] == ["nightly", "often"]
    assert listed["items"][0]["timezone"] == "Europe/Berlin"
    assert "0 3 * * * Europe/Berlin" in told and "every 1h30m" in told
    first = shell("schedule", "list", "--limit", "1", "--json").json
    rest = shell("schedule", "list", "--after", str(first["next"]), "--json").json
    assert [one["id"] for one in rest["items"]] == ["often"]


def test_a_schedule_is_paused_resumed_and_removed(shell: Shell) -> None:
    added(shell)

    assert "nightly is paused" in shell("schedule", "pause", "nightly", "--note", "move").out
    assert shell("schedule", "list", "--status", "paused", "--json").json["items"]
    assert "nightly is active, next" in shell("schedule", "resume", "nightly").out
    assert "nightly is removed" in shell("schedule", "remove", "nightly").out
    assert shell("schedule", "list").out.strip() == ""
    assert shell("schedule", "show", "nightly").code == 6


def test_firing_while_a_run_waits_says_what_to_do(shell: Shell) -> None:
    added(shell)
    run = shell("schedule", "fire", "nightly").out.strip()

    refused = shell("schedule", "fire", "nightly")

    assert refused.code != 0
    assert f"artelier resume {run}" in refused.err or "this second" in refused.err
    assert shell("resume", run, "--json").json["status"] == "completed"


@pytest.mark.parametrize(
    "options",
    [
        (),
        ("--every", "0s"),
        ("--cron", "61 * * * *"),
        ("--cron", "* * * * *", "--every", "1m"),
        ("--cron", "* * * * *", "--timezone", "Mars"),
        ("--every", "1m", "--budget-usd", "0"),
        ("--every", "1m", "--overlap", "pile"),
        ("--every", "1m", "--catch-up", "all"),
    ],
)
def test_what_cannot_work_is_refused(shell: Shell, options: tuple[str, ...]) -> None:
    answer = shell("schedule", "add", "s", *options, "--goal", GOAL, "--json")

    assert answer.code == 2
    assert set(answer.json["error"]) == {"code", "message", "expected", "got", "hint"}
