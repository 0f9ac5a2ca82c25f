"""`llm`: one question to a model, bounded in money, repaired a few times, never shown what is internal."""

from __future__ import annotations

import asyncio
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from artelier import Kernel, ModelReply, ModelRequest, Price, RunSuspended
from artelier.errors import ModelRefusedCall, ProviderUnavailable
from artelier.kernel import Limits
from artelier.operations.kinds import kind_named
from artelier.ports.model import Usage
from artelier.testing import ScriptedModel
from tests.kernel.stage import PRICE, open_kernel, play
from tests.operations.kinds.stage import Bench, art, problems, scope

FORM = {"type": "object", "properties": {"mood": {"type": "string"}}, "required": ["mood"]}
JSON = {"prompt": "Which mood?", "output": "json"}
SHAPED = {**JSON, "schema": FORM}


def _opened(folder: Path, script: Any, **more: Any) -> tuple[Kernel, ScriptedModel]:
    model = ScriptedModel(script, **more)
    return open_kernel(folder, model), model


def _said(model: ScriptedModel, call: int = -1) -> list[tuple[str, str]]:
    return [(message.role, message.text) for message in model.requests[call].messages]


def test_llm_asks_with_its_prompts_and_samplers(tmp_path: Path) -> None:
    async def scenario() -> None:
        kernel, model = _opened(tmp_path, ["A note."])
        with kernel:
            value = await Bench(kernel).value(
                "llm",
                {
                    "system": "You help {{ char.name }}.",
                    "prompt": "Last: {{ text }}",
                    "model": "other",
                    "temperature": 0.5,
                    "top_p": 0.9,
                    "seed": 3,
                    "stop": ["END"],
                    "max_output_tokens": 50,
                },
            )
        assert value == "A note."
        assert _said(model) == [("system", "You help Bo."), ("user", "Last: I draw my sword!")]
        request = model.requests[0]
        assert request.model == "openai:other"
        assert request.params == {
            "temperature": 0.5,
            "top_p": 0.9,
            "seed": 3,
            "stop": ["END"],
            "max_output_tokens": 50,
        }

    play(scenario())


def test_liquid_in_the_words_of_people_stays_as_it_is(tmp_path: Path) -> None:
    async def scenario() -> None:
        kernel, model = _opened(tmp_path, ["{{ art.secret.value }}{% if %}"])
        seen = scope(art={"secret": art("hush")})
        with kernel:
            value = await Bench(kernel).value("llm", {"prompt": "{{ chat_history[0].content }}"}, seen=seen)
        assert value == "{{ art.secret.value }}{% if %}"
        assert _said(model) == [("user", "Hello {{ art.secret.value }}")]

    play(scenario())


def test_internal_values_reach_no_prompt(tmp_path: Path) -> None:
    """By name, by listing all of them, in the system prompt; in strict mode and in lenient."""
    seen = scope(in_prompt=["mood"], art={"secret": art("hush"), "mood": art("calm")})
    everything = "{% for one in art %}{{ one | json }}{% endfor %}{{ art | json }}"

    async def scenario() -> None:
        kernel, model = _opened(tmp_path, lambda _: "ok")
        with kernel:
            bench = Bench(kernel)
            for field in ("prompt", "system"):
                params = {"prompt": "x", field: "{{ art.secret.value }}"}
                assert await bench.code("llm", params, seen=seen) == "template_undefined"
            assert not model.requests
            for text in ("{{ art.secret.value }}|", everything):
                await bench.value("llm", {"prompt": text, "strict": False}, seen=seen)
        assert all("hush" not in text for call in (0, 1) for _, text in _said(model, call))
        assert "calm" in _said(model)[0][1]

    play(scenario())


GOOD: list[tuple[dict[str, Any], list[Any], Any]] = [
    (JSON, ['{"mood": "dark"}'], {"mood": "dark"}),
    (JSON, ["```json\n[1]\n```"], [1]),
    (JSON, ["null"], None),
    (SHAPED, ['{"mood": "dark"}'], {"mood": "dark"}),
    (SHAPED, ['It is\n```json\n{"mood": "dark"}\n```'], {"mood": "dark"}),
    (SHAPED, ["dark", '{"mood": "dark"}'], {"mood": "dark"}),
    (SHAPED, ['{"mood": 1}', '```\n{"mood": "dark"}\n```'], {"mood": "dark"}),
    ({**SHAPED, "retries": 3}, ["", "no", "{}", '{"mood": "x"}'], {"mood": "x"}),
]


@pytest.mark.parametrize(("params", "script", "value"), GOOD)
def test_json_is_parsed_and_repaired(
    tmp_path: Path, params: dict[str, Any], script: list[Any], value: Any
) -> None:
    async def scenario() -> None:
        kernel, model = _opened(tmp_path, script)
        with kernel:
            assert await Bench(kernel).value("llm", params) == value
        assert len(model.requests) == len(script)

    play(scenario())


def test_repair_says_what_did_not_fit(tmp_path: Path) -> None:
    async def scenario() -> None:
        kernel, model = _opened(tmp_path, ['{"mood": 1}', '{"mood": "calm"}'])
        with kernel:
            await Bench(kernel).value("llm", SHAPED)
        first, reply, told = _said(model)
        assert (first, reply) == (("user", "Which mood?"), ("assistant", '{"mood": 1}'))
        assert told[0] == "user"
        assert "$.mood has the wrong type" in told[1]

    play(scenario())


GARBAGE: list[tuple[dict[str, Any], Any, int]] = [
    ({**JSON, "retries": 0}, "no", 1),
    (JSON, "no", 2),
    ({**SHAPED, "retries": 3}, '{"mood": null}', 4),
    (JSON, "[" * 50_000, 2),
    (JSON, '{"n": ' + "9" * 400 + "}", 2),
    (SHAPED, "```" * 10_000, 2),
]


@pytest.mark.parametrize(("params", "said", "calls"), GARBAGE)
def test_garbage_is_an_error_after_its_retries(
    tmp_path: Path, params: dict[str, Any], said: str, calls: int
) -> None:
    async def scenario() -> None:
        kernel, model = _opened(tmp_path, lambda _: said)
        with kernel:
            error: Any = await Bench(kernel).error("llm", params)
        assert error.code == "output_invalid"
        assert error.details["attempts"] == calls == len(model.requests)
        assert len(error.details["reply"]) <= 500

    play(scenario())


def test_failures_of_models_keep_their_codes(tmp_path: Path) -> None:
    async def scenario() -> None:
        kernel, _ = _opened(tmp_path, lambda _: ProviderUnavailable("down"))
        with kernel:
            bench = Bench(kernel)
            assert await bench.code("llm", {"prompt": "x"}) == "provider_unavailable"
            assert await bench.code("llm", {"prompt": " {{ nobody }} ", "strict": False}) == ("empty_prompt")

    play(scenario())


def test_model_that_hangs_is_a_timeout(tmp_path: Path) -> None:
    async def hang(_: ModelRequest) -> str:
        await asyncio.Event().wait()
        return ""

    async def scenario() -> None:
        kernel, _ = _opened(tmp_path, hang)
        with kernel:
            assert await Bench(kernel).code("llm", {"prompt": "x", "timeout_s": 0.01}) == "timeout"

    play(scenario())


def test_reply_larger_than_a_value_is_refused(tmp_path: Path) -> None:
    async def scenario() -> None:
        kernel, _ = _opened(tmp_path, lambda _: "x" * 1_100_000)
        with kernel:
            assert await Bench(kernel).code("llm", {"prompt": "x"}) == "too_large"

    play(scenario())


# Cut answers


def _cut(text: str) -> ModelReply:
    return ModelReply(text=text, finish_reason="length", usage=Usage(input_tokens=10, output_tokens=16_384))


CUT: list[tuple[dict[str, Any], list[Any], Any]] = [
    ({"prompt": "x"}, [_cut("Once"), "Once upon a time."], "Once upon a time."),
    (JSON, [_cut('{"mood": "da'), '{"mood": "dark"}'], {"mood": "dark"}),
    (SHAPED, [_cut('{"mood": "da'), '{"mood": "dark"}'], {"mood": "dark"}),
]


@pytest.mark.parametrize(("params", "script", "value"), CUT)
def test_cut_answer_is_asked_for_once_more_with_more_room(
    tmp_path: Path, params: dict[str, Any], script: list[Any], value: Any
) -> None:
    async def scenario() -> None:
        kernel, model = _opened(tmp_path, script)
        with kernel:
            found = await Bench(kernel).found("llm", params)
            assert kernel.verify().ok
        assert (found.value, found.details) == (value, None)
        first, then = [request.params["max_output_tokens"] for request in model.requests]
        assert then > first
        assert _said(model) == [("user", params["prompt"])]

    play(scenario())


@pytest.mark.parametrize("more", [{}, {"max_output_tokens": 20}, {"max_cost_usd": 5}])
def test_text_that_stays_cut_is_kept_and_says_so(tmp_path: Path, more: dict[str, Any]) -> None:
    """Where the author says what may be written or spent, it is not asked for again."""

    async def scenario() -> None:
        kernel, model = _opened(tmp_path, lambda _: _cut("Once"), price=Price())
        with kernel:
            found = await Bench(kernel).found("llm", {"prompt": "x", **more})
        assert found.value == "Once" and found.details is not None
        assert found.details["cut_at_tokens"] == model.requests[-1].params["max_output_tokens"]
        assert len(model.requests) == (1 if more else 2)

    play(scenario())


def test_model_that_may_not_write_more_is_left_with_what_it_has_written(tmp_path: Path) -> None:
    async def scenario() -> None:
        kernel, _ = _opened(tmp_path, [_cut("Once"), ModelRefusedCall("max_tokens is too large")])
        with kernel:
            found = await Bench(kernel).found("llm", {"prompt": "x"})
        assert found.value == "Once" and found.details == {"cut_at_tokens": 16_384}

    play(scenario())


def test_cut_answer_without_form_says_so_to_its_model(tmp_path: Path) -> None:
    async def scenario() -> None:
        kernel, model = _opened(tmp_path, [_cut('{"mood": "da'), '{"mood": "dark"}'])
        with kernel:
            value = await Bench(kernel).value("llm", {**JSON, "max_output_tokens": 20})
        assert value == {"mood": "dark"}
        assert "cut" in _said(model)[-1][1]

    play(scenario())


# Money


def _billed(text: str) -> ModelReply:
    return ModelReply(text=text, usage=Usage(input_tokens=100, output_tokens=100))


async def _bound(folder: Path, params: dict[str, Any]) -> int:
    """What the first call of these params reserves, in micro-dollars."""
    reserved: list[int] = []
    kernel, _ = _opened(folder, lambda _: _billed('{"mood": "x"}'), price=PRICE)
    with kernel:
        await Bench(kernel).value("llm", params)
        async for event in kernel.events():
            if event.kind == "model.requested":
                reserved += [one.amount for one in event.decode().postings]  # pyright: ignore[reportAttributeAccessIssue]
    return reserved[0]


def test_call_that_could_cost_more_is_never_made(tmp_path: Path) -> None:
    """The bound is exactly what the call would reserve: a micro-dollar less, and it is refused."""
    params = {**SHAPED, "system": "Be short.", "max_output_tokens": 500, "temperature": 0.1}

    async def scenario() -> None:
        (tmp_path / "priced").mkdir()
        bound = Decimal(await _bound(tmp_path / "priced", params)) / 1_000_000
        kernel, model = _opened(tmp_path, lambda _: _billed('{"mood": "x"}'), price=PRICE)
        with kernel:
            bench = Bench(kernel)
            dear = {**params, "max_cost_usd": bound - Decimal("0.000001")}
            assert await bench.code("llm", dear) == "max_cost"
            assert not model.requests
            assert await bench.value("llm", {**params, "max_cost_usd": str(bound)}) == {"mood": "x"}

    play(scenario())


def test_repairs_count_towards_the_same_bound(tmp_path: Path) -> None:
    params = {**SHAPED, "max_output_tokens": 500, "retries": 3}

    async def scenario() -> None:
        (tmp_path / "priced").mkdir()
        bound = Decimal(await _bound(tmp_path / "priced", params)) / 1_000_000
        kernel, model = _opened(tmp_path, lambda _: _billed("no"), price=PRICE)
        with kernel:
            code = await Bench(kernel).code("llm", {**params, "max_cost_usd": bound})
        assert (code, len(model.requests)) == ("max_cost", 1)

    play(scenario())


def test_unknown_price_has_no_bound(tmp_path: Path) -> None:
    async def scenario() -> None:
        model = ScriptedModel(lambda _: "x", price=None)
        with open_kernel(tmp_path, {"test:priceless": model}) as kernel:
            params = {"prompt": "x", "model": "test:priceless", "max_cost_usd": 5}
            assert await Bench(kernel).code("llm", params) == "price_unknown"
        assert not model.requests

    play(scenario())


def test_spent_budget_stops_the_run_and_not_the_operation(tmp_path: Path) -> None:
    async def scenario() -> None:
        kernel, _ = _opened(tmp_path, lambda _: "x", price=Price(output=Decimal(1_000_000)))
        with kernel:
            bench = Bench(kernel, limits=Limits(usd="0.01"))
            with pytest.raises(RunSuspended):
                await bench.error("llm", {"prompt": "x"})

    play(scenario())


# Params


def test_schema_keeps_its_name_in_data() -> None:
    params = kind_named("llm").params.model_validate(SHAPED)
    dumped = params.model_dump(mode="json", exclude_defaults=True)
    assert dumped["schema"] == FORM
    assert type(params).model_validate(dumped) == params


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        ({"prompt": "{% for %}"}, "prompt: invalid_template"),
        ({"system": "{{"}, "system: invalid_template"),
        ({"schema": {"type": "nothing"}}, "schema: bad_schema"),
        ({"schema": {"$ref": "#"}}, "schema: bad_schema"),
        ({"schema": FORM, "output": "text"}, "schema: bad_schema"),
    ],
)
def test_problems_of_llm_params(more: dict[str, Any], problem: str) -> None:
    assert problem in problems("llm", {**JSON, **more})


@pytest.mark.parametrize(
    "more",
    [
        {"retries": 4},
        {"retries": -1},
        {"temperature": 3},
        {"temperature": float("nan")},
        {"max_cost_usd": "-1"},
        {"max_cost_usd": "NaN"},
        {"max_cost_usd": "1e999999999"},
        {"stop": [""]},
        {"stop": ["x"] * 9},
        {"prompt": ""},
        {"prompt": "x" * 70_000},
        {"max_output_tokens": 0},
        {"seed": -1},
        {"output": "xml"},
        {"shema": {}},
        {"model": ""},
        {"timeout_s": 0},
        {"prompt": None},
        {"schema": "x"},
    ],
)
def test_llm_params_out_of_form_are_refused(more: dict[str, Any]) -> None:
    from pydantic import ValidationError

    with pytest.raises(ValidationError):
        kind_named("llm").params.model_validate({**JSON, **more})
