"""PydanticAI's bank support agent is killed with `kill -9` inside a tool; the next process repeats no call.

The agent is the public example of PydanticAI, with a tool that acts and one line more: `Durable()`.
"""

import asyncio
import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, Field
from pydantic_ai import Agent, RunContext

from artelier import Kernel, happened, not_happened
from artelier.integrations.pydantic_ai import Durable, current_call
from artelier.models.scripted import ScriptedModel, tool_call

BANK = Path("bank.txt")  # the outside world
CALLS = Path("calls.txt")  # one line for each call of the model


@dataclass
class SupportDependencies:
    customer_id: int


class SupportOutput(BaseModel):
    support_advice: str = Field(description="Advice returned to the customer")
    block_card: bool = Field(description="Whether to block their card or not")
    risk: int = Field(description="Risk level of query", ge=0, le=10)


async def is_blocked(key: str, arguments: dict[str, object]) -> object:
    """Look for a call in the bank's books by its idempotency key."""
    done = BANK.exists() and key in BANK.read_text()
    return happened("The card is blocked.") if done else not_happened


support_agent = Agent(
    "openai:gpt-5-mini",
    name="support",
    deps_type=SupportDependencies,
    output_type=SupportOutput,
    instructions="You are a support agent in our bank. Judge the risk of the customer's query.",
    capabilities=[Durable()],
    defer_model_check=True,
)


@support_agent.tool(metadata={"artelier": {"side_effect": False}})
async def customer_balance(ctx: RunContext[SupportDependencies]) -> str:
    """Return the customer's current account balance."""
    return f"${123.45 + ctx.deps.customer_id:.2f}"


@support_agent.tool_plain(metadata={"artelier": {"probe": is_blocked}})
def block_card(reason: str) -> str:
    """Block the customer's card."""
    with BANK.open("a") as books:
        books.write(f"blocked for {reason}: {current_call().idempotency_key}\n")
    if "die" in sys.argv:
        os.kill(os.getpid(), signal.SIGKILL)
    return "The card is blocked."


def answer(request: object) -> object:
    """Stand in for the provider: each call is counted outside of the process."""
    with CALLS.open("a") as calls:
        calls.write("called\n")
    script = [
        tool_call("customer_balance"),
        tool_call("block_card", {"reason": "lost card"}),
        tool_call("final_result", {"support_advice": "We have blocked it.", "block_card": True, "risk": 8}),
    ]
    return script[len(CALLS.read_text().splitlines()) - 1]


async def main() -> None:
    with Kernel.open("support.db", models={"openai:gpt-5-mini": ScriptedModel([answer] * 3)}) as kernel:
        async with kernel.run("ticket-1") as run:
            with Durable.within(run):
                result = await support_agent.run("I lost my card!", deps=SupportDependencies(customer_id=0))
            run.finish(result.output)
        print(result.output)
        for step in (await kernel.for_tenant().cost("ticket-1"))["steps"]:
            manifest = await kernel.for_tenant().manifest("ticket-1", step["key"])
            print(
                f"{step['key']}: {step['cost_microusd']} micro-USD, {len(manifest.parts)} parts of its prompt"
            )


if __name__ == "__main__":
    if "die" in sys.argv:
        asyncio.run(main())
    else:
        killed = subprocess.run([sys.executable, __file__, "die"], check=False)
        print(f"the first process ended with {killed.returncode}")
        asyncio.run(main())
        print("calls of the model:", len(CALLS.read_text().splitlines()))
        print("times the card was blocked:", len(BANK.read_text().splitlines()))
