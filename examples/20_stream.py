"""A run as it happens: text while it is written, and each call of a tool with what it was given and gave."""

import asyncio

from artelier import AgentResult, AutonomousAgent, Kernel, tool
from artelier.agents import ToolCalled, ToolReturned
from artelier.log import Event
from artelier.ports.model import Delta
from artelier.testing import ScriptedModel, tool_call


@tool(side_effect=False)
def weather(city: str) -> dict[str, object]:
    """Tell the weather in a city."""
    return {"city": city, "degrees": 21}


async def main() -> None:
    model = ScriptedModel([tool_call("weather", {"city": "Oslo"}), "It is 21 degrees in Oslo."])
    with Kernel.open("stream.db", models={"m": model}, tools=[weather]) as kernel:
        desk, goal = kernel.for_tenant(), None
        agent = AutonomousAgent(kernel=kernel)
        async for item in agent.stream(run_id="oslo", model="m", prompt="Is it warm in Oslo?"):
            if isinstance(item, Delta):
                print(item.text, end="")
            elif isinstance(item, ToolCalled):
                print(f"{item.tool}({item.arguments})")
            elif isinstance(item, ToolReturned):
                print(f"-> {item.value}")
            elif isinstance(item, AgentResult):
                print(f"\n{item.status}, asked: {goal}")
            elif isinstance(item, Event) and item.kind == "run.started":
                goal = await desk.content(item.plain()["goal"])  # what other events refer to


asyncio.run(main())
