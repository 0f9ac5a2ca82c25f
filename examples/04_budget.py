"""A budget belongs to the tenant and is reserved before a call; when it is raised, the run goes on."""

import asyncio
from decimal import Decimal

from artelier import Kernel, Price, RunSuspended, Tenant
from artelier.testing import ScriptedModel


async def ask_three(kernel: Kernel, tenant: str) -> None:
    async with kernel.run("three-questions", tenant=tenant) as run:
        for number in (1, 2, 3):
            answer = await run.step_model(
                model="scripted",
                messages=[{"role": "user", "content": f"Question {number}?"}],
                max_output_tokens=100,
            )
            print(f"{answer.text}: {answer.cost_microusd} micro-dollars")


async def main() -> None:
    price = Price(input=Decimal(1), output=Decimal(100))  # USD per million tokens
    model = ScriptedModel([f"Answer {n}, with many words." for n in (1, 2, 3)], price=price)
    with Kernel.open("budget.db", models={"scripted": model}) as kernel:
        await kernel.tenants.open(Tenant("acme", budget_usd="0.012"))
        try:
            await ask_three(kernel, "acme")
        except RunSuspended as suspended:
            print(f"stopped before spending: {suspended.status}")
        print(await kernel.tenants.show("acme"))

        await kernel.tenants.update("acme", budget_usd="1.00")
        await ask_three(kernel, "acme")
        print("spent in all:", (await kernel.tenants.show("acme"))["spent_usd"], "USD")


asyncio.run(main())
