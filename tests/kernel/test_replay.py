"""Code that runs again gets what was recorded, and is told where it asks for something else."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from artelier import Kernel, Run, tool
from artelier.app import TenantKernel
from artelier.errors import InvalidRequest, ModelRefusedCall, NotFound, ReplayMismatch, RunEnded
from artelier.kernel.steps.failures import RecordedError
from artelier.ports.model import ToolSchema
from artelier.testing import ManualClock, ScriptedModel, tool_call
from tests.kernel.crashes import Deaths
from tests.kernel.stage import World, ask, drive, echo, kinds, open_kernel, play, result_of, user

SYSTEM = {"role": "system", "content": "be brief"}
TOOL = ToolSchema(name="t", description="", parameters={"type": "object"})


@tool(side_effect=False)
async def look(at: str) -> str:
    """Look."""
    return f"seen {at}"


@tool(side_effect=False)
async def find(at: str) -> str:
    """Find."""
    return f"found {at}"


async def _original(run: Run) -> Any:
    reply = await run.step_model(model="m", messages=[SYSTEM, user("hi")], temperature=0.5)
    looked = await run.step_tool("look", {"at": "moon"})
    count = await run.step("count", len, [1, 2, 3])
    return [reply.text, looked.value, count]


async def _failing_later(run: Run) -> None:
    await _original(run)
    raise InvalidRequest("stop here")


def _variant(**changes: Any) -> Callable[[Run], Awaitable[Any]]:
    """The same code with another first request."""

    async def code(run: Run) -> Any:
        request: dict[str, Any] = {"model": "m", "messages": [SYSTEM, user("hi")], "temperature": 0.5}
        return (await run.step_model(**(request | changes))).text

    return code


@pytest.mark.parametrize(
    ("section", "changes"),
    [
        ("system", {"messages": [SYSTEM | {"content": "be long"}, user("hi")]}),
        ("conversation", {"messages": [SYSTEM, user("ho")]}),
        ("conversation", {"messages": [SYSTEM, user("hi"), user("more")]}),
        ("params", {"temperature": 0.7}),
        ("params", {"max_output_tokens": 7}),
        ("tools", {"tools": [TOOL]}),
        ("output_schema", {"output": {"type": "object"}}),
        ("model", {"model": "other"}),
        ("system", {"messages": [SYSTEM | {"content": "x"}, user("ho")]}),
    ],
)
def test_strict_replay_names_the_first_section_that_differs(
    tmp_path: Path, section: str, changes: dict[str, Any]
) -> None:
    async def scenario() -> None:
        model = echo()
        with open_kernel(tmp_path, model, tools=[look]) as kernel:
            runs = kernel.for_tenant()
            assert await drive(runs, _original) == "completed"
            with pytest.raises(ReplayMismatch, match=section) as mismatch:
                async with runs.run("r") as run:
                    await _variant(**changes)(run)
            assert mismatch.value.section == section
            assert len(model.requests) == 1
            assert (await runs.show("r"))["status"] == "completed"

    play(scenario())


def test_a_finished_run_replays_with_no_calls_and_writes_nothing(tmp_path: Path) -> None:
    computed: list[int] = []

    async def code(run: Run) -> Any:
        first = await _original(run)
        value = await run.step("draw", lambda: computed.append(1) or len(computed))
        await run.sleep(0)
        return [first, value]

    async def scenario() -> None:
        model = echo()
        with open_kernel(tmp_path, model, tools=[look]) as kernel:
            runs = kernel.for_tenant()
            assert await drive(runs, code) == "completed"
            before, position = await result_of(runs), await kernel.store.root()
            async with runs.run("r") as run:
                assert await code(run) == before
                assert run.status == "completed"
            assert await kernel.store.root() == position
            assert len(model.requests) == len(computed) == 1

    play(scenario())


def test_a_finished_run_takes_no_new_steps(tmp_path: Path) -> None:
    async def longer(run: Run) -> None:
        await _original(run)
        await ask(run, "more")

    async def scenario() -> None:
        model = echo()
        with open_kernel(tmp_path, model, tools=[look]) as kernel:
            runs = kernel.for_tenant()
            await drive(runs, _original)
            with pytest.raises(RunEnded, match="is completed"):
                async with runs.run("r") as run:
                    await longer(run)
            assert len(model.requests) == 1

    play(scenario())


async def _reopened(runs: TenantKernel, code: Callable[[Run], Awaitable[Any]], **more: Any) -> str:
    """Drive a run that failed after its last step again, with other code."""
    await runs.retry("r")
    return await drive(runs, code, **more)


@pytest.mark.parametrize(
    ("code", "section"),
    [
        (lambda run: run.step_tool("look", {"at": "moon"}), "kind"),
        (lambda run: run.sleep(1), "kind"),
        (lambda run: run.approve("ok?"), "kind"),
        (lambda run: run.step("x", len, []), "kind"),
    ],
)
def test_a_step_of_another_kind_is_a_mismatch(
    tmp_path: Path, code: Callable[[Run], Awaitable[Any]], section: str
) -> None:
    async def scenario() -> None:
        with open_kernel(tmp_path, tools=[look]) as kernel:
            runs = kernel.for_tenant()
            await drive(runs, _failing_later)
            await runs.retry("r")
            with pytest.raises(ReplayMismatch) as mismatch:
                async with runs.run("r") as run:
                    await code(run)
            assert mismatch.value.section == section

    play(scenario())


@pytest.mark.parametrize(
    ("name", "arguments", "section"), [("find", {"at": "moon"}, "tool"), ("look", {"at": "sun"}, "arguments")]
)
def test_another_tool_or_other_arguments_are_a_mismatch(
    tmp_path: Path, name: str, arguments: dict[str, Any], section: str
) -> None:
    async def other(run: Run) -> None:
        await run.step_model(model="m", messages=[SYSTEM, user("hi")], temperature=0.5)
        await run.step_tool(name, arguments)

    async def renamed(run: Run) -> None:
        await run.step_model(model="m", messages=[SYSTEM, user("hi")], temperature=0.5)
        await run.step_tool("look", {"at": "moon"})
        await run.step("other", len, [1, 2, 3])

    async def scenario() -> None:
        with open_kernel(tmp_path, tools=[look, find]) as kernel:
            runs = kernel.for_tenant()
            await drive(runs, _original)
            for code, wanted in ((other, section), (renamed, "name")):
                with pytest.raises(ReplayMismatch) as mismatch:
                    async with runs.run("r") as run:
                        await code(run)
                assert mismatch.value.section == wanted

    play(scenario())


def _invented(name: str, arguments: Any) -> Callable[[Run], Awaitable[Any]]:
    """Code that makes a call which is refused, and goes on."""

    async def code(run: Run) -> Any:
        return (await run.step_tool(name, arguments)).value

    return code


@pytest.mark.parametrize(
    ("name", "arguments", "section"),
    [
        ("look", {"at": 8}, "arguments"),
        ("look", {"at": "moon"}, "arguments"),
        ("look", object(), "arguments"),
        ("invented", {"at": 7}, "tool"),
    ],
)
def test_a_refused_call_is_held_to_its_record_as_well(
    tmp_path: Path, name: str, arguments: Any, section: str
) -> None:
    async def scenario() -> None:
        with open_kernel(tmp_path, tools=[look]) as kernel:
            runs = kernel.for_tenant()
            assert await drive(runs, _invented("look", {"at": 7})) == "completed"
            refused = await result_of(runs)
            assert refused["error"]["code"] == "invalid_arguments"
            assert await _invented_again(runs, "look", {"at": 7}) == refused
            with pytest.raises(ReplayMismatch) as mismatch:
                await _invented_again(runs, name, arguments)
            assert mismatch.value.section == section
            assert await _invented_again(runs, name, arguments, "allow_prompt_drift") == refused

    play(scenario())


async def _invented_again(runs: TenantKernel, name: str, arguments: Any, replay: str = "strict") -> Any:
    async with runs.run("r", replay=replay) as run:
        return await _invented(name, arguments)(run)


def test_a_call_that_has_no_form_as_json_is_refused_and_replayed(tmp_path: Path) -> None:
    """Neither compared nor kept: its refusal is all there is to record."""

    async def scenario() -> None:
        with open_kernel(tmp_path, tools=[look]) as kernel:
            runs = kernel.for_tenant()
            assert await drive(runs, _invented("look", {"at": object()})) == "completed"
            assert await drive(runs, _invented("look", {"at": object()})) == "completed"
            assert (await result_of(runs))["error"]["code"] == "invalid_arguments"

    play(scenario())


def test_a_request_that_was_pending_is_held_to_its_record_as_well(tmp_path: Path) -> None:
    """A crash before the reply: the same code asks the same again, other code is told."""

    async def code(run: Run) -> str:
        return await ask(run, "hi")

    async def other(run: Run) -> str:
        return await ask(run, "ho")

    async def scenario() -> None:
        clock = ManualClock()
        deaths = Deaths(tmp_path / "s.db", World(), skip=("commit.before", "commit.after"))
        with open_kernel(tmp_path, fault=deaths, clock=clock) as kernel:
            await drive(kernel.for_tenant(), code)
        pending = next(d for d in deaths.found if d.point == "model.requested")
        clock.advance(60)
        with Kernel.open(pending.path, models=echo(), clock=clock) as kernel:
            runs = kernel.for_tenant()
            assert (await runs.steps("r"))[0]["status"] == "requested"
            assert await drive(runs, other) == "failed: replay_mismatch"
            assert await _reopened(runs, code) == "completed"
            assert await result_of(runs) == "re: hi"

    play(scenario())


def test_drift_is_recorded_goes_on_and_leaves_every_prompt_renderable(tmp_path: Path) -> None:
    """I6 under `allow_prompt_drift`: recorded values come back, new requests hold what is said now."""

    def code(word: str, *, fails: bool) -> Callable[[Run], Awaitable[Any]]:
        async def body(run: Run) -> Any:
            talk = run.conversation()
            talk.append(SYSTEM | {"content": f"be {word}"})
            texts: list[str] = []
            plain: list[Any] = [user(f"plain {word}")]
            for number in range(3):
                talk.append(user(f"{word} {number}"))
                reply = await run.step_model(model="m", messages=talk)
                talk.append(reply)
                texts.append(reply.text)
                plain.append(user(f"list {number}"))
                texts.append((await run.step_model(model="m", messages=plain)).text)
            if fails:
                raise InvalidRequest("enough")
            talk.append(user("last"))
            plain.append(user("plain last"))
            texts.append((await run.step_model(model="m", messages=talk.tail(3))).text)
            texts.append((await run.step_model(model="m", messages=plain)).text)
            return texts

        return body

    async def scenario() -> None:
        model = echo()
        with open_kernel(tmp_path, model) as kernel:
            runs = kernel.for_tenant()
            await drive(runs, code("old", fails=True))
            done = await _reopened(runs, code("new", fails=False), replay="allow_prompt_drift")
            assert done == "completed"
            texts = await result_of(runs)
            assert texts[0] == "re: old 0"
            assert texts[-2:] == ["re: last", "re: plain last"]
            assert (await kinds(kernel)).count("prompt.drifted") == 6

            sent = {request.canonical() for request in model.requests}
            assert len(model.requests) == 8
            for key in range(1, 9):
                assert (await runs.render("r", str(key))).canonical() in sent
            newest = model.requests[-1].messages
            assert [m.text for m in newest][:2] == ["plain new", "list 0"]

    play(scenario())


def test_a_recorded_failure_is_raised_again_as_the_same_class(tmp_path: Path) -> None:
    async def code(run: Run) -> Any:
        caught: list[str] = []
        for name, raises in (("ours", InvalidRequest), ("gone", NotFound)):

            def fails(raises: Any = raises) -> None:
                raise raises(f"no {raises.__name__}")

            try:
                await run.step(name, fails)
            except raises as error:
                caught.append(str(error))
        try:
            await ask(run, "x")
        except ModelRefusedCall as error:
            caught.append(error.code)
        try:
            await ask(run, "y")
        except (ZeroDivisionError, RecordedError) as error:
            caught.append(str(error))
        return caught

    async def scenario() -> None:
        model = ScriptedModel([ModelRefusedCall("content policy"), ZeroDivisionError("by zero")])
        with open_kernel(tmp_path, model) as kernel:
            runs = kernel.for_tenant()
            assert await drive(runs, code) == "completed"
            first = await result_of(runs)
            assert first == ["no InvalidRequest", "no NotFound", "model_refused_call", "by zero"]
            async with runs.run("r") as run:
                assert await code(run) == first
            model.assert_done()

    play(scenario())


def test_a_step_function_that_is_not_json_is_refused_and_can_be_mended(tmp_path: Path) -> None:
    async def broken(run: Run) -> Any:
        return await run.step("draw", lambda: object())

    async def mended(run: Run) -> Any:
        return await run.step("draw", lambda: {"n": (1, 2)})

    async def scenario() -> None:
        with open_kernel(tmp_path) as kernel:
            runs = kernel.for_tenant()
            assert await drive(runs, broken) == "failed: invalid_request"
            assert await _reopened(runs, mended) == "completed"
            assert await result_of(runs) == {"n": [1, 2]}

    play(scenario())


def test_a_changed_tool_list_is_an_event_and_old_requests_keep_theirs(tmp_path: Path) -> None:
    """Replay takes the tools that a model was shown from the log, never from the registry."""

    async def code(run: Run) -> Any:
        reply = await run.step_model(model="m", messages=[user("a")], tools=None)
        if reply.tool_calls:
            await run.step_tool("look", reply.tool_calls[0].arguments, call=reply.tool_calls[0])
        await run.approve("go on?")
        return (await run.step_model(model="m", messages=[user("b")], tools=None)).text

    async def scenario() -> None:
        first = ScriptedModel([tool_call("look", {"at": "moon"})])
        with open_kernel(tmp_path, first, tools=[look]) as kernel:
            runs = kernel.for_tenant()
            assert await drive(runs, code, on_wait="suspend") == "waiting_approval"
        second = ScriptedModel(["end"])
        with open_kernel(tmp_path, second, tools=[find, look]) as kernel:
            runs = kernel.for_tenant()
            await runs.approve("r")
            assert await drive(runs, code) == "completed"
            assert "tools.changed" in await kinds(kernel)
            assert [t.name for t in (await runs.render("r", "1")).tools] == ["look"]
            assert [t.name for t in (await runs.render("r", "4")).tools] == ["find", "look"]

    play(scenario())


def test_an_answer_may_outlive_its_wording_if_drift_is_allowed(tmp_path: Path) -> None:
    def code(question: str) -> Callable[[Run], Awaitable[Any]]:
        async def body(run: Run) -> Any:
            return (await run.approve(question)).note

        return body

    async def scenario() -> None:
        with open_kernel(tmp_path) as kernel:
            runs = kernel.for_tenant()
            assert await drive(runs, code("ok?"), on_wait="suspend") == "waiting_approval"
            await runs.approve("r", note="yes")
            drifted = await drive(runs, code("Is it okay?"), replay="allow_prompt_drift")
            assert drifted == "completed"
            assert await result_of(runs) == "yes"
            assert "prompt.drifted" in await kinds(kernel)

    play(scenario())
