"""A turn of an agent for a client of AG-UI, with tools that the client brings and runs itself.

A thread is a conversation of an agent: each turn is a run `agui.<thread>/000001` and on. A call of a client's
tool is a tool step like any other. It asks the client, durably: the request ends, and the client's next one
brings the answer as a `tool` message. In between the run waits; another process may go on with it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, cast

import msgspec
from ag_ui import core as agui

from artelier.agents.autonomous import AutonomousAgent
from artelier.agents.launch import tools_of
from artelier.agents.run_config import Job, Wanted
from artelier.agents.stream import ApprovalAsked, ModelAnswered, ToolCalled, ToolReturned, stream_of
from artelier.app import Kernel, TenantKernel
from artelier.chat.session.agent_conversation import AgentEvent
from artelier.errors import ArtelierError, InvalidRequest
from artelier.kernel import AgentResult, Limits, run_row
from artelier.kernel.queries.content import blob_json
from artelier.kernel.queries.runs import RunRow
from artelier.kernel.run.context import is_final
from artelier.loops.cycle import host_tools
from artelier.money import parse_usd
from artelier.ports.model import Delta
from artelier.ports.tool import ToolPort
from artelier.server.agui.client_answers import (
    ANSWER_BYTES_MAX,
    PREFIX,
    ClientAnswer,
    OpenCall,
    answers_of,
    client_tools,
    open_calls,
    record_answers,
    unknown_call,
)
from artelier.server.agui.event_fold import PROTOCOL
from artelier.server.agui.interrupts import open_interrupts, read_resume, runs_of, status_interrupt
from artelier.server.agui.run_input import SaidContent
from artelier.tools.client_tool import CLIENT_TOOL, ClientTool, client_call


@dataclass(slots=True)
class AgentThread:
    """One request of a client to an agent: a turn that begins, or one that goes on with answers."""

    kernel: Kernel
    desk: TenantKernel
    asked: agui.RunAgentInput
    model: str
    by: str
    budget_usd: str | None = None
    said: SaidContent | None = None
    """What the person says; None for a request that brings answers."""
    _answers: list[ClientAnswer] = field(default_factory=list[ClientAnswer])
    _tools: list[ClientTool] = field(default_factory=list[ClientTool])

    @property
    def session(self) -> str:
        return f"{PREFIX}{self.asked.thread_id}"

    async def begin(self) -> AsyncIterator[AgentEvent]:
        """Return what the turn will give, once its answers and those to interrupts are recorded.

        Errors: `InvalidRequest`; `NotFound` for an answer to nothing that is open; `Conflict`.
        """
        services = self.desk.services
        if self.budget_usd is not None:
            parse_usd(self.budget_usd)  # now, while it can be refused
        workspace, tools = services.workspaces.root(self.desk.id), host_tools(services)
        own = self._own_tools(workspace, tools)
        self._tools = client_tools(self.asked, [tool.name for tool in own])
        resume = await read_resume(self.desk, self.asked.resume or [], thread=self.session)
        self._answers = answers_of(self.asked, self.session)
        if not self._answers and not resume:
            chat = self._agent([*own, *self._tools]).chat(
                self.session, model=self.model, tenant=self.desk.id, workspace=workspace, **self._more
            )
            said = self.said or SaidContent(words="")
            return chat.stream(said.words, attachments=said.attachments)
        runs = {self._turn_of(one.run_id) for one in [*self._answers, *resume]}
        if len(runs) > 1:
            raise InvalidRequest("the answers are of several turns", expected="those of one", got=len(runs))
        turn = runs.pop()
        row = await run_row(self.desk.services.store, self.desk.id, turn)
        open_ = await open_calls(self.desk, [turn])
        recorded = await record_answers(self.desk, self._answers, open_, by=self.by)
        for one in resume:
            await one.record(self.desk, by=self.by)
        if not recorded and not resume and is_final(row.status):
            raise unknown_call(self._answers[-1])
        return await self._go_on(row, open_)

    def _turn_of(self, run_id: str) -> str:
        """Return the turn of this thread that a run belongs to, itself or one that drives it."""
        return "/".join(run_id.split("/")[: self.session.count("/") + 2])

    @property
    def _more(self) -> dict[str, Any]:
        limits = None if self.budget_usd is None else Limits(usd=self.budget_usd)
        return {"on_wait": "return", "limits": limits}

    async def _go_on(self, row: RunRow, open_: Sequence[OpenCall]) -> AsyncIterator[AgentEvent]:
        services, desk, run_id = self.desk.services, self.desk, row.run
        known = {tool.name for tool in self._tools}
        tools = [*self._tools]
        for call in open_:  # a call that waits needs its tool, whatever this request brings
            if call.tool not in known:
                known.add(call.tool)
                tools.append(ClientTool(call.tool, ""))
        job = Job.from_stored(await blob_json(services, desk.id, row.settings))
        wanted = Wanted(
            run_id=run_id, model=job.model, prompt=job.prompt, tenant=desk.id, is_chat=True, on_wait="return"
        )
        own = self._own_tools(job.workspace, job.host_tools)
        return stream_of(self._agent([*own, *tools]), wanted)

    def _own_tools(self, workspace: str, tools: Sequence[str]) -> list[ToolPort]:
        """Return the server's tools, with those that the same run has in any other process."""
        services = self.desk.services
        given = tools_of(services, self.desk.id, workspace, host_tools=tools)
        return list(services.tools.values()) if given is None else given

    def _agent(self, tools: Sequence[ToolPort]) -> AutonomousAgent:
        return AutonomousAgent(kernel=self.kernel, tools=tools, agent_id="agui")


class AgentTelling:
    """The events of a turn in those of AG-UI. The turn goes on if its client goes away."""

    def __init__(self, thread: AgentThread) -> None:
        self._thread = thread
        self._items: asyncio.Queue[AgentEvent | ArtelierError | None] = asyncio.Queue()
        self._first: AgentEvent | ArtelierError | None = None
        self._text = ""
        self._messages = 0
        self._is_open = False

    async def drive(self, items: AsyncIterator[AgentEvent]) -> None:
        """Drive the turn, whoever listens. Errors: those of the turn, which are told as well."""
        try:
            async with aclosing(cast("AsyncGenerator[AgentEvent]", items)) as found:
                async for item in found:
                    self._items.put_nowait(item)
        except ArtelierError as error:
            self._items.put_nowait(error)
            raise
        finally:
            self._items.put_nowait(None)

    async def begun(self) -> None:
        """Wait until the turn is there. Errors: those that it was refused with, before anything of it was."""
        self._first = await self._items.get()
        if isinstance(self._first, ArtelierError):
            raise self._first

    async def frames(self) -> AsyncGenerator[bytes]:
        """Server-sent events up to the end of the turn, or to where it waits for the client or a person."""
        from artelier.server.agui.event_follower import json_of

        asked = self._thread.asked
        begin = agui.RunStartedEvent(
            thread_id=asked.thread_id, run_id=asked.run_id, protocol_version=PROTOCOL
        )
        yield b"data: %s\n\n" % json_of(begin)
        item = self._first
        while item is not None:
            end = [await self._finish_event(item)] if isinstance(item, AgentResult) else []
            for event in [*self._events_of(item), *end]:
                yield b"data: %s\n\n" % json_of(event)
            item = await self._items.get()

    def _events_of(self, item: AgentEvent | ArtelierError) -> list[agui.BaseEvent]:
        if isinstance(item, Delta):
            return self._text_events(item.text) if item.text else []
        if isinstance(item, ModelAnswered):
            rest = item.text[len(self._text) :] if item.text.startswith(self._text) else ""
            return [*self._text_events(rest), *self._end_text()]
        if isinstance(item, ApprovalAsked):
            if call := client_call(item.details):
                step = item.step.removesuffix("/ask/1")
                return self._call_events(item.stream.id, step, call[CLIENT_TOOL], call.get("arguments"))
            return [agui.CustomEvent(name=item.kind, value={"run_id": item.stream.id, "key": item.step})]
        if isinstance(item, ToolCalled):
            if item.tool in self._client_names:
                return []
            return self._call_events(item.stream.id, item.step, item.tool, item.arguments)
        if isinstance(item, ToolReturned):
            return [] if item.tool in self._client_names else [self._result_event(item)]
        if isinstance(item, AgentResult):
            return self._end_text()
        if isinstance(item, ArtelierError):
            return [*self._end_text(), agui.RunErrorEvent(message=str(item)[:2_000], code=item.code)]
        return []

    @property
    def _client_names(self) -> frozenset[str]:
        return frozenset(tool.name for tool in self._thread.asked.tools or ())

    def _text_events(self, text: str) -> list[agui.BaseEvent]:
        if not text:
            return []
        begin: list[agui.BaseEvent] = []
        if not self._is_open:
            self._messages, self._is_open = self._messages + 1, True
            begin = [agui.TextMessageStartEvent(message_id=self._message_id, role="assistant")]
        self._text += text
        return [*begin, agui.TextMessageContentEvent(message_id=self._message_id, delta=text)]

    def _end_text(self) -> list[agui.BaseEvent]:
        self._text = ""
        if not self._is_open:
            return []
        self._is_open = False
        return [agui.TextMessageEndEvent(message_id=self._message_id)]

    @property
    def _message_id(self) -> str:
        return f"{self._thread.asked.run_id}#{self._messages}"

    def _call_events(self, run_id: str, step: str, tool: str, arguments: object) -> list[agui.BaseEvent]:
        id_ = f"{run_id}#{step}"
        delta = msgspec.json.encode(arguments).decode()
        return [
            agui.ToolCallStartEvent(tool_call_id=id_, tool_call_name=tool),
            agui.ToolCallArgsEvent(tool_call_id=id_, delta=delta),
            agui.ToolCallEndEvent(tool_call_id=id_),
        ]

    def _result_event(self, item: ToolReturned) -> agui.BaseEvent:
        id_ = f"{item.stream.id}#{item.step}"
        content = item.value if isinstance(item.value, str) else msgspec.json.encode(item.value).decode()
        return agui.ToolCallResultEvent(
            message_id=f"{id_}#result", tool_call_id=id_, content=content[:ANSWER_BYTES_MAX], role="tool"
        )

    async def _finish_event(self, result: AgentResult) -> agui.BaseEvent:
        """Return the end of this request. A turn that waits for its client alone has done what it could."""
        if result.status == "failed":
            reason = result.reason or "failed"
            return agui.RunErrorEvent(message=result.text or reason, code=reason)
        if result.status == "cancelled":
            return self._finished(agui.RunFinishedCancelledOutcome())
        if result.status == "completed":
            return self._finished(agui.RunFinishedSuccessOutcome())
        desk = self._thread.desk
        waits = await open_interrupts(desk, result.run_id)
        if not waits and await open_calls(desk, await runs_of(desk, result.run_id)):
            return self._finished(agui.RunFinishedSuccessOutcome())
        waits = waits or [status_interrupt(result.run_id, result.status)]
        return self._finished(agui.RunFinishedInterruptOutcome(interrupts=waits))

    def _finished(
        self,
        outcome: agui.RunFinishedSuccessOutcome
        | agui.RunFinishedInterruptOutcome
        | agui.RunFinishedCancelledOutcome,
    ) -> agui.BaseEvent:
        asked = self._thread.asked
        return agui.RunFinishedEvent(thread_id=asked.thread_id, run_id=asked.run_id, outcome=outcome)
