"""`POST /runs/{id}/compensate`: what an ended run has done is undone over HTTP, by who may change things."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from artelier import ToolContext, tool
from tests.server.house import ADDRESS, assert_fault, house

BASE = f"{ADDRESS}/api/v1/runs"


def test_an_ended_run_is_compensated_over_http(tmp_path: Path) -> None:
    done: list[str] = []
    troubles: list[Exception] = [ConnectionError("reset")]

    async def refund(arguments: dict[str, Any], result: Any, ctx: ToolContext) -> None:
        if troubles:
            raise troubles.pop()
        done.append(f"{arguments['to']} {ctx.principal}")

    @tool(side_effect=True, compensate=refund)
    async def pay(to: str) -> str:
        "Pay."
        return to

    async def scenario() -> None:
        async with house(tmp_path) as home:
            home.kernel.services.tools = {"pay": pay}
            async with home.kernel.run("r") as run:
                await run.step_tool("pay", {"to": "ann"}, key="ann")
                open_ = await home.client.post(f"{BASE}/r/compensate", json={})
                assert_fault(open_, 409, "conflict")

            held = await home.client.post(f"{BASE}/r/compensate", json={"note": "called off"})
            assert (held.status_code, held.json()["status"]) == (200, "unknown_outcome")
            assert (held.json()["held_by"], held.json()["step"]) == ("r", "ann/undo")
            settled = await home.client.post(
                f"{BASE}/r/reconcile", json={"step": "ann/undo", "answer": "retry"}
            )
            assert settled.status_code == 200
            told = await home.client.post(f"{BASE}/r/compensate", json={})
            assert told.json() == {
                "run_id": "r",
                "status": "done",
                "held_by": "",
                "step": "",
                "undone": ["ann"],
                "not_undone": [],
            }
            assert done == ["ann operator"]
            assert (await home.client.get(f"{BASE}/r")).json()["status"] == "completed"
            nobody = await home.client.post(f"{BASE}/nobody/compensate", json={})
            assert_fault(nobody, 404, "not_found")
            back = await home.client.post(f"{BASE}/r/compensate", json={"upto": "nowhere"})
            assert_fault(back, 404, "not_found")

    asyncio.run(scenario())


def test_a_call_that_was_at_work_when_its_run_ended_is_settled_over_http(tmp_path: Path) -> None:
    undone: list[str] = []

    async def refund(arguments: dict[str, Any], result: Any, ctx: ToolContext) -> None:
        undone.append(result)

    @tool(side_effect=True, compensate=refund)
    async def pay(to: str) -> str:
        "Pay, and never come back."
        entered.set()
        await asyncio.Event().wait()
        return to

    async def scenario() -> None:
        async with house(tmp_path) as home:
            home.kernel.services.tools = {"pay": pay}
            async with home.kernel.run("r") as run:
                paying = asyncio.ensure_future(run.step_tool("pay", {"to": "ann"}, key="ann"))
                await entered.wait()
            paying.cancel()
            shown = (await home.client.get(f"{BASE}/r")).json()
            assert (shown["status"], shown["unknown_outcomes"]) == ("completed", ["ann"])
            assert shown["unknown_calls"][0]["code"] == "run_ended"
            again = await home.client.post(f"{BASE}/r/reconcile", json={"step": "ann", "answer": "retry"})
            assert_fault(again, 409, "conflict")
            told = {"step": "ann", "answer": "succeeded", "result": "receipt 7"}
            assert (await home.client.post(f"{BASE}/r/reconcile", json=told)).status_code == 200
            assert (await home.client.get(f"{BASE}/r")).json()["unknown_outcomes"] == []
            assert (await home.client.post(f"{BASE}/r/compensate", json={})).json()["undone"] == ["ann"]
            assert undone == ["receipt 7"]

    entered = asyncio.Event()
    asyncio.run(scenario())
