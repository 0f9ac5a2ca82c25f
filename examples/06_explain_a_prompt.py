"""Every prompt that was sent can be explained and rendered again, byte for byte."""

import asyncio

from artelier import Kernel
from artelier.testing import ScriptedModel


async def main() -> None:
    model = ScriptedModel(["Bonjour.", "Au revoir."])
    with Kernel.open("prompts.db", models={"scripted": model}) as kernel:
        async with kernel.run("talk") as run:
            talk = run.conversation()
            for line in ("Say hello in French.", "Now say goodbye."):
                talk.append({"role": "user", "content": line})
                talk.append(await run.step_model(model="scripted", messages=talk))

        desk = kernel.for_tenant()
        manifest = await desk.manifest("talk", "2")
        for part in manifest.parts:
            print(f"{part.tag}: messages {part.start} to {part.end} of {part.conversation!r}")
        rendered = await desk.render("talk", "2")
        print("the same bytes:", rendered.canonical() == model.requests[1].canonical())


asyncio.run(main())
