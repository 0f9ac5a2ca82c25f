"""A run is durable: run this file twice, and the second time nothing is called.

The model is scripted, so that the example needs no key. Any other name (`openai:gpt-5-mini`, `offline`)
goes in the same place.
"""

import asyncio

from artelier import Kernel
from artelier.testing import ScriptedModel


async def main() -> None:
    model = ScriptedModel(["Revenue fell in March because two shops were closed."])
    with Kernel.open("shop.db", models={"scripted": model}) as kernel:
        async with kernel.run("why-march") as run:
            answer = await run.step_model(
                model="scripted", messages=[{"role": "user", "content": "Why did revenue fall?"}]
            )
            words = await run.step("count", lambda text: len(text.split()), answer.text)
            run.finish({"answer": answer.text, "words": words})
        print(f"replayed: {answer.replayed}")
        print(f"{answer.text} ({words} words)")
        print(f"calls to the model in this process: {len(model.requests)}")


asyncio.run(main())
