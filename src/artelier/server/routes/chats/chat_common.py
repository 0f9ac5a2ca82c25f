"""Shared parts of the routes of chats: a branch of a chat, a turn in progress, a chat as data."""

from __future__ import annotations

from typing import Any

from artelier.chat.session.session import Session
from artelier.chat.session.settings import check_chat
from artelier.errors import NotFound
from artelier.server.background_tasks import Errands
from artelier.server.wire.chats import sessions as wire

ENTRIES_MAX = 200
"""Of one feed in one answer: the newest."""


async def session_of(desk: Any, id: str, branch: str = "main", *, by: str = "") -> Session:
    """One branch of a chat that is there; `by` is who changes it.

    Errors: `NotFound`, `InvalidRequest` for what names none.
    """
    session = Session(desk, check_chat(id), branch=branch)
    await session.branch_row()
    return session.by(by) if by else session


async def start_turn(
    session: Session, errands: Errands, text: str = "", *, trigger: str = "generate", **more: Any
) -> wire.TurnStarted:
    """Ask for a turn and drive it while the answer is on its way. Errors: those of `Session.ask`."""
    run_id = await session.ask(text, trigger=trigger, **more)
    drive_turn(session, errands, run_id)
    return wire.TurnStarted(run_id=run_id, branch=session.branch_name)


def drive_turn(session: Session, errands: Errands, run_id: str) -> None:
    """Drive the branch's newest run until it ends or waits for somebody. Errors: `Conflict`, `QueueFull`."""
    errands.start(("turn", session.desk.id, run_id), session.resume(on_wait="suspend"))


async def chat_shown(session: Session, *, before: int | None, limit: int) -> wire.ChatShown:
    """A chat as its branch shows it, with a page of turns."""
    turns = await session.turns(before=before, limit=limit + 1)
    page = turns[-limit:]
    arts = await session.arts()
    feeds = [await feed_of(session, tag) for tag, art in arts.items() if art["append"]]
    return wire.ChatShown.model_validate(
        {
            "id": session.chat_id,
            "branch": session.branch_name,
            "settings": await session.settings(),
            "branches": await session.branches(),
            "turns": page,
            "before": page[0].number if len(turns) > limit else None,
            "panels": [{"tag": tag, "is_feed": art["append"], **art} for tag, art in arts.items()],
            "feeds": feeds,
            "sessions": await session.sessions(),
        }
    )


async def feed_of(session: Session, tag: str) -> wire.Feed:
    """Earlier values of an artifact that people may see. Errors: `NotFound`, also for any other."""
    entries = (await session.history(tag))[:ENTRIES_MAX]
    return wire.Feed.model_validate({"tag": tag, "entries": entries})


async def turn_number(session: Session, number: int) -> int:
    """A turn that the branch has. Errors: `NotFound`."""
    found = (await session.turn(number)).number
    if found == 0:
        raise NotFound("nobody's words are in a greeting", expected="a turn from 1")
    return found
