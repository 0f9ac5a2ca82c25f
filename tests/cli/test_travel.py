"""Time travel: fork, diff, export, import and replay, from one folder to another."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from artelier import ModelReply, ToolCall
from tests.cli.conftest import Provider, Shell


@pytest.fixture
def recorded(shell: Shell, sales: str, provider: Provider) -> Provider:
    """A finished run `d1` of the built-in agent."""
    call = ToolCall(id="1", name="read_file", arguments={"path": "2024.csv"})
    provider.says(ModelReply(tool_calls=(call,)), "South.")
    assert shell("do", "Which region?", "--solo", "--workspace", sales, "--run-id", "d1").code == 0
    return provider


@pytest.fixture
def flows(shell: Shell) -> None:
    shutil.copy(Path(__file__).with_name("flows.py"), shell.folder / "flows.py")


def branch_point(shell: Shell) -> str:
    """Seq of the event after which the second cycle begins."""
    events = shell("runs", "tail", "d1", "--after", "0", "--json").json["items"]
    return str(next(event["seq"] for event in events if event["kind"] == "cycle.completed"))


def test_a_fork_goes_its_own_way_and_pays_only_for_that(shell: Shell, recorded: Provider) -> None:
    recorded.says("North, I think.")

    forked = shell("fork", "d1", "--at", branch_point(shell), "--model", "openai:gpt-5")
    resumed = shell("resume", "d1.fork-1")

    assert forked.code == 0
    assert "d1.fork-1 branches off d1" in forked.out
    assert "artelier resume d1.fork-1" in forked.err
    assert (resumed.code, resumed.out) == (0, "North, I think.\n")
    assert recorded.calls == 3
    assert recorded.server.requests[-1].body["model"] == "gpt-5"


def test_a_fork_whose_model_has_no_key_is_refused_before_it_fails(shell: Shell, recorded: Provider) -> None:
    shell(
        "fork",
        "d1",
        "--at",
        branch_point(shell),
        "--model",
        "anthropic:claude-haiku-4-5",
        "--run-id",
        "other",
    )

    ran = shell("resume", "other")

    assert ran.code == 2
    assert "ANTHROPIC_API_KEY" in ran.err
    assert shell("runs", "show", "other", "--json").json["status"] == "pending"


def test_a_fork_gets_the_name_that_is_asked_for(shell: Shell, recorded: Provider) -> None:
    forked = shell("fork", "d1", "--run-id", "again", "--json")
    taken = shell("fork", "d1", "--run-id", "again")

    assert forked.json["id"] == "again"
    assert forked.json["origin"] == "d1"
    assert taken.code == 1


@pytest.mark.parametrize("words", [["--at", "0"], ["--at", "9999"], ["--model", "nobody:knows"]])
def test_a_fork_that_makes_no_sense_is_refused(shell: Shell, recorded: Provider, words: list[str]) -> None:
    assert shell("fork", "d1", *words).code == 2


PAYROLL = """
from artelier import tool

@tool(side_effect=True)
def pay(to: str) -> str:
    "Pay."
    with open("bank.txt", "a") as books:
        books.write(to + "\\n")
    return "paid " + to

async def main(run):
    return [(await run.step_tool("pay", {"to": name})).value for name in ("ana", "ben")]

async def other(run):
    return [(await run.step_tool("pay", {"to": name})).value for name in ("ana", "cleo")]
"""


def test_a_fork_of_a_finished_run_pays_nothing_and_stops_at_a_new_payment(shell: Shell) -> None:
    shell.write("payroll.py", PAYROLL)
    bank = shell.folder / "bank.txt"
    assert shell("run", "payroll.py:main", "--run-id", "p").code == 0

    forked = shell("fork", "p", "--at", "1", "--json").json
    again = shell("run", "payroll.py:main", "--run-id", "p.fork-1", "--json")
    shell("fork", "p", "--at", "1", "--run-id", "q")
    stopped = shell("run", "payroll.py:other", "--run-id", "q")
    shell("fork", "p", "--at", "1", "--run-id", "stub", "--effects", "stub")
    stub = shell("run", "payroll.py:main", "--run-id", "stub")
    shell("fork", "p", "--at", "1", "--run-id", "live", "--effects", "live")

    assert forked["effects"] == "recorded"
    assert (again.code, again.json["result"]) == (0, ["paid ana", "paid ben"])
    assert stopped.code == 3
    assert "call pay" in stopped.err + stopped.out
    assert (stub.code, "does nothing outside" in stub.out) == (0, True)
    assert bank.read_text().split() == ["ana", "ben"]
    assert "recorded" in shell("runs", "show", "q").out
    assert shell("run", "payroll.py:other", "--run-id", "q", "--yes").code == 0
    assert bank.read_text().split() == ["ana", "ben", "cleo"]
    assert shell("run", "payroll.py:main", "--run-id", "live").code == 0
    assert bank.read_text().split() == ["ana", "ben", "cleo", "ana", "ben"]
    refused = shell("fork", "p", "--effects", "dry")
    assert (refused.code, "recorded, stub, live" in refused.err) == (2, True)


def test_a_ref_that_was_never_used_or_is_not_there_is_not_found(shell: Shell, recorded: Provider) -> None:
    nonsense = shell("fork", "d1", "--with", "nonsense@7=also@9")
    missing = shell("fork", "d1", "--with", "read_file=no_tool")

    assert (nonsense.code, missing.code) == (6, 6)
    assert "never used 'nonsense@7'" in nonsense.err
    assert "no 'no_tool'" in missing.err
    assert shell("runs", "show", "d1.fork-1").code == 6


def test_the_report_of_a_fork_is_under_forks_until_it_is_adopted(shell: Shell, recorded: Provider) -> None:
    before = shell("artifacts", "show", "reports/d1", "--json").json
    recorded.says("North, I think.")
    shell("fork", "d1", "--at", branch_point(shell))

    resumed = shell("resume", "d1.fork-1", "--json").json

    assert resumed["artifact"] == "forks/d1.fork-1/reports/d1@1"
    assert resumed["file"] == "artelier-out/forks/d1.fork-1.md"
    assert (shell.folder / resumed["file"]).read_text() == "North, I think.\n"
    assert shell("artifacts", "show", "reports/d1", "--json").json == before
    adopted = shell("artifacts", "adopt", "forks/d1.fork-1/reports/d1", "--as", before["owner"])
    assert (adopted.code, adopted.out.partition(" ")[0]) == (0, "reports/d1@2"), adopted.err
    assert shell("artifacts", "show", "reports/d1").out == "North, I think.\n"
    lineage = shell("artifacts", "lineage", "reports/d1", "--json").json
    assert "forks/d1.fork-1/reports/d1@1" in lineage["sources"]
    assert shell("artifacts", "adopt", "reports/d1").code == 2


def test_diff_names_the_first_difference(shell: Shell, recorded: Provider) -> None:
    recorded.says("North, I think.")
    shell("fork", "d1", "--at", branch_point(shell), "--run-id", "other")
    shell("resume", "other")

    shown = shell("diff", "d1", "other")
    found = shell("diff", "d1", "other", "--json").json

    assert shown.code == 0
    assert "first difference at step c2/model: reply" in shown.out
    assert found["first_divergence"]["key"] == "c2/model"
    assert "no difference" in shell("diff", "d1", "d1").out


def test_an_export_replays_in_an_empty_folder_without_key_or_network(
    shell: Shell, recorded: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    exported = shell("export", "d1", "d1.artelier", "--json").json
    calls = recorded.calls
    elsewhere = shell.folder / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    monkeypatch.delenv("OPENAI_API_KEY")
    monkeypatch.delenv("ARTELIER_MODEL")

    ran = shell("replay", "../d1.artelier")
    found = shell("replay", "../d1.artelier", "--json").json

    assert exported["runs"] == ["d1"]
    assert (ran.code, ran.out) == (0, "South.\n")
    assert "0 model calls, 0 tool calls" in ran.err
    assert found["status"] == "completed"
    assert found["steps_replayed"] == 3
    assert recorded.calls == calls
    assert list(elsewhere.iterdir()) == []


def test_a_run_replays_where_it_is(shell: Shell, recorded: Provider) -> None:
    ran = shell("replay", "d1")

    assert (ran.code, ran.out) == (0, "South.\n")
    assert recorded.calls == 2


def test_an_imported_run_can_be_read_and_replayed_and_not_driven(shell: Shell, recorded: Provider) -> None:
    shell("export", "d1", "d1.artelier")

    imported = shell("import", "d1.artelier", "--db", "other.db")
    shown = shell("runs", "show", "d1", "--db", "other.db")
    replayed = shell("replay", "d1", "--db", "other.db")
    again = shell("import", "d1.artelier", "--db", "other.db")

    assert imported.code == 0
    assert "- d1" in imported.out
    assert "South." in shown.out
    assert replayed.out == "South.\n"
    assert again.code == 1
    assert shell("verify", "--db", "other.db").code == 0


def test_own_code_replays_when_it_is_named(shell: Shell, flows: None) -> None:
    shell("run", "flows.py:pays", "--run-id", "r1", "--yes")

    unnamed = shell("replay", "r1")
    named = shell("replay", "r1", "--code", "flows.py:pays")

    assert unnamed.code == 2
    assert "--code flows.py:pays" in unnamed.err
    assert named.code == 0
    assert '"paid": "ana"' in named.out
    assert (shell.folder / "paid.txt").read_text().count("\n") == 1


def test_other_code_is_a_mismatch_that_is_named(shell: Shell, flows: None) -> None:
    shell("run", "flows.py:pays", "--run-id", "r1", "--yes")

    ran = shell("replay", "r1", "--code", "flows.py:loses", "--json")

    assert ran.code == 1
    assert ran.error["code"] in ("replay_mismatch", "run_ended")


@pytest.mark.parametrize("damage", ["cut", "flip", "empty", "text"])
def test_a_damaged_export_is_refused_and_nothing_is_imported(
    shell: Shell, recorded: Provider, damage: str
) -> None:
    shell("export", "d1", "d1.artelier")
    file = shell.folder / "d1.artelier"
    content = file.read_bytes()
    flipped = bytearray(content)
    flipped[len(content) // 2] ^= 0xFF
    file.write_bytes(
        {"cut": content[: len(content) // 2], "flip": bytes(flipped), "empty": b"", "text": b"hello"}[damage]
    )

    imported = shell("import", "d1.artelier", "--db", "other.db")
    replayed = shell("replay", "d1.artelier")

    assert imported.code != 0 and replayed.code != 0
    assert "Traceback" not in imported.err
    assert "mistake of Artelier" not in imported.err + replayed.err
    assert shell("runs", "list", "--db", "other.db", "--json").json["items"] == []


def test_a_file_that_is_not_there_is_not_found(shell: Shell) -> None:
    assert shell("replay", "gone.artelier").code == 6
    assert shell("import", "gone.artelier").code == 6


def test_a_fork_says_where_what_it_replaces_takes_effect_and_refuses_to_begin_behind_it(
    shell: Shell, recorded: Provider
) -> None:
    """Without `--at` the newest event was taken, and nothing was left to be replaced."""
    events = shell("runs", "tail", "d1", "--after", "0", "--json").json["items"]
    asked = next(event["data"]["model"] for event in events if event["kind"] == "model.requested")
    before_the_end = str(events[-1]["seq"] - 1)

    forked = shell("fork", "d1", "--with", f"{asked}=openai:gpt-5")
    late = shell("fork", "d1", "--with", f"{asked}=openai:gpt-5", "--at", before_the_end)

    assert forked.code == 0
    assert "before the first step that --with changes" in forked.out
    assert late.code == 6
    assert "is the last that changes anything" in late.err


def test_a_finished_run_is_forked_to_another_model_from_its_first_step_or_not_at_all(
    shell: Shell, recorded: Provider
) -> None:
    call = ToolCall(id="1", name="read_file", arguments={"path": "2024.csv"})
    recorded.says(ModelReply(tool_calls=(call,)), "North.")

    forked = shell("fork", "d1", "--model", "openai:gpt-5")
    resumed = shell("resume", "d1.fork-1")

    assert forked.code == 0
    assert "before the first step that --model changes" in forked.out
    assert (resumed.code, resumed.out) == (0, "North.\n")
    assert [request.body["model"] for request in recorded.server.requests[-2:]] == ["gpt-5"] * 2
    last = shell("runs", "tail", "d1", "--after", "0", "--json").json["items"][-1]["seq"]
    late = shell("fork", "d1", "--at", str(last - 1), "--model", "openai:gpt-5")
    assert late.code == 6
    assert "no step of it would be another" in late.err
    assert "--at" in late.err
    same = shell("fork", "d1", "--model", recorded.server.requests[0].body["model"])
    assert same.code == 6
