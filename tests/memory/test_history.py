"""History search finds what was said in any run of the agent, and nothing of anybody else."""

from __future__ import annotations

from typing import Any

import pytest

from artelier import Kernel, Run
from artelier.errors import InvalidRequest
from artelier.memory.message_history import AgentHistory, excerpt
from artelier.testing import ScriptedModel
from tests.kernel.stage import drive, echo, play, user


def asking(*texts: str, tail: int = 2) -> Any:
    """Code that has a conversation and shows the model only the last messages, as after a compaction."""

    async def code(run: Run) -> str:
        conversation = run.conversation()
        reply: Any = None
        for text in texts:
            conversation.append(user(text))
            reply = await run.step_model(model="m", messages=[conversation.tail(tail)])
            conversation.append(reply)
        return reply.text

    return code


def texts(found: list[Any]) -> list[str]:
    return [said.text for said in found]


def test_messages_beyond_the_prompt_and_of_earlier_runs_are_found() -> None:
    async def scenario() -> None:
        with Kernel.open(":memory:", models={"m": echo()}) as kernel:
            runs = kernel.for_tenant()
            history = kernel.memory.for_agent("default", "ana").history()
            first = asking("the anchor word is zephyr", *(f"step {n} of the plan" for n in range(8)))
            await drive(runs, first, "one", agent="ana")
            await drive(runs, asking("something about kumquats"), "two", agent="ana")

            found = await history.search("zephyr")
            assert {(said.run_id, said.role, said.n) for said in found} == {
                ("one", "user", 1),
                ("one", "assistant", 2),
            }
            assert (await history.search("kumquats"))[0].run_id == "two"

            await drive(runs, asking("a later word is okapi"), "three", agent="ana")
            assert (await history.search("okapi"))[0].run_id == "three"

    play(scenario())


def test_a_run_at_work_is_read_as_it_grows() -> None:
    async def scenario() -> None:
        with Kernel.open(":memory:", models={"m": echo()}) as kernel:
            history = kernel.memory.for_agent("default", "ana").history()
            async with kernel.run("r", agent="ana") as run:
                conversation = run.conversation()
                for word in ("zephyr", "okapi", "kumquat"):
                    conversation.append(user(f"the word is {word}"))
                    await run.step_model(model="m", messages=conversation)
                    assert f"the word is {word}" in texts(await history.search(word)), word
                run.finish("done")

    play(scenario())


def test_the_task_and_the_result_of_a_run_are_found() -> None:
    async def scenario() -> None:
        with Kernel.open(":memory:", models={"m": ScriptedModel(["fine"])}) as kernel:
            async with kernel.run("r", agent="ana", goal="Count the walruses") as run:
                run.finish({"walruses": 12})
            history = kernel.memory.for_agent("default", "ana").history()

            found = {said.conversation: said.text for said in await history.search("walruses")}

            assert found == {"(task)": "Count the walruses", "(result)": '{"walruses":12}'}

    play(scenario())


def test_tool_results_are_found_and_lookups_are_not() -> None:
    async def scenario() -> None:
        with Kernel.open(":memory:", models={"m": echo()}) as kernel:
            memory = kernel.memory.for_agent("default", "ana")
            tools = {tool.name: tool for tool in memory.tools()}

            async with kernel.run("r", agent="ana", tools=tools) as run:
                conversation = run.conversation()
                conversation.append(user("begin"))
                conversation.append(await run.step_tool("remember", {"text": "zephyr is a wind"}))
                conversation.append(await run.step_tool("core_memory_append", {"content": "zephyr again"}))
                await run.step_model(model="m", messages=conversation)
                found = await run.step_tool("history_search", {"query": "zephyr"})
                run.finish()

            assert [(hit["role"], hit["run"]) for hit in found.value] == [("tool", "r")]
            assert "zephyr again" in found.value[0]["text"]

    play(scenario())


def test_another_agent_and_another_tenant_find_nothing() -> None:
    async def scenario() -> None:
        with Kernel.open(":memory:", models={"m": echo()}) as kernel:
            code = asking("the canary is yellow")
            await drive(kernel.for_tenant("acme"), code, agent="ana")

            for tenant, agent in (("acme", "bob"), ("other", "ana"), ("acme", "ana/child")):
                history = AgentHistory(kernel.store, tenant, agent)
                assert await history.search("canary") == []
            own = AgentHistory(kernel.store, "acme", "ana")
            assert "the canary is yellow" in texts(await own.search("canary"))

    play(scenario())


def test_a_common_word_is_found_as_it_is_written() -> None:
    """Words that the index leaves out are looked for letter by letter."""

    async def scenario() -> None:
        with Kernel.open(":memory:", models={"m": echo()}) as kernel:
            await drive(kernel.for_tenant(), asking("Is it you?"), agent="ana")
            history = kernel.memory.for_agent("default", "ana").history()

            assert "Is it you?" in texts(await history.search("is it"))
            assert await history.search("never said") == []

    play(scenario())


def test_a_fork_finds_what_its_origin_said() -> None:
    async def scenario() -> None:
        with Kernel.open(":memory:", models={"m": echo()}) as kernel:
            runs = kernel.for_tenant()
            code = asking("the anchor word is zephyr", "and then okapi")
            await drive(runs, code, "one", agent="ana")
            fork = await runs.fork("one")
            await drive(runs, code, fork)
            history = kernel.memory.for_agent("default", "ana").history()

            assert "the anchor word is zephyr" in texts(await history.search("zephyr"))

    play(scenario())


def test_searches_that_make_no_sense_are_refused() -> None:
    async def scenario() -> None:
        with Kernel.open(":memory:") as kernel:
            history = kernel.memory.for_agent("default", "ana").history()

            for query, limit in ((" ", 5), ("x", 0), ("x", 101), ("\ud800", 5)):
                with pytest.raises(InvalidRequest):
                    await history.search(query, limit)
            assert await history.search("nothing was ever said") == []

    play(scenario())


def test_a_long_message_is_shown_where_it_answers() -> None:
    text = "begin " + "filler " * 500 + "the zephyr blows" + " filler" * 500

    shown = excerpt(text, "where is the zephyr?")

    assert len(shown) < 700 and "zephyr blows" in shown
    assert shown.startswith("...") and shown.endswith("...")
    assert excerpt("short", "x") == "short"
