"""`memory`: what agents keep in mind, seen and corrected by a person."""

from __future__ import annotations

import asyncio

import pytest

from artelier import Kernel
from artelier.memory import LogMemoryStore, SQLiteMemoryStore
from artelier.memory.consolidation import consolidate
from artelier.memory.embedders.provider import ProviderEmbedder
from artelier.testing.openai_server import OpenAIServer
from tests.cli.conftest import Ran, Shell


@pytest.fixture
def kept(shell: Shell) -> list[str]:
    """Two agents with a memory; the ids of the first one's entries."""

    async def write() -> list[str]:
        with Kernel.open(".artelier/state.db") as kernel:
            ana = kernel.memory.for_agent("default", "ana")
            await ana.append("Call the user Kim", key="1")
            entries = [
                await ana.remember("The locker opens with 4471", tags=["code"], key="2"),
                await ana.remember("As I said, the locker opens with 4471", key="3"),
            ]
            await kernel.memory.for_agent("default", "bob").remember("bob's secret", key="1")
            async with kernel.run("earlier", agent="ana") as run:
                run.finish()
            return [entry.id for entry in entries]

    return asyncio.run(write())


def test_list_names_agents_and_pages_through_entries(shell: Shell, kept: list[str]) -> None:
    agents = shell("memory", "list", "--json").json["items"]
    first = shell("memory", "list", "--agent", "ana", "--limit", "1", "--json").json
    rest = shell("memory", "list", "--agent", "ana", "--after", first["next"], "--json").json

    assert agents == [{"agent": "ana", "entries": 2}, {"agent": "bob", "entries": 1}]
    assert [item["id"] for item in (*first["items"], *rest["items"])] == kept
    assert rest["next"] is None
    assert "4471" in shell("memory", "list", "--agent", "ana").out


def test_show_prints_the_text_and_its_vector_only_on_demand(shell: Shell, kept: list[str]) -> None:
    plain = shell("memory", "show", kept[0], "--agent", "ana")
    short = shell("memory", "show", kept[0], "--agent", "ana", "--json").json
    long = shell("memory", "show", kept[0], "--agent", "ana", "--embedding", "--json").json

    assert plain.out == "The locker opens with 4471\n"
    assert kept[0] in plain.err and "code" in plain.err
    assert short["embedding"] is None and short["tags"] == ["code"]
    assert len(long["embedding"]) > 100 and any(long["embedding"])


def test_search_finds_core_and_long_term_memory(shell: Shell, kept: list[str]) -> None:
    core = shell("memory", "search", "user Kim", "--agent", "ana", "--json").json["items"]
    entry = shell("memory", "search", "locker", "--agent", "ana")

    assert (core[0]["where"], core[0]["text"]) == ("core:notes", "Call the user Kim")
    assert "long-term" in entry.out and kept[0] in entry.out
    assert "secret" not in shell("memory", "search", "secret", "--agent", "ana").out


def test_blocks_prints_core_memory(shell: Shell, kept: list[str]) -> None:
    ran = shell("memory", "blocks", "--agent", "ana")
    items = shell("memory", "blocks", "--agent", "ana", "--json").json["items"]

    assert ran.out == "Call the user Kim\n"
    assert "notes  memory/ana/core/notes@1" in ran.err
    assert [item["label"] for item in items] == ["notes", "scratchpad"]


def test_history_and_undo_and_undo_of_the_undo(shell: Shell, kept: list[str]) -> None:
    changes = shell("memory", "history", "--agent", "ana", "--json").json["items"]
    append = changes[-1]["id"]

    done = shell("memory", "undo", str(append), "--agent", "ana", "--json").json
    emptied = shell("memory", "blocks", "--agent", "ana").out
    twice = shell("memory", "undo", str(append), "--agent", "ana", "--json")
    shell("memory", "undo", str(done["id"]), "--agent", "ana")

    assert [change["kind"] for change in changes] == ["memory.added", "memory.added", "block.written"]
    assert done["by"] == "user:kim"
    assert emptied == ""
    assert twice.code == 1 and twice.error["code"] == "conflict"
    assert shell("memory", "blocks", "--agent", "ana").out == "Call the user Kim\n"
    assert f"undid change {append}" in shell("memory", "history", "--agent", "ana").out


def test_consolidate_tells_how_to_take_it_back(shell: Shell, kept: list[str]) -> None:
    boot = shell.write("identity.md", "You are a keeper of the secret of bob.\nBe kind to guests.")

    ran = shell("memory", "consolidate", "--agent", "ana", "--boot", str(boot))
    again = shell("memory", "consolidate", "--agent", "ana", "--json").json

    assert ran.code == 0 and "1 merged" in ran.out
    assert "memory undo" in ran.err
    assert again["change_id"] is None and again["after"] == 1
    assert shell("memory", "consolidate", "--agent", "ana", "--boot", "gone.md").code == 2


def test_consolidate_leaves_an_agent_at_work_alone(shell: Shell, kept: list[str]) -> None:
    async def at_work() -> str:
        with Kernel.open(".artelier/state.db") as kernel:
            async with kernel.run("turn", agent="ana"):
                memory = kernel.memory.for_agent("default", "ana")
                return (await consolidate(memory)).skipped

    assert "turn" in asyncio.run(at_work())


def test_consolidate_of_a_file_of_memories_looks_at_the_runs_elsewhere(shell: Shell) -> None:
    tidy = ("memory", "consolidate", "--agent", "ana", "--db", "agent_memory.db", "--json")

    async def write() -> tuple[Ran, Ran]:
        with SQLiteMemoryStore("agent_memory.db") as memories, Kernel.open(".artelier/state.db") as kernel:
            ana = memories.for_agent("default", "ana")
            await ana.remember("The locker opens with 4471", key="1")
            await ana.remember("As I said, the locker opens with 4471", key="2")
            async with kernel.run("turn", agent="ana") as run:
                blind = await asyncio.to_thread(shell, *tidy)
                seeing = await asyncio.to_thread(shell, *tidy, "--runs-db", ".artelier/state.db")
                run.finish()
            return blind, seeing

    blind, seeing = asyncio.run(write())

    assert blind.code == 2
    assert "--runs-db" in blind.error["hint"] and "--anyway" in blind.error["hint"]
    assert seeing.code == 1 and "turn" in seeing.json["skipped"]
    assert shell(*tidy, "--runs-db", "agent_memory.db").code == 2
    assert shell(*tidy, "--runs-db", "gone.db").code == 6
    assert shell(*tidy, "--runs-db", ".artelier/state.db").json["merged"] == 1
    assert shell(*tidy, "--anyway").json["after"] == 1


def test_a_memory_that_is_not_here_may_have_a_file_of_its_own(shell: Shell) -> None:
    Kernel.open(".artelier/state.db").close()

    assert "--db agent_memory.db" in shell("memory", "list").err
    assert shell("memory", "list", "--json").json["items"] == []
    missing = shell("memory", "list", "--agent", "ana", "--json")
    assert "--db agent_memory.db" in missing.error["hint"]


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["list", "--agent", "nobody"], 6),
        (["show", "mem_00000000", "--agent", "ana"], 6),
        (["undo", "99", "--agent", "ana"], 6),
        (["search", " ", "--agent", "ana"], 2),
        (["blocks", "--agent", "no name"], 2),
        (["blocks"], 2),
        (["list", "--agent", "ana", "--tenant", "other"], 6),
    ],
)
def test_what_is_not_there_is_said_plainly(
    shell: Shell, kept: list[str], words: list[str], code: int
) -> None:
    ran = shell("memory", *words, "--json")

    assert ran.code == code
    assert ran.error["message"]
    assert "Traceback" not in ran.err


@pytest.mark.parametrize(
    ("words", "command"),
    [
        (["show", "mem_00000000"], "artelier memory list --agent ana"),
        (["undo", "99"], "artelier memory history --agent ana"),
    ],
)
def test_a_hint_names_a_command_that_answers(
    shell: Shell, kept: list[str], words: list[str], command: str
) -> None:
    hint = shell("memory", *words, "--agent", "ana", "--json").error["hint"]

    assert f"`{command}`" in hint
    assert "recall" not in hint and "changes`" not in hint
    assert shell(*command.split()[1:]).code == 0


def test_a_file_of_memories_is_shown_and_verified_too(shell: Shell) -> None:
    async def write() -> None:
        with SQLiteMemoryStore("agent_memory.db") as memories:
            await memories.for_agent("default", "ana").remember("a fact in a file", key="1")

    asyncio.run(write())

    assert "a fact in a file" in shell("memory", "list", "--agent", "ana", "--db", "agent_memory.db").out
    verified = shell("verify", "--db", "agent_memory.db", "--json")
    assert verified.code == 0, verified.out


def test_escape_sequences_of_a_memory_are_shown_and_not_obeyed(shell: Shell) -> None:
    async def write() -> None:
        with Kernel.open(".artelier/state.db") as kernel:
            memory = kernel.memory.for_agent("default", "ana")
            await memory.remember("evil \x1b]0;title\x07 text", key="1")
            await memory.append("evil \x1b[2J block", key="2")

    asyncio.run(write())

    for words in (["list"], ["history"], ["search", "evil"]):
        ran = shell("memory", *words, "--agent", "ana")
        assert "\x1b" not in ran.out + ran.err
        assert "evil" in ran.out


def test_an_unknown_model_is_not_installed(shell: Shell) -> None:
    ran = shell("memory", "install-model", "gpt-9", "--json")

    assert ran.code == 2
    assert "minilm" in ran.error["expected"]


def test_a_search_that_asks_a_provider_is_paid_for_and_may_be_refused(shell: Shell) -> None:
    """The memory keeps vectors of a provider: each search of a person costs."""

    async def write(url: str) -> None:
        embedder = ProviderEmbedder("text-embedding-3-small", base_url=url, api_key="k")
        with Kernel.open(".artelier/state.db") as kernel:
            store = LogMemoryStore(kernel.store, kernel.services.clock, embedder=embedder)
            await store.for_agent("default", "ana").remember("The locker opens with 4471", key="1")

    with OpenAIServer([]) as server:
        asyncio.run(write(server.base_url))
        shell.set("OPENAI_BASE_URL", server.base_url)
        shell.set("OPENAI_API_KEY", "k")
        found = shell("memory", "search", "locker", "--agent", "ana", "--json").json["items"]
        tenant = shell("tenants", "show", "default", "--json").json
        [run] = shell("runs", "list", "--json").json["items"]
        asked = len(server.requests)
        shell.write("artelier.toml", '[model]\nallow = ["offline"]\n')
        refused = shell("memory", "search", "locker", "--agent", "ana", "--json")

        assert len(server.requests) == asked == 2
    assert [hit["text"] for hit in found] == ["The locker opens with 4471"]
    assert tenant["spent_usd"] == "0.000001"
    assert (run["id"].startswith("embedding:"), run["status"]) == (True, "completed")
    assert refused.error["code"] == "not_granted"
