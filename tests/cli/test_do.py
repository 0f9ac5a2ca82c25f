"""`artelier do`: a goal becomes a plan, its tasks are done one after the other, and a report comes out."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

import artelier
from artelier import Kernel, ModelReply, Usage
from tests.cli.conftest import Provider, Ran, Shell

GOAL = "Find out which region sold most."
PLAN: dict[str, Any] = {
    "agents": [{"slug": "analyst", "name": "Analyst"}],
    "tasks": [
        {
            "slug": "answer",
            "goal": "Say which region sold most.",
            "agent": "analyst",
            "success_criteria": "Names the region.",
            "max_iterations": 3,
        }
    ],
}
TEXT = "# South\n\nThe south sold most."
REF = "d1/answer-md@1"


@pytest.fixture
def provider(provider: Provider, shell: Shell) -> Provider:
    """A model that takes sampling parameters; those that reason warn that they ignore them."""
    shell.set("ARTELIER_MODEL", "openai:gpt-4o-mini")
    return provider


def says(value: Any) -> ModelReply:
    return ModelReply(text=json.dumps(value), usage=Usage(input_tokens=900, output_tokens=20))


def decides(action: str, **more: Any) -> ModelReply:
    return says({"action": action, "reason": "It is next.", **more})


WRITE = decides("create_artifact", artifact_type="markdown", target="answer.md")
ASK = decides("use_tool", tool="ask_person", input={"question": "Which year?"})


def passes(ref: str = REF, quote: str = "The south sold most.") -> ModelReply:
    evidence = [{"ref": ref, "quote": quote}]
    one = {"criterion": "Names the region.", "met": True, "evidence": evidence, "missing": ""}
    return says({"criteria": [one], "summary": "fine"})


WORK = (WRITE, TEXT, passes())


def do(shell: Shell, *more: str, run_id: str = "d1", goal: str = GOAL) -> Ran:
    return shell("do", goal, "--workspace", "sales", "--run-id", run_id, *more)


def test_do_plans_works_and_writes_the_report(shell: Shell, sales: str, provider: Provider) -> None:
    provider.says(says(PLAN), *WORK)

    ran = do(shell)

    assert (ran.code, ran.out) == (0, f"{TEXT}\n")
    assert (shell.folder / "artelier-out/d1.md").read_text() == f"{TEXT}\n"
    assert shell("artifacts", "show", REF).out == f"{TEXT}\n"
    assert provider.calls == 4


def test_do_tells_plan_decisions_artifacts_and_verdicts(shell: Shell, sales: str, provider: Provider) -> None:
    provider.says(says(PLAN), *WORK)

    told = do(shell).err

    assert re.search(r"planned  1 agent, 1 task: about 9 model calls, 0\.\d+ USD", told)
    assert "  answer  Analyst, at most 3 iterations: Say which region sold most." in told
    assert "answer  begun by d1/analyst" in told
    assert "answer  1. create_artifact “answer.md”: It is next." in told
    assert f"answer  1. wrote {REF}" in told
    assert "answer  1. evaluated: passed" in told
    assert f"answer  done after 1 iteration: {REF}" in told
    assert re.search(r"answer  c1/decision  900 tokens in, 20 out, 0\.00\d+ USD in \d+ ms", told)
    assert "\x1b" not in told


def test_do_json_is_one_object(shell: Shell, sales: str, provider: Provider) -> None:
    provider.says(says(PLAN), *WORK)

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
    assert (found["run_id"], found["status"], found["text"]) == ("d1", "completed", TEXT)
    assert found["output"]["tasks"]["d1/answer"] == {"status": "done", "reason": "", "outputs": [REF]}
    assert (found["artifact"], found["file"]) == (REF, "artelier-out/d1.md")
    assert found["cost_microusd"] > 0


def test_do_again_with_the_same_id_returns_the_report_without_a_call(
    shell: Shell, sales: str, provider: Provider
) -> None:
    provider.says(says(PLAN), *WORK)
    do(shell)

    again = do(shell)
    other = do(shell, goal="Another goal")

    assert (again.code, again.out) == (0, f"{TEXT}\n")
    assert (other.code, provider.calls) == (1, 4)
    assert "exists with another goal" in other.err


def test_do_offline_gives_the_right_figures(shell: Shell) -> None:
    sales = Path(artelier.__file__).parents[2] / "examples/data/sales"
    goal = "Which three regions sold most, and what changed from Q2 to Q3? Write a report."

    ran = shell("do", goal, "--workspace", str(sales), "--run-id", "q3")

    assert ran.code == 0
    assert all(figure in ran.out for figure in ("42983.02", "26819.64", "19748.24"))
    tasks = shell("tasks", "list", "--mission", "q3", "--json").json["items"]
    assert {task["status"] for task in tasks} == {"done"}


def test_a_plain_question_is_one_task_without_planning_in_five_calls_at_most(shell: Shell) -> None:
    shell.write("shop/customers.csv", "name,country\nAna,Malta\nBo,Malta\nCy,Norway\n")
    shell.write("shop/notes.md", "# Notes\n\nEvery customer stands once.\n")

    ran = shell("do", "Which country has the most customers?", "--workspace", "shop", "--run-id", "q1")

    assert ran.code == 0 and "**Malta** (2)" in ran.out
    assert "planned  1 agent, 1 task" in ran.err
    assert ran.err.count("thinking (offline)") == 5
    for run in ("q1", "q1/answer"):
        replayed = shell("replay", run)
        assert replayed.code == 0, replayed.err


def test_a_plain_question_shows_its_model_the_workspace_before_the_first_decision(
    shell: Shell, sales: str, provider: Provider
) -> None:
    evidence = [{"ref": REF, "quote": "The south sold most."}]
    asked = ("Answers the question: Which region sold most?", "Names the sources.")
    met = [{"criterion": one, "met": True, "evidence": evidence, "missing": ""} for one in asked]
    provider.says(WRITE, TEXT, says({"criteria": met, "summary": "fine"}))

    ran = do(shell, goal="Which region sold most?")

    first = str(provider.server.requests[0])
    assert (ran.code, provider.calls) == (0, 3)
    assert "2024.csv" in first and "describe_tables" in first
    assert "answer  look/1  describe_tables" in ran.err


def test_a_plain_question_about_several_texts_reads_only_those_that_may_answer_it(shell: Shell) -> None:
    for number in range(6):
        shell.write(f"notes/week-{number}.md", f"# Week {number}\n\nNothing was decided.\n")
    shell.write("notes/hosting.md", "# Hosting\n\nHalden was chosen because it is\nthe nearest.\n")

    ran = shell(
        "do", "What do the notes say about why Halden was chosen? Quote the sentence.", "--workspace", "notes"
    )

    assert (ran.code, "Halden was chosen because it is\nthe nearest." in ran.out) == (0, True)
    assert ran.err.count("thinking (offline)") == 5
    assert 'read_file(path="hosting.md"' in ran.err and "week-" not in "".join(
        re.findall("read_file.*", ran.err)
    )


def test_a_plain_question_that_cannot_be_answered_is_blocked_and_says_what_can_be_asked(shell: Shell) -> None:
    shell.write("shop/orders.csv", "country,amount\nMalta,2\nMalta,3\nNorway,4\n")

    ran = shell("do", "How happy are our customers?", "--workspace", "shop", "--run-id", "q1")
    found = shell(
        "do", "How happy are our customers?", "--workspace", "shop", "--run-id", "q1", "--json"
    ).json

    assert ran.code == 1
    assert "q1 is blocked (tasks_blocked)" in ran.err
    assert (found["status"], found["reason"]) == ("blocked", "tasks_blocked")
    assert re.search(r"^q1 +blocked \(tasks_blocked\) ", shell("runs", "list").out, re.MULTILINE)
    assert shell("runs", "tree", "q1").out.startswith("q1  blocked (tasks_blocked) ")
    listed = shell("runs", "list", "--status", "failed", "--json").json["items"]
    assert {run["id"]: run.get("goal_status") for run in listed}["q1"] == "blocked"
    proposed = re.search(r"; try: (.+?[?])", found["message"])
    assert proposed is not None
    assert shell("do", proposed[1], "--workspace", "shop").code == 0


def test_the_lines_of_the_readme_about_data_run_offline(shell: Shell) -> None:
    root = Path(artelier.__file__).parents[2]
    block = (
        (root / "README.md").read_text(encoding="utf-8").partition("## Your data")[2].partition("```\n")[0]
    )
    asked = [line for line in block.splitlines() if line.startswith("artelier do ")]

    for line in asked:
        words = shlex.split(
            line.replace("examples/data/sales", str(root / "examples/data/sales")), comments=True
        )
        assert shell(*words[1:]).code == 0, line

    assert len(asked) == 2


def test_do_offline_in_a_folder_without_figures_says_what_can_be_asked_there(shell: Shell) -> None:
    shell.write("texts/notes.txt", "Refunds are given by Maria. They take 14 days.\n")
    (shell.folder / "nothing").mkdir()

    refused = shell("do", GOAL, "--workspace", "texts")
    looked = shell("do", "What is in this folder?", "--workspace", "texts")
    asked = shell("do", "What does notes.txt say about refunds?", "--workspace", "texts")
    empty = shell("do", "What is in this folder?", "--workspace", "nothing")

    assert refused.code == 1
    assert "holds no table" in refused.err and "try: What is in this folder?" in refused.err
    assert looked.code == 0
    assert "Ask `What does notes.txt say about TOPIC?`" in looked.out
    assert (asked.code, "Refunds are given by Maria" in asked.out) == (0, True)
    assert empty.code == 0
    assert "0 tables" in empty.out and "put a CSV, JSON or xlsx file here" in empty.out


# The plan


def test_plan_shows_it_and_launches_nothing_until_somebody_says_yes(
    shell: Shell, sales: str, provider: Provider
) -> None:
    provider.says(says(PLAN), *WORK)

    shown = do(shell, "--plan")
    waiting = shell("tasks", "list", "--json").json["items"]
    approved = shell("approve", "d1")
    resumed = shell("resume", "d1")

    assert shown.code == 3
    assert "answer  Analyst, at most 3 iterations: Say which region sold most." in shown.out
    assert "about 9 model calls" in shown.out
    assert "artelier approve d1 launch" in shown.err
    assert (waiting, approved.code) == ([], 0)
    assert (resumed.code, resumed.out) == (0, f"{TEXT}\n")


def test_plan_with_yes_is_launched_in_the_persons_name(shell: Shell, sales: str, provider: Provider) -> None:
    provider.says(says(PLAN), *WORK)

    ran = do(shell, "--plan", "--yes")

    assert (ran.code, ran.out) == (0, f"{TEXT}\n")
    assert "launch  user:kim: approve (--yes)" in ran.err


def test_a_plan_that_is_denied_ends_as_cancelled(shell: Shell, sales: str, provider: Provider) -> None:
    provider.says(says(PLAN))
    do(shell, "--plan")

    shell("approve", "d1", "--deny", "--note", "too much")
    ended = shell("resume", "d1")

    assert ended.code == 1
    assert "d1 is cancelled" in ended.err
    assert provider.calls == 1


def test_a_plan_is_edited_in_a_file(shell: Shell, sales: str, provider: Provider) -> None:
    provider.says(says(PLAN), *WORK)
    shown = do(shell, "--plan", "--plan-file", "plan.json", "--json")
    plan = json.loads((shell.folder / "plan.json").read_text())
    plan["tasks"][0]["goal"] = "Say it in one sentence."
    shell.write("plan.json", json.dumps(plan))

    ran = do(shell, "--plan-file", "plan.json")

    assert shown.json["output"]["plan"]["tasks"][0]["slug"] == "answer"
    assert (ran.code, ran.out) == (0, f"{TEXT}\n")
    assert "launched as it was edited" in ran.err
    assert "Say it in one sentence." in str(provider.server.requests[1].body)


def test_a_plan_of_ones_own_is_launched_without_asking_a_model(
    shell: Shell, sales: str, provider: Provider
) -> None:
    provider.says(*WORK)
    shell.write("plan.json", json.dumps(PLAN))

    ran = do(shell, "--plan-file", "plan.json")

    assert (ran.code, provider.calls) == (0, 3)


@pytest.mark.parametrize(
    ("text", "words", "code", "said"),
    [
        ("{", ["--plan-file", "plan.json"], 2, "--plan-file is not JSON"),
        ('{"agents": []}', ["--plan-file", "plan.json"], 2, "the plan cannot be used"),
        (
            json.dumps(PLAN | {"agents": [{"slug": "analyst", "name": "A", "tools": ["abacus"]}]}),
            ["--plan-file", "plan.json"],
            2,
            "there is no tool 'abacus'",
        ),
        ("{}", ["--plan-file", "gone.json"], 6, "the plan is not there"),
        ("{}", ["--solo", "--plan"], 2, "--solo works without a plan"),
        ("{}", ["--run-id", "x" * 65], 2, "invalid mission id"),
    ],
)
def test_a_plan_that_cannot_be_is_refused_before_anything_is_recorded(
    shell: Shell, sales: str, text: str, words: list[str], code: int, said: str
) -> None:
    shell.write("plan.json", text)

    ran = shell("do", GOAL, "--workspace", sales, "--model", "offline", *words)

    assert ran.code == code
    assert said in ran.err
    listed = shell("runs", "list", "--json").json
    assert listed.get("items", []) == []  # or there is no database yet


# Waiting, budgets, failures


def test_a_task_that_needs_a_person_ends_with_3_and_resume_goes_on(
    shell: Shell, sales: str, provider: Provider
) -> None:
    provider.says(says(PLAN), ASK, *WORK)

    first = do(shell)
    step = re.search(r"artelier approve d1/answer (\S+)", first.err)
    assert step is not None
    answered = shell("approve", "d1/answer", step[1], "--note", "2024")
    resumed = shell("resume", "d1")

    assert first.code == 3
    assert "Which year?" in first.err
    assert "artelier resume d1" in answered.err
    assert (resumed.code, resumed.out) == (0, f"{TEXT}\n")
    assert "2024" in str(provider.server.requests[2].body)


def test_a_worker_drives_what_was_approved(shell: Shell, sales: str, provider: Provider) -> None:
    provider.says(says(PLAN), ASK, *WORK)
    do(shell)
    shell("approve", "d1/answer")

    worked = shell("worker", "--once")

    assert re.fullmatch(r"default  d1  completed  0\.\d+ USD\n", worked.out)


def test_over_a_budget_it_ends_with_4_and_goes_on_when_it_is_raised(
    shell: Shell, sales: str, provider: Provider
) -> None:
    provider.says(says(PLAN), *WORK)

    stopped = do(shell, "--budget-usd", "0.000001")
    shown = shell("runs", "show", "d1")
    raised = shell("resume", "d1", "--budget-usd", "1")

    assert stopped.code == 4
    assert "artelier resume d1 --budget-usd" in stopped.err
    figures = r"asked: up to 0\.\d+ USD; left: 0\.000001 USD; cap of run d1: 0\.000001 USD"
    assert re.search(figures, stopped.err) and re.search(figures, shown.err)
    assert (raised.code, raised.out) == (0, f"{TEXT}\n")


def test_over_the_budget_of_a_tenant_the_figures_and_the_command_that_raises_it_are_shown(
    shell: Shell, sales: str, provider: Provider
) -> None:
    provider.says(says(PLAN), *WORK)
    shell("tenants", "update", "default", "--budget-usd", "0.000002")

    stopped = do(shell)
    shell("tenants", "update", "default", "--budget-usd", "1")
    shown = shell("runs", "show", "d1")

    assert stopped.code == 4
    left = "left: 0.000002 USD; cap of tenant: 0.000002 USD"
    assert re.search(r"asked: up to 0\.\d+ USD; ", stopped.err) and left in stopped.err
    assert "artelier tenants update default --budget-usd AMOUNT" in stopped.err
    assert "left: 1.00 USD; cap of tenant: 1.00 USD" in shown.err


def test_a_person_rejects_an_output_has_it_done_again_and_accepts_it(
    shell: Shell, sales: str, provider: Provider
) -> None:
    again = (decides("complete_task"), WRITE, TEXT.replace("most", "most by far"))
    provider.says(says(PLAN), *WORK, *again, passes("d1/answer-md@2", "The south sold most by far."))

    do(shell)
    rejected = shell("tasks", "reject", "d1/answer", "--note", "By how much?")
    stands = shell("runs", "show", "d1")
    told = shell("resume", "d1")
    retried = shell("tasks", "retry", "d1/answer")
    resumed = shell("resume", "d1/answer")
    accepted = shell("tasks", "accept", "d1/answer", "--output", "d1/answer-md")
    shown = shell("tasks", "show", "d1/answer")

    assert (rejected.code, rejected.out) == (0, "d1/answer is failed (rejected)\n")
    assert "artelier tasks retry d1/answer" in rejected.err
    assert re.search(r"^status +completed\ngoal stands +failed \(tasks_failed\)$", stands.out, re.MULTILINE)
    assert (told.code, "d1 is failed (tasks_failed)" in told.err, told.out) == (1, True, "")
    assert "artelier retry d1" in stands.err and "artelier retry d1" in told.err
    assert (retried.code, resumed.code) == (0, 0)
    assert (accepted.code, accepted.out) == (0, "d1/answer is done (accepted)\n")
    assert re.search(r"d1/answer-md@1 rejected by user:\S+: By how much\?", shown.out)
    assert re.search(r"d1/answer-md@2 accepted by user:\S+", shown.out)


def test_why_an_output_did_not_pass_is_told_by_rule_check_and_person(
    shell: Shell, sales: str, provider: Provider
) -> None:
    task = {
        **PLAN["tasks"][0],
        "max_iterations": 1,
        "checks": [{"kind": "regex", "pattern": "PHONE [0-9]+"}, {"kind": "length", "min": 2}],
    }
    provider.says(says({**PLAN, "tasks": [task]}), WRITE, TEXT, WRITE, TEXT)

    failed = do(shell)
    shown = shell("tasks", "show", "d1/answer")
    shell("tasks", "reject", "d1/answer", "--note", "Name the\nregion.")
    shell("tasks", "retry", "d1/answer")
    shell("resume", "d1/answer")
    equal = shell("tasks", "show", "d1/answer")

    assert "evaluated: not passed: check regex: found in no output" in failed.err
    assert "   check regex PHONE [0-9]+ not passed: found in no output\n" in shown.out
    assert re.search(r"   check length passed: \d+ words, expected 2 to any number\n", shown.out)
    assert "2. create_artifact d1/answer-md@2: not passed (void: rejected)" in equal.out
    assert re.search(
        r"   rejected in d1/answer-md@2: equal to version 1, which user:\S+ rejected: Name the region\.\n",
        equal.out,
    )


def test_a_task_that_fails_is_seen_retried_and_done(shell: Shell, sales: str, provider: Provider) -> None:
    think = decides("analyze")
    provider.says(says(PLAN), think, decides("analyze"), think, *WORK)

    failed = do(shell)
    listed = shell("tasks", "list", "--mission", "d1")
    retried = shell("tasks", "retry", "d1/answer")
    resumed = shell("resume", "d1/answer")
    shown = shell("tasks", "show", "d1/answer")

    assert failed.code == 1
    assert "1 of 1 tasks was not done" in failed.err
    assert "artelier retry d1" in failed.err
    assert re.search(r"d1/answer +failed \(\w+\) +analyst +3/3", listed.out)
    assert max(map(len, listed.out.splitlines())) <= 80
    assert "artelier resume d1/answer" in retried.err
    assert resumed.code == 0
    assert re.search(r"status +done", shown.out)
    # As Mission Control counts: the limit of three counts anew after the retry.
    assert re.search(r"iterations +4 of 6", shown.out)
    assert f"{REF}: “The south sold most.”" in shown.out


def test_tasks_are_made_and_cancelled_from_the_command_line(
    shell: Shell, sales: str, provider: Provider
) -> None:
    provider.says(says(PLAN), *WORK)
    do(shell)

    made = shell(
        "tasks", "create", "More", "--criteria", "Names it.", "--agent", "d1/analyst", "--id", "tasks/more"
    )
    cancelled = shell("tasks", "cancel", "tasks/more")
    free = shell("tasks", "create", "Free", "--criteria", "Names it.", "--id", "tasks/free")
    early = shell("resume", "tasks/free")
    assigned = shell("tasks", "assign", "tasks/free", "--agent", "d1/analyst")
    unknown = shell("tasks", "show", "tasks/none")

    assert (made.code, made.out) == (0, "tasks/more\n")
    assert cancelled.out == "tasks/more is cancelled\n"
    assert "artelier resume" not in free.err
    for said in (free, early):
        assert "artelier tasks assign tasks/free --agent ID" in said.err
    assert (assigned.out, assigned.code) == ("tasks/free is pending\n", 0)
    assert "artelier resume tasks/free" in assigned.err
    refused = shell("tasks", "retry", "tasks/free", "--max-iterations", "6")
    assert refused.code == 1 and "0 of 5" in shell("tasks", "show", "tasks/free").out
    assert unknown.code == 6


def test_a_list_of_tasks_fits_into_80_columns_whatever_their_goals(shell: Shell) -> None:
    """Names of tasks are never cut: goals, then agents, are left out for them."""
    folder = shell.folder / ".artelier"
    folder.mkdir()
    Kernel.open(folder / "state.db").close()
    goal = "Find out which region sold most, and say what the notes tell about it. " * 3
    for name in ("tasks/a", "tasks/a-name-that-takes-room-for-two"):
        shell("tasks", "create", goal, "--criteria", "It says so.", "--id", name)
        listed = shell("tasks", "list")
        lines = listed.out.splitlines()
        assert name in listed.out and "pending" in listed.out
        assert max(map(len, lines)) <= 80
        assert "Find out which" in listed.out

    shell("tasks", "create", goal, "--criteria", "It.", "--id", f"tasks/{'x' * 60}")
    crowded = shell("tasks", "list")

    assert f"tasks/{'x' * 60}" in crowded.out and "Find out" not in crowded.out


def test_every_hint_of_a_run_that_stands_still_is_a_command_that_can_be_run(
    shell: Shell, sales: str, provider: Provider
) -> None:
    """Placeholders are filled in; what a hint names exists, and its options are where they belong."""
    provider.says(says(PLAN), *WORK)
    shell("tenants", "update", "--budget-usd", "0.000001")
    stopped = do(shell)
    (line,) = [one for one in stopped.err.splitlines() if "raise the tenant's budget" in one]
    command = line.partition("artelier ")[2].replace("AMOUNT", "5")
    raised = shell(*shlex.split(command))
    (way,) = [one for one in stopped.err.splitlines() if "then go on" in one]
    done = shell(*shlex.split(way.partition("artelier ")[2]))

    assert "--budget-usd AMOUNT" in line
    assert (raised.code, done.code, done.out) == (0, 0, f"{TEXT}\n")
