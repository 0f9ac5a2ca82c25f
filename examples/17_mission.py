"""A goal becomes a plan that a person launches; each of its tasks comes to an honest end of its own."""

import asyncio
import json

from artelier import Kernel, tool
from artelier.testing import ScriptedModel


@tool(side_effect=False)
def orders_of(city: str) -> dict:
    "How many orders a city has placed."
    return {"city": city, "orders": {"Oslo": 412, "Bergen": 267}[city]}


def task(slug, goal, *, after=(), iterations=5):
    return {
        "slug": slug,
        "goal": goal,
        "agent": "analyst",
        "depends_on": list(after),
        "success_criteria": "Names the number of orders.",
        "max_iterations": iterations,
    }


PLAN = {
    "agents": [{"slug": "analyst", "name": "Analyst", "tools": ["orders_of"]}],
    "tasks": [
        task("oslo", "Count the orders of Oslo."),
        task("bergen", "Guess the orders of Bergen.", iterations=2),
        task("report", "Compare Oslo with Bergen.", after=["oslo", "bergen"]),
        task("survey", "Ask every customer.", iterations=20),
    ],
}


def model(request):
    """Stands for a language model: it plans, decides, writes and judges."""
    asked = (request.output_schema or {}).get("title")
    text = "\n".join(message.text for message in request.messages)
    if asked == "Plan":
        return PLAN
    if asked == "Verdict":  # it says yes to everything; quotes and figures are checked all the same
        ref = text.rpartition('<data source="')[2].partition('"')[0]
        quote = next(line for line in reversed(text.splitlines()) if "placed" in line)
        evidence = [{"ref": ref, "quote": quote}]
        criterion = "Names the number of orders."
        one = {"criterion": criterion, "met": True, "evidence": evidence, "missing": ""}
        return {"criteria": [one], "summary": "good"}
    if asked is None:  # content: one of the two figures is made up
        return "# Orders\n\n" + ("Oslo placed 412." if "of Oslo" in text else "Bergen placed 31999.")
    decision = {"action": "create_artifact", "artifact_type": "markdown", "target": "orders"}
    if "every customer" in text:
        decision = {"action": "analyze"}
    elif "of Oslo" in text and "412" not in text:
        decision = {"action": "use_tool", "tool": "orders_of", "input": {"city": "Oslo"}}
    return decision | {"reason": "It is next."}


async def main() -> None:
    models = {"model": ScriptedModel(model)}
    with Kernel.open("missions.db", models=models, tools=[orders_of]) as kernel:
        desk = kernel.for_tenant("acme")
        planned = await desk.plan("Who orders more?", mission_id="orders", model="model")
        print("waits for a person:", planned["status"], json.dumps(planned["estimate"]))

        await desk.launch("orders", by="user:kim")
        result = await desk.drive_mission("orders")
        print("the mission:", result.status, result.reason)
        for one in (await desk.tasks.list(mission="orders"))["items"]:
            print(f"{one['id']}: {one['status']} {one['reason']} {one['blocked_by']}".rstrip())


asyncio.run(main())
