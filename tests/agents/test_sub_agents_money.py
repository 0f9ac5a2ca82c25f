"""Agents below agents spend from one account, and none of them spends it again."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from artelier import Kernel, Limits, Policy, Price, Tenant
from artelier.ports.model import ModelReply, Usage
from artelier.testing import ScriptedModel
from tests.agents.family import CHILD, boss, hand, open_family, statuses, work, worker
from tests.kernel.stage import EAGER, assert_conserved, billed, play

CENT = 10_000
"""In micro-dollars."""


def at(usd: str) -> Price:
    """A price at which a reply of 1,000 tokens costs so much; its request is free."""
    return Price(input=Decimal(0), output=Decimal(usd) * 1_000)


def reply(text: str) -> Any:
    return billed(text, inputs=10, outputs=1_000)


def calls(*prompts: str) -> Any:
    """A reply of 1,000 tokens that hands tasks over."""
    return ModelReply(
        tool_calls=tuple(hand(prompt) for prompt in prompts),
        finish_reason="tool_calls",
        usage=Usage(input_tokens=10, output_tokens=1_000),
    )


async def spent(kernel: Kernel, tenant: str = "acme") -> Decimal:
    return Decimal((await kernel.tenants.show(tenant))["spent_usd"])


@pytest.mark.parametrize("whose", ["tenant", "run"])
def test_a_child_that_no_longer_fits_stops_the_tree_until_there_is_more(tmp_path: Path, whose: str) -> None:
    models = {"boss": ScriptedModel([calls("a"), reply("end")]), "worker": ScriptedModel([reply("worked")])}
    prices = {"boss": at("0.70"), "worker": at("0.90")}
    budget = "1.00" if whose == "tenant" else "100.00"
    limits = Limits(usd="1.00") if whose == "run" else None

    async def scenario() -> None:
        with open_family(tmp_path, models, prices=prices) as kernel:
            await kernel.tenants.open(Tenant("acme", budget_usd=budget))
            agent = boss(kernel, worker(kernel))
            first = await work(agent, tenant="acme", limits=limits)

            assert first.status == "budget_exhausted"
            assert set((await statuses(kernel, "acme")).values()) == {"budget_exhausted"}
            assert await spent(kernel) == Decimal("0.70")
            assert models["worker"].requests == []
            await assert_conserved(kernel, "acme")
            assert (await work(agent, tenant="acme")).status == "budget_exhausted"

            if whose == "tenant":
                await kernel.tenants.update("acme", budget_usd="3.00")
            else:
                await kernel.for_tenant("acme").limit("r", unit="usd", cap="3.00")
            second = await work(agent, tenant="acme")
            assert (second.status, second.text) == ("completed", "end")
            assert await spent(kernel) == Decimal("2.30")
            assert (await kernel.for_tenant("acme").tree("r"))["total_cost_microusd"] == 230 * CENT
            assert kernel.verify().ok
        for model in models.values():
            model.assert_done()

    play(scenario())


def test_sixty_four_children_at_once_stay_below_the_limit(tmp_path: Path) -> None:
    models = {
        "boss": ScriptedModel([calls(*(str(n) for n in range(64))), reply("end")]),
        "worker": ScriptedModel(lambda _: reply("worked")),
    }
    prices = {"boss": at("0"), "worker": at("0.05")}

    async def scenario() -> None:
        policy = Policy(backoff_s=0, parallel_max=64)
        with open_family(tmp_path, models, prices=prices, policy=policy) as kernel:
            await kernel.tenants.open(Tenant("acme", budget_usd="1.00"))
            agent = boss(kernel, worker(kernel))
            first = await work(agent, tenant="acme")

            assert first.status == "budget_exhausted"
            # A call holds what 1,024 tokens cost, so the last cents are too few for another one.
            assert await spent(kernel) == Decimal("0.95")
            money = await assert_conserved(kernel, "acme")
            assert money.get("overrun", 0) == 0

            await kernel.tenants.update("acme", budget_usd="10.00")
            assert (await work(agent, tenant="acme")).text == "end"
            assert await spent(kernel) == Decimal("3.20")
            assert len(models["worker"].requests) == 64

    play(scenario(), within_s=90)


def test_what_a_provider_bills_beyond_its_maximum_is_owed(tmp_path: Path) -> None:
    models = {
        "boss": ScriptedModel([calls("a"), reply("end")]),
        "worker": ScriptedModel([billed("much", outputs=20_000)]),
    }

    async def scenario() -> None:
        with open_family(tmp_path, models, prices={"boss": at("0"), "worker": at("0.50")}) as kernel:
            await kernel.tenants.open(Tenant("acme", budget_usd="1.00"))
            await work(boss(kernel, worker(kernel)), tenant="acme")

            rows = await kernel.store.query(
                "SELECT account, balance FROM accounts WHERE tenant = 'acme' AND asset = 'usd'"
            )
            named = -dict(rows)["source:debt"]
            assert named > 0
            assert await spent(kernel) * 1_000_000 - named <= 1_000_000
            await assert_conserved(kernel, "acme")

    play(scenario())


def greedy(text: str) -> Any:
    """A reply of a provider that ignores `max_output_tokens`."""
    return billed(text, inputs=10, outputs=10**9)


@pytest.mark.parametrize("whose", ["child", "parent", "tenant"])
def test_no_call_follows_the_first_excess_of_a_sub_agent(tmp_path: Path, whose: str) -> None:
    child = Limits(usd="0.10") if whose == "child" else None
    parent = Limits(usd="0.10") if whose == "parent" else None
    overcalls = ModelReply(
        tool_calls=(hand("nothing"),),
        finish_reason="tool_calls",
        usage=Usage(input_tokens=10, output_tokens=10**9),
    )
    models = {"boss": ScriptedModel([calls("a")]), "worker": ScriptedModel([overcalls, greedy("worked")])}

    async def scenario() -> None:
        with open_family(tmp_path, models, prices={"boss": at("0"), "worker": at("0.01")}) as kernel:
            budget = "0.10" if whose == "tenant" else "90000.00"
            await kernel.tenants.open(Tenant("acme", budget_usd=budget))
            agent = boss(kernel, worker(kernel, limits=child))
            for _ in range(3):
                stopped = await work(agent, tenant="acme", limits=parent)
                assert stopped.status == "budget_exhausted"
            assert len(models["worker"].requests) == 1
            assert await spent(kernel) == Decimal(10_000)
            await assert_conserved(kernel, "acme")

    play(scenario())


def test_sixty_four_children_pass_a_limit_by_no_more_than_are_in_flight(tmp_path: Path) -> None:
    models = {
        "boss": ScriptedModel([calls(*(str(n) for n in range(64)))]),
        "worker": ScriptedModel(lambda _: greedy("worked")),
    }

    async def scenario() -> None:
        policy = Policy(backoff_s=0, parallel_max=64)
        prices = {"boss": at("0"), "worker": at("0.05")}
        with open_family(tmp_path, models, prices=prices, policy=policy) as kernel:
            await kernel.tenants.open(Tenant("acme", budget_usd="1.00"))
            agent = boss(kernel, worker(kernel))
            assert (await work(agent, tenant="acme")).status == "budget_exhausted"
            made = len(models["worker"].requests)
            assert 1 <= made <= 19, "each holds 0.0512 USD of one"
            assert (await work(agent, tenant="acme")).status == "budget_exhausted"
            assert len(models["worker"].requests) == made
            assert await spent(kernel) == made * Decimal(50_000)
            await assert_conserved(kernel, "acme")

    play(scenario(), within_s=90)


def test_a_childs_own_cap_holds_below_its_parents(tmp_path: Path) -> None:
    models = {
        "boss": ScriptedModel([calls("a"), reply("end")]),
        "worker": ScriptedModel([calls("nothing"), reply("worked")]),
    }
    prices = {"boss": at("0.01"), "worker": at("0.06")}

    async def scenario() -> None:
        with open_family(tmp_path, models, prices=prices) as kernel:
            await kernel.tenants.open(Tenant("acme", budget_usd="100.00"))
            agent = boss(kernel, worker(kernel, limits=Limits(usd="0.10")))
            first = await work(agent, tenant="acme")
            child = await kernel.for_tenant("acme").show(CHILD.replace("default", "acme"))

            assert (first.status, first.reason) == ("budget_exhausted", child["id"])
            assert child["cost_microusd"] == 6 * CENT
            await kernel.for_tenant("acme").limit(child["id"], unit="usd", cap="0.20")
            assert (await work(agent, tenant="acme")).text == "end"
            assert await spent(kernel) == Decimal("0.14")

    play(scenario())


def test_a_cap_of_a_child_is_no_money_of_its_own(tmp_path: Path) -> None:
    models = {"boss": ScriptedModel([calls("a")]), "worker": ScriptedModel([])}
    prices = {"boss": at("0.01"), "worker": at("0.06")}

    async def scenario() -> None:
        with open_family(tmp_path, models, prices=prices) as kernel:
            await kernel.tenants.open(Tenant("acme", budget_usd="0.05"))
            agent = boss(kernel, worker(kernel, limits=Limits(usd="50.00")))
            result = await work(agent, tenant="acme")

            assert result.status == "budget_exhausted"
            assert await spent(kernel) == Decimal("0.01")

    play(scenario())


def test_steps_and_tokens_of_children_count_for_their_parent(tmp_path: Path) -> None:
    models = {
        "boss": ScriptedModel([calls("a", "b", "c"), reply("end")]),
        "worker": ScriptedModel(lambda _: reply("worked")),
    }

    async def scenario() -> None:
        with open_family(tmp_path, models) as kernel:
            agent = boss(kernel, worker(kernel))
            # One call of the boss's model, three of tools, and two children of three.
            first = await work(agent, limits=Limits(steps=6))
            assert first.status == "budget_exhausted"
            assert len(models["worker"].requests) == 2

            await kernel.for_tenant().limit("r", unit="steps", cap=8)
            assert (await work(agent)).text == "end"

    play(scenario())


def test_nested_children_need_no_more_than_one_slot(tmp_path: Path) -> None:
    """Each run has a gate of its own: a parent that holds its only slot cannot starve its children."""
    models = {
        "boss": ScriptedModel([[hand("a", to="lead"), hand("b", to="lead")], "end"]),
        "lead": ScriptedModel([[hand("c"), hand("d")], "led"] * 2),
        "worker": ScriptedModel(["worked"], repeat_last=True),
    }

    async def scenario() -> None:
        policy = Policy(backoff_s=0, parallel_max=1)
        with open_family(tmp_path, models, policy=policy) as kernel:
            lead = worker(kernel, name="lead", model="lead", tools=[worker(kernel)])

            assert (await work(boss(kernel, lead))).text == "end"
            assert len(await statuses(kernel)) == 7

    play(scenario())


def test_money_that_siblings_hold_is_waited_for_and_not_forever(tmp_path: Path) -> None:
    """All three fit one after the other, and none of them beside another."""
    models = {
        "boss": ScriptedModel([calls("a", "b", "c"), reply("end")]),
        "worker": ScriptedModel(lambda _: reply("worked")),
    }
    prices = {"boss": at("0"), "worker": at("0.30")}

    async def scenario() -> None:
        with open_family(tmp_path, models, prices=prices, policy=EAGER) as kernel:
            await kernel.tenants.open(Tenant("acme", budget_usd="0.91"))

            assert (await work(boss(kernel, worker(kernel)), tenant="acme")).text == "end"
            assert await spent(kernel) == Decimal("0.90")

    play(scenario())


def test_the_error_of_a_budget_stop_is_not_told_to_a_model(tmp_path: Path) -> None:
    """It is no outcome of the call: the child goes on when there is more."""
    models = {"boss": ScriptedModel([calls("a")]), "worker": ScriptedModel([])}

    async def scenario() -> None:
        with open_family(tmp_path, models, prices={"worker": at("0.90")}) as kernel:
            await kernel.tenants.open(Tenant("acme", budget_usd="0.50"))
            await work(boss(kernel, worker(kernel)), tenant="acme")

            (model, call) = await kernel.for_tenant("acme").steps("r")
            assert (model["status"], call["status"]) == ("completed", "requested")

    play(scenario())
