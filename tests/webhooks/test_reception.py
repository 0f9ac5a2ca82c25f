"""Signed requests that come in."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from artelier import Kernel
from artelier.errors import RunSuspended
from artelier.server.app import create_app
from artelier.server.background_tasks import errands_of
from artelier.server.settings import ServerSettings
from artelier.webhooks import IncomingWebhook, sign
from tests.processes import fork
from tests.server.house import House, asking, house

from .test_signature import OTHER, SECRET

ALL = IncomingWebhook(name="crm", secrets=(SECRET,), actions=("signal", "message", "goal"))
FIXED = IncomingWebhook(name="bank", secrets=(SECRET,), run="payroll", signal="paid")


@asynccontextmanager
async def served(path: Path, *replies: Any) -> AsyncIterator[tuple[House, httpx.AsyncClient]]:
    async with house(path, *replies, webhooks=(ALL, FIXED)) as made, made.stranger() as client:
        yield made, client


async def post(
    client: httpx.AsyncClient,
    asked: object,
    *,
    name: str = "crm",
    id: str = "msg_1",
    secret: str = SECRET,
    at_s: int | None = None,
) -> httpx.Response:
    body = asked if isinstance(asked, bytes) else json.dumps(asked).encode()
    headers = sign(body, id=id, timestamp_s=at_s or int(time.time()), secret=secret)
    return await client.post(f"/api/v1/webhooks/{name}", content=body, headers=headers)


async def waiting(made: House, run_id: str = "payroll") -> None:
    with pytest.raises(RunSuspended):
        async with made.kernel.run(run_id, on_wait="suspend") as run:
            await run.wait_for("paid")


async def received(made: House, run_id: str = "payroll", count: int = 1) -> list[Any]:
    found: list[Any] = []
    async with made.kernel.run(run_id, on_wait="suspend") as run:
        for _ in range(count):
            found.append(await run.wait_for("paid"))
        run.finish(found)
    return found


def test_a_signed_request_gives_a_run_a_signal_once(tmp_path: Path) -> None:
    async def main() -> None:
        async with served(tmp_path) as (made, client):
            await waiting(made)
            asked = {"action": "signal", "run_id": "payroll", "name": "paid", "data": {"cents": 7}}
            first, again = await post(client, asked), await post(client, asked)

            assert (first.status_code, again.status_code) == (202, 200)
            assert first.json()["status"] == "accepted"
            assert again.json() == {**first.json(), "status": "duplicate"}
            assert await received(made) == [{"cents": 7}]
            row = await made.desk.show(first.json()["run_id"])
            assert row["status"] == "completed"

    asyncio.run(main())


def test_the_same_id_is_known_after_a_restart(tmp_path: Path) -> None:
    asked = {"action": "signal", "run_id": "payroll", "name": "paid", "data": 1}

    async def first() -> None:
        async with served(tmp_path) as (made, client):
            await waiting(made)
            assert (await post(client, asked)).status_code == 202

    async def second() -> None:
        async with served(tmp_path) as (made, client):
            assert (await post(client, asked)).json()["status"] == "duplicate"
            assert (await post(client, {**asked, "data": 2}, id="msg_2")).status_code == 202
            assert await received(made, count=2) == [1, 2]

    asyncio.run(first())
    asyncio.run(second())


def test_a_fixed_webhook_takes_any_json_as_the_data(tmp_path: Path) -> None:
    async def main() -> None:
        async with served(tmp_path) as (made, client):
            await waiting(made)
            assert (await post(client, ["anything", 1], name="bank")).status_code == 202
            assert await received(made) == [["anything", 1]]

    asyncio.run(main())


def test_a_message_reaches_a_run(tmp_path: Path) -> None:
    async def main() -> None:
        async with served(tmp_path) as (made, client):
            await asking(made.kernel, "r")
            asked = {"action": "message", "run_id": "r", "text": "The price has changed."}
            assert (await post(client, asked)).status_code == 202
            await made.desk.approve("r")
            async with made.kernel.run("r") as run:
                await run.approve("Send it?", key="ask", details={"to": "eve"})
                assert await run.notes() == ["The price has changed."]

    asyncio.run(main())


def test_a_goal_becomes_a_plan_that_waits_for_a_person(tmp_path: Path) -> None:
    async def main() -> None:
        plan = {
            "summary": "One report.",
            "agents": [{"id": "writer", "name": "Writer", "role": "Writes."}],
            "tasks": [
                {
                    "id": "report",
                    "title": "Report",
                    "agent": "writer",
                    "goal": "Write it.",
                    "criteria": ["It is there."],
                    "depends_on": [],
                }
            ],
        }
        async with served(tmp_path, plan) as (made, client):
            asked = {"action": "goal", "goal": "Write a report."}
            first, again = await post(client, asked), await post(client, asked)

            mission = first.json()["mission"]
            assert first.status_code == 202, first.text
            assert again.json()["status"] == "duplicate"
            assert again.json()["mission"] == mission
            assert (await made.desk.mission(mission))["goal"] == "Write a report."

    asyncio.run(main())


# Refusals: nothing is done, and nothing is lost


def test_a_wrong_signature_is_401_and_changes_nothing(tmp_path: Path) -> None:
    async def main() -> None:
        async with served(tmp_path) as (made, client):
            await waiting(made)
            head = await made.kernel.store.root()
            asked = {"action": "signal", "run_id": "payroll", "name": "paid"}
            refused = [
                await post(client, asked, secret=OTHER),
                await post(client, asked, at_s=int(time.time()) - 301),
                await post(client, asked, name="nobody"),
                await client.post("/api/v1/webhooks/crm", json=asked),
                await client.post("/api/v1/webhooks/crm", json=asked, headers={"cookie": "x=y"}),
            ]

            assert [one.status_code for one in refused] == [401] * 5
            assert {one.json()["error"]["code"] for one in refused} == {"webhook_refused"}
            assert await made.kernel.store.root() == head
            assert (await post(client, asked)).status_code == 202

    asyncio.run(main())


@pytest.mark.parametrize(
    ("asked", "status"),
    [
        (b"", 422),
        (b"{", 422),
        (b"\xff\xfe", 422),
        (b"[" * 5_000, 422),
        ({}, 422),
        ({"action": "drop"}, 422),
        ({"action": "signal", "run_id": "payroll"}, 422),
        ({"action": "signal", "run_id": "payroll", "name": "paid", "more": 1}, 422),
        ({"action": "signal", "run_id": "payroll", "name": ""}, 422),
        ({"action": "message", "run_id": "payroll", "text": "x" * 20_001}, 422),
        ({"action": "signal", "run_id": "nobody", "name": "paid"}, 404),
        ({"action": "signal", "run_id": "../../etc", "name": "paid"}, 404),
        ({"action": "signal", "run_id": "over", "name": "paid"}, 409),
        (b'"' + b"x" * 300_000 + b'"', 413),
    ],
)
def test_a_body_that_does_not_fit_is_refused_and_may_come_again(
    tmp_path: Path, asked: object, status: int
) -> None:
    async def main() -> None:
        async with served(tmp_path) as (made, client):
            async with made.kernel.run("over") as run:
                run.finish(None)
            await waiting(made)
            found = await post(client, asked)
            good = {"action": "signal", "run_id": "payroll", "name": "paid", "data": "good"}

            assert found.status_code == status, found.text
            assert found.json()["error"]["message"]
            assert (await post(client, good)).status_code == 202
            assert await received(made) == ["good"]

    asyncio.run(main())


def test_a_webhook_takes_only_its_own_actions(tmp_path: Path) -> None:
    quiet = IncomingWebhook(name="quiet", secrets=(SECRET,), actions=("message",))

    async def main() -> None:
        async with house(tmp_path, webhooks=(quiet,)) as made, made.stranger() as client:
            asked = {"action": "goal", "goal": "Take over the world."}
            found = await post(client, asked, name="quiet")

            assert found.status_code == 422
            assert "takes no goal" in found.json()["error"]["message"]

    asyncio.run(main())


def test_a_session_gives_no_rights_beside_a_signature(tmp_path: Path) -> None:
    """Whoever is signed in has to sign all the same."""

    async def main() -> None:
        async with served(tmp_path) as (made, _):
            found = await made.client.post("/api/v1/webhooks/crm", json={"action": "goal", "goal": "x"})
            assert found.status_code == 401

    asyncio.run(main())


def test_nothing_is_read_at_this_address(tmp_path: Path) -> None:
    async def main() -> None:
        async with served(tmp_path) as (made, client):
            assert (await client.get("/api/v1/webhooks/crm")).status_code == 401
            assert (await made.client.get("/api/v1/webhooks/crm")).status_code in (404, 405)

    asyncio.run(main())


def test_a_request_that_was_refused_is_done_when_it_comes_again(tmp_path: Path) -> None:
    """It was called a duplicate, and what it asked for was lost."""
    asked = {"action": "goal", "goal": "Count the regions."}

    async def main() -> None:
        async with served(tmp_path) as (made, client):
            gate = asyncio.Event()
            for number in range(64):
                errands_of(made.app).start(("x", "default", str(number)), gate.wait())
            full = await post(client, asked)
            gate.set()
            await asyncio.sleep(0)
            wrong = [await post(client, {**asked, "budget_usd": "abc"}, id="msg_2") for _ in range(2)]
            done, again = await post(client, asked), await post(client, asked)

            assert (full.status_code, full.json()["error"]["code"]) == (429, "too_many_at_once")
            assert [one.status_code for one in wrong] == [422, 422]
            assert (done.status_code, again.status_code) == (202, 200)
            missions = [one["id"] for one in (await made.desk.missions())["items"]]
            assert missions == [done.json()["mission"]]

    asyncio.run(main())


def post_signal(folder: Path, last: int) -> None:
    """Send it to a server of this process, which is killed at the place of this number; 0 for none."""
    seen: list[str] = []

    def fault(name: str) -> None:
        seen.append(name)
        if len(seen) == last:
            os.kill(os.getpid(), signal.SIGKILL)

    async def main() -> None:
        with Kernel.open(folder / "state.db", environ={}, fault=fault) as kernel:
            settings = ServerSettings(
                has_worker=False, secret_file=folder / "sessions", webhooks=(ALL, FIXED)
            )
            app = create_app(kernel, settings=settings)
            async with app.router.lifespan_context(app):
                seen.clear()
                transport = httpx.ASGITransport(app)
                async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
                    answer = await post(client, SIGNAL)
                    assert answer.status_code in (200, 202), answer.text

    asyncio.run(main())


SIGNAL = {"action": "signal", "run_id": "payroll", "name": "paid", "data": 7}


@pytest.mark.slow
def test_a_signal_is_given_once_wherever_its_server_is_killed(tmp_path: Path) -> None:
    """A kill between the signal and its record gave it twice; one before its effect is made up for."""
    for last in range(1, 30):
        folder = tmp_path / str(last)
        folder.mkdir()

        async def begin(folder: Path = folder) -> None:
            with Kernel.open(folder / "state.db", environ={}) as kernel, pytest.raises(RunSuspended):
                async with kernel.run("payroll", on_wait="suspend") as run:
                    await run.wait_for("paid")

        async def count(folder: Path = folder) -> int:
            with Kernel.open(folder / "state.db", environ={}) as kernel:
                return len([one async for one in kernel.events() if one.kind == "signal.received"])

        asyncio.run(begin())
        killed, again = (fork(post_signal, folder, fault) for fault in (last, 0))
        assert again == 0, "what it printed is above"
        assert asyncio.run(count()) == 1, f"killed at fault {last}"
        if killed == 0:
            assert last > 5
            return
        assert killed == -signal.SIGKILL
    raise AssertionError("a request passes fewer places where it can be killed")
