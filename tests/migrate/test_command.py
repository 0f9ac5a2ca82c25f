"""`migrate agents`: old agents become artifacts, once, and every problem is a line."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.cli.conftest import Shell

AGENTS = Path(__file__).parent / "agents"


def old(shell: Shell) -> str:
    shutil.copytree(AGENTS, shell.folder / "old")
    return "old"


def test_agents_are_written_and_a_second_run_says_that_nothing_changed(shell: Shell) -> None:
    folder = old(shell)

    first = shell("migrate", "agents", folder)
    second = shell("migrate", "agents", folder)
    listed = shell("artifacts", "list", "--owner", "trader", "--as", "trader", "--json").json
    shown = shell("artifacts", "show", "trader_workflow", "--as", "trader")

    assert (first.code, second.code) == (0, 0)
    assert "6 created, 2 skipped" in first.err
    assert "6 unchanged, 2 skipped; nothing changed" in second.err
    assert "builder/agent.yaml:6: temperature: unused:" in first.err
    assert "temperature" not in second.err and "agents that have not changed" in second.err
    assert [one["version"] for one in listed["items"]] == [1] * 8
    assert '"transition_mode": "llm"' in shown.out
    assert shell("verify").code == 0


def test_agents_that_are_not_enabled_are_taken_when_asked_for(shell: Shell) -> None:
    folder = old(shell)

    without = shell("migrate", "agents", folder, "--dry-run", "--json").json
    with_them = shell("migrate", "agents", folder, "--include-disabled", "--json").json
    shown = shell("artifacts", "show", "sleeper", "--as", "sleeper", "--json")

    assert (without["counts"]["created"], without["counts"]["skipped"]) == (6, 2)
    assert (with_them["counts"]["created"], with_them["counts"]["skipped"]) == (7, 1)
    assert shown.code == 0
    [note] = next(one for one in without["items"] if one["folder"] == "sleeper")["notes"]
    assert "--include-disabled" in note["text"]


def test_a_dry_run_writes_nothing(shell: Shell) -> None:
    folder = old(shell)

    before = shell("migrate", "agents", folder, "--dry-run", "--json").json
    made = (shell.folder / ".artelier").exists()
    shell("migrate", "agents", folder)
    after = shell("migrate", "agents", folder, "--dry-run", "--json").json

    assert (before["dry_run"], before["counts"]["created"], made) == (True, 6, False)
    assert (after["counts"]["created"], after["counts"]["unchanged"]) == (0, 6)


def test_a_world_is_a_space_of_its_own_in_which_the_agents_act(shell: Shell) -> None:
    folder = old(shell)
    shell("migrate", "agents", folder)
    shell("world", "new", "market", "--empty")

    would = shell("migrate", "agents", folder, "--world", "market", "--dry-run", "--json").json
    into = shell("migrate", "agents", folder, "--world", "market", "--json").json
    again = shell("migrate", "agents", folder, "--world", "market")
    agents = shell("world", "agents", "market", "--json").json["items"]

    assert into["counts"]["created"] == 6
    scrip = {one["id"]: one["balance"] for one in agents}
    assert (scrip["planner"], scrip["builder"], scrip["keeper"]) == (80, 120, 100)
    assert len(scrip) == 6
    for report in (would, into):
        joined = {one["agent"]: one["joined"] for one in report["items"] if one["joined"]}
        assert joined == scrip
    assert "6 unchanged, 2 skipped; nothing changed" in again.err
    assert shell("verify").code == 0


def test_an_agent_that_left_its_world_does_not_come_back(shell: Shell) -> None:
    import asyncio

    from artelier import Kernel
    from artelier.world import World

    folder = old(shell)
    shell("world", "new", "market", "--empty")
    shell("migrate", "agents", folder, "--world", "market")

    async def leave() -> None:
        with Kernel.open(next(shell.folder.glob(".artelier/*.db"))) as kernel:
            await World.open(kernel, "market").leave("planner")

    asyncio.run(leave())
    again = shell("migrate", "agents", folder, "--world", "market")
    agents = shell("world", "agents", "market", "--json").json["items"]

    assert "nothing changed" in again.err
    assert "planner" not in {one["id"] for one in agents}


def test_a_world_must_be_there_before_agents_move_in(shell: Shell) -> None:
    folder = old(shell)

    nowhere = shell("migrate", "agents", folder, "--world", "market", "--json")
    made = (shell.folder / ".artelier").exists()
    shell("migrate", "agents", folder)
    missing = shell("migrate", "agents", folder, "--world", "market")
    wrong = shell("migrate", "agents", folder, "--world", "no world", "--json")

    assert (nowhere.code, nowhere.error["code"], made) == (6, "not_found", False)
    assert "artelier world new market" in missing.err
    assert (wrong.code, wrong.error["code"]) == (2, "invalid_request")


def test_one_failed_agent_fails_the_command_and_the_rest_is_written(shell: Shell) -> None:
    folder = old(shell)
    shell.write("old/broken/agent.yaml", "id: broken\nworkflow: [\n")
    shell.write("old/evil/agent.yaml", "id: 'evil\x1b[31m\u202e'\nmodel: offline\n")

    ran = shell("migrate", "agents", folder)
    items = {one["folder"]: one for one in shell("migrate", "agents", folder, "--json").json["items"]}

    assert ran.code == 1
    assert "6 created, 2 skipped, 2 failed" in ran.err
    assert "broken/agent.yaml:3: failed: broken YAML" in ran.err
    assert "\x1b" not in ran.err + ran.out
    assert "\u202e" not in ran.err + ran.out
    assert items["broken"]["status"] == "failed"
    assert items["broken"]["notes"][0]["line"] == 3
    assert items["builder"]["status"] == "unchanged"


def test_a_folder_that_is_not_there(shell: Shell) -> None:
    ran = shell("migrate", "agents", "nowhere", "--json")

    assert (ran.code, ran.error["code"]) == (6, "not_found")


def test_an_id_that_is_the_worlds_own_fails_that_agent_alone(shell: Shell) -> None:
    for name in ("operator", "zoe"):
        shell.write(f"agents/{name}/agent.yaml", f"id: {name}\nllm_model: offline\nstarting_scrip: 70\n")
        shell.write(f"agents/{name}/system_prompt.md", f"You are {name}.")
    assert shell("world", "new", "town", "--empty").code == 0

    tried = shell("migrate", "agents", "agents", "--world", "town", "--dry-run", "--json")
    done = shell("migrate", "agents", "agents", "--world", "town")
    again = shell("migrate", "agents", "agents", "--world", "town", "--json")

    assert (tried.code, tried.json["counts"]["failed"]) == (1, 1)
    assert done.code == 1
    assert "operator/agent.yaml: id: failed: this id is the world's own" in done.err
    assert "zoe" in shell("world", "agents", "town").out
    assert again.code == 1
    assert (again.json["counts"]["unchanged"], again.json["counts"]["failed"]) == (1, 1)
