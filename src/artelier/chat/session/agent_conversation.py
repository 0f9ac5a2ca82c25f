"""A conversation with an agent over many runs.

Each turn is a run of its own, and begins with what was said before. A turn that waits for a person keeps its
own conversation. The turns after it begin with what was said before its unfinished call, are told what it
waits for, and later what came of it. Which turns wait is recorded with each turn.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol, cast

from artelier.context.builder import shipped_text
from artelier.errors import Conflict, InvalidRequest, NotFound
from artelier.kernel import AgentResult, Renderer, Run, run_row
from artelier.kernel.events import ContextAssembled
from artelier.kernel.prompt.manifest import canonical, fence, message_of_reply
from artelier.kernel.queries.content import blob_json, count_messages, newest_message, shown_json
from artelier.kernel.queries.reports import approvals
from artelier.kernel.queries.runs import RunRow, numbered_run
from artelier.kernel.queries.steps import steps_before
from artelier.kernel.queries.tenants import run_key
from artelier.kernel.run.context import is_final
from artelier.kernel.run.services import Services
from artelier.kernel.tenants.registry import TenantRef, TenantScopes
from artelier.log import Event
from artelier.ports.model import ChatMessage, Delta

template = partial(shipped_text, "artelier.chat")
"""The text of a template of this package, by its name."""

AgentEvent = Delta | Event | AgentResult
"""An item of a stream: a piece of a reply, an event of the log once it is durable, and the result last."""

_SESSION = re.compile(r"[A-Za-z0-9._:-]{1,120}")
TURNS_MAX = 999_999
LOOP = "agent"
"""The loop that drives the turns, as their runs name it."""

_OWN = re.compile(r"c\d+/model(/again)?")
"""Keys of the loop's own model steps."""
_NEVER = 1 << 62
CARRIED_MAX = 200
"""Messages at the end of a run among which a call without its results is looked for."""

WAITS = frozenset(("waiting_approval", "unknown_outcome", "waiting"))
"""Statuses of a turn that somebody else has to bring on: the conversation need not wait for that."""

WAITING_MAX = 16
"""Turns of one chat that may wait at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Earlier:
    """Messages of an earlier run with which this one begins: a chat goes on."""

    run_id: str
    conversation: str
    start: int
    end: int
    """Numbers in that run's conversation, inclusive; `end` below `start` for none."""
    reply: str = ""
    """Key of the model step whose reply ended it; empty if it ended without one."""
    summary: str = ""
    trust: str = "trusted"

    @property
    def count(self) -> int:
        return max(0, self.end - self.start + 1) + (1 if self.reply else 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingTurns:
    """The notice to a new turn about turns that wait, or have waited, when it begins."""

    runs: tuple[str, ...] = ()
    """Those that still wait."""
    news: tuple[str, ...] = ()
    """Texts that stand in its conversation before what the person says."""


NONE_WAITING = WaitingTurns()


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentTurn:
    """One turn of a conversation, as its agent is asked to take it: a run of its own."""

    run_id: str
    model: str
    prompt: str
    """What the person says."""
    tenant: TenantRef = None
    earlier: Earlier | None = None
    waiting: WaitingTurns = NONE_WAITING
    key_id: int | None = None
    """The subject's key of the turn before."""
    more: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """The other arguments of `AutonomousAgent.run`."""


class TurnTaker(Protocol):
    """An agent that takes the turns of a conversation."""

    @property
    def agent_id(self) -> str: ...

    @property
    def kernel(self) -> TenantScopes: ...

    async def take_turn(self, turn: AgentTurn) -> AgentResult:
        """Start the run of a turn, and return its result."""
        ...

    def stream_turn(self, turn: AgentTurn) -> AsyncIterator[AgentEvent]:
        """Start the run of a turn, and yield what happens in it, the result last."""
        ...

    @property
    def resume(self) -> Callable[..., Awaitable[AgentResult]]: ...


class Chat:
    """One session of an agent. Its runs are called `<session>/000001` and so on; any process may go on."""

    def __init__(
        self, agent: TurnTaker, session: str, *, model: str, tenant: TenantRef = None, **more: Any
    ) -> None:
        if not _SESSION.fullmatch(session):
            raise InvalidRequest(
                "this cannot name a session",
                expected="1-120 characters of A-Z a-z 0-9 . _ : -",
                got=repr(session)[:140],
            )
        self.session = session
        self._agent = agent
        self._model = model
        self._tenant = tenant
        self._more = more

    async def send(self, text: str, **more: Any) -> AgentResult:
        """Say something, and return the turn's result; its `text` is the reply.

        A turn that waits for a person (an approval, an unknown outcome) stays as it is, and the
        conversation goes on beside it: the model is told what it waits for, and in a later turn what came
        of it.
        Errors: `Conflict` if the last turn is at work, paused or out of budget; those of
        `AutonomousAgent.run` at the door.
        """
        return await self._agent.take_turn(await self._turn(text, more))

    async def resume(self, **more: Any) -> AgentResult:
        """Bring a turn to its end (after a crash, an approval, a raised budget), and return its result:
        the oldest that has not ended, else the newest.

        `more`: a note or raised limits, as of `AutonomousAgent.resume`, with which a failed turn goes on.
        Errors: `NotFound` if nothing was ever said; those of `AutonomousAgent.resume`.
        """
        runs = self._agent.kernel.for_tenant(self._tenant)
        store = runs.services.store
        row = await numbered_run(store, runs.id, self.session, loop=LOOP, oldest_open=True)
        row = row or await last_turn(runs.services, runs.id, self.session)
        if row is None:
            raise NotFound(f"nothing was said in session {self.session!r} yet")
        self._check_mine(row)
        kept = {name: value for name, value in self._more.items() if name != "limits"}
        return await self._agent.resume(row.run, tenant=self._tenant, **{**kept, **more})

    async def stream(self, text: str, **more: Any) -> AsyncIterator[AgentEvent]:
        """Like `send`, yielding what happens and the `AgentResult` last."""
        async for item in self._agent.stream_turn(await self._turn(text, more)):
            yield item

    def _check_mine(self, row: RunRow) -> None:
        """Errors: `Conflict` if another agent holds a session of this name: its words are not ours."""
        if row.agent != self._agent.agent_id:
            raise Conflict(
                f"session {self.session!r} belongs to another agent",
                expected=f"one of {self._agent.agent_id!r}",
                got=repr(row.agent)[:120],
                hint="Give this agent's session a name of its own.",
            )

    async def _turn(self, text: str, more: dict[str, Any]) -> AgentTurn:
        if not text.strip():
            raise InvalidRequest("a turn needs words", expected="text", got="none")
        runs = self._agent.kernel.for_tenant(self._tenant)
        row = await last_turn(runs.services, runs.id, self.session)
        number, earlier, key_id, waiting = 1, None, None, NONE_WAITING
        if row is not None:
            self._check_mine(row)
            if not is_final(row.status) and row.status not in WAITS:
                raise Conflict(
                    f"turn {row.run!r} has not ended: it is {row.status}",
                    hint="Bring it to its end first: `await chat.resume()`.",
                )
            number = int(row.run.rpartition("/")[2]) + 1
            earlier = await earlier_of(runs.services, runs.id, row.run)
            key_id = await run_key(runs.services.store, runs.id, row.run)
            waiting = await waiting_turns_after(runs.services, runs.id, row)
        if number > TURNS_MAX:
            raise Conflict(f"session {self.session!r} has no numbers left for turns")
        return AgentTurn(
            run_id=f"{self.session}/{number:06d}",
            tenant=self._tenant,
            model=self._model,
            prompt=text,
            earlier=earlier,
            key_id=key_id,
            waiting=waiting,
            more={**self._more, **more},
        )


# What was said before a turn


async def messages_before(run: Run, earlier: Earlier) -> tuple[list[ChatMessage], bool]:
    """Return the messages with which a run begins, and whether they are from its own record; else they are
    from its predecessor's."""
    if earlier.count <= 0:
        return [], False
    services = run.core.services
    own = await Renderer.open(services, run.tenant_id, run.id)
    count = await count_messages(services.store, run.tenant_id, run.id, "main", upto=earlier.count)
    if count == earlier.count:
        return await own.messages("main", 1, earlier.count), True
    before = await Renderer.open(services, run.tenant_id, earlier.run_id)
    messages: list[ChatMessage] = []
    if earlier.end >= earlier.start:
        messages += await before.messages(earlier.conversation, earlier.start, earlier.end)
    if earlier.reply:
        messages.append(message_of_reply(await before.reply(earlier.reply)))
    return messages, False


async def earlier_of(services: Services, tenant: str, run_id: str) -> Earlier:
    """Return what a run that follows `run_id` begins with: all that was recorded of it. Errors:
    `NotFound`.
    """
    row = await run_row(services.store, tenant, run_id)
    event = await _last_prompt(services, tenant, row)
    if event is None:  # it ended before it asked anything: what was said before it still was
        settings: dict[str, Any] = await blob_json(services, tenant, row.settings) or {}
        if before := settings.get("earlier"):
            return Earlier(**before)
        return Earlier(run_id=run_id, conversation="main", start=1, end=0)
    shown = next((part for part in event.parts if part.tag == "conversation"), None)
    result: Any = await blob_json(services, tenant, row.result)
    replied = row.status == "completed" and isinstance(result, dict)
    summary, trust = await _summary(services, tenant, run_id, event.key)
    if shown is None or shown.conversation is None:
        start, end, conversation = 1, 0, "main"
    else:
        start, conversation = shown.start, shown.conversation
        end = await _last_whole(services, tenant, run_id, conversation, start, shown.end)
    return Earlier(
        run_id=run_id,
        conversation=conversation,
        start=start,
        end=end,
        reply=event.key if replied else "",
        summary=summary,
        trust=trust,
    )


async def _last_prompt(services: Services, tenant: str, row: RunRow) -> ContextAssembled | None:
    """The newest prompt of the loop itself: operations and compactions ask models too."""
    before = _NEVER
    while True:
        steps = await steps_before(services.store, row.id, "model", before=before, limit=500)
        for step in steps:
            if _OWN.fullmatch(step.key):
                renderer = await Renderer.open(services, tenant, row.run)
                return await renderer.event(step.key)
        if not steps:
            return None
        before = steps[-1].requested


async def _last_whole(
    services: Services, tenant: str, run_id: str, conversation: str, start: int, shown: int
) -> int:
    """Number of the last recorded message, without calls whose results are missing.

    The last cycle of a run that ended without a reply is in no prompt, and yet its tools were called.
    """
    end = max(shown, await newest_message(services.store, tenant, run_id, conversation))
    renderer = await Renderer.open(services, tenant, run_id)
    tail = await renderer.messages(conversation, max(start, end - CARRIED_MAX), end)
    missing: set[str | None] = set()
    for message in tail:
        if message.role == "tool":
            missing.discard(message.tool_call_id)
        else:
            missing = {call.id for call in message.tool_calls}
    while tail and missing:
        left_out = tail.pop()
        end -= 1
        if left_out.role == "assistant":
            break
    return end


async def _summary(services: Services, tenant: str, run_id: str, key: str) -> tuple[str, str]:
    """Text and trust of the summary that stood in a prompt."""
    renderer = await Renderer.open(services, tenant, run_id)
    manifest = await renderer.manifest(key)
    for part in manifest.parts:
        if part.tag == "summary":
            content = await renderer.content(part)
            text = content if isinstance(content, str) else content[0].text
            return _unfence(text), part.trust
    return "", "trusted"


def _unfence(text: str) -> str:
    """The summary itself, without the mark and the fence it was shown in."""
    inside = text.partition("\n")[2].rpartition("\n")[0]
    return inside or text


async def last_turn(services: Services, tenant: str, session: str) -> RunRow | None:
    """The row of the newest run of a session; None if it has none."""
    return await numbered_run(services.store, tenant, session, loop=LOOP)


# What a turn is told of the turns that wait


async def waiting_turns_after(services: Services, tenant: str, last: RunRow) -> WaitingTurns:
    """Return what a turn after `last`, the newest of its chat, is told. Errors: `Conflict` if too many
    wait."""
    settings: dict[str, Any] = await blob_json(services, tenant, last.settings) or {}
    still: list[str] = []
    news: list[str] = []
    for run_id in cast(list[str], settings.get("waiting_turns") or []):
        row = await run_row(services.store, tenant, run_id)
        if is_final(row.status):
            news.append(await _describe_end(services, tenant, row))
        else:
            still.append(run_id)
    if not is_final(last.status):
        still.append(last.run)
        news.append(await _waiting(services, tenant, last))
    if len(still) > WAITING_MAX:
        raise Conflict(
            "too many turns of this chat wait for somebody",
            expected=f"at most {WAITING_MAX}",
            got=len(still),
            hint=f"Answer what {still[0]!r} asks.",
        )
    return WaitingTurns(runs=tuple(still), news=tuple(news))


async def _waiting(services: Services, tenant: str, row: RunRow) -> str:
    """Return what a model is told of a turn that waits."""
    asked = await approvals(services, tenant, run_id=row.run)
    facts: list[dict[str, Any]] = [
        {"question": one.get("question"), "details": one.get("details")} for one in asked
    ]
    said = facts or [{"status": row.status, "reason": row.reason}]
    return f"{template('waiting-1')}\n\n{_data(said, row.run)}"


async def _describe_end(services: Services, tenant: str, row: RunRow) -> str:
    """Return what a model is told of a turn that has waited and is over."""
    settings: Any = await shown_json(services, tenant, row.settings)
    result: Any = await shown_json(services, tenant, row.result)
    prompt = cast(dict[str, Any], settings).get("prompt") if isinstance(settings, dict) else settings
    reply = cast(dict[str, Any], result).get("text") if isinstance(result, dict) else result
    facts = {"request": prompt, "status": row.status, "answer": reply}
    if row.status == "failed":
        facts["answer"] = row.reason
    return f"{template('settled-1')}\n\n{_data(facts, row.run)}"


def _data(value: object, run_id: str) -> str:
    """Return JSON between marks: what tools and models said is in it."""
    return fence(canonical(value).decode(), source=run_id)
