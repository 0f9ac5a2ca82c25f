"""`/ledger` and `/tenants/me`: money that adds up, and who has spent it."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest

from artelier import ModelReply, Rate
from artelier.kernel.queries import costs
from artelier.ports.model import Price, Usage
from tests.server.routes.served import Served, good, play, refused, serving

PRICE = Price(request="0.01")  # pyright: ignore[reportArgumentType] - text is taken for what it says


HI = [{"role": "user", "content": "hi"}]


async def _spend(served: Served, run_id: str, agent: str, calls: int = 1) -> None:
    async with served.kernel.run(run_id, agent=agent) as run:
        for _ in range(calls):
            await run.step_model(model="m", messages=HI)


def test_costs_are_told_by_agent_and_model_and_sum_to_what_was_spent(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with serving(tmp_path, price=PRICE) as served:
            await served.kernel.tenants.open("default")
            await served.kernel.tenants.update("default", budget_usd="1.00")
            await _spend(served, "r1", "ana", calls=2)
            await _spend(served, "r2", "m1/bo")
            told = good(await served.ada.get("/ledger/costs"))
            names = ("agent", "model", "calls", "cost_microusd")
            assert [tuple(one[name] for name in names) for one in told["items"]] == [
                ("ana", "openai:m", 2, 20_000),
                ("m1/bo", "openai:m", 1, 10_000),
            ]
            assert told["total_microusd"] == 30_000 and not told["is_cut"]
            me = good(await served.ada.get("/tenants/me"))
            assert (me["budget_microusd"], me["spent_microusd"]) == (1_000_000, 30_000)
            assert (me["held_microusd"], me["available_microusd"]) == (0, 970_000)
            assert good(await served.eve.get("/ledger/costs"))["items"] == []
            assert good(await served.eve.get("/tenants/me"))["budget_microusd"] is None

    play(scenario())


def test_costs_are_summed_a_few_events_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Short runs are summed together and a long one in stretches; others have their turn between."""

    async def scenario() -> None:
        async with serving(tmp_path, price=PRICE) as served:
            await served.kernel.tenants.open("default")
            for number, calls in enumerate((1, 1, 9, 1, 2, 5)):
                await _spend(served, f"r{number}", f"agent{number % 2}", calls)
            whole = good(await served.ada.get("/ledger/costs"))
            assert [one["calls"] for one in whole["items"]] == [12, 7]
            for events in (1, 3, 7, 20, 50):
                monkeypatch.setattr(costs, "EVENTS_AT_ONCE", events)
                monkeypatch.setattr(costs, "RUNS_AT_ONCE", 1 + events % 4)
                assert good(await served.ada.get("/ledger/costs")) == whole

    play(scenario())


def test_a_debt_is_told_and_what_is_available_is_less_than_nothing(tmp_path: Path) -> None:
    reply = ModelReply(text="Much.", usage=Usage(output_tokens=1_000))

    async def scenario() -> None:
        price = Price(output=Decimal(100))
        async with serving(tmp_path, lambda _: reply, price=price) as served:
            await served.kernel.tenants.open("default")
            await served.kernel.tenants.update("default", budget_usd="0.05")
            async with served.kernel.run("r1") as run:
                await run.step_model(model="m", messages=HI, max_output_tokens=10)
            me = good(await served.ada.get("/tenants/me"))
            assert (me["debt_microusd"], me["available_microusd"]) == (99_000, -50_000)
            limit = {"unit": "wall_s", "cap": 60.5}
            async with served.kernel.run("r2"):
                good(await served.ada.post("/runs/r2/limit", json=limit))
            rows = await served.kernel.store.query("SELECT unit, cap FROM limits")
            assert rows == [("ms", 60_500)]

    play(scenario())


def test_sums_are_zero_for_every_asset_of_every_space(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with serving(tmp_path, price=PRICE) as served:
            await served.kernel.tenants.open("default")
            await served.kernel.tenants.update("default", budget_usd="1.00")
            await _spend(served, "r1", "ana")
            body = {"id": "w", "world": {"agents": [{"id": "a", "scrip": 40, "policy": "none"}]}}
            good(await served.ada.post("/worlds", json=body), 201)
            totals = good(await served.ada.get("/ledger/totals"))
            assert totals["conserved"] and {one["sum"] for one in totals["items"]} == {0}
            issued = {(one["space"], one["asset"]): one["issued"] for one in totals["items"]}
            assert issued["main", "usd"] == 1_000_000 and issued["world:w", "scrip"] >= 40
            params = {"space": "world:w"}
            accounts = good(await served.ada.get("/ledger/accounts", params=params))["items"]
            balances = {one["account"]: one["balance"] for one in accounts}
            assert balances["principal:a"] == 40 and sum(balances.values()) == 0

    play(scenario())


def test_accounts_and_postings_come_in_pages_that_hold_everything_once(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with serving(tmp_path, price=PRICE) as served:
            await served.kernel.tenants.open("default")
            await served.kernel.tenants.update("default", budget_usd="1.00")
            for number in range(4):
                await _spend(served, f"r{number}", "ana" if number % 2 else "bo")
            whole = good(await served.ada.get("/ledger/accounts"))["items"]
            paged, after = [], None
            while True:
                params = {"limit": 2} | ({"after": after} if after else {})
                page = good(await served.ada.get("/ledger/accounts", params=params))
                paged += page["items"]
                if (after := page["next"]) is None:
                    break
            assert paged == whole and len(whole) >= 3
            whole = good(await served.ada.get("/ledger/postings", params={"limit": 500}))["items"]
            paged, before = [], None
            while True:
                params = {"limit": 2} | ({"before": before} if before else {})
                page = good(await served.ada.get("/ledger/postings", params=params))
                paged += page["items"]
                if (before := page["next"]) is None:
                    break
            assert paged == whole
            assert [one["position"] for one in whole] == sorted(
                (one["position"] for one in whole), reverse=True
            )

    play(scenario())


def test_postings_are_those_of_a_run_an_agent_or_an_account(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with serving(tmp_path, price=PRICE) as served:
            await served.kernel.tenants.open("default")
            await served.kernel.tenants.update("default", budget_usd="1.00")
            await _spend(served, "r1", "ana")
            await _spend(served, "r10", "bo")

            async def streams(**params: str) -> set[str]:
                answer = await served.ada.get("/ledger/postings", params=params)
                return {one["stream"] for one in good(answer)["items"]}

            assert await streams(run="r1") == await streams(agent="ana") == {"run:r1"}
            assert await streams(account="hold:r10") == {"run:r10"}
            assert await streams(account="hold:r1") == {"run:r1"}
            assert await streams(account="nobody") == await streams(run="nothing") == set()
            items = good(await served.ada.get("/ledger/postings", params={"run": "r1"}))["items"]
            paid = sum(one["amount"] for one in items if one["target"] == "spent")
            assert paid == 10_000 and {one["step"] for one in items} != {""}
            odd = await served.ada.get("/ledger/accounts", params={"after": "nonsense"})
            refused(odd, 422, "invalid_request")

    play(scenario())


def test_a_tenant_is_told_its_rates_and_what_is_looked_for(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with serving(tmp_path) as served:
            assert good(await served.ada.get("/tenants/me"))["rates"] == []
            rates = {"openai": Rate(requests=60, tokens=90_000), "*": Rate(requests=200)}
            await served.kernel.tenants.update("default", rates=rates, patterns={"EMPLOYEE": "E-[0-9]{6}"})

            me = good(await served.ada.get("/tenants/me"))

            assert me["rates"] == [
                {"name": "*", "requests": 200, "tokens": None},
                {"name": "openai", "requests": 60, "tokens": 90_000},
            ]
            assert me["patterns"] == ["EMPLOYEE"]
            other = good(await served.eve.get("/tenants/me"))
            assert (other["rates"], other["patterns"]) == ([], [])

    play(scenario())
