"""Routes of chat sessions and their turns."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from io import BytesIO
from pathlib import Path
from typing import Annotated, Any, BinaryIO, Literal

import msgspec
from fastapi import Header, Query, Request
from fastapi import Path as PathParam
from fastapi.responses import Response, StreamingResponse

from artelier.chat.conversation_files import exported_lines
from artelier.chat.foreign_files import ForeignFile, ForeignKind, read_foreign_file, read_portrait
from artelier.chat.session.session import Session
from artelier.chat.session.settings import check_chat, said_text
from artelier.errors import AccessDenied, NotFound
from artelier.ids import OPERATOR, fresh_secret
from artelier.operations.lore.character_import import slug
from artelier.ports.media import ATTACHMENTS_MAX
from artelier.server.background_tasks import Errands, errands_of, let_go
from artelier.server.deps import (
    Actor,
    Desk,
    Live,
    Setup,
    Who,
    attachments_of,
    medium_response,
    reserve_export,
)
from artelier.server.live_hub import PAGE_BYTES, TYPE, EventStream, Hub, beating
from artelier.server.routes import resource
from artelier.server.security.held_bodies import hold_content
from artelier.server.wire import chats as wire
from artelier.server.wire.base import After, AfterNumber, Limit, Page

ENTRIES_MAX = 200
"""Of one feed in one answer: the newest."""


async def session_of(desk: Desk, id: str, branch: str = "main", *, by: str = "") -> Session:
    """One branch of a chat that is there; `by` is who changes it.

    Errors: `NotFound`, `InvalidRequest` for what names none.
    """
    session = Session(desk, check_chat(id), branch=branch)
    await session.branch_row()
    return session.by(by) if by else session


async def start_turn(
    session: Session, errands: Errands, text: str = "", *, trigger: str = "generate", **more: Any
) -> wire.TurnStarted:
    """Ask for a turn and drive it while the answer is on its way.

    Errors: those of `Session.ask`; `TooManyAtOnce`, `QueueFull` before anything is recorded.
    """
    errands.check_room(session.desk.id)
    run_id = await session.ask(text, trigger=trigger, **more)
    drive_turn(session, errands, run_id)
    return wire.TurnStarted(run_id=run_id, branch=session.branch_name)


def drive_turn(session: Session, errands: Errands, run_id: str) -> None:
    """Drive the branch's newest run until it ends or waits for somebody.

    Errors: `Conflict`, `TooManyAtOnce`, `QueueFull`.
    """
    errands.start(("turn", session.desk.id, run_id), session.resume(on_wait="suspend"))


async def chat_shown(session: Session, *, before: int | None, limit: int) -> wire.ChatShown:
    """A chat as its branch shows it, with a page of turns."""
    page = await session.newest_turns(before=before, limit=limit, chars_max=PAGE_BYTES)
    arts = await session.arts()
    feeds = [await feed_of(session, tag) for tag, art in arts.items() if art["append"]]
    return wire.ChatShown.model_validate(
        {
            "id": session.chat_id,
            "branch": session.branch_name,
            "settings": await session.settings(),
            "branches": await session.branches(),
            "turns": page.turns,
            "before": page.before,
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
    settings = {"model": setup.model, **body.settings()}
    session = await Session.open(
        desk, id, greetings=body.greetings, by=actor, subject=body.subject, is_new=True, **settings
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
    return {**await (await session_of(desk, id)).show(run_id)}


@router.get("/{id}/debug", operation_id="sessions_debug")
async def debug(
    desk: Desk, who: Who, id: str, run_id: Annotated[str, Query(max_length=512)]
) -> dict[str, Any]:
    """The same for operators: errors in full, what operations that failed saw, and what the others found."""
    _check_operator(who)
    return {**await (await session_of(desk, id)).show(run_id, internal=True)}


@router.get("/{id}/debug/scope", operation_id="sessions_debug_scope")
async def debug_scope(
    desk: Desk,
    who: Who,
    id: str,
    run_id: Annotated[str, Query(max_length=512)],
    operation: Annotated[str, Query(max_length=200)],
    hook: Literal["", "before_main_llm", "after_main_llm"] = "",
) -> dict[str, Any]:
    """The names that one operation of a turn saw, for operators."""
    _check_operator(who)
    return await (await session_of(desk, id)).scope_of(run_id, operation, hook=hook)


@router.post("/{id}/debug/again", operation_id="sessions_debug_again")
async def debug_again(
    desk: Desk, who: Who, actor: Actor, id: str, body: wire.OperationAgain
) -> wire.OperationTrialShown:
    """Run one operation of a turn again over what it saw, for operators. Nothing of the chat changes."""
    _check_operator(who)
    session = await session_of(desk, id, by=actor)
    trial = await session.run_operation(body.run_id, body.operation_id, hook=body.hook, current=body.current)
    return wire.OperationTrialShown.model_validate(trial)


def _check_operator(who: Who) -> None:
    """Errors: `AccessDenied`."""
    if not who.may("operator"):
        raise AccessDenied("only operators may see this", expected="role operator or admin", got=who.role)


@router.post("/{id}/impersonate", operation_id="sessions_impersonate")
async def impersonate(desk: Desk, actor: Actor, id: str, body: wire.Impersonating) -> wire.DraftShown:
    """Have the model write the person's next message, as a draft. Nothing of the chat changes."""
    session = await session_of(desk, id, body.branch, by=actor)
    return wire.DraftShown.model_validate(await session.impersonate(**body.params.given_fields()))


# Branches and variants


@router.post("/{id}/branch", status_code=201, operation_id="sessions_branch")
async def branch(desk: Desk, actor: Actor, id: str, body: wire.Branching) -> wire.BranchMadeOut:
    """A new branch that begins with the state after a turn."""
    session = await session_of(desk, id, body.branch, by=actor)
    made = await session.branch(body.name, at_turn=body.at_turn, at_run=body.at_run)
    return wire.BranchMadeOut(branch=made.branch_name)


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


# Edits


@router.post("/{id}/revise", operation_id="sessions_revise")
async def revise(desk: Desk, actor: Actor, id: str, body: wire.Revising) -> wire.ChatShown:
    """Change what a message says; the turns after it stay, and later prompts have the new words."""
    session = await session_of(desk, id, body.branch, by=actor)
    await session.revise(body.text, turn=body.turn, role=body.role)
    return await chat_shown(session, before=None, limit=TURNS_MAX)


@router.post("/{id}/hide", operation_id="sessions_hide")
async def hide(desk: Desk, actor: Actor, id: str, body: wire.Hiding) -> wire.ChatShown:
    """Leave messages of a turn out of later prompts, or show them again."""
    session = await session_of(desk, id, body.branch, by=actor)
    await session.hide(turn=body.turn, role=body.role or "", hidden=body.hidden)
    return await chat_shown(session, before=None, limit=TURNS_MAX)


@router.post("/{id}/delete", operation_id="sessions_delete_turn")
async def delete_turn(desk: Desk, actor: Actor, id: str, body: wire.DeletingTurn) -> wire.DeletedTurns:
    """Delete a turn, or one reply of it; the turns after it stay."""
    session = await session_of(desk, id, body.branch, by=actor)
    if body.variant is None:
        done = await session.delete_turn(body.turn)
    else:
        done = await session.delete_variant(body.turn, body.variant)
    return wire.DeletedTurns.model_validate(done)


@router.post("/{id}/delete-branch", operation_id="sessions_delete_branch")
async def delete_branch(desk: Desk, actor: Actor, id: str, body: wire.DeletingBranch) -> wire.DeletedTurns:
    """Delete a branch, with the turns that no other branch shows."""
    done = await (await session_of(desk, id, by=actor)).delete_branch(body.branch)
    return wire.DeletedTurns.model_validate(done)


@router.delete("/{id}", operation_id="sessions_delete")
async def delete(desk: Desk, actor: Actor, id: str) -> wire.DeletedTurns:
    """Delete a chat with its words, its state and the records of its runs; its id is not used again."""
    return wire.DeletedTurns.model_validate(await (await session_of(desk, id, by=actor)).delete_chat())


@router.post("/{id}/label", operation_id="sessions_label")
async def label(desk: Desk, actor: Actor, id: str, body: wire.Labeling) -> wire.Labeling:
    """Give a chat a title, or put it among the archived ones."""
    session = await session_of(desk, id, by=actor)
    if body.title is not None:
        await session.rename(body.title)
    if body.archived is not None:
        await session.archive(body.archived)
    return wire.Labeling(title=await session.title(), archived=bool((await session.row()).archived))


@router.get("/{id}/search", operation_id="sessions_search")
async def search(
    desk: Desk,
    id: str,
    words: Annotated[str, Query(min_length=1, max_length=200)],
    branch: OfBranch = "main",
    limit: Turns = 20,
) -> wire.FoundMessages:
    """Messages of a branch that have some words, in any case; the newest first."""
    found = await (await session_of(desk, id, branch)).search(words, limit=limit)
    return wire.FoundMessages.model_validate({"items": found})


@router.post("/{id}/rerun", status_code=202, operation_id="sessions_rerun")
async def rerun(
    request: Request, desk: Desk, actor: Actor, id: str, body: wire.Rerunning
) -> wire.TurnStarted:
    """Run a turn again, with other words or the same, as a new variant with its own state."""
    session = await session_of(desk, id, body.branch, by=actor)
    return await start_turn(
        session,
        errands_of(request.app),
        body.text,
        trigger="regenerate",
        turn=body.turn,
        speaker=body.speaker,
        deadline_s=body.deadline_s,
        **body.params.given_fields(),
    )


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
async def export(
    desk: Desk,
    id: str,
    branch: OfBranch = "main",
    format: Annotated[
        Literal["artelier", "jsonl"],
        Query(description="`jsonl`: the turns of the branch alone, for other programs."),
    ] = "artelier",
) -> StreamingResponse:
    """The chat as one verifiable file: branches, turns, artifacts, runs, profiles."""
    if format == "jsonl":
        return _download(await exported_lines(await session_of(desk, id, branch)), f"{id}.jsonl")
    await reserve_export()
    with tempfile.TemporaryDirectory(prefix="artelier-") as folder:
        path = Path(folder) / "chat.artelier"
        await desk.export_chat(id, path)
        file = await asyncio.to_thread(path.open, "rb")  # readable after its name is gone
    return _download(_chunks(file), f"{id}.artelier")


def _download(content: AsyncIterator[bytes], name: str) -> StreamingResponse:
    disposition = f'attachment; filename="{name.replace(":", "_")}"'
    return StreamingResponse(
        content, media_type="application/octet-stream", headers={"Content-Disposition": disposition}
    )


async def _chunks(file: BinaryIO) -> AsyncIterator[bytes]:
    try:
        while chunk := await asyncio.to_thread(file.read, CHUNK_BYTES):
            yield chunk
    finally:
        file.close()


IMPORTED_EVENTS_MAX = 30_000
"""Of a chat that one request brings in: they are one commit, 25 us each (measured), for which others wait."""
IMPORTED_BYTES_MAX = 512 * 1024 * 1024
"""Unpacked, which takes some five seconds of a thread: 1 MB of a file may be a gigabyte."""


@router.post("/import", status_code=201, operation_id="sessions_import", openapi_extra=_BODY)
async def import_(desk: Desk, actor: Actor, request: Request) -> wire.CarriedChat:
    """Take a chat out of a file: its runs are records, the chat goes on. Nothing is taken of a broken one."""
    content = await request.body()
    with tempfile.TemporaryDirectory(prefix="artelier-") as folder:
        path = Path(folder) / "chat.artelier"
        await asyncio.to_thread(path.write_bytes, content)
        done = await desk.import_chat(
            path, size_max_bytes=IMPORTED_BYTES_MAX, events_max=IMPORTED_EVENTS_MAX, by=actor
        )
    return wire.CarriedChat.model_validate(done)


FileName = Annotated[str, Query(max_length=200, description="What the file is called.")]


@router.post("/files", status_code=201, operation_id="sessions_begin_with_file", openapi_extra=_BODY)
async def begin_with_file(
    desk: Desk, actor: Actor, setup: Setup, request: Request, name: FileName = ""
) -> wire.ForeignFileTaken:
    """Begin a chat with a file of another program: a card, a lorebook, a persona, a preset, or turns."""
    content = await request.body()
    # In the name in which the chat that is opened below reads them.
    found = await read_foreign_file(desk, content, name=name, by=OPERATOR, user="User", model=setup.model)
    id = f"chat-{fresh_secret(4).hex()}"
    wish = {"model": setup.model, **found.opening()}
    session = await Session.open(desk, id, by=actor, **wish)
    await session.import_turns(list(found.turns))
    return _taken(session, found)


@router.post("/{id}/files", operation_id="sessions_take_file", openapi_extra=_BODY)
async def take_file(
    desk: Desk,
    actor: Actor,
    request: Request,
    id: str,
    branch: OfBranch = "main",
    name: FileName = "",
    as_member: Annotated[bool, Query(description="A character joins the one there is.")] = False,
) -> wire.ForeignFileTaken:
    """Take a file of another program into a chat: it is in force at the next turn."""
    content = await request.body()
    session = await session_of(desk, id, branch, by=actor)
    return _taken(session, await session.import_file(content, name=name, as_member=as_member))


def _taken(session: Session, found: ForeignFile) -> wire.ForeignFileTaken:
    return wire.ForeignFileTaken(
        chat_id=session.chat_id,
        kind=found.kind.value,
        name=found.name,
        turns=len(found.turns),
        warnings=list(found.warnings),
    )


@router.get(
    "/{id}/files", operation_id="sessions_export_file", response_class=StreamingResponse, responses=_FILE
)
async def export_file(
    desk: Desk,
    id: str,
    kind: Annotated[ForeignKind, Query(description="Which of what the chat has.")],
    name: Annotated[
        str, Query(max_length=200, description="A character of a group, or the ref of a lorebook.")
    ] = "",
    branch: OfBranch = "main",
) -> StreamingResponse:
    """A character, lorebook, persona, preset or the turns as a file for other programs."""
    session = await session_of(desk, id, branch)
    if kind is ForeignKind.CHAT:  # it is as long as the chat
        return _download(await exported_lines(session), f"{slug(id)}.jsonl")
    made = await session.export_file(kind, name=name)
    return _download(_chunks(BytesIO(made.content)), made.name)


@router.get(
    "/{id}/portrait",
    operation_id="sessions_portrait",
    response_class=Response,
    responses={200: {"content": {"image/png": {}}}},
)
async def portrait(
    desk: Desk, id: str, name: Annotated[str, Query(max_length=200, description="Of a group.")] = ""
) -> Response:
    """The picture of a character, from its card."""
    content = await read_portrait(await session_of(desk, id), name)
    shown = {"Content-Disposition": 'inline; filename="portrait.png"'}
    return Response(content, media_type="image/png", headers=shown)


@router.get(
    "/{id}/turns/{turn}/media/{number}",
    operation_id="sessions_medium",
    response_class=Response,
    responses={200: {"content": {"application/octet-stream": {}}}},
)
async def medium(
    desk: Desk,
    id: str,
    turn: Annotated[int, PathParam(ge=0, le=2**53)],
    number: Annotated[int, PathParam(ge=1, le=ATTACHMENTS_MAX)],
    branch: OfBranch = "main",
) -> Response:
    """An image, a sound, a PDF or a text that was shown with the words of a turn."""
    session = await session_of(desk, id, branch)
    return medium_response(*await session.read_medium(turn, number, room=hold_content))


RunOf = Annotated[
    str | None, Query(max_length=512, description="A run of the chat: else the newest of the branch.")
]
LastEventId = Annotated[int | None, Header(ge=0, le=2**53)]
_SSE: dict[int | str, dict[str, Any]] = {200: {"description": "Events as they come.", "content": {TYPE: {}}}}


@router.post("/{id}/turns", status_code=202, operation_id="sessions_say")
async def say(request: Request, desk: Desk, actor: Actor, id: str, body: wire.TurnAsk) -> wire.TurnStarted:
    """Say something; the reply is a run."""
    session = await session_of(desk, id, body.branch, by=actor)
    return await start_turn(
        session,
        errands_of(request.app),
        body.text,
        attachments=await attachments_of(desk, actor, body.attachments),
        speaker=body.speaker,
        deadline_s=body.deadline_s,
        **body.params.given_fields(),
    )


@router.post(
    "/{id}/turns/stream",
    status_code=200,
    operation_id="sessions_say_stream",
    response_class=EventStream,
    responses=_SSE,
)
async def say_stream(
    request: Request, desk: Desk, actor: Actor, hub: Live, id: str, body: wire.TurnAsk
) -> EventStream:
    """Say something, and follow the reply. Who leaves early misses it only here: the turn goes on."""
    session = await session_of(desk, id, body.branch, by=actor)
    started = await start_turn(
        session,
        errands_of(request.app),
        body.text,
        attachments=await attachments_of(desk, actor, body.attachments),
        speaker=body.speaker,
        deadline_s=body.deadline_s,
        **body.params.given_fields(),
    )
    return _stream(session, hub, started.run_id, after=0)


@router.post("/{id}/regenerate", status_code=202, operation_id="sessions_regenerate")
async def regenerate(
    request: Request, desk: Desk, actor: Actor, id: str, body: wire.TurnAgain
) -> wire.TurnStarted:
    """Another variant of the newest turn, with the state from before the turn."""
    session = await session_of(desk, id, body.branch, by=actor)
    return await _again(request, session, body, "regenerate")


@router.post("/{id}/speak", status_code=202, operation_id="sessions_speak")
async def speak(
    request: Request, desk: Desk, actor: Actor, id: str, body: wire.TurnAgain
) -> wire.TurnStarted:
    """A new turn without words of the person: a character goes on."""
    session = await session_of(desk, id, body.branch, by=actor)
    return await _again(request, session, body, "speak")


@router.post("/{id}/continue", status_code=202, operation_id="sessions_continue")
async def continue_(
    request: Request, desk: Desk, actor: Actor, id: str, body: wire.TurnAgain
) -> wire.TurnStarted:
    """Extend the selected reply."""
    session = await session_of(desk, id, body.branch, by=actor)
    return await _again(request, session, body, "continue")


async def _again(request: Request, session: Session, body: wire.TurnAgain, trigger: str) -> wire.TurnStarted:
    return await start_turn(
        session,
        errands_of(request.app),
        trigger=trigger,
        speaker=body.speaker,
        deadline_s=body.deadline_s,
        **body.params.given_fields(),
    )


@router.post("/{id}/edit", status_code=202, operation_id="sessions_edit")
async def edit(request: Request, desk: Desk, actor: Actor, id: str, body: wire.Editing) -> wire.TurnStarted:
    """Say a turn in other words, on a new branch that begins before it."""
    session = await session_of(desk, id, body.branch, by=actor)
    text = said_text(body.text)  # before the branch is made
    number = await turn_number(session, body.turn)
    made = await session.branch(body.name, at_turn=number - 1)
    return await start_turn(made, errands_of(request.app), text)


@router.post("/{id}/resume", status_code=202, operation_id="sessions_resume")
async def resume(
    request: Request, desk: Desk, actor: Actor, id: str, body: wire.OnBranch
) -> wire.TurnStarted:
    """Go on with the branch's newest run: after a restart, an approval, a raised budget."""
    session = await session_of(desk, id, body.branch, by=actor)
    run_id, errands = await _newest(session), errands_of(request.app)
    await let_go(errands, ("turn", session.desk.id, run_id), desk, run_id)
    drive_turn(session, errands, run_id)
    return wire.TurnStarted(run_id=run_id, branch=session.branch_name)


@router.post("/{id}/stop", operation_id="sessions_stop")
async def stop(desk: Desk, actor: Actor, id: str, body: wire.Stopping) -> wire.TurnStarted:
    """End the reply that is being written; what was said so far is kept."""
    session = await session_of(desk, id, body.branch, by=actor)
    run_id = await _newest(session)
    await session.cancel(note=body.note)
    return wire.TurnStarted(run_id=run_id, branch=session.branch_name)


@router.get(
    "/{id}/events", operation_id="sessions_events", response_model=Page[wire.RunEventOut], responses=_SSE
)
async def events(
    request: Request,
    desk: Desk,
    hub: Live,
    id: str,
    run_id: RunOf = None,
    branch: Annotated[str, Query(max_length=64)] = "main",
    after: AfterNumber = 0,
    limit: Limit = 200,
    last_event_id: LastEventId = None,
) -> Any:
    """Events of a run of the chat after a seq: a page, or with `Accept: text/event-stream` as they come."""
    session = await session_of(desk, id, branch)
    run = run_id if run_id is not None else await _newest(session)
    start = last_event_id if last_event_id is not None else after
    found = await session.events(run, after=start, limit=limit)  # a run of another chat is none
    if TYPE in request.headers.get("accept", ""):
        return _stream(session, hub, run, after=start)
    following = found[-1].seq if found else None
    return {"items": [one.plain() for one in found], "next": following}


async def _newest(session: Session) -> str:
    """Errors: `NotFound` before the first run of the branch."""
    run_id = (await session.branch_row()).run
    if not run_id:
        raise NotFound(f"branch {session.branch_name} of chat {session.chat_id} has no run yet")
    return run_id


def _stream(session: Session, hub: Hub, run_id: str, *, after: int) -> EventStream:
    frames = _follow(session, run_id, after=after)
    return EventStream(beating(frames, session.desk.services.clock, is_over=lambda: hub.is_closed))


async def _follow(session: Session, run_id: str, *, after: int) -> AsyncGenerator[bytes]:
    """First which run it is, then its events up to its end."""
    yield _frame({"type": "run", "run_id": run_id})
    async with aclosing(session.watch(run_id, after=after)) as items:
        async for one in items:
            yield _frame(one.plain())


def _frame(event: dict[str, Any]) -> bytes:
    """One message; only what is stored has an id to come back to."""
    seq = event.get("seq")
    lead = b"" if seq is None else b"id: %d\n" % seq
    body = msgspec.json.encode(event)
    return lead + b"event: %s\ndata: %s\n\n" % (event["type"].encode(), body)
