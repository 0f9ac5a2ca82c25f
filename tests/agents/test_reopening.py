"""Agents that ended by a limit go on after `resume`, with a raised limit or a note, and keep what they
paid for."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from artelier import AgentResult, AutonomousAgent, Kernel, Limits, ModelReply, ModelRequest, Policy, tool
from artelier.agents import resume_run
from artelier.errors import Conflict, InvalidRequest, ModelRefusedCall, NotFound, ProviderUnavailable
from artelier.kernel import events as ev
from artelier.log import run_stream
from artelier.ports.model import FREE, ToolCall
from artelier.testing import ManualClock, ScriptedModel, tool_call
from tests.kernel.crashes import Deaths
from tests.kernel.stage import World

Play = Callable[[Kernel, ScriptedModel], Any]


@tool(side_effect=False)
def look(at: str) -> str:
    """Look."""
    return f"saw {at}"


@tool(side_effect=False, poll=True)
def build_status() -> str:
    """Tell how the build stands."""
    return "running"


def notes_of(request: ModelRequest) -> list[str]:
    return [m.text for m in request.messages if m.role == "user" and "note:" in m.text]


def seeker(request: ModelRequest) -> Any:
    """A model that looks at another place each time, until a note tells where the thing is."""
    if notes_of(request):
        return "found it"
    looked = sum(message.role == "tool" for message in request.messages)
    return tool_call("look", {"at": f"place {looked}"})


def play(path: Path, code: Play, model: ScriptedModel | None = None, **more: Any) -> None:
    model = model or ScriptedModel(seeker)

    async def scenario() -> None:
        tools = [look, build_status]
        with Kernel.open(path, models={"m": model}, tools=tools, **more) as kernel:
            await code(kernel, model)

    asyncio.run(scenario())


async def replays(kernel: Kernel, agent: AutonomousAgent, result: AgentResult) -> None:
    replayed = await kernel.for_tenant().replay(result.run_id, agent.drive)
    assert (replayed.status, replayed.reason) == (result.status, result.reason)
    assert replayed.model_calls == 0


async def reopenings(kernel: Kernel, run_id: str = "r") -> list[ev.RunReopened]:
    events = await kernel.store.read(run_stream("default", run_id))
    found = [event.decode() for event in events]
    return [data for data in found if isinstance(data, ev.RunReopened)]


def test_a_run_without_iterations_left_goes_on_with_a_raised_limit(tmp_path: Path) -> None:
    model = ScriptedModel([tool_call("look", {"at": f"p{n}"}) for n in range(5)] + ["there"])

    async def code(kernel: Kernel, model: ScriptedModel) -> None:
        agent, desk = AutonomousAgent(kernel=kernel, max_iterations=3), kernel.for_tenant()
        first = await agent.run(run_id="r", model="m", prompt="Find it.")
        assert (first.status, first.reason) == ("failed", "max_iterations")
        assert "--max-iterations" in first.text and "--note" in first.text

        with pytest.raises(Conflict, match="used up"):
            await desk.resume("r", max_iterations=3)
        second = await agent.resume("r", max_iterations=5)
        assert (second.status, second.reason) == ("failed", "max_iterations")
        third = await agent.resume("r", max_iterations=6)

        assert (third.status, third.text) == ("completed", "there")
        assert len(model.requests) == 6  # each cycle was asked once
        assert [(one.cycle, one.resets, one.limits) for one in await reopenings(kernel)] == [
            (3, (), {"max_iterations": 5}),
            (5, (), {"max_iterations": 6}),
        ]
        await replays(kernel, agent, third)

    play(tmp_path / "s.db", code, model)


def test_a_note_lets_a_run_go_on_and_its_iterations_count_anew(tmp_path: Path) -> None:
    async def code(kernel: Kernel, model: ScriptedModel) -> None:
        agent = AutonomousAgent(kernel=kernel, max_iterations=2)
        first = await agent.run(run_id="r", model="m", prompt="Find it.")
        assert first.reason == "max_iterations"

        result = await agent.resume("r", note="note: it is here")

        assert (result.status, result.text) == ("completed", "found it")
        assert result.usage.input_tokens > first.usage.input_tokens
        assert [one.resets for one in await reopenings(kernel)] == [("iterations",)]
        tools = [m.text for m in model.requests[-1].messages if m.role == "tool"]
        assert len(tools) == 2 and len(model.requests) == 3
        await replays(kernel, agent, result)

    play(tmp_path / "s.db", code)


def test_a_stuck_run_keeps_its_last_cycle_and_goes_on_with_a_note(tmp_path: Path) -> None:
    def stubborn(request: ModelRequest) -> Any:
        return "found it" if notes_of(request) else tool_call("look", {"at": "x"})

    async def code(kernel: Kernel, model: ScriptedModel) -> None:
        agent = AutonomousAgent(kernel=kernel)
        first = await agent.run(run_id="r", model="m", prompt="Find it.")
        assert (first.status, first.reason) == ("failed", "stuck")
        kinds = [event.kind for event in await kernel.store.read(run_stream("default", "r"))]
        assert kinds[-2:] == ["cycle.completed", "run.failed"]
        await replays(kernel, agent, first)

        result = await agent.resume("r", note="note: look elsewhere")

        assert (result.status, result.text) == ("completed", "found it")
        assert len(model.requests) == 4
        shown = [m.text for m in model.requests[-1].messages if m.role == "tool"]
        assert len(shown) == 3  # the cycle that ended it is remembered
        assert [(one.cycle, one.resets) for one in await reopenings(kernel)] == [(3, ("repeated",))]
        await replays(kernel, agent, result)

    play(tmp_path / "s.db", code, ScriptedModel(stubborn))


def test_retry_counts_anew_what_a_run_ended_by(tmp_path: Path) -> None:
    """It could only fail again: the count was where it had been."""
    script = [tool_call("look", {"at": "x"})] * 3 + ["enough"]

    async def code(kernel: Kernel, model: ScriptedModel) -> None:
        agent = AutonomousAgent(kernel=kernel)
        assert (await agent.run(run_id="r", model="m", prompt="Go.")).reason == "stuck"
        await kernel.for_tenant().retry("r")
        result = await agent.run(run_id="r", model="m", prompt="Go.")
        assert (result.status, result.text) == ("completed", "enough")

    play(tmp_path / "s.db", code, ScriptedModel(script))


def test_a_deadline_stays_budget_exhausted_and_goes_on_with_more_time(tmp_path: Path) -> None:
    clock = ManualClock()

    def slow(request: ModelRequest) -> Any:
        clock.advance(20)
        return seeker(request) if len(request.messages) < 8 else "there"

    async def code(kernel: Kernel, model: ScriptedModel) -> None:
        agent = AutonomousAgent(kernel=kernel)
        limits = Limits(wall_s=50)
        first = await agent.run(run_id="r", model="m", prompt="Find it.", limits=limits)
        assert (first.status, first.reason) == ("budget_exhausted", "deadline")
        asked = len(model.requests)
        with pytest.raises(InvalidRequest, match="time is up already"):
            await agent.resume("r", limits=Limits(wall_s=55))

        result = await agent.resume("r", limits=Limits(wall_s=5_000), note="go on")

        assert (result.status, result.text) == ("completed", "there")
        assert any("go on" in m.text for m in model.requests[asked].messages)
        before = [m.text for m in model.requests[asked - 1].messages]
        assert [m.text for m in model.requests[asked].messages][: len(before)] == before
        await replays(kernel, agent, result)

    play(tmp_path / "s.db", code, ScriptedModel(slow), clock=clock)


@pytest.mark.parametrize(
    ("reply", "reason", "count"),
    [
        ("", "empty_reply", 3),
        # Each is asked for twice: how much the model can write is not known.
        (ModelReply(text="The", finish_reason="length"), "output_cut", 6),
    ],
)
def test_replies_that_were_of_no_use_are_no_dead_end(
    tmp_path: Path, reply: Any, reason: str, count: int
) -> None:
    async def code(kernel: Kernel, model: ScriptedModel) -> None:
        agent = AutonomousAgent(kernel=kernel)
        first = await agent.run(run_id="r", model="m", prompt="Speak.")
        assert (first.status, first.reason) == ("failed", reason)
        result = await agent.resume("r", note="Be brief.")
        assert (result.status, result.text) == ("completed", "done")
        await replays(kernel, agent, result)

    play(tmp_path / "s.db", code, ScriptedModel([*[reply] * count, "done"]))


def test_output_that_never_fitted_goes_on_after_a_note(tmp_path: Path) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}

    async def code(kernel: Kernel, model: ScriptedModel) -> None:
        agent = AutonomousAgent(kernel=kernel)
        first = await agent.run(run_id="r", model="m", prompt="Count.", output_schema=schema)
        assert (first.status, first.reason) == ("failed", "output_invalid")
        result = await agent.resume("r", note="As JSON.")
        assert (result.status, result.output) == ("completed", {"n": 4})
        await replays(kernel, agent, result)

    play(tmp_path / "s.db", code, ScriptedModel(["a", "b", "c", '{"n": 4}']))


class Numbered(BaseModel):
    n: int


LOOK = tool_call("look", {"at": "x"})
DOWN = ProviderUnavailable("down")
CUT = ModelReply(text="The", finish_reason="length")


@pytest.mark.parametrize("before", [[], [LOOK]], ids=["at once", "after a tool"])
@pytest.mark.parametrize(
    ("fails", "reason", "more"),
    [
        ([DOWN], "provider_unavailable", {}),
        ([ModelRefusedCall("no")], "model_refused_call", {}),
        (["a", "b", "c"], "output_invalid", {"output_schema": Numbered}),
        ([""] * 3, "empty_reply", {}),
        ([CUT] * 6, "output_cut", {}),
        # Only its last request is made anew: the note is for the one behind it.
        ([DOWN, DOWN], "provider_unavailable", {"models": ["m", "other"]}),
        ([CUT, DOWN], "provider_unavailable", {}),
    ],
    ids=["unavailable", "refused", "invalid", "empty", "cut", "all-unavailable", "cut-unavailable"],
)
def test_a_note_reaches_the_model_whatever_the_run_failed_of(
    tmp_path: Path, before: list[Any], fails: list[Any], reason: str, more: dict[str, Any]
) -> None:
    """A request that came to nothing was made anew without the note, and the run completed without it."""

    def shown(request: ModelRequest) -> Any:
        return '{"n": 4}' if notes_of(request) else '{"n": 3}'

    model = ScriptedModel([*before, *fails, *[shown] * 3])

    async def scenario() -> None:
        models, policy = {"m": model, "other": model}, Policy(attempts_max=1)
        with Kernel.open(tmp_path / "s.db", models=models, tools=[look], policy=policy) as kernel:
            agent = AutonomousAgent(kernel=kernel)
            start: dict[str, Any] = {"model": "m", **more} if "models" not in more else more
            first = await agent.run(run_id="r", prompt="Count.", **start)
            assert (first.status, first.reason) == ("failed", reason)
            asked = len(model.requests)

            result = await agent.resume("r", note="note: there are four")

            assert (result.status, result.text) == ("completed", '{"n": 4}')
            assert any(notes_of(request) for request in model.requests[asked:])
            assert len(notes_of(model.requests[-1])) == 1
            await replays(kernel, agent, result)

    asyncio.run(scenario())


def test_each_note_reaches_the_model_that_fails_again_and_again(tmp_path: Path) -> None:
    refused = ModelRefusedCall("no")

    async def code(kernel: Kernel, model: ScriptedModel) -> None:
        agent = AutonomousAgent(kernel=kernel)
        assert (await agent.run(run_id="r", model="m", prompt="Go.")).reason == "model_refused_call"
        for number in range(3):
            result = await agent.resume("r", note=f"note: {number}")
        assert (result.status, result.text) == ("completed", "done")
        assert [notes_of(request) for request in model.requests] == [
            [f"note: {number}" for number in range(count)] for count in range(4)
        ]
        await replays(kernel, agent, result)

    play(tmp_path / "s.db", code, ScriptedModel([*[refused] * 3, "done"]))


def test_an_answer_is_not_the_end_while_a_note_is_unread(tmp_path: Path) -> None:
    kernels: list[Kernel] = []

    async def greet(request: ModelRequest) -> str:
        if notes_of(request):
            return "Bonjour."
        await kernels[0].for_tenant().inject("r", "note: in French")
        return "Hello."

    async def code(kernel: Kernel, model: ScriptedModel) -> None:
        kernels.append(kernel)
        agent = AutonomousAgent(kernel=kernel)
        result = await agent.run(run_id="r", model="m", prompt="Greet.")
        assert (result.status, result.text) == ("completed", "Bonjour.")
        assert [m.text for m in model.requests[-1].messages[-2:]] == ["Hello.", "note: in French"]
        assert len(model.requests) == 2
        await replays(kernel, agent, result)

    play(tmp_path / "s.db", code, ScriptedModel(greet))


def test_another_process_goes_on_with_what_was_raised(tmp_path: Path) -> None:
    path = tmp_path / "s.db"

    async def begin(kernel: Kernel, model: ScriptedModel) -> None:
        agent = AutonomousAgent(kernel=kernel, max_iterations=2, tools=None)
        await agent.run(run_id="r", model="m", prompt="Find it.")
        await kernel.for_tenant().resume("r", note="note: here", by="ada")
        assert (await kernel.for_tenant().show("r"))["status"] == "pending"

    async def end(kernel: Kernel, model: ScriptedModel) -> None:
        result = await resume_run(kernel, None, "r")
        assert (result.status, result.text) == ("completed", "found it")

    play(path, begin)
    play(path, end)


def test_a_run_that_did_not_fail_is_not_reopened(tmp_path: Path) -> None:
    async def code(kernel: Kernel, model: ScriptedModel) -> None:
        agent, desk = AutonomousAgent(kernel=kernel), kernel.for_tenant()
        await agent.run(run_id="r", model="m", prompt="Speak.")
        wishes: list[dict[str, Any]] = [{"note": "more"}, {"max_iterations": 50}, {}]
        for wish in wishes:
            with pytest.raises(Conflict):
                await desk.resume("r", **wish)
        assert (await agent.resume("r")).text == "done"
        with pytest.raises(NotFound):
            await agent.resume("other")

    play(tmp_path / "s.db", code, ScriptedModel(["done"]))


@pytest.mark.parametrize("wrong", [{"max_iterations": 0}, {"stuck_after": True}])
def test_a_limit_that_is_none_is_refused(tmp_path: Path, wrong: dict[str, Any]) -> None:
    async def code(kernel: Kernel, model: ScriptedModel) -> None:
        agent = AutonomousAgent(kernel=kernel, max_iterations=1)
        await agent.run(run_id="r", model="m", prompt="Find it.")
        with pytest.raises(InvalidRequest, match=next(iter(wrong))):
            await kernel.for_tenant().resume("r", **wrong)

    play(tmp_path / "s.db", code)


def test_a_fork_of_a_stuck_run_is_not_stuck(tmp_path: Path) -> None:
    script = [tool_call("look", {"at": "x"})] * 3 + ["enough"]

    async def code(kernel: Kernel, model: ScriptedModel) -> None:
        agent, desk = AutonomousAgent(kernel=kernel), kernel.for_tenant()
        assert (await agent.run(run_id="r", model="m", prompt="Go.")).reason == "stuck"
        fork = await desk.fork("r")
        result = await resume_run(kernel, None, fork)
        assert (result.status, result.text) == ("completed", "enough")
        assert (await desk.show("r"))["status"] == "failed"

    play(tmp_path / "s.db", code, ScriptedModel(script))


def test_a_run_killed_at_any_point_around_its_end_comes_to_the_same(tmp_path: Path) -> None:
    def stubborn(request: ModelRequest) -> Any:
        return "found it" if notes_of(request) else tool_call("look", {"at": "x"})

    async def to_the_end(kernel: Kernel) -> AgentResult:
        agent = AutonomousAgent(kernel=kernel)
        result = await agent.run(run_id="r", model="m", prompt="Find it.")
        if result.status == "failed":
            assert result.reason == "stuck"
            result = await agent.resume("r", note="note: look elsewhere")
        return result

    async def life(path: Path, **more: Any) -> int:
        model = ScriptedModel(stubborn)
        with Kernel.open(path, models={"m": model}, tools=[look], **more) as kernel:
            result = await to_the_end(kernel)
            assert (result.status, result.text) == ("completed", "found it")
            assert [one.resets for one in await reopenings(kernel)] == [("repeated",)]
            await replays(kernel, AutonomousAgent(kernel=kernel), result)
        return len(model.requests)

    async def scenario() -> list[int]:
        deaths = Deaths(tmp_path / "s.db", World())
        assert await life(tmp_path / "s.db", fault=deaths) == 4
        return [await life(death.path) for death in deaths.found]

    calls = asyncio.run(scenario())
    assert len(calls) > 10
    assert all(count <= 4 for count in calls)  # what was paid for is never asked again
    assert calls == sorted(calls, reverse=True)


def test_a_note_is_read_once_wherever_its_run_is_killed(tmp_path: Path) -> None:
    def stern(request: ModelRequest) -> Any:
        if notes_of(request):
            return "found it"
        if any(message.role == "tool" for message in request.messages):
            raise ModelRefusedCall("no")
        return LOOK

    async def life(path: Path, **more: Any) -> None:
        model = ScriptedModel(stern)
        with Kernel.open(path, models={"m": model}, tools=[look], **more) as kernel:
            agent = AutonomousAgent(kernel=kernel)
            result = await agent.run(run_id="r", model="m", prompt="Find it.")
            if result.status == "failed":
                result = await agent.resume("r", note="note: it is here")
            assert (result.status, result.text) == ("completed", "found it")
            kinds = [event.kind for event in await kernel.store.read(run_stream("default", "r"))]
            # One that a dead process was told is obeyed beside that of the next one.
            assert all(len(notes_of(request)) <= kinds.count("note.injected") for request in model.requests)
            await replays(kernel, agent, result)

    async def scenario() -> None:
        deaths = Deaths(tmp_path / "s.db", World())
        await life(tmp_path / "s.db", fault=deaths)
        assert len(deaths.found) > 10
        for death in deaths.found:
            await life(death.path)

    asyncio.run(scenario())


def test_a_note_that_is_taken_beside_the_last_answer_is_read(tmp_path: Path) -> None:
    """It stood in the log a moment before the end of the run, its author was told so, and nobody read it."""

    async def answered(folder: Path, turns: int) -> bool:
        """Give a note while the model answers, so many turns of the loop ahead; whether it was taken."""
        given: list[asyncio.Future[Any]] = []

        class Model:
            price = FREE

            async def complete(self, request: ModelRequest, /) -> ModelReply:
                if not given:
                    given.append(asyncio.ensure_future(kernel.for_tenant().inject("r", "note: hurry")))
                    for _ in range(turns):
                        await asyncio.sleep(0)
                read.extend(notes_of(request))
                return ModelReply(text="done")

        read: list[str] = []
        folder.mkdir()
        with Kernel.open(folder / "s.db", models={"m": Model()}) as kernel:
            result = await AutonomousAgent(kernel=kernel).run(run_id="r", model="m", prompt="Go.")
            (said,) = await asyncio.gather(*given, return_exceptions=True)
            assert result.status == "completed"
            assert isinstance(said, Conflict) is (not read), turns
        return bool(read)

    async def scenario() -> None:
        taken = [await answered(tmp_path / str(turns), turns) for turns in range(60)]
        assert any(taken)

    asyncio.run(scenario())


# Being stuck


def test_stuck_after_is_a_setting(tmp_path: Path) -> None:
    async def code(kernel: Kernel, model: ScriptedModel) -> None:
        agent = AutonomousAgent(kernel=kernel, stuck_after=5)
        result = await agent.run(run_id="r", model="m", prompt="Go.")
        assert (result.reason, len(model.requests)) == ("stuck", 5)
        never = AutonomousAgent(kernel=kernel, stuck_after=None, max_iterations=9)
        result = await never.run(run_id="n", model="m", prompt="Go.")
        assert result.reason == "max_iterations"
        for agent_, run in ((agent, "r"), (never, "n")):
            assert (await kernel.for_tenant().replay(run, agent_.drive)).status == "failed"
        with pytest.raises(InvalidRequest, match="stuck_after"):
            AutonomousAgent(kernel=kernel, stuck_after=1)

    model = ScriptedModel(lambda _: tool_call("look", {"at": "x"}))
    play(tmp_path / "s.db", code, model)


def test_a_stuck_run_goes_on_with_a_higher_limit_of_equal_calls(tmp_path: Path) -> None:
    async def code(kernel: Kernel, model: ScriptedModel) -> None:
        agent = AutonomousAgent(kernel=kernel)
        first = await agent.run(run_id="r", model="m", prompt="Go.")
        assert first.reason == "stuck" and "--stuck-after 6" in first.text
        second = await agent.resume("r", stuck_after=4)
        assert (second.reason, len(model.requests)) == ("stuck", 7)
        [reopening] = await reopenings(kernel)
        assert (reopening.resets, reopening.limits) == (("repeated",), {"stuck_after": 4})
        await replays(kernel, agent, second)

    model = ScriptedModel(lambda _: tool_call("look", {"at": "x"}))
    play(tmp_path / "s.db", code, model)


def test_what_a_child_ended_by_is_told_to_its_parent_without_commands(tmp_path: Path) -> None:
    async def code(kernel: Kernel, model: ScriptedModel) -> None:
        async with kernel.run("p") as parent:
            agent = AutonomousAgent(kernel=kernel)
            child = await agent.run(run_id="p/c", model="m", prompt="Go.", parent=parent)
            parent.finish()
        assert (child.reason, child.text) == ("stuck", "the same calls gave the same results 3 times")

    model = ScriptedModel(lambda _: tool_call("look", {"at": "x"}))
    play(tmp_path / "s.db", code, model)


def test_looking_again_with_a_poll_tool_is_not_being_stuck(tmp_path: Path) -> None:
    script = [*[tool_call("build_status", {})] * 6, "it is taking long"]

    async def code(kernel: Kernel, model: ScriptedModel) -> None:
        agent = AutonomousAgent(kernel=kernel)
        result = await agent.run(run_id="r", model="m", prompt="Wait for it.")
        assert (result.status, result.text) == ("completed", "it is taking long")
        await replays(kernel, agent, result)

    play(tmp_path / "s.db", code, ScriptedModel(script))


def test_a_call_beside_a_poll_still_counts(tmp_path: Path) -> None:
    both = ModelReply(
        tool_calls=(
            ToolCall(id="1", name="build_status", arguments={}),
            ToolCall(id="2", name="look", arguments={"at": "x"}),
        )
    )

    async def code(kernel: Kernel, model: ScriptedModel) -> None:
        result = await AutonomousAgent(kernel=kernel).run(run_id="r", model="m", prompt="Go.")
        assert (result.reason, len(model.requests)) == ("stuck", 3)

    play(tmp_path / "s.db", code, ScriptedModel(lambda _: both))


def test_a_run_goes_by_the_tools_that_it_was_started_with(tmp_path: Path) -> None:
    """A tool that a later version of the program calls no poll is one for the run at work."""
    path = tmp_path / "s.db"
    model = ScriptedModel([*[tool_call("build_status", {})] * 2, asyncio.CancelledError()])

    async def begin(kernel: Kernel, model: ScriptedModel) -> None:
        with pytest.raises(asyncio.CancelledError):
            await AutonomousAgent(kernel=kernel).run(run_id="r", model="m", prompt="Wait.")

    play(path, begin, model)

    @tool(side_effect=False, name="build_status")
    def changed() -> str:
        """Tell how the build stands."""
        return "running"

    async def end() -> AgentResult:
        script = ScriptedModel([*[tool_call("build_status", {})] * 3, "done"])
        with Kernel.open(path, models={"m": script}, tools=[changed]) as kernel:
            return await AutonomousAgent(kernel=kernel).run(run_id="r", model="m", prompt="Wait.")

    assert asyncio.run(end()).text == "done"


# How many iterations


async def iterations(kernel: Kernel, run_id: str) -> int:
    from artelier.agents.loop_registry import settings_of

    return (await settings_of(kernel, None, run_id))["max_iterations"]


def test_a_bounded_run_has_a_thousand_iterations_and_an_unbounded_one_twenty(tmp_path: Path) -> None:
    from artelier import Tenant

    async def code(kernel: Kernel, model: ScriptedModel) -> None:
        agent = AutonomousAgent(kernel=kernel)
        cases = [
            ("free", None, 20),
            ("tokens", Limits(tokens=10**6), 20),
            ("usd", Limits(usd="1"), 1_000),
            ("time", Limits(wall_s=60), 1_000),
        ]
        for run_id, limits, expected in cases:
            await agent.run(run_id=run_id, model="m", prompt="Speak.", limits=limits)
            assert await iterations(kernel, run_id) == expected
        acme = Tenant("acme", budget_usd="5.00", grants={"*"})
        await agent.run(run_id="t", model="m", prompt="Speak.", tenant=acme)
        from artelier.agents.loop_registry import settings_of

        assert (await settings_of(kernel, acme, "t"))["max_iterations"] == 1_000
        own = AutonomousAgent(kernel=kernel, max_iterations=7)
        await own.run(run_id="own", model="m", prompt="Speak.", limits=Limits(usd="1"))
        assert await iterations(kernel, "own") == 7
        async with kernel.run("parent", limits=Limits(usd="1")) as parent:
            await agent.run(run_id="child", model="m", prompt="Speak.", parent=parent)
            parent.finish()
        assert await iterations(kernel, "child") == 1_000

    play(tmp_path / "s.db", code, ScriptedModel(lambda _: "done"))


_CHILD = """
import asyncio, os, sys
from artelier import AutonomousAgent, Kernel, ModelReply
from artelier.ports.model import FREE

class Mine:
    price = None
    async def complete(self, request, /):
        if sys.argv[2] == "killed":
            os._exit(0)
        return ModelReply(text="done")

async def main():
    with Kernel.open(sys.argv[1], models={"mine": Mine()}, prices={"mine": FREE}) as kernel:
        result = await AutonomousAgent(kernel=kernel).run(run_id="long", model="mine", prompt="Go.")
        assert result.status == "completed", result
    print("table" if "genai_prices" in sys.modules else "no table")

asyncio.run(main())
"""


def test_a_resumed_agent_keeps_its_recorded_window_and_loads_no_table(tmp_path: Path) -> None:
    """A new run of a model that nobody configured a window for asks the bundled table; a resume does not."""

    def drive(path: str, how: str) -> str:
        command = [sys.executable, "-c", _CHILD, str(tmp_path / path), how]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    assert drive("new.db", "answers") == "table"
    drive("resumed.db", "killed")
    assert drive("resumed.db", "answers") == "no table"
