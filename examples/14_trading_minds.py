"""An agent sells what it thinks with; who buys a copy thinks with it from the next tick on."""

import asyncio
import json
import re

from artelier import Kernel
from artelier.testing import ScriptedModel
from artelier.world.genesis import found

WORLD = {
    "agents": [
        {"id": "ada", "model": "ada", "personality": "You haggle hard: never pay the first price."},
        {"id": "ben", "model": "ben", "personality": "You are new to this."},
    ]
}


def act(action, **fields):
    return json.dumps({"action": action, **fields})


def seen(request, pattern):
    """Ids are read off the prompt, as any model has to."""
    text = "\n".join(message.text for message in request.messages)
    return re.search(pattern, text)[1]


ADA = [
    act("offer", artifact_id="ada_personality", price=25, sells="copy", royalty_percent=10),
    act("noop", reasoning="Somebody will want it."),
]
BEN = [
    act("noop", reasoning="Looking around."),
    lambda request: act("accept", offer_id=seen(request, r"\b(offer-[\w-]+)"), price_max=30),
    lambda request: act(
        "configure", personality_prompt_artifact_id=seen(request, r'"yours_now":\s*"([^"]+)"')
    ),
    act("noop", reasoning="Let us see who I am now."),
]


async def main() -> None:
    ada, ben = ScriptedModel(ADA, repeat_last=True), ScriptedModel(BEN, repeat_last=True)
    with Kernel.open("minds.db", models={"ada": ada, "ben": ben}) as kernel:
        async with await found(kernel, "minds", WORLD) as world:
            await world.run(ticks=4)
            for agent in ("ada", "ben"):
                space = world.as_principal(agent)
                mind = (await space.artifacts.read(agent)).content["personality_prompt_artifact_id"]
                print(f"{agent}: {await space.ledger.balance('scrip')} scrip, thinks with {mind}")
            for tick in (1, 4):
                text = "\n".join(message.text for message in ben.requests[tick - 1].messages)
                print(f"ben's prompt of tick {tick} haggles:", "haggle hard" in text)


asyncio.run(main())
