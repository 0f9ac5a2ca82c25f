"""`artelier do --solo`: one agent makes a report, over approvals, failing providers and used-up budgets."""

from __future__ import annotations

import re

import pytest

from artelier import ModelReply, ToolCall, Usage
from artelier.testing.faults import Fault
from tests.cli.conftest import Provider, Ran, Shell


def calls(name: str, **arguments: object) -> ModelReply:
    return ModelReply(tool_calls=(ToolCall(id=f"call-{name}", name=name, arguments=arguments),))


def do(shell: Shell, *more: str, run_id: str = "d1", goal: str = "Which region sold most?") -> Ran:
    return shell("do", goal, "--solo", "--workspace", "sales", "--run-id", run_id, *more)


def test_do_writes_the_report_to_stdout_a_file_and_an_artifact(
    shell: Shell, sales: str, provider: Provider
) -> None:
    provider.says(calls("read_file", path="2024.csv"), "# South\n\nIt sold 4.")

    ran = do(shell)

    assert ran.code == 0
    assert ran.out == "# South\n\nIt sold 4.\n"
    assert (shell.folder / "artelier-out/d1.md").read_text() == "# South\n\nIt sold 4.\n"
    assert shell("artifacts", "show", "reports/d1").out == "# South\n\nIt sold 4.\n"


def test_do_in_an_empty_folder_names_the_listing_as_its_source(shell: Shell) -> None:
    (shell.folder / "empty").mkdir()

    ran = shell("do", "What is in this folder?", "--solo", "--workspace", "empty")

    assert ran.code == 0
    assert "There are 0 tables here" in ran.out
    assert "Sources: `list_dir`." in ran.out


def test_do_tells_each_step_with_arguments_sizes_and_cost(
    shell: Shell, sales: str, provider: Provider
) -> None:
    provider.says(
        ModelReply(
            text="Let me look.",
            usage=Usage(input_tokens=1000, output_tokens=10),
            tool_calls=(ToolCall(id="1", name="read_file", arguments={"path": "2024.csv"}),),
        ),
        "South.",
    )

    told = do(shell).err

    assert "c1/model  thinking (openai:gpt-5-mini)" in told
    assert re.search(r"c1/model  1,000 tokens in, 10 out, 0\.00\d+ USD in \d+ ms", told)
    assert "“Let me look.”" in told
    assert 'c1/tool/0  read_file(path="2024.csv")' in told
    assert re.search(r"c1/tool/0  read_file: \d+ B in \d+ ms", told)
    assert "\x1b" not in told


def test_do_json_is_one_object(shell: Shell, sales: str, provider: Provider) -> None:
    provider.says("South.")

    found = do(shell, "--json").json

    assert list(found) == [
        "run_id",
        "status",
        "reason",
        "text",
        "output",
        "artifact",
        "file",
        "usage",
        "cost_microusd",
        "head",
    ]
    assert (found["run_id"], found["status"], found["text"]) == ("d1", "completed", "South.")
    assert found["artifact"] == "reports/d1@1"
    assert found["file"] == "artelier-out/d1.md"
    assert found["head"] == shell("head").out.strip()
    assert found["usage"]["output_tokens"] > 0


def test_do_again_with_the_same_id_returns_the_report_without_a_call(
    shell: Shell, sales: str, provider: Provider
) -> None:
    provider.says("South.")
    do(shell)

    again = do(shell)

    assert (again.code, again.out) == (0, "South.\n")
    assert provider.calls == 1


@pytest.mark.parametrize(
    ("change", "what"), [(["--workspace", "other"], "workspace"), (["--model", "openai:gpt-5"], "model")]
)
def test_do_refuses_an_id_whose_run_is_about_something_else(
    shell: Shell, sales: str, provider: Provider, change: list[str], what: str
) -> None:
    (shell.folder / "other").mkdir()
    provider.says("South.")
    do(shell)

    ran = do(shell, *change)

    assert ran.code == 1
    assert f"exists with another {what}" in ran.err
    assert do(shell, goal="Another goal").code == 1


def test_do_without_an_id_makes_a_readable_one(shell: Shell, sales: str, provider: Provider) -> None:
    provider.says("South.", "Süd.")

    first = shell("do", "Which region sold most?", "--solo", "--workspace", sales, "--json").json["run_id"]
    second = shell("do", "Что продано?", "--solo", "--workspace", sales, "--json").json["run_id"]

    assert re.fullmatch(r"which-region-sold-most-[a-z0-9]{4}", first)
    assert re.fullmatch(r"run-[a-z0-9]{4}", second)


def test_do_that_needs_a_person_ends_with_3_and_resume_goes_on(
    shell: Shell, sales: str, provider: Provider
) -> None:
    provider.says(calls("ask_person", question="Which year?"), "In 2024 it was south.")
    first = do(shell)
    step = re.search(r"artelier approve d1 (\S+)", first.err)
    assert step is not None

    answered = shell("approve", "d1", step[1], "--note", "2024")
    resumed = shell("resume", "d1")

    assert first.code == 3
    assert "Which year?" in first.err
    assert "artelier resume d1" in answered.err
    assert (resumed.code, resumed.out) == (0, "In 2024 it was south.\n")
    assert "2024" in str(provider.server.requests[-1].body)
    assert (shell.folder / "artelier-out/d1.md").exists()


def test_a_stuck_run_goes_on_after_resume_with_a_note(shell: Shell, sales: str, provider: Provider) -> None:
    same = calls("read_file", path="2024.csv")
    provider.says(same, same, same, "South.")

    first = do(shell)
    again = shell("resume", "d1")
    less = shell("resume", "d1", "--max-iterations", "3")
    asked = provider.calls
    resumed = shell("resume", "d1", "--note", "The file says it all.")

    assert (first.code, again.code, asked) == (1, 1, 3)
    assert (less.code, "used up that many cycles" in less.err) == (1, True)
    assert "failed (stuck)" in first.err
    assert "artelier resume d1 --note TEXT" in first.err
    assert (resumed.code, resumed.out) == (0, "South.\n")
    assert "The file says it all." in str(provider.server.requests[-1].body)
    assert provider.calls == 4
    assert "counted anew: repeated" in shell("runs", "tail", "d1").out
    assert shell("resume", "d1", "--note", "More.").code == 1  # it is completed


@pytest.mark.parametrize("budget", [(), ("--budget-usd", "1")])
def test_twenty_cycles_end_a_run_that_no_budget_bounds_until_more_are_allowed(
    shell: Shell, sales: str, provider: Provider, budget: tuple[str, ...]
) -> None:
    provider.says(*[calls("read_file", path=f"{n}.csv") for n in range(22)], "South.")

    ran = do(shell, *budget)
    if not budget:
        assert (ran.code, ran.out) == (1, "")
        assert "artelier resume d1 --max-iterations 40" in ran.err
        ran = shell("resume", "d1", "--max-iterations", "40")

    assert (ran.code, ran.out) == (0, "South.\n")


def test_a_run_whose_time_is_up_goes_on_with_more_and_keeps_what_it_paid_for(
    shell: Shell, sales: str, provider: Provider
) -> None:
    provider.says(calls("ask_person", question="Which year?"), "In 2024 it was south.")
    do(shell)
    shell("approve", "d1", "--note", "2024")

    late = shell("resume", "d1", "--limit", "wall_s=0")
    assert (late.code, provider.calls) == (4, 1)
    assert "budget_exhausted (deadline)" in late.err
    assert "artelier resume d1 --limit wall_s=SECONDS, counted from its beginning" in late.err
    resumed = shell("resume", "d1", "--limit", "wall_s=86400", "--note", "Be brief.")

    assert (resumed.code, resumed.out, provider.calls) == (0, "In 2024 it was south.\n", 2)
    assert "Be brief." in str(provider.server.requests[-1].body)


def test_do_yes_approves_in_the_persons_name(shell: Shell, sales: str, provider: Provider) -> None:
    shell.write("artelier.toml", '[policy]\napprove_risk = "medium"\n')
    provider.says(calls("write_file", path="a.txt", text="x"), "Written.")

    ran = do(shell, "--yes")

    assert ran.code == 0
    assert "user:kim: approve (--yes)" in ran.err
    assert (shell.folder / "sales/a.txt").read_text() == "x"


def test_approval_by_policy_stops_a_write_until_somebody_says_yes(
    shell: Shell, sales: str, provider: Provider
) -> None:
    shell.set("ARTELIER_POLICY_APPROVE_RISK", "medium")
    provider.says(calls("write_file", path="a.txt", text="x"), "Not written.")

    stopped = do(shell)
    shell("approve", "d1", "--deny", "--note", "no files")
    ended = shell("resume", "d1")

    assert stopped.code == 3
    assert ended.out == "Not written.\n"
    assert not (shell.folder / "sales/a.txt").exists()
    assert "no files" in str(provider.server.requests[-1].body)


def test_do_over_a_budget_ends_with_4_and_goes_on_when_it_is_raised(
    shell: Shell, sales: str, provider: Provider
) -> None:
    provider.says("South.")
    shell("tenants", "update", "--budget-usd", "0.000001")

    stopped = do(shell)
    shell("tenants", "update", "--budget-usd", "5")
    resumed = shell("resume", "d1")

    assert stopped.code == 4
    assert "artelier tenants update default --budget-usd" in stopped.err
    assert provider.calls == 1
    assert (resumed.code, resumed.out) == (0, "South.\n")


def test_do_with_its_own_budget_is_raised_by_resume(shell: Shell, sales: str, provider: Provider) -> None:
    provider.says("South.")

    stopped = do(shell, "--budget-usd", "0.000001")
    again = shell("resume", "d1")
    raised = shell("resume", "d1", "--budget-usd", "1")

    assert (stopped.code, again.code, raised.code) == (4, 4, 0)
    assert "artelier resume d1 --budget-usd" in stopped.err
    assert provider.calls == 1


def test_do_survives_a_provider_that_stumbles(shell: Shell, sales: str, provider: Provider) -> None:
    provider.says(Fault.status(503), "South.")

    ran = do(shell)

    assert (ran.code, ran.out) == (0, "South.\n")
    assert "try 1 of 4 failed (provider_unavailable); again in" in ran.err


def test_do_that_fails_says_why_and_retry_with_resume_finishes_it(
    shell: Shell, sales: str, provider: Provider
) -> None:
    provider.says(Fault.status(400, "no such parameter"), "South.")

    failed = do(shell, "--json")
    retried = shell("retry", "d1")
    resumed = shell("resume", "d1")

    assert failed.code == 1
    assert failed.json["status"] == "failed"
    assert failed.json["file"] is None
    assert "artelier retry d1" in failed.err
    assert "pending" in retried.out
    assert (resumed.code, resumed.out) == (0, "South.\n")


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["do", " ", "--workspace", "sales"], 2, "the goal is empty"),
        (["do", "x"], 2, "--workspace"),
        (["do", "x", "--workspace", "gone"], 6, "the workspace is not there"),
        (["do", "x", "--workspace", "sales/2024.csv"], 6, "the workspace is no folder"),
        (["do", "x", "--workspace", "sales", "--budget-usd", "-1"], 2, "not an amount in USD"),
        (["do", "x", "--workspace", "sales", "--run-id", "a b"], 2, "invalid run id"),
        (["do", "x\udce9", "--workspace", "sales"], 2, "not UTF-8"),
        (["do", "x" * 100_001, "--workspace", "sales"], 2, "the goal is too long"),
    ],
)
def test_do_refuses_bad_requests(shell: Shell, sales: str, words: list[str], code: int, said: str) -> None:
    ran = shell(*words, "--model", "offline")

    assert ran.code == code
    assert said in ran.err
    assert "Traceback" not in ran.err


@pytest.mark.parametrize(
    ("model", "said"),
    [
        ("openai:gpt-5-mini", "OPENAI_API_KEY"),
        ("nobody:knows", "no model is called"),
        ("", "not the name of a model"),
    ],
)
def test_do_refuses_a_model_it_cannot_reach_before_a_run_is_recorded(
    shell: Shell, sales: str, model: str, said: str
) -> None:
    by_option = shell("do", "x", "--workspace", sales, "--model", model or " ")
    shell.set("ARTELIER_MODEL", model or "nobody:at-all")
    by_variable = shell("do", "x", "--workspace", sales)

    assert by_option.code == by_variable.code == 2
    assert said in by_option.err
    assert shell("runs", "list", "--json").json["items"] == []


def test_out_names_the_file_and_its_folders_are_made(shell: Shell, sales: str, provider: Provider) -> None:
    provider.says("South.")

    ran = do(shell, "--out", "deep/er/report.md", "--json")

    assert ran.json["file"] == "deep/er/report.md"
    assert (shell.folder / "deep/er/report.md").read_text() == "South.\n"
    assert [path.name for path in (shell.folder / "deep/er").iterdir()] == ["report.md"]


def test_a_report_that_cannot_be_written_is_not_lost(shell: Shell, sales: str, provider: Provider) -> None:
    provider.says("South.")
    shell.write("file", "in the way")

    ran = do(shell, "--out", "file/report.md")
    again = shell("resume", "d1", "--out", "report.md")

    assert ran.code == 1
    assert "the report cannot be written" in ran.err
    assert (again.code, again.out) == (0, "South.\n")
    assert provider.calls == 1


@pytest.mark.parametrize("run_id", ["../../up", "a/b", "a:b", ".hidden", "x" * 300])
def test_no_run_id_leads_out_of_the_folder_of_reports(
    shell: Shell, sales: str, provider: Provider, run_id: str
) -> None:
    provider.says("South.")

    ran = do(shell, "--json", run_id=run_id)

    assert ran.code == 0
    (report,) = (shell.folder / "artelier-out").iterdir()
    assert report.name.endswith(".md") and not report.name.startswith(".")
    assert ran.json["artifact"].startswith("reports/")


def test_the_report_holds_neither_time_nor_id(shell: Shell, sales: str, provider: Provider) -> None:
    provider.says("South.", "South.")

    do(shell, run_id="one")
    do(shell, run_id="two")

    out = shell.folder / "artelier-out"
    assert (out / "one.md").read_bytes() == (out / "two.md").read_bytes()


def test_resume_of_a_paused_run_lets_it_go_on(shell: Shell, sales: str, provider: Provider) -> None:
    provider.says(calls("ask_person", question="Which year?"), "South.")
    do(shell)

    paused = shell("pause", "d1", "--note", "lunch")
    answered = shell("approve", "d1")
    resumed = shell("resume", "d1")

    assert (paused.code, answered.code) == (0, 0)
    assert paused.out == "d1 is paused\n"
    assert (resumed.code, resumed.out) == (0, "South.\n")


def test_a_cancelled_run_takes_no_more_commands(shell: Shell, sales: str, provider: Provider) -> None:
    provider.says(calls("ask_person", question="Which year?"))
    do(shell)

    cancelled = shell("cancel", "d1", "--note", "wrong year")
    approved = shell("approve", "d1")
    resumed = shell("resume", "d1")

    assert (cancelled.code, approved.code, resumed.code) == (0, 6, 1)  # it asks nobody any more
    assert "cancelled" in resumed.err


def test_worker_once_drives_what_was_approved(shell: Shell, sales: str, provider: Provider) -> None:
    provider.says(calls("ask_person", question="Which year?"), "South.")
    do(shell)
    shell("approve", "d1")

    worked = shell("worker", "--once")
    idle = shell("worker", "--once", "--json")

    assert worked.code == 0
    assert re.fullmatch(r"default  d1  completed  0\.\d+ USD\n", worked.out)
    assert (idle.code, idle.out) == (0, "")
    assert shell("runs", "show", "d1", "--json").json["result"]["text"] == "South."


def test_worker_says_which_run_it_cannot_drive(shell: Shell, sales: str, provider: Provider) -> None:
    provider.says(calls("ask_person", question="Which year?"))
    do(shell)
    shell("approve", "d1")
    (shell.folder / "sales/2024.csv").unlink()
    (shell.folder / "sales").rmdir()

    worked = shell("worker", "--once", "--json")

    (found,) = worked.out.splitlines()
    assert worked.code == 0
    assert '"not_found"' in found


def test_an_injected_note_is_recorded_and_an_empty_one_is_refused(
    shell: Shell, sales: str, provider: Provider
) -> None:
    provider.says(calls("ask_person", question="Which year?"))
    do(shell)

    told = shell("runs", "inject", "d1", "leave out the returns")
    empty = shell("runs", "inject", "d1", "  ")

    assert (told.code, empty.code) == (0, 2)
    assert "note from user:kim: leave out the returns" in shell("runs", "tail", "d1").out


def test_injected_notes_reach_the_model_whenever_they_come(
    shell: Shell, sales: str, provider: Provider
) -> None:
    provider.says(calls("ask_person", question="Which year?"), "South.")
    do(shell)

    shell("runs", "inject", "d1", "leave out the returns")
    shell("approve", "d1")
    resumed = shell("resume", "d1")

    assert resumed.code == 0
    assert "leave out the returns" in str(provider.server.requests[-1].body)
