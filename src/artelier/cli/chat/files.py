"""Chats from and to files of other programs, at the command line."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from artelier.cli.display import count
from artelier.cli.screen import Screen
from artelier.errors import NotFound, StoreUnavailable

if TYPE_CHECKING:
    from artelier.chat import Session
    from artelier.chat.chat_interchange import TakenChat

WARNINGS_SHOWN = 20


def is_own_file(file: str) -> bool:
    """Return True for a chat that was exported here whole, which is a gzip file.

    Errors: `NotFound` for no such file.
    """
    if file.lower().endswith(".artelier"):
        return True
    try:
        with Path(file).open("rb") as stream:
            return stream.read(2) == b"\x1f\x8b"
    except OSError:
        raise NotFound("there is no such file", got=file[:200]) from None


async def add(session: Session, chat: TakenChat, *, file: str, screen: Screen) -> None:
    """Add turns that were read from a file."""
    warn(screen, chat.warnings)
    added = await session.import_turns(list(chat.turns))
    screen.note(f"{file}: {count(added, 'turn')} of {chat.user} and {chat.char}", "dim")


def warn(screen: Screen, warnings: tuple[str, ...]) -> None:
    """Print what was changed in or left out of a file."""
    for text in warnings[:WARNINGS_SHOWN]:
        screen.note(f"note: {text}", "yellow")
    if len(warnings) > WARNINGS_SHOWN:
        screen.note(f"note: and {len(warnings) - WARNINGS_SHOWN} more", "yellow")


async def write_turns(session: Session, file: str) -> int:
    """Write the branch as JSONL, whole or not at all; how many turns. Errors: `StoreUnavailable`."""
    from artelier.chat.chat_interchange import export_jsonl

    content = await export_jsonl(session)
    write_file(file, content)
    turns = await session.turns(limit=1)
    return turns[-1].number if turns else 0


def write_file(name: str, content: bytes) -> None:
    """Write a file whole or not at all. Errors: `StoreUnavailable`."""
    file = Path(name)
    draft: str | None = None
    try:
        handle, draft = tempfile.mkstemp(dir=file.parent, prefix=".artelier-")
        with os.fdopen(handle, "wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(draft, file)
    except OSError as error:
        if draft is not None and os.path.exists(draft):
            os.unlink(draft)
        raise StoreUnavailable(f"the file cannot be written: {error.strerror}", got=str(file)) from None
