"""What an agent writes down in one run stands in the prompts of the next; every change can be undone."""

import asyncio

from artelier import AutonomousAgent, ContextBuilder, Kernel
from artelier.memory import SQLiteMemoryStore


async def main() -> None:
    with Kernel.open("memory_runs.db") as kernel, SQLiteMemoryStore("agent_memory.db") as store:
        agent = AutonomousAgent(
            kernel=kernel,
            agent_id="helper",
            context_builder=ContextBuilder(identity="You help one person.", memory_store=store),
        )
        first = await agent.run(
            run_id="monday", model="offline", prompt="Remember that my favourite colour is teal."
        )
        print("monday: ", first.text)
        second = await agent.run(run_id="friday", model="offline", prompt="What is my favourite colour?")
        print("friday: ", second.text)

        memory = store.for_agent("default", "helper")
        for block in await memory.blocks():
            print(f"{block.label}: {block.text!r}")
        for change in await memory.changes(limit=1):
            await memory.undo(change.id, key="changed-my-mind")
        print("after the undo:", [block.text for block in await memory.blocks() if block.text])


asyncio.run(main())
