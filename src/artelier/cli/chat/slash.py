"""Slash commands: their names, how they are used, and which function does what they say."""

from __future__ import annotations

import shlex
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from artelier.errors import InvalidRequest

if TYPE_CHECKING:
    from artelier.cli.chat.repl import Talk

Body = Callable[..., Awaitable[int | None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Slash:
    """One slash command."""

    name: str
    usage: str
    """Its words: those in brackets may be left out."""
    help: str
    run: Body
    """Called with the `Talk` and the words that were given, all texts."""

    def check(self, words: list[str]) -> None:
        """Errors: `InvalidRequest` for too few words, or too many."""
        wanted = self.usage.split()
        least = sum(not word.startswith("[") for word in wanted)
        if not least <= len(words) <= len(wanted):
            raise InvalidRequest(
                f"usage: {f'/{self.name} {self.usage}'.strip()}", got=" ".join(words)[:200] or "nothing"
            )


COMMANDS: dict[str, Slash] = {}
"""By name, in the order of `/help`."""


def slash(name: str, usage: str = "", *, help: str) -> Callable[[Body], Body]:
    """Register a function as the slash command of that name."""

    def register(body: Body) -> Body:
        COMMANDS[name] = Slash(name=name, usage=usage, help=help, run=body)
        return body

    return register


async def obey(talk: Talk, line: str) -> int:
    """Do what a line that begins with a slash says; an exit code.

    Errors: `InvalidRequest` for a command that does not exist, or other words than it takes; its own.
    """
    from artelier.cli.chat import edit_commands, show_commands  # they register themselves

    del show_commands, edit_commands
    try:
        name, *words = shlex.split(line[1:])
    except ValueError as error:  # also for nothing but a slash
        raise InvalidRequest(
            "this is no command",
            expected="words, in matching quotes if they have spaces",
            got=line[:100],
            hint="/help lists the commands; // begins a message with a slash.",
        ) from error
    found = COMMANDS.get(name)
    if found is None:
        raise InvalidRequest(
            f"there is no command /{name[:60]}",
            expected=", ".join(f"/{one}" for one in COMMANDS),
            hint="// begins a message with a slash.",
        )
    found.check(words)
    return await found.run(talk, *words) or 0


def number(word: str, what: str) -> int:
    """A number that was typed. Errors: `InvalidRequest`."""
    if not word.isascii() or not word.isdigit() or len(word) > 9:
        raise InvalidRequest(f"{what} is a number from 0", got=word[:60])
    return int(word)
