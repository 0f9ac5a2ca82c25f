"""The autonomous agent as a collector sees it."""

from __future__ import annotations

import asyncio
from pathlib import Path

from artelier import Kernel, ModelReply, ModelRequest, Tenant, Usage, tool
from artelier.agents import AutonomousAgent, SubAgentFactory
from artelier.testing import ScriptedModel, tool_call
from tests.kernel.stage import play
from tests.telemetry.watch import Watch, facts


def test_an_agents_parallel_tools_are_children_of_its_span_and_usage_is_on_model_spans_only(
    tmp_path: Path,
) -> None:
    watch = Watch()
    both = asyncio.Event()
    inside: list[str] = []

    @tool(side_effect=False)
    async def meet(who: str) -> str:
        "Wait for the other."
        inside.append(who)
        if len(inside) == 2:
            both.set()
        await both.wait()
        watch.tracers.get_tracer("tool").start_span(f"in {who}").end()
        return who

    calls = ModelReply(
        tool_calls=tuple(tool_call("meet", {"who": who}, id=f"call-{who}") for who in "ab"),
        usage=Usage(input_tokens=3, output_tokens=4),
    )

    async def scenario() -> None:
        model = ScriptedModel([calls, "done"])
        with Kernel.open(tmp_path / "s.db", models=model, tools=[meet], telemetry=watch.pair) as kernel:
            agent = AutonomousAgent(kernel=kernel, agent_id="scout")
            result = await agent.run(run_id="r", model="openai:gpt-5-mini", prompt="meet")
            assert result.status == "completed"

    play(scenario())

    root = watch.one("invoke_agent scout")
    tools = watch.named("execute_tool meet")
    assert {facts(span)["gen_ai.tool.call.id"] for span in tools} == {"call-a", "call-b"}
    assert all(watch.parent_of(span) is root for span in tools)
    assert all(facts(span)["gen_ai.agent.name"] == "scout" for span in watch.spans[-1:])
    for who in "ab":
        above = watch.parent_of(watch.one(f"in {who}"))
        assert above is not None
        assert facts(above)["gen_ai.tool.call.id"] == f"call-{who}"
    for span in watch.spans:
        uses = [name for name in facts(span) if name.startswith("gen_ai.usage")]
        assert bool(uses) == span.name.startswith("chat")
    assert {facts(s)["gen_ai.provider.name"] for s in watch.named("chat gpt-5-mini")} == {"openai"}


def test_sub_agents_hang_below_the_tools_that_run_them_each_in_its_own(tmp_path: Path) -> None:
    watch = Watch()
    asked = ModelReply(
        tool_calls=tuple(tool_call("research", {"prompt": what}, id=what) for what in "ab"),
        usage=Usage(input_tokens=1, output_tokens=1),
    )

    def script(request: ModelRequest) -> object:
        words = [message.text for message in request.messages if message.role == "user"]
        if words[-1] in ("a", "b"):
            return f"found {words[-1]}"
        return "done" if any(m.role == "tool" for m in request.messages) else asked

    async def scenario() -> None:
        with Kernel.open(tmp_path / "s.db", models=ScriptedModel(script), telemetry=watch.pair) as kernel:
            research = SubAgentFactory(kernel=kernel, parent_id="chief").create(
                name="research", description="Finds out.", model="m", system_prompt="You find out."
            )
            agent = AutonomousAgent(kernel=kernel, agent_id="chief", tools=[research])
            tenant = Tenant("acme", grants={"tools:*"})
            result = await agent.run(run_id="r", tenant=tenant, model="m", prompt="find out")
            assert (result.status, result.text) == ("completed", "done")

    play(scenario())

    children = [s for s in watch.spans if s.name.startswith("invoke_agent") and s.parent]
    assert len(children) == 2
    calls: set[object] = set()
    for child in children:
        above = watch.parent_of(child)
        assert above is not None
        assert watch.path(above) == ["invoke_agent chief", "execute_tool research"]
        calls.add(facts(above)["gen_ai.tool.call.id"])
    assert calls == {"a", "b"}
    below = [s for s in watch.named("chat m") if watch.parent_of(s) in children]
    assert len(below) == 2
