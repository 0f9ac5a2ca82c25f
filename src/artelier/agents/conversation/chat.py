"""A conversation over many runs: each turn is a run of its own, and begins with what was said before."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

from artelier.agents.conversation.chat_history import earlier_of, last_turn, oldest_open_turn
from artelier.agents.conversation.waiting_turns import NONE_WAITING, WAITS, waiting_turns_after
from artelier.agents.run_request import Starter, Wanted
from artelier.errors import Conflict, InvalidRequest, NotFound
from artelier.kernel import AgentResult
from artelier.kernel.queries.runs import RunRow
from artelier.kernel.queries.tenants import run_key
from artelier.kernel.run.context import is_final

if TYPE_CHECKING:
    from artelier.agents.stream.run_stream import AgentEvent

_SESSION = re.compile(r"[A-Za-z0-9._:-]{1,120}")
TURNS_MAX = 999_999


class Chat:
    """One session of an agent. Its runs are called `<session>/000001` and so on; any process may go on."""

    def __init__(self, agent: Starter, session: str, *, model: str, tenant: Any = None, **more: Any) -> None:
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
        return await self._agent.start(await self._turn(text, more))

    async def resume(self, **more: Any) -> AgentResult:
        """Bring a turn to its end (after a crash, an approval, a raised budget), and return its result:
        the oldest that has not ended, else the newest.

        `more`: a note or raised limits, as of `AutonomousAgent.resume`, with which a failed turn goes on.
        Errors: `NotFound` if nothing was ever said; those of `AutonomousAgent.resume`.
        """
        runs = self._agent.kernel.for_tenant(self._tenant)
        row = await oldest_open_turn(runs.services, runs.id, self.session)
        row = row or await last_turn(runs.services, runs.id, self.session)
        if row is None:
            raise NotFound(f"nothing was said in session {self.session!r} yet")
        self._check_mine(row)
        kept = {name: value for name, value in self._more.items() if name != "limits"}
        return await self._agent.resume(row.run, tenant=self._tenant, **{**kept, **more})

    async def stream(self, text: str, **more: Any) -> AsyncIterator[AgentEvent]:
        """Like `send`, yielding what happens and the `AgentResult` last."""
        from artelier.agents.stream.run_stream import stream_of

        async for item in stream_of(self._agent, await self._turn(text, more)):
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

    async def _turn(self, text: str, more: dict[str, Any]) -> Wanted:
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
        return Wanted(
            run_id=f"{self.session}/{number:06d}",
            tenant=self._tenant,
            model=self._model,
            prompt=text,
            is_chat=True,
            earlier=earlier,
            must_be_new=True,
            key_id=key_id,
            waiting=waiting,
            **{**self._more, **more},
        )
