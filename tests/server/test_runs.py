"""Runs over HTTP: what is shown is what the kernel says, and commands have their effect."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from artelier import AutonomousAgent
from artelier.agents import workspace_agent
from artelier.app import Kernel
from artelier.kernel import Run
from artelier.ports.model import ModelRequest
from artelier.testing import tool_call
from tests.server.house import ADDRESS, asking, assert_fault, house, on_a_port, spoken, until

ID = "m1/figures:2"
ENCODED = "m1%2Ffigures%3A2"


@pytest.mark.parametrize("over", ["in process", "uvicorn"])
def test_an_id_with_slashes_is_one_segment(tmp_path: Path, over: str) -> None:
    async def scenario() -> None:
        async with house(tmp_path, "hello", "again") as home, on_a_port(home.app) as address:
            await spoken(home.kernel, ID, "hi")
            await spoken(home.kernel, "m1", "hi")
            client = home.client
            base = ADDRESS if over == "in process" else address
            if over == "uvicorn":
                import httpx

                client = httpx.AsyncClient(cookies=home.client.cookies)
                client.cookies.clear()
                client.headers["Cookie"] = "; ".join(
                    f"{name}={value}" for name, value in home.client.cookies.items()
                )
            shown = await client.get(f"{base}/api/v1/runs/{ENCODED}")
            assert shown.json()["id"] == ID
            steps = await client.get(f"{base}/api/v1/runs/{ENCODED}/steps")
            assert [step["kind"] for step in steps.json()["items"]] == ["model"]
            assert_fault(await client.get(f"{base}/api/v1/runs/m1/figures"), 404, "not_found")
            twice = ENCODED.replace("%", "%25")
            assert_fault(await client.get(f"{base}/api/v1/runs/{twice}"), 404, "not_found")
            if client is not home.client:
                await client.aclose()

    asyncio.run(scenario())


def test_runs_are_listed_page_by_page(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with house(tmp_path) as home:
            for number in range(5):
                await asking(home.kernel, f"r{number}")
            seen: list[str] = []
            after: int | None = 0
            while after is not None:
                wanted = {"after": after, "limit": 2}
                page = (await home.client.get("/api/v1/runs", params=wanted)).json()
                seen += [run["id"] for run in page["items"]]
                after = page["next"]
            assert seen == [f"r{number}" for number in range(5)]
            waiting = await home.client.get("/api/v1/runs", params={"status": "completed"})
            assert waiting.json() == {"items": [], "next": None}

    asyncio.run(scenario())


def test_the_prompt_is_the_bytes_that_were_sent(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with house(tmp_path, "one", "two") as home:
            await spoken(home.kernel, "m1", "first question", "second question")
            for key, sent in zip(("1", "2"), home.model.requests, strict=True):
                answer = await home.client.get("/api/v1/runs/m1/prompt", params={"step": key})
                assert answer.content == sent.canonical()
                assert answer.headers["content-type"] == "application/json"
                assert msgspec.json.decode(answer.content, type=ModelRequest) == sent

    asyncio.run(scenario())


def test_the_manifest_says_section_by_section_what_a_prompt_was_made_of(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with house(tmp_path, "one", "two") as home:
            async with home.kernel.run("m1") as run:
                first = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "hi"}]
                await run.step_model(model="scripted", messages=first, key="a")
                more = [*first, {"role": "user", "content": "more"}]
                await run.step_model(model="scripted", messages=more, key="b")
            shown = (await home.client.get("/api/v1/runs/m1/manifest", params={"step": "b"})).json()
            prompt = (await home.client.get("/api/v1/runs/m1/prompt", params={"step": "b"})).json()
            assert sum(one["messages"] for one in shown["sections"]) == len(prompt["messages"]) == 3
            assert shown["tokens"] == sum(one["tokens"] for one in shown["sections"]) > 0
            assert all(one["reason"] for one in shown["sections"])
            assert shown["cache_boundary"] == sum(one["is_cached"] for one in shown["sections"])
            diff = await home.client.get("/api/v1/runs/m1/prompt/diff", params={"a": "a", "b": "b"})
            assert "+more" in diff.json()["diff"].split("\n")
            missing = await home.client.get("/api/v1/runs/m1/manifest", params={"step": "c"})
            assert_fault(missing, 404, "not_found")

    asyncio.run(scenario())


def test_prompts_of_many_lines_in_another_order_are_compared_in_bounded_time(tmp_path: Path) -> None:
    """Line by line, these took more than a minute of the loop."""

    def lines(seed: int) -> str:
        return "\n".join(str(number * seed % 150) for number in range(16_000))

    async def scenario() -> None:
        async with house(tmp_path, "one", "two") as home:
            async with home.kernel.run("m1") as run:
                for key, seed in (("a", 1), ("b", 7)):
                    said = [{"role": "user", "content": lines(seed)}]
                    await run.step_model(model="scripted", messages=said, key=key)
            began_s = time.process_time()
            answer = await home.client.get("/api/v1/runs/m1/prompt/diff", params={"a": "a", "b": "b"})
            assert time.process_time() - began_s < 5.0
            assert answer.json()["diff"].startswith("--- a\n+++ b\n@@ ")

    asyncio.run(scenario())


def test_the_steps_of_a_run_of_weeks_come_in_pages(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with house(tmp_path) as home:
            async with home.kernel.run("m1") as run:
                for number in range(25):
                    await run.step("one", lambda: 1, key=f"k{number:02}")

            async def page(**asked: int | bool | None) -> tuple[list[str], Any, Any]:
                params = {key: value for key, value in asked.items() if value is not None}
                body = (await home.client.get("/api/v1/runs/m1/steps", params=params)).json()
                return [one["key"] for one in body["items"]], body["next"], body["earlier"]

            every, next_, earlier = await page()
            assert every == [f"k{number:02}" for number in range(25)] and next_ is earlier is None
            onwards, after = list[str](), 0
            while after is not None:
                keys, after, _ = await page(after=after, limit=10)
                onwards += keys
            backwards, before = list[str](), None
            for _ in range(3):
                keys, _, before = await page(last=True, before=before, limit=10)
                backwards = keys + backwards
            assert onwards == backwards == every and before is None
            wrong = await home.client.get("/api/v1/runs/m1/steps", params={"limit": 100_000})
            assert_fault(wrong, 422, "invalid_request")

    asyncio.run(scenario())


def test_two_runs_are_compared_from_what_they_share_to_where_they_part(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with house(tmp_path, "one", "two", "three") as home:
            await spoken(home.kernel, "m1/a", "hi", "and then?")
            await spoken(home.kernel, "m1/b", "bye")
            await home.kernel.for_tenant().fork("m1/a", new_id="m1/fork")
            forked = await home.client.get("/api/v1/runs/m1%2Fa/diff", params={"with": "m1/fork"})
            assert forked.json()["shared"]["events"] > 0
            assert forked.json()["shared"]["upto"]["run"] == "m1/a"
            found = await home.client.get("/api/v1/runs/m1%2Fa/diff", params={"with": "m1/b"})
            assert found.json() == await home.kernel.for_tenant().diff("m1/a", "m1/b")
            assert found.json()["first_divergence"]["what"] == "request"
            assert found.json()["shared"] == {"events": 0, "upto": None}
            gone = await home.client.get("/api/v1/runs/m1%2Fa/diff", params={"with": "none"})
            assert_fault(gone, 404, "not_found")
            unasked = await home.client.get("/api/v1/runs/m1%2Fa/diff")
            assert_fault(unasked, 422, "invalid_request")

    asyncio.run(scenario())


def test_an_approval_is_asked_in_the_inbox_and_answered_by_name(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with house(tmp_path) as home:
            await asking(home.kernel, "m1/mail")
            [asked] = (await home.client.get("/api/v1/approvals")).json()["items"]
            assert (asked["run_id"], asked["question"]) == ("m1/mail", "Send it?")
            own = await home.client.get("/api/v1/runs/m1%2Fmail/approvals")
            assert own.json()["items"] == [asked]
            answer = {"step": asked["step"], "decision": "deny", "note": "not yet"}
            given = await home.client.post("/api/v1/runs/m1%2Fmail/approve", json=answer)
            assert given.json()["effect"] == "approval.given"
            assert (await home.client.get("/api/v1/approvals")).json()["items"] == []
            again = await home.client.post("/api/v1/runs/m1%2Fmail/approve", json=answer)
            assert_fault(again, 409, "conflict")

    asyncio.run(scenario())


def test_commands_have_their_effect(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with house(tmp_path) as home:
            await asking(home.kernel, "m1")
            for verb, body, effect in (
                ("pause", {"note": "wait"}, "run.paused"),
                ("step", None, "run.resumed"),
                ("pause", {}, "run.paused"),
                ("inject", {"note": "leave out the returns"}, "note.injected"),
                ("limit", {"unit": "usd", "cap": "0.60"}, "limit.set"),
                ("limit", {"unit": "steps", "cap": None}, "limit.set"),
                ("signal", {"name": "ready", "data": [1]}, "signal.received"),
                ("resume", None, "run.resumed"),
                ("stop", {}, "run.paused"),
                ("cancel", {}, "run.cancelled"),
            ):
                answer = await home.client.post(f"/api/v1/runs/m1/{verb}", json=body)
                assert answer.json().get("effect") == effect, answer.text
            assert (await home.desk.show("m1"))["status"] == "cancelled"
            late = await home.client.post("/api/v1/runs/m1/pause", json={})
            assert_fault(late, 409, "conflict")

    asyncio.run(scenario())


def test_an_agent_that_ended_by_a_limit_is_resumed_with_a_note_or_a_raised_limit(tmp_path: Path) -> None:
    async def scenario() -> None:
        replies = [*[tool_call("nothing", {})] * 3, tool_call("other", {}), "done"]
        async with house(tmp_path, *replies) as home:
            agent = AutonomousAgent(kernel=home.kernel, max_iterations=4)

            async def driven() -> tuple[str, str]:
                ended = await agent.run(run_id="m1", model="scripted", prompt="Go.")
                return ended.status, ended.reason

            async def resumed(body: dict[str, Any] | None) -> httpx.Response:
                return await home.client.post("/api/v1/runs/m1/resume", json=body)

            assert await driven() == ("failed", "stuck")
            assert_fault(await resumed(None), 409, "conflict")
            assert_fault(await resumed({"max_iterations": 3}), 409, "conflict")
            assert_fault(await resumed({"max_iterations": 0}), 422, "invalid_request")
            told = (await resumed({"note": "Try another."})).json()
            assert told == {"run_id": "m1", "effect": "run.reopened", "queued": True}
            assert await driven() == ("failed", "max_iterations")
            told = (await resumed({"max_iterations": 5, "usd": "2.00", "wall_s": 3600.5})).json()
            assert told["effect"] == "run.reopened"
            assert await driven() == ("completed", "")
            sent = home.model.requests[3].messages
            assert any(message.text == "Try another." for message in sent)
            caps = await home.kernel.store.query(
                "SELECT unit, cap FROM limits WHERE scope = 'run:m1' ORDER BY unit"
            )
            assert caps == [("ms", 3_600_500), ("usd", 2_000_000)]

    asyncio.run(scenario())


def test_a_failed_run_is_reopened_and_a_fork_is_a_run_of_its_own(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with house(tmp_path) as home:

            async def broken() -> None:
                raise ValueError("no")

            with pytest.raises(ValueError, match="no"):
                async with home.kernel.run("m1") as run:
                    await run.step("sum", broken)
            forked = await home.client.post("/api/v1/runs/m1/fork", json={"new_id": "m1/b"})
            assert (forked.status_code, forked.json()) == (201, {"run_id": "m1/b"})
            shown = (await home.client.get("/api/v1/runs/m1%2Fb")).json()
            assert (shown["origin"], shown["effects"]) == ("m1", "recorded")
            asked = {"new_id": "m1/c", "effects": "stub"}
            stub = await home.client.post("/api/v1/runs/m1/fork", json=asked)
            shown = (await home.client.get("/api/v1/runs/m1%2Fc")).json()
            assert (stub.status_code, shown["effects"]) == (201, "stub")
            asked = {"changes": {"nonsense@7": "also@9"}}
            vain = await home.client.post("/api/v1/runs/m1/fork", json=asked)
            assert_fault(vain, 404, "not_found")
            dry = await home.client.post("/api/v1/runs/m1/fork", json={"effects": "dry"})
            assert_fault(dry, 422, "invalid_request")
            taken = await home.client.post("/api/v1/runs/m1/fork", json={"new_id": "m1/b"})
            assert_fault(taken, 409, "conflict")
            reopened = await home.client.post("/api/v1/runs/m1/retry")
            assert reopened.json()["effect"] == "run.reopened"

    asyncio.run(scenario())


def test_a_fork_of_a_finished_run_that_would_change_nothing_is_refused(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with house(tmp_path, "hello") as home:
            await spoken(home.kernel, "m1", "hi")
            (step,) = await home.desk.steps("m1")
            model = (await home.desk.manifest("m1", step["key"])).model
            same = {"changes": {"model": model}}
            vain = await home.client.post("/api/v1/runs/m1/fork", json=same)
            assert_fault(vain, 404, "not_found")
            made = await home.client.post("/api/v1/runs/m1/fork", json={"changes": {"model": "another:one"}})
            assert made.status_code == 201
            shown = (await home.client.get(f"/api/v1/runs/{made.json()['run_id']}")).json()
            asked = [one.seq async for one in home.kernel.events() if one.kind == "context.assembled"]
            assert shown["origin_seq"] == asked[0] - 1

    asyncio.run(scenario())


def test_an_export_is_a_file_that_another_store_takes(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with house(tmp_path, "hello") as home:
            await spoken(home.kernel, ID, "hi")
            answer = await home.client.get(f"/api/v1/runs/{ENCODED}/export")
            assert answer.headers["content-disposition"].startswith("attachment")
        file = tmp_path / "run.artelier"
        file.write_bytes(answer.content)
        with Kernel.open(tmp_path / "other.db", environ={}) as other:
            taken = await other.for_tenant("default").import_(file)
            assert taken.run_id == ID

    asyncio.run(scenario())


def test_a_tree_and_its_costs_are_shown(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with house(tmp_path) as home:

            async def parent(run: Run) -> None:
                async with home.desk.run("m1/child", parent=run) as child:
                    await child.step("one", lambda: 1)

            async with home.kernel.run("m1") as run:
                await parent(run)
            tree = (await home.client.get("/api/v1/runs/m1/tree")).json()
            assert [child["id"] for child in tree["children"]] == ["m1/child"]
            cost = (await home.client.get("/api/v1/runs/m1/cost")).json()
            assert (cost["total_cost_microusd"], cost["held_microusd"]) == (0, 0)

    asyncio.run(scenario())


def test_the_worker_of_the_server_drives_what_is_due(tmp_path: Path) -> None:
    """A fork of a built-in loop's run is pending until somebody drives it."""

    async def scenario() -> None:
        async with house(tmp_path, "done", has_worker=True) as home:
            folder = str(tmp_path)
            agent = workspace_agent(home.kernel, folder)
            await agent.run(
                run_id="m1", model="scripted", prompt="Say done.", on_wait="return", workspace=folder
            )
            made = await home.client.post("/api/v1/runs/m1/fork", json={})
            run_id = made.json()["run_id"]

            async def is_over() -> bool:
                shown = await home.client.get(f"/api/v1/runs/{run_id}")
                return shown.json()["status"] == "completed"

            await until(is_over)

    asyncio.run(scenario())
