"""Messages of A2A as turns of an agent, and the tasks that they begin, as they go.

A context is a conversation: each message that names no task begins one, a run `a2a.<context>/000001` and on.
A message to a task that waits answers what it asks. The work goes on without the client.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from secrets import token_hex
from typing import Any, cast

import msgspec
from a2a import types as a2a
from a2a.utils import errors as fault
from google.protobuf.json_format import MessageToDict
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from artelier.agents.autonomous import AutonomousAgent
from artelier.agents.launch import tools_of
from artelier.agents.run_config import Job, Wanted
from artelier.agents.stream import ModelAnswered, stream_of
from artelier.app import Kernel, TenantKernel
from artelier.artifacts.media.inspection import check_attachments
from artelier.chat.session.agent_conversation import AgentEvent
from artelier.chat.session.settings import said_text
from artelier.errors import ArtelierError, Conflict, InvalidRequest
from artelier.kernel import Limits, run_row
from artelier.kernel.queries.content import blob_json
from artelier.kernel.queries.reports import RunDetail
from artelier.kernel.run.context import is_final
from artelier.kernel.run.status import RunStatus
from artelier.log import Event
from artelier.loops.cycle import host_tools
from artelier.money import parse_usd
from artelier.ports.model import Delta
from artelier.server.a2a.tasks import (
    AGENT,
    ENDS,
    PREFIX,
    STATES,
    TaskReader,
    context_of,
    find_task,
    history_of,
    reply_artifact,
    status_of,
    task_name,
    task_of,
    text_of,
)
from artelier.server.background_tasks import LET_GO_S, Errand, Errands, Key
from artelier.threads import read_beside_loop

CONTEXT_CHARS_MAX = 100
PARTS_MAX = 100
MODES = ("text/plain", "text/*", "application/json", "*/*")
"""Kinds of output of which a client has to take one."""


class TaskWishes(BaseModel):
    """The member `artelier` of a request's metadata."""

    model_config = ConfigDict(extra="forbid")

    model: str | None = Field(default=None, max_length=200)
    budget_usd: str | None = Field(default=None, max_length=40)


class ApprovalReply(BaseModel):
    """A data part that answers what a task asks."""

    model_config = ConfigDict(extra="forbid")

    step: str = Field(max_length=512)
    decision: str = Field(pattern="^(approve|deny)$")
    note: str = Field(default="", max_length=2_000)
    arguments: Any = None


@dataclass(slots=True)
class TaskFeed:
    """A turn while it goes on, for all that listen. It goes on without them."""

    run_id: str = ""
    text: str = ""
    """Of the reply at hand, as far as it has come."""
    number: int = 0
    """Counts replies, and the times that one was begun anew."""
    error: ArtelierError | None = None
    is_over: bool = False
    _is_answered: bool = False
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    async def drive(self, items: AsyncIterator[AgentEvent]) -> None:
        """Drive the turn, whoever listens. Errors: those of the turn, which `error` keeps as well."""
        try:
            async with aclosing(cast("AsyncGenerator[AgentEvent]", items)) as found:
                async for item in found:
                    self._take(item)
                    self._tell()
        except ArtelierError as error:
            self.error = error
            raise
        finally:
            self.is_over = True
            self._tell()

    def _take(self, item: AgentEvent) -> None:
        if isinstance(item, Delta) and item.text:
            if self._is_answered:
                self.number, self.text, self._is_answered = self.number + 1, "", False
            self.text += item.text
        elif isinstance(item, Event):
            self.run_id = self.run_id or item.stream.id
            if isinstance(item, ModelAnswered):
                if not item.text.startswith(self.text):
                    self.number += 1
                self.text, self._is_answered = item.text, True

    def _tell(self) -> None:
        told, self._changed = self._changed, asyncio.Event()
        told.set()

    @property
    def news(self) -> asyncio.Event:
        """Set at the next change; take it before you look."""
        return self._changed

    async def begun(self) -> str:
        """Return the run of the turn, once it is there. Errors: those that the turn was refused with."""
        while not self.run_id and not self.is_over:
            await self.news.wait()
        if not self.run_id:
            raise self.error or Conflict("the turn has ended before it began", hint="Send the message again.")
        return self.run_id


@dataclass(slots=True, kw_only=True)
class TaskDesk:
    """One tenant's tasks, for one request."""

    kernel: Kernel
    desk: TenantKernel
    errands: Errands
    model: str
    by: str

    async def send(self, asked: a2a.SendMessageRequest) -> a2a.Task:
        """Return the task that a message begins or goes on with: at its end, or where it waits for somebody;
        as it is now with `returnImmediately`. Errors: those of `begin`.
        """
        feed = await self.begin(asked)
        run_id = await feed.begun()
        while not feed.is_over and not asked.configuration.return_immediately:
            await feed.news.wait()
        config = asked.configuration
        return await self.show(run_id, history=history_of(config), modes=config.accepted_output_modes)

    @property
    def reader(self) -> TaskReader:
        return TaskReader(desk=self.desk, by=self.by)

    async def show(self, task_id: str, *, history: int | None = None, modes: Sequence[str] = ()) -> a2a.Task:
        """Return a task as `TaskReader.show` does. Errors: `NotFound`."""
        return await self.reader.show(await find_task(self.desk, task_id), history=history, modes=modes)

    async def begin(self, asked: a2a.SendMessageRequest) -> TaskFeed:
        """Let a turn begin, or one that waits go on.

        Errors: `InvalidRequest`, `NotFound`, `Conflict`, and those of the protocol for what is not offered.
        """
        message = asked.message
        self._check(asked)
        if message.task_id:
            return await self._answer(message)
        context = message.context_id or token_hex(16)
        if len(context) > CONTEXT_CHARS_MAX:
            raise InvalidRequest(
                "contextId", expected=f"at most {CONTEXT_CHARS_MAX} characters", got=len(context)
            )
        wishes = await read_beside_loop(asked.metadata.ByteSize(), _wishes_of, asked)
        limits = None if wishes.budget_usd is None else Limits(usd=wishes.budget_usd)
        words, files = await read_beside_loop(message.ByteSize(), _content_of, message)
        more: dict[str, Any] = {"attachments": files} if files else {}
        workspace = self.desk.services.workspaces.root(self.desk.id)
        chat = self._agent(workspace, host_tools(self.desk.services)).chat(
            f"{PREFIX}{context}",
            model=wishes.model or self.model,
            tenant=self.desk.id,
            on_wait="return",
            limits=limits,
            workspace=workspace,
            **more,
        )
        return await self._start(context, chat.stream(words))

    def _check(self, asked: a2a.SendMessageRequest) -> None:
        message, config = asked.message, asked.configuration
        history_of(config)
        if not message.message_id or message.role != a2a.Role.ROLE_USER:
            raise InvalidRequest("the message", expected="a messageId, and the role ROLE_USER")
        if asked.tenant not in ("", self.desk.id):
            raise InvalidRequest(
                "this is not that tenant's address", hint="Name the tenant by X-Artelier-Tenant."
            )
        if config.HasField("task_push_notification_config"):
            raise fault.PushNotificationNotSupportedError(
                "this server pushes nothing here; subscribe to the task"
            )
        modes = list(config.accepted_output_modes)
        if modes and not any(one in MODES for one in modes):
            raise fault.ContentTypeNotSupportedError(
                "expected text/plain or application/json among the output modes"
            )

    async def _start(self, context: str, items: AsyncIterator[AgentEvent]) -> TaskFeed:
        key: Key = (AGENT, self.desk.id, context)
        feed = TaskFeed()
        if (going := self.errands.at_work(key)) is not None and _feed_of(going).is_over:
            await asyncio.wait({going.task}, timeout=LET_GO_S)  # its run has stopped, and it ends in a moment
        self.errands.start(key, feed.drive(items), about=feed)
        return feed

    def _agent(self, workspace: str, tools: Sequence[str]) -> AutonomousAgent:
        """Return the agent, with the tools that the same run has in any other process."""
        services = self.desk.services
        given = tools_of(services, self.desk.id, workspace, host_tools=tools)
        ports = list(services.tools.values()) if given is None else given
        return AutonomousAgent(kernel=self.kernel, tools=ports, agent_id=AGENT)

    async def _answer(self, message: a2a.Message) -> TaskFeed:
        """Give a task what it asks for, and let it go on."""
        desk, run_id = self.desk, task_name(message.task_id)
        run = await find_task(desk, run_id)
        if message.context_id and message.context_id != context_of(run_id):
            raise InvalidRequest("contextId is not that of the task", expected=context_of(run_id))
        if is_final(run["status"]):
            raise fault.UnsupportedOperationError(
                "the task has ended; a message of the same contextId without a taskId begins the next"
            )
        asked = {one["step"] for one in run["approvals"]}
        answers = [
            await read_beside_loop(part.ByteSize(), _answer_of, part) for part in message.parts[:PARTS_MAX]
        ]
        if not asked or not answers:
            raise fault.UnsupportedOperationError(f"the task takes no message now: it is {run['status']}")
        for answer in answers:
            if answer.step not in asked:
                raise InvalidRequest("no question of the task has this step", got=answer.step[:120])
        for answer in answers:
            await desk.approve(
                run_id,
                answer.step,
                deny=answer.decision == "deny",
                arguments=answer.arguments,
                note=answer.note,
                by=self.by,
            )
        row = await run_row(desk.services.store, desk.id, run_id)
        job = Job.from_stored(await blob_json(desk.services, desk.id, row.settings))
        wanted = Wanted(
            run_id=run_id, model=job.model, prompt=job.prompt, tenant=desk.id, is_chat=True, on_wait="return"
        )
        feed = await self._start(
            context_of(run_id), stream_of(self._agent(job.workspace, job.host_tools), wanted)
        )
        feed.run_id = run_id
        return feed

    async def cancel(self, task_id: str) -> a2a.Task:
        """Cancel a task, and return it. Errors: `TaskNotCancelableError` for one that has ended."""
        run = await find_task(self.desk, task_id)
        if is_final(run["status"]):
            raise fault.TaskNotCancelableError(f"the task has ended: it is {run['status']}")
        await self.desk.cancel(run["id"], by=self.by)
        going = self.errands.at_work((AGENT, self.desk.id, context_of(run["id"])))
        if going is not None and _feed_of(going).run_id == run["id"]:
            await asyncio.wait({going.task}, timeout=LET_GO_S)
        return await self.show(task_id)

    async def stream(
        self, feed: TaskFeed, *, history: int | None = None, modes: Sequence[str] = ()
    ) -> AsyncGenerator[a2a.StreamResponse]:
        """Yield a turn's task, its reply piece by piece, what its tools have shown since, and its state at
        the end of the work at hand. `history`, `modes`: as of `show`.
        """
        run_id = await feed.begun()
        first = await self.show(run_id, history=history, modes=modes)
        yield a2a.StreamResponse(task=first)
        number, sent = -1, ""
        while True:
            news, is_over = feed.news, feed.is_over
            if feed.text and (feed.number, feed.text) != (number, sent):
                is_same = feed.number == number
                piece = feed.text[len(sent) :] if is_same else feed.text
                number, sent = feed.number, feed.text
                yield _piece(run_id, piece, append=is_same)
            elif is_over:
                break
            else:
                await news.wait()
        run = await find_task(self.desk, run_id)
        if (text := text_of(run)) and text != sent:
            yield _piece(run_id, text, append=False, is_last=True)
        there = {one.artifact_id for one in first.artifacts}
        for artifact in await self.reader.new_media(run_id, there, modes):
            yield _update(run_id, artifact, append=False, is_last=True)
        yield _state(run)

    async def follow(self, task_id: str) -> AsyncGenerator[a2a.StreamResponse]:
        """Yield a task as it is, and each state that it comes to, up to its end. Errors: `NotFound`;
        `UnsupportedOperationError` for one that has ended.
        """
        run = await find_task(self.desk, task_id)
        if is_final(run["status"]):
            raise fault.UnsupportedOperationError(
                f"the task has ended: it is {run['status']}; GetTask shows it"
            )
        told, there = STATES[RunStatus(run["status"])], set[str]()
        going = self.errands.at_work((AGENT, self.desk.id, context_of(run["id"])))
        if going is not None and _feed_of(going).run_id == run["id"]:
            # That is the work at hand: where it asks somebody, the task goes on with the answer.
            async with aclosing(self.stream(_feed_of(going))) as items:
                async for item in items:
                    told = item.status_update.status.state
                    there |= {one.artifact_id for one in item.task.artifacts}
                    there.add(item.artifact_update.artifact.artifact_id)
                    yield item
        else:
            task = await self.reader.show(run)
            there |= {one.artifact_id for one in task.artifacts}
            yield a2a.StreamResponse(task=task)
        loop, store = asyncio.get_running_loop(), self.desk.services.store
        came = asyncio.Event()

        def on_commit(position: int, abroad: bool) -> None:
            with suppress(RuntimeError):  # the loop was closed in between
                loop.call_soon_threadsafe(came.set)

        unlisten = store.listen(on_commit)
        try:
            while told not in ENDS:
                state = STATES[RunStatus((await run_row(store, self.desk.id, task_id)).status)]
                if state == told:
                    await came.wait()
                    came.clear()
                    continue
                run = await find_task(self.desk, task_id)
                told = STATES[RunStatus(run["status"])]
                if told in ENDS:
                    if text := text_of(run):
                        yield _piece(task_id, text, append=False, is_last=True)
                    for artifact in await self.reader.new_media(task_id, there):
                        yield _update(task_id, artifact, append=False, is_last=True)
                yield _state(run)
        finally:
            unlisten()


def _feed_of(errand: Errand) -> TaskFeed:
    assert isinstance(errand.about, TaskFeed)
    return errand.about


def _piece(run_id: str, text: str, *, append: bool, is_last: bool = False) -> a2a.StreamResponse:
    return _update(run_id, reply_artifact(text), append=append, is_last=is_last)


def _update(run_id: str, artifact: a2a.Artifact, *, append: bool, is_last: bool) -> a2a.StreamResponse:
    return a2a.StreamResponse(
        artifact_update=a2a.TaskArtifactUpdateEvent(
            task_id=run_id,
            context_id=context_of(run_id),
            artifact=artifact,
            append=append,
            last_chunk=is_last,
        )
    )


def _state(run: RunDetail) -> a2a.StreamResponse:
    task = task_of(run, history=0, has_artifacts=False)
    return a2a.StreamResponse(
        status_update=a2a.TaskStatusUpdateEvent(
            task_id=run["id"], context_id=context_of(run["id"]), status=status_of(run), metadata=task.metadata
        )
    )


def _wishes_of(asked: a2a.SendMessageRequest) -> TaskWishes:
    """Return what a request wishes beside its words. Errors: `InvalidRequest`."""
    given: Any = MessageToDict(asked.metadata).get("artelier") or {}
    try:
        wishes = TaskWishes.model_validate(given)
    except ValidationError as error:
        raise _misfit(error, "metadata.artelier", "model and budget_usd, both texts") from None
    if wishes.budget_usd is not None:
        parse_usd(wishes.budget_usd)
    return wishes


def _misfit(error: ValidationError, what: str, expected: str) -> InvalidRequest:
    found = error.errors(include_input=False, include_url=False)[:5]
    named = [f"{'.'.join(str(step)[:80] for step in one['loc'])}: {one['msg']}" for one in found]
    return InvalidRequest(f"{what}: " + "; ".join(named)[:500], expected=expected)


def _content_of(message: a2a.Message) -> tuple[str, tuple[bytes, ...]]:
    """Return the words and the files of a message.

    Errors: `InvalidRequest`; `ContentTypeNotSupportedError` for what is neither.
    """
    if len(message.parts) > PARTS_MAX:
        raise InvalidRequest("too many parts", expected=f"at most {PARTS_MAX}", got=len(message.parts))
    words: list[str] = []
    files: list[bytes] = []
    for part in message.parts:
        kind = part.WhichOneof("content")
        if kind == "text":
            words.append(part.text)
        elif kind == "data":
            words.append(msgspec.json.encode(MessageToDict(part.data)).decode())
        elif kind == "raw":
            files.append(part.raw)
        else:
            raise fault.ContentTypeNotSupportedError(
                "a part by its address is not fetched here; send its bytes as raw"
                if kind
                else "a part is empty"
            )
    check_attachments(files)
    return said_text("\n".join(words)), tuple(files)


def _answer_of(part: a2a.Part) -> ApprovalReply:
    """Return an answer to a question. Errors: `InvalidRequest` for a part that is none."""
    expected = 'a data part {"step": ..., "decision": "approve" or "deny"}'
    if part.WhichOneof("content") != "data":
        raise InvalidRequest("the task asks for a decision, and words are none", expected=expected)
    try:
        return ApprovalReply.model_validate(MessageToDict(part.data))
    except ValidationError as error:
        raise _misfit(error, "the answer", expected) from None
