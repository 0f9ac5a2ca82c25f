"""An agent outgrows its model's window: summaries take over, and nothing that they replaced is gone."""

import asyncio

from artelier import AutonomousAgent, CompactionStrategy, ContextBuilder, Kernel, tool
from artelier.testing import ScriptedModel, tool_call

turns = 0


@tool(side_effect=False)
def read_page(number: int) -> str:
    """Read one page of the manual."""
    return f"Page {number}: part P-{number}42 is held by {number + 3} screws. " + "Filler. " * 60


def work(request):
    """A model that reads twelve pages, and summarises when it is asked to."""
    global turns
    if "Task: summarise past events." in request.messages[0].text:
        return "Pages were read in order; nothing was decided yet."
    turns += 1
    return tool_call("read_page", {"number": turns}) if turns <= 12 else "All twelve pages are read."


async def main() -> None:
    model = ScriptedModel(work)
    with Kernel.open("long.db", models={"scripted": model}, tools=[read_page]) as kernel:
        agent = AutonomousAgent(
            kernel=kernel,
            context_builder=ContextBuilder(identity="You read manuals.", rules="Quote part numbers."),
            compaction=CompactionStrategy(trigger_at_messages=16, keep_recent_messages=4),
        )
        result = await agent.run(run_id="manual", model="scripted", prompt="Read the manual.")
        print(result.status, "-", result.text)

        desk = kernel.for_tenant()
        for receipt in reversed(await desk.compactions("manual")):
            lost = receipt["loss"]["identifiers"][:3]
            print(f"messages {receipt['start']}-{receipt['end']} became a summary; it no longer says {lost}")

        prompt = await desk.render("manual", "c13/model")
        print(
            "the last prompt has",
            len(prompt.messages),
            "messages; the task is still",
            repr(prompt.messages[2].text),
        )
        replayed = await desk.replay("manual", agent.drive)
        print("replayed without a call:", replayed.model_calls + replayed.tool_calls == 0)


asyncio.run(main())
