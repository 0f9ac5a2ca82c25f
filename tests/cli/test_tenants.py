"""`tenants`: budgets are set, shown and kept apart."""

from __future__ import annotations

import asyncio
from decimal import Decimal

import pytest

from artelier import Kernel, ModelReply, Price
from artelier.ports.model import Usage
from artelier.testing import ScriptedModel
from tests.cli.conftest import Shell

HI = [{"role": "user", "content": "Hi."}]


def test_update_sets_a_budget_and_lifts_it(shell: Shell) -> None:
    set_ = shell("tenants", "update", "acme", "--budget-usd", "20", "--json").json
    lifted = shell("tenants", "update", "acme", "--unlimited", "--json").json

    assert (set_["budget_usd"], set_["available_usd"]) == ("20.00", "20.00")
    assert lifted["budget_usd"] is None


def test_update_replaces_grants_and_allows_unknown_prices(shell: Shell) -> None:
    found = shell(
        "tenants",
        "update",
        "acme",
        "--grant",
        "tools:read_file",
        "--grant",
        "models:offline",
        "--allow-unknown-price",
        "--json",
    ).json

    assert found["grants"] == ["models:offline", "tools:read_file"]
    assert found["allow_unknown_price"] is True


def test_list_and_show_agree(shell: Shell) -> None:
    shell("tenants", "update", "acme", "--budget-usd", "20")
    shell("tenants", "update", "--tenant", "zeta", "--budget-usd", "1")

    listed = shell("tenants", "list", "--json").json

    assert [tenant["id"] for tenant in listed["items"]] == ["acme", "zeta"]
    assert listed["next"] is None
    assert shell("tenants", "show", "acme", "--json").json == listed["items"][0]
    assert "20.00" in shell("tenants", "list").out
    assert "1.00 USD" in shell("tenants", "show", "zeta").out


def test_an_unknown_tenant_is_not_found(shell: Shell) -> None:
    shell("db", "migrate")

    assert shell("tenants", "show", "nobody").code == 6


def test_the_tenant_comes_from_the_option_then_the_environment(shell: Shell) -> None:
    shell("tenants", "update", "acme", "--budget-usd", "20")
    shell("tenants", "update", "zeta", "--budget-usd", "1")

    shell.set("ARTELIER_TENANT", "acme")

    assert shell("tenants", "show", "--json").json["id"] == "acme"
    assert shell("--tenant", "zeta", "tenants", "show", "--json").json["id"] == "zeta"
    assert shell("tenants", "--tenant", "zeta", "--json", "show").json["id"] == "zeta"


def test_a_tenants_rates_are_set_shown_and_lifted(shell: Shell) -> None:
    set_ = shell("tenants", "update", "acme", "--rate", "openai=60/90000", "--rate", "*=/5000")
    assert set_.code == 0
    assert "*: 5000 tokens, openai: 60 requests and 90000 tokens" in set_.out

    shown = shell("tenants", "show", "acme", "--json")
    assert shown.json["rates"]["openai"] == {"requests": 60, "tokens": 90_000}

    assert shell("tenants", "update", "acme", "--rate", "none=", "--json").json["rates"] == {}


@pytest.mark.parametrize("rate", ["openai", "=5", "openai=x", "openai=1/2/3", "openai=-1", "openai=0"])
def test_what_is_no_rate_changes_nothing(shell: Shell, rate: str) -> None:
    ran = shell("tenants", "update", "acme", "--rate", rate)

    assert ran.code == 2


def test_a_tenants_patterns_are_set_shown_and_lifted(shell: Shell) -> None:
    set_ = shell("tenants", "update", "acme", "--pattern", "EMPLOYEE=E-[0-9]{6}")
    assert set_.code == 0
    assert "EMPLOYEE=E-[0-9]{6}" in set_.out

    shown = shell("tenants", "show", "acme", "--json").json
    assert shown["patterns"] == {"EMPLOYEE": "E-[0-9]{6}"}

    lifted = shell("tenants", "update", "acme", "--pattern", "none=", "--json").json
    assert lifted["patterns"] == {}


@pytest.mark.parametrize("pattern", ["EMPLOYEE", "=x", "EMPLOYEE=", "EMPLOYEE=(", "lower case=x"])
def test_what_is_no_pattern_changes_nothing(shell: Shell, pattern: str) -> None:
    shell("tenants", "update", "acme", "--budget-usd", "1")

    ran = shell("tenants", "update", "acme", "--pattern", pattern)

    assert ran.code == 2
    assert shell("tenants", "show", "acme", "--json").json["patterns"] == {}


def test_show_and_list_tell_the_debt_until_a_higher_budget_has_paid_it(shell: Shell) -> None:
    async def spend() -> None:
        model = ScriptedModel(
            lambda _: ModelReply(text="Much.", usage=Usage(output_tokens=1_000)),
            price=Price(output=Decimal(100)),
        )
        with Kernel.open(".artelier/state.db", models=model, environ={}) as kernel:
            async with kernel.run("r", tenant="acme") as run:
                await run.step_model(model="m", messages=HI, max_output_tokens=10)

    shell("tenants", "update", "acme", "--budget-usd", "0.05")
    asyncio.run(spend())

    shown = shell("tenants", "show", "acme").out
    assert "debt" in shown and "0.099 USD" in shown and "-0.05 USD" in shown
    assert "0.099" in shell("tenants", "list").out
    paid = shell("tenants", "update", "acme", "--budget-usd", "0.20", "--json").json
    assert (paid["debt_usd"], paid["available_usd"]) == ("0.00", "0.10")
