"""A scripted model answers in order and complains of every difference between script and calls."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from artelier.errors import InvalidRequest, RateLimited
from artelier.models.scripted import UnexpectedCall
from artelier.ports.model import (
    FREE,
    ChatMessage,
    Delta,
    ModelReply,
    ModelRequest,
    PricedModelPort,
    StreamingModelPort,
    Usage,
)
from artelier.testing import ScriptedModel, tool_call


def ask(text: str = "hello", **fields: Any) -> ModelRequest:
    return ModelRequest(model="scripted", messages=(ChatMessage(role="user", content=text),), **fields)


def answer(model: ScriptedModel, request: ModelRequest | None = None) -> ModelReply:
    return asyncio.run(model.complete(request or ask()))


def test_steps_answer_in_the_order_of_the_calls_and_requests_are_kept():
    model = ScriptedModel(["one", "two"])

    texts = [answer(model, ask("a")).text, answer(model, ask("b")).text]

    assert texts == ["one", "two"]
    assert [request.messages[0].text for request in model.requests] == ["a", "b"]
    model.assert_done()


def test_a_dict_is_structured_output_and_its_json_text():
    reply = answer(ScriptedModel([{"b": 1, "a": ["x"]}]))

    assert reply.output == {"b": 1, "a": ["x"]}
    assert reply.text == '{"b":1,"a":["x"]}'


def test_a_text_is_parsed_only_if_a_schema_was_asked_for():
    model = ScriptedModel(['{"a": 1}'], repeat_last=True)

    assert answer(model).output is None
    assert answer(model, ask(output_schema={"type": "object"})).output == {"a": 1}


def test_tool_calls_get_ids_that_the_request_determines():
    def calls(request: ModelRequest) -> ModelReply:
        return answer(ScriptedModel([[tool_call("f", {"x": 1}), tool_call("g")]]), request)

    first, again, other = calls(ask()), calls(ask()), calls(ask("other"))

    assert first == again
    assert first.finish_reason == "tool_calls"
    assert [call.name for call in first.tool_calls] == ["f", "g"]
    assert first.tool_calls[1].arguments == {}
    assert len({call.id for call in first.tool_calls + other.tool_calls}) == 4


def test_a_given_tool_call_id_is_kept():
    assert answer(ScriptedModel([tool_call("f", {}, id="mine")])).tool_calls[0].id == "mine"


@pytest.mark.parametrize("step", [RateLimited("slow down", retry_after_s=2), RateLimited])
def test_exceptions_are_raised_and_the_script_goes_on(step: Any):
    model = ScriptedModel([step, "fine"])

    with pytest.raises(RateLimited):
        answer(model)

    assert answer(model).text == "fine"


def test_functions_of_the_request_answer_plain_or_async():
    async def later(request: ModelRequest) -> str:
        return request.messages[0].text.upper()

    model = ScriptedModel([lambda request: {"said": request.messages[0].text}, later])

    assert answer(model, ask("a")).output == {"said": "a"}
    assert answer(model, ask("b")).text == "B"


def test_one_function_is_an_endless_script():
    model = ScriptedModel(lambda request: request.messages[0].text)

    assert [answer(model, ask(str(i))).text for i in range(3)] == ["0", "1", "2"]
    model.assert_done()


def test_a_function_that_never_answers_is_refused():
    def loop(_: ModelRequest) -> Any:
        return loop

    with pytest.raises(InvalidRequest, match="never answers"):
        answer(ScriptedModel(loop))


def test_an_unexpected_call_says_how_many_were_scripted_and_what_came():
    model = ScriptedModel(["only"])
    answer(model)

    with pytest.raises(UnexpectedCall, match=r"at most 1 calls.*'and now\?'") as caught:
        answer(model, ask("and now?"))

    assert isinstance(caught.value, AssertionError)
    assert len(model.requests) == 2


def test_leftover_steps_are_named():
    model = ScriptedModel(["one", "two", "three"])
    answer(model)

    with pytest.raises(AssertionError, match=r"2 of 3 scripted steps.*'two'"):
        model.assert_done()


def test_repeat_last_answers_for_ever():
    model = ScriptedModel(["one", "last"], repeat_last=True)

    assert [answer(model).text for _ in range(4)] == ["one", "last", "last", "last"]


def test_usage_is_counted_when_the_reply_gives_none():
    request = ask("x" * 400)
    usage = answer(ScriptedModel(["y" * 41]), request).usage

    assert usage.input_tokens == -(-len(request.canonical()) // 4)
    assert usage.output_tokens == 11


def test_counted_output_stays_within_the_maximum():
    request = ask(params={"max_output_tokens": 5})

    assert answer(ScriptedModel(["y" * 400]), request).usage.output_tokens == 5


@pytest.mark.parametrize("usage", [Usage(), Usage(input_tokens=7, output_tokens=3)])
def test_an_explicit_usage_is_kept_even_if_zero(usage: Usage):
    assert answer(ScriptedModel([ModelReply(text="a", usage=usage)])).usage == usage


@pytest.mark.parametrize("step", [42, None, [], ["text in a list"], [tool_call("f"), "mixed"]])
def test_a_step_that_means_nothing_is_refused(step: Any):
    with pytest.raises(InvalidRequest, match="not a step of a script"):
        answer(ScriptedModel([step]))


def test_a_script_that_is_no_list_is_refused():
    with pytest.raises(InvalidRequest, match="not a script"):
        ScriptedModel("one")  # a str is a step, and a sequence by accident


def test_a_stream_gives_the_text_in_pieces_and_then_the_reply():
    model = ScriptedModel(["a" * 20 + "b" * 20])

    async def collect() -> list[Delta | ModelReply]:
        return [item async for item in model.stream(ask())]

    *pieces, last = asyncio.run(collect())

    assert len(pieces) == 3 and all(isinstance(piece, Delta) for piece in pieces)
    assert isinstance(last, ModelReply)
    assert "".join(piece.text for piece in pieces) == last.text == "a" * 20 + "b" * 20


def test_parallel_calls_each_take_one_step_and_overlap():
    model = ScriptedModel([str(i) for i in range(50)], delay_s=0.01)

    async def all_at_once() -> list[str]:
        calls = [asyncio.ensure_future(model.complete(ask(str(i)))) for i in range(50)]
        await asyncio.wait(calls, return_when=asyncio.FIRST_COMPLETED)
        assert len(model.requests) == 50, "all were asked before the first was answered"
        return [(await call).text for call in calls]

    texts = asyncio.run(all_at_once())

    assert texts == [str(i) for i in range(50)]
    model.assert_done()


def test_it_is_a_priced_and_streaming_model():
    model = ScriptedModel([])

    assert isinstance(model, PricedModelPort) and isinstance(model, StreamingModelPort)
    assert model.price == FREE
