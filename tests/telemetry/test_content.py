"""What was said leaves the process only if somebody opted in, and then in bounded pieces."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from artelier import Kernel, ModelReply, ToolCall, tool
from artelier.telemetry import OpenTelemetry
from artelier.testing import ScriptedModel
from tests.kernel.stage import play
from tests.telemetry.watch import Watch, facts

SYSTEM, SAID, ANSWER, WHERE, SEEN = ("be-kind", "my-password-is", "it-is-so", "in-the-attic", "a-ghost")


@tool(side_effect=False)
async def look(at: str) -> dict[str, str]:
    "Look."
    return {"seen": f"{SEEN} {at[-2:]}"}


async def told(tmp_path: Path, telemetry: Any, *, times: int = 1, **opening: Any) -> None:
    """A run that says all of it, `times` long."""
    call = ToolCall(id="c1", name="look", arguments={"at": WHERE * times})
    model = ScriptedModel([ModelReply(tool_calls=(call,)), ANSWER * times])
    with Kernel.open(tmp_path / "s.db", models=model, tools=[look], telemetry=telemetry, **opening) as kernel:
        async with kernel.run("r") as run:
            talk = run.conversation()
            talk.append({"role": "system", "content": SYSTEM})
            talk.append({"role": "user", "content": SAID * times})
            reply = await run.step_model(model="m", messages=talk, tools=["look"])
            talk.append(reply)
            talk.append(await run.step_tool("look", reply.tool_calls[0].arguments, call=call))
            await run.step_model(model="m", messages=talk, tools=["look"])


def test_nothing_that_was_said_is_in_spans_or_metrics(tmp_path: Path) -> None:
    watch = Watch()

    play(told(tmp_path, watch.pair, environ={}))

    left = watch.everything()
    assert "execute_tool look" in left
    assert [word for word in (SYSTEM, SAID, ANSWER, WHERE, SEEN) if word in left] == []


@pytest.mark.parametrize("by", ["code", "environment"])
def test_content_is_there_for_who_opted_in(tmp_path: Path, by: str) -> None:
    watch = Watch()
    tracers, meters = watch.pair
    telemetry: Any = watch.pair
    if by == "code":
        telemetry = OpenTelemetry(tracer_provider=tracers, meter_provider=meters, content=True)
    environ = {"ARTELIER_OTEL_CONTENT": "1"} if by == "environment" else {}

    play(told(tmp_path, telemetry, environ=environ))

    _, second = (facts(span) for span in watch.named("chat m"))
    assert json.loads(str(second["gen_ai.input.messages"])) == [
        {"role": "system", "parts": [{"type": "text", "content": SYSTEM}]},
        {"role": "user", "parts": [{"type": "text", "content": SAID}]},
        {
            "role": "assistant",
            "parts": [{"type": "tool_call", "id": "c1", "name": "look", "arguments": {"at": WHERE}}],
        },
        {
            "role": "tool",
            "parts": [{"type": "tool_call_response", "id": "c1", "response": f'{{"seen":"{SEEN} ic"}}'}],
        },
    ]
    assert json.loads(str(second["gen_ai.output.messages"])) == [
        {"role": "assistant", "finish_reason": "stop", "parts": [{"type": "text", "content": ANSWER}]}
    ]
    looked = facts(watch.one("execute_tool look"))
    assert json.loads(str(looked["gen_ai.tool.call.arguments"])) == {"at": WHERE}
    assert json.loads(str(looked["gen_ai.tool.call.result"])) == {"seen": f"{SEEN} ic"}


def test_content_is_bounded_however_much_was_said(tmp_path: Path) -> None:
    watch = Watch()
    tracers, meters = watch.pair
    telemetry = OpenTelemetry(tracer_provider=tracers, meter_provider=meters, content=True)

    async def scenario() -> None:
        await told(tmp_path, telemetry, times=2_000)
        calls = tuple(ToolCall(id=f"c{n}", name="look", arguments={"at": "x" * 3000}) for n in range(90))
        model = ScriptedModel([ModelReply(tool_calls=calls)])
        with Kernel.open(tmp_path / "t.db", models=model, telemetry=telemetry) as kernel:
            async with kernel.run("many") as run:
                messages = [{"role": "user", "content": f"{n}: " + "y" * 1000} for n in range(200)]
                await run.step_model(model="m", messages=messages)

    play(scenario())

    values = [str(value) for span in watch.spans for value in facts(span).values()]
    assert max(map(len, values)) <= 32_000
    third = facts(watch.named("chat m")[2])
    kept = json.loads(str(third["gen_ai.input.messages"]))
    assert kept[-1]["parts"][0]["content"].startswith("199: ")  # the newest are kept
    assert len(kept) + int(str(third["artelier.content.omitted_messages"])) == 200
    answered = json.loads(str(third["gen_ai.output.messages"]))[0]["parts"]
    assert 0 < len(answered) < 90
    looked = str(facts(watch.one("execute_tool look"))["gen_ai.tool.call.arguments"])
    assert len(looked) < 5_000
    assert "characters)" in looked


def test_arguments_that_are_no_json_do_not_disturb(tmp_path: Path) -> None:
    watch = Watch()
    tracers, meters = watch.pair
    telemetry = OpenTelemetry(tracer_provider=tracers, meter_provider=meters, content=True)

    async def scenario() -> None:
        with Kernel.open(tmp_path / "s.db", tools=[look], telemetry=telemetry) as kernel:
            async with kernel.run("r") as run:
                for odd in ({"at": "\ud800"}, {"at": {1, 2}}, {"at": object}):
                    assert (await run.step_tool("look", odd)).is_error

    play(scenario())

    assert len(watch.named("execute_tool look")) == 3
