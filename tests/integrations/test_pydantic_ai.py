"""Agents of PydanticAI inside of a run: `Durable`."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel
from pydantic_ai import Agent, BinaryContent, ImageUrl, ModelRetry, RunContext
from pydantic_ai.capabilities import NativeTool
from pydantic_ai.exceptions import ApprovalRequired, UserError
from pydantic_ai.messages import ModelResponse, TextPart, ThinkingPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.native_tools import WebSearchTool
from pydantic_ai.output import NativeOutput
from pydantic_ai.toolsets import AbstractToolset, DynamicToolset, FunctionToolset, ToolsetTool

from artelier import Kernel, Limits, Policy, Price, Run, RunSuspended
from artelier.errors import InvalidRequest, PriceUnknown, ReplayMismatch
from artelier.integrations.pydantic_ai import Durable, current_call
from artelier.models.scripted import ScriptedMediaModel, ScriptedModel, tool_call
from artelier.ports.media import MediaRules
from artelier.ports.model import ModelReply, ModelRequest, reasoning_part
from artelier.tokens.estimate import IMAGES
from artelier.tools import tool
from tests.media.samples import png

MODEL = "openai:gpt-4o-mini"
SEES = MediaRules(types=IMAGES, bound=lambda medium: 1_000)


def agent_of(**more: Any) -> Agent[Any, Any]:
    return Agent(MODEL, name="helper", capabilities=[Durable()], defer_model_check=True, **more)


def drive(
    path: Path,
    model: Any,
    work: Callable[[Run], Awaitable[Any]],
    *,
    opening: dict[str, Any] | None = None,
    **kernel: Any,
) -> Any:
    """Run `work` in the run `r` of a database, and return what it returns."""

    async def main() -> Any:
        with Kernel.open(path / "state.db", models={MODEL: model} if model else None, **kernel) as kernel_:
            async with kernel_.run("r", **(opening or {})) as run:
                with Durable.within(run):
                    found = await work(run)
                run.finish("done")
            return found

    return asyncio.run(main())


def said(request: ModelRequest) -> list[tuple[str, str]]:
    return [(message.role, message.text) for message in request.messages]


def test_a_second_drive_calls_neither_model_nor_tool(tmp_path: Path) -> None:
    agent, booked = agent_of(instructions="Be brief."), list[str]()

    @agent.tool_plain
    def book(city: str) -> str:
        """Book a room."""
        booked.append(f"{city} {current_call().idempotency_key}")
        return f"booked {city}"

    async def work(run: Run) -> Any:
        return (await agent.run("Two rooms.")).output

    model = ScriptedModel(
        [[tool_call("book", {"city": "Oslo"}), tool_call("book", {"city": "Bergen"})], "Both are booked."]
    )
    first = drive(tmp_path, model, work)
    second = drive(tmp_path, ScriptedModel([]), work)

    assert first == second == "Both are booked."
    assert len(booked) == 2
    assert len({one.split()[1] for one in booked}) == 2
    model.assert_done()


def test_the_model_is_asked_what_the_agent_asks(tmp_path: Path) -> None:
    asked: list[ModelRequest] = []

    def answer(request: ModelRequest) -> Any:
        asked.append(request)
        return tool_call("look", {"what": "x"}) if len(asked) == 1 else "seen"

    agent = agent_of(instructions="Be brief.", system_prompt="You look.", model_settings={"temperature": 0.2})

    @agent.tool_plain
    def look(what: str) -> dict[str, str]:
        """Look at something."""
        return {"seen": what}

    async def work(run: Run) -> Any:
        return (await agent.run("Look at x.")).all_messages()

    history = drive(tmp_path, ScriptedModel([answer, answer]), work)

    assert said(asked[1])[:3] == [("system", "You look."), ("system", "Be brief."), ("user", "Look at x.")]
    assert asked[1].messages[3].tool_calls[0].name == "look"
    assert asked[1].messages[4].text == '{"seen":"x"}'
    assert asked[0].params["temperature"] == 0.2
    assert [one.name for one in asked[0].tools] == ["look"]
    assert history[1].usage.input_tokens > 0


def test_a_side_effect_that_was_cut_off_waits_for_a_person(tmp_path: Path) -> None:
    agent = agent_of()

    @agent.tool_plain
    def pay(to: str) -> str:
        """Pay somebody."""
        raise OSError("the line went dead")

    async def work(run: Run) -> Any:
        return await agent.run("Pay ana.")

    with pytest.raises(RunSuspended) as stopped:
        drive(tmp_path, ScriptedModel([tool_call("pay", {"to": "ana"})]), work)

    assert stopped.value.status == "unknown_outcome"


def test_a_person_settles_it_and_the_agent_goes_on_with_what_they_say(tmp_path: Path) -> None:
    agent, paid = agent_of(), list[str]()

    @agent.tool_plain
    def pay(to: str) -> str:
        """Pay somebody."""
        paid.append(to)
        raise OSError("the line went dead")

    async def work(run: Run) -> Any:
        return (await agent.run("Pay ana.")).output

    with pytest.raises(RunSuspended) as stopped:
        drive(tmp_path, ScriptedModel([tool_call("pay", {"to": "ana"})]), work)

    async def settle() -> None:
        with Kernel.open(tmp_path / "state.db") as kernel:
            key = stopped.value.reason or ""
            await kernel.for_tenant().reconcile("r", key, succeeded={"receipt": 7}, by="ana")

    asyncio.run(settle())
    requests: list[ModelRequest] = []

    def answer(request: ModelRequest) -> str:
        requests.append(request)
        return "Paid."

    assert drive(tmp_path, ScriptedModel([answer]), work) == "Paid."
    assert paid == ["ana"]
    assert requests[0].messages[-1].text == '{"receipt":7}'


def test_a_tool_without_side_effect_that_fails_tells_the_model(tmp_path: Path) -> None:
    agent = agent_of()

    @agent.tool_plain(metadata={"artelier": {"side_effect": False}})
    def look() -> str:
        """Look."""
        raise ValueError("too dark")

    async def work(run: Run) -> Any:
        return (await agent.run("Look.")).all_messages()

    history = drive(tmp_path, ScriptedModel([tool_call("look"), "I could not."]), work)

    assert "too dark" in str(history[2].parts[0].content)
    assert history[2].parts[0].outcome == "failed"


def test_a_retry_is_a_retry_on_every_drive(tmp_path: Path) -> None:
    agent, calls = agent_of(), list[int]()

    @agent.tool_plain
    def guess(number: int) -> str:
        """Guess a number."""
        calls.append(number)
        if number < 5:
            raise ModelRetry("higher")
        return "right"

    async def work(run: Run) -> Any:
        return [part for one in (await agent.run("Guess.")).all_messages() for part in one.parts]

    script = [tool_call("guess", {"number": 1}), tool_call("guess", {"number": 7}), "Seven."]
    first = drive(tmp_path, ScriptedModel(script), work)
    second = drive(tmp_path, ScriptedModel([]), work)

    told = [str(getattr(part, "content", "")) for part in first]
    assert any("higher" in text for text in told)
    assert told == [str(getattr(part, "content", "")) for part in second]
    assert calls == [1, 7]


def answer_question(path: Path, **answer: Any) -> None:
    async def main() -> None:
        with Kernel.open(path / "state.db") as kernel:
            await kernel.for_tenant().approve("r", **answer)

    asyncio.run(main())


@pytest.mark.parametrize(("deny", "deleted"), [(False, ["a.txt"]), (True, [])])
def test_a_tool_that_wants_approval_waits_for_a_person(
    tmp_path: Path, deny: bool, deleted: list[str]
) -> None:
    agent, done = agent_of(), list[str]()

    @agent.tool_plain(requires_approval=True)
    def delete(path: str) -> str:
        """Delete a file."""
        done.append(path)
        return "deleted"

    async def work(run: Run) -> Any:
        return (await agent.run("Delete it.")).output

    opening = {"on_wait": "suspend"}
    with pytest.raises(RunSuspended) as waiting:
        drive(tmp_path, ScriptedModel([tool_call("delete", {"path": "a.txt"})]), work, opening=opening)
    answer_question(tmp_path, deny=deny)

    assert waiting.value.status == "waiting_approval"
    assert drive(tmp_path, ScriptedModel(["As you say."]), work, opening=opening) == "As you say."
    assert done == deleted


def test_a_policy_that_wants_approval_asks_and_takes_edited_arguments(tmp_path: Path) -> None:
    agent, done = agent_of(), list[int]()

    @agent.tool_plain
    def order(count: int) -> str:
        """Order something."""
        done.append(count)
        return f"ordered {count}"

    async def work(run: Run) -> Any:
        return (await agent.run("Order nine.")).output

    more: dict[str, Any] = {"policy": Policy(approve_risk="high"), "opening": {"on_wait": "suspend"}}
    with pytest.raises(RunSuspended):
        drive(tmp_path, ScriptedModel([tool_call("order", {"count": 9})]), work, **more)
    answer_question(tmp_path, arguments={"count": 2})

    assert drive(tmp_path, ScriptedModel(["Ordered."]), work, **more) == "Ordered."
    assert done == [2]


def test_a_budget_stops_an_agent_before_its_call(tmp_path: Path) -> None:
    agent, model = agent_of(), ScriptedModel(["never said"])

    async def work(run: Run) -> Any:
        return await agent.run("Write a lot.", model_settings={"max_tokens": 100_000})

    with pytest.raises(RunSuspended) as stopped:
        drive(tmp_path, model, work, opening={"limits": Limits(usd="0.0001")})

    assert stopped.value.status == "budget_exhausted"
    assert model.requests == []


def test_an_instance_is_asked_itself_through_a_hold_and_a_manifest(tmp_path: Path) -> None:
    calls: list[int] = []

    def answer(messages: list[Any], info: AgentInfo) -> ModelResponse:
        calls.append(len(messages))
        return ModelResponse(parts=[TextPart("from the instance")])

    agent = Agent(FunctionModel(answer, model_name="mine"), name="helper", capabilities=[Durable()])

    async def work(run: Run) -> Any:
        return (await agent.run("Hello.")).output

    prices = {"function:mine": Price(input=Decimal(3), output=Decimal(15))}
    assert drive(tmp_path, None, work, prices=prices) == "from the instance"
    assert drive(tmp_path, None, work) == "from the instance"
    assert len(calls) == 1

    async def record() -> Any:
        with Kernel.open(tmp_path / "state.db") as kernel:
            runs = kernel.for_tenant()
            return await runs.manifest("r", "helper-1/model-1"), await runs.cost("r")

    manifest, cost = asyncio.run(record())
    assert manifest.model == "function:mine"
    assert cost["total_cost_microusd"] > 0


def test_an_instance_without_a_known_price_is_refused_before_it_is_asked(tmp_path: Path) -> None:
    calls: list[int] = []

    def answer(messages: list[Any], info: AgentInfo) -> ModelResponse:
        calls.append(len(messages))
        return ModelResponse(parts=[TextPart("free?")])

    agent = Agent(FunctionModel(answer, model_name="mine"), name="helper", capabilities=[Durable()])

    async def work(run: Run) -> Any:
        return await agent.run("Hello.")

    with pytest.raises(PriceUnknown, match="function:mine"):
        drive(tmp_path, None, work)

    assert calls == []


def test_outside_of_a_run_the_agent_is_a_plain_one() -> None:
    agent = Agent(
        FunctionModel(lambda messages, info: ModelResponse(parts=[TextPart("plain")])),
        name="helper",
        capabilities=[Durable()],
    )

    assert asyncio.run(agent.run("Hello.")).output == "plain"


class Weather(BaseModel):
    city: str
    degrees: int


def test_native_output_that_does_not_fit_is_asked_for_again(tmp_path: Path) -> None:
    agent = agent_of(output_type=NativeOutput(Weather))

    async def work(run: Run) -> Any:
        return (await agent.run("Weather?")).output

    script = ['{"city": "Oslo"}', '{"city": "Oslo", "degrees": 21}']

    assert drive(tmp_path, ScriptedModel(script), work) == Weather(city="Oslo", degrees=21)


def test_reasoning_goes_back_with_its_signature(tmp_path: Path) -> None:
    asked: list[ModelRequest] = []
    thought = reasoning_part("hm", provider="anthropic", signature="s1", id_=None, details=None)

    def answer(request: ModelRequest) -> Any:
        asked.append(request)
        if len(asked) > 1:
            return "done"
        call = tool_call("look", id="call_1")
        return ModelReply(tool_calls=(call,), parts=(thought,), finish_reason="tool_calls")

    agent = agent_of()

    @agent.tool_plain
    def look() -> str:
        """Look."""
        return "seen"

    async def work(run: Run) -> Any:
        return (await agent.run("Look.")).all_messages()

    history = drive(tmp_path, ScriptedModel([answer, answer]), work)

    [thinking, call] = history[1].parts
    assert isinstance(thinking, ThinkingPart) and isinstance(call, ToolCallPart)
    assert (thinking.content, thinking.signature, thinking.provider_name) == ("hm", "s1", "anthropic")
    content = asked[1].messages[-2].content
    assert not isinstance(content, str) and thought in content


def test_an_image_is_a_medium_of_the_request(tmp_path: Path) -> None:
    asked: list[ModelRequest] = []

    def answer(request: ModelRequest) -> str:
        asked.append(request)
        return "a dot"

    agent = agent_of()

    async def work(run: Run) -> Any:
        return (
            await agent.run(["What is this?", BinaryContent(data=png(3, 4), media_type="image/png")])
        ).output

    assert drive(tmp_path, ScriptedMediaModel([answer], rules=SEES), work) == "a dot"
    content = asked[0].messages[0].content
    assert not isinstance(content, str)
    assert [part.type for part in content] == ["text", "media"]


def test_code_that_asks_for_something_else_is_found_out(tmp_path: Path) -> None:
    agent = agent_of()

    async def first(run: Run) -> Any:
        return (await agent.run("Hello.")).output

    async def other(run: Run) -> Any:
        return (await agent.run("Good bye.")).output

    drive(tmp_path, ScriptedModel(["Hi."]), first)
    with pytest.raises(ReplayMismatch):
        drive(tmp_path, ScriptedModel([]), other)


def test_a_stream_a_dynamic_toolset_and_a_late_wish_for_approval_go_on(tmp_path: Path) -> None:
    done: list[object] = []

    def ping(x: int) -> int:
        """Ping."""
        done.append(x)
        return x + 1

    dynamic = DynamicToolset(lambda ctx: FunctionToolset([ping], id="inner"), id="dynamic")
    agent = agent_of(toolsets=[dynamic])

    @agent.tool
    def risky(ctx: RunContext[None], what: str) -> str:
        """Do something risky."""
        if not ctx.tool_call_approved:
            raise ApprovalRequired()
        done.append(what)
        return "done"

    async def work(run: Run) -> Any:
        async with agent.run_stream("Ping.") as streamed:
            pieces = [piece async for piece in streamed.stream_text()]
        return [pieces[-1], (await agent.run("Risk it.")).output]

    opening = {"on_wait": "suspend"}
    script = [tool_call("ping", {"x": 1}), "two", tool_call("risky", {"what": "it"})]
    with pytest.raises(RunSuspended):
        drive(tmp_path, ScriptedModel(script), work, opening=opening)
    answer_question(tmp_path)
    first = drive(tmp_path, ScriptedModel(["It is done."]), work, opening=opening)
    second = drive(tmp_path, ScriptedModel([]), work)

    assert first == second == ["two", "It is done."]
    assert done == [1, "it"]


# Refusals


class ForeignToolset(AbstractToolset[Any]):
    """A toolset that Durable cannot see into."""

    @property
    def id(self) -> str:
        return "foreign"

    async def get_tools(self, ctx: RunContext[Any]) -> dict[str, ToolsetTool[Any]]:
        return {}

    async def call_tool(self, name: str, tool_args: Any, ctx: RunContext[Any], tool: Any) -> Any:
        return None


@pytest.mark.parametrize(
    ("prompt", "more", "named"),
    [
        (["See", ImageUrl(url="https://example.org/a.png")], {}, "ImageUrl"),
        ("Hi", {"model_settings": {"logit_bias": {"a": 1}}}, "logit_bias"),
        ("Hi", {"model_settings": {"temperature": 99}}, "temperature"),
    ],
)
def test_what_has_no_form_in_a_run_is_refused_by_name(
    tmp_path: Path, prompt: Any, more: dict[str, Any], named: str
) -> None:
    agent = agent_of(**more)

    async def work(run: Run) -> Any:
        return await agent.run(prompt)

    model = ScriptedModel(["never"])
    with pytest.raises(InvalidRequest) as refused:
        drive(tmp_path, model, work)

    assert named in f"{refused.value.message} {refused.value.got}"
    assert model.requests == []


def test_a_tool_that_a_provider_runs_is_refused_by_name(tmp_path: Path) -> None:
    agent = Agent(
        MODEL, name="helper", capabilities=[Durable(), NativeTool(WebSearchTool())], defer_model_check=True
    )

    async def work(run: Run) -> Any:
        return await agent.run("Hi")

    with pytest.raises(UserError, match="WebSearchTool"):
        drive(tmp_path, ScriptedModel(["never"]), work)


def test_a_toolset_that_nobody_can_see_into_is_refused_by_name() -> None:
    with pytest.raises(InvalidRequest, match="toolset") as refused:
        agent_of(toolsets=[ForeignToolset()])

    assert refused.value.got == "ForeignToolset"


def test_a_toolset_that_comes_with_the_run_is_refused(tmp_path: Path) -> None:
    agent = agent_of()

    async def work(run: Run) -> Any:
        return await agent.run("Hi", toolsets=[FunctionToolset([len], id="late")])

    with pytest.raises(UserError, match="Artelier"):
        drive(tmp_path, ScriptedModel(["never"]), work)


@pytest.mark.parametrize(
    ("metadata", "named"),
    [({"artelier": {"sideeffect": False}}, "sideeffect"), ({"artelier": {"risk": "huge"}}, "huge"),
     ({"artelier": 7}, "7")],
)  # fmt: skip
def test_a_wrong_fact_of_a_tool_is_named(tmp_path: Path, metadata: dict[str, Any], named: str) -> None:
    agent = agent_of()
    agent.tool_plain(metadata=metadata)(look)

    async def work(run: Run) -> Any:
        return await agent.run("Look.")

    with pytest.raises(InvalidRequest) as refused:
        drive(tmp_path, ScriptedModel([tool_call("look")]), work)

    assert named in str(refused.value.got)


def look() -> str:
    """Look."""
    return "seen"


def test_two_tools_of_one_name_are_refused(tmp_path: Path) -> None:
    agent = agent_of()
    agent.tool_plain(look)

    async def work(run: Run) -> Any:
        return await agent.run("Look.")

    with pytest.raises(InvalidRequest, match="each have a tool 'look'"):
        drive(tmp_path, ScriptedModel([tool_call("look")]), work, tools=[tool(look)])


def test_an_agent_inside_of_a_tool_needs_a_run_of_its_own(tmp_path: Path) -> None:
    inner, outer = agent_of(), agent_of()

    @outer.tool_plain(metadata={"artelier": {"side_effect": False}})
    async def delegate() -> str:
        """Ask the other agent."""
        return (await inner.run("Help.")).output

    async def work(run: Run) -> Any:
        return (await outer.run("Delegate.")).all_messages()

    history = drive(tmp_path, ScriptedModel([tool_call("delegate"), "It failed."]), work)

    assert "inside of a tool" in str(history[2].parts[0].content)


def test_two_runs_of_an_agent_have_steps_of_their_own(tmp_path: Path) -> None:
    agent = agent_of()

    async def work(run: Run) -> Any:
        found = await asyncio.gather(agent.run("One."), agent.run("Two."))
        return [one.output for one in found]

    def answer(request: ModelRequest) -> str:
        return f"to {request.messages[-1].text}"

    assert drive(tmp_path, ScriptedModel([answer, answer]), work) == ["to One.", "to Two."]
    assert drive(tmp_path, ScriptedModel([]), work) == ["to One.", "to Two."]
