"""A conversation over many runs: each turn is exported, billed and explained alone, yet knows the others."""

import asyncio

from artelier import AgentResult, AutonomousAgent, Kernel
from artelier.ports.model import Delta


async def main() -> None:
    with Kernel.open("chat.db") as kernel:
        chat = AutonomousAgent(kernel=kernel, identity="You are a host.").chat("guest-7", model="offline")
        reply = await chat.send("My name is Ada.")
        print(reply.run_id, "-", reply.text)

        print("streamed: ", end="")
        async for item in chat.stream("What is my name?"):
            if isinstance(item, Delta):
                print(item.text, end="")
            elif isinstance(item, AgentResult):
                print(f"\n{item.run_id} is {item.status}")

        prompt = await kernel.for_tenant().render("guest-7/000002", "c1/model")
        print([message.role for message in prompt.messages])


asyncio.run(main())
