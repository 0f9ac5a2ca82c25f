"""A mission for a client of AG-UI, with tools that the client brings and runs itself.

A thread is one mission, `agui.<thread>`. Its goal is what the person says first; whatever comes to the thread
later goes on with it. A request ends where the client has something to do, where everything waits for
somebody, or with the mission. The mission keeps the definitions of the client's tools, and is driven by this
server, a worker or another process, whether or not a client listens.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import msgspec
from ag_ui import core as agui

from artelier.app import TenantKernel
from artelier.chat.session.settings import check_chat
from artelier.errors import LeaseHeld
from artelier.kernel import Limits
from artelier.kernel.queries.runs import find_run
from artelier.kernel.run.context import is_final
from artelier.missions.plan.commands import check_same, mission_job, mission_object
from artelier.missions.plan.mission_runner import check_mission_id, recorded_job
from artelier.missions.plan.planner import LOOP, MissionJob
from artelier.server.agui.client_answers import (
    PREFIX,
    OpenCall,
    answers_of,
    client_tools,
    open_calls,
    record_answers,
)
from artelier.server.agui.event_fold import PROTOCOL, EventDraft, Fact
from artelier.server.agui.event_follower import Following, json_of
from artelier.server.agui.interrupts import open_interrupts, read_resume, runs_of, status_interrupt
from artelier.server.agui.run_input import Wishes, read_said, words_of
from artelier.server.background_tasks import Errand, Errands, check, key_of, send_work
from artelier.server.live_hub import Hub

HELD_LOOKS = 25
HELD_LOOK_S = 0.2
"""How often, and how long apart, a mission is tried that another process drives at the moment: it sees the
answer itself, or lets go (guess: a drive at rest ends within a second)."""

_AT_WORK = ("pending", "running")
_OWN_ENDS = (agui.RunStartedEvent, agui.RunFinishedEvent, agui.RunErrorEvent)
"""Events of the mission's run: a request has its own, under the client's ids."""


async def is_mission(desk: TenantKernel, thread: str) -> bool:
    """Return True if a thread has become a mission."""
    row = await find_run(desk.services.store, desk.id, f"{PREFIX}{thread}")
    return row is not None and row.loop == LOOP


@dataclass(slots=True, kw_only=True)
class MissionThread:
    """One request of a client about a mission: it begins, or goes on, with answers or without."""

    desk: TenantKernel
    hub: Hub
    errands: Errands
    asked: agui.RunAgentInput
    wishes: Wishes
    model: str
    by: str
    user: str = ""

    @property
    def mission(self) -> str:
        return f"{PREFIX}{self.asked.thread_id}"

    async def begin(self) -> AsyncGenerator[bytes]:
        """Return the frames of the request, once its answers are recorded and the mission is being driven.

        Errors: `InvalidRequest`; `NotFound` for an answer to a call that nobody made; `Conflict` for another
        goal or budget than the thread's.
        """
        check_chat(self.asked.thread_id)
        check_mission_id(self.mission)
        job = await recorded_job(self.desk, self.mission)
        if job is None:
            after, drive = 0, await self._start()
        else:
            after = (await self.desk.services.store.root())[0]
            await self._take_answers(job)
            drive = self._go_on()
        telling = MissionTelling(self, drive)
        return await telling.open(after=after)

    async def _start(self) -> Errand:
        desk = self.desk
        said = await read_said(desk, self.by, self.asked)
        model, folder = self.wishes.model or self.model, desk.services.workspaces.root(desk.id)
        work = desk.plan(
            said.words,
            attachments=said.attachments,
            mission_id=self.mission,
            model=model,
            workspace=folder,
            auto_launch=self.wishes.launch,
            budget_usd=self.wishes.budget_usd,
            by=self.by,
            client_tools=[one.to_stored() for one in client_tools(self.asked, ())],
            on_wait="return",
        )
        key = key_of("mission", desk, self.mission)

        async def check_begun() -> None:
            job = mission_job(desk, said.words, model=model, workspace=folder, auto_launch=self.wishes.launch)
            await check_same(desk, self.mission, job, limits=Limits(usd=self.wishes.budget_usd))

        errand = await send_work(self.errands, key, work, desk, run_id=self.mission, check_begun=check_begun)
        check(self.errands, key, errand)
        return errand

    async def _take_answers(self, job: MissionJob) -> None:
        """Record what the client's tools and people said; without answers the goal must be the same."""
        last = self.asked.messages[-1].role if self.asked.messages else ""
        resume = await read_resume(self.desk, self.asked.resume or [], thread=self.mission)
        if last != "tool" and not resume:
            goal = words_of(self.asked)
            limits = Limits(usd=self.wishes.budget_usd)
            await check_same(self.desk, self.mission, msgspec.structs.replace(job, goal=goal), limits=limits)
            return
        answers = answers_of(self.asked, self.mission)  # none, if a resume comes behind the person's words
        waiting = await open_calls(self.desk, [one.run_id for one in answers])
        await record_answers(self.desk, answers, waiting, by=self.by)
        for one in resume:
            await one.record(self.desk, by=self.by)

    def _go_on(self) -> Errand:
        """Drive the mission; if a drive is on its way, once more behind it: it may be about to rest."""
        key = key_of("mission", self.desk, self.mission)
        going = self.errands.at_work(key)
        if going is not None:
            key = key_of("mission-again", self.desk, self.mission)
        if (next_ := self.errands.at_work(key)) is not None:
            return next_
        return self.errands.start(key, self._drive(going))

    async def _drive(self, going: Errand | None) -> None:
        if going is not None:
            await asyncio.wait({going.task})
        for _ in range(HELD_LOOKS):
            with suppress(LeaseHeld):
                await self.desk.drive_mission(self.mission, on_wait="return")
                return
            await self.desk.services.clock.sleep(HELD_LOOK_S)

    async def calls(self) -> list[OpenCall]:
        """The calls of client tools that the mission waits for."""
        return await open_calls(self.desk, await runs_of(self.desk, self.mission))


class MissionTelling(Following):
    """The events of one request about a mission."""

    def __init__(self, thread: MissionThread, drive: Errand) -> None:
        super().__init__(thread.desk, thread.hub, thread.mission, user=thread.user)
        self._thread = thread
        self._drive = drive
        self._client_names = frozenset[str]()
        asked = thread.asked
        self._told = {
            call.id
            for message in asked.messages
            if message.role == "assistant"
            for call in message.tool_calls or ()
        }
        """Calls that the client knows."""
        self._answered = {message.tool_call_id for message in asked.messages if message.role == "tool"}
        self._has_work = False
        """Whether the client was told of a call that is its to make."""

    async def open(self, *, after: int) -> AsyncGenerator[bytes]:
        """Return the frames, from a position on. Errors: `QueueFull`."""
        job = await recorded_job(self._desk, self._run_id)
        assert job is not None, "it was started, or found"
        self._client_names = frozenset(one["name"] for one in job.client_tools)
        pieces = await self._open(after=after, seen=None)
        return self._told_frames(pieces)

    async def _told_frames(self, pieces: AsyncIterator[bytes]) -> AsyncGenerator[bytes]:
        asked = self._thread.asked
        begin = agui.RunStartedEvent(
            thread_id=asked.thread_id, run_id=asked.run_id, protocol_version=PROTOCOL
        )
        yield _frame(begin)
        drafts = [outline for _, _, outline in self._ahead]
        for outline in [*drafts, *self._fold.go_on(), *await self._new_calls()]:
            if (event := await self._made(outline)) is not None:
                yield _frame(event)
        ahead = asyncio.ensure_future(anext(pieces, b""))
        try:
            while (end := await self._end_events()) is None:
                work = {self._drive.task} if not self._drive.task.done() else set[asyncio.Task[None]]()
                await asyncio.wait({ahead, *work}, return_when=asyncio.FIRST_COMPLETED)
                if not ahead.done():
                    continue
                if not (piece := ahead.result()):
                    return  # the server ends, or this client is too slow: it comes back
                ahead = asyncio.ensure_future(anext(pieces, b""))
                if frames := b"".join([frame async for frame in self._translate(piece)]):
                    yield frames
            for event in end:
                yield _frame(event)
        finally:
            ahead.cancel()
            await asyncio.gather(ahead, return_exceptions=True)
            close = getattr(pieces, "aclose", None)
            if close is not None:
                await close()

    async def _frame(self, position: int, number: int, outline: EventDraft) -> bytes:
        event = await self._made(outline)
        return b"" if event is None else _frame(event)

    # What the client is told of an event

    async def _drafts_of(self, fact: Fact) -> list[EventDraft]:
        drafts = [one for one in self._fold.take(fact) if not issubclass(one.made, _OWN_ENDS)]
        if fact.kind == "tool.requested" and fact.data["name"] in self._client_names:
            drafts = [one for one in drafts if not _is_call(one)]  # told when its answer is asked for
        if fact.kind == "approval.requested" and (calls := await self._new_calls()):
            return [*(one for one in drafts if one.made is not agui.CustomEvent), *calls]
        return [one for one in drafts if not self._is_answer(one)]

    def _is_answer(self, outline: EventDraft) -> bool:
        """Return True for the result of a call that the client has given itself."""
        is_result = outline.made is agui.ToolCallResultEvent
        return is_result and outline.fields["tool_call_id"] in self._answered

    async def _new_calls(self) -> list[EventDraft]:
        """The calls that the client is to make and was not told of yet."""
        found: list[EventDraft] = []
        for call in await self._thread.calls():
            if call.id in self._told:
                continue
            self._told.add(call.id)
            self._has_work = True
            whose: dict[str, Any] = {"tool_call_id": call.id, "subagent_run_id": call.run_id}
            delta = msgspec.json.encode(call.arguments).decode()
            found += [
                EventDraft(agui.ToolCallStartEvent, {**whose, "tool_call_name": call.tool}),
                EventDraft(agui.ToolCallArgsEvent, {**whose, "delta": delta}),
                EventDraft(agui.ToolCallEndEvent, whose),
            ]
        return found

    # The end of the request

    async def _end_events(self) -> list[agui.BaseEvent] | None:
        """Return what the request ends with; None while it goes on."""
        if await self._is_over():
            return await self._result_events()
        if self._has_work:
            return await self._suspended(agui.RunFinishedSuccessOutcome())
        if not self._drive.task.done() or not await self._is_all_told():
            return None
        row = await find_run(self._desk.services.store, self._desk.id, self._run_id)
        assert row is not None, "it was started, or found"
        if row.status in _AT_WORK or is_final(row.status):
            return None  # another process drives it, or its last tasks
        waits = await open_interrupts(self._desk, self._run_id)
        if not waits and await self._thread.calls():
            return await self._suspended(agui.RunFinishedSuccessOutcome())
        waits = waits or [status_interrupt(self._run_id, row.status, row.reason)]
        return await self._suspended(agui.RunFinishedInterruptOutcome(interrupts=waits))

    async def _suspended(
        self, outcome: agui.RunFinishedSuccessOutcome | agui.RunFinishedInterruptOutcome
    ) -> list[agui.BaseEvent]:
        made = [await self._made(one) for one in self._fold.suspend()]
        return [*(one for one in made if one is not None), self._finished(outcome)]

    async def _result_events(self) -> list[agui.BaseEvent]:
        found = await mission_object(self._desk, self._run_id)
        if found["status"] == "cancelled":
            return [self._finished(agui.RunFinishedCancelledOutcome())]
        if found["status"] != "completed":
            reason = found["reason"] or found["status"]
            return [agui.RunErrorEvent(message=(found["message"] or reason)[:2_000], code=reason)]
        id_ = f"{self._run_id}#report"
        known = {message.id for message in self._thread.asked.messages}
        said: list[agui.BaseEvent] = []
        if found["text"] and id_ not in known:
            said = [
                agui.TextMessageStartEvent(message_id=id_, role="assistant"),
                agui.TextMessageContentEvent(message_id=id_, delta=found["text"]),
                agui.TextMessageEndEvent(message_id=id_),
            ]
        result = {"mission": self._run_id, "outputs": found["outputs"]}
        return [*said, self._finished(agui.RunFinishedSuccessOutcome(), result=result)]

    def _finished(
        self,
        outcome: agui.RunFinishedSuccessOutcome
        | agui.RunFinishedInterruptOutcome
        | agui.RunFinishedCancelledOutcome,
        *,
        result: object = None,
    ) -> agui.BaseEvent:
        asked = self._thread.asked
        return agui.RunFinishedEvent(
            thread_id=asked.thread_id, run_id=asked.run_id, outcome=outcome, result=result
        )


def _is_call(outline: EventDraft) -> bool:
    return issubclass(outline.made, (agui.ToolCallStartEvent, agui.ToolCallArgsEvent, agui.ToolCallEndEvent))


def _frame(event: agui.BaseEvent) -> bytes:
    return b"data: %s\n\n" % json_of(event)
