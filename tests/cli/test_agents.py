"""`agents`: seen in a list, shown, and carried from one folder to another."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from artelier import AutonomousAgent, ContextBuilder, Kernel
from artelier.memory import SQLiteMemoryStore
from artelier.testing import ScriptedModel, tool_call
from tests.cli.conftest import Shell

SKILL = "---\nname: house-style\ndescription: How our reports look.\n---\nBegin with the total.\n"


async def work(shell: Shell, store: Any = None) -> None:
    """Agent `ana` keeps something in mind in a run of tenant `default`."""
    model = ScriptedModel([tool_call("remember", {"text": "The vault code is 7741."}), "Kept."])
    skill = shell.write("house-style/SKILL.md", SKILL).parent
    with Kernel.open(".artelier/state.db", models={"m": model}, environ={}) as kernel:
        builder = ContextBuilder(
            identity="You remember.",
            rules=["Never guess.", "Be \x1b[31mred\x1b[0m."],
            memory_store=store or kernel.memory,
            progressive_skills=True,
            skills=[skill],
        )
        agent = AutonomousAgent(kernel=kernel, context_builder=builder, agent_id="ana")
        done = await agent.run(run_id="one", model="m", prompt="The vault code is 7741.")
        assert done.status == "completed"
        await kernel.memory.for_agent("default", "bob").remember("Mine.", key="1")


@pytest.fixture
def worked(shell: Shell) -> None:
    asyncio.run(work(shell))


def test_list_names_agents_of_runs_and_of_memories(shell: Shell, worked: None) -> None:
    ran = shell("agents", "list")
    items = shell("agents", "list", "--json").json["items"]
    first = shell("agents", "list", "--limit", "1", "--json").json
    rest = shell("agents", "list", "--after", first["next"], "--json").json

    assert ran.code == 0 and "ana" in ran.out and "one" in ran.out
    seen = [(one["agent"], one["runs"], one["last_run"], one["entries"]) for one in items]
    assert seen == [("ana", 1, "one", 1), ("bob", 0, None, 1)]
    assert items[0]["cost_microusd"] == 0 and items[0]["last_us"] > 0
    assert [*first["items"], *rest["items"]] == items and rest["next"] is None
    assert "no agents in tenant other" in shell("agents", "list", "--tenant", "other").err


def test_show_says_what_an_agent_is_and_obeys_nothing_in_it(shell: Shell, worked: None) -> None:
    ran = shell("agents", "show", "ana")
    found = shell("agents", "show", "ana", "--json").json

    assert "You remember." in ran.out and "Never guess." in ran.out
    assert "memory/ana:entries: 1 entry" in ran.out
    assert "house-style  active" in ran.out and "an export writes it" in ran.out
    assert "\x1b" not in ran.out
    assert found["card"]["prompts"]["identity"] == "You remember."
    assert found["skills"][0]["status"] == "active" and found["written"] is None
    assert shell("agents", "show", "nobody").code == 6
    assert shell("agents", "show", "nobody", "--json").error["code"] == "not_found"


def test_an_agent_goes_from_one_database_to_another(shell: Shell, worked: None) -> None:
    exported = shell("agents", "export", "ana", "ana.artelier")
    imported = shell("agents", "import", "ana.artelier", "--db", "other.db", "--tenant", "acme")
    other = ("--db", "other.db", "--tenant", "acme")
    again = shell("agents", "import", "ana.artelier", *other, "--json")

    assert exported.code == 0 and "agent ana, 1 run, 1 entry" in exported.out
    assert "card agents/ana@1" in exported.err
    assert (shell.folder / "ana.artelier").stat().st_mode & 0o077 == 0
    assert imported.code == 0 and "parked until you approve: house-style" in imported.err
    assert again.code == 1 and again.error["code"] == "conflict"
    assert "has an agent ana already" in again.error["message"]
    hits = shell("memory", "search", "vault", "--agent", "ana", *other, "--json").json["items"]
    assert hits[0]["text"] == "The vault code is 7741."
    assert shell("replay", "one", *other).code == 0
    skill = shell("skills", "show", "house-style", *other, "--json").json
    assert skill["status"] == "parked" and "came with agent ana" in skill["reasons"][0]
    assert shell("verify", "--db", "other.db").code == 0
    card = shell("artifacts", "show", "agents/ana", "--as", "agent:ana", *other, "--json").json
    assert card["content"]["agent_id"] == "ana"
    done = shell("agents", "export", "ana", "again.artelier", *other, "--json").json
    assert (done["runs"], done["entries"], done["card"]) == (["one"], 1, "agents/ana@1")


def test_a_file_of_a_run_is_told_from_one_of_an_agent(shell: Shell, worked: None) -> None:
    shell("agents", "export", "ana", "ana.artelier")
    shell("export", "one", "one.artelier")

    run = shell("agents", "import", "one.artelier", "--db", "other.db")
    agent = shell("import", "ana.artelier", "--db", "other.db")
    broken = shell("agents", "import", str(shell.write("no.artelier", "x")), "--db", "other.db")

    assert run.code != 0 and "artelier import FILE" in run.err
    assert agent.code != 0 and "artelier agents import FILE" in agent.err
    assert broken.code != 0 and "cannot be read" in broken.err
    assert shell("agents", "import", "missing.artelier", "--db", "other.db").code == 6


def test_a_memory_with_a_file_of_its_own_is_asked_for(shell: Shell) -> None:
    with SQLiteMemoryStore("memory.db") as store:
        asyncio.run(work(shell, store))

    refused = shell("agents", "export", "ana", "ana.artelier")
    nowhere = shell("agents", "export", "ana", "ana.artelier", "--memory-db", "none.db")
    both = shell("agents", "export", "ana", "x", "--memory-db", "memory.db", "--without-memory")
    bare = shell("agents", "export", "ana", "bare.artelier", "--without-memory", "--json")
    whole = shell("agents", "export", "ana", "ana.artelier", "--memory-db", "memory.db", "--json")

    assert "memory.db" in shell("agents", "show", "ana").out
    assert refused.code == 2 and "--memory-db FILE" in refused.err
    assert nowhere.code == 6 and not Path("none.db").exists()
    assert both.code == 2
    assert (bare.json["entries"], whole.json["entries"]) == (0, 1)
    assert shell("agents", "import", "ana.artelier", "--db", "other.db").code == 0
    hits = shell("memory", "search", "vault", "--agent", "ana", "--db", "other.db", "--json").json
    assert hits["items"][0]["text"] == "The vault code is 7741."
    assert shell("verify", "--db", "other.db").code == 0
