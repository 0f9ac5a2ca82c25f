"""Reads of chats as wholes: their rows, branches, sessions, texts, and turns whose run never began."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple, TypedDict

from artelier.chat.rows import BRANCH, BranchState
from artelier.errors import Erased, NotFound
from artelier.kernel.queries.runs import begun_runs, runs_by_id
from artelier.kernel.run.services import Services
from artelier.log import BlobRef, DataKey, Store, Tx, blob_name, decode_stored, stored_blob
from artelier.log.queries import fetch_all, fetch_column, stream_events
from artelier.operations.events import ReplyPart, TurnAsked

PAGE_MAX = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatRow:
    """A chat as it stands."""

    id: int
    """Row id of its stream."""
    tenant: str
    chat: str
    settings: BlobRef
    runs: int
    branches: int
    opened_us: int
    changed_us: int
    title: str
    """JSON text, as a reference; empty for none."""
    archived: int
    deleted: int


class DeletedChat(NotFound):
    """The chat was deleted; its id is not used again."""


# Chats and branches


async def chat_key(store: Store, tenant: str, chat: str) -> DataKey | None:
    """The key of the subject that a chat is about: that of its settings. None for no subject, or no chat.

    Errors: `Erased` for a chat that was erased; `NotFound` for one that was deleted.
    """
    rows = await store.query(
        "SELECT settings, deleted FROM chats WHERE tenant = ? AND chat = ?", (tenant, chat)
    )
    if not rows:
        return None
    if rows[0][1]:
        raise _deleted_error(chat)
    if await store.key_of(tenant, blob_name(rows[0][0])) is None:
        raise Erased(f"chat {chat!r} was erased", hint="Begin another chat.")
    return await store.subject_key_of(tenant, blob_name(rows[0][0]))


def _deleted_error(chat: str) -> DeletedChat:
    return DeletedChat(f"chat {chat!r} was deleted", hint="Begin a chat of another id.")


async def chat_row(store: Store, tenant: str, chat: str) -> ChatRow:
    """Errors: `NotFound`."""
    names = tuple(ChatRow.__dataclass_fields__)
    rows = await store.query(
        f"SELECT {', '.join(names)} FROM chats WHERE tenant = ? AND chat = ?", (tenant, chat)
    )
    if not rows:
        raise NotFound(
            f"no chat {chat!r} in tenant {tenant!r}", hint="`Session.open` makes one with a model."
        )
    found = ChatRow(**dict(zip(names, rows[0], strict=True)))
    if found.deleted:
        raise _deleted_error(chat)
    return found


def has_chat(tx: Tx, tenant: str, chat: str) -> bool:
    """Return True if a chat has this id, or had it before it was deleted."""
    return tx.one("SELECT 1 FROM chats WHERE tenant = ? AND chat = ?", (tenant, chat)) is not None


async def opened_chats(
    store: Store, tenant: str, *, after: str, before: str, upto_us: int, limit: int
) -> list[str]:
    """Return the chats between two ids, both exclusive, that were opened by a time; the first by id."""
    return await fetch_column(
        store,
        "SELECT chat FROM chats WHERE tenant = ? AND chat > ? AND chat < ? AND opened_us <= ?"
        " ORDER BY chat LIMIT ?",
        (tenant, after, before, upto_us, limit),
    )


class ChatReport(TypedDict):
    """A chat of a list. Reports are dictionaries, because callers index them."""

    chat_id: str
    branches: int
    runs: int
    opened_us: int
    changed_us: int
    archived: bool
    title: str


class ChatPage(TypedDict):
    """A page of chats by id."""

    items: list[ChatReport]
    next: str | None
    """The `after` of the next page; None for the last."""


class BranchReport(TypedDict):
    """A branch of a chat."""

    name: str
    origin: str
    """The branch that it was made of; empty for the first."""
    run_id: str
    """The newest run; empty before the first."""
    status: str
    """Of the newest run; `asked` if it never began."""
    turn: int
    """The number of the newest."""
    is_current: bool
    made_us: int


class SessionReport(TypedDict):
    """A session of a profile in a chat."""

    session_id: str
    runs: int
    begun_us: int | None
    used_us: int | None
    is_current: bool


async def list_chats(store: Store, tenant: str, *, after: str | None, limit: int) -> ChatPage:
    """Return chats by id, archived ones too."""
    limit = max(1, min(limit, PAGE_MAX))
    rows = await store.query(
        "SELECT chat, branches, runs, opened_us, changed_us, archived, title FROM chats"
        " WHERE tenant = ? AND chat > ? AND deleted = 0 ORDER BY chat LIMIT ?",
        (tenant, after or "", limit + 1),
    )
    items: list[ChatReport] = [
        {
            "chat_id": chat,
            "branches": branches,
            "runs": runs,
            "opened_us": opened_us,
            "changed_us": changed_us,
            "archived": bool(is_archived),
            "title": await title_text(store, tenant, title),
        }
        for chat, branches, runs, opened_us, changed_us, is_archived, title in rows[:limit]
    ]
    return {"items": items, "next": items[-1]["chat_id"] if len(rows) > limit else None}


async def newest_turn(store: Store, tenant: str, chat: str) -> int:
    """Return the highest number of a turn that a branch of a chat ends with; 0 before the first."""
    rows = await store.query(
        "SELECT MAX(n.number) FROM chat_branches b JOIN chats c ON c.id = b.chat"
        " JOIN chat_nodes n ON n.chat = b.chat AND n.node = b.head"
        " WHERE c.tenant = ? AND c.chat = ?",
        (tenant, chat),
    )
    return rows[0][0] or 0


async def title_text(store: Store, tenant: str, title: str) -> str:
    """The words of a title; empty for none, `[erased]` if they were."""
    if not title:
        return ""
    return (await texts(store, tenant, [ReplyPart(text=BlobRef(title))], forgiving=True))[0]


async def branches(store: Store, chat: ChatRow) -> list[BranchState]:
    """Return the branches in the order in which they were made."""
    return await fetch_all(
        store, BranchState, f"SELECT {BRANCH} FROM chat_branches WHERE chat = ? ORDER BY n", (chat.id,)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class BranchLine:
    """A branch with where it has come to."""

    name: str
    origin: str
    run: str
    """The newest run; empty if it waits for none."""
    status: str
    """That of the run; `asked` if it never began, empty without one."""
    turn: int
    """Number of the newest turn; 0 if there is none."""
    at_us: int


async def branch_lines(store: Store, chat: ChatRow) -> list[BranchLine]:
    """Return the branches with their newest turn and its run, in the order in which they were made."""
    rows = await store.query(
        "SELECT b.name, b.origin, b.run, coalesce(n.number, 0), b.at_us FROM chat_branches b"
        " LEFT JOIN chat_nodes n ON n.chat = b.chat AND n.node = b.head WHERE b.chat = ? ORDER BY b.n",
        (chat.id,),
    )
    runs = await runs_by_id(store, chat.tenant, [row[2] for row in rows if row[2]])
    return [
        BranchLine(
            name=name,
            origin=origin,
            run=run,
            status=runs[run].status if run in runs else "asked" if run else "",
            turn=turn,
            at_us=at_us,
        )
        for name, origin, run, turn, at_us in rows
    ]


async def branch_of(store: Store, chat: ChatRow, name: str) -> BranchState:
    """Errors: `NotFound` that names the branches there are."""
    rows = await store.query(
        f"SELECT {BRANCH} FROM chat_branches WHERE chat = ? AND name = ?", (chat.id, name)
    )
    if not rows:
        known = ", ".join(one.name for one in (await branches(store, chat))[:20])
        raise NotFound(
            f"chat {chat.chat!r} has no branch {name!r:.100}",
            expected=f"one of {known}",
            hint="session.branch(name) makes one.",
        )
    return BranchState(*rows[0])


# Texts


async def texts(
    store: Store, tenant: str, parts: Iterable[ReplyPart], *, forgiving: bool = False
) -> list[str]:
    """One for each part; if it is `forgiving`, `[erased]` for what was. Errors: `Erased`, else."""
    found: list[str] = []
    for part in parts:
        try:
            found.append(decode_stored(await stored_blob(store, tenant, part.text), type=str))
        except Erased as error:
            if not forgiving:
                raise
            found.append(error.mark)
    return found


async def shown_text(store: Store, tenant: str, parts: Iterable[ReplyPart], *, prompt: bool) -> str:
    """Parts as one text: for a later prompt those that prompts show, for people the text that they see.

    People see `[erased]` where content was. Errors: `Erased` for a prompt.
    """
    chosen = [part for part in parts if (part.prompt if prompt else part.ui and part.channel == "text")]
    found = await texts(store, tenant, chosen, forgiving=not prompt)
    return "\n\n".join(text for text in found if text)


async def speaker_name(store: Store, tenant: str, parts: Iterable[ReplyPart]) -> str:
    """Return the name of who said a message; empty if none is recorded, `[erased]` if it was erased."""
    names = [ReplyPart(text=part.speaker) for part in parts if part.speaker is not None]
    return (await texts(store, tenant, names[:1], forgiving=True))[0] if names else ""


def named_text(name: str, text: str) -> str:
    """Return a message as the prompts of a group show it."""
    return f"{name}: {text}"


# Sessions of profiles


async def own_session(store: Store, chat: int, branch: str, profile: str) -> tuple[str, str] | None:
    """Return the session of a profile that a branch was given, and the standard one at that time;
    None if it was given none."""
    rows = await store.query(
        "SELECT session, standard FROM chat_sessions WHERE chat = ? AND branch = ? AND profile = ?",
        (chat, branch, profile),
    )
    return None if not rows else (rows[0][0], rows[0][1])


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileSession:
    """A session of a profile that a run of the chat, or a person, has begun."""

    session: str
    runs: int
    begun_us: int
    used_us: int


async def profile_sessions(store: Store, chat: int, profile: str) -> list[ProfileSession]:
    """Return the sessions of a profile in a chat, in the order they began."""
    rows = await store.query(
        "SELECT session, runs, begun_us, used_us FROM chat_scopes WHERE chat = ? AND profile = ?"
        " ORDER BY begun_us, session",
        (chat, profile),
    )
    return [
        ProfileSession(session=session, runs=runs, begun_us=begun_us, used_us=used_us)
        for session, runs, begun_us, used_us in rows
    ]


# Turns that never began


RECENT_US = 60_000_000
"""For so long a turn counts as about to begin of which nobody recorded who asked for it (guess)."""


class Unbegun(NamedTuple):
    """A turn for which nobody will begin its run."""

    tenant: str
    chat: str
    branch: str
    run_id: str


async def left_unbegun(
    services: Services, *, tenant: str | None = None, chat: str | None = None, run: str | None = None
) -> list[Unbegun]:
    """Return the turns whose run never began and never will by itself: the process that asked has ended.

    Cost: O(branches of all chats), of one chat those of it.
    """
    where, values = "", list[str]()
    for column, value in (("c.tenant", tenant), ("c.chat", chat), ("b.run", run)):
        if value is not None:
            where, values = f"{where} AND {column} = ?", [*values, value]
    rows = await services.store.query(
        "SELECT c.tenant, c.chat, c.id, b.name, b.run FROM chat_branches b JOIN chats c ON c.id = b.chat"
        f" WHERE b.run <> ''{where} ORDER BY c.id, b.n",
        values,
    )
    begun = {
        owner: await begun_runs(services.store, owner, [row[4] for row in rows if row[0] == owner])
        for owner in {row[0] for row in rows}
    }
    return [
        Unbegun(owner, id_, branch, run_id)
        for owner, id_, stream, branch, run_id in rows
        if run_id not in begun[owner] and await _is_left(services, stream, run_id, is_named=run is not None)
    ]


async def _is_left(services: Services, stream: int, run_id: str, *, is_named: bool) -> bool:
    for row in await stream_events(services.store, stream, TurnAsked.KIND, containing=run_id):
        asked = row.read(TurnAsked)
        if asked.run != run_id:
            continue
        if not asked.process:  # an older history, or a file from elsewhere: begun only by who names it
            return is_named and services.clock.now_us() - row.at_us >= RECENT_US
        return services.dispatches.has_ended(asked.process)
    return False
