"""The programs whose runs are kept as golden files: the same code records, replays and resumes them.

Never change one: a file that an older version recorded holds the steps of the code as it stands here. A new
version gets a program of its own.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from artelier import AutonomousAgent, Kernel, Price, Run, Tenant, tool
from artelier.ports.model import ModelRequest
from artelier.testing import ScriptedModel, tool_call

ACME = Tenant("acme", grants={"tools:*"}, budget_usd="5.00")
PRICE = Price(input=Decimal(1), output=Decimal(2))

PLAN = {
    "agents": [{"slug": "analyst", "name": "Analyst", "tools": ["orders_of"]}],
    "tasks": [
        {
            "slug": city.lower(),
            "goal": f"Count the orders of {city}.",
            "agent": "analyst",
            "success_criteria": "Names the number of orders.",
            "max_iterations": 5,
        }
        for city in ("Oslo", "Bergen")
    ],
}


class Shop:
    """The tools of the programs, and what they did to the outside in this process."""

    def __init__(self) -> None:
        self.paid: list[str] = []

    def tools(self) -> list[Any]:
        @tool(side_effect=True)
        def pay(to: str, usd: str) -> dict[str, str]:
            "Pay somebody."
            self.paid.append(to)
            return {"paid": to, "usd": usd}

        @tool(side_effect=False)
        def orders_of(city: str) -> dict[str, Any]:
            "How many orders a city has placed."
            return {"city": city, "orders": {"Oslo": 412, "Bergen": 267}[city]}

        return [pay, orders_of]


def _text(request: ModelRequest) -> str:
    return "\n".join(message.text for message in request.messages)


def _plans(request: ModelRequest) -> Any:
    """The model of missions: it plans, decides, writes and judges."""
    asked, text = (request.output_schema or {}).get("title"), _text(request)
    city = "Oslo" if "of Oslo" in text else "Bergen"
    number = "412" if city == "Oslo" else "267"
    if asked == "Plan":
        return PLAN
    if asked == "Verdict":
        ref = text.rpartition('<data source="')[2].partition('"')[0]
        evidence = [{"ref": ref, "quote": "placed"}]
        one = {"criterion": "number", "met": True, "evidence": evidence, "missing": ""}
        return {"criteria": [one], "summary": "good"}
    if asked is None:
        return f"# Orders\n\n{city} placed {number}."
    decision = {"action": "create_artifact", "artifact_type": "markdown", "target": "orders"}
    if number not in text:
        decision = {"action": "use_tool", "tool": "orders_of", "input": {"city": city}}
    return decision | {"reason": "It is next."}


def _works(request: ModelRequest) -> Any:
    """The model of the agent: it counts, asks its colleague by a tool, and answers."""
    if not any(message.role == "tool" for message in request.messages):
        return [tool_call("orders_of", {"city": "Oslo"}), tool_call("orders_of", {"city": "Bergen"})]
    return "Oslo placed more orders than Bergen."


def models() -> dict[str, ScriptedModel]:
    """The models of the programs, by name."""
    return {
        "m": ScriptedModel(lambda request: f"re: {request.messages[-1].text}", price=PRICE),
        "better": ScriptedModel(lambda request: f"better: {request.messages[-1].text}", price=PRICE),
        "planner": ScriptedModel(_plans, price=PRICE),
        "worker": ScriptedModel(_works, price=PRICE),
    }


async def payroll(run: Run) -> dict[str, Any]:
    """Two payments, a conversation, a read-only call and a result."""
    talk = run.conversation()
    paid: list[Any] = []
    for name in ("ana", "ben"):
        talk.append({"role": "user", "content": f"May {name} be paid?"})
        talk.append(await run.step_model(model="m", messages=talk))
        paid.append((await run.step_tool("pay", {"to": name, "usd": "3.00"})).value)
    orders = await run.step_tool("orders_of", {"city": "Oslo"})
    talk.append({"role": "user", "content": f"{orders.value['orders']} orders"})
    talk.append(await run.step_model(model="m", messages=talk))
    return {"paid": paid, "said": talk.messages(1, len(talk))[-1].text}


async def asks(run: Run) -> str:
    """A question to a person between two model steps."""
    first = await run.step_model(model="m", messages=[{"role": "user", "content": "Is it ready?"}])
    answer = await run.approve("Publish the report?", details={"pages": 12})
    last = await run.step_model(model="m", messages=[{"role": "user", "content": answer.note}])
    return f"{first.text}; {last.text}; {bool(answer)}"


async def agent(kernel: Kernel, run_id: str) -> Any:
    """The built-in loop of an agent."""
    counting = Shop().tools()[1:]
    made = AutonomousAgent(kernel=kernel, identity="You count.", tools=counting, max_iterations=6)
    return await made.run(run_id=run_id, tenant=ACME, model="worker", prompt="Who ordered more?")


PROGRAMS = {"payroll": payroll, "asks": asks}
"""Run functions by the run's name, up to its first point."""
