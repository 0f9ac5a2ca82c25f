"""Failures, retries, interruptions and replays: told by code, and never counted twice."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from artelier import Kernel, ModelReply, RunSuspended, Tenant, ToolContext, Usage, tool
from artelier.errors import (
    ModelRefusedCall,
    ModelTimeout,
    OutputInvalid,
    ProviderUnavailable,
    RateLimited,
    ToolFailed,
    TransientError,
)
from artelier.testing import ManualClock, ScriptedModel
from tests.kernel.crashes import Deaths
from tests.kernel.stage import (
    EAGER,
    PRICE,
    GateModel,
    World,
    all_others_are_dead,
    ask,
    billed,
    drive,
    echo,
    events,
    play,
    user,
)
from tests.telemetry.watch import Watch, facts, failure

SECRET = "sk-live-9f8e7d"


def tokens(watch: Watch) -> dict[str, int]:
    """Tokens by type, over all points."""
    found: dict[str, int] = {}
    for point in watch.points("gen_ai.client.token.usage"):
        kind = point.attributes["gen_ai.token.type"]
        found[kind] = found.get(kind, 0) + point.sum
    return found


def calls(watch: Watch) -> int:
    return sum(point.count for point in watch.points("gen_ai.client.operation.duration"))


def test_metrics_count_calls_and_tokens_by_model(tmp_path: Path) -> None:
    watch = Watch()

    async def scenario() -> None:
        replies = [billed("a", inputs=10, outputs=2), billed("b", inputs=30, outputs=5)]
        with Kernel.open(tmp_path / "s.db", models=ScriptedModel(replies), telemetry=watch.pair) as kernel:
            async with kernel.run("r") as run:
                await ask(run, "x")
                await ask(run, "y")

    play(scenario())

    (duration,) = watch.points("gen_ai.client.operation.duration")
    assert dict(duration.attributes) == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "m",
    }
    assert duration.count == 2
    assert tokens(watch) == {"input": 40, "output": 7}
    assert {point.count for point in watch.points("gen_ai.client.token.usage")} == {2}


def test_a_step_that_is_replayed_is_marked_and_counted_no_second_time(tmp_path: Path) -> None:
    before, after = Watch(), Watch()
    looked: list[str] = []

    @tool(side_effect=False)
    async def look(at: str) -> str:
        "Look."
        looked.append(at)
        return at

    async def scenario() -> None:
        async def steps(kernel: Kernel, *, to_the_end: bool) -> None:
            async with kernel.run("r") as run:
                await ask(run, "x", key="first")
                await run.step_tool("look", {"at": "moon"}, key="look")
                with pytest.raises(ModelRefusedCall):
                    await ask(run, "bad", key="bad")
                if not to_the_end:
                    raise KeyboardInterrupt
                await ask(run, "y", key="second")

        model = ScriptedModel([billed("1"), ModelRefusedCall(SECRET), billed("2")])
        with Kernel.open(tmp_path / "s.db", models=model, tools=[look], telemetry=before.pair) as kernel:
            with pytest.raises(KeyboardInterrupt):
                await steps(kernel, to_the_end=False)
        with Kernel.open(tmp_path / "s.db", models=model, tools=[look], telemetry=after.pair) as kernel:
            await steps(kernel, to_the_end=True)

    play(scenario())

    assert facts(before.one("invoke_agent"))["artelier.status"] == "pending"
    assert failure(before.one("invoke_agent")) is None
    root = after.one("invoke_agent")
    assert facts(root)["artelier.resumed"] is True
    assert facts(root)["artelier.steps_replayed"] == 3
    assert [(event.name, dict(event.attributes or {})) for event in root.events] == [
        (
            "artelier.step.replayed",
            {"gen_ai.operation.name": "chat", "artelier.step.key": "first", "artelier.replayed": True},
        ),
        (
            "artelier.step.replayed",
            {"gen_ai.operation.name": "execute_tool", "artelier.step.key": "look", "artelier.replayed": True},
        ),
        (
            "artelier.step.replayed",
            {
                "gen_ai.operation.name": "chat",
                "artelier.step.key": "bad",
                "artelier.replayed": True,
                "error.type": "model_refused_call",
            },
        ),
    ]
    assert [span.name for span in after.spans] == ["chat m", "invoke_agent"]
    assert facts(after.one("chat m"))["artelier.step.key"] == "second"
    assert (calls(before), tokens(before)) == (2, {"input": 10, "output": 10})
    assert (calls(after), tokens(after)) == (1, {"input": 10, "output": 10})
    assert looked == ["moon"]


def test_an_offline_replay_has_a_marked_span_and_no_usage(tmp_path: Path) -> None:
    watch = Watch()

    async def scenario() -> None:
        async def code(run: Any) -> None:
            for n in range(105):
                await ask(run, str(n))
            run.finish("done")

        with Kernel.open(tmp_path / "s.db", models=echo()) as kernel:
            async with kernel.run("r") as run:
                await code(run)
        with Kernel.open(tmp_path / "s.db", models=echo(), telemetry=watch.pair) as kernel:
            await kernel.for_tenant().replay("r", code)

    play(scenario())

    root = watch.one("invoke_agent")
    assert watch.spans == (root,)
    assert facts(root)["artelier.replayed"] is True
    assert "artelier.resumed" not in facts(root)
    assert facts(root)["artelier.steps_replayed"] == 105
    assert len(root.events) == 100
    assert calls(watch) == 0
    assert tokens(watch) == {}


def test_retries_are_events_of_one_span(tmp_path: Path) -> None:
    watch = Watch()
    looked = 0

    @tool(side_effect=False)
    async def flaky() -> str:
        "Fails once."
        nonlocal looked
        looked += 1
        if looked == 1:
            raise TransientError(SECRET)
        return "ok"

    async def scenario() -> None:
        model = ScriptedModel([ProviderUnavailable(SECRET), RateLimited("429"), billed("ok")])
        with Kernel.open(
            tmp_path / "s.db", models=model, tools=[flaky], telemetry=watch.pair, policy=EAGER
        ) as kernel:
            async with kernel.run("r") as run:
                await ask(run, "x")
                await run.step_tool("flaky")

    play(scenario())

    chat, called = watch.one("chat m"), watch.one("execute_tool flaky")
    told = [dict(event.attributes or {}) for event in (*chat.events, *called.events)]
    assert {event.name for event in (*chat.events, *called.events)} == {"artelier.call.retried"}
    assert [(t["artelier.attempt"], t["error.type"]) for t in told] == [
        (1, "provider_unavailable"),
        (2, "rate_limited"),
        (1, "transient"),
    ]
    assert failure(chat) is None
    assert failure(called) is None
    assert calls(watch) == 1
    assert SECRET not in watch.everything()


def test_failures_carry_the_stable_code_and_no_message(tmp_path: Path) -> None:
    watch = Watch()

    @tool(side_effect=False)
    async def broken(n: int) -> str:
        "Breaks."
        raise (ToolFailed if n else ZeroDivisionError)(SECRET)

    async def scenario() -> None:
        refused = ModelRefusedCall(SECRET, usage=Usage(input_tokens=9, output_tokens=1))
        with Kernel.open(
            tmp_path / "s.db",
            models=ScriptedModel([refused, RuntimeError(SECRET)], price=PRICE),
            tools=[broken],
            telemetry=watch.pair,
        ) as kernel:
            with pytest.raises(ModelRefusedCall):
                async with kernel.run("a") as run:
                    await run.step_tool("broken", {"n": 0})
                    await run.step_tool("broken", {"n": 1})
                    await run.step_tool("broken", {"n": SECRET})
                    await run.step_tool(SECRET, {})
                    await ask(run, "x")
            with pytest.raises(RuntimeError):
                async with kernel.run("b") as run:
                    await ask(run, "x")
            async with kernel.run("c") as run:
                run.fail("stuck", SECRET)

    play(scenario())

    tools = [span for span in watch.spans if span.name.startswith("execute_tool")]
    assert [(span.name, failure(span)) for span in tools] == [
        ("execute_tool broken", "tool_failed"),
        ("execute_tool broken", "tool_failed"),
        ("execute_tool broken", "invalid_arguments"),
        ("execute_tool _OTHER", "tool_failed"),
    ]
    first, second = watch.named("chat m")
    assert (failure(first), failure(second)) == ("model_refused_call", "RuntimeError")
    assert facts(first)["artelier.cost_microusd"] == 11
    assert facts(first)["gen_ai.usage.input_tokens"] == 9
    assert "gen_ai.usage.input_tokens" not in facts(second)
    roots = {facts(s)["gen_ai.conversation.id"]: failure(s) for s in watch.named("invoke_agent")}
    assert roots == {"a": "model_refused_call", "b": "RuntimeError", "c": "stuck"}
    assert SECRET not in watch.everything()


def test_a_reply_that_does_not_fit_is_paid_for_and_marked(tmp_path: Path) -> None:
    watch = Watch()

    async def scenario() -> None:
        schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
        with Kernel.open(
            tmp_path / "s.db", models=ScriptedModel([billed("no JSON")]), telemetry=watch.pair
        ) as kernel:
            with pytest.raises(OutputInvalid):
                async with kernel.run("r") as run:
                    await ask(run, "x", output=schema)
            with pytest.raises(OutputInvalid):
                async with kernel.run("r") as run:
                    await ask(run, "x", output=schema)

    play(scenario())

    chat = watch.one("chat m")
    _, replay = watch.named("invoke_agent")
    assert [(e.attributes or {})["error.type"] for e in replay.events] == ["output_invalid"]
    assert failure(chat) == "output_invalid"
    assert facts(chat)["gen_ai.usage.output_tokens"] == 10
    assert facts(chat)["gen_ai.output.type"] == "json"
    (duration,) = watch.points("gen_ai.client.operation.duration")
    assert duration.attributes["error.type"] == "output_invalid"


def test_a_call_that_was_stopped_and_made_again_is_two_spans_side_by_side(tmp_path: Path) -> None:
    watch = Watch()
    entered = asyncio.Event()
    again = asyncio.Event()

    @tool(side_effect=False)
    async def slow() -> str:
        "Waits."
        entered.set()
        await again.wait()
        return "ok"

    async def scenario() -> None:
        gate = GateModel()
        with Kernel.open(tmp_path / "s.db", models=gate, tools=[slow], telemetry=watch.pair) as kernel:
            runs = kernel.for_tenant()

            async def work() -> None:
                async with runs.run("r") as run:
                    await run.step_model(model="m", messages=[user("x")])
                    await run.step_tool("slow")

            working = asyncio.create_task(work())
            await gate.asked("x")
            await runs.stop("r")
            while (await runs.show("r"))["status"] != "paused":
                await asyncio.sleep(0)
            assert failure(watch.one("chat m")) == "cancelled"
            gate.answer("x", "later")
            await runs.resume("r")
            await entered.wait()
            await runs.stop("r")
            while (await runs.show("r"))["status"] != "paused":
                await asyncio.sleep(0)
            assert failure(watch.one("execute_tool slow")) == "cancelled"
            again.set()
            await runs.resume("r")
            await working

    play(scenario())

    for name in ("chat m", "execute_tool slow"):
        spans = watch.named(name)
        assert [failure(span) for span in spans] == ["cancelled", None]
        assert all(watch.path(span) == ["invoke_agent", name] for span in spans)


def test_a_hidden_outcome_is_an_error_and_a_wait_is_none(tmp_path: Path) -> None:
    watch = Watch()

    @tool(side_effect=True)
    async def pay() -> str:
        "Pays, perhaps."
        raise ConnectionError(SECRET)

    @tool(side_effect=False)
    async def consult(ctx: ToolContext) -> str:
        "Asks a person."
        return (await ctx.ask("may I?")).decision

    async def scenario() -> None:
        with Kernel.open(tmp_path / "s.db", tools=[pay, consult], telemetry=watch.pair) as kernel:
            with pytest.raises(RunSuspended):
                async with kernel.run("a", on_wait="suspend") as run:
                    await run.step_tool("pay")
            with pytest.raises(RunSuspended):
                async with kernel.run("b", on_wait="suspend") as run:
                    await run.step_tool("consult")

    play(scenario())

    assert failure(watch.one("execute_tool pay")) == "unknown_outcome"
    assert failure(watch.one("execute_tool consult")) is None
    assert facts(watch.one("execute_tool consult"))["artelier.status"] == "waiting_approval"
    roots = {facts(s)["gen_ai.conversation.id"]: failure(s) for s in watch.named("invoke_agent")}
    assert roots == {"a": "unknown_outcome", "b": None}
    assert SECRET not in watch.everything()


def test_a_run_without_money_says_so(tmp_path: Path) -> None:
    watch = Watch()

    async def scenario() -> None:
        model = ScriptedModel([billed("x")], price=PRICE)
        with Kernel.open(tmp_path / "s.db", models=model, telemetry=watch.pair) as kernel:
            with pytest.raises(RunSuspended):
                async with kernel.run("r", tenant=Tenant("poor", budget_usd="0.000001")) as run:
                    await ask(run, "x")

    play(scenario())

    assert failure(watch.one("invoke_agent")) == "budget_exhausted"
    assert facts(watch.one("invoke_agent"))["artelier.status"] == "budget_exhausted"
    assert watch.named("chat m") == []


def test_a_stream_that_its_reader_left_has_what_came(tmp_path: Path) -> None:
    watch = Watch()

    async def scenario() -> None:
        reply = ModelReply(text="a text that comes in several pieces, as they do")
        with Kernel.open(tmp_path / "s.db", models=ScriptedModel([reply]), telemetry=watch.pair) as kernel:
            async with kernel.run("r") as run:
                stream = run.stream_model(model="m", messages=[user("x")])
                await anext(stream)
                await stream.aclose()  # pyright: ignore[reportAttributeAccessIssue] - a generator

    play(scenario())

    chat = watch.one("chat m")
    assert facts(chat)["gen_ai.response.finish_reasons"] == ("cut",)
    assert failure(chat) is None


def test_a_kernel_that_is_closed_ends_the_spans_of_what_is_open(tmp_path: Path) -> None:
    watch = Watch()

    async def scenario() -> None:
        with Kernel.open(tmp_path / "s.db", models=echo(), telemetry=watch.pair) as kernel:
            await kernel.step_model(run_id="r", model="m", messages=[user("x")])

    play(scenario())

    assert [span.name for span in watch.spans] == ["chat m", "invoke_agent"]


def test_a_span_tells_what_each_attempt_cost_and_what_all_of_them_did(tmp_path: Path) -> None:
    watch = Watch()

    async def answered(run: Any) -> None:
        await ask(run, "x")

    async def scenario() -> list[tuple[int, int]]:
        late, busy = ModelTimeout("late"), ProviderUnavailable("busy")
        model = ScriptedModel([late, busy, late, billed("ok"), *[late] * 4], price=PRICE)
        with Kernel.open(tmp_path / "s.db", models=model, telemetry=watch.pair, policy=EAGER) as kernel:
            assert await drive(kernel.for_tenant(), answered) == "completed"
            assert (await drive(kernel.for_tenant(), answered, "s")).startswith("failed")
            costs = [(await kernel.for_tenant().cost(name))["cost_microusd"] for name in "rs"]
            told = [
                [
                    event.plain().get("cost", 0)
                    for event in await events(kernel, name)
                    if event.kind == "model.attempted"
                ]
                for name in "rs"
            ]
        spans = watch.named("chat m")
        assert [facts(span)["artelier.cost_microusd"] for span in spans] == costs
        retried = [
            [(event.attributes or {}).get("artelier.cost_microusd", 0) for event in span.events]
            for span in spans
        ]
        assert retried == told
        return [(len(one), sum(one)) for one in told]

    (first, paid), (second, lost) = play(scenario())
    assert (first, second) == (3, 3)
    assert 0 < paid < lost, "what is turned away costs nothing"


def test_a_span_tells_what_the_call_of_a_dead_process_cost(tmp_path: Path) -> None:
    watch = Watch()

    async def asks(run: Any) -> None:
        await ask(run, "x")

    async def scenario() -> int:
        deaths = Deaths(tmp_path / "s.db", World(), skip=("commit.before", "commit.after"))
        model = ScriptedModel(lambda _: billed("ok"), price=PRICE)
        with Kernel.open(
            tmp_path / "s.db", models=model, fault=deaths, clock=ManualClock(), environ={}
        ) as kernel:
            await drive(kernel.for_tenant(), asks)
        dead = next(death.path for death in deaths.found if death.point == "model.requested")
        with Kernel.open(dead, models=model, telemetry=watch.pair, clock=ManualClock(), environ={}) as kernel:
            all_others_are_dead(kernel)
            assert await drive(kernel.for_tenant(), asks) == "completed"
            return (await kernel.for_tenant().cost("r"))["cost_microusd"]

    cost = play(scenario())
    chat = watch.one("chat m")
    (lost,) = [dict(event.attributes or {}) for event in chat.events]
    assert (lost["artelier.attempt"], lost["error.type"]) == (0, "interrupted")
    assert facts(chat)["artelier.cost_microusd"] == cost
    assert 0 < int(str(lost["artelier.cost_microusd"])) < cost
