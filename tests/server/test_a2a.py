"""A2A by the official client, over a real port: the card, tasks, streams, questions, and what is refused."""

from __future__ import annotations

import asyncio
import importlib.util
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any

import httpx
import pytest
from a2a.client import ClientConfig, create_client
from a2a.client.client import Client
from a2a.types import (
    CancelTaskRequest,
    GetTaskRequest,
    ListTasksRequest,
    Message,
    Part,
    Role,
    SendMessageConfiguration,
    SendMessageRequest,
    StreamResponse,
    SubscribeToTaskRequest,
    Task,
    TaskState,
)
from a2a.utils import errors as fault
from google.protobuf.json_format import MessageToDict, ParseDict
from google.protobuf.struct_pb2 import Value

from artelier import ModelReply, ModelRequest, ToolCall
from artelier.app import Kernel
from artelier.kernel import Policy
from artelier.kernel.policy import Workspaces
from artelier.kernel.queries.content import MEDIA_BYTES_MAX
from artelier.ports.media import MediaRules
from artelier.ports.model import Price
from artelier.server.app import create_app
from artelier.server.security.users import ProgramTokens
from artelier.server.settings import ServerSettings
from artelier.testing import ScriptedMediaModel, ScriptedModel, tool_call
from artelier.tokens.estimate import IMAGES
from artelier.tools import tool
from tests.media.samples import painter, png
from tests.server.house import House, nobody, on_a_port, until

S = TaskState
MODEL = "scripted:one"
CALL = {"jsonrpc": "2.0", "id": 1}
PATH = "/api/v1/a2a"


@tool(side_effect=True, risk="high")
def send_mail(to: str) -> str:
    """Send a mail."""
    return f"sent to {to}"


class Served:
    def __init__(self, house: House, address: str, token: str) -> None:
        self.house, self.address, self.token = house, address, token
        self.http = httpx.AsyncClient(
            base_url=address, headers={"Authorization": f"Bearer {token}"}, timeout=60, verify=False
        )

    async def client(self, *, streaming: bool = True) -> Client:
        config = ClientConfig(httpx_client=self.http, streaming=streaming)
        return await create_client(self.address, client_config=config)

    async def rpc(self, method: str, params: Any = None, **headers: str) -> dict[str, Any]:
        body = {**CALL, "method": method, "params": params or {}}
        answer = await self.http.post(PATH, json=body, headers={"A2A-Version": "1.0", **headers})
        assert answer.status_code == 200, answer.text
        return answer.json()


@asynccontextmanager
async def served(path: Path, *replies: Any, **more: Any) -> AsyncIterator[Served]:
    file = path / "tokens"
    file.unlink(missing_ok=True)
    token = ProgramTokens(file).add("test", now_us=1)
    model = more.pop("model", None) or ScriptedModel(list(replies))
    policy = Policy(approve_risk="high", backoff_s=0)
    kernel = Kernel.open(
        path / "state.db",
        models=model,
        tools=[send_mail, *more.pop("tools", ())],
        policy=policy,
        environ={},
        workspaces=more.pop("workspaces", None),
    )
    settings = {"has_worker": False, "secret_file": path / "sessions", "model": MODEL, **more}
    try:
        app = create_app(kernel, settings=ServerSettings(tokens_file=file, **settings))
        async with on_a_port(app) as address:
            made = Served(House(kernel, app, nobody(), model), address, token)
            try:
                yield made
            finally:
                await made.http.aclose()
    finally:
        await kernel.aclose()


def said(text: str = "", *parts: Part, metadata: Any = None, **more: Any) -> SendMessageRequest:
    given = [*([Part(text=text)] if text else []), *parts]
    config = more.pop("configuration", None)
    message = Message(message_id="m-1", role=Role.ROLE_USER, parts=given, **more)
    asked = SendMessageRequest(message=message, configuration=config)
    if metadata:
        asked.metadata.update(metadata)
    return asked


def data(**fields: Any) -> Part:
    return Part(data=ParseDict(fields, Value()))


async def all_of(client: Client, asked: SendMessageRequest) -> list[StreamResponse]:
    return [one async for one in client.send_message(asked)]


async def task_from(client: Client, asked: SendMessageRequest) -> Task:
    [only] = await all_of(client, asked)
    return only.task


def facts_of(task: Task) -> Any:
    return MessageToDict(task.metadata)["artelier"]


def reply_of(task: Task) -> str:
    return "".join(part.text for one in task.artifacts if one.artifact_id == "reply" for part in one.parts)


def text_of(items: list[StreamResponse]) -> str:
    """The reply, as a client puts it together from its pieces."""
    text = ""
    for item in items:
        if item.HasField("artifact_update"):
            piece = "".join(part.text for part in item.artifact_update.artifact.parts)
            text = text + piece if item.artifact_update.append else piece
    return text


def play(scenario: Any) -> None:
    asyncio.run(asyncio.wait_for(scenario, 120))


def test_the_card_is_public_and_leads_to_the_door(tmp_path: Path) -> None:
    async def main() -> None:
        async with served(tmp_path) as made, httpx.AsyncClient(base_url=made.address) as stranger:
            card = (await stranger.get("/.well-known/agent-card.json")).json()

            assert card["supportedInterfaces"] == [
                {"url": f"{made.address}{PATH}", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
            ]
            assert card["capabilities"]["streaming"] is True
            assert "bearer" in card["securitySchemes"]
            refused = await stranger.post(PATH, json={**CALL, "method": "ListTasks"})
            assert refused.status_code == 401
            assert (await stranger.get("/.well-known/agent.json")).status_code == 404

    play(main())


def test_a_message_is_a_task_and_the_next_one_of_its_context_knows_it(tmp_path: Path) -> None:
    async def main() -> None:
        async with served(tmp_path, "Seven.", "Still seven.") as made:
            client = await made.client(streaming=False)
            first = await task_from(client, said("How many?"))

            assert first.status.state == S.TASK_STATE_COMPLETED
            assert reply_of(first) == "Seven."
            assert [part.text for part in first.history[0].parts] == ["How many?"]
            second = await task_from(client, said("Sure?", context_id=first.context_id))
            assert (second.context_id, reply_of(second)) == (first.context_id, "Still seven.")
            before = [message.text for message in made.house.model.requests[1].messages]
            assert any("How many?" in text for text in before)

            again = await client.get_task(GetTaskRequest(id=first.id, history_length=0))
            assert (reply_of(again), len(again.history)) == ("Seven.", 0)
            row = await made.house.desk.show(first.id)
            assert (row["status"], row["agent"]) == ("completed", "a2a")

    play(main())


def test_a_stream_brings_the_task_the_reply_in_pieces_and_the_end(tmp_path: Path) -> None:
    async def main() -> None:
        async with served(tmp_path, "one two three") as made:
            items = await all_of(await made.client(), said("Count."))

            assert items[0].task.id
            assert text_of(items) == "one two three"
            assert items[-1].status_update.status.state == S.TASK_STATE_COMPLETED
            shown = await (await made.client()).get_task(GetTaskRequest(id=items[0].task.id))
            assert reply_of(shown) == text_of(items)

    play(main())


def test_words_before_a_call_of_a_tool_are_not_the_reply(tmp_path: Path) -> None:
    async def main() -> None:
        call = ToolCall(id="t1", name="send_mail", arguments={"to": "bob"})
        replies = (ModelReply(text="I ask first.", tool_calls=(call,)), "It is sent.")
        async with served(tmp_path, *replies) as made:
            client = await made.client()
            items = await all_of(client, said("Write to Bob."))

            end = items[-1].status_update.status
            assert end.state == S.TASK_STATE_INPUT_REQUIRED
            task = await client.get_task(GetTaskRequest(id=items[0].task.id))
            [question] = facts_of(task)["questions"]
            answer = data(step=question["step"], decision="approve")
            more = await all_of(client, said("", answer, task_id=task.id))

            assert text_of(more) == "It is sent."
            assert more[-1].status_update.status.state == S.TASK_STATE_COMPLETED
            steps = await made.house.desk.steps(task.id)
            assert [one["status"] for one in steps if one["kind"] == "tool"] == ["completed"]

    play(main())


def test_a_denial_reaches_the_model_and_words_decide_nothing(tmp_path: Path) -> None:
    async def main() -> None:
        async with served(tmp_path, tool_call("send_mail", {"to": "bob"}), "Then not.") as made:
            client = await made.client(streaming=False)
            task = await task_from(client, said("Write to Bob."))
            assert task.status.state == S.TASK_STATE_INPUT_REQUIRED
            [question] = facts_of(task)["questions"]

            with pytest.raises(fault.InvalidParamsError, match="decision"):
                await task_from(client, said("Yes, do it.", task_id=task.id))
            with pytest.raises(fault.InvalidParamsError, match="step"):
                await task_from(client, said("", data(step="c9/x", decision="approve"), task_id=task.id))
            with pytest.raises(fault.InvalidParamsError, match="decision"):
                await task_from(
                    client, said("", data(step=question["step"], decision="maybe"), task_id=task.id)
                )
            denied = data(step=question["step"], decision="deny", note="no mails today")
            done = await task_from(client, said("", denied, task_id=task.id))

            assert (done.status.state, reply_of(done)) == (S.TASK_STATE_COMPLETED, "Then not.")
            assert "no mails today" in made.house.model.requests[1].messages[-1].text
            with pytest.raises(fault.UnsupportedOperationError, match="ended"):
                await task_from(client, said("More?", task_id=task.id))

    play(main())


def test_a_task_is_cancelled_once_and_goes_on_in_the_list(tmp_path: Path) -> None:
    async def main() -> None:
        async with served(tmp_path, tool_call("send_mail", {"to": "bob"}), "Hello.") as made:
            client = await made.client(streaming=False)
            waiting = await task_from(client, said("Write to Bob."))
            done = await task_from(client, said("Hello?"))

            gone = await client.cancel_task(CancelTaskRequest(id=waiting.id))
            assert gone.status.state == S.TASK_STATE_CANCELED
            with pytest.raises(fault.TaskNotCancelableError):
                await client.cancel_task(CancelTaskRequest(id=waiting.id))

            page = await client.list_tasks(ListTasksRequest(page_size=1))
            assert ([one.id for one in page.tasks], page.total_size) == ([waiting.id], 2)
            rest = await client.list_tasks(ListTasksRequest(page_size=1, page_token=page.next_page_token))
            assert ([one.id for one in rest.tasks], rest.next_page_token) == ([done.id], "")
            only = await client.list_tasks(ListTasksRequest(status=S.TASK_STATE_CANCELED))
            assert [one.id for one in only.tasks] == [waiting.id]
            mine = await client.list_tasks(ListTasksRequest(context_id=done.context_id))
            assert [one.id for one in mine.tasks] == [done.id]

    play(main())


def test_who_does_not_wait_subscribes_and_sees_the_end(tmp_path: Path) -> None:
    async def main() -> None:
        async with served(tmp_path, tool_call("send_mail", {"to": "bob"}), "It is sent.") as made:
            client = await made.client(streaming=False)
            config = SendMessageConfiguration(return_immediately=True)
            task = await task_from(client, said("Write to Bob.", configuration=config))
            assert task.status.state in (
                S.TASK_STATE_SUBMITTED,
                S.TASK_STATE_WORKING,
                S.TASK_STATE_INPUT_REQUIRED,
            )
            await until(lambda: is_waiting(made, task.id))
            seen: list[StreamResponse] = []

            async def follow() -> None:
                async for item in (await made.client()).subscribe(SubscribeToTaskRequest(id=task.id)):
                    seen.append(item)

            following = asyncio.create_task(follow())
            await until(lambda: bool(seen))
            [asked] = await made.house.desk.approvals(task.id)
            answer = data(step=asked["step"], decision="approve")
            await task_from(client, said("", answer, task_id=task.id))
            await asyncio.wait_for(following, 60)

            assert seen[0].task.id == task.id
            assert text_of(seen) == "It is sent."
            assert seen[-1].status_update.status.state == S.TASK_STATE_COMPLETED
            with pytest.raises(fault.UnsupportedOperationError):
                await follow()

    play(main())


class Slow(ScriptedModel):
    """Answers once the test lets it."""

    def __init__(self, *replies: Any) -> None:
        super().__init__(list(replies))
        self.may_answer = asyncio.Event()

    async def complete(self, request: ModelRequest, /) -> ModelReply:
        await self.may_answer.wait()
        return await super().complete(request)


def test_who_subscribes_before_a_question_sees_what_follows_its_answer(tmp_path: Path) -> None:
    """The work at hand ends with the question; the task does not."""

    async def main() -> None:
        model = Slow(tool_call("send_mail", {"to": "bob"}), "It is sent.")
        async with served(tmp_path, model=model) as made:
            client = await made.client(streaming=False)
            config = SendMessageConfiguration(return_immediately=True)
            task = await task_from(client, said("Write to Bob.", configuration=config))
            seen: list[StreamResponse] = []

            async def follow() -> None:
                async for item in (await made.client()).subscribe(SubscribeToTaskRequest(id=task.id)):
                    seen.append(item)

            following = asyncio.create_task(follow())
            await until(lambda: bool(seen))
            model.may_answer.set()
            await until(lambda: len(seen) > 1)
            assert seen[-1].status_update.status.state == S.TASK_STATE_INPUT_REQUIRED
            [asked] = await made.house.desk.approvals(task.id)
            answer = data(step=asked["step"], decision="approve")
            await task_from(client, said("", answer, task_id=task.id))
            await asyncio.wait_for(following, 60)

            assert text_of(seen) == "It is sent."
            states = [one.status_update.status.state for one in seen if one.HasField("status_update")]
            assert states[0] == S.TASK_STATE_INPUT_REQUIRED and states[-1] == S.TASK_STATE_COMPLETED

    play(main())


async def is_waiting(made: Served, run_id: str) -> bool:
    return (await made.house.desk.show(run_id))["status"] == "waiting_approval"


def test_another_process_goes_on_with_a_task_that_waited(tmp_path: Path) -> None:
    async def first() -> str:
        async with served(tmp_path, tool_call("send_mail", {"to": "bob"})) as made:
            return (await task_from(await made.client(streaming=False), said("Write to Bob."))).id

    async def second(task_id: str) -> None:
        async with served(tmp_path, "It is sent.") as made:
            [asked] = await made.house.desk.approvals(task_id)
            answer = data(step=asked["step"], decision="approve")
            done = await task_from(await made.client(streaming=False), said("", answer, task_id=task_id))
            assert (done.status.state, reply_of(done)) == (S.TASK_STATE_COMPLETED, "It is sent.")

    play(second(asyncio.run(first())))


def test_the_agent_reads_the_workspace_of_its_tenant(tmp_path: Path) -> None:
    async def main() -> None:
        folder = tmp_path / "desk"
        folder.mkdir()
        (folder / "note.txt").write_text("The answer is seven.")
        workspaces = Workspaces(default=str(folder))
        replies = (tool_call("read_file", {"path": "note.txt"}), "Seven.")
        async with served(tmp_path, *replies, workspaces=workspaces) as made:
            done = await task_from(await made.client(streaming=False), said("What is the answer?"))

            assert reply_of(done) == "Seven."
            assert "The answer is seven." in made.house.model.requests[1].messages[-1].text
            names = {one.name for one in made.house.model.requests[0].tools}
            assert {"read_file", "send_mail"} <= names

    play(main())


def test_a_picture_is_shown_to_a_model_that_sees_and_to_no_other(tmp_path: Path) -> None:
    async def main() -> None:
        model = ScriptedMediaModel(["A square."], rules=MediaRules(types=IMAGES, bound=lambda medium: 1_000))
        picture = Part(raw=png(), media_type="image/png")
        async with served(tmp_path, model=model) as made:
            done = await task_from(await made.client(streaming=False), said("What is this?", picture))
            assert reply_of(done) == "A square."
            assert model.media[0] == (png(),)
            assert b"iVBOR" not in model.requests[0].canonical()
        async with served(tmp_path, "A square.") as made:
            client = await made.client(streaming=False)
            blind = await task_from(client, said("What is this?", picture))
            assert blind.status.state == S.TASK_STATE_FAILED
            assert "takes no image/png" in blind.status.message.parts[0].text
            with pytest.raises(fault.InvalidParamsError, match="no image"):
                await task_from(client, said("And this?", Part(raw=b"\0no picture")))
            assert not made.house.model.requests

    play(main())


def files_of(artifacts: Any) -> list[tuple[str, bytes]]:
    return [(part.media_type, part.raw) for one in artifacts for part in one.parts if part.raw]


def test_what_tools_have_shown_comes_as_files_of_the_task(tmp_path: Path) -> None:
    async def main() -> None:
        twice = [tool_call("paint", {"side": 5}), tool_call("paint", {"side": 6})]
        replies = (twice, "Two squares.", tool_call("paint", {"side": 7}), "One.")
        async with served(tmp_path, *replies, tools=[painter()]) as made:
            client = await made.client(streaming=False)
            done = await task_from(client, said("Paint."))
            assert reply_of(done) == "Two squares."
            both = [("image/png", png(5, 5)), ("image/png", png(6, 6))]
            assert sorted(files_of(done.artifacts)) == sorted(both)
            shown = await client.get_task(GetTaskRequest(id=done.id))
            assert sorted(files_of(shown.artifacts)) == sorted(both)
            [listed] = (await client.list_tasks(ListTasksRequest(include_artifacts=True))).tasks
            assert listed.artifacts == shown.artifacts == done.artifacts
            [brief] = (await client.list_tasks(ListTasksRequest())).tasks
            assert not brief.artifacts and not brief.history

            asked = said("Paint.")
            asked.configuration.accepted_output_modes.append("text/plain")
            plain = await task_from(client, asked)
            assert files_of(plain.artifacts) == []
            assert "left out" in plain.artifacts[-1].parts[0].text

    play(main())


def test_a_list_brings_files_of_the_newest_tasks_as_far_as_there_is_room(tmp_path: Path) -> None:
    large = MEDIA_BYTES_MAX // 2

    async def main() -> None:
        calls = [tool_call("paint", {"side": side, "extra_bytes": large}) for side in (5, 6)]
        async with served(tmp_path, calls[0], "One.", calls[1], "Two.", tools=[painter()]) as made:
            client = await made.client(streaming=False)
            first, second = [await task_from(client, said("Paint.")) for _ in range(2)]
            assert len(files_of(first.artifacts)) == len(files_of(second.artifacts)) == 1

            page = await client.list_tasks(ListTasksRequest(include_artifacts=True))
            assert [one.id for one in page.tasks] == [second.id, first.id]
            assert page.tasks[0].artifacts == second.artifacts
            assert files_of(page.tasks[1].artifacts) == []
            assert "left out" in page.tasks[1].artifacts[-1].parts[0].text

    play(main())


def test_what_a_message_has_shown_stands_in_the_history_of_its_task(tmp_path: Path) -> None:
    async def main() -> None:
        model = ScriptedMediaModel(["A square."], rules=MediaRules(types=IMAGES, bound=lambda medium: 1_000))
        picture = Part(raw=png(), media_type="image/png")
        async with served(tmp_path, model=model) as made:
            client = await made.client(streaming=False)
            done = await task_from(client, said("What is this?", picture))
            [asked] = done.history
            assert (asked.parts[0].text, files_of(done.history)) == ("What is this?", [("image/png", png())])
            again = await client.get_task(GetTaskRequest(id=done.id))
            [listed] = (await client.list_tasks(ListTasksRequest(history_length=1))).tasks
            assert again.history == listed.history == done.history
            assert not (await client.get_task(GetTaskRequest(id=done.id, history_length=0))).history
            for asks in (
                client.get_task(GetTaskRequest(id=done.id, history_length=-1)),
                client.list_tasks(ListTasksRequest(history_length=-1)),
                task_from(client, said("And?", configuration=SendMessageConfiguration(history_length=-1))),
            ):
                with pytest.raises(fault.InvalidParamsError, match="historyLength"):
                    await asks
            assert (await client.list_tasks(ListTasksRequest())).total_size == 1

    play(main())


def test_what_tools_have_shown_is_there_from_the_first_item_on_and_comes_once(tmp_path: Path) -> None:
    async def main() -> None:
        mail = tool_call("send_mail", {"to": "bob"})
        replies = (tool_call("paint", {"side": 5}), mail, tool_call("paint", {"side": 6}), "Sent.")
        async with served(tmp_path, *replies, tools=[painter()]) as made:
            client = await made.client()
            brief = SendMessageConfiguration(history_length=0)
            first = await all_of(client, said("Paint, and write to Bob.", configuration=brief))
            assert not first[0].task.history
            assert shown_by(first) == [("image/png", png(5, 5))]
            task_id = first[0].task.id
            following: Any = client.subscribe(SubscribeToTaskRequest(id=task_id))
            there = await anext(following)
            assert files_of(there.task.artifacts) == [("image/png", png(5, 5))]
            await following.aclose()

            [asked] = await made.house.desk.approvals(task_id)
            answer = data(step=asked["step"], decision="approve")
            then = await all_of(client, said("", answer, task_id=task_id))
            assert files_of(then[0].task.artifacts) == [("image/png", png(5, 5))]
            assert shown_by(then) == [("image/png", png(6, 6))]

    play(main())


def shown_by(items: list[StreamResponse]) -> list[tuple[str, bytes]]:
    return files_of([one.artifact_update.artifact for one in items if one.HasField("artifact_update")])


def test_a_list_says_that_it_is_its_last_page(tmp_path: Path) -> None:
    async def main() -> None:
        async with served(tmp_path) as made:
            told = (await made.rpc("ListTasks"))["result"]
            assert told == {"tasks": [], "nextPageToken": "", "pageSize": 50, "totalSize": 0}

    play(main())


def test_without_the_extra_both_addresses_say_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        async with served(tmp_path) as made:
            find = importlib.util.find_spec
            monkeypatch.setattr(
                importlib.util, "find_spec", lambda name: None if name == "a2a" else find(name)
            )
            for answer in (
                await made.http.get("/.well-known/agent-card.json"),
                await made.http.post(PATH, json={**CALL, "method": "ListTasks"}),
            ):
                assert answer.status_code == 404
                assert "artelier[a2a]" in answer.json()["error"]["hint"]

    play(main())


def test_who_approves_in_mission_control_lets_the_worker_finish_the_task(tmp_path: Path) -> None:
    async def main() -> None:
        replies = (tool_call("send_mail", {"to": "bob"}), "It is sent.")
        async with served(tmp_path, *replies, has_worker=True) as made:
            client = await made.client(streaming=False)
            task = await task_from(client, said("Write to Bob."))
            [asked] = await made.house.desk.approvals(task.id)
            await made.house.desk.approve(task.id, asked["step"], by="operator")
            await until(lambda: has_ended(made, task.id))

            assert reply_of(await client.get_task(GetTaskRequest(id=task.id))) == "It is sent."

    play(main())


async def has_ended(made: Served, run_id: str) -> bool:
    return (await made.house.desk.show(run_id))["status"] == "completed"


def test_a_budget_holds_a_task_and_a_wrong_wish_is_refused(tmp_path: Path) -> None:
    async def main() -> None:
        async with served(tmp_path, "Hello.") as made:
            client = await made.client(streaming=False)
            for wish in ({"budget_usd": "much"}, {"budget": "1"}, {"model": 7}):
                with pytest.raises(fault.InvalidParamsError):
                    await task_from(client, said("Hello?", metadata={"artelier": wish}))
            made.house.model.price = Price(input=Decimal(1_000), output=Decimal(1_000))
            held = await task_from(client, said("Hello?", metadata={"artelier": {"budget_usd": "0.000001"}}))
            assert held.status.state != S.TASK_STATE_COMPLETED
            assert not made.house.model.requests

    play(main())


def test_another_tenant_finds_no_task(tmp_path: Path) -> None:
    async def main() -> None:
        async with served(tmp_path, "CANARY-4711") as made:
            client = await made.client(streaming=False)
            task = await task_from(client, said("Hello?"))
            await made.house.kernel.for_tenant("other").state()
            headers = {"X-Artelier-Tenant": "other"}
            for method, params in (
                ("GetTask", {"id": task.id}),
                ("CancelTask", {"id": task.id}),
                ("SubscribeToTask", {"id": task.id}),
                ("SendMessage", {"message": {**SAYS, "taskId": task.id}}),
            ):
                told = await made.rpc(method, params, **headers)
                assert told["error"]["code"] == -32001, (method, told)
                assert "CANARY" not in json.dumps(told)
            assert (await made.rpc("ListTasks", **headers))["result"].get("tasks", []) == []
            wrong = await made.rpc("SendMessage", {"tenant": "other", "message": SAYS})
            assert wrong["error"]["code"] == -32602

    play(main())


SAYS: dict[str, Any] = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "Hello?"}]}


@pytest.mark.parametrize(
    ("method", "params", "code"),
    [
        ("message/send", {}, -32601),
        ("SendMessage", {}, -32602),
        ("SendMessage", {"message": "Hello?"}, -32602),
        ("SendMessage", {"message": {**SAYS, "role": "ROLE_AGENT"}}, -32602),
        ("SendMessage", {"message": {**SAYS, "parts": []}}, -32602),
        ("SendMessage", {"message": {**SAYS, "parts": [{"text": " "}]}}, -32602),
        ("SendMessage", {"message": {**SAYS, "parts": [{"text": "x"}] * 101}}, -32602),
        ("SendMessage", {"message": {**SAYS, "parts": [{"url": "http://10.0.0.1/x"}]}}, -32005),
        ("SendMessage", {"message": {**SAYS, "parts": [{"raw": "no base64!"}]}}, -32602),
        ("SendMessage", {"message": {**SAYS, "contextId": "../up"}}, -32602),
        ("SendMessage", {"message": {**SAYS, "contextId": "c" * 101}}, -32602),
        ("SendMessage", {"message": {**SAYS, "taskId": "a2a.none/000001"}}, -32001),
        (
            "SendMessage",
            {"message": SAYS, "configuration": {"taskPushNotificationConfig": {"url": "http://x"}}},
            -32003,
        ),
        ("SendMessage", {"message": SAYS, "configuration": {"acceptedOutputModes": ["video/mp4"]}}, -32005),
        ("GetTask", {"id": "default"}, -32001),
        ("GetTask", {"id": 7}, -32602),
        ("CancelTask", {"id": "a2a.x/1"}, -32001),
        ("SubscribeToTask", {"id": ""}, -32001),
        ("ListTasks", {"pageSize": 0}, -32602),
        ("ListTasks", {"pageSize": 1000}, -32602),
        ("ListTasks", {"pageToken": "x"}, -32602),
        ("ListTasks", {"pageToken": "7"}, -32602),
        ("ListTasks", {"statusTimestampAfter": "yesterday"}, -32602),
        ("GetExtendedAgentCard", {}, -32007),
        ("CreateTaskPushNotificationConfig", {}, -32003),
    ],
)
def test_what_does_not_fit_is_a_clear_error_and_begins_no_run(
    tmp_path: Path, method: str, params: Any, code: int
) -> None:
    async def main() -> None:
        async with served(tmp_path) as made:
            told = await made.rpc(method, params)
            assert told["error"]["code"] == code, told
            assert told["id"] == 1
            assert told["error"]["message"]
            assert (await made.house.desk.runs())["items"] == []

    play(main())


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"", -32700),
        (b"{", -32700),
        (b"\xff\xfe{}", -32700),
        (b"[" * 40_000, -32700),
        (b'{"a":' * 9_000, -32700),
        (b"[]", -32600),
        (b'[{"jsonrpc":"2.0","id":1,"method":"ListTasks"}]', -32600),
        (b'{"jsonrpc":"1.0","id":1,"method":"ListTasks"}', -32600),
        (b'{"jsonrpc":"2.0","id":true,"method":"ListTasks"}', -32600),
        (b'{"jsonrpc":"2.0","id":{},"method":"ListTasks"}', -32600),
        (b'{"jsonrpc":"2.0","id":1,"method":7}', -32600),
        (b'{"jsonrpc":"2.0","id":1,"method":"ListTasks","params":[1]}', -32600),
        (b'{"jsonrpc":"2.0","id":1,"method":"ListTasks","params":{"pageSize":1e400}}', -32700),
        (b'{"jsonrpc":"2.0","id":1,"method":"ListTasks","params":{"pageSize":99999999999999999999}}', -32602),
        (b'{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{"message":' + b'{"message":' * 150
         + b"{}" + b"}" * 151 + b"}", -32602),
    ],
)  # fmt: skip
def test_a_body_that_is_no_request_is_answered_in_kind(tmp_path: Path, body: bytes, code: int) -> None:
    async def main() -> None:
        async with served(tmp_path) as made:
            answer = await made.http.post(PATH, content=body, headers={"A2A-Version": "1.0"})
            assert answer.status_code == 200, answer.text
            assert answer.json()["error"]["code"] == code, answer.text

    play(main())


def test_another_version_is_refused_by_name(tmp_path: Path) -> None:
    async def main() -> None:
        async with served(tmp_path) as made:
            for version in ("", "0.3", "2.0", "1"):
                told = await made.rpc("ListTasks", **{"A2A-Version": version})
                assert told["error"]["code"] == -32009
            assert "result" in await made.rpc("ListTasks", **{"A2A-Version": "1.0.1"})

    play(main())
