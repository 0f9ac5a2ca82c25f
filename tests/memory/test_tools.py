"""The memory tools as a run uses them: readable answers and refusals, labels of trust, one run's trace."""

from __future__ import annotations

from typing import Any

import pytest

from artelier import Kernel, Run, ToolResult
from artelier.memory import LogMemory
from tests.kernel.stage import drive, play


def tools_of(memory: LogMemory, **options: Any) -> dict[str, Any]:
    return {tool.name: tool for tool in memory.tools(**options)}


async def use(kernel: Kernel, name: str, arguments: dict[str, Any], **options: Any) -> ToolResult:
    """One call in a run of its own."""
    memory = kernel.memory.for_agent("default", "ana")
    runs = await kernel.for_tenant().runs()
    run_id = f"r{len(runs['items'])}"
    opened = kernel.run(run_id, agent="ana", tools=tools_of(memory, **options))
    async with opened as run:
        result = await run.step_tool(name, arguments)
        run.finish()
    return result


def test_core_memory_is_written_by_append_and_replace() -> None:
    async def scenario() -> None:
        with Kernel.open(":memory:") as kernel:
            first = await use(kernel, "core_memory_append", {"content": "likes tea"})
            await use(kernel, "core_memory_append", {"content": "todo", "block": "scratchpad"})
            await use(kernel, "core_memory_replace", {"old": "tea", "new": "coffee"})
            last = await use(kernel, "core_memory_replace", {"content": "done", "block": "scratchpad"})

            assert first.value == {
                "block": "notes",
                "version": 1,
                "chars": 9,
                "limit_chars": 2000,
                "text": "likes tea",
            }
            assert last.value["text"] == "done"
            memory = kernel.memory.for_agent("default", "ana")
            assert [b.text for b in await memory.blocks()] == ["likes coffee", "done"]
            assert [c.run_id for c in await memory.changes()] == ["r3", "r2", "r1", "r0"]

    play(scenario())


def test_long_term_memory_is_kept_found_and_forgotten() -> None:
    async def scenario() -> None:
        with Kernel.open(":memory:") as kernel:
            kept = await use(
                kernel, "remember", {"text": "Nadia's code is 4471", "tags": ["code"], "importance": 0.9}
            )
            again = await use(kernel, "remember", {"text": "nadia's code is 4471."})
            found = await use(kernel, "recall", {"query": "code of Nadia", "limit": 3})
            everywhere = await use(kernel, "core_memory_search", {"query": "Nadia"})
            gone = await use(kernel, "forget", {"id": kept.value["id"]})
            empty = await use(kernel, "recall", {"query": "code of Nadia"})

            assert again.value == {
                "id": kept.value["id"],
                "deduplicated": True,
                "known_as": "Nadia's code is 4471",
            }
            assert found.value[0]["id"] == kept.value["id"]
            assert found.value[0]["trust"] == "untrusted"
            assert [hit["where"] for hit in everywhere.value] == ["long-term"]
            assert gone.value["forgotten"] == kept.value["id"]
            assert empty.value == []

    play(scenario())


REFUSALS = (
    ("core_memory_append", {"content": "x" * 2_001}, "remember"),
    ("core_memory_append", {"content": "x", "block": "nowhere"}, "scratchpad"),
    ("core_memory_append", {"content": "   "}, "nothing to append"),
    ("core_memory_replace", {"old": "gone", "new": "x"}, "does not occur"),
    ("core_memory_replace", {"old": "a"}, "either old and new"),
    ("core_memory_replace", {}, "either old and new"),
    ("core_memory_replace", {"old": "a", "new": "b", "content": "c"}, "either old and new"),
    ("remember", {"text": ""}, "1 to 8000 characters"),
    ("remember", {"text": "x", "importance": 7}, "from 0 to 1"),
    ("forget", {"id": "mem_ffffffff"}, "recall shows the ids"),
    ("recall", {"query": " "}, "a few words"),
    ("recall", {"query": "x", "limit": 0}, "1 to 50"),
    ("history_search", {"query": "x", "limit": 1_000}, "1 to 50"),
)


@pytest.mark.parametrize(("name", "arguments", "advice"), REFUSALS)
def test_a_refusal_is_readable_and_the_run_goes_on(name: str, arguments: dict[str, Any], advice: str) -> None:
    async def scenario() -> None:
        with Kernel.open(":memory:") as kernel:
            memory = kernel.memory.for_agent("default", "ana")

            async def code(run: Run) -> Any:
                refused = await run.step_tool(name, arguments)
                accepted = await run.step_tool("core_memory_append", {"content": "still here"})
                return [refused.is_error, str(refused.value), accepted.is_error]

            await drive(kernel.for_tenant(), code, agent="ana", tools=tools_of(memory))

            shown = await kernel.for_tenant().show("r")
            assert shown["status"] == "completed"
            is_error, text, later_error = shown["result"]
            assert is_error and advice in text and not later_error
            assert (await memory.blocks())[0].text == "still here"

    play(scenario())


def test_what_a_run_remembers_carries_its_trust() -> None:
    async def scenario() -> None:
        with Kernel.open(":memory:") as kernel:
            label = ["trusted"]
            memory = kernel.memory.for_agent("default", "ana")
            tools = tools_of(memory, trust=lambda: label[0])

            async with kernel.run("r", agent="ana", tools=tools) as run:
                await run.step_tool("remember", {"text": "from the user"})
                label[0] = "untrusted"
                await run.step_tool("remember", {"text": "from the web"})
                run.finish()

            entries = await memory.entries.entries()
            assert [(e.text, e.trust, e.run_id) for e in entries] == [
                ("from the user", "trusted", "r"),
                ("from the web", "untrusted", "r"),
            ]
            assert [hit.text for hit in await memory.recall("user web", trust="trusted")] == ["from the user"]

    play(scenario())


def test_parallel_calls_of_one_reply_lose_nothing() -> None:
    """Hole 16, through the kernel: twenty appends side by side, each with a key of its own."""

    async def scenario() -> None:
        with Kernel.open(":memory:") as kernel:
            memory = kernel.memory.for_agent("default", "ana")

            async with kernel.run("r", agent="ana", tools=tools_of(memory)) as run:
                await run.parallel(
                    *(
                        run.step_tool("core_memory_append", {"content": f"line {n}"}, key=f"a{n}")
                        for n in range(20)
                    )
                )
                run.finish()

            lines = (await memory.blocks())[0].text.splitlines()
            assert sorted(lines) == sorted(f"line {n}" for n in range(20))

    play(scenario())
