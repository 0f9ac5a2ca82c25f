"""Runs, model calls and tool calls as spans under the conventional names, each below the right one."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from artelier import Kernel, ModelReply, ToolContext, Usage, tool
from artelier.errors import InvalidRequest, ToolFailed
from artelier.testing import ScriptedModel
from tests.kernel.stage import ACME, PRICE, ask, billed, echo, play, user
from tests.telemetry.watch import Watch, facts, failure


@tool(side_effect=False)
async def look(at: str) -> dict[str, str]:
    "Look."
    return {"seen": at}


def test_a_run_its_model_call_and_its_tool_call_have_the_conventional_names(tmp_path: Path) -> None:
    watch = Watch()
    usage = Usage(input_tokens=100, cached_input_tokens=60, output_tokens=7, cache_write_input_tokens=5)
    reply = ModelReply(text="hi", usage=usage, finish_reason="stop")

    async def scenario() -> None:
        with Kernel.open(
            tmp_path / "s.db", models=ScriptedModel([reply], price=PRICE), tools=[look], telemetry=watch.pair
        ) as kernel:
            async with kernel.run("r", tenant=ACME) as run:
                await run.step_model(
                    model="mistral:large",
                    messages=[user("x")],
                    max_output_tokens=50,
                    temperature=0.5,
                    key="first",
                )
                await run.step_tool("look", {"at": "moon"})

    play(scenario())

    root, chat, looked = (watch.one("invoke_agent"), watch.one("chat large"), watch.one("execute_tool look"))
    assert dict(facts(root)) == {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.conversation.id": "r",
        "artelier.tenant": "acme",
        "artelier.status": "completed",
    }
    assert dict(facts(chat)) == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "mistral_ai",
        "gen_ai.request.model": "large",
        "gen_ai.request.max_tokens": 50,
        "gen_ai.request.temperature": 0.5,
        "gen_ai.conversation.id": "r",
        "gen_ai.response.finish_reasons": ("stop",),
        "gen_ai.usage.input_tokens": 100,
        "gen_ai.usage.output_tokens": 7,
        "gen_ai.usage.cache_read.input_tokens": 60,
        "gen_ai.usage.cache_creation.input_tokens": 5,
        "artelier.cost_microusd": 114,
        "artelier.step.key": "first",
        "artelier.tenant": "acme",
    }
    assert dict(facts(looked)) == {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "look",
        "gen_ai.tool.type": "function",
        "gen_ai.conversation.id": "r",
        "artelier.step.key": "1",
        "artelier.tenant": "acme",
    }
    assert (root.kind.name, chat.kind.name, looked.kind.name) == ("INTERNAL", "CLIENT", "INTERNAL")
    assert [watch.parent_of(span) for span in (root, chat, looked)] == [None, root, root]
    assert [failure(span) for span in watch.spans] == [None] * 3


def test_a_child_run_hangs_below_the_tool_that_runs_it(tmp_path: Path) -> None:
    watch = Watch()

    async def scenario() -> None:
        parents: dict[str, Any] = {}

        @tool(side_effect=False)
        async def delegate(to: str, ctx: ToolContext) -> str:
            "Have a child do it."
            async with kernel.run(f"r/{to}", parent=parents["r"]) as child:
                return await ask(child, to)

        with Kernel.open(tmp_path / "s.db", models=echo(), tools=[delegate], telemetry=watch.pair) as kernel:
            async with kernel.run("r") as run:
                parents["r"] = run
                await run.parallel(*(run.step_tool("delegate", {"to": to}, key=to) for to in ("a", "b")))

    play(scenario())

    paths = {(facts(span)["gen_ai.conversation.id"]): watch.path(span) for span in watch.named("chat m")}
    below = ["invoke_agent", "execute_tool delegate", "invoke_agent", "chat m"]
    assert paths == {"r/a": below, "r/b": below}
    for span in watch.named("chat m"):
        child = watch.parent_of(span)
        assert child is not None
        above = watch.parent_of(child)
        assert above is not None
        assert f"r/{facts(above)['artelier.step.key']}" == facts(span)["gen_ai.conversation.id"]


def test_a_child_of_a_run_hangs_below_it_whatever_task_opens_it(tmp_path: Path) -> None:
    watch = Watch()

    async def scenario() -> None:
        with Kernel.open(tmp_path / "s.db", models=echo(), telemetry=watch.pair) as kernel:
            ready, done = asyncio.Event(), asyncio.Event()
            held: list[Any] = []

            async def parent() -> None:
                async with kernel.run("p") as run:
                    held.append(run)
                    ready.set()
                    await done.wait()

            async def child() -> None:
                await ready.wait()
                async with kernel.run("c", parent=held[0]) as run:
                    await ask(run, "x")
                await ask(held[0], "y")  # a step of the parent from a task that is not in it
                done.set()

            await asyncio.gather(child(), parent())

    play(scenario())

    chats = {facts(s)["gen_ai.conversation.id"]: watch.path(s) for s in watch.named("chat m")}
    assert chats == {"c": ["invoke_agent", "invoke_agent", "chat m"], "p": ["invoke_agent", "chat m"]}


def test_spans_of_the_callers_own_stand_between(tmp_path: Path) -> None:
    watch = Watch()
    tracer = watch.tracers.get_tracer("mine")

    async def scenario() -> None:
        with Kernel.open(tmp_path / "s.db", models=echo(), telemetry=watch.pair) as kernel:
            with tracer.start_as_current_span("request"):
                async with kernel.run("r") as run:
                    with tracer.start_as_current_span("phase"):
                        await ask(run, "x")
                with tracer.start_as_current_span("after"):
                    pass

    play(scenario())

    assert watch.path(watch.one("chat m")) == ["request", "invoke_agent", "phase", "chat m"]
    assert watch.path(watch.one("after")) == ["request", "after"]


def test_a_run_that_is_kept_open_is_not_what_its_caller_does_next(tmp_path: Path) -> None:
    watch = Watch()

    async def scenario() -> None:
        kernel = Kernel.open(tmp_path / "s.db", models=echo(), telemetry=watch.pair)
        for run_id in ("a", "b", "a"):
            await kernel.step_model(run_id=run_id, model="m", messages=[user(run_id)])
        watch.tracers.get_tracer("mine").start_span("after").end()
        await kernel.aclose()

    play(scenario())

    assert watch.path(watch.one("after")) == ["after"]
    assert len(watch.named("chat m")) == 3
    for span in watch.named("chat m"):
        above = watch.parent_of(span)
        assert above is not None
        assert watch.parent_of(above) is None
        assert facts(above)["gen_ai.conversation.id"] == facts(span)["gen_ai.conversation.id"]


def test_a_streamed_call_is_one_span_that_does_not_leak_into_its_reader(tmp_path: Path) -> None:
    watch = Watch()

    async def scenario() -> None:
        model = ScriptedModel([billed("a text that comes in several pieces, as they do")])
        with Kernel.open(tmp_path / "s.db", models=model, telemetry=watch.pair) as kernel:
            async with kernel.run("r") as run:
                async for _ in run.stream_model(model="m", messages=[user("x")]):
                    watch.tracers.get_tracer("mine").start_span("read").end()

    play(scenario())

    assert len(watch.named("read")) > 2
    assert all(watch.path(span) == ["invoke_agent", "read"] for span in watch.named("read"))
    assert facts(watch.one("chat m"))["gen_ai.usage.output_tokens"] == 10


def test_a_plain_tools_thread_is_inside_its_span(tmp_path: Path) -> None:
    watch = Watch()

    @tool(side_effect=False)
    def plain(n: int) -> int:
        "Not async."
        watch.tracers.get_tracer("mine").start_span("inside").end()
        return n

    async def scenario() -> None:
        with Kernel.open(tmp_path / "s.db", tools=[plain], telemetry=watch.pair) as kernel:
            async with kernel.run("r") as run:
                await run.step_tool("plain", {"n": 1})

    play(scenario())

    assert watch.path(watch.one("inside")) == ["invoke_agent", "execute_tool plain", "inside"]


@pytest.mark.parametrize("wrong", ["yes", (1, 2), (None, None), [], 3])
def test_telemetry_that_is_none_is_refused_at_the_door(tmp_path: Path, wrong: Any) -> None:
    with pytest.raises(InvalidRequest, match="telemetry"):
        Kernel.open(tmp_path / "s.db", telemetry=wrong)

    assert not (tmp_path / "s.db").exists()


def test_a_tool_that_uses_tools_of_its_run_has_them_below_it(tmp_path: Path) -> None:
    watch = Watch()

    async def scenario() -> None:
        runs: list[Any] = []

        @tool(side_effect=False)
        async def twice(at: str) -> str:
            "Look, and say so."
            try:
                await runs[0].step_tool("look", {"at": at}, key="inner")
            except InvalidRequest:
                raise ToolFailed("no") from None
            return at

        with Kernel.open(tmp_path / "s.db", tools=[look, twice], telemetry=watch.pair) as kernel:
            async with kernel.run("r") as run:
                runs.append(run)
                result = await run.step_tool("twice", {"at": "sun"}, key="outer")
                assert not result.is_error

    play(scenario())

    path = watch.path(watch.one("execute_tool look"))
    assert path == ["invoke_agent", "execute_tool twice", "execute_tool look"]


def test_the_spans_of_one_run_are_one_trace(tmp_path: Path) -> None:
    watch = Watch()

    async def scenario() -> None:
        with Kernel.open(tmp_path / "s.db", models=echo(), telemetry=watch.pair) as kernel:
            async with kernel.run("r") as run:
                texts = await run.gather(*(lambda branch, n=n: ask(branch, n) for n in "abc"))
                assert texts == ["re: a", "re: b", "re: c"]
            async with kernel.run("s") as run:
                await ask(run, "x")

    play(scenario())

    traces = {span.context.trace_id for span in watch.spans if span.context is not None}
    roots = watch.named("invoke_agent")
    assert len(traces) == len(roots) == 2
    assert sum(watch.parent_of(span) is roots[0] for span in watch.named("chat m")) == 3
