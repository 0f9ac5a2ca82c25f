"""`artelier run FILE:FUNCTION`: a run of one's own code, from start to end over several processes."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from tests.cli.conftest import Provider, Shell


@pytest.fixture(autouse=True)
def flows(shell: Shell) -> None:
    shutil.copy(Path(__file__).with_name("flows.py"), shell.folder / "flows.py")


def paid(shell: Shell) -> list[str]:
    book = shell.folder / "paid.txt"
    return book.read_text().splitlines() if book.exists() else []


def test_run_stops_for_a_person_says_what_to_type_and_goes_on_after_the_answer(shell: Shell) -> None:
    first = shell("run", "flows.py:pays", "--run-id", "r1")
    shown = shell("runs", "show", "r1")
    answered = shell("approve", "r1", "--note", "fine")
    second = shell("run", "flows.py:pays", "--run-id", "r1", "--json")

    assert first.code == 3
    assert first.out == ""
    assert "artelier approve r1 2" in first.err
    assert "pay Ana?" in shown.out and "  amount: " in shown.out
    assert answered.code == 0
    assert "artelier run flows.py:pays --run-id r1" in answered.err
    assert second.code == 0
    assert second.json["result"] == {"paid": "ana", "amount": 4}
    assert paid(shell) == ["default/r1:3 ana 4"]


def test_run_again_returns_the_result_and_does_nothing(shell: Shell) -> None:
    shell("run", "flows.py:pays", "--run-id", "r1", "--yes")

    again = shell("run", "flows.py:pays", "--run-id", "r1")

    assert again.code == 0
    assert '"paid": "ana"' in again.out
    assert len(paid(shell)) == 1


def test_run_tells_its_steps_on_stderr_and_only_the_result_on_stdout(shell: Shell) -> None:
    ran = shell("run", "flows.py:pays", "--run-id", "r1", "--yes")

    assert 'pay(to="ana", amount=4)' in ran.err
    assert "user:kim: approve (--yes)" in ran.err
    assert f"head {shell('head').out.strip()}" in ran.err
    assert ran.out == '{\n  "amount": 4,\n  "paid": "ana"\n}\n'


def test_approve_with_arguments_changes_what_is_done(shell: Shell) -> None:
    shell("run", "flows.py:pays", "--run-id", "r1")

    shell("approve", "r1", "2", "--arguments", '{"amount": 7}')
    shell("run", "flows.py:pays", "--run-id", "r1")

    assert paid(shell) == ["default/r1:3 ana 7"]


def test_approve_deny_keeps_the_reason(shell: Shell) -> None:
    shell("run", "flows.py:pays", "--run-id", "r1")

    denied = shell("approve", "r1", "--deny", "--note", "too much")
    ran = shell("run", "flows.py:pays", "--run-id", "r1", "--json")

    assert denied.code == 0
    assert ran.json["result"] == {"denied": "too much"}
    assert paid(shell) == []


def test_run_with_an_unknown_outcome_ends_with_5_until_it_is_settled(shell: Shell) -> None:
    first = shell("run", "flows.py:loses", "--run-id", "r1")
    second = shell("run", "flows.py:loses", "--run-id", "r1")
    settled = shell("reconcile", "r1", "1", "--succeeded", '{"id": 7}')
    third = shell("run", "flows.py:loses", "--run-id", "r1", "--json")

    assert (first.code, second.code, settled.code, third.code) == (5, 5, 0, 0)
    assert "artelier reconcile r1 1" in first.err
    assert third.json["result"] == {"id": 7}


def test_reconcile_failed_hands_the_message_to_the_run(shell: Shell) -> None:
    shell("run", "flows.py:loses", "--run-id", "r1")

    shell("reconcile", "r1", "1", "--failed", "the bank says no")
    ran = shell("run", "flows.py:loses", "--run-id", "r1", "--json")

    assert ran.json["result"]["error"]["message"] == "the bank says no"


@pytest.mark.parametrize(
    "answers",
    [[], ["--retry", "--probe"], ["--succeeded", "1", "--failed", "no"]],
    ids=["none", "two", "both"],
)
def test_reconcile_takes_exactly_one_answer(shell: Shell, answers: list[str]) -> None:
    shell("run", "flows.py:loses", "--run-id", "r1")

    ran = shell("reconcile", "r1", "1", *answers)

    assert ran.code == 2
    assert "one answer" in ran.err


@pytest.mark.parametrize("step", [[], ["c4/tool/0", "--retry"]], ids=["none", "wrong"])
def test_reconcile_lists_the_steps_with_an_unknown_outcome_and_the_command_of_each(
    shell: Shell, step: list[str]
) -> None:
    shell("run", "flows.py:loses", "--run-id", "r1")

    ran = shell("reconcile", "r1", *step)
    settled = shell("reconcile", "r1", "1", "--retry")
    after = shell("reconcile", "r1", *step)

    assert ran.code == (1 if step else 2)
    assert re.search(r"1: lose, not known since \d{4}-\d\d-\d\d \d\d:\d\d:\d\d: ", ran.err)
    assert "artelier reconcile r1 1 --succeeded JSON | --failed MESSAGE | --retry" in ran.err
    assert settled.code == 0
    assert (after.code, "no step with an unknown outcome" in after.err) == (1, True)


def test_reconcile_probe_of_own_code_says_what_to_do_instead(shell: Shell) -> None:
    shell("run", "flows.py:loses", "--run-id", "r1")

    ran = shell("reconcile", "r1", "1", "--probe")

    assert ran.code == 2
    assert "--succeeded" in ran.err


def test_an_unknown_outcome_is_shown_with_all_that_settles_it_and_probed_with_the_file_of_its_tool(
    shell: Shell,
) -> None:
    first = shell("run", "flows.py:loses_asked", "--run-id", "r1")
    shown = shell("runs", "show", "r1")
    (call,) = shell("runs", "show", "r1", "--json").json["unknown_calls"]
    closed = shell("reconcile", "r1", "1", "--probe", "--tools", "flows.py")
    (shell.folder / "books.txt").write_text("default/r1:1")
    settled = shell("reconcile", "r1", "1", "--probe", "--tools", "flows.py")
    last = shell("run", "flows.py:loses_asked", "--run-id", "r1", "--json")

    assert first.code == 5
    assert "--probe --tools FILE" in first.err
    for fact in ('lose_asked(to="ana")', "default/r1:1", "ConnectionError", "FileNotFoundError"):
        assert fact in " ".join(shown.out.split())
    assert (call["step"], call["tool"], call["arguments"]) == ("1", "lose_asked", {"to": "ana"})
    assert "FileNotFoundError" in call["probe_error"]
    assert closed.code != 0
    assert "FileNotFoundError" in closed.err
    assert (settled.code, last.json["result"]) == (0, {"id": 7})


def test_what_a_dead_process_has_not_done_is_called_again_after_the_probe(shell: Shell) -> None:
    """Each command is a process of its own: the one that lost the answer is gone by the time of the probe."""
    shell("run", "flows.py:loses_asked", "--run-id", "r1")
    (shell.folder / "books.txt").write_text("nothing")
    settled = shell("reconcile", "r1", "1", "--probe", "--tools", "flows.py")
    shown = shell("runs", "show", "r1", "--json")

    assert settled.code == 0
    assert shown.json["status"] == "pending"
    assert shown.json["unknown_calls"] == []


@pytest.mark.parametrize(
    ("options", "told"),
    [(["--probe", "--tools", "nobody.py"], "not there"), (["--retry", "--tools", "flows.py"], "--probe")],
)
def test_reconcile_refuses_tools_that_it_cannot_use(shell: Shell, options: list[str], told: str) -> None:
    shell("run", "flows.py:loses_asked", "--run-id", "r1")

    ran = shell("reconcile", "r1", "1", *options)

    assert ran.code != 0
    assert told in ran.err


def test_a_signal_is_kept_until_the_run_asks_for_it(shell: Shell) -> None:
    shell("run", "flows.py:waits", "--run-id", "w1")

    sent = shell("signal", "w1", "go", '{"n": 1}')
    shell("approve", "w1")
    ran = shell("run", "flows.py:waits", "--run-id", "w1")

    assert sent.code == 0
    assert ran.code == 0
    assert ran.out == "got {'n': 1}\n"


def test_run_that_sleeps_goes_on_by_itself(shell: Shell) -> None:
    ran = shell("run", "flows.py:rests", "--run-id", "r1")

    assert (ran.code, ran.out) == (0, "rested\n")


def test_failed_run_names_the_line_and_is_reopened_by_retry(shell: Shell) -> None:
    first = shell("run", "flows.py:fails", "--run-id", "r1")
    again = shell("run", "flows.py:fails", "--run-id", "r1")
    reopened = shell("retry", "r1")

    assert first.code == 1
    assert "KeyError" in first.err
    assert "flows.py:" in first.err
    assert "Traceback" not in first.err
    assert again.code == 1
    assert "artelier retry r1" in again.err
    assert "pending" in reopened.out


def test_run_without_an_id_gets_a_readable_one(shell: Shell) -> None:
    shell("run", "flows.py:rests")

    (run,) = shell("runs", "list", "--json").json["items"]

    assert run["id"].startswith("rests-")
    assert run["agent"] == "flows.py:rests"


def test_resume_of_own_code_says_how_to_go_on(shell: Shell) -> None:
    shell("run", "flows.py:pays", "--run-id", "r1")

    ran = shell("resume", "r1")

    assert ran.code == 2
    assert "artelier run flows.py:pays --run-id r1" in ran.err


@pytest.mark.parametrize(
    ("target", "code", "said"),
    [
        ("flows.py", 2, "FILE:FUNCTION"),
        ("flows.py:", 2, "FILE:FUNCTION"),
        ("flows.py:nothing", 2, "pays, waits, rests"),
        ("flows.py:plain", 2, "has no async function plain"),
        ("gone.py:main", 6, "not there"),
        ("broken.py:main", 2, "broken.py:2: "),
        ("raises.py:main", 2, "raises.py:1 ZeroDivisionError"),
        ("leaves.py:main", 2, "sys.exit"),
        ("notes.txt:main", 2, "no Python file"),
    ],
)
def test_run_refuses_what_it_cannot_load(shell: Shell, target: str, code: int, said: str) -> None:
    shell.write("broken.py", "x = 1\ndef main(:\n")
    shell.write("raises.py", "1 / 0\n")
    shell.write("leaves.py", "raise SystemExit(0)\n")
    shell.write("notes.txt", "hello\n")

    ran = shell("run", target)

    assert ran.code == code
    assert said in ran.err
    assert "Traceback" not in ran.err
    assert not (shell.folder / ".artelier").exists()


def test_a_file_named_like_a_module_hides_nothing(shell: Shell) -> None:
    shell.write("json.py", "async def main(run):\n    import helper\n    return helper.NAME\n")
    shell.write("helper.py", "NAME = 'neighbour'\n")

    ran = shell("run", "json.py:main", "--json")

    assert ran.code == 0
    assert ran.json["result"] == "neighbour"


def test_run_refuses_a_run_of_the_built_in_agent(shell: Shell, sales: str, provider: Provider) -> None:
    provider.says("done")
    shell("do", "Count.", "--solo", "--workspace", sales, "--run-id", "d1")

    ran = shell("run", "flows.py:rests", "--run-id", "d1")

    assert ran.code == 1
    assert "artelier resume d1" in ran.err


def test_budget_is_checked_before_anything_begins(shell: Shell) -> None:
    ran = shell("run", "flows.py:rests", "--budget-usd", "much")

    assert ran.code == 2
    assert not (shell.folder / ".artelier").exists()
