"""How much a model may write: what it can, or what the money that is left pays for."""

from __future__ import annotations

import asyncio
from decimal import Decimal
from pathlib import Path
from threading import Thread

import pytest

from artelier import AutonomousAgent, Kernel, ModelReply, ModelRequest, Price, Tenant, Usage, Window
from artelier.errors import ModelRefusedCall
from artelier.kernel import Limits
from artelier.testing import ScriptedModel

PRICE = Price(input=Decimal(3), output=Decimal(15))


def writer(tokens: int) -> ScriptedModel:
    """A model whose answer has so many tokens, cut where it may write less."""

    def answer(request: ModelRequest) -> ModelReply:
        limit = request.params["max_output_tokens"]
        written = min(tokens, limit)
        return ModelReply(
            text="word" * written,
            finish_reason="length" if written < tokens else "stop",
            usage=Usage(input_tokens=50, output_tokens=written),
        )

    return ScriptedModel(answer, price=PRICE)


def asked_of(model: ScriptedModel) -> list[int]:
    return [request.params["max_output_tokens"] for request in model.requests]


def run_agent(directory: Path, model: ScriptedModel, *, usd: str | None = "0.50") -> tuple[str, str]:
    async def main() -> tuple[str, str]:
        windows = {"m": Window(max_output_tokens=65_536)}
        with Kernel.open(directory / "s.db", models={"m": model}, windows=windows) as kernel:
            agent = AutonomousAgent(kernel=kernel, identity="You write.")
            limits = None if usd is None else Limits(usd=usd)
            result = await agent.run(run_id="r", model="m", prompt="Write.", limits=limits)
            assert (await kernel.for_tenant().replay("r", agent.drive)).status == result.status
            return result.status, result.text

    return asyncio.run(main())


def test_hello_is_answered_with_half_a_dollar(tmp_path: Path) -> None:
    model = writer(5)

    status, text = run_agent(tmp_path, model)

    assert (status, text) == ("completed", "word" * 5)
    (asked,) = asked_of(model)
    assert asked.bit_count() == 1 and 4_096 <= asked * 15 <= 250_000


@pytest.mark.parametrize("tokens", [3_000, 8_000, 14_000])
def test_a_long_report_is_not_cut_while_money_is_left(tmp_path: Path, tokens: int) -> None:
    model = writer(tokens)

    status, text = run_agent(tmp_path, model)

    assert (status, len(text)) == ("completed", 4 * tokens)
    assert len(model.requests) <= 2


def test_a_cut_answer_is_asked_for_once_more_with_more(tmp_path: Path) -> None:
    model = writer(20_000)

    status, text = run_agent(tmp_path, model, usd="0.80")

    assert (status, len(text)) == ("completed", 80_000)
    assert asked_of(model) == [16_384, 32_768]


def test_without_a_limit_of_money_a_call_asks_for_what_the_model_can_write(tmp_path: Path) -> None:
    model = writer(5)

    run_agent(tmp_path, model, usd=None)

    assert asked_of(model) == [65_536]


def test_a_recorded_limit_holds_when_there_is_more_money(tmp_path: Path) -> None:
    """A call that failed is made again as it was asked, whatever is left by then."""
    model = writer(5)

    async def main() -> None:
        with Kernel.open(
            tmp_path / "s.db", models={"m": model}, windows={"m": Window(max_output_tokens=100_000)}
        ) as kernel:
            runs = await kernel.tenants.open(Tenant("t", budget_usd="0.10"))
            assert runs is not None
            async with kernel.run("r", tenant=Tenant("t", budget_usd="0.10")) as run:
                await run.step_model(model="m", messages=[{"role": "user", "content": "x"}], key="k")
            await kernel.tenants.update("t", budget_usd="100.00")
            async with kernel.run("r", tenant=Tenant("t", budget_usd="0.10")) as run:
                again = await run.step_model(model="m", messages=[{"role": "user", "content": "x"}], key="k")
                assert again.replayed and again.max_output_tokens == asked_of(model)[0]

    asyncio.run(main())

    assert len(model.requests) == 1


@pytest.mark.parametrize(
    ("model", "tokens", "asked", "is_whole"),
    [
        ("acme:unknown", 20_000, [16_384, 32_768], True),
        ("acme:unknown", 50_000, [16_384, 32_768], False),
        ("acme:unknown", 100, [16_384], True),
        ("openai:gpt-4o", 20_000, [16_384], False),
    ],
)
def test_a_model_that_no_table_knows_is_asked_for_more_once(
    tmp_path: Path, model: str, tokens: int, asked: list[int], is_whole: bool
) -> None:
    """The limit of a known model stands: it would refuse more."""
    port = writer(tokens)

    async def main() -> str:
        with Kernel.open(tmp_path / "s.db", models={model: port}) as kernel:
            agent = AutonomousAgent(kernel=kernel, identity="You write.")
            result = await agent.run(run_id="r", model=model, prompt="Write.")
            assert (await kernel.for_tenant().replay("r", agent.drive)).status == result.status
            return result.text

    text = asyncio.run(main())

    assert asked_of(port)[: len(asked)] == asked
    assert max(asked_of(port)) == max(asked)
    assert (len(text) == 4 * tokens) is is_whole


def test_a_run_whose_model_refuses_more_fails_of_the_cut_and_not_of_the_refusal(tmp_path: Path) -> None:
    def answer(request: ModelRequest) -> ModelReply:
        if request.params["max_output_tokens"] > 16_384:
            raise ModelRefusedCall("max_tokens: 32768 > 16384")
        return ModelReply(
            text="half a report", finish_reason="length", usage=Usage(input_tokens=5, output_tokens=9)
        )

    async def main() -> tuple[str, str]:
        with Kernel.open(tmp_path / "s.db", models={"acme:m": ScriptedModel(answer, price=PRICE)}) as kernel:
            agent = AutonomousAgent(kernel=kernel, identity="You write.")
            result = await agent.run(run_id="r", model="acme:m", prompt="Write.")
            return result.status, result.text

    status, message = asyncio.run(main())

    assert status == "failed" and message.startswith("replies are cut"), message


@pytest.mark.parametrize(
    ("left", "status", "asked"), [("0.30", "completed", [8_192]), ("0.01", "budget_exhausted", [])]
)
def test_a_call_asks_for_less_where_its_money_went_to_others_meanwhile(
    tmp_path: Path, left: str, status: str, asked: list[int]
) -> None:
    """Another process takes the money between the choice of the size and the hold."""
    model = writer(5)

    def take(point: str) -> None:
        if point == "model.before_request" and thread.ident is None:
            thread.start()
            thread.join()

    async def elsewhere() -> None:
        with Kernel.open(tmp_path / "s.db", models={"m": model}) as other:
            await other.tenants.update("t", budget_usd=left)

    thread = Thread(target=lambda: asyncio.run(elsewhere()))

    async def main() -> str:
        windows = {"m": Window(max_output_tokens=65_536)}
        with Kernel.open(tmp_path / "s.db", models={"m": model}, windows=windows, fault=take) as kernel:
            await kernel.tenants.open(Tenant("t", budget_usd="2.00"))
            agent = AutonomousAgent(kernel=kernel, identity="You write.")
            result = await agent.run(run_id="r", tenant="t", model="m", prompt="Write.")
            if asked:
                assert (await kernel.for_tenant("t").replay("r", agent.drive)).status == result.status
            assert kernel.verify().ok
            return result.status

    assert asyncio.run(main()) == status
    assert asked_of(model) == asked
