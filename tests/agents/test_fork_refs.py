"""Forks replace what they say: refs of artifacts, skills, memories, tools and models, and no ref in vain."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from artelier import AutonomousAgent, ContextBuilder, Kernel, Run, SubAgentFactory, ToolContext, tool
from artelier.errors import InvalidRequest, NotFound
from artelier.testing import ScriptedModel, tool_call
from artelier.tools import Tool
from tests.kernel.stage import drive, kinds, play, result_of

ASKED = [{"role": "user", "content": "Go."}]


@tool(side_effect=False)
def orders(city: str) -> str:
    "Orders of a city."
    return f"{city}: 412"


@tool(side_effect=False)
def orders_v2(city: str) -> str:
    "Orders of a city, counted anew."
    return f"{city}: 413"


def named(name: str) -> ScriptedModel:
    return ScriptedModel(lambda request: f"{name}: {request.messages[-1].text}")


def opened(tmp_path: Path) -> Kernel:
    models = {"m": named("m"), "n": named("n"), "reader": ScriptedModel(_reads)}
    return Kernel.open(tmp_path / "s.db", models=models, tools=[orders, orders_v2], environ={})


def _reads(request: Any) -> Any:
    """An agent that reads a prompt by its ref, then says what it read."""
    results = [one for one in request.messages if one.role == "tool"]
    if not results:
        return tool_call("read_artifact", {"ref": "prompts/tone"})
    return results[-1].text


async def write(kernel: Kernel, id_: str, text: str) -> None:
    await (
        kernel.for_tenant()
        .as_principal("operator")
        .artifacts.write(id_, kind="document", content=text, access="public")
    )


async def works(run: Run) -> list[str]:
    first = await run.step_model(model="m", messages=ASKED)
    return [first.text, (await run.step_tool("orders", {"city": "Oslo"})).value]


async def told(kernel: Kernel, run_id: str) -> str:
    """What the agent that reads a prompt has read."""
    made = AutonomousAgent(kernel=kernel, identity="You read.")
    return (await made.run(run_id=run_id, model="reader", prompt="Read it.")).text


@pytest.mark.parametrize(
    "refs",
    [
        {"nonsense@7": "also@9"},
        {"prompts/tone@1": "prompts/tone@9"},
        {"prompts/tone@2": "prompts/tone@1"},
        {"prompts/other@1": "prompts/tone@1"},
        {"orders": "no_tool"},
        {"openai:m": "zz:knows"},
        {"orders_v3": "orders"},
        {"Oslo": "prompts/tone"},
        {"agent": "prompts/tone"},
    ],
)
def test_a_ref_that_is_not_there_or_was_never_used_is_refused(tmp_path: Path, refs: dict[str, str]) -> None:
    async def scenario() -> None:
        with opened(tmp_path) as kernel:
            await write(kernel, "prompts/tone", "Be brief.")
            await write(kernel, "prompts/other", "Unused.")
            runs = kernel.for_tenant()
            await drive(runs, works)
            await told(kernel, "a")

            for origin in ("r", "a"):
                with pytest.raises(NotFound):
                    await runs.fork(origin, with_=refs)

            assert await kinds(kernel, "r.fork-1") == []
            with pytest.raises(InvalidRequest):
                await runs.fork("r", with_={"orders": 7})

    play(scenario())


def test_a_fork_asks_the_other_model_and_calls_the_other_tool(tmp_path: Path) -> None:
    async def scenario() -> None:
        with opened(tmp_path) as kernel:
            runs = kernel.for_tenant()
            await drive(runs, works)

            name = await runs.fork("r", at=1, with_={"m": "n", "orders": "orders_v2"})
            await drive(runs, works, name)
            await drive(runs, works, name)  # its own record replays under the same names

            assert await result_of(runs, "r") == ["m: Go.", "Oslo: 412"]
            assert await result_of(runs, name) == ["n: Go.", "Oslo: 413"]
            deep = await runs.fork(name, at=1)
            await drive(runs, works, deep)
            assert await result_of(runs, deep) == ["n: Go.", "Oslo: 413"]

    play(scenario())


def test_models_are_offered_the_other_tool_alone(tmp_path: Path) -> None:
    seen: list[list[str]] = []

    def model(request: Any) -> str:
        seen.append([schema.name for schema in request.tools])
        return "done"

    async def scenario() -> None:
        models = {"m": ScriptedModel(model)}
        with Kernel.open(tmp_path / "s.db", models=models, tools=[orders, orders_v2], environ={}) as kernel:
            runs = kernel.for_tenant()
            agent = AutonomousAgent(kernel=kernel, identity="You count.", tools=[orders, orders_v2])
            await agent.run(run_id="r", model="m", prompt="Count.")
            name = await runs.fork("r", at=1, with_={"orders": "orders_v2"})
            await agent.run(run_id=name, model="m", prompt="Count.")

            assert {"orders", "orders_v2"} <= set(seen[0])
            assert "orders" not in seen[1] and "orders_v2" in seen[1]

    play(scenario())


def test_a_fork_reads_the_other_version_wherever_it_reads(tmp_path: Path) -> None:
    async def scenario() -> None:
        with opened(tmp_path) as kernel:
            await write(kernel, "prompts/tone", "Be brief.")
            runs = kernel.for_tenant()
            assert "Be brief." in await told(kernel, "a")
            await write(kernel, "prompts/tone", "Be long.")
            await write(kernel, "prompts/rude", "Be rude.")

            name = await runs.fork("a", at=1, with_={"prompts/tone": "prompts/tone@1"})
            other = await runs.fork("a", at=1, with_={"prompts/tone": "prompts/rude"})
            plain = await runs.fork("a", at=1)

            assert "Be brief." in await told(kernel, name)
            assert "Be rude." in await told(kernel, other)
            assert "Be long." in await told(kernel, plain)
            tone = await kernel.for_tenant().as_principal("operator").artifacts.read("prompts/tone")
            assert tone.content == "Be long."  # nobody else reads by the forks' refs

    play(scenario())


def test_a_memory_block_stands_for_another(tmp_path: Path) -> None:
    def model(request: Any) -> str:
        return "\n".join(message.text for message in request.messages)

    async def scenario() -> None:
        models = {"m": ScriptedModel(model)}
        with Kernel.open(tmp_path / "s.db", models=models, environ={}) as kernel:
            runs = kernel.for_tenant()
            builder = ContextBuilder(identity="You know.", memory_store=kernel.memory)
            agent = AutonomousAgent(kernel=kernel, context_builder=builder, agent_id="ann")
            memory = kernel.memory.for_agent(runs.id, "ann")
            await memory.append("Kim likes tea.", key="k1")
            first = await agent.run(run_id="r", model="m", prompt="What does Kim like?")
            await memory.append("Kim likes coffee.", key="k2")
            used = [
                source.partition(" (")[0]
                for part in (await runs.manifest("r", "c1/model")).parts
                if part.tag == "memory"
                for source in part.src
            ]
            old = used[0]
            id_, _, version = old.partition("@")
            newer = f"{id_}@{int(version) + 1}"

            name = await runs.fork("r", at=1, with_={old: newer})
            itself = await runs.fork("r", with_={old: newer})  # begins before that was read
            fourth = await agent.run(run_id=itself, model="m", prompt="What does Kim like?")
            assert "coffee" in fourth.text
            kept = await runs.fork("r", at=1, with_={old: old})
            second = await agent.run(run_id=name, model="m", prompt="What does Kim like?")
            third = await agent.run(run_id=kept, model="m", prompt="What does Kim like?")

            assert "coffee" not in first.text
            assert "coffee" in second.text
            assert "coffee" not in third.text

    play(scenario())


# Artifacts


@tool(side_effect=False)
async def long_list(ctx: ToolContext) -> str:
    "A result that becomes an artifact."
    return "x" * 100_000


def test_a_fork_writes_under_its_folder_and_never_over_its_origin(tmp_path: Path) -> None:
    answers = iter(["first report", "other report", "third"])

    async def scenario() -> None:
        models = {"m": ScriptedModel(lambda request: next(answers))}
        with Kernel.open(tmp_path / "s.db", models=models, environ={}) as kernel:
            runs = kernel.for_tenant()
            agent = AutonomousAgent(kernel=kernel, identity="You report.")
            told: dict[str, Any] = {"model": "m", "prompt": "Report.", "artifact": "reports/q3"}
            one = await agent.run(run_id="r", **told)
            name = await runs.fork("r", at=1)
            other = await agent.run(run_id=name, **told)

            assert one.artifact == "reports/q3@1"
            assert other.artifact == f"forks/{name}/reports/q3@1"
            artifacts = runs.as_principal("operator").artifacts
            assert (await artifacts.read("reports/q3")).version == 1

            owner = (await artifacts.read("reports/q3")).owner
            home = await runs.adopt(f"forks/{name}/reports/q3", principal=owner)
            assert (home.id, home.version, home.content) == ("reports/q3", 2, "other report")
            assert home.provenance.derived_from == (f"forks/{name}/reports/q3@1",)
            with pytest.raises(InvalidRequest, match="no fork has written"):
                await runs.adopt("reports/q3")
            again = await runs.adopt(f"forks/{name}/reports/q3", to="reports/mine")
            assert (again.id, again.version) == ("reports/mine", 1)

    play(scenario())


def test_a_fork_reads_its_own_first(tmp_path: Path) -> None:
    async def scenario() -> None:
        with opened(tmp_path) as kernel:
            await write(kernel, "prompts/tone", "Be brief.")
            runs = kernel.for_tenant()
            await told(kernel, "a")
            name = await runs.fork("a", at=1)
            await write(kernel, f"forks/{name}/prompts/tone", "The fork's own.")

            assert "The fork's own." in await told(kernel, name)

    play(scenario())


def test_large_results_of_a_fork_are_under_its_folder(tmp_path: Path) -> None:
    async def code(run: Run) -> str:
        return (await run.step_tool("long_list", {})).ref or ""

    async def scenario() -> None:
        with Kernel.open(tmp_path / "s.db", tools=[long_list], environ={}) as kernel:
            runs = kernel.for_tenant()
            await drive(runs, code)
            name = await runs.fork("r", at=1)
            await drive(runs, code, name)

            assert (await result_of(runs, "r")).startswith("runs/r/")
            assert (await result_of(runs, name)).startswith(f"forks/{name}/runs/{name}/")

    play(scenario())


# Skills and profiles


def _skill(folder: Path, name: str, text: str) -> Path:
    path = folder / "skills" / name
    path.mkdir(parents=True)
    head = f"---\nname: {name}\ndescription: How reports look ({name}).\n---\n"
    (path / "SKILL.md").write_text(f"{head}{text}\n")
    return path


def test_a_fork_loads_the_other_skill(tmp_path: Path) -> None:
    def model(request: Any) -> Any:
        if not any(message.role == "tool" for message in request.messages):
            return tool_call("load_skill", {"skill_name": "totals-first"})
        return "\n".join(message.text for message in request.messages if message.role == "tool")

    async def scenario() -> None:
        skills = [
            _skill(tmp_path, "totals-first", "Write the totals first."),
            _skill(tmp_path, "totals-last", "Write the totals last."),
        ]
        builder = ContextBuilder(identity="You report.", progressive_skills=True, skills=skills)
        models = {"m": ScriptedModel(model)}
        with Kernel.open(tmp_path / "s.db", models=models, environ={}) as kernel:
            runs = kernel.for_tenant()
            agent = AutonomousAgent(kernel=kernel, context_builder=builder)
            first = await agent.run(run_id="r", model="m", prompt="Report.")

            name = await runs.fork("r", at=1, with_={"skill:totals-first": "totals-last"})
            second = await agent.run(run_id=name, model="m", prompt="Report.")

            assert "totals first" in first.text and "totals last" not in first.text
            assert "totals last" in second.text and "totals first" not in second.text
            late = await runs.fork("r", with_={"skill:totals-first": "totals-last"})
            third = await agent.run(run_id=late, model="m", prompt="Report.")
            assert "totals last" in third.text and "totals first" not in third.text
            assert [step["key"] for step in (await runs.cost(late))["steps"]] == ["c2/model"]
            with pytest.raises(NotFound, match="no 'totals-never'"):
                await runs.fork("r", with_={"totals-first": "totals-never"})

    play(scenario())


# Where a fork begins, and forks of forks


async def _branch_of(kernel: Kernel, run_id: str) -> int:
    origin_seq = (await kernel.for_tenant().show(run_id))["origin_seq"]
    assert origin_seq is not None
    return origin_seq


async def _seqs(kernel: Kernel, run_id: str, kind: str) -> list[int]:
    rows = await kernel.store.query(
        "SELECT e.seq FROM events e JOIN runs r ON r.id = e.stream WHERE r.run = ? AND e.kind = ?"
        " ORDER BY e.seq",
        (run_id, kind),
    )
    return [row[0] for row in rows]


def test_a_fork_of_a_finished_run_begins_before_the_first_use_of_what_it_replaces(tmp_path: Path) -> None:
    async def scenario() -> None:
        with opened(tmp_path) as kernel:
            await write(kernel, "prompts/tone", "Be brief.")
            await write(kernel, "prompts/loud", "BE LOUD.")
            runs = kernel.for_tenant()
            await drive(runs, works)
            assert "Be brief." in await told(kernel, "a")
            reading = (await _seqs(kernel, "a", "tool.requested"))[0]
            calling = (await _seqs(kernel, "r", "tool.requested"))[0]

            name = await runs.fork("a", with_={"prompts/tone@1": "prompts/loud"})
            other = await runs.fork("r", with_={"orders": "orders_v2"})
            asking = await runs.fork("r", with_={"m": "n"})
            both = await runs.fork("r", with_={"m": "n", "orders": "orders_v2"})

            assert await _branch_of(kernel, name) == reading - 1
            assert "BE LOUD." in await told(kernel, name)
            assert await _branch_of(kernel, other) == calling - 1
            await drive(runs, works, other)
            assert await result_of(runs, other) == ["m: Go.", "Oslo: 413"]
            assert (await runs.cost(other))["steps"] == []  # the model's answer is shared
            assert await _branch_of(kernel, asking) == await _branch_of(kernel, both) == 1
            await drive(runs, works, both)
            assert await result_of(runs, both) == ["n: Go.", "Oslo: 413"]

    play(scenario())


def test_a_fork_behind_every_use_of_what_it_replaces_is_refused_and_names_the_last_event(
    tmp_path: Path,
) -> None:
    async def scenario() -> None:
        with opened(tmp_path) as kernel:
            runs = kernel.for_tenant()
            await drive(runs, works)
            last = (await _seqs(kernel, "r", "tool.requested"))[-1] - 1

            with pytest.raises(NotFound, match=f"--at {last} is the last"):
                await runs.fork("r", at=last + 1, with_={"orders": "orders_v2"})
            with pytest.raises(NotFound, match="'m' after event"):
                await runs.fork("r", at=last, with_={"orders": "orders_v2", "m": "n"})

            name = await runs.fork("r", at=last, with_={"orders": "orders_v2"})
            await drive(runs, works, name)
            assert await result_of(runs, name) == ["m: Go.", "Oslo: 413"]

    play(scenario())


def test_a_fork_that_replaces_what_a_run_below_used_begins_before_the_step_that_started_it(
    tmp_path: Path,
) -> None:
    def boss(request: Any) -> Any:
        results = [one.text for one in request.messages if one.role == "tool"]
        return results[-1] if results else tool_call("counter", {"prompt": "Count."})

    def counter(request: Any) -> Any:
        results = [one.text for one in request.messages if one.role == "tool"]
        return results[-1] if results else tool_call("orders", {"city": "Oslo"})

    async def scenario() -> None:
        models = {"boss": ScriptedModel(boss), "counter": ScriptedModel(counter)}
        with Kernel.open(tmp_path / "s.db", models=models, tools=[orders, orders_v2], environ={}) as kernel:
            runs = kernel.for_tenant()
            below = SubAgentFactory(kernel=kernel, model="counter").create(
                name="counter", description="Counts.", tools=[orders, orders_v2]
            )
            agent = AutonomousAgent(kernel=kernel, identity="You ask.", tools=[below])
            first = await agent.run(run_id="r", model="boss", prompt="Ask.")
            assert "412" in first.text
            asked = (await _seqs(kernel, "r", "tool.requested"))[0]

            name = await runs.fork("r", with_={"orders": "orders_v2"}, effects="live")

            assert await _branch_of(kernel, name) == asked - 1
            assert "413" in (await agent.run(run_id=name, model="boss", prompt="Ask.")).text

    play(scenario())


def test_no_call_is_under_way_where_a_fork_begins_by_itself(tmp_path: Path) -> None:
    """Its outcome would be unknown to the fork, though the origin knows it."""
    sent: list[str] = []

    @tool(side_effect=True)
    async def send(to: str) -> str:
        "Send."
        await begun.wait()
        sent.append(to)
        return to

    @tool(side_effect=False, name="look")
    async def look() -> str:
        "Look."
        begun.set()
        return "seen"

    @tool(side_effect=False, name="look_again")
    async def look_again() -> str:
        "Look again."
        return "seen again"

    begun = asyncio.Event()

    async def code(run: Run) -> list[str]:
        made = await asyncio.gather(
            run.step_tool("send", {"to": "ana"}, key="send"), run.step_tool("look", {}, key="look")
        )
        return [one.value for one in made]

    async def scenario() -> None:
        with Kernel.open(tmp_path / "s.db", tools=[send, look, look_again], environ={}) as kernel:
            runs = kernel.for_tenant()
            await drive(runs, code)
            name = await runs.fork("r", with_={"look": "look_again"})
            await drive(runs, code, name)

            assert await result_of(runs, name) == ["ana", "seen again"]
            assert sent == ["ana"]

    play(scenario())


def _named_tool(name: str) -> Tool[..., Any]:
    @tool(side_effect=False, name=name)
    def made() -> str:
        "A name."
        return name

    return made


async def _names_itself(run: Run) -> list[str]:
    reply = await run.step_model(model="m", messages=[{"role": "user", "content": "q"}])
    return [(await run.step_tool("t1")).value, reply.text]


def _naming(tmp_path: Path) -> Kernel:
    models = {name: ScriptedModel(lambda request, name=name: name) for name in ("m", "m2", "m3")}
    tools = [_named_tool(f"t{number}") for number in (1, 2, 3, 4)]
    return Kernel.open(tmp_path / "s.db", models=models, tools=tools, environ={})


@pytest.mark.parametrize(
    ("refs", "result"),
    [
        ({"m2": "m3"}, ["t2", "m3"]),
        ({"openai:m2": "m3"}, ["t2", "m3"]),
        ({"t2": "t3"}, ["t3", "m2"]),
        ({"t1": "t3"}, ["t3", "m2"]),  # a name of its code
        ({"t2": "t1", "m2": "m"}, ["t1", "m"]),
    ],
)
def test_a_fork_of_a_fork_replaces_what_its_origin_used(
    tmp_path: Path, refs: dict[str, str], result: list[str]
) -> None:
    async def scenario() -> None:
        with _naming(tmp_path) as kernel:
            runs = kernel.for_tenant()
            await drive(runs, _names_itself)
            first = await runs.fork("r", at=1, with_={"t1": "t2", "m": "m2"})
            await drive(runs, _names_itself, first)
            assert await result_of(runs, first) == ["t2", "m2"]

            for at in (1, None):
                second = await runs.fork(first, at=at, with_=refs)
                await drive(runs, _names_itself, second)
                await drive(runs, _names_itself, second)  # and its record replays
                assert await result_of(runs, second) == result
                third = await runs.fork(second, at=1)
                await drive(runs, _names_itself, third)
                assert await result_of(runs, third) == result

    play(scenario())


def test_a_fork_swaps_two_tools_and_its_fork_swaps_them_back(tmp_path: Path) -> None:
    async def code(run: Run) -> list[str]:
        return [(await run.step_tool("t1")).value, (await run.step_tool("t2")).value]

    async def scenario() -> None:
        swap = {"t1": "t2", "t2": "t1"}
        with _naming(tmp_path) as kernel:
            runs = kernel.for_tenant()
            await drive(runs, code)
            first = await runs.fork("r", with_=swap)
            await drive(runs, code, first)
            second = await runs.fork(first, with_=swap)
            await drive(runs, code, second)

            assert await result_of(runs, first) == ["t2", "t1"]
            assert await result_of(runs, second) == ["t1", "t2"]

    play(scenario())


def test_a_tool_that_was_only_there_to_be_used_cannot_be_replaced(tmp_path: Path) -> None:
    async def scenario() -> None:
        with _naming(tmp_path) as kernel:
            runs = kernel.for_tenant()
            await drive(runs, _names_itself)
            for old in ("t4", "m3"):
                with pytest.raises(NotFound, match=f"never used '{old}'"):
                    await runs.fork("r", at=1, with_={old: old[0]})

    play(scenario())


def test_a_ref_is_not_replaced_by_itself(tmp_path: Path) -> None:
    async def scenario() -> None:
        with _naming(tmp_path) as kernel:
            runs = kernel.for_tenant()
            await drive(runs, _names_itself)
            with pytest.raises(InvalidRequest, match="by itself changes nothing"):
                await runs.fork("r", with_={"t1": "t1"})

    play(scenario())
