"""Parameters of model calls: checked before anything is spent, sent where a provider has them, else named."""

from __future__ import annotations

import asyncio
import math
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from artelier import AutonomousAgent, Kernel, ModelReply, Price, Session, Tenant, Usage
from artelier.errors import InvalidRequest, PriceUnknown
from artelier.kernel.queries.steps import step_of
from artelier.models import openai_compatible
from artelier.models.registry import ModelRegistry
from artelier.ports.model import ChatMessage, ModelRequest
from artelier.ports.model_params import check_params, parse_params
from artelier.testing import ScriptedModel
from artelier.testing.openai_server import OpenAIServer
from artelier.testing.providers import (
    StrictAnthropic,
    StrictOpenAIChat,
    StrictOpenAIResponses,
    StrictProvider,
)

HI = [{"role": "user", "content": "hi"}]


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"temprature": 0.2}, "Did you mean 'temperature'"),
        ({"logit_bias": {}}, "extra="),
        ({"temperature": "hot"}, "a number from 0 to 5"),
        ({"temperature": math.nan}, "a number from 0 to 5"),
        ({"temperature": True}, "a number from 0 to 5"),
        ({"top_p": 1.5}, "a number from 0 to 1"),
        ({"seed": -1}, "a whole number"),
        ({"stop": [""]}, "a list of 1 to 16 texts"),
        ({"stop": ["x"] * 17}, "a list of 1 to 16 texts"),
        ({"thinking": "hard"}, "max"),
        ({"service_tier": "gold"}, "priority"),
        ({"extra": {"max_tokens": 9}}, "may not set 'max_tokens'"),
        ({"extra": {"n": 9}}, "may not set 'n'"),
        ({"extra": {"x": "y" * 70_000}}, "at most 65536 bytes"),
        ({"extra": {"x": object()}}, "an object of JSON"),
    ],
)
def test_a_wrong_parameter_is_refused_before_anything_is_recorded(
    tmp_path: Path, params: dict[str, Any], words: str
) -> None:
    async def scenario() -> None:
        model = ScriptedModel([])
        with Kernel.open(tmp_path / "s.db", models={"m": model}) as kernel:
            async with kernel.run("r") as run:
                with pytest.raises(InvalidRequest) as refused:
                    await run.step_model(model="m", messages=HI, key="k", **params)
            assert words in f"{refused.value.message} {refused.value.expected} {refused.value.hint}"
            assert await step_of(kernel.store, "default", "r", "k") is None
            with pytest.raises(InvalidRequest):
                kernel.run("r2", params=params)
                async with kernel.run("r2", params=params):
                    pass
        assert model.requests == []

    asyncio.run(scenario())


def test_text_of_a_command_line_is_json_or_a_text() -> None:
    given = ["temperature=0.2", "thinking=high", "stop=END", 'extra.provider={"only": ["x"]}', "seed=7"]

    assert parse_params(given) == {
        "temperature": 0.2,
        "thinking": "high",
        "stop": "END",
        "extra": {"provider": {"only": ["x"]}},
        "seed": 7,
    }
    assert parse_params(['stop=["a", "b"]'])["stop"] == ["a", "b"]
    for wrong in (["temperature"], ["=1"], ["seed=1", "seed=2"], ["top_p=high"], ["extra=1", "extra.a=2"]):
        with pytest.raises(InvalidRequest):
            parse_params(wrong)
    assert check_params({"temperature": None}) == {}


async def _body(
    strict: StrictProvider, model: str, params: dict[str, Any]
) -> tuple[dict[str, Any], list[str]]:
    """The body of one call, and what the double refused."""
    provider, path = model.partition(":")[0], "" if model.startswith("anthropic") else "/v1"
    name = "ANTHROPIC" if provider == "anthropic" else "OPENAI"
    async with OpenAIServer(strict) as server:
        url = server.base_url.removesuffix("/v1") + path
        registry = ModelRegistry(environ={f"{name}_API_KEY": "k", f"{name}_BASE_URL": url})
        request = ModelRequest(
            model=model,
            messages=(ChatMessage(role="user", content="hi"),),
            params={"max_output_tokens": 20_000, **params},
        )
        await registry.resolve(model).port.complete(request)
        await registry.aclose()
    return strict.bodies[0], strict.refusals


ALL = {"temperature": 0.5, "top_p": 0.9, "seed": 7, "presence_penalty": 0.1, "frequency_penalty": 0.2}


@pytest.mark.parametrize(
    ("strict", "model", "params", "expected", "absent"),
    [
        (
            StrictOpenAIChat(["ok"]),
            "openai-chat:gpt-4o",
            {**ALL, "stop": "END", "service_tier": "flex", "verbosity": "low", "extra": {"user": "u"}},
            {"seed": 7, "stop": ["END"], "service_tier": "flex", "verbosity": "low", "user": "u"},
            (),
        ),
        (
            StrictOpenAIChat(["ok"]),
            "openai:my-llama",
            {"top_k": 40, "min_p": 0.05, "temperature": 0.5},
            {"top_k": 40, "min_p": 0.05, "temperature": 0.5},
            (),
        ),
        (
            StrictOpenAIResponses(["ok"]),
            "openai-responses:gpt-5-mini",
            {**ALL, "thinking": "high", "verbosity": "high", "top_k": 4, "stop": "END"},
            {"text": {"verbosity": "high"}},
            ("temperature", "top_p", "seed", "top_k", "stop"),
        ),
        (
            StrictAnthropic(["ok"]),
            "anthropic:claude-haiku-4-5",
            {"thinking": "max", "temperature": 0.5, "top_k": 4},
            {"thinking": {"type": "enabled", "budget_tokens": 10_000}},
            ("temperature", "top_k"),
        ),
        (
            StrictAnthropic(["ok"]),
            "anthropic:claude-haiku-4-5",
            {"temperature": 0.5, "top_k": 4, "seed": 9, "min_p": 0.5, "service_tier": "default"},
            {"temperature": 0.5, "top_k": 4, "service_tier": "standard_only"},
            ("seed", "min_p", "thinking"),
        ),
        (
            StrictAnthropic(["ok"]),
            "anthropic:claude-haiku-4-5",
            {"thinking": "max", "max_output_tokens": 1_500},
            {"max_tokens": 1_500},
            ("thinking",),
        ),
    ],
)
def test_each_provider_is_sent_what_it_takes(
    strict: StrictProvider,
    model: str,
    params: dict[str, Any],
    expected: dict[str, Any],
    absent: tuple[str, ...],
) -> None:
    body, refusals = asyncio.run(_body(strict, model, params))

    assert refusals == []
    for name, value in expected.items():
        shown = {key: body[name].get(key) for key in value} if isinstance(value, dict) else body[name]
        assert shown == value
    assert not set(absent) & set(body)


def test_what_an_adapter_drops_stands_in_the_event_of_the_reply(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with OpenAIServer(["ok"], repeat_last=True) as server:
            port = openai_compatible(server.base_url)
            with Kernel.open(tmp_path / "s.db", models={"openai:gpt-5-mini": port}) as kernel:
                async with kernel.run("r") as run:
                    asked = {"temperature": 0.5, "top_k": 3, "extra": {"user": "u"}}
                    await run.step_model(model="openai:gpt-5-mini", messages=HI, key="k", **asked)
                manifest = await kernel.for_tenant().manifest("r", "k")
                assert manifest.params["extra"] == {"user": "u"}
                assert manifest.not_sent == ("temperature",)

    asyncio.run(scenario())


def test_the_parameters_of_a_run_hold_for_its_calls_and_its_children_and_after_a_restart(
    tmp_path: Path,
) -> None:
    model = ScriptedModel(lambda request: "ok")

    def asked() -> list[tuple[Any, Any]]:
        return [(one.params.get("temperature"), one.params.get("seed")) for one in model.requests]

    async def first() -> None:
        with Kernel.open(tmp_path / "s.db", models={"m": model}, params={"temperature": 0.1}) as kernel:
            async with kernel.run("r", params={"seed": 7, "max_output_tokens": 100}) as run:
                await run.step_model(model="m", messages=HI, key="a")
                await run.step_model(model="m", messages=HI, key="b", temperature=0.9)
                async with kernel.run("r/child", parent=run) as child:
                    await child.step_model(model="m", messages=HI, key="a")
                await run.step_model(model="m", messages=HI, key="c", output_tokens_max=50)

    async def again() -> None:
        with Kernel.open(tmp_path / "s.db", models={"m": model}, params={"temperature": 0.8}) as kernel:
            async with kernel.run("r") as run:
                await run.step_model(model="m", messages=HI, key="a")
                assert run.core.params == {"temperature": 0.1, "seed": 7, "max_output_tokens": 100}

    asyncio.run(first())
    asyncio.run(again())

    assert asked() == [(0.1, 7), (0.9, 7), (0.1, 7), (0.1, 7)]
    assert [one.params["max_output_tokens"] for one in model.requests] == [100, 100, 100, 50]


def test_an_agent_and_a_chat_have_parameters(tmp_path: Path) -> None:
    model = ScriptedModel(lambda request: "ok")

    async def scenario() -> None:
        with Kernel.open(tmp_path / "s.db", models={"m": model}) as kernel:
            agent = AutonomousAgent(kernel=kernel, identity="You.", params={"thinking": "max", "seed": 1})
            await agent.run(run_id="a", model="m", prompt="Hi.", params={"seed": 2})
            chat = await Session.open(kernel, "c", model="m", verbosity="low", extra={"x": 1})
            await chat.generate("Hi.", min_p=0.1)
            with pytest.raises(InvalidRequest):
                AutonomousAgent(kernel=kernel, params={"thinkin": 1})

    asyncio.run(scenario())

    (of_agent, of_chat) = (request.params for request in model.requests)
    assert (of_agent["thinking"], of_agent["seed"]) == ("max", 2)
    assert (of_chat["verbosity"], of_chat["extra"], of_chat["min_p"]) == ("low", {"x": 1}, 0.1)


def test_a_dearer_tier_has_no_price_until_somebody_says_one(tmp_path: Path) -> None:
    model = ScriptedModel([ModelReply(text="ok", usage=Usage(input_tokens=50, output_tokens=5))] * 2)
    price, dear = Price(input=Decimal(1), output=Decimal(2)), Price(input=Decimal(2), output=Decimal(4))

    async def cost(name: str, tier: str, prices: dict[str, Price]) -> int:
        with Kernel.open(tmp_path / name, models={"openai:gpt-5": model}, prices=prices) as kernel:
            tenant = Tenant("t", budget_usd="1")
            async with kernel.run("r", tenant=tenant) as run:
                asked = run.step_model(model="openai:gpt-5", messages=HI, service_tier=tier)
                return (await asked).cost_microusd

    plain = asyncio.run(cost("a.db", "flex", {"openai:gpt-5": price}))
    with pytest.raises(PriceUnknown):
        asyncio.run(cost("b.db", "priority", {"openai:gpt-5": price}))
    told = asyncio.run(cost("c.db", "priority", {"openai:gpt-5": price, "openai:gpt-5@priority": dear}))

    assert told == 2 * plain > 0
