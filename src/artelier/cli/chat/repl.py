"""A conversation: lines in, turns and answers to slash commands out, until somebody leaves."""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from artelier.chat.turn.turn_runner import has_ended
from artelier.cli import exit_codes
from artelier.cli.call import Call
from artelier.cli.chat.input_lines import Lines
from artelier.cli.chat.interrupts import Interrupts
from artelier.cli.chat.reply import ReplyScreen, facts_of, told
from artelier.cli.error_output import report
from artelier.errors import ArtelierError, Corrupt

if TYPE_CHECKING:
    from artelier.app import Kernel
    from artelier.chat import Session, TurnResult


class Talk:
    """One branch of a chat and the person, or the script, that talks on it."""

    def __init__(self, call: Call, kernel: Kernel, session: Session, lines: Lines) -> None:
        self.call = call
        self.kernel = kernel
        self.session = session
        self.screen = call.screen
        self.is_over = False
        """Set by `/quit`."""
        self._waiting = ""
        """A run that was found waiting, and is left so."""
        self._lines = lines
        self._interrupts = Interrupts()

    @property
    def is_asked(self) -> bool:
        """True if a person types: mistakes are told, and the conversation goes on."""
        return self._lines.is_asked

    async def go(self) -> int:
        """Until the end of the input; the exit code.

        A script stops at the first turn that is not completed, and at the first error. While a run waits it
        may look, resume and cancel, and says nothing.
        """
        self._interrupts.install()
        code = await self._unfinished()
        while not self.is_over and (code == exit_codes.COMPLETED or self.is_asked):
            self.call.resumable = self._way_back()
            line = await self._lines.next("> ")
            if line is None:
                break
            if line.strip():
                code = await self._heard(line)
        if self.is_asked:
            return exit_codes.COMPLETED
        return code or await self._still_waiting()

    def _way_back(self) -> str:
        session = self.session
        branch = () if session.branch_name == "main" else ("--branch", session.branch_name)
        return self.call.command_line("chat", session.chat_id, *branch)

    async def _unfinished(self) -> int:
        """A run that a process has left behind is brought to its end first; one that waits is left so."""
        from artelier.cli.chat.pending_runs import is_left_behind, tell

        run_id = (await self.session.branch_row()).run
        self._waiting = ""
        if not run_id or await has_ended(self.session.desk, run_id):
            return exit_codes.COMPLETED
        if await is_left_behind(self.session.desk, run_id):
            self.screen.note(f"run {run_id} was not finished; it goes on", "yellow")
            return await self._answered(self.reply("resume"))
        self._waiting = run_id
        await tell(self, run_id)
        return exit_codes.COMPLETED

    async def _still_waiting(self) -> int:
        """The exit code of the run that was found waiting, unless it has ended since."""
        if not self._waiting or await has_ended(self.session.desk, self._waiting):
            return exit_codes.COMPLETED
        run = await self.kernel.for_tenant(self.call.tenant).show(self._waiting)
        return exit_codes.of_status(run["status"])

    async def _heard(self, line: str) -> int:
        """Return what follows from a line: a slash command, or a turn. `//` begins words with one slash."""
        text = line.lstrip()
        if text.startswith("/") and not text.startswith("//"):
            from artelier.cli.chat.slash import obey

            return await self._answered(obey(self, text))
        if not self.is_asked and (code := await self._still_waiting()):
            return code
        return await self._answered(self.reply("generate", line[1:] if text[:2] == "//" else line))

    async def _answered(self, doing: Any) -> int:
        """Errors: those of what is done, unless a person can be told."""
        try:
            return await doing
        except Corrupt:
            raise
        except ArtelierError as error:
            if not self.is_asked:
                raise
            return report(error, as_json=self.call.as_json)

    async def reply(self, trigger: str, text: str = "") -> int:
        """Have a turn, and show it; the exit code that its end stands for."""
        from artelier.chat import RunEvent

        self.call.resumable = self._way_back()
        session, reply = self.session, ReplyScreen(self.screen)
        result: TurnResult | None = None
        # Questions of a run are answered by `artelier approve`: it is left waiting.
        items = session.stream(text, trigger=trigger, on_wait="suspend")
        with self._interrupts.during(self._cancel):
            async with aclosing(items) as stream:
                async for item in stream:
                    if isinstance(item, RunEvent):
                        reply.take(item, await self.seen(dict(item.data)))
                    else:
                        result = item
        await self._interrupts.settled()
        assert result is not None, "a stream ends with the result"
        text, facts = await self.seen([result.text, await facts_of(session, result)])
        result = replace(result, text=text)
        if not self.call.as_json:
            reply.end(text)
        told(self.screen, session, result, facts)
        await self._advise(result)
        return exit_codes.of_status(result.status)

    async def _cancel(self) -> None:
        self.screen.note("cancelling the reply; Ctrl-C once more leaves", "yellow")
        await self.session.cancel()

    async def _advise(self, result: TurnResult) -> None:
        """Print how a run that did not end can go on."""
        if result.status in ("completed", "failed", "cancelled") or self.call.as_json:
            return
        from artelier.cli.chat.pending_runs import advise

        await advise(self, result.run_id)

    # What slash commands use

    async def seen(self, value: Any) -> Any:
        """JSON data as whoever sits here may see it: with values, if the tenant's grants allow that.

        The model and the chat have placeholders.
        """
        return await self.session.desk.restored(value)

    def data(self, value: Any) -> bool:
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
