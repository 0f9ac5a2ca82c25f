"""The loop of `artelier chat`: lines in, turns and answers to slash commands out, until somebody leaves."""

from __future__ import annotations

from typing import Any

from artelier.chat.turn.turn_runner import has_ended
from artelier.cli import exit_codes
from artelier.cli.chat import edit_commands, show_commands
from artelier.cli.chat.chat_options import COMMANDS
from artelier.cli.chat.conversation import Talk, is_left_behind
from artelier.cli.exit_codes import report
from artelier.errors import ArtelierError, Corrupt, InvalidRequest

REGISTERED = (edit_commands, show_commands)
"""The modules whose functions are slash commands."""


class Repl:
    """Reads lines and does what they say."""

    def __init__(self, talk: Talk) -> None:
        self.talk = talk
        self._waiting = ""
        """A run that was found waiting, and is left so."""

    async def go(self) -> int:
        """Until the end of the input; the exit code.

        A script stops at the first turn that is not completed, and at the first error. While a run waits it
        may look, resume and cancel, and says nothing.
        """
        self.talk.interrupts.install()
        code = await self._unfinished()
        while not self.talk.is_over and (code == exit_codes.COMPLETED or self.talk.is_asked):
            self.talk.call.resumable = self.talk.way_back()
            line = await self.talk.lines.next("> ")
            if line is None:
                break
            if line.strip():
                code = await self._heard(line)
        if self.talk.is_asked:
            return exit_codes.COMPLETED
        return code or await self._still_waiting()

    async def _unfinished(self) -> int:
        """A run that a process has left behind is brought to its end first; one that waits is left so."""
        run_id = (await self.talk.session.branch_row()).run
        self._waiting = ""
        if not run_id or await has_ended(self.talk.session.desk, run_id):
            return exit_codes.COMPLETED
        if await is_left_behind(self.talk.session.desk, run_id):
            self.talk.screen.note(f"run {run_id} was not finished; it goes on", "yellow")
            return await self._answered(self.talk.reply("resume"))
        self._waiting = run_id
        await self.talk.tell(run_id)
        return exit_codes.COMPLETED

    async def _still_waiting(self) -> int:
        """The exit code of the run that was found waiting, unless it has ended since."""
        if not self._waiting or await has_ended(self.talk.session.desk, self._waiting):
            return exit_codes.COMPLETED
        run = await self.talk.desk.show(self._waiting)
        return exit_codes.of_status(run["status"])

    async def _heard(self, line: str) -> int:
        """Return what follows from a line: a slash command, or a turn. `//` begins words with one slash."""
        text = line.lstrip()
        if text.startswith("/") and not text.startswith("//"):
            return await self._answered(obey(self.talk, text))
        if not self.talk.is_asked and (code := await self._still_waiting()):
            return code
        return await self._answered(self.talk.reply("generate", line[1:] if text[:2] == "//" else line))

    async def _answered(self, doing: Any) -> int:
        """Errors: those of what is done, unless a person can be told."""
        try:
            return await doing
        except Corrupt:
            raise
        except ArtelierError as error:
            if not self.talk.is_asked:
                raise
            return report(error, as_json=self.talk.call.as_json)


async def obey(talk: Talk, line: str) -> int:
    """Do what a line that begins with a slash says; an exit code.

    Errors: `InvalidRequest` for a command that does not exist, or other words than it takes; its own.
    """
    name, _, rest = line[1:].partition(" ")
    found = COMMANDS.get(name.strip())
    if found is None:
        raise InvalidRequest(
            f"there is no command /{name[:60]}" if name.strip() else "this is no command",
            expected=", ".join(f"/{one}" for one in COMMANDS),
            hint="/help lists the commands; // begins a message with a slash.",
        )
    words = found.split(rest)
    found.check(words)
    return await found.run(talk, *words) or 0
