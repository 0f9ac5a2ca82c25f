"""Chats in files: everything that a chat is, and from the file into another store.

The file is an export of runs (`kernel/export/transfer.py`) that also holds the chat's own stream, the
profiles that its runs worked with, and its lorebooks. Views follow from the events, so nothing is converted.
There its runs are records; the chat goes on. See docs/decisions/0007-exports.md.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import msgspec

from artelier.artifacts import artifact_stream
from artelier.chat.files.chat_file import ChatFile
from artelier.chat.queries.chats import ChatRow, chat_row
from artelier.chat.queries.tree import profiles_used
from artelier.chat.session.settings import StoredChatSettings, check_chat
from artelier.chat.turn.lorebooks import books_of
from artelier.chat.turn.turn_config import LOOP
from artelier.chat.turn.turn_events import session_stream
from artelier.errors import InvalidRequest
from artelier.ids import MAIN_SPACE
from artelier.kernel import Services
from artelier.kernel.export.archive import FORMAT, SIZE_BYTES_MAX, VERSION, Header
from artelier.kernel.export.transfer import KeyStore, StorePart, import_file, write_file
from artelier.kernel.export.writer import streams_of
from artelier.kernel.queries.content import blob_json
from artelier.kernel.queries.runs import runs_between
from artelier.log import Stream

RUNS_MAX = 10_000
"""Of one file: an import holds all their events in memory (guess: 1 GB)."""


class ChatFileContents(msgspec.Struct, frozen=True, kw_only=True):
    """The content of a chat's file."""

    chat_id: str
    runs: tuple[str, ...]
    """Of its turns, with their children and whatever they go on from."""
    profiles: tuple[str, ...]
    events: int
    blobs: int
    sha256: str
    """Of the file without its seal."""


async def export_chat(services: Services, tenant: str, chat: str, path: str | Path) -> ChatFileContents:
    """Write the file, whole or not at all. Errors: see `ChatsHandle.export_chat`."""
    row = await chat_row(services.store, tenant, check_chat(chat))
    position, root = await services.store.root()
    runs = await _runs(services, row, position)
    streams = await streams_of(services, tenant, runs, position=position)
    streams[session_stream(tenant, chat)] = position
    profiles, books = await _artifacts(services, row)
    streams.update((_artifact(tenant, id_), position) for id_ in (*profiles, *books))
    header = Header(
        format=FORMAT,
        version=VERSION,
        tenant=tenant,
        run="",
        chat=chat,
        code=services.code_version,
        position=position,
        head=root.hex(),
    )
    done = await write_file(path, header, [StorePart(services, streams)], belongings=ChatFile(chat))
    return ChatFileContents(
        chat_id=chat,
        runs=done.runs,
        profiles=profiles,
        events=done.events,
        blobs=done.blobs,
        sha256=done.sha256,
    )


def _artifact(tenant: str, id_: str) -> Stream:
    return artifact_stream(tenant, MAIN_SPACE, id_)


async def _runs(services: Services, row: ChatRow, position: int) -> list[str]:
    """Return the runs that had begun at a position. Errors: `InvalidRequest` for more than one file takes."""
    low, high = f"{row.chat}/r", f"{row.chat}/s"
    runs = await runs_between(
        services.store, row.tenant, low, high, loop=LOOP, upto=position, limit=RUNS_MAX + 1
    )
    if len(runs) > RUNS_MAX:
        raise InvalidRequest(
            f"chat {row.chat!r} has more runs than one file takes",
            expected=f"at most {RUNS_MAX}",
            hint="Export the runs that matter one by one.",
        )
    return runs


async def _artifacts(services: Services, row: ChatRow) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Ids of the profiles that its turns worked with, and of the one that it works with now; of lorebooks."""
    stored = await blob_json(services, row.tenant, row.settings)
    named = {*await profiles_used(services.store, row.id), StoredChatSettings.from_stored(stored).profile}
    return (await _there(services, row.tenant, named), await _there(services, row.tenant, books_of(stored)))


async def _there(services: Services, tenant: str, refs: Iterable[str]) -> tuple[str, ...]:
    ids = sorted({ref.partition("@")[0] for ref in refs if ref})
    there = [id_ for id_ in ids if (await services.store.head(_artifact(tenant, id_)))[0]]
    return tuple(there)


async def import_chat(
    services: Services,
    keys: KeyStore,
    tenant: str,
    path: str | Path,
    *,
    size_max_bytes: int = SIZE_BYTES_MAX,
    by: str = "operator",
) -> ChatFileContents:
    """Check the whole file, then append all of it as one batch. Errors: see `ChatsHandle.import_chat`."""
    found = await import_file(
        services,
        keys,
        tenant,
        path,
        size_max_bytes=size_max_bytes,
        by=by,
        about="chat",
        belongings=lambda header: ChatFile(header.chat),
    )
    file = found.belongings
    assert isinstance(file, ChatFile)
    return ChatFileContents(
        chat_id=found.header.chat,
        runs=tuple(sorted(found.runs)),
        profiles=file.profiles,
        events=len(found.drafts),
        blobs=found.blobs,
        sha256=found.sha256,
    )
