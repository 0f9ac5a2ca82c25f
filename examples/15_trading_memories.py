"""What one agent has learned another one can buy: a copy of its memories, and a licence for its workflow."""

import asyncio

from artelier import Kernel
from artelier.world.genesis import found

STORE = {"config": {"max_entries": 100}}
WORLD = {
    "agents": [
        {"id": "ada", "policy": "ada", "longterm_memory": STORE, "template": "researcher"},
        {"id": "ben", "policy": "ben"},
    ]
}
LESSONS = ["Bread sells out before tick 3.", "Rosa cuts her prices when it rains."]


def ada(facts):
    """Learns two things, then sells what she remembers and how she works."""
    tick = facts["tick"]
    if tick <= 2:
        lesson = {"memory_artifact_id": "ada_longterm_memory", "text": LESSONS[tick - 1]}
        return {"action": "invoke", "artifact_id": "genesis_memory_add", "args": lesson}
    if tick == 3:
        return {"action": "offer", "artifact_id": "ada_longterm_memory", "price": 30, "sells": "copy"}
    if tick == 4:
        return {"action": "offer", "artifact_id": "ada_workflow", "price": 8, "sells": "licence", "ticks": 20}
    return {"action": "noop"}


def ben(facts):
    """Buys whatever is offered, and makes it his own."""
    last = facts["last_action"]
    if last["type"] == "accept" and last["success"] and last["result"].get("yours_now"):
        return {"action": "configure", "longterm_memory_artifact_id": last["result"]["yours_now"]}
    if last["type"] == "accept" and last["success"]:
        return {"action": "configure", "workflow_artifact_id": "ada_workflow"}
    wanted = ("memory_store", "workflow") if facts["tick"] > 5 else ("memory_store",)
    for offer in facts["offers"]:
        if offer["kind"] in wanted and facts["tick"] in (4, 6):
            return {"action": "accept", "offer_id": offer["offer"], "price_max": 40}
    return {"action": "noop"}


async def main() -> None:
    with Kernel.open("memories.db") as kernel:
        rules = {"ada": ada, "ben": ben}
        async with await found(kernel, "memories", WORLD, policies=rules) as world:
            await world.run(ticks=8)
            space = world.as_principal("ben")
            mind = (await space.artifacts.read("ben")).content
            memories = mind["longterm_memory_artifact_id"]
            found_ = await space.artifacts.invoke(
                "genesis_memory_search", memory_artifact_id=memories, query="rain", limit=1
            )
            print("ben remembers:", found_.result["results"][0]["text"])
            print("ben works by:", mind["workflow_artifact_id"])
            print("ben has", await space.ledger.balance("scrip"), "scrip left")


asyncio.run(main())
