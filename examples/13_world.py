"""A world: agents with money and artifacts act once in each tick; the same seed gives the same world."""

import asyncio

from artelier import Kernel
from artelier.world.genesis import found

BREAD = {"code": "def run():\n    return 'bread'\n"}
WORLD = {
    "agents": [
        {"id": "baker", "policy": "baker"},
        {"id": "eater_{n}", "count": 3, "policy": "eater", "scrip": 10},
    ]
}


def baker(facts):
    """Opens a bakery in the first tick; whoever uses it pays."""
    if "bakery" not in facts["my_artifacts"]:
        return {
            "action": "write",
            "artifact_id": "bakery",
            "kind": "tool",
            "content": BREAD,
            "prices": {"invoke": 3},
        }
    return {"action": "noop"}


def eater(facts):
    """Eats in two of three ticks, as long as there is money."""
    if facts["balance"] < 3 or facts["seed"] % 3 == 0:
        return {"action": "noop"}
    return {"action": "invoke", "artifact_id": "bakery", "price_max": 3}


async def main() -> None:
    rules = {"baker": baker, "eater": eater}
    with Kernel.open("world.db") as kernel:
        hashes = []
        for name in ("first", "second"):
            async with await found(kernel, name, WORLD, seed=7, policies=rules) as world:
                passed = await world.run(ticks=6)
                hashes.append(await world.hash())
        for agent in await world.agents():
            print(f"{agent}: {await world.as_principal(agent).ledger.balance('scrip')} scrip")
        print("refused:", sum(one.rejected for one in passed))
        print("the same world twice:", hashes[0] == hashes[1])


asyncio.run(main())
