"""A conversation on one branch of a chat: replies, what waits there, and what the person sees."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable, Generator
from contextlib import aclosing, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from artelier.cli import exit_codes
from artelier.cli.call import CliCall
from artelier.cli.chat.input_lines import Lines
from artelier.cli.chat.reply import ReplyScreen, facts_of, plain_turn, print_turn
from artelier.errors import NotFound

if TYPE_CHECKING:
    from artelier.app import Kernel, TenantKernel
    from artelier.chat import Session, TurnResult

_LEFT_BEHIND = ("pending", "running")
"""How a run stands that a process began, and did not end, while nobody asked it to wait."""


class Interrupts:
    """Ctrl-C in a conversation: the first ends the reply that is being written, the second the conversation.

    `with interrupts.during(cancel)`: the first one within calls `cancel`. All others end the task.
    """

    def __init__(self) -> None:
        self._cancel: Callable[[], Awaitable[None]] | None = None
        self._at_work: asyncio.Task[None] | None = None

    def install(self) -> None:
        """Install the handler for the current task, until the event loop ends."""
        task, loop = asyncio.current_task(), asyncio.get_running_loop()
        assert task is not None

        def came() -> None:
            cancel, self._cancel = self._cancel, None
            if cancel is None:
                task.cancel()
            else:
                self._at_work = asyncio.ensure_future(cancel())
                # If nobody waits for it any more, its error is nobody's.
                self._at_work.add_done_callback(lambda done: done.cancelled() or done.exception())

        loop.add_signal_handler(signal.SIGINT, came)
        loop.add_signal_handler(signal.SIGTERM, task.cancel)

    @contextmanager
    def during(self, cancel: Callable[[], Awaitable[None]]) -> Generator[None]:
        self._cancel = cancel
        try:
            yield
        finally:
            self._cancel = None

    async def settle(self) -> None:
        """After a cancel that was begun: what it came to. Errors: those of `cancel`; `CancelledError` if the
        conversation was to end meanwhile, and what was awaited then ended well."""
        at_work, self._at_work = self._at_work, None
        if at_work is not None:
            await at_work
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise asyncio.CancelledError


class Talk:
    """One branch of a chat and the person, or the script, that talks on it."""

    def __init__(self, call: CliCall, kernel: Kernel, session: Session, lines: Lines) -> None:
        self.call = call
        self.kernel = kernel
        self.session = session
        self.screen = call.screen
        self.lines = lines
        self.interrupts = Interrupts()
        self.attached: list[bytes] = []
        """Images, sounds and PDFs that the next message shows."""
        self.is_over = False
        """Set by `/quit`."""

    @property
    def desk(self) -> TenantKernel:
        return self.kernel.for_tenant(self.call.tenant)

    @property
    def is_asked(self) -> bool:
        """True if a person types: mistakes are told, and the conversation goes on."""
        return self.lines.is_asked

    def way_back(self) -> str:
        """Return the command that goes on with the conversation."""
        session = self.session
        branch = () if session.branch_name == "main" else ("--branch", session.branch_name)
        return self.call.command_line("chat", session.chat_id, *branch)

    async def reply(self, trigger: str, text: str = "", *, turn: int | None = None, speaker: str = "") -> int:
        """Have a turn, and show it; the exit code that its end stands for."""
        from artelier.chat import RunEvent

        self.call.resumable = self.way_back()
        session, reply = self.session, ReplyScreen(self.screen)
        result: TurnResult | None = None
        # Questions of a run are answered by `artelier approve`: it is left waiting.
        attached = self.attached if trigger == "generate" else []
        items = session.stream(
            text, trigger=trigger, turn=turn, speaker=speaker, on_wait="suspend", attachments=attached
        )
        with self.interrupts.during(self._cancel):
            async with aclosing(items) as stream:
                async for item in stream:
                    if isinstance(item, RunEvent):
                        reply.take(item, await self.restore_values(dict(item.data)))
                    else:
                        result = item
        if attached:
            self.attached = []
        await self.interrupts.settle()
        assert result is not None, "a stream ends with the result"
        text, facts = await self.restore_values([result.text, await facts_of(session, result)])
        result = replace(result, text=text)
        if not self.call.as_json:
            if result.speaker and (await session.settings()).group:
                self.screen.note(f"{await self.restore_values(result.speaker)}:", "bold")
            reply.end(text)
        print_turn(self.screen, session, result, facts)
        await self._advise(result)
        return exit_codes.of_status(result.status)

    async def _cancel(self) -> None:
        self.screen.note("cancelling the reply; Ctrl-C once more leaves", "yellow")
        await self.session.cancel()

    async def _advise(self, result: TurnResult) -> None:
        """Print how a run that did not end can go on."""
        if result.status not in ("completed", "failed", "cancelled") and not self.call.as_json:
            await self.advise(result.run_id)

    async def tell(self, run_id: str) -> None:
        """Print what a waiting run waits for, and how it goes on; nothing is done with it."""
        if not self.call.as_json:
            await self.advise(run_id)
            return
        from artelier.chat.turn.turn_runner import recorded_job, result_of, tools_missing

        desk = self.desk
        job = await recorded_job(desk, run_id)
        assert job is not None, "a run that waits has begun"
        result = await result_of(desk.services, desk.id, run_id, job)
        turn = plain_turn(self.session, result, await facts_of(self.session, result))
        run = await desk.show(run_id)
        shown = {**turn, "approvals": run["approvals"], "tools_missing": await tools_missing(desk, run_id)}
        self.data(await self.restore_values(shown))

    async def advise(self, run_id: str) -> None:
        """Print the state of a run, its question, and the next steps."""
        from artelier.chat.turn.turn_runner import tools_missing
        from artelier.cli.next_steps import next_steps, question_lines, standing

        screen, run = self.screen, await self.restore_values(await self.desk.show(run_id))
        screen.note(f"{run_id} is {standing(run)}", "bold yellow")
        for asked in run["approvals"]:
            question, *about = question_lines(asked)
            screen.note(f"? {question}", "yellow")
            for line in about:
                screen.note(line)
        missing = await tools_missing(self.session.desk, run_id)
        if not missing or run["approvals"]:
            for step in await next_steps(self.call, self.kernel, run):
                screen.note(step)
        if missing:
            screen.note(
                f"its tools are not here ({', '.join(missing)[:300]}): go on with the chat in the program"
                " that has them, or here with /cancel"
            )
        elif self.is_asked:
            screen.note("then here: /resume, or /cancel")

    async def restore_values(self, value: Any) -> Any:
        """JSON data as whoever sits here may see it: with values, if the tenant's grants allow that.

        The model and the chat have placeholders.
        """
        return await self.desk.restored(value)

    def data(self, value: object) -> bool:
        """Print an answer as JSON if that is wanted; whether it was."""
        if self.call.as_json:
            self.screen.json(value, indent=-1)
        return self.call.as_json

    async def stand(self) -> None:
        """Say where the conversation stands now."""
        session = self.session
        turns = await session.turns(limit=1)
        number = turns[-1].number if turns else 0
        at: dict[str, Any] = {"branch": session.branch_name, "turn": number}
        if not self.data(at):
            self.screen.note(f"branch {session.branch_name}, turn {number}", "dim")


async def is_left_behind(desk: Any, run_id: str) -> bool:
    """Return True if a run that has not ended can go on here, without anybody being asked."""
    from artelier.chat.turn.turn_runner import tools_missing

    try:
        status = (await desk.show(run_id))["status"]
    except NotFound:  # it was asked for, and never began
        return True
    return status in _LEFT_BEHIND and not await tools_missing(desk, run_id)
