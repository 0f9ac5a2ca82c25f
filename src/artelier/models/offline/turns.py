"""The messages of a request as turns: what is asked, what was said before, what the system text holds.

Volatile facts (clock, balance, retrieved notes) may stand below the last message, after a blank line and a
heading; they are no part of what a person or a tool said. A summary of compacted events is a system message
of its own and is told from the instructions by how it begins.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from artelier.ports.model import ChatMessage

PAST = "Past Events Summary:"
"""How the message begins that takes the place of compacted ones."""

TEXT_CHARS_MAX = 200_000
"""Of a system text; what lies behind is not read."""

_TAIL = re.compile(r"\n[ \t]*\n(?=## [^\n]{1,80}(?:\n|$))")
_REQUEST = re.compile(r"\b(?:question|task|request|goal|query|prompt|instructions?)\b", re.IGNORECASE)
_REPAIR = re.compile(
    r"Your reply (?:does not fit|was empty|was cut off)\b|Not done yet\. Before this can end\b"
)
"""Messages of an agent's loop that ask nothing new."""
_HELD = "Not done yet. Before this can end"
_HEADING = re.compile(r"(#{1,6})\s+(.{1,100}?)\s*#*$|<([A-Za-z][\w -]{0,60})>$|([A-Z][\w '-]{2,60}):$")
_ALONE = re.compile(r"\s*## [^\n]{1,80}\n")


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A headed part of a text."""

    title: str
    lines: tuple[str, ...]


def body_of(text: str) -> str:
    """A message without the volatile facts below it. Cost: linear."""
    said = re.search(r"\S", text)
    for match in _TAIL.finditer(text, said.start() if said else len(text)):
        title = text[match.end() : match.end() + 90].partition("\n")[0]
        if not _REQUEST.search(title):
            return text[: match.start()]
    return text


def tail_of(text: str) -> str:
    """The volatile facts below a message."""
    return text[len(body_of(text)) :]


def asked_at(messages: Sequence[ChatMessage]) -> int:
    """Return where the last message stands in which a person asks something; -1 if nowhere.

    A request to repair a reply that did not fit asks nothing new, and facts that found no message to stand
    below have one of their own.
    """
    users = [at for at, message in enumerate(messages) if message.role == "user"]
    for at in reversed(users):
        text = messages[at].text[:200]
        is_tail = at == len(messages) - 1 and at != users[0] and _ALONE.match(text)
        if not is_tail and not _REPAIR.match(text.lstrip()):
            return at
    return -1


def note_at(messages: Sequence[ChatMessage]) -> int:
    """Return where a note stands that was said in the middle of the work on an earlier question; -1 if
    nowhere.

    What follows an answer is a new question; what follows a tool's result is a note.
    """
    at = asked_at(messages)
    if at <= 0 or messages[at - 1].role not in ("tool", "user"):
        return -1
    return at if any(message.role == "user" for message in messages[:at]) else -1


def held_by(messages: Sequence[ChatMessage]) -> str:
    """Return what an agent's loop says in its last message must happen before the end; or nothing."""
    last = messages[-1] if messages else None
    if last is None or last.role != "user" or not last.text.startswith(_HELD):
        return ""
    return last.text[:2_000]


def is_past(message: ChatMessage) -> bool:
    """Return True if a message stands for compacted ones."""
    return message.role == "system" and message.text[:200].lstrip().startswith(PAST)


def system_texts(messages: Iterable[ChatMessage]) -> list[str]:
    """Return what the system messages say, summaries of the past apart."""
    return [
        message.text[:TEXT_CHARS_MAX]
        for message in messages
        if message.role == "system" and not is_past(message)
    ]


def past_texts(messages: Iterable[ChatMessage]) -> list[str]:
    """The summaries of compacted messages."""
    return [message.text[:TEXT_CHARS_MAX] for message in messages if is_past(message)]


def sections(text: str) -> list[Section]:
    """The headed parts of a text; a part holds those with smaller headings below it. Cost: linear."""
    found: list[tuple[str, list[str]]] = []
    open_parts: list[tuple[int, list[str]]] = []
    for line in text[:TEXT_CHARS_MAX].splitlines():
        match = _HEADING.match(line.strip()) if len(line) <= 200 else None
        depth = len(match[1]) if match and match[1] else 6
        if match is not None:
            open_parts = [part for part in open_parts if part[0] < depth]
        for _, lines in open_parts:
            lines.append(line)
        if match is not None:
            found.append((match[2] or match[3] or match[4], []))
            open_parts.append((depth, found[-1][1]))
    return [Section(title=title, lines=tuple(lines)) for title, lines in found]
