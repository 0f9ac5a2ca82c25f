"""Lists of A2A by the official client, in the order of the last change of status, also while tasks move."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from a2a.client.client import Client
from a2a.types import CancelTaskRequest, ListTasksRequest, ListTasksResponse, Task
from google.protobuf.timestamp_pb2 import Timestamp

from artelier.testing import tool_call
from tests.server.test_a2a import S, data, facts_of, play, said, served, task_from

MAIL = tool_call("send_mail", {"to": "bob"})


def ids_of(page: ListTasksResponse) -> list[str]:
    return [one.id for one in page.tasks]


async def all_pages(client: Client, **asked: Any) -> list[str]:
    found: list[str] = []
    token = ""
    while True:
        page = await client.list_tasks(ListTasksRequest(page_size=1, page_token=token, **asked))
        found += ids_of(page)
        if not (token := page.next_page_token):
            return found


async def allow(client: Client, task: Task) -> Task:
    [question] = facts_of(task)["questions"]
    return await task_from(client, said("", data(step=question["step"], decision="approve"), task_id=task.id))


def test_the_task_that_changed_last_is_listed_first(tmp_path: Path) -> None:
    async def main() -> None:
        async with served(tmp_path, MAIL, "Hello.", "Sent.") as made:
            client = await made.client(streaming=False)
            first = await task_from(client, said("Write to Bob."))
            second = await task_from(client, said("Hello?"))
            assert await all_pages(client) == [second.id, first.id]

            done = await allow(client, first)

            assert await all_pages(client) == [first.id, second.id]
            page = await client.list_tasks(ListTasksRequest())
            at = [one.status.timestamp.ToNanoseconds() for one in page.tasks]
            assert at == sorted(at, reverse=True)
            assert done.status.timestamp.ToNanoseconds() == at[0] > first.status.timestamp.ToNanoseconds()
            assert await all_pages(client, context_id=second.context_id) == [second.id]
            assert await all_pages(client, status=S.TASK_STATE_COMPLETED) == [first.id, second.id]

    play(main())


def test_tasks_are_listed_whose_status_is_of_a_time_or_later(tmp_path: Path) -> None:
    async def main() -> None:
        async with served(tmp_path, MAIL, "Hello.", "Again.") as made:
            client = await made.client(streaming=False)
            first = await task_from(client, said("Write to Bob."))
            second = await task_from(client, said("Hello?"))
            third = await task_from(client, said("And now?", context_id=second.context_id))

            since = second.status.timestamp
            assert await all_pages(client, status_timestamp_after=since) == [third.id, second.id]
            page = await client.list_tasks(ListTasksRequest(page_size=1, status_timestamp_after=since))
            assert page.total_size == 2
            later = Timestamp(seconds=since.seconds, nanos=since.nanos + 1)
            assert await all_pages(client, status_timestamp_after=later) == [third.id]
            await client.cancel_task(CancelTaskRequest(id=first.id))
            assert await all_pages(client, status_timestamp_after=later) == [first.id, third.id]
            assert (await all_pages(client, status_timestamp_after=later, context_id=second.context_id)) == [
                third.id
            ]
            told = await made.rpc("ListTasks", {"statusTimestampAfter": "9999-01-01T00:00:00Z"})
            assert told["result"]["tasks"] == []

    play(main())


def test_no_task_is_shown_twice_while_tasks_move(tmp_path: Path) -> None:
    async def main() -> None:
        async with served(tmp_path, MAIL, MAIL, MAIL, "Sent.") as made:
            client = await made.client(streaming=False)
            tasks = [await task_from(client, said("Write to Bob.")) for _ in range(3)]
            page = await client.list_tasks(ListTasksRequest(page_size=2))
            assert ids_of(page) == [tasks[2].id, tasks[1].id]

            await allow(client, tasks[1])  # the one that its token names

            rest = await client.list_tasks(ListTasksRequest(page_size=2, page_token=page.next_page_token))
            assert (ids_of(rest), rest.next_page_token) == ([tasks[0].id], "")
            since = page.tasks[0].status.timestamp
            moved = await client.list_tasks(ListTasksRequest(status_timestamp_after=since))
            assert ids_of(moved) == [tasks[1].id, tasks[2].id]

    play(main())


def test_what_no_method_shows_is_not_listed(tmp_path: Path) -> None:
    """A fork of a task goes on under an id that is none of a task."""

    async def main() -> None:
        async with served(tmp_path, "Hello.") as made:
            client = await made.client(streaming=False)
            task = await task_from(client, said("Hello?"))
            desk = made.house.desk
            await asyncio.wait_for(desk.fork(task.id, at=3), 30)

            page = await client.list_tasks(ListTasksRequest())
            assert (ids_of(page), page.total_size) == ([task.id], 1)

    play(main())
