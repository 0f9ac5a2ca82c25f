"""Events that go out: signed, once under one id, tried again, and never lost."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from artelier.agents import Worker
from artelier.app import Kernel
from artelier.errors import RunSuspended
from artelier.testing import ManualClock
from artelier.webhooks import OutgoingWebhook, verify
from artelier.webhooks.delivery import WAITS_S
from tests.processes import run_warm

from .receiver import Receiver, receiver
from .test_signature import SECRET


def hook(to: Receiver | str, **more: Any) -> OutgoingWebhook:
    url = to if isinstance(to, str) else to.url
    return OutgoingWebhook(**{"name": "crm", "url": url, "secret": SECRET, "private": True, **more})


def within(path: Path, out: OutgoingWebhook, work: Callable[[Kernel], Awaitable[Any]], **more: Any) -> Any:
    async def main() -> Any:
        with Kernel.open(path / "state.db", webhooks=[out], **more) as kernel:
            return await work(kernel)

    return asyncio.run(main())


async def deliver(kernel: Kernel) -> None:
    while await Worker(kernel, kernel.services).once():
        pass


async def finish(kernel: Kernel, run_id: str) -> None:
    async with kernel.run(run_id) as run:
        run.finish({"secret": "the result"})


def types(to: Receiver) -> list[str]:
    return [json.loads(body)["type"] for _, body in to.seen]


def test_the_end_of_a_run_is_delivered_once_and_signed(tmp_path: Path) -> None:
    async def work(kernel: Kernel) -> None:
        await deliver(kernel)
        await finish(kernel, "order-7")
        await deliver(kernel)
        await deliver(kernel)

    with receiver() as to:
        within(tmp_path, hook(to), work)
        within(tmp_path, hook(to), deliver)

    assert types(to) == ["webhook.ping", "run.completed"]
    for headers, body in to.seen:
        assert verify(body, headers, secrets=[SECRET], now_s=int(time.time())) == headers["webhook-id"]
        assert headers["content-type"] == "application/json"
    ids = {headers["webhook-id"] for headers, _ in to.seen}
    assert len(ids) == 2
    told = json.loads(to.seen[1][1])
    assert told["data"]["run_id"] == "order-7"
    assert b"the result" not in to.seen[1][1]


def test_events_from_before_the_webhook_are_not_sent_and_those_behind_it_are(tmp_path: Path) -> None:
    async def early(kernel: Kernel) -> None:
        await finish(kernel, "early")

    async def late(kernel: Kernel) -> None:
        for number in range(3):
            await finish(kernel, f"late-{number}")

    with receiver() as to:
        asyncio.run(_without_hook(tmp_path, early))
        within(tmp_path, hook(to), deliver)
        asyncio.run(_without_hook(tmp_path, late))
        within(tmp_path, hook(to), deliver)

    assert types(to) == ["webhook.ping", *["run.completed"] * 3]
    assert [json.loads(body)["data"]["run_id"] for _, body in to.seen[1:]] == ["late-0", "late-1", "late-2"]


async def _without_hook(path: Path, work: Callable[[Kernel], Awaitable[Any]]) -> None:
    with Kernel.open(path / "state.db") as kernel:
        await work(kernel)


def test_a_receiver_that_fails_is_tried_again_under_the_same_id(tmp_path: Path) -> None:
    clock = ManualClock()

    async def work(kernel: Kernel) -> str:
        await deliver(kernel)
        for wait_s in WAITS_S[:2]:
            clock.advance(wait_s + 1)
            await deliver(kernel)
        [row] = [one for one in (await kernel.for_tenant().runs())["items"] if "webhooks/" in one["id"]]
        return row["status"]

    with receiver(500, 302) as to:
        status = within(tmp_path, hook(to), work, clock=clock)

    assert status == "completed"
    assert len(to.seen) == 3
    assert len({headers["webhook-id"] for headers, _ in to.seen}) == 1
    assert len({body for _, body in to.seen}) == 1


@pytest.mark.parametrize(("status", "attempts"), [(410, 1), (503, len(WAITS_S) + 1)])
def test_a_delivery_ends_when_the_receiver_is_gone_or_time_is_up(
    tmp_path: Path, status: int, attempts: int
) -> None:
    clock = ManualClock()

    async def work(kernel: Kernel) -> Any:
        await deliver(kernel)
        for wait_s in WAITS_S:
            clock.advance(wait_s + 1)
            await deliver(kernel)
        return (await kernel.for_tenant().runs())["items"]

    with receiver(*[status] * 20) as to:
        [row] = within(tmp_path, hook(to), work, clock=clock)

    assert (row["status"], row["reason"]) == ("failed", "undelivered")
    assert len(to.seen) == attempts


@pytest.mark.parametrize("status", [410, 503])
def test_a_delivery_that_has_failed_is_tried_once_more_for_each_retry(tmp_path: Path, status: int) -> None:
    clock = ManualClock()

    async def work(kernel: Kernel) -> Any:
        desk = kernel.for_tenant()
        for wait_s in (0, *WAITS_S):
            clock.advance(wait_s + 1)
            await deliver(kernel)
        seen = [len(to.seen)]
        for _ in range(2):
            [row] = (await desk.runs())["items"]
            assert row["status"] == "failed"
            await desk.retry(row["id"])
            await deliver(kernel)
            seen.append(len(to.seen))
        [row] = (await desk.runs())["items"]
        return seen, row["status"]

    count = 1 if status == 410 else len(WAITS_S) + 1
    with receiver(*[status] * (count + 1), 200) as to:
        seen, ended = within(tmp_path, hook(to), work, clock=clock)

    assert seen == [count, count + 1, count + 2]
    assert ended == "completed"


def test_a_question_to_a_person_is_delivered_without_its_words(tmp_path: Path) -> None:
    async def work(kernel: Kernel) -> None:
        await deliver(kernel)
        with pytest.raises(RunSuspended):
            async with kernel.run("ask", on_wait="suspend") as run:
                await run.approve("Fire Bob?", key="fire")
        await deliver(kernel)

    with receiver() as to:
        within(tmp_path, hook(to, events=("approval.*",)), work)

    assert types(to) == ["webhook.ping", "approval.requested"]
    assert json.loads(to.seen[1][1])["data"]["key"] == "fire"
    assert b"Bob" not in to.seen[1][1]


def test_an_address_of_this_machine_is_refused_unless_it_is_allowed(tmp_path: Path) -> None:
    async def work(kernel: Kernel) -> Any:
        await deliver(kernel)
        return await kernel.for_tenant().show((await kernel.for_tenant().runs())["items"][0]["id"])

    with receiver() as to:
        shown = within(tmp_path, hook(to, private=False), work)

    assert to.seen == []
    assert shown["status"] == "waiting"


KILLED = """
import asyncio, os, sys
from artelier.agents import Worker
from artelier.app import Kernel
from artelier.webhooks import OutgoingWebhook

async def main():
    def fault(point):
        if point == "tool.returned":
            os.kill(os.getpid(), 9)
    out = OutgoingWebhook(name="crm", url=sys.argv[2], secret=sys.argv[3], private=True)
    with Kernel.open(sys.argv[1], webhooks=[out], fault=fault) as kernel:
        await Worker(kernel, kernel.services).once()

asyncio.run(main())
"""


def test_a_process_that_is_killed_behind_an_attempt_loses_nothing(tmp_path: Path) -> None:
    """The receiver has answered and nothing of it is recorded: it is sent again, under the same id."""
    with receiver() as to:
        command = [sys.executable, "-c", KILLED, str(tmp_path / "state.db"), to.url, SECRET]
        killed = run_warm(command, check=False, capture_output=True, timeout=60)
        within(tmp_path, hook(to), deliver)

    assert killed.returncode == -9, killed.stderr
    assert types(to) == ["webhook.ping", "webhook.ping"]
    assert len({headers["webhook-id"] for headers, _ in to.seen}) == 1


def test_a_delivery_whose_webhook_was_taken_away_says_so(tmp_path: Path) -> None:
    async def resume(kernel: Kernel) -> None:
        from artelier.agents.loop_registry import code_needed

        [row] = (await kernel.for_tenant().runs())["items"]
        needed = await code_needed(kernel, None, row["id"])
        assert needed is not None and "webhooks.out.crm" in str(needed.expected)

    with receiver(500) as to:
        within(tmp_path, hook(to), deliver)
        asyncio.run(_without_hook(tmp_path, resume))
