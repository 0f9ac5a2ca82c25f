"""The table of slash commands: names, usage, and the functions that register themselves."""

from __future__ import annotations

import io
import shlex
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from artelier.errors import InvalidRequest

_TEXTS = ("TEXT", "WORDS", "VALUE")
"""Names of what a person writes: apostrophes and quotes in it are their own."""

Body = Callable[..., Awaitable[int | None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Slash:
    """One slash command."""

    name: str
    usage: str
    """Its words: those in brackets may be left out; after `...`, any number."""
    help: str
    run: Body
    """Called with the `Talk` and the words that were given, all texts."""

    def split(self, line: str) -> list[str]:
        """Return the words of a line. Text at the end (`WORDS ...`) is one of them, as it was typed.

        Errors: `InvalidRequest` for quotes that do not match.
        """
        *fixed, last = self.usage.split() or [""]
        is_text = last.rstrip("]") == "..." and fixed[-1].lstrip("[") in _TEXTS
        typed = io.StringIO(line)
        reader = shlex.shlex(typed, posix=True)
        reader.whitespace_split, reader.commenters = True, ""
        words: list[str] = []
        try:
            while not (is_text and len(words) == len(fixed) - 1):
                word = reader.get_token()
                if word is None:
                    return words
                words.append(word)
        except ValueError:
            raise InvalidRequest(
                "this is no command",
                expected="words, in matching quotes if they have spaces",
                got=line[:100],
                hint="/help lists the commands; // begins a message with a slash.",
            ) from None
        text = typed.read().strip()
        return [*words, text] if text else words

    def check(self, words: list[str]) -> None:
        """Errors: `InvalidRequest` for too few words, or too many."""
        wanted = self.usage.split()
        is_open = self.usage.rstrip("]").endswith("...")
        wanted = [word for word in wanted if word.strip("[]") != "..."]
        least = sum(not word.startswith("[") for word in wanted)
        if len(words) < least or (len(words) > len(wanted) and not is_open):
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


def number(word: str, what: str) -> int:
    """A number that was typed. Errors: `InvalidRequest`."""
    if not word.isascii() or not word.isdigit() or len(word) > 9:
        raise InvalidRequest(f"{what} is a number from 0", got=word[:60])
    return int(word)
