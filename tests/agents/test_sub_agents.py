"""Agents as tools: the ids, the tree and the bounds of the children of one run."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from artelier import tool
from artelier.agents import SubAgentFactory
from artelier.errors import InvalidRequest
from artelier.kernel import run_row
from artelier.testing import ScriptedModel, tool_call
from tests.agents.family import CHILD, boss, hand, open_family, shape, statuses, task_of, told, work, worker
from tests.kernel.stage import billed, play


def error_of(text: str) -> dict[str, Any]:
    return json.loads(text)["error"]


# Ids, links, results


def test_a_child_is_a_run_of_its_own_below_its_parent(tmp_path: Path) -> None:
    models = {"boss": ScriptedModel([hand("count"), "all done"]), "worker": ScriptedModel(["42"])}

    async def scenario() -> None:
        with open_family(tmp_path, models) as kernel:
            result = await work(boss(kernel, worker(kernel)))

            child = await kernel.for_tenant().show(CHILD)
            row = await run_row(kernel.services.store, "default", CHILD)
            assert (result.status, result.text) == ("completed", "all done")
            assert (child["status"], child["agent"], child["goal"]) == ("completed", "boss/worker", "count")
            assert (row.parent, row.parent_step) == ("r", "c1/tool/0")
            assert told(models["boss"]) == ["42"]
            assert kernel.verify().ok

    play(scenario())


def test_parallel_children_have_ids_of_their_own_and_answer_in_order(tmp_path: Path) -> None:
    # The first answers last; each is told the same, so that only the call tells them apart.
    gates = [asyncio.Event() for _ in range(5)]
    arrived: list[int] = []

    async def answer(request: Any) -> Any:
        number = len(arrived)
        arrived.append(number)
        if number < 4:
            await gates[number + 1].wait()
        gates[number].set()
        return task_of(request)

    models = {
        "boss": ScriptedModel([[hand(f"task {n}") for n in range(5)], "done"]),
        "worker": ScriptedModel(answer),
    }

    async def scenario() -> None:
        with open_family(tmp_path, models) as kernel:
            await work(boss(kernel, worker(kernel)))

            assert told(models["boss"]) == [f"task {n}" for n in range(5)]
            assert set(await statuses(kernel)) == {"r"} | {
                f"r::sub_agent::default/r:c1/tool/{n}" for n in range(5)
            }

    play(scenario())


def test_agents_nest_three_deep_and_the_tree_adds_up_their_cost(tmp_path: Path) -> None:
    def paid(text: str) -> Any:
        return billed(text, inputs=100, outputs=10)

    models = {
        "boss": ScriptedModel([hand("a", to="lead"), paid("1")]),
        "lead": ScriptedModel([hand("b", to="senior"), paid("2")]),
        "senior": ScriptedModel([hand("c"), paid("3")]),
        "worker": ScriptedModel([paid("4")]),
    }

    async def scenario() -> None:
        with open_family(tmp_path, models) as kernel:
            factory = SubAgentFactory(kernel=kernel)
            junior = worker(kernel)
            senior = factory.create(name="senior", description=".", model="senior", tools=[junior])
            lead = factory.create(name="lead", description=".", model="lead", tools=[senior])
            result = await work(boss(kernel, lead))

            tree = await kernel.for_tenant().tree("r")
            agents = [item["agent"] for item in (await kernel.for_tenant().runs())["items"]]
            assert result.text == "1"
            assert agents == ["boss", "boss/lead", "boss/lead/senior", "boss/lead/senior/worker"]
            name, _, (one,) = shape(tree)
            assert one[0].startswith(f"{name}::sub_agent::")
            assert one[2][0][0].startswith(f"{one[0]}::sub_agent::")
            assert all(len(run) <= 512 for run in await statuses(kernel))

    play(scenario())


def test_the_command_line_prints_the_tree_with_its_cost(tmp_path: Path) -> None:
    from decimal import Decimal

    from artelier import Price
    from artelier.cli.tree import root_command

    price = Price(input=Decimal(1), output=Decimal(1))
    reply = billed("x", inputs=1_000, outputs=500)
    models = {
        "boss": ScriptedModel([[hand("a"), hand("b")], reply], price=price),
        "worker": ScriptedModel([reply, reply], price=price),
    }

    async def scenario() -> dict[str, Any]:
        with open_family(tmp_path, models) as kernel:
            await work(boss(kernel, worker(kernel)))
            return dict(await kernel.for_tenant().tree("r"))

    tree = play(scenario())
    shown = CliRunner().invoke(root_command(), ["--db", str(tmp_path / "s.db"), "runs", "tree", "r"])

    assert shown.exit_code == 0, shown.output
    assert [child["cost_microusd"] for child in tree["children"]] == [1_500, 1_500]
    assert tree["total_cost_microusd"] == tree["cost_microusd"] + 3_000
    assert shown.output.count("r::sub_agent::") == 2
    assert shown.output.count("boss/worker") == 2
    assert "0.0015" in shown.output


def test_a_key_that_no_run_id_can_hold_still_names_one_child(tmp_path: Path) -> None:
    models = {"worker": ScriptedModel(["one", "two"])}

    async def scenario() -> None:
        with open_family(tmp_path, models) as kernel:
            tools = {"worker": worker(kernel)}
            async with kernel.run("r", tools=tools) as run:
                first = await run.step_tool("worker", {"prompt": "a"}, key="première étape")
                second = await run.step_tool("worker", {"prompt": "a"}, key="seconde étape")
                run.finish(None)

            names = [name for name in await statuses(kernel) if name != "r"]
            assert (first.value, second.value) == ("one", "two")
            assert len(names) == 2
            assert all(name.startswith("r::sub_agent::") for name in names)

    play(scenario())


# Bounds


def test_a_tree_that_would_grow_too_deep_is_refused_in_words(tmp_path: Path) -> None:
    models = {
        "boss": ScriptedModel([hand("a", to="lead"), "ok"]),
        "lead": ScriptedModel([hand("b"), "did it myself"]),
        "worker": ScriptedModel([]),
    }

    async def scenario() -> None:
        with open_family(tmp_path, models) as kernel:
            shallow = {"depth_max": 1}
            lead = worker(kernel, shallow, name="lead", model="lead", tools=[worker(kernel, shallow)])
            result = await work(boss(kernel, lead))

            error = error_of(told(models["lead"])[0])
            assert result.text == "ok"
            assert error["code"] == "tool_failed"
            assert "nested too deep" in error["message"]
            assert "at most 1" in error["expected"]
            assert len(await statuses(kernel)) == 2

    play(scenario())


def test_children_that_start_at_once_are_counted_before_they_start(tmp_path: Path) -> None:
    models = {
        "boss": ScriptedModel([[hand(str(n)) for n in range(5)], [hand("more")], "done"]),
        "worker": ScriptedModel(task_of),
    }

    async def scenario() -> None:
        with open_family(tmp_path, models) as kernel:
            result = await work(boss(kernel, worker(kernel, {"children_max": 2})))

            answers = told(models["boss"])
            assert result.status == "completed"
            assert sum("too many children" in text for text in answers) == 4
            assert len(await statuses(kernel)) == 3

    play(scenario())


def test_a_child_that_exists_is_not_counted_again_when_its_parent_resumes(tmp_path: Path) -> None:
    models = {
        "boss": ScriptedModel([hand("a"), "done"]),
        "worker": ScriptedModel([tool_call("sure"), "sure enough"]),
    }

    async def scenario() -> None:
        from artelier import ToolContext

        async def sure(ctx: ToolContext) -> str:
            "Ask."
            return (await ctx.ask("Sure?")).decision

        asks = tool(side_effect=False)(sure)
        with open_family(tmp_path, models) as kernel:
            agent = boss(kernel, worker(kernel, {"children_max": 1}, tools=[asks]))
            first = await work(agent)
            await kernel.for_tenant().approve(CHILD)
            second = await work(agent)

            assert (first.status, second.status) == ("waiting_approval", "completed")
            assert told(models["boss"]) == ["sure enough"]

    play(scenario())


@pytest.mark.parametrize("names", [["mail"], "mail", [None]])
def test_tools_of_a_sub_agent_are_functions_and_a_name_is_refused_at_once(tmp_path: Path, names: Any) -> None:
    with open_family(tmp_path, {}) as kernel:
        factory = SubAgentFactory(kernel=kernel, model="worker")
        with pytest.raises(InvalidRequest, match="tool"):
            factory.create(name="worker", description="Works.", tools=names)
        with pytest.raises(InvalidRequest, match="tool"):
            SubAgentFactory(kernel=kernel, tools=names)
