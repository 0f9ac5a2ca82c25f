"""`/sessions`: chats with their branches, turns, state and feeds. What is said in them is in `turns.py`.

Values are those that people may see: `internal` and `prompt_only` ones never leave the store here (I9).
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Annotated, Any, BinaryIO

from fastapi import Query, Request
from fastapi.responses import StreamingResponse

from artelier.chat.session.session import Session
from artelier.chat.session.settings import check_chat
from artelier.errors import Conflict
from artelier.ids import fresh_secret
from artelier.server.deps import Actor, Desk, Setup
from artelier.server.routes import resource
from artelier.server.routes.chats.chat_common import chat_shown, feed_of, session_of
from artelier.server.wire.chats import sessions as wire
from artelier.server.wire.models import After, Limit, Page

router = resource("sessions")

TURNS_MAX = 200
CHUNK_BYTES = 256 * 1024

OfBranch = Annotated[str, Query(max_length=64, description="Branch of the chat.")]
Turns = Annotated[int, Query(ge=1, le=TURNS_MAX, description="Turns at most.")]

_FILE: dict[int | str, dict[str, Any]] = {200: {"content": {"application/octet-stream": {}}}}
_BODY = {
    "requestBody": {
        "required": True,
        "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
    }
}


@router.get("", operation_id="sessions_list")
async def list_(desk: Desk, after: After = None, limit: Limit = 100) -> Page[wire.ChatLine]:
    """Chats of the tenant, by id."""
    found = await desk.chats(after=after, limit=limit)
    items = [{"id": one["chat_id"], **one} for one in found["items"]]
    return Page[wire.ChatLine].model_validate({"items": items, "next": found["next"]})


@router.post("", status_code=201, operation_id="sessions_create")
async def create(desk: Desk, actor: Actor, setup: Setup, body: wire.ChatNew) -> wire.ChatShown:
    """Begin a chat; without a model it asks the server's."""
    id = check_chat(body.id if body.id is not None else f"chat-{fresh_secret(4).hex()}")
    if await Session(desk, id, branch="main").exists():
        raise Conflict(f"there is a chat {id} already", hint="PATCH changes its settings.")
    settings = {"model": setup.model, **body.settings()}
    session = await Session.open(
        desk, id, greetings=body.greetings, by=actor, subject=body.subject, **settings
    )
    return await chat_shown(session, before=None, limit=TURNS_MAX)


@router.get("/{id}", operation_id="sessions_show")
async def show(
    desk: Desk,
    id: str,
    branch: OfBranch = "main",
    before: Annotated[int | None, Query(ge=0, le=2**53, description="Only turns before this one.")] = None,
    limit: Turns = 50,
) -> wire.ChatShown:
    """Settings, branches, the newest turns with their variants, state panels and feeds."""
    return await chat_shown(await session_of(desk, id, branch), before=before, limit=limit)


@router.patch("/{id}", operation_id="sessions_change")
async def change(desk: Desk, actor: Actor, id: str, body: wire.ChatWish) -> wire.ChatSettings:
    """Change settings from the next turn on."""
    session = await session_of(desk, id, by=actor)
    await session.change(**body.settings())
    return wire.ChatSettings.model_validate(await session.settings())


@router.get("/{id}/feeds/{tag}", operation_id="sessions_feed")
async def feed(desk: Desk, id: str, tag: str, branch: OfBranch = "main") -> wire.Feed:
    """Earlier values of one artifact, newest first; of a feed its entries."""
    return await feed_of(await session_of(desk, id, branch), tag)


@router.get("/{id}/explain", operation_id="sessions_explain")
async def explain(desk: Desk, id: str, run_id: Annotated[str, Query(max_length=512)]) -> dict[str, Any]:
    """One turn's run: plan, operations with their status, effects, parts of the prompt. No values."""
    return await (await session_of(desk, id)).show(run_id)


# Branches and variants


@router.post("/{id}/branch", status_code=201, operation_id="sessions_branch")
async def branch(desk: Desk, actor: Actor, id: str, body: wire.Branching) -> wire.BranchMade:
    """A new branch that begins with the state after a turn."""
    session = await session_of(desk, id, body.branch, by=actor)
    made = await session.branch(body.name, at_turn=body.at_turn)
    return wire.BranchMade(branch=made.branch_name)


@router.post("/{id}/select", operation_id="sessions_select")
async def select(desk: Desk, actor: Actor, id: str, body: wire.Selecting) -> wire.ChatShown:
    """Go on from another variant of a turn, with its state."""
    session = await session_of(desk, id, body.branch, by=actor)
    await session.select_variant(body.turn, body.variant)
    return await chat_shown(session, before=None, limit=TURNS_MAX)


@router.post("/{id}/rewind", operation_id="sessions_rewind")
async def rewind(desk: Desk, actor: Actor, id: str, body: wire.Rewinding) -> wire.ChatShown:
    """Go on from an earlier turn; what came after it is kept beside it."""
    session = await session_of(desk, id, body.branch, by=actor)
    await session.rewind(body.turn)
    return await chat_shown(session, before=None, limit=TURNS_MAX)


# Sessions of the profile, artifacts


@router.post("/{id}/reset", status_code=201, operation_id="sessions_reset")
async def reset(desk: Desk, actor: Actor, id: str, body: wire.Resetting) -> wire.SessionNow:
    """Begin a new, empty session of the profile; the old values stay, hidden."""
    session = await session_of(desk, id, body.branch, by=actor)
    return wire.SessionNow(session_id=await session.reset(body.session_id))


@router.post("/{id}/reopen", operation_id="sessions_reopen")
async def reopen(desk: Desk, actor: Actor, id: str, body: wire.Reopening) -> wire.SessionNow:
    """Go on with an earlier session of the profile."""
    await (await session_of(desk, id, body.branch, by=actor)).reopen(body.session_id)
    return wire.SessionNow(session_id=body.session_id)


@router.post("/{id}/publish", status_code=201, operation_id="sessions_publish")
async def publish(desk: Desk, actor: Actor, id: str, body: wire.Publishing) -> wire.Published:
    """Make a document of the current value of an artifact that people may see."""
    session = await session_of(desk, id, body.branch, by=actor)
    return wire.Published(ref=await session.publish(body.tag, id=body.id))


# Files


@router.get("/{id}/export", operation_id="sessions_export", response_class=StreamingResponse, responses=_FILE)
async def export(desk: Desk, id: str) -> StreamingResponse:
    """The chat as one verifiable file: branches, turns, artifacts, runs, profiles."""
    with tempfile.TemporaryDirectory(prefix="artelier-") as folder:
        path = Path(folder) / "chat.artelier"
        await desk.export_chat(id, path)
        file = await asyncio.to_thread(path.open, "rb")  # readable after its name is gone
    return StreamingResponse(
        _chunks(file),
        media_type="application/octet-stream",
        headers={"Content-Disposition": f'attachment; filename="{id.replace(":", "_")}.artelier"'},
    )


async def _chunks(file: BinaryIO) -> AsyncIterator[bytes]:
    try:
        while chunk := await asyncio.to_thread(file.read, CHUNK_BYTES):
            yield chunk
    finally:
        file.close()


@router.post("/import", status_code=201, operation_id="sessions_import", openapi_extra=_BODY)
async def import_(desk: Desk, actor: Actor, request: Request) -> wire.CarriedChat:
    """Take a chat out of a file: its runs are records, the chat goes on. Nothing is taken of a broken one."""
    content = await request.body()
    with tempfile.TemporaryDirectory(prefix="artelier-") as folder:
        path = Path(folder) / "chat.artelier"
        await asyncio.to_thread(path.write_bytes, content)
        done = await desk.import_chat(path, by=actor)
    return wire.CarriedChat.model_validate(done)
