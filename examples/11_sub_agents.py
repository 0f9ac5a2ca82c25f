"""Agents as tools: a call runs a child with a log, a memory and a cap of its own, on its parent's budget."""

import asyncio
from decimal import Decimal

from artelier import AutonomousAgent, Kernel, Limits, Price, SubAgentFactory, Tenant
from artelier.testing import ScriptedModel, tool_call

PRICE = Price(input=Decimal(1), output=Decimal(5))  # USD per million tokens

editor = ScriptedModel(
    [
        [
            tool_call("researcher", {"prompt": "Which shop sold most?"}),
            tool_call("researcher", {"prompt": "Which shop grew most?"}),
            tool_call("critic", {"prompt": "Is a report on two shops too short?"}),
        ],
        "Oslo sold most and Molde grew most; nobody objects.",
    ],
    price=PRICE,
)
researcher = ScriptedModel(
    lambda request: "Oslo" if "sold" in request.messages[-1].text else "Molde", price=PRICE
)
critic = ScriptedModel(["No."], price=PRICE)


async def main() -> None:
    models = {"editor": editor, "researcher": researcher, "critic": critic}
    with Kernel.open("sub_agents.db", models=models) as kernel:
        factory = SubAgentFactory(kernel=kernel, limits=Limits(usd="0.10"))
        agents = [
            factory.create(
                name="researcher",
                description="Answers one question about the shops.",
                system_prompt="You research.",
                model="researcher",
            ),
            factory.create(
                name="critic", description="Finds what is wrong.", system_prompt="You object.", model="critic"
            ),
        ]
        tenant = Tenant("press", budget_usd="1.00")
        result = await AutonomousAgent(kernel=kernel, identity="Editor", tools=agents).run(
            run_id="report", tenant=tenant, model="editor", prompt="Write a report on the shops."
        )
        print(result.text)

        tree = await kernel.for_tenant("press").tree("report")
        for child in tree["children"]:
            print(f"{child['agent']}: {child['status']}, {child['cost_microusd']} micro-dollars")
        print("all of it:", tree["total_cost_microusd"], "micro-dollars")
        spent = Decimal((await kernel.tenants.show("press"))["spent_usd"]) * 1_000_000
        print("as much as the tenant has paid:", spent == tree["total_cost_microusd"])


asyncio.run(main())
